// onnx/fourier_rows.hpp: DFT and STFT.
#pragma once

#include "../fft/steps.hpp"
#include "elementwise.hpp"

namespace sinter::onnx::rows {

/// Transforms of (…, n, 2) along n; an inverse divides by n. The transform is in f64, which keeps the errors of zero elements
/// within ONNX's tolerance.
inline node transformed(const node& x, bool inverse) {
  const extents e = extents_of(x);
  const dim n = e[e.size() - 2];
  const node flat = reshape_to(x, {product_of(e, 0, e.size() - 2), n, 2});
  engine::fourier_request how;
  how.inverse = inverse;
  how.scale = inverse ? engine::fourier_scale::whole : engine::fourier_scale::none;
  const auto rows = dynamic_tensor::of_node(flat.id()).as<tensor<double, 3>>(place_of_nodes());
  return reshape_to(value_of(dynamic_tensor(fft::steps::transform(rows, how, place_of_nodes())).node(place_of_nodes())),
                    e);
}

/// Real numbers as complex numbers.
inline node with_imaginary(const node& x) {
  extents e = extents_of(x);
  return e.back() == 2 ? x : joined({x, constant(x.type(), 0, e)}, x.rank() - 1);
}

/// The first `count` elements of an axis, with zeros behind them if the axis is shorter.
inline node resized(const node& x, int axis, dim count) {
  const auto a = static_cast<std::size_t>(axis);
  extents e = extents_of(x);
  if (e[a] == count) return x;
  if (count < e[a]) return sliced(x, axis, 0, count);
  extents zeros(e.size(), dim(0)), behind = zeros;
  behind[a] = count - e[a];
  return padded(x, zeros, behind, 0);
}

/// The transform of n real numbers from its first n / 2 + 1 elements. The other elements are their conjugates in reverse.
inline node completed(const node& x, int axis, dim n) {
  const dim m = size_of_axis(x, axis);
  if (n - m <= 0) return x;
  const node tail = flipped(sliced(x, axis, 1, n - m), axis);
  const int last = tail.rank() - 1;
  return joined({x, joined({sliced(tail, last, 0, 1), -sliced(tail, last, 1, 1)}, last)}, axis);
}

inline void dft(call& c) {
  const bool inverse = c.i("inverse", 0) != 0, one_side = c.i("onesided", 0) != 0;
  std::optional<dim> length;
  if (c.has(1)) length = c.sizes(1).at(0);
  std::int64_t at = c.version < 20 ? c.i("axis", 1) : -2;
  if (c.version >= 20 && c.has(2)) at = c.integers(2).at(0);
  node x = with_imaginary(to_type(c.x(0), dtype::f64));
  const int axis = axis_of(at, x.rank()), beside = x.rank() - 2;
  if (axis > beside) c.refuse("along the axis of the parts");
  std::vector<int> turn(static_cast<std::size_t>(x.rank()));
  for (int i = 0; i < x.rank(); ++i) turn[static_cast<std::size_t>(i)] = i;
  std::swap(turn[static_cast<std::size_t>(axis)], turn[static_cast<std::size_t>(beside)]);
  x = permuted(x, turn);
  if (inverse && one_side) {
    const dim m = size_of_axis(x, beside), n = length ? *length : 2 * (m - 1);
    if (n < 1) c.refuse("an inverse of one side of length " + n.text());
    x = completed(resized(x, beside, n / 2 + 1), beside, n);
    x = sliced(transformed(x, true), beside + 1, 0, 1);
  } else {
    if (length) x = resized(x, beside, *length);
    const dim n = size_of_axis(x, beside);
    x = transformed(x, inverse);
    if (one_side) x = sliced(x, beside, 0, n / 2 + 1);
  }
  c.give(to_type(permuted(x, turn), c.type(0)));
}

inline void stft(call& c) {
  const std::int64_t step = c.integers(1).at(0);
  const bool one_side = c.i("onesided", 1) != 0;
  const node x = with_imaginary(to_type(c.x(0), dtype::f64));
  const extents e = extents_of(x);
  if (e.size() != 3) c.refuse("of another rank than 3");
  const dim length = c.has(3) ? c.sizes(3).at(0) : c.has(2) ? c.shape(2).at(0) : e[1];
  if (step < 1 || length < 1 || length > e[1]) c.refuse("with a frame that does not fit the signal");
  const extents grid{(e[1] - length) / step + 1, length};
  const node places = plus(times(iota(dtype::i64, grid, 0), integer(step)), iota(dtype::i64, grid, 1));
  node cut = taken(x, places, 1);
  if (c.has(2)) cut = times(cut, reshape_to(to_type(c.x(2), x.type()), {1, 1, length, 1}));
  node y = transformed(cut, false);
  if (one_side) y = sliced(y, 2, 0, length / 2 + 1);
  c.give(to_type(y, c.type(0)));
}

inline const row fouriers[] = {
    {"DFT", "", 1, dft, "fft"},
    {"STFT", "", 1, stft, "gather, fft"},
};

}  // namespace sinter::onnx::rows
