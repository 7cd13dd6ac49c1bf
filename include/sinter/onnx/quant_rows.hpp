// onnx/quant_rows.hpp: quantised operators, and formats without a dtype.
#pragma once

#include "rnn_rows.hpp"

namespace sinter::onnx::rows {

/// A scale or zero point along an axis of x, or along blocks of the axis.
inline node along_axis(const node& s, const extents& x, int axis, std::int64_t block) {
  if (s.rank() == 0 || (s.rank() == 1 && size_of_axis(s, 0) == 1 && x.size() != 1)) return reshape_to(s, {});
  if (block > 0 && s.rank() == static_cast<int>(x.size())) {
    const auto a = static_cast<std::size_t>(axis);
    extents apart = extents_of(s), wide = apart, whole = apart;
    apart.insert(apart.begin() + axis + 1, dim(1));
    wide.insert(wide.begin() + axis + 1, dim(block));
    whole[a] = whole[a] * block;
    return sliced(reshape_to(broadcast_to(reshape_to(s, apart), wide), whole), axis, 0, x[a]);
  }
  if (s.rank() != 1) return s;
  extents e(x.size(), dim(1));
  e[static_cast<std::size_t>(axis)] = size_of_axis(s, 0);
  return reshape_to(s, e);
}

struct integer_range {
  std::int64_t low = 0, high = 0;
};
inline std::optional<integer_range> range_of_format(int format) {
  switch (format) {
    case 2:
      return integer_range{0, 255};
    case 3:
      return integer_range{-128, 127};
    case 4:
      return integer_range{0, 65535};
    case 5:
      return integer_range{-32768, 32767};
    case 6:
      return integer_range{INT32_MIN, INT32_MAX};
    case 21:
      return integer_range{0, 15};
    case 22:
      return integer_range{-8, 7};
    case 25:
      return integer_range{0, 3};
    case 26:
      return integer_range{-2, 1};
    default:
      return std::nullopt;
  }
}

/// A narrow float: bits of the mantissa, the least exponent of a normal number, the largest value.
struct narrow_float {
  int mantissa = 0, least = 0;
  double most = 0;
  bool has_nan = false;
};
inline std::optional<narrow_float> float_format(int format) {
  switch (format) {
    case 18:
      return narrow_float{3, -7, 240, true};
    case 20:
      return narrow_float{2, -15, 57344, true};
    case 23:
      return narrow_float{1, 0, 6, false};
    default:
      return std::nullopt;
  }
}
/// The largest power of two that is at most |x|, in f64. x is finite and not 0.
inline node power_below(const node& x) {
  const node a = pointwise(op::abs, x);
  node e = pointwise(op::floor, pointwise(op::log2, a));
  node p = pointwise(op::exp2, e);
  p = choose(pointwise(op::gt, p, a), p * 0.5, p);
  return choose(pointwise(op::le, p * 2.0, a), p * 2.0, p);
}
/// x, in f64, rounded to a narrow float.
inline node rounded_to(const node& x, const narrow_float& f, bool saturate) {
  const node bad = pointwise(op::bit_or, pointwise(op::isnan, x), pointwise(op::isinf, x));
  const node zero = ir::eq(x, 0.0);
  const node usual = choose(pointwise(op::bit_or, bad, zero), constant(x.type(), 1), x);
  const node p = ir::maximum(power_below(usual), std::ldexp(1.0, f.least));
  const node step = p * std::ldexp(1.0, -f.mantissa);
  node r = ir::round(usual / step) * step;
  const node nan = constant(x.type(), std::numeric_limits<double>::quiet_NaN(), extents_of(x));
  const node beyond = pointwise(op::gt, pointwise(op::abs, r), constant(x.type(), f.most));
  const node edge = pointwise(op::sign, r) * f.most;
  r = choose(beyond, saturate || !f.has_nan ? edge : nan, r);
  const node at_infinity = saturate || !f.has_nan ? pointwise(op::sign, x) * f.most : nan;
  r = choose(pointwise(op::isinf, x), at_infinity, r);
  r = choose(pointwise(op::isnan, x), f.has_nan ? nan : constant(x.type(), 0, extents_of(x)), r);
  return choose(zero, constant(x.type(), 0), r);
}
/// x rounded to a power of two, because e8m0 holds only powers of two.
inline node power_of_two(const node& x, const std::string& how, bool saturate) {
  const node a = pointwise(op::abs, x);
  const node p =
      power_below(choose(pointwise(op::bit_or, ir::eq(a, 0.0), pointwise(op::bit_not, pointwise(op::isfinite, a))),
                         constant(a.type(), 1), a));
  node r = p;
  if (how == "up") r = choose(pointwise(op::lt, p, a), p * 2.0, p);
  if (how == "nearest") r = choose(pointwise(op::ge, a, p * 1.5), p * 2.0, p);
  const double most = std::ldexp(1.0, 127), least = std::ldexp(1.0, -127);
  const node nan = constant(x.type(), std::numeric_limits<double>::quiet_NaN(), extents_of(x));
  r = ir::maximum(r, least);
  r = choose(ir::gt(r, most), saturate ? constant(x.type(), most, extents_of(x)) : nan, r);
  r = choose(pointwise(op::isinf, x), saturate ? constant(x.type(), most, extents_of(x)) : nan, r);
  r = choose(ir::eq(a, 0.0), constant(x.type(), least), r);
  return choose(pointwise(op::isnan, x), nan, r);
}

/// The dtype that holds the elements of a format.
inline dtype carrier_of(int format) {
  if (const auto t = dtype_of_onnx(format)) return *t;
  switch (format) {
    case 21:
    case 25:
      return dtype::u8;
    case 22:
    case 26:
      return dtype::i8;
    case text_format:
      return dtype::i64;
    default:
      return dtype::f32;
  }
}
inline void give_format(call& c, std::size_t k, const node& v, int format) {
  item r;
  r.x = dynamic_tensor::of_node(v.id());
  r.format = dtype_of_onnx(format) ? 0 : format;
  c.give(k, std::move(r));
}
/// x converted to a format as Cast does it. Integers of 4 and 2 bits keep the low bits.
inline node in_format(call& c, const node& x, int format, bool saturate, const std::string& how) {
  if (const auto t = dtype_of_onnx(format)) return cast_by(x, *t, saturate);
  const node wide_x = to_type(x, dtype::f64);
  if (const auto f = float_format(format)) return to_type(rounded_to(wide_x, *f, saturate), dtype::f32);
  if (format == 24) return to_type(power_of_two(wide_x, how, saturate), dtype::f32);
  const auto range = range_of_format(format);
  if (!range || format == 8 || format == 14 || format == 15)
    c.refuse(std::string("its result is ") + name_of_onnx(format) +
             ", which no tensor holds; let the model end before it");
  const node whole = to_type(x, dtype::i64);
  const node count = integer(range->high - range->low + 1);
  const node low_bits = pointwise(op::bit_and, whole, count - 1.0);
  return to_type(choose(pointwise(op::gt, low_bits, integer(range->high)), minus(low_bits, count), low_bits),
                 carrier_of(format));
}
inline void cast_row(call& c) {
  const int to = c.format_named("to", 0);
  give_format(c, 0, in_format(c, c.x(0), to, c.i("saturate", 1) != 0, c.s("round_mode", "up")), to);
}
inline int format_of(const item& x) {
  if (x.format) return x.format;
  for (int k = 1; k < 28; ++k)
    if (dtype_of_onnx(k) == x.type()) return k;
  return 1;
}
inline void cast_like_row(call& c) {
  const int to = format_of(c.given(1));
  give_format(c, 0, in_format(c, c.x(0), to, c.i("saturate", 1) != 0, c.s("round_mode", "up")), to);
}

/// Integers clamped to a range.
inline node clipped_to(const node& x, const integer_range& range) {
  const auto end = [&](std::int64_t v) { return constant_of(x.type(), {0, v}); };
  return pointwise(op::minimum, pointwise(op::maximum, x, end(range.low)), end(range.high));
}
/// round(x / scale) + zero point, saturated to a format.
inline node quantized(call& c, const node& x, const node& scale, const node& zero, int format, bool saturate) {
  const node ratio = over(x, scale);
  if (const auto range = range_of_format(format)) {
    // Zero points are added to whole numbers, because narrow floats cannot hold the sums, and f32 cannot hold the ends of i32.
    const dtype work = format == 6 ? dtype::i64 : dtype::i32;
    const double far = format == 6 ? 0x1p34 : 0x1p20;
    const node r = wide(ir::round(ratio));
    node y = to_type(choose(pointwise(op::isnan, r), constant(r.type(), 0), clipped(r, -far, far)), work);
    if (zero) y = plus(y, to_type(zero, work));
    return to_type(clipped_to(y, *range), carrier_of(format));
  }
  return in_format(c, zero ? plus(ratio, to_type(zero, ratio.type())) : ratio, format, saturate, "up");
}
inline void quantize(call& c) {
  node x = c.x(0);
  const extents e = extents_of(x);
  const int axis =
      e.empty() ? 0 : axis_of(c.i("axis", 1) >= static_cast<std::int64_t>(e.size()) ? -1 : c.i("axis", 1), x.rank());
  const std::int64_t block = c.i("block_size", 0);
  int format = static_cast<int>(c.i("output_dtype", 0));
  node zero;
  if (c.has(2)) {
    format = format_of(c.in[2]);
    zero = along_axis(c.x(2), e, axis, block);
  }
  if (format == 0) format = 2;
  node scale = along_axis(c.x(1), e, axis, block);
  if (!is_float(x.type())) x = to_type(x, dtype::f32);
  if (c.i("precision", 0) != 0) x = to_type(x, c.type_named("precision", 0));
  scale = to_type(scale, x.type());
  give_format(c, 0, quantized(c, x, scale, zero, format, c.i("saturate", 1) != 0), format);
}
inline void dequantize(call& c) {
  const extents e = c.shape(0);
  const int axis =
      e.empty() ? 0 : axis_of(c.i("axis", 1) >= static_cast<std::int64_t>(e.size()) ? -1 : c.i("axis", 1), c.rank(0));
  const std::int64_t block = c.i("block_size", 0);
  const node scale = along_axis(c.x(1), e, axis, block);
  node x = c.x(0);
  const dtype type = scale.type();
  if (c.has(2)) {
    const node zero = along_axis(c.x(2), e, axis, block);
    if (is_float(x.type())) x = minus(to_type(x, dtype::f32), to_type(zero, dtype::f32));
    else x = minus(to_type(x, dtype::i64), to_type(zero, dtype::i64));
  }
  const node y = times(to_type(x, is_narrow(type) ? dtype::f32 : type), wide(scale));
  c.give(to_type(y, c.i("output_dtype", 0) ? c.type_named("output_dtype", 0) : type));
}
/// x in 8 bits, by the range of its elements and 0.
struct ranged_bytes {
  node y, scale, zero;  ///< y and zero are whole numbers in x's dtype
};
inline ranged_bytes bytes_by_range(const node& x) {
  const auto axes = all_axes(x.rank());
  const node high = ir::maximum(reduced(op::maximum, x, axes, false), 0.0),
             low = ir::minimum(reduced(op::minimum, x, axes, false), 0.0);
  const node width = (high - low) / 255.0;
  const node scale = choose(ir::eq(width, 0.0), constant(width.type(), 1), width);
  const node zero = ir::round(clipped(-low / scale, 0, 255));
  return {clipped(plus(ir::round(over(x, scale)), zero), 0, 255), scale, zero};
}
inline void dynamic_quantize(call& c) {
  const ranged_bytes b = bytes_by_range(c.x(0));
  c.give(0, to_type(b.y, dtype::u8));
  c.give(1, b.scale);
  c.give(2, to_type(b.zero, dtype::u8));
}
/// a - zero point as i32. The zero point is a number, or a number for each row (a) or column (b).
inline node centred(const node& a, const node& zero, bool rows) {
  const node x = to_type(a, dtype::i32);
  if (!zero) return x;
  node z = to_type(zero, dtype::i32);
  if (z.rank() == 1 && size_of_axis(z, 0) == 1) z = reshape_to(z, {});
  else if (z.rank() == 1 && a.rank() >= 2)
    z = reshape_to(z, rows ? extents{size_of_axis(z, 0), dim(1)} : extents{dim(1), size_of_axis(z, 0)});
  return minus(x, z);
}
inline void matmul_integer(call& c) {
  const node az = c.has(2) ? c.x(2) : node(), bz = c.has(3) ? c.x(3) : node();
  c.give(product(centred(c.x(0), az, true), centred(c.x(1), bz, false)));
}
inline integer_range integer_range_of(call& c, int format) {
  const auto range = range_of_format(format);
  if (!range) c.refuse(std::string("its zero point is ") + name_of_onnx(format) + ", of which nothing is quantised");
  return *range;
}
/// Whole numbers in f64, saturated to a range. f64 holds all 32-bit integers.
inline node saturated(const node& y, const integer_range& range, int format) {
  return to_type(clipped(y, static_cast<double>(range.low), static_cast<double>(range.high)), carrier_of(format));
}
inline void qlinear_matmul(call& c) {
  const node a = centred(c.x(0), c.x(2), true), b = centred(c.x(3), c.x(5), false);
  const node sums = to_type(product(a, b), dtype::f64);
  const auto real = [](const node& s) {
    return to_type(s.rank() == 1 && size_of_axis(s, 0) == 1 ? reshape_to(s, {}) : s, dtype::f64);
  };
  node as = real(c.x(1));
  if (as.rank() == 1) as = reshape_to(as, {size_of_axis(as, 0), dim(1)});
  const node y = over(times(times(sums, as), real(c.x(4))), real(c.x(6)));
  const int format = format_of(c.given(7));
  const integer_range range = integer_range_of(c, format);
  c.give(saturated(plus(ir::round(y), to_type(c.x(7), dtype::f64)), range, format));
}
inline void qlinear_conv(call& c) {
  const extents ex = c.shape(0), ew = c.shape(3);
  check_channels(c, ex, ew);
  const auto w = places_of_windows(c, ex.from(2), kernel_of(c, ew), false);
  const auto by_output = [&](const node& s, std::size_t axis) {
    if (s.rank() == 0 || size_of_axis(s, 0) == 1) return reshape_to(s, {});
    extents e(ew.size(), dim(1));
    e[axis] = size_of_axis(s, 0);
    return reshape_to(s, e);
  };
  const node x = minus(to_type(c.x(0), dtype::i32), to_type(by_output(c.x(2), 1), dtype::i32));
  const node k = minus(to_type(c.x(3), dtype::i32), to_type(by_output(c.x(5), 0), dtype::i32));
  node sums = convolve(x, k, w, c.i("group", 1));
  if (c.has(8)) sums = plus(sums, by_channel(to_type(c.x(8), dtype::i32), sums.rank()));
  const node scale = over(times(to_type(by_output(c.x(1), 1), dtype::f64), to_type(by_output(c.x(4), 1), dtype::f64)),
                          to_type(by_output(c.x(6), 1), dtype::f64));
  const int format = format_of(c.given(7));
  const integer_range range = integer_range_of(c, format);
  const node y = plus(ir::round(times(to_type(sums, dtype::f64), scale)), to_type(by_output(c.x(7), 1), dtype::f64));
  c.give(saturated(y, range, format));
}

inline const row quantised[] = {
    {"Cast", "", 1, cast_row, "cast; narrow formats by rounding"},
    {"CastLike", "", 1, cast_like_row, "cast; narrow formats by rounding"},
    {"DequantizeLinear", "", 1, dequantize, "sub, mul"},
    {"DynamicQuantizeLinear", "", 1, dynamic_quantize, "max, min, round"},
    {"MatMulInteger", "", 1, matmul_integer, "matmul of i32"},
    {"QLinearConv", "", 1, qlinear_conv, "conv of i32"},
    {"QLinearMatMul", "", 1, qlinear_matmul, "matmul of i32"},
    {"QuantizeLinear", "", 1, quantize, "div, round, clamp"},
};

}  // namespace sinter::onnx::rows
