// jit/fourier.hpp: the definitions for engine/fourier.hpp: the code that transforms, on the host and on a GPU.
#pragma once

#include <cmath>
#include <string>

#include "../emit/cuda/fourier.hpp"
#include "../engine/fourier.hpp"
#include "../loops/fourier.hpp"
#include "../run/cuda/program/fft.hpp"

namespace sinter::engine {

namespace detail {

template <class T>
void transform_all(const fourier_request& how, const ir::foreign_array& in, const ir::foreign_array& out) {
  const std::int64_t rows = in.extents[0], n = in.extents[1];
  if (rows == 0 || n == 0) return;
  const double scale = how.scale == fourier_scale::none    ? 1
                       : how.scale == fourier_scale::whole ? 1 / static_cast<double>(n)
                                                           : 1 / std::sqrt(static_cast<double>(n));
  const fourier_loops::task<T> what{
      static_cast<const T*>(in.data), static_cast<T*>(out.data), rows, n, how.inverse ? 1 : 0, static_cast<T>(scale)};
  if (how.plain) fourier_loops::transform_plainly(what);
  else fourier_loops::transform(what);
}

}  // namespace detail

SINTER_API void fourier(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out) {
  if (in[0].type == dtype::f32) detail::transform_all<float>(how, in[0], out[0]);
  else detail::transform_all<double>(how, in[0], out[0]);
}

SINTER_API std::string fourier_text(const fourier_request& how, dtype type) {
  return emit::fourier_source(type, how.inverse, static_cast<int>(how.scale));
}

SINTER_API bool has_fourier_library() { return run::cuda::fft().found; }

SINTER_API void fourier_by_library(const fourier_request& how, ir::foreign_arrays in, ir::foreign_arrays out,
                                   void* stream) {
  const std::int64_t rows = in[0].extents[0], n = in[0].extents[1];
  if (rows == 0 || n == 0) return;
  run::cuda::transform_by_library(in[0].type == dtype::f64, how.inverse, rows, n, in[0].data, out[0].data, stream);
}

}  // namespace sinter::engine
