// nn/losses.hpp: PyTorch's losses of rows or elements, their mean or their sum.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "../sinter.hpp"

namespace sinter {

/// The reduction of a loss, after its operands: `nn::huber(x, y, reduce::mean)`. The default `none` returns all rows or elements.
namespace reduce {

struct none_t {};
struct mean_t {};
struct sum_t {};
inline constexpr none_t none{};
inline constexpr mean_t mean{};
inline constexpr sum_t sum{};

}  // namespace reduce

namespace nn {

namespace detail {

using namespace sinter::detail;

template <class R>
concept reduction =
    std::is_same_v<R, reduce::none_t> || std::is_same_v<R, reduce::mean_t> || std::is_same_v<R, reduce::sum_t>;

/// False after the compile-time error.
template <class X, class... More>
constexpr bool takes() {
  constexpr bool floats = is_float(dtype_of<typename X::value_type>),
                 alike = (std::is_same_v<typename X::value_type, typename More::value_type> && ...);
  static_assert(floats, "sinter: [nn] losses take floating dtypes; cast with cast<float>(x)");
  static_assert(alike, "sinter: [nn] the operands of a loss have different dtypes; cast one of them with cast<T>(x)");
  return floats && alike;
}

/// The losses in T, reduced by `How`.
template <class T, reduction How, class X>
auto reduced(const X& losses, How, location at) {
  constexpr auto axes = op_shapes::all_axes(X::rank);
  if constexpr (std::is_same_v<How, reduce::mean_t>) return narrow<T>(mean_over<axes, false>(losses, at), at);
  else if constexpr (std::is_same_v<How, reduce::sum_t>) return narrow<T>(sum_over<axes, false>(losses, at), at);
  else return narrow<T>(losses, at);
}

/// f(x, y) computed in f32 or f64 and reduced in their dtype. user_error unless x and y broadcast to the shape of one of them.
template <reduction How, class X, class Y, class F>
auto of_pairs(const X& x, const Y& y, How how, location at, const F& f) {
  if constexpr (takes<X, Y>()) {
    check_paired(at, x, y);
    return reduced<typename X::value_type>(f(wide(x, at), wide(y, at)), how, at);
  } else {
    return x;
  }
}

/// user_error for a weight that would repeat losses of x and y.
template <class X, class Y, class P>
void check_weight(const X& x, const Y& y, const P& weight, location at) {
  if constexpr (tensor_like<P>) {
    const dims a = to_dims(extents_of(x, at)), b = to_dims(extents_of(y, at)), w = to_dims(extents_of(weight, at));
    if (!op_shapes::covers(a, w) && !op_shapes::covers(b, w))
      fail(at.op,
           "the weight is " + text::shape(w) + ", the operands are " + text::shape(a) + " and " + text::shape(b) +
               "; the weight broadcasts to their shape",
           at);
  }
}

/// max(x, 0).
template <class X>
auto positive(const X& x, location at) {
  return maximum(x, 0, at);
}

/// Stands for absent weights.
struct unweighted {};

template <class Weights>
constexpr bool check_weights() {
  if constexpr (!std::is_same_v<Weights, unweighted>)
    static_assert(Weights::rank == 1, "sinter: [nn::cross_entropy, nn::nll] weights are a vector, a number a class");
  return true;
}

/// user_error unless each row has a label, and each class a weight.
template <class Weights>
void check_classes(const char* op, const dims& logits, const dims& labels, const Weights& weights, location at) {
  if (op_shapes::part(logits, 0, logits.rank - 1) != labels)
    fail(op,
         "classes are along the last axis of " + text::shape(logits) + ", labels are " + text::shape(labels) +
             "; labels have the extents without the last",
         at);
  if constexpr (!std::is_same_v<Weights, unweighted>) {
    const dims all = to_dims(extents_of(weights, at));
    if (all[0] != logits[logits.rank - 1])
      fail(op,
           "weights are " + text::shape(all) + ", classes are along the last axis of " + text::shape(logits) +
               "; there is a weight a class",
           at);
  }
}

/// Losses of logits, or of log-probabilities, smoothed and weighted.
template <bool Logits, reduction How, class X, class Labels, class Weights>
auto of_classes(const char* op, const X& x, const Labels& given, const Weights& weights, How, double smoothing,
                std::int64_t ignore, location at) {
  const handle labels = untyped(given, at);
  check_classes(op, to_dims(extents_of(x, at)), labels.extents, weights, at);
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(op, "smoothing must be in [0, 1]; it is " + text::number(smoothing), at);
  constexpr bool each = std::is_same_v<How, reduce::none_t>, mean = std::is_same_v<How, reduce::mean_t>;
  const auto& wider = wide_operand(x, at);
  const class_loss loss{op,        dtype_of<element_of<X>>,
                        Logits,    each ? row_losses::each : mean ? row_losses::mean : row_losses::sum,
                        smoothing, ignore};
  constexpr dims rows = op_shapes::reduce(X::static_shape, op_shapes::normalize({-1}, X::rank), false).shape,
                 shape = each ? broadcast(Labels::static_shape, rows) : dims{};
  const auto losses = [&](const handle* by) {
    return typed<element_of<X>, shape>(losses_of_classes(loss, lazy_operand_of(wider), labels, by, at), at);
  };
  if constexpr (std::is_same_v<Weights, unweighted>) {
    return losses(nullptr);
  } else {
    const handle by = untyped(weights, at);
    return losses(&by);
  }
}

/// False after the compile-time error.
template <class X, class Labels, class Weights>
constexpr bool takes_classes() {
  constexpr dtype index = dtype_of<typename Labels::value_type>;
  constexpr bool whole = index == dtype::i32 || index == dtype::i64, rank = X::rank == Labels::rank + 1;
  static_assert(whole, "sinter: [nn] labels are neither i32 nor i64; cast them with cast<std::int64_t>(labels)");
  static_assert(rank, "sinter: [nn] labels have one axis less than what they name classes of");
  constexpr bool rows = !rank || fits(op_shapes::part(X::static_shape, 0, X::rank - 1), Labels::static_shape);
  static_assert(rows, "sinter: [nn] the static shapes of scores and labels differ before the axis of classes");
  bool each = true;
  if constexpr (!std::is_same_v<Weights, unweighted>) {
    constexpr bool one =
        Weights::rank != 1 || fits(op_shapes::part(X::static_shape, X::rank - 1, X::rank), Weights::static_shape);
    static_assert(one, "sinter: [nn] the static shape of weights is not the number of classes");
    each = one;
  }
  bool floats = false;
  if constexpr (std::is_same_v<Weights, unweighted>) floats = takes<X>();
  else floats = takes<X, Weights>();
  return whole && rank && rows && each && check_weights<Weights>() && floats;
}

/// positive·softplus(-x) + (1 - t)·softplus(x) of logits x; 0 where an infinite logit agrees with its target t.
template <class X, class T, class P>
auto of_logits(const X& logits, const T& t, const P& positive, location at) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const auto sure = sinter::detail::evaluate(bit_or(bit_and(eq(logits, infinite, at), eq(t, 1, at), at),
                                                    bit_and(eq(logits, -infinite, at), eq(t, 0, at), at), at),
                                             at);
  const auto x = sinter::detail::evaluate(where(sure, 0, logits, at), at);
  const auto below = sinter::detail::evaluate(sinter::softplus(neg(x, at), at), at);
  const auto above = where(eq(x, -infinite, at), 0, add(x, below, at), at);
  return sinter::detail::evaluate(where(sure, 0, add(mul(positive, below, at), mul(sub(1, t, at), above, at), at), at),
                                  at);
}

template <class X, class Y>
auto distance(const X& x, const Y& y, double eps, location at) {
  const auto d = add(sub(x, y, at), eps, at);
  constexpr auto last = op_shapes::normalize({-1}, std::remove_cvref_t<decltype(d)>::rank);
  return norm_over<2, last, false>(d, at);
}
template <class X, class Y>
auto dot_rows(const X& x, const Y& y, location at) {
  const auto d = mul(x, y, at);
  constexpr auto last = op_shapes::normalize({-1}, std::remove_cvref_t<decltype(d)>::rank);
  return sum_over<last, false>(d, at);
}

}  // namespace detail

/// Rows with the label `ignore` do not count. Label smoothing spreads that share of each label equally over all classes.
struct class_options {
  double smoothing = 0;
  std::int64_t ignore = -100;
};

/// -weights[label] · log(softmax(logits))[label] of each row: logits (…, classes), labels (…) of i32 or i64, optional weights
/// (classes). The mean divides by the sum of the weights of the rows that count; it is NaN if none counts. Floating dtypes;
/// errors are those of sinter::cross_entropy.
template <tensor_like X, tensor_like Labels, detail::reduction How = reduce::none_t>
auto cross_entropy(const X& logits, const Labels& labels, How how = {}, class_options options = {},
                   location here = location::current()) {
  if constexpr (detail::takes_classes<X, Labels, detail::unweighted>()) {
    const location at = here.in("nn::cross_entropy");
    return detail::of_classes<true>("nn::cross_entropy", logits, labels, detail::unweighted(), how, options.smoothing,
                                    options.ignore, at);
  } else {
    return logits;
  }
}
template <tensor_like X, tensor_like Labels, tensor_like Weights, detail::reduction How = reduce::none_t>
auto cross_entropy(const X& logits, const Labels& labels, const Weights& weights, How how = {},
                   class_options options = {}, location here = location::current()) {
  if constexpr (detail::takes_classes<X, Labels, Weights>()) {
    const location at = here.in("nn::cross_entropy");
    return detail::of_classes<true>("nn::cross_entropy", logits, labels, weights, how, options.smoothing,
                                    options.ignore, at);
  } else {
    return logits;
  }
}

/// cross_entropy of log-probabilities: -weights[label] · y[label] of each row.
template <tensor_like X, tensor_like Labels, detail::reduction How = reduce::none_t>
auto nll(const X& y, const Labels& labels, How how = {}, class_options options = {},
         location here = location::current()) {
  if constexpr (detail::takes_classes<X, Labels, detail::unweighted>()) {
    const location at = here.in("nn::nll");
    return detail::of_classes<false>("nn::nll", y, labels, detail::unweighted(), how, options.smoothing, options.ignore,
                                     at);
  } else {
    return y;
  }
}
template <tensor_like X, tensor_like Labels, tensor_like Weights, detail::reduction How = reduce::none_t>
auto nll(const X& y, const Labels& labels, const Weights& weights, How how = {}, class_options options = {},
         location here = location::current()) {
  if constexpr (detail::takes_classes<X, Labels, Weights>()) {
    const location at = here.in("nn::nll");
    return detail::of_classes<false>("nn::nll", y, labels, weights, how, options.smoothing, options.ignore, at);
  } else {
    return y;
  }
}

/// -(p·t·log σ(x) + (1 - t)·log(1 - σ(x))) of logits x and targets t in [0, 1], without overflow. The weight p of targets equal
/// to 1 is a number or a tensor that broadcasts to their shape. Floating dtypes; x and t broadcast as in mse. user_error for a
/// larger p.
template <tensor_like X, tensor_like T, operand_like P, detail::reduction How = reduce::none_t>
requires(!detail::reduction<P>) auto binary_cross_entropy(const X& logits, const T& targets, const P& positive_weight,
                                                          How how = {}, location here = location::current()) {
  const location at = here.in("nn::binary_cross_entropy");
  return detail::of_pairs(logits, targets, how, at, [&](const auto& x, const auto& given) {
    detail::check_weight(logits, targets, positive_weight, at);
    const auto t = sinter::detail::evaluate(given, at);
    if constexpr (tensor_like<P>) return detail::of_logits(x, t, mul(detail::wide(positive_weight, at), t, at), at);
    else return detail::of_logits(x, t, mul(t, static_cast<double>(positive_weight), at), at);
  });
}
template <tensor_like X, tensor_like T, detail::reduction How = reduce::none_t>
auto binary_cross_entropy(const X& logits, const T& targets, How how = {}, location here = location::current()) {
  const location at = here.in("nn::binary_cross_entropy");
  return detail::of_pairs(logits, targets, how, at, [&](const auto& x, const auto& given) {
    const auto t = sinter::detail::evaluate(given, at);
    return detail::of_logits(x, t, t, at);
  });
}

struct kl_options {
  bool log_target = false;  ///< the targets are logarithms too
};

/// t · (log t - x) of log-probabilities x and probabilities t, 0 for t = 0. Floating dtypes; x and t broadcast as in mse.
template <tensor_like X, tensor_like T, detail::reduction How = reduce::none_t>
auto kl_div(const X& x, const T& targets, How how = {}, kl_options options = {}, location here = location::current()) {
  const location at = here.in("nn::kl_div");
  return detail::of_pairs(x, targets, how, at, [&](const auto& y, const auto& t) {
    const auto wide = sinter::detail::evaluate(t, at);
    if (options.log_target) return sinter::detail::evaluate(mul(exp(wide, at), sub(wide, y, at), at), at);
    const auto none = eq(wide, 0, at);
    return sinter::detail::evaluate(where(none, 0, mul(wide, sub(log(where(none, 1, wide, at), at), y, at), at), at),
                                    at);
  });
}

/// (x - y)². Floating dtypes. x and y broadcast to the shape of one of them: (n, d) fits (n, d), (1, d), (d) and rank 0.
/// user_error if the common shape is neither's, as of (n, 1) and (n).
template <tensor_like X, tensor_like Y, detail::reduction How = reduce::none_t>
auto mse(const X& x, const Y& y, How how = {}, location here = location::current()) {
  const location at = here.in("nn::mse");
  return detail::of_pairs(x, y, how, at, [&](const auto& a, const auto& b) { return square(sub(a, b, at), at); });
}
/// |x - y|. Floating dtypes; x and y broadcast as in mse.
template <tensor_like X, tensor_like Y, detail::reduction How = reduce::none_t>
auto l1(const X& x, const Y& y, How how = {}, location here = location::current()) {
  const location at = here.in("nn::l1");
  return detail::of_pairs(x, y, how, at, [&](const auto& a, const auto& b) { return abs(sub(a, b, at), at); });
}

/// d² / 2 of d = x - y. Beyond |d| = delta it continues as the tangent, delta · (|d| - delta / 2) (Huber, 1964). Floating
/// dtypes; x and y broadcast as in mse. user_error unless delta is above 0.
template <tensor_like X, tensor_like Y, detail::reduction How = reduce::none_t>
auto huber(const X& x, const Y& y, How how = {}, double delta = 1, location here = location::current()) {
  const location at = here.in("nn::huber");
  if (!(delta > 0)) fail("nn::huber", "delta must be above 0; it is " + text::number(delta), at);
  return detail::of_pairs(x, y, how, at, [&](const auto& a, const auto& b) {
    const auto d = sinter::detail::evaluate(sub(a, b, at), at);
    const auto size = abs(d, at);
    return where(le(size, delta, at), mul(mul(d, d, at), 0.5, at), mul(sub(size, 0.5 * delta, at), delta, at), at);
  });
}
/// huber(x, y) / beta with delta = beta; l1(x, y) for beta 0. user_error for a negative beta.
template <tensor_like X, tensor_like Y, detail::reduction How = reduce::none_t>
auto smooth_l1(const X& x, const Y& y, How how = {}, double beta = 1, location here = location::current()) {
  const location at = here.in("nn::smooth_l1");
  if (!(beta >= 0)) fail("nn::smooth_l1", "beta must be 0 or more; it is " + text::number(beta), at);
  return detail::of_pairs(x, y, how, at, [&](const auto& a, const auto& b) {
    const auto d = sinter::detail::evaluate(sub(a, b, at), at);
    const auto size = abs(d, at);
    const double scale = beta > 0 ? 0.5 / beta : 0;
    return where(lt(size, beta, at), mul(mul(d, d, at), scale, at), sub(size, 0.5 * beta, at), at);
  });
}

/// max(margin - t·x, 0) for targets t of 1 or -1. Floating dtypes; x and t broadcast as in mse.
template <tensor_like X, tensor_like T, detail::reduction How = reduce::none_t>
auto hinge(const X& x, const T& targets, How how = {}, double margin = 1, location here = location::current()) {
  const location at = here.in("nn::hinge");
  return detail::of_pairs(x, targets, how, at, [&](const auto& a, const auto& t) {
    return detail::positive(sub(margin, mul(t, a, at), at), at);
  });
}
/// x for target 1, max(margin - x, 0) for target -1. Floating dtypes; x and targets broadcast as in mse.
template <tensor_like X, tensor_like T, detail::reduction How = reduce::none_t>
auto hinge_embedding(const X& x, const T& targets, How how = {}, double margin = 1,
                     location here = location::current()) {
  const location at = here.in("nn::hinge_embedding");
  return detail::of_pairs(x, targets, how, at, [&](const auto& a, const auto& t) {
    return where(eq(t, 1, at), a, detail::positive(sub(margin, a, at), at), at);
  });
}

/// x·y / (max(‖x‖, eps) · max(‖y‖, eps)) of vectors along the last axes. Floating dtypes; x and y broadcast.
template <tensor_like X, tensor_like Y>
auto cosine_similarity(const X& x, const Y& y, double eps = 1e-8, location here = location::current()) {
  if constexpr (detail::takes<X, Y>()) {
    const location at = here.in("nn::cosine_similarity");
    const auto a = sinter::detail::evaluate(detail::wide(x, at), at);
    const auto b = sinter::detail::evaluate(detail::wide(y, at), at);
    // Each is divided by its size first: products of large elements, or of sizes, are out of f32's range.
    const auto unit = [&](const auto& v) {
      return mul(v, sinter::detail::evaluate(div(1, maximum(norm(v, axis<-1>, keepdims, at), eps, at), at), at), at);
    };
    return detail::narrow<typename X::value_type>(detail::dot_rows(unit(a), unit(b), at), at);
  } else {
    return x;
  }
}

/// Of vectors along the last axes: 1 - cosine for target 1, max(cosine - margin, 0) for target -1. Targets have the extents
/// without the last. Floating dtypes; x and y broadcast as in mse, and so do rows and targets.
template <tensor_like X, tensor_like Y, tensor_like T, detail::reduction How = reduce::none_t>
auto cosine(const X& x, const Y& y, const T& targets, How how = {}, double margin = 0,
            location here = location::current()) {
  if constexpr (detail::takes<X, Y, T>()) {
    const location at = here.in("nn::cosine");
    detail::check_paired(at, x, y);
    const auto a = sinter::detail::evaluate(detail::wide(x, at), at);
    const auto b = sinter::detail::evaluate(detail::wide(y, at), at);
    const auto unit = [&]<class V>(const V& v) {
      const auto squares = sinter::detail::squares_over<sinter::detail::last_axis<V>, true>(v, at);
      return mul(v, sinter::detail::inverse_root<typename V::value_type>(squares, 1e-12, at), at);
    };
    const auto near = sinter::detail::evaluate(detail::dot_rows(unit(a), unit(b), at), at);
    detail::check_paired(at, near, targets);
    const auto losses =
        where(eq(detail::wide(targets, at), 1, at), sub(1, near, at), detail::positive(sub(near, margin, at), at), at);
    return detail::reduced<typename X::value_type>(losses, how, at);
  } else {
    return x;
  }
}

struct triplet_options {
  double margin = 1;
  bool swap = false;  ///< measures the negative's distance from the anchor or the positive, whichever is nearer
};

/// max(‖a - p‖ - ‖a - n‖ + margin, 0) of anchors, positives and negatives along the last axes. Differences have 1e-6 added, so
/// that norms have derivatives. Floating dtypes. user_error unless the three broadcast to the shape of one of them.
template <tensor_like A, tensor_like P, tensor_like N, detail::reduction How = reduce::none_t>
auto triplet(const A& anchor, const P& positive, const N& negative, How how = {}, triplet_options options = {},
             location here = location::current()) {
  if constexpr (detail::takes<A, P, N>()) {
    const location at = here.in("nn::triplet");
    detail::check_paired(at, anchor, positive, negative);
    const auto a = sinter::detail::evaluate(detail::wide(anchor, at), at);
    const auto p = sinter::detail::evaluate(detail::wide(positive, at), at);
    const auto n = sinter::detail::evaluate(detail::wide(negative, at), at);
    const auto far = detail::distance(a, n, 1e-6, at);
    const auto counts =
        options.swap ? sinter::detail::evaluate(minimum(far, detail::distance(p, n, 1e-6, at), at), at) : far;
    const auto losses =
        detail::positive(add(sub(detail::distance(a, p, 1e-6, at), counts, at), options.margin, at), at);
    return detail::reduced<typename A::value_type>(losses, how, at);
  } else {
    return anchor;
  }
}

}  // namespace nn

}  // namespace sinter
