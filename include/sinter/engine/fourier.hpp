// engine/fourier.hpp: discrete Fourier transforms of rows: what <sinter/fft.hpp> asks of the engine.
#pragma once

#include <cstdint>
#include <string>

#include "../base/config.hpp"
#include "../base/dtype.hpp"
#include "engine.hpp"

namespace sinter::engine {

/// What the sums are multiplied by: nothing, 1 / √n, 1 / n.
enum class fourier_scale : std::uint8_t { none, root, whole };

/// y[k] = scale · Σ x[j]·exp(∓2πi·jk / n), with a minus unless `inverse`.
struct fourier_request {
  bool inverse = false;
  fourier_scale scale = fourier_scale::none;
  bool plain = false;  ///< by the textbook's way: what the fast one is compared with
};

/// Computes it on the host for the rows of (b, n, 2), real and imaginary parts beside each other, of f32 or f64; any n. Further
/// results are room for kernels of a GPU, and stay as they are. (jit/fourier.hpp)
SINTER_API void fourier(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out);

/// The same as CUDA C++, which works in a second result of the first one's shape; `entry` is "sinter_fourier". (jit/fourier.hpp)
SINTER_API std::string fourier_text(const fourier_request& how, dtype type);

/// Whether cuFFT is there; it is looked for at the first call. (jit/fourier.hpp)
SINTER_API bool has_fourier_library();

/// The same by cuFFT on a GPU, in a stream's order, without the scale; n and the number of rows below 2^31. (jit/fourier.hpp)
SINTER_API void fourier_by_library(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out,
                                   void* stream);

}  // namespace sinter::engine

#if !defined(SINTER_COMPILED)
#include "../jit/fourier.hpp"
#endif
