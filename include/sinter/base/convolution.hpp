// base/convolution.hpp: a convolution, or one of its two gradients, as a library computes it.
#pragma once

#include <array>
#include <cstdint>

#include "dtype.hpp"

namespace sinter::engine {

/// The array that is computed from the other two: the result, the image (its gradient) or the weights (theirs).
enum class convolution_kind : std::uint8_t { result, image, weights };

/// The function applied to a result before it is stored, after adding a number for each channel.
enum class convolution_epilogue : std::uint8_t { none, bias, relu, bias_relu };

inline constexpr bool has_bias(convolution_epilogue e) {
  return e == convolution_epilogue::bias || e == convolution_epilogue::bias_relu;
}
inline constexpr bool has_relu(convolution_epilogue e) {
  return e == convolution_epilogue::relu || e == convolution_epilogue::bias_relu;
}

/// Extents and distances of an array's axes, in elements.
struct convolution_array {
  static constexpr std::size_t max_axes = 5;
  std::array<std::int64_t, max_axes> extents{}, strides{};
  bool operator==(const convolution_array&) const = default;
};

/// result(n, o, p…) = Σ image(n, c, p·step + t·dilation - low…) weights(o, c, t…), with 0 outside of the image. Axes are in this
/// order: images, channels, then places of the image and the result; outputs, inputs of a group, then taps of the weights.
struct convolution {
  convolution_kind kind = convolution_kind::result;
  convolution_epilogue after = convolution_epilogue::none;  ///< only of a result
  dtype type = dtype::f32;     ///< of the two arrays that are read; sums are in f32, or f64
  dtype written = dtype::f32;  ///< of the array that is written, and of the bias
  int spatial = 2;             ///< 2 or 3
  std::int64_t groups = 1;
  convolution_array image, weights, result;
  std::array<std::int64_t, 3> step{1, 1, 1}, dilation{1, 1, 1}, low{}, high{};  ///< `low` and `high` are rows of zeros
  bool tf32 = false;                                                            ///< f32 operands may be rounded to tf32
  bool deterministic = false;  ///< the order of sums is the same in each call
  bool operator==(const convolution&) const = default;
};

/// The elements from an array's first one to its last one.
inline std::int64_t reach_of(const convolution_array& x, int spatial) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(spatial) + 2; ++d) {
    if (x.extents[d] == 0) return 0;
    last += (x.extents[d] - 1) * x.strides[d];
  }
  return last + 1;
}

}  // namespace sinter::engine
