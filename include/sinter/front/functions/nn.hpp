// front/functions/nn.hpp: softmax, normalisation and losses, as ordinary functions over the primitives.
#pragma once

#include <array>
#include <optional>

#include "../eager/rows.hpp"
#include "indexing.hpp"
#include "nn_rows.hpp"
#include "reductions.hpp"

namespace sinter {

namespace detail {

template <int Axis, class X>
auto softmax_over(const X& x, location at) {
  if constexpr (takes_floats<named::softmax, X>()) {
    constexpr auto axes = checked_axes<named::softmax, X::rank, Axis>();
    const auto& wider = wide_operand(x, at);
    const row_call call{"softmax", dtype_of<element_of<X>>, axes[0], 0, at};
    return typed<element_of<X>, X::static_shape>(softmax_rows(call, engine::row_map::softmax, lazy_operand_of(wider)),
                                                 at);
  } else {
    return x;
  }
}

template <int Axis, class X>
auto log_softmax_over(const X& x, location at) {
  if constexpr (takes_floats<named::log_softmax, X>()) {
    constexpr auto axes = checked_axes<named::log_softmax, X::rank, Axis>();
    const auto& wider = wide_operand(x, at);
    const row_call call{"log_softmax", dtype_of<element_of<X>>, axes[0], 0, at};
    return typed<element_of<X>, X::static_shape>(
        softmax_rows(call, engine::row_map::log_softmax, lazy_operand_of(wider)), at);
  } else {
    return x;
  }
}

template <dims Logits, dims Labels>
constexpr bool check_labels() {
  constexpr bool rank = Labels.rank == Logits.rank - 1;
  constexpr bool extents = !rank || fits(op_shapes::part(Logits, 0, Logits.rank - 1), Labels);
  static_assert(rank, "sinter: [cross_entropy] labels have one axis less than the logits");
  static_assert(extents, "sinter: [cross_entropy] the static shapes of logits and labels differ before the last axis");
  return rank && extents;
}

template <class T, class X, class Labels>
tensor<T, dims{}> cross_entropy_of(const X& logits, const Labels& labels, location at) {
  const dims rows = to_dims(extents_of(logits, at)), classes = to_dims(extents_of(labels, at));
  if (op_shapes::part(rows, 0, X::rank - 1) != classes)
    fail("cross_entropy",
         "logits are " + text::shape(rows) + ", labels are " + text::shape(classes) +
             "; labels have the logits' extents without the last" +
             hint_unassigned(std::array{rows, classes}.data(), 2),
         at);
  const auto& wider = wide_operand(logits, at);
  return typed<T, dims{}>(cross_entropy_of_rows(dtype_of<T>, lazy_operand_of(wider), untyped(labels, at), at), at);
}

/// user_error, of at.op, unless the operands broadcast to the shape of one of them.
template <class... X>
void check_paired(location at, const X&... operands) {
  const std::initializer_list<dims> all{to_dims(extents_of(operands, at))...};
  op_shapes::demand(at.op, op_shapes::paired(all), at, all);
}

template <class Y>
inline constexpr axis_list last_axis = op_shapes::normalize({-1}, Y::rank);

/// False after the compile-time error that Name, a function along X's last axis, does not take X or its scales.
template <class Name, class X, class... Scales>
constexpr bool takes_rows() {
  if constexpr (X::rank == 0) return Name::template refuse<fault::rank>();
  else return takes_floats<Name, X, Scales...>();
}

/// 1 / sqrt(v + eps) of an f64, as T; eps is rounded to T.
template <class T, class V>
auto inverse_root(const V& v, double eps, location at) {
  return detail::evaluate(cast<T>(rsqrt(add(v, static_cast<double>(static_cast<T>(eps)), at), at), at), at);
}

/// A norm of x's last axis, times the first scale, plus the second.
template <class X, class... Scales>
auto norm_of_rows(engine::row_map f, const X& x, double eps, location at, const Scales&... scales) {
  constexpr dims shape = broadcast(X::static_shape, Scales::static_shape...);
  const std::array<handle, sizeof...(Scales)> by{untyped(wide_operand(scales, at), at)...};
  const auto& wider = wide_operand(x, at);
  const row_call call{f == engine::row_map::layer_norm ? "layer_norm" : "rms_norm", dtype_of<element_of<X>>,
                      X::rank - 1, eps, at};
  return typed<element_of<X>, shape>(normalised_rows(call, f, lazy_operand_of(wider), by), at);
}

}  // namespace detail

/// exp(x) / sum(exp(x)) along an axis, by default the last, computed relative to the maximum. Floating dtypes; f16 and bf16 are
/// computed in f32. A row of -inf gives NaN. An axis of extent 0 gives an empty result.
template <int Axis = -1, tensor_like X>
auto softmax(const X& x, location at = location::current()) {
  return detail::softmax_over<Axis>(x, at);
}
template <tensor_like X, int A>
auto softmax(const X& x, axis_t<A>, location at = location::current()) {
  return detail::softmax_over<A>(x, at);
}

/// log(softmax(x)), as x - max - log(sum(exp(x - max))). Dtypes and empty axes as in softmax.
template <int Axis = -1, tensor_like X>
auto log_softmax(const X& x, location at = location::current()) {
  return detail::log_softmax_over<Axis>(x, at);
}
template <tensor_like X, int A>
auto log_softmax(const X& x, axis_t<A>, location at = location::current()) {
  return detail::log_softmax_over<A>(x, at);
}

/// (x - mean) / sqrt(var + eps) over the last axis (Ba, Kiros and Hinton, 2016). Floating dtypes.
template <tensor_like X>
auto layer_norm(const X& x, double eps = 1e-5, location at = location::current()) {
  if constexpr (detail::takes_rows<detail::named::layer_norm, X>())
    return detail::norm_of_rows(engine::row_map::layer_norm, x, eps, at);
  else return x;
}
/// layer_norm(x) · gamma + beta; gamma and beta broadcast against x.
template <tensor_like X, tensor_like Gamma, tensor_like Beta>
auto layer_norm(const X& x, const Gamma& gamma, const Beta& beta, double eps = 1e-5,
                location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::layer_norm, X, Gamma, Beta>())
    return detail::norm_of_rows(engine::row_map::layer_norm, x, eps, where.in("layer_norm"), gamma, beta);
  else return x;
}

/// x / sqrt(mean(x²) + eps) over the last axis (Zhang and Sennrich, 2019). Floating dtypes.
template <tensor_like X>
auto rms_norm(const X& x, double eps = 1e-5, location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::rms_norm, X>())
    return detail::norm_of_rows(engine::row_map::rms_norm, x, eps, where.in("rms_norm"));
  else return x;
}
/// rms_norm(x) · gamma; gamma broadcasts against x.
template <tensor_like X, tensor_like Gamma>
auto rms_norm(const X& x, const Gamma& gamma, double eps = 1e-5, location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::rms_norm, X, Gamma>())
    return detail::norm_of_rows(engine::row_map::rms_norm, x, eps, where.in("rms_norm"), gamma);
  else return x;
}

/// The mean over all rows of -log(softmax(logits))[label]: logits (…, classes), labels (…) of i32 or i64. A label outside
/// [0, classes) is a user_error. In compiled code it adds log(sum(exp(x - max))), as if its logit were the largest.
template <tensor_like X, tensor_like Labels>
auto cross_entropy(const X& logits, const Labels& labels, location at = location::current()) {
  using T = typename X::value_type;
  using name = detail::named::cross_entropy;
  if constexpr (!detail::takes_floats<name, X>() || !detail::check_index_dtype<name, Labels, false>())
    return tensor<T, dims{}>();
  else if constexpr (!detail::check_labels<X::static_shape, Labels::static_shape>()) return tensor<T, dims{}>();
  else return detail::cross_entropy_of<T>(logits, labels, at);
}

/// The mean of (a - b)² over all elements. Floating dtypes.
/// user_error unless a and b broadcast to the shape of one of them.
template <tensor_like A, tensor_like B>
auto mse_loss(const A& a, const B& b, location where = location::current()) {
  using T = typename A::value_type;
  if constexpr (detail::takes_floats<detail::named::mse_loss, A, B>()) {
    const location at = where.in("mse_loss");
    detail::check_paired(at, a, b);
    const auto d = sub(detail::wide(a, at), detail::wide(b, at), at);
    constexpr auto axes = op_shapes::all_axes(std::remove_cvref_t<decltype(d)>::rank);
    return detail::narrow<T>(detail::mean_over<axes, false>(mul(d, d, at), at), at);
  } else {
    return tensor<T, dims{}>();
  }
}

}  // namespace sinter
