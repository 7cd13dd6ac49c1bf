// engine/fourier.hpp: discrete Fourier transforms of rows, for <sinter/fft.hpp>.
#pragma once

#include <cstdint>
#include <string>

#include "../base/config.hpp"
#include "../base/dtype.hpp"
#include "engine.hpp"

namespace sinter::engine {

/// The factor of the sums: 1, 1 / √n or 1 / n.
enum class fourier_scale : std::uint8_t { none, root, whole };

/// y[k] = scale · Σ x[j]·exp(∓2πi·jk / n), with a minus unless `inverse`.
struct fourier_request {
  bool inverse = false;
  fourier_scale scale = fourier_scale::none;
  bool plain = false;  ///< the textbook method, for comparison
};

/// Transforms on the host the rows of (b, n, 2), with interleaved real and imaginary parts, of f32 or f64, for any n. Further
/// results are work memory for a GPU's kernels, and stay unchanged. (jit/fourier.hpp)
SINTER_API void fourier(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out);

/// The transform as CUDA C++, with a second result of the first one's shape as work memory; `entry` is "sinter_fourier".
/// (jit/fourier.hpp)
SINTER_API std::string fourier_text(const fourier_request& how, dtype type);

/// Whether cuFFT is installed. It is searched at the first call. (jit/fourier.hpp)
SINTER_API bool has_fourier_library();

/// The transform by cuFFT, in a stream's order, without the scale; n and the number of rows are below 2^31. (jit/fourier.hpp)
SINTER_API void fourier_by_library(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out,
                                   void* stream);

}  // namespace sinter::engine

#if !defined(SINTER_COMPILED)
#include "../jit/fourier.hpp"
#endif
