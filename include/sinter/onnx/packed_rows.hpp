// onnx/packed_rows.hpp: com.microsoft's operators of quantised values: weights of a few bits, and operators between 8-bit values.
#pragma once

#include "head_rows.hpp"
#include "quant_rows.hpp"

namespace sinter::onnx::rows {

/// The unsigned integers of `bits` bits that lie in bytes along the last axis, low bits first.
inline node unpacked_bits(const node& x, std::int64_t bits) {
  if (bits == 8) return x;
  extents e = extents_of(x), whole = e;
  whole.back() = whole.back() * (8 / bits);
  e.push_back(1);
  const node bytes = reshape_to(x, e);
  e.back() = 8 / bits;
  const node shift = iota(dtype::u8, e, static_cast<int>(e.size()) - 1) * static_cast<double>(bits);
  const node parts = pointwise(op::shr, broadcast_to(bytes, e), shift);
  return reshape_to(pointwise(op::bit_and, parts, constant(dtype::u8, static_cast<double>((1 << bits) - 1))), whole);
}
inline std::int64_t bits_of(call& c) {
  const std::int64_t bits = c.i("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    c.refuse("its weights have " + std::to_string(bits) + " bits; 2, 4 and 8 are supported");
  return bits;
}

/// The extents of MatMulNBits: n columns of k weights, in blocks.
struct packed_weights {
  std::int64_t k, n, block, bits, blocks;

  explicit packed_weights(call& c)
      : k(c.i("K", 0)), n(c.i("N", 0)), block(c.i("block_size", 0)), bits(bits_of(c)), blocks(0) {
    constexpr std::int64_t most = 1 << 30;
    if (k < 1 || n < 1 || k > most || n > most || block < 8 || block > 1 << 20)
      c.refuse("its K, N or block_size are not given, or no sizes");
    blocks = (k + block - 1) / block;
  }
  /// A zero for each block, (n, blocks, 1); `type` is the dtype of the weights.
  node zeros(call& c, dtype type) const {
    if (!c.has(3)) return constant(type, static_cast<double>(1 << (bits - 1)));
    const node z = c.x(3);
    if (is_float(z.type())) return to_type(reshape_to(z, {n, blocks, 1}), type);
    const dim row = (blocks * bits + 7) / 8;
    return to_type(unsqueezed(sliced(unpacked_bits(reshape_to(z, {n, row}), bits), 1, 0, blocks), {2}), type);
  }
  /// The weights (n, blocks, block) by `type`.
  node by_blocks(call& c, dtype type) const {
    const node whole = to_type(unpacked_bits(reshape_to(c.x(1), {n, blocks, block * bits / 8}), bits), type);
    return times(minus(whole, zeros(c, type)), to_type(reshape_to(c.x(2), {n, blocks, 1}), type));
  }
  /// The weights (n, k), whose columns lie in the order of their groups: input 4 has the block of each.
  node by_group(call& c, dtype type) const {
    const node whole = to_type(unpacked_bits(reshape_to(c.x(1), {n, blocks * block * bits / 8}), bits), type);
    const node group = sliced(to_type(c.x(4), dtype::i64), 0, 0, k), zero = zeros(c, type);
    const auto of_group = [&](const node& s) { return taken(reshape_to(s, {n, blocks}), group, 1); };
    const node centre = zero.rank() == 0 ? zero : of_group(zero);
    return times(minus(sliced(whole, 1, 0, k), centre), to_type(of_group(c.x(2)), type));
  }
};
/// The most rows that are multiplied as sums. A product would first store its weights as floats.
inline constexpr std::int64_t few_rows = 4;

/// a (rows, k) by the weights, as sums in a loop that reads packed bytes. Each byte meets the elements of a for its parts.
inline node sums_of_bytes(call& c, const node& a, const packed_weights& w) {
  const dim rows = size_of_axis(a, 0);
  const std::int64_t parts = 8 / w.bits, bytes = w.block / parts;
  const node whole = padded(a, {dim(0), dim(0)}, {dim(0), dim(w.blocks * w.block - w.k)}, 0);
  const node apart = reshape_to(whole, {rows, dim(1), dim(w.blocks), dim(bytes), dim(parts)});
  const node packed = reshape_to(c.x(1), {w.n, w.blocks, bytes}), zeros = w.zeros(c, a.type());
  node sum;
  for (std::int64_t p = 0; p < parts; ++p) {
    const node shifted = pointwise(op::shr, packed, constant(dtype::u8, static_cast<double>(w.bits * p)));
    const node q = pointwise(op::bit_and, shifted, constant(dtype::u8, static_cast<double>((1 << w.bits) - 1)));
    const node by = reshape_to(sliced(apart, 4, p, 1), {rows, dim(1), dim(w.blocks), dim(bytes)});
    const node term = times(by, unsqueezed(minus(to_type(q, a.type()), zeros), {0}));
    sum = sum ? plus(sum, term) : term;
  }
  const node scales = reshape_to(to_type(c.x(2), a.type()), {dim(1), dim(w.n), dim(w.blocks), dim(1)});
  return reduced(op::add, times(sum, scales), {2, 3}, false);
}
inline void matmul_bits(call& c) {
  const packed_weights w(c);
  const node given = c.x(0), a = wide(given);
  extents e = extents_of(a);
  if (e.empty() || e.back() != w.k) c.refuse("its rows are " + text_of(e) + " where K is " + std::to_string(w.k));
  const dim rows = product_of(e, 0, e.size() - 1);
  const node flat = reshape_to(a, {rows, dim(w.k)});
  node y;
  if (c.has(4)) {
    y = product(flat, transposed(w.by_group(c, a.type())));
  } else if (rows <= few_rows) {
    y = sums_of_bytes(c, flat, w);
  } else {
    const node all = reshape_to(w.by_blocks(c, a.type()), {w.n, w.blocks * w.block});
    y = product(flat, transposed(sliced(all, 1, 0, w.k)));
  }
  e.back() = w.n;
  y = reshape_to(y, e);
  if (c.has(5)) y = plus(y, wide(c.x(5)));
  c.give(to_type(y, given.type()));
}
/// Rows of a quantised table: gathered packed, then made floats.
inline void gather_blocks(call& c) {
  const int format = format_of(c.given(0));
  const bool bytes = format == 2;
  const std::int64_t bits = bits_of(c), block = c.i("block_size", 128), parts = bytes ? 8 / bits : 1;
  const int rank = c.rank(0), axis = axis_of(c.i("gather_axis", 0), rank),
            along = axis_of(c.i("quantize_axis", 1), rank);
  if (axis == along || block < 1 || block > 1 << 20) c.refuse("it gathers along the axis of its blocks, or has none");
  if (parts > 1 && axis == rank - 1) c.refuse("it gathers along the axis of its packed bytes");
  const node index = from_start(c.x(1), c.shape(0)[static_cast<std::size_t>(axis)]);
  const auto rows = [&](std::size_t k, std::int64_t packed) {
    const node x = taken(c.x(k), index, axis);
    return packed > 1 ? unpacked_bits(x, bits) : x;
  };
  const int behind = along > axis ? along + index.rank() - 1 : along;
  const node scales = rows(2, 1), x = rows(0, parts);
  const dtype type = wide(scales).type();
  const extents e = extents_of(x);
  node y = to_type(x, type);
  if (c.has(3)) {
    const node z = to_type(rows(3, parts), type);
    y = minus(y, along_axis(sliced(z, behind, 0, size_of_axis(scales, behind)), e, behind, block));
  } else if (bytes) {
    y = minus(y, constant(type, static_cast<double>(1 << (bits - 1))));
  }
  c.give(to_type(times(y, along_axis(wide(scales), e, behind, block)), scales.type()));
}

/// A list with one element as a number.
inline node number_or_list(const node& x) {
  return x.rank() == 1 && always_equal(size_of_axis(x, 0), 1) ? reshape_to(x, {}) : x;
}
inline node optional_node(call& c, std::size_t k) { return c.has(k) ? number_or_list(c.x(k)) : node(); }
/// The real values of input k, whose scale and zero point follow.
inline node real_values(call& c, std::size_t k) {
  const node scale = number_or_list(c.x(k + 1));
  node x = to_type(c.x(k), dtype::i32);
  if (c.has(k + 2)) x = minus(x, to_type(number_or_list(c.x(k + 2)), dtype::i32));
  return times(to_type(x, scale.type()), scale);
}
/// Gives real values by the scale of input k and the zero point behind it, in the format of input `like`.
inline void give_quantized(call& c, const node& y, std::size_t k, std::size_t like) {
  const int format = format_of(c.given(c.has(k + 1) ? k + 1 : like));
  const node scale = to_type(number_or_list(c.x(k)), y.type());
  give_format(c, 0, quantized(c, y, scale, optional_node(c, k + 1), format, true), format);
}
template <op Code>
void quantised_pair(call& c) {
  give_quantized(c, pointwise(Code, real_values(c, 0), real_values(c, 3)), 6, 0);
}
inline void quantised_sigmoid(call& c) { give_quantized(c, sigmoid_of(real_values(c, 0)), 3, 0); }
inline void quantised_leaky(call& c) {
  give_quantized(c, activation("LeakyRelu", real_values(c, 0), c.f("alpha", 0.01f), 0), 3, 0);
}
inline void quantised_where(call& c) { give_quantized(c, choose(c.x(0), real_values(c, 1), real_values(c, 4)), 7, 1); }
inline void quantised_softmax(call& c) {
  const node x = real_values(c, 0);
  const extents e = extents_of(x);
  const int axis = axis_of(c.i("axis", -1), x.rank());
  const auto a = static_cast<std::size_t>(axis);
  const bool rows = c.i("opset", 13) < 13;
  const node flat = rows ? reshape_to(x, {product_of(e, 0, a), product_of(e, a)}) : x;
  give_quantized(c, reshape_to(softmax_of(flat, rows ? 1 : axis), e), 3, 0);
}
inline void quantised_concat(call& c) {
  if (c.in.size() < 5 || (c.in.size() - 2) % 3 != 0) c.refuse("its inputs are not values, scales and zero points");
  std::vector<node> parts;
  for (std::size_t k = 2; k < c.in.size(); k += 3) parts.push_back(real_values(c, k));
  give_quantized(c, joined(parts, axis_of(c.i("axis", 0), parts[0].rank())), 0, 2);
}
/// A pool of real values, in either order of axes.
template <void (*Pool)(call&)>
void quantised_pool(call& c) {
  const bool last = c.i("channels_last", 0) != 0;
  const node x = real_values(c, 0);
  const item kept = c.given(0);
  c.in[0] = traced_item(last ? permuted(x, channels_first(x.rank())) : x);
  Pool(c);
  const node y = result_of(c, 0);
  c.in[0] = kept;
  give_quantized(c, last ? permuted(y, channels_last(y.rank())) : y, 3, 0);
}
inline void quantised_nhwc_conv(call& c) {
  if (c.i("channels_last", 0) == 0) return qlinear_conv(c);
  const int rank = c.rank(0);
  const int format = format_of(c.given(0));
  c.in[0] = traced_item(permuted(c.x(0), channels_first(rank)), dtype_of_onnx(format) ? 0 : format);
  qlinear_conv(c);
  c.give(permuted(result_of(c, 0), channels_last(rank)));
}

/// The product of 8-bit a and b by their scales, in the dtype of a's scale.
inline node scaled_product(const node& a, const node& a_zero, const node& a_scale, const node& b, const node& b_scale,
                           const node& b_zero) {
  const dtype type = a_scale.type();
  const node sums = product(centred(a, a_zero, true), centred(b, b_zero, false));
  return times(to_type(sums, type), times(a_scale, to_type(b_scale, type)));
}
/// y plus input k, if it is given.
inline node with_bias(call& c, const node& y, std::size_t k) {
  return c.has(k) ? plus(y, to_type(c.x(k), y.type())) : y;
}
inline void matmul_to_float(call& c) {
  const node y = scaled_product(c.x(0), optional_node(c, 4), number_or_list(c.x(2)), c.x(1), number_or_list(c.x(3)),
                                optional_node(c, 5));
  c.give(with_bias(c, y, 6));
}
inline void matmul_by_range(call& c) {
  const ranged_bytes a = bytes_by_range(wide(c.x(0)));
  const node y = scaled_product(a.y, a.zero, a.scale, c.x(1), number_or_list(c.x(2)), optional_node(c, 3));
  give_wide(c, with_bias(c, y, 4));
}
/// Gemm of 8-bit values and an i32 bias. Without a scale of the result it is floats.
inline void quantised_gemm(call& c) {
  node a = c.x(0), b = c.x(3);
  if (c.i("transA", 0) != 0) a = transposed(a);
  if (c.i("transB", 0) != 0) b = transposed(b);
  node sums = product(centred(a, optional_node(c, 2), true), centred(b, optional_node(c, 5), false));
  if (c.has(6)) sums = plus(sums, c.x(6));
  const node scale = times(number_or_list(c.x(1)), number_or_list(c.x(4)) * c.f("alpha", 1));
  const node y = times(to_type(sums, scale.type()), scale);
  if (!c.has(7)) return c.give(y);
  give_quantized(c, y, 7, 0);
}
inline void quantised_attention(call& c) {
  const node columns = scaled_product(c.x(0), optional_node(c, 6), number_or_list(c.x(3)), c.x(1),
                                      number_or_list(c.x(4)), optional_node(c, 7));
  give_packed_attention(c, with_bias(c, columns, 2), optional_input(c, 5), optional_input(c, 8), item());
}

inline const row packed[] = {
    {"DequantizeLinear", "com.microsoft", 1, dequantize, "sub, mul"},
    {"DynamicQuantizeMatMul", "com.microsoft", 1, matmul_by_range, "max, min, round, matmul of i32"},
    {"GatherBlockQuantized", "com.microsoft", 1, gather_blocks, "take of packed weights, shr, &, mul"},
    {"MatMulIntegerToFloat", "com.microsoft", 1, matmul_to_float, "matmul of i32, mul"},
    {"MatMulNBits", "com.microsoft", 1, matmul_bits, "shr, & of packed weights, mul, matmul"},
    {"QAttention", "com.microsoft", 1, quantised_attention, "matmul of i32, attention"},
    {"QGemm", "com.microsoft", 1, quantised_gemm, "matmul of i32, round, clamp"},
    {"QLinearAdd", "com.microsoft", 1, quantised_pair<op::add>, "add, round, clamp"},
    {"QLinearAveragePool", "com.microsoft", 1, quantised_pool<average_pool>, "avg_pool, round, clamp"},
    {"QLinearConcat", "com.microsoft", 1, quantised_concat, "concat, round, clamp"},
    {"QLinearConv", "com.microsoft", 1, quantised_nhwc_conv, "conv of i32"},
    {"QLinearGlobalAveragePool", "com.microsoft", 1, quantised_pool<global_average>, "mean, round, clamp"},
    {"QLinearLeakyRelu", "com.microsoft", 1, quantised_leaky, "select, round, clamp"},
    {"QLinearMul", "com.microsoft", 1, quantised_pair<op::mul>, "mul, round, clamp"},
    {"QLinearSigmoid", "com.microsoft", 1, quantised_sigmoid, "sigmoid, round, clamp"},
    {"QLinearSoftmax", "com.microsoft", 1, quantised_softmax, "softmax, round, clamp"},
    {"QLinearWhere", "com.microsoft", 1, quantised_where, "select, round, clamp"},
    {"QuantizeLinear", "com.microsoft", 1, quantize, "div, round, clamp"},
};

}  // namespace sinter::onnx::rows
