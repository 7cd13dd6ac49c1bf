// onnx/nn_rows.hpp: operators of networks: products, softmax, normalisation, attention, rotary positions, losses.
#pragma once

#include "elementwise.hpp"
#include "gather_rows.hpp"

namespace sinter::onnx::rows {

inline void matmul(call& c) { c.give(product(c.x(0), c.x(1))); }
inline void gemm(call& c) {
  const double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  node a = c.x(0), b = c.x(1);
  if (c.i("transA", 0)) a = permuted(a, {1, 0});
  if (c.i("transB", 0)) b = permuted(b, {1, 0});
  node y = product(a, b);
  const dtype type = y.type();
  // Integers stay integers if both factors are whole. Otherwise they are multiplied in f64, and the result is cut.
  const bool whole = alpha == std::trunc(alpha) && beta == std::trunc(beta) && !is_unsigned(type);
  const auto scaled = [&](const node& x, double by) {
    const node v = is_float(type) || whole || (alpha == 1 && beta == 1) ? x : to_type(x, dtype::f64);
    return by == 1 ? v : v * by;
  };
  y = scaled(y, alpha);
  if (c.has(2)) y = plus(y, scaled(c.x(2), beta));
  c.give(to_type(y, type));
}
template <node (*Of)(const node&, int)>
void soft(call& c) {
  const node x = c.x(0);
  const int axis = axis_of(c.i("axis", c.version < 13 ? 1 : -1), x.rank());
  if (c.version >= 13) return c.give(Of(x, axis));
  const extents e = extents_of(x);
  const auto a = static_cast<std::size_t>(axis);
  c.give(reshape_to(Of(reshape_to(x, {product_of(e, 0, a), product_of(e, a)}), 1), e));
}

/// Mean and variance of x over axes, which are kept. The elements are first taken relative to an approximate mean, so its
/// rounding error has no effect.
struct spread {
  node mean, differences, variance;  ///< the variance is an f64

  spread(const node& x, const std::vector<int>& axes) {
    const node about = ir::stop_gradient(mean_over(x, axes, true)), off = minus(x, about);
    const node rest = mean_over(off, axes, true), r = to_type(rest, dtype::f64);
    mean = plus(about, rest);
    differences = minus(off, rest);
    const node left = minus(mean_square(off, axes), times(r, r));
    variance = choose(ir::lt(left, 0.0), constant(dtype::f64, 0), left);
  }
  static node mean_square(const node& x, const std::vector<int>& axes) {
    return over(squares_over(x, axes, true), size_node(count_over(x, axes), dtype::f64));
  }
};
/// (x - mean) / sqrt(var + eps) over axes. The mean and 1 / sqrt(var + eps) are results, too.
struct normalized {
  node y, mean, inverse;
};
inline normalized normalize(const node& x, const std::vector<int>& axes, double eps) {
  const spread s(x, axes);
  const node inverse = to_type(pointwise(op::rsqrt, s.variance + eps), x.type());
  return {times(s.differences, inverse), s.mean, inverse};
}
inline void layer_norm(call& c) {
  const node x = c.x(0);
  const int axis = axis_of(c.i("axis", -1), x.rank());
  const normalized n = normalize(wide(x), all_axes(x.rank(), axis), c.f("epsilon", 1e-5f));
  node y = to_type(n.y, x.type());
  y = times(y, c.x(1));
  if (c.has(2)) y = plus(y, c.x(2));
  c.give(0, y);
  c.give(1, n.mean);
  c.give(2, n.inverse);
}
/// x / sqrt(mean(x²) + eps) over axes, and 1 / sqrt(mean(x²) + eps).
struct unit_scaled {
  node y, inverse;
};
inline unit_scaled scaled_to_unit(const node& x, const std::vector<int>& axes, double eps) {
  const node inverse = to_type(pointwise(op::rsqrt, spread::mean_square(x, axes) + eps), x.type());
  return {times(x, inverse), inverse};
}
inline void rms_norm(call& c) {
  const node x = c.x(0);
  const int axis = axis_of(c.i("axis", -1), x.rank());
  const unit_scaled n = scaled_to_unit(wide(x), all_axes(x.rank(), axis), c.f("epsilon", 1e-5f));
  c.give(0, times(to_type(n.y, x.type()), c.x(1)));
  if (c.wants(1)) c.give(1, n.inverse);
}
/// A value with an element for each channel, reshaped so that it broadcasts along axis 1.
inline node by_channel(const node& w, int rank) {
  extents e(static_cast<std::size_t>(rank), dim(1));
  e[1] = size_of_axis(w, 0);
  return reshape_to(w, e);
}
inline void instance_norm(call& c) {
  const node x = c.x(0);
  const normalized n = normalize(wide(x), all_axes(x.rank(), 2), c.f("epsilon", 1e-5f));
  c.give(plus(times(to_type(n.y, x.type()), by_channel(c.x(1), x.rank())), by_channel(c.x(2), x.rank())));
}
inline void group_norm(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  const dim groups = c.i("num_groups", 1), each = e[1] / groups;
  const node apart = reshape_to(x, {e[0], groups, each * product_of(e, 2)});
  const node y = reshape_to(to_type(normalize(wide(apart), {2}, c.f("epsilon", 1e-5f)).y, x.type()), e);
  node scale = c.x(1), bias = c.x(2);
  if (c.version < 21) {  // one for each group; some files have one for each channel already
    const auto repeated = [&](const node& w) {
      if (size_of_axis(w, 0) == e[1]) return w;
      return reshape_to(broadcast_to(reshape_to(w, {groups, dim(1)}), {groups, each}), {e[1]});
    };
    scale = repeated(scale);
    bias = repeated(bias);
  }
  c.give(plus(times(y, by_channel(scale, x.rank())), by_channel(bias, x.rank())));
}
/// A parameter of BatchNormalization, reshaped so that it broadcasts to the input. It has an element for each channel, or for
/// each place.
inline node by_feature(const node& w, int rank, bool of_places) {
  if (of_places) return unsqueezed(w, {0});
  return rank == 1 ? w : by_channel(w, rank);  // an input of one axis has one channel
}
inline void batch_norm(call& c) {
  const node x = c.x(0);
  const int rank = x.rank();
  const double eps = c.f("epsilon", 1e-5f), momentum = c.f("momentum", 0.9f);
  const bool training = c.i("training_mode", 0) != 0 || (c.version < 14 && c.wants(1));
  const bool of_places = c.i("spatial", 1) == 0;
  const node mean = c.x(3), var = c.x(4);
  node d, v;
  if (training) {
    std::vector<int> axes = of_places ? std::vector<int>{0} : all_axes(rank);
    if (rank < 2) c.refuse("its input is " + text_of(extents_of(x)) + ", which has no channels");
    if (!of_places) axes.erase(axes.begin() + 1);
    const spread s(wide(x), axes);
    const node m = reshape_to(s.mean, extents_of(mean));
    v = reshape_to(to_type(s.variance, m.type()), extents_of(var));
    d = s.differences;
    c.give(1, mean * momentum + to_type(m, mean.type()) * (1 - momentum));
    c.give(2, var * momentum + to_type(v, var.type()) * (1 - momentum));
    if (c.wants(3)) c.give(3, to_type(m, mean.type()));
    if (c.wants(4)) c.give(4, to_type(v, var.type()));
  } else {
    v = wide(var);
    d = minus(wide(x), by_feature(wide(mean), rank, of_places));
  }
  // The mean is subtracted first: x · scale - mean · scale would lose the digits in which x differs from the mean.
  const node scale = times(wide(c.x(1)), pointwise(op::rsqrt, v + eps));
  c.give(0, to_type(plus(times(d, by_feature(scale, rank, of_places)), by_feature(wide(c.x(2)), rank, of_places)),
                    x.type()));
}
/// x times a number, plus a term for each channel: an experimental operator of the first versions.
inline void image_scaler(call& c) {
  const node x = c.x(0), y = wide(x) * c.f("scale", 1);
  const auto* a = c.attribute("bias");
  if (x.rank() < 2 || (a && dim(static_cast<std::int64_t>(a->floats.size())) != size_of_axis(x, 1)))
    c.refuse("its bias is not one number for each channel of " + text_of(extents_of(x)));
  if (!a) return c.give(to_type(y, x.type()));
  host_values bias{y.type(), {dim(static_cast<std::int64_t>(a->floats.size()))}, {}, {}};
  for (const float b : a->floats) bias.floats.push_back(static_cast<double>(b));
  item terms;
  terms.host = std::make_shared<const host_values>(std::move(bias));
  c.give(to_type(plus(y, by_channel(c.im.value(terms), x.rank())), x.type()));
}
inline void lrn(call& c) {
  const node x = c.x(0);
  const extents e = extents_of(x);
  const std::int64_t size = c.i("size", 1);
  if (size < 1 || size > 4096) c.refuse("its size is " + std::to_string(size) + ", which is not from 1 to 4096");
  const std::int64_t low = (size - 1) / 2, high = size - 1 - low;
  extents before(e.size(), dim(0)), after = before;
  before[1] = low;
  after[1] = high;
  const node squares = padded(x * x, before, after, 0);
  node sum;
  for (std::int64_t k = 0; k < size; ++k) {
    const node part = sliced(squares, 1, k, e[1]);
    sum = sum ? plus(sum, part) : part;
  }
  const node base = sum * (c.f("alpha", 1e-4f) / static_cast<double>(size)) + c.f("bias", 1);
  c.give(x / ir::pow(base, c.f("beta", 0.75)));
}
inline void lp_norm(call& c) {
  const node x = c.x(0);
  const int axis = axis_of(c.i("axis", -1), x.rank());
  const node w = wide(x);
  const node n = c.i("p", 2) == 1 ? reduced(op::add, pointwise(op::abs, w), {axis}, true)
                                  : to_type(ir::sqrt(squares_over(w, {axis}, true)), w.type());
  c.give(to_type(choose(ir::eq(n, 0.0), constant(w.type(), 0), over(w, n)), x.type()));
}
inline void mvn(call& c) {
  const node x = c.x(0);
  std::vector<int> axes;
  if (c.has_attribute("axes")) axes = ascending_axes(c.list("axes"), x.rank());
  else
    for (const int a : {0, 2, 3})
      if (a < x.rank()) axes.push_back(a);
  const spread s(wide(x), axes);
  c.give(to_type(over(s.differences, to_type(ir::sqrt(s.variance), s.mean.type()) + 1e-9), x.type()));
}
inline node heads_of(const node& x, dim heads) {
  const extents e = extents_of(x);
  if (e.size() != 3 || heads < 1 || e[2] % heads != 0)
    wire::fail_file("a value of " + text_of(e) + " has no " + heads.text() + " heads");
  return permuted(reshape_to(x, {e[0], e[1], heads, e[2] / heads}), {0, 2, 1, 3});
}
/// (batch, heads, rows, size) as (batch, rows, heads · size).
inline node without_heads(const node& x) {
  const extents e = extents_of(x);
  return reshape_to(permuted(x, {0, 2, 1, 3}), {e[0], e[2], e[1] * e[3]});
}

/// x (batch, heads, rows, size) with its first features turned by angles. The cosines and sines are (batch or 1, rows, half).
inline node turned_by(const node& x, node co, node si, bool interleaved) {
  const extents s = extents_of(x);
  const dim half = size_of_axis(co, 2), size = half * 2;
  co = unsqueezed(co, {1});
  si = unsqueezed(si, {1});
  const node part = sliced(x, 3, 0, size);
  node a, b;
  if (interleaved) {
    const node pairs = reshape_to(part, {s[0], s[1], s[2], half, dim(2)});
    a = reshape_to(sliced(pairs, 4, 0, 1), {s[0], s[1], s[2], half});
    b = reshape_to(sliced(pairs, 4, 1, 1), {s[0], s[1], s[2], half});
  } else {
    a = sliced(part, 3, 0, half);
    b = sliced(part, 3, half, half);
  }
  const node re = minus(times(a, co), times(b, si)), imaginary = plus(times(a, si), times(b, co));
  node y;
  if (interleaved)
    y = reshape_to(joined({unsqueezed(re, {4}), unsqueezed(imaginary, {4})}, 4), {s[0], s[1], s[2], size});
  else y = joined({re, imaginary}, 3);
  return always_equal(size, s[3]) ? y : joined({y, sliced(x, 3, size, s[3] - size)}, 3);
}
/// cos and sin of positions, applied to x (batch, heads, rows, size).
inline void rotary(call& c) {
  node x = c.x(0);
  const bool rows3 = x.rank() == 3;
  if (rows3) {
    if (c.i("num_heads", 0) == 0) c.refuse("its num_heads are not given");
    x = heads_of(x, c.i("num_heads", 0));
  }
  const std::int64_t turned = c.i("rotary_embedding_dim", 0);
  const dim half = (turned ? dim(turned) : size_of_axis(x, 3)) / 2;
  node co = c.x(1), si = c.x(2);
  if (c.has(3)) {
    const node at = to_type(c.x(3), dtype::i64);
    co = taken(co, at, 0);
    si = taken(si, at, 0);
  }
  const node y = turned_by(x, sliced(co, 2, 0, half), sliced(si, 2, 0, half), c.i("interleaved", 0) != 0);
  c.give(rows3 ? without_heads(y) : y);
}

/// Scores with -inf at the places that the mask, the causal order or the lengths exclude.
inline node masked_scores(call& c, node scores, dim past) {
  const extents e = extents_of(scores);
  const dim rows = e[2], columns = e[3];
  if (c.has(3)) {
    node m = c.x(3);
    if (!is_bool(m.type()) && !is_float(m.type())) m = to_type(m, scores.type());
    const dim width = size_of_axis(m, m.rank() - 1);
    if (width != columns) {
      extents low(static_cast<std::size_t>(m.rank()), dim(0)), high = low;
      high.back() = columns - width;
      m = is_bool(m.type()) ? padded(m, low, high, 0) : padded(m, low, high, -std::numeric_limits<double>::infinity());
    }
    if (is_bool(m.type()))
      scores = choose(m, scores, constant(scores.type(), -std::numeric_limits<double>::infinity()));
    else scores = plus(scores, wide(m));
  }
  const node at = iota(dtype::i64, {rows, columns}, 1);
  if (c.i("is_causal", 0)) {
    node row = iota(dtype::i64, {rows, columns}, 0);
    if (c.has(6) && !c.has(4)) {
      const node valid = reshape_to(to_type(c.x(6), dtype::i64), {e[0], dim(1), dim(1), dim(1)});
      row = plus(row, minus(valid, size_node(rows, dtype::i64)));
    } else row = plus(row, size_node(past, dtype::i64));
    scores =
        choose(pointwise(op::le, at, row), scores, constant(scores.type(), -std::numeric_limits<double>::infinity()));
  }
  if (c.has(6)) {
    const node valid = reshape_to(to_type(c.x(6), dtype::i64), {e[0], dim(1), dim(1), dim(1)});
    scores =
        choose(pointwise(op::lt, at, valid), scores, constant(scores.type(), -std::numeric_limits<double>::infinity()));
  }
  return scores;
}
inline void attention(call& c) {
  node q = c.x(0), k = c.x(1), v = c.x(2);
  const bool rows3 = q.rank() == 3;
  const dtype type = q.type();
  if (rows3) {
    q = heads_of(q, c.i("q_num_heads", 1));
    k = heads_of(k, c.i("kv_num_heads", 1));
    v = heads_of(v, c.i("kv_num_heads", 1));
  }
  dim past = 0;
  if (c.has(4)) {
    const node pk = c.x(4), pv = c.x(5);
    past = size_of_axis(pk, 2);
    k = joined({pk, k}, 2);
    v = joined({pv, v}, 2);
  }
  c.give(1, k);
  c.give(2, v);
  const extents eq = extents_of(q), ek = extents_of(k);
  const dim group = eq[1] / ek[1];
  const auto repeated = [&](const node& x) {
    const extents e = extents_of(x);
    if (group == 1) return x;
    return reshape_to(broadcast_to(unsqueezed(x, {2}), {e[0], e[1], group, e[2], e[3]}),
                      {e[0], e[1] * group, e[2], e[3]});
  };
  const double scale =
      c.has_attribute("scale") ? c.f("scale", 1) : 1 / std::sqrt(static_cast<double>(static_cast<std::int64_t>(eq[3])));
  const node kr = repeated(k), vr = repeated(v);
  node scores = wide(product(wide(q) * std::sqrt(scale), permuted(wide(kr) * std::sqrt(scale), {0, 1, 3, 2})));
  const std::int64_t mode = c.i("qk_matmul_output_mode", 0);
  node shown = scores;
  const double cap = c.f("softcap", 0);
  if (cap != 0) scores = tanh_of(scores / cap) * cap;
  if (mode == 1) shown = scores;
  scores = masked_scores(c, scores, past);
  if (mode == 2) shown = scores;
  node weights = softmax_of(scores, 3);
  if (c.has(3) || c.has(6) || c.i("is_causal", 0)) {
    const node top = reduced(op::maximum, scores, {3}, true);
    weights = choose(ir::eq(top, -std::numeric_limits<double>::infinity()), constant(weights.type(), 0), weights);
  }
  if (mode == 3) shown = weights;
  const node y = to_type(product(weights, wide(vr)), type);
  c.give(0, rows3 ? without_heads(y) : y);
  if (c.wants(3)) c.give(3, to_type(shown, type));
}

/// The weighted loss of log-probabilities (rows, classes, …) at labels.
inline void give_nll(call& c, const node& logp, std::size_t result) {
  const std::string how = c.s("reduction", "mean");
  const bool ignoring = c.has_attribute("ignore_index");
  const node ignored = integer(c.i("ignore_index", 0));
  const node labels = to_type(c.x(1), dtype::i64);
  const extents e = extents_of(logp);
  const node hit = pointwise(op::eq, unsqueezed(labels, {1}), iota(dtype::i64, e, 1));
  const auto picked = [&](const node& z) {
    return reduced(op::add, choose(hit, z, constant(z.type(), 0)), {1}, false);
  };
  node loss = -picked(logp);
  node weight = c.has(2) ? picked(broadcast_to(by_channel(c.x(2), logp.rank()), e))
                         : constant(logp.type(), 1, extents_of(labels));
  if (ignoring) weight = choose(pointwise(op::eq, labels, ignored), constant(logp.type(), 0), weight);
  loss = weight * loss;
  if (ignoring) loss = choose(pointwise(op::eq, labels, ignored), constant(logp.type(), 0), loss);
  const auto all = all_axes(loss.rank());
  if (how == "sum") loss = reduced(op::add, loss, all, false);
  if (how == "mean") loss = reduced(op::add, loss, all, false) / reduced(op::add, weight, all, false);
  c.give(result, loss);
}
inline void nll_loss(call& c) { give_nll(c, c.x(0), 0); }
inline void cross_entropy(call& c) {
  const node logp = log_softmax_of(c.x(0), 1);
  give_nll(c, logp, 0);
  c.give(1, logp);
}

inline const row networks[] = {
    {"Attention", "", 23, attention, "products and softmax"},
    {"BatchNormalization", "", 1, batch_norm, "sub, mul, add"},
    {"Gemm", "", 1, gemm, "matmul"},
    {"GroupNormalization", "", 1, group_norm, "means"},
    {"ImageScaler", "", 1, image_scaler, "mul, add"},
    {"InstanceNormalization", "", 1, instance_norm, "means"},
    {"LRN", "", 1, lrn, "sums of slices"},
    {"LayerNormalization", "", 1, layer_norm, "layer_norm"},
    {"LogSoftmax", "", 1, soft<log_softmax_of>, "log_softmax"},
    {"LpNormalization", "", 1, lp_norm, "norm"},
    {"MatMul", "", 1, matmul, "matmul"},
    {"MeanVarianceNormalization", "", 1, mvn, "means"},
    {"NegativeLogLikelihoodLoss", "", 1, nll_loss, "a sum over a mask"},
    {"RMSNormalization", "", 1, rms_norm, "rms_norm"},
    {"RotaryEmbedding", "", 1, rotary, "rotary"},
    {"SimplifiedLayerNormalization", "", 1, rms_norm, "rms_norm"},
    {"Softmax", "", 1, soft<softmax_of>, "softmax"},
    {"SoftmaxCrossEntropyLoss", "", 1, cross_entropy, "log_softmax, a sum over a mask"},
};

}  // namespace sinter::onnx::rows
