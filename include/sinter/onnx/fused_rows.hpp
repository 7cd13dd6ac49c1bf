// onnx/fused_rows.hpp: com.microsoft's operators that fuse a few: products, convolutions, activations and normalisations.
#pragma once

#include "flow_rows.hpp"
#include "window_rows.hpp"

namespace sinter::onnx::rows {

inline node result_of(call& c, std::size_t k) { return c.im.value(c.out.at(k)); }

/// x, plus input 1 if it is given, through an activation.
template <node (*Of)(call&, const node&)>
void biased(call& c) {
  const node x = c.x(0);
  give_wide(c, Of(c, wide(c.has(1) ? plus(x, c.x(1)) : x)));
}
inline node gelu_by_erf(call&, const node& x) { return gelu_of(x, false); }
inline node gelu_by_tanh(call&, const node& x) { return gelu_of(x, true); }
inline node quick_gelu(call& c, const node& x) { return times(x, sigmoid_of(x * c.f("alpha", 1.702f))); }
/// a · gelu(b) of the halves a and b of the last axis.
inline node split_gelu(call& c, const node& x) {
  const int last = x.rank() - 1;
  const dim n = size_of_axis(x, last);
  if (n % 2 != 0) c.refuse("its last axis of " + n.text() + " has no halves");
  return times(sliced(x, last, 0, n / 2), gelu_of(sliced(x, last, n / 2, n / 2), false));
}
/// x + bias + skip.
inline void bias_add(call& c) { c.give(plus(plus(c.x(0), c.x(1)), c.x(2))); }

/// An activation by the attribute that names it, with its parameters.
inline node activated(call& c, const node& x, const std::vector<double>& by) {
  const std::string name = c.s("activation", "");
  const auto parameter = [&](std::size_t k, double otherwise) { return k < by.size() ? by[k] : otherwise; };
  if (name.empty()) return x;
  if (name == "Clip") return clipped(x, parameter(0, -3.4028234663852886e38), parameter(1, 3.4028234663852886e38));
  if (name == "HardSwish") return times(x, clipped(x * parameter(0, 1.0 / 6) + parameter(1, 0.5), 0, 1));
  const double alpha = name == "LeakyRelu" ? 0.01 : name == "HardSigmoid" ? 0.2 : 1;
  return activation(name, x, parameter(0, alpha), parameter(1, name == "HardSigmoid" ? 0.5 : 0));
}
/// Swaps the last two axes.
inline node transposed(const node& x) {
  std::vector<int> axes = all_axes(x.rank());
  if (axes.size() < 2) return x;
  std::swap(axes.end()[-1], axes.end()[-2]);
  return permuted(x, axes);
}
/// An operand of FusedMatMul. `by_batch`: the first axis are the rows.
inline node fused_operand(const node& x, bool by_batch, bool swapped) {
  if (x.rank() < 2) return x;
  std::vector<int> axes = all_axes(x.rank(), by_batch ? 1 : 0);
  if (by_batch) axes.insert(axes.end() - 1, 0);
  const node y = permuted(x, axes);
  return swapped ? transposed(y) : y;
}
inline void fused_matmul(call& c) {
  const node a = fused_operand(c.x(0), c.i("transBatchA", 0) != 0, c.i("transA", 0) != 0);
  const node b = fused_operand(c.x(1), c.i("transBatchB", 0) != 0, c.i("transB", 0) != 0);
  const double alpha = c.f("alpha", 1);
  const node y = product(a, b);
  c.give(alpha == 1 ? y : to_type(wide(y) * alpha, y.type()));
}
inline void fused_gemm(call& c) {
  gemm(c);
  if (c.has_attribute("activation_beta") && !c.has_attribute("activation_alpha"))
    c.refuse("activation_beta stands without activation_alpha");
  std::vector<double> by;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (c.has_attribute(name)) by.push_back(c.f(name, 0));
  give_wide(c, activated(c, wide(result_of(c, 0)), by));
}
inline void fused_conv(call& c) {
  std::vector<double> by;
  if (const auto* a = c.attribute("activation_params")) by.assign(a->floats.begin(), a->floats.end());
  conv(c);
  node y = result_of(c, 0);
  if (c.has(3)) y = plus(y, c.x(3));
  give_wide(c, activated(c, wide(y), by));
}
/// A convolution of an image (n, s…, c) by weights (m, k…, c / groups).
inline void nhwc_conv(call& c) {
  const int rank = c.rank(0);
  if (rank < 3 || c.rank(1) != rank)
    c.refuse("its image is " + text_of(c.shape(0)) + " and its weights are " + text_of(c.shape(1)));
  for (const std::size_t k : {0, 1}) c.in[k] = traced_item(permuted(c.x(k), channels_first(rank)));
  conv(c);
  c.give(permuted(result_of(c, 0), channels_last(rank)));
}

/// The sum of x, its skip and a bias, if any. A skip may lack the batch.
inline node with_skip(call& c, std::size_t bias) {
  const node sum = plus(c.x(0), c.x(1));
  if (!always_equal(product_of(extents_of(sum)), product_of(c.shape(0))))
    c.refuse("its skip " + text_of(c.shape(1)) + " does not fit " + text_of(c.shape(0)));
  return c.has(bias) ? plus(sum, c.x(bias)) : sum;
}
inline void skip_layer_norm(call& c) {
  const node sum = with_skip(c, 4);
  const normalized n = normalize(wide(sum), {sum.rank() - 1}, c.f("epsilon", 1e-12f));
  node y = times(to_type(n.y, sum.type()), c.x(2));
  if (c.has(3)) y = plus(y, c.x(3));
  c.give(0, y);
  c.give(1, n.mean);
  c.give(2, n.inverse);
  c.give(3, sum);
}
inline void skip_rms_norm(call& c) {
  if (c.wants(1)) c.refuse("its result 1 is a mean, which it does not compute");
  const node sum = with_skip(c, 3);
  const unit_scaled n = scaled_to_unit(wide(sum), {sum.rank() - 1}, c.f("epsilon", 1e-12f));
  c.give(0, times(to_type(n.y, sum.type()), c.x(2)));
  c.give(2, n.inverse);
  c.give(3, sum);
}
/// Embeddings of words, positions and segments, normalised. Result 1 counts the ones in each row of the mask.
inline void embed_layer_norm(call& c) {
  const node ids = c.x(0);
  if (ids.rank() != 2) c.refuse("its ids are " + text_of(extents_of(ids)) + ", which is not (batch, rows)");
  const extents e = extents_of(ids);
  node sum = taken(c.x(2), ids, 0);
  if (c.has(8)) sum = plus(sum, taken(c.x(3), c.x(8), 0));
  else sum = plus(sum, sliced(c.x(3), 0, 0, e[1]));
  if (c.has(1) && c.has(4)) sum = plus(sum, taken(c.x(4), c.x(1), 0));
  const normalized n = normalize(wide(sum), {2}, c.f("epsilon", 1e-12f));
  c.give(0, plus(times(to_type(n.y, sum.type()), c.x(5)), c.x(6)));
  if (c.has(7)) c.give(1, reduced(op::add, to_type(ir::eq(c.x(7), 1.0), dtype::i32), {1}, false));
  else c.give(1, constant(dtype::i32, 0, {e[0]}));
  c.give(2, sum);
}
/// GroupNorm of an image (n, s…, c), or (n, c, s…) without channels_last.
inline void grouped_norm(call& c) {
  const node given = c.x(0);
  const int rank = given.rank();
  const bool last = c.i("channels_last", 1) != 0;
  if (rank < 3) c.refuse("its image is " + text_of(extents_of(given)));
  const node x = last ? permuted(given, channels_first(rank)) : given;
  const extents e = extents_of(x);
  const dim groups = c.i("groups", 1);
  if (groups < 1 || e[1] % groups != 0) c.refuse(e[1].text() + " channels in " + groups.text() + " groups");
  const node apart = reshape_to(wide(x), {e[0], groups, product_of(e, 1) / groups});
  node y = reshape_to(normalize(apart, {2}, c.f("epsilon", 1e-5f)).y, e);
  y = plus(times(y, by_channel(c.x(1), rank)), by_channel(c.x(2), rank));
  if (c.i("activation", 0) != 0) y = times(y, sigmoid_of(y));
  give_wide(c, last ? permuted(y, channels_last(rank)) : y);
}

inline const row fused[] = {
    {"BiasAdd", "com.microsoft", 1, bias_add, "add"},
    {"BiasGelu", "com.microsoft", 1, biased<gelu_by_erf>, "add, erf"},
    {"BiasSplitGelu", "com.microsoft", 1, biased<split_gelu>, "add, slice, erf"},
    {"EmbedLayerNormalization", "com.microsoft", 1, embed_layer_norm, "take, layer_norm"},
    {"FastGelu", "com.microsoft", 1, biased<gelu_by_tanh>, "add, tanh"},
    {"FusedConv", "com.microsoft", 1, fused_conv, "conv, add, an activation"},
    {"FusedGemm", "com.microsoft", 1, fused_gemm, "matmul, an activation"},
    {"FusedMatMul", "com.microsoft", 1, fused_matmul, "permute, matmul"},
    {"Gelu", "com.microsoft", 1, biased<gelu_by_erf>, "erf"},
    {"GroupNorm", "com.microsoft", 1, grouped_norm, "means"},
    {"NhwcConv", "com.microsoft", 1, nhwc_conv, "permute, conv"},
    {"QuickGelu", "com.microsoft", 1, biased<quick_gelu>, "sigmoid"},
    {"SimplifiedLayerNormalization", "com.microsoft", 1, rms_norm, "rms_norm"},
    {"SkipLayerNormalization", "com.microsoft", 1, skip_layer_norm, "add, layer_norm"},
    {"SkipSimplifiedLayerNormalization", "com.microsoft", 1, skip_rms_norm, "add, rms_norm"},
    {"TransposeMatMul", "com.microsoft", 1, fused_matmul, "permute, matmul"},
};

}  // namespace sinter::onnx::rows
