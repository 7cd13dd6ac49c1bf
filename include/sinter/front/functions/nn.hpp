// front/functions/nn.hpp: softmax, normalisation and losses, as ordinary functions over the primitives.
#pragma once

#include <bit>
#include <cmath>

#include "../eager/rows.hpp"
#include "indexing.hpp"
#include "reductions.hpp"

namespace sinter {

namespace detail {

/// x - max along the axis. The maximum has no derivative, since it cancels.
template <axis_list Axes, class Y>
auto shifted(const Y& y, const char* op, location at) {
  return sub(y, detail::evaluate(stop_gradient(max_over<Axes, true>(y, at, op), at), at), at);
}

/// The engine's `f` of `x` on the host, or otherwise the result of `nodes`.
template <class T, class X, class Nodes, class... More>
auto in_rows(const char* op, engine::row_map f, const X& x, int axis, double eps, location at, const Nodes& nodes,
             const More&... more) {
  using result = decltype(nodes());
  if (!engine::current())
    if (auto y = eager_rows<result::static_shape>(op, f, x, axis, eps, at, more...)) return narrow<T>(*y, at);
  return nodes();
}

template <class Y>
bool is_empty(const Y& y, int axis) {
  return y.shape()[static_cast<std::size_t>(axis)] == 0;
}

template <int Axis, class X>
auto softmax_over(const X& x, location at) {
  if constexpr (takes_floats<named::softmax, X>()) {
    constexpr auto axes = checked_axes<named::softmax, X::rank, Axis>();
    const auto& wider = wide(x, at);
    return in_rows<element_of<X>>("softmax", engine::row_map::softmax, wider, axes[0], 0, at, [&] {
      const auto y = detail::evaluate(wider, at);
      if (is_empty(y, axes[0])) return narrow<element_of<X>>(y, at);
      const auto e = detail::evaluate(exp(shifted<axes>(y, "softmax", at), at), at);
      const auto part = detail::evaluate(div(1, sum_over<axes, true>(e, at), at), at);
      return narrow<element_of<X>>(mul(e, part, at), at);
    });
  } else {
    return x;
  }
}

template <int Axis, class X>
auto log_softmax_over(const X& x, location at) {
  if constexpr (takes_floats<named::log_softmax, X>()) {
    constexpr auto axes = checked_axes<named::log_softmax, X::rank, Axis>();
    const auto& wider = wide(x, at);
    return in_rows<element_of<X>>("log_softmax", engine::row_map::log_softmax, wider, axes[0], 0, at, [&] {
      const auto y = detail::evaluate(wider, at);
      if (is_empty(y, axes[0])) return narrow<element_of<X>>(y, at);
      const auto z = shifted<axes>(y, "log_softmax", at);
      return narrow<element_of<X>>(sub(z, log(sum_over<axes, true>(exp(z, at), at), at), at), at);
    });
  } else {
    return x;
  }
}

/// The element of z at each label, along z's last axis. In kernels it is a sum over a mask: with its derivative, the sum fuses
/// into the loops over the row, and a gather's derivative would be a scatter.
template <class Z, class Labels>
auto at_labels(const Z& z, const Labels& labels, bool in_kernels, location at, const char* op = "cross_entropy") {
  using L = typename Labels::value_type;
  constexpr auto axes = op_shapes::normalize({-1}, Z::rank);
  const dim count = extents_of(z, at)[Z::rank - 1];
  if (in_kernels) {
    if (tracing()) check_later(op, untyped(labels, at), count, at);
    const index_leaf<L, dims{dyn}> classes({count}, 0);
    const auto picked = where(eq(expand_dims<-1>(labels, at), classes, at), z, 0, at);
    return sum_over<axes, false>(picked, at);
  } else {
    checked_indices(op, untyped(labels, at), count, at);
    return drop_kept<axes, false>(take_along_axis(z, expand_dims<-1>(labels, at), axis<-1>, at), at);
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

/// -log(softmax(z))[label] of each row in f64, without storing z. Null for z on a GPU, and for rows without elements.
template <class Z, class Labels>
auto eager_row_losses(const Z& z, const Labels& labels, location at) {
  constexpr auto axes = op_shapes::normalize({-1}, Z::rank);
  constexpr dims shape = op_shapes::reduce(Z::static_shape, axes, false).shape;
  std::optional<tensor<double, shape>> loss;
  const row_reader<Z> x(z, at);
  const dim classes = x.extents[Z::rank - 1];
  if (x.list.on_gpu || classes == dim(0)) return loss;
  const auto chosen = checked_indices("cross_entropy", untyped(labels, at), classes, at);
  loss = empty_result<double, shape>("cross_entropy", z, axes, false, at);
  engine::row_losses(x.source, chosen, access::data(*loss));
  return loss;
}

template <class T, class X, class Labels>
tensor<T, dims{}> cross_entropy_of(const X& logits, const Labels& labels, location at) {
  constexpr auto axes = op_shapes::normalize({-1}, X::rank);
  const dims rows = to_dims(extents_of(logits, at)), classes = to_dims(extents_of(labels, at));
  if (op_shapes::part(rows, 0, X::rank - 1) != classes)
    fail("cross_entropy",
         "logits are " + text::shape(rows) + ", labels are " + text::shape(classes) +
             "; labels have the logits' extents without the last" +
             hint_unassigned(std::array{rows, classes}.data(), 2),
         at);
  constexpr axis_list all_rows = op_shapes::all_axes(X::rank - 1);
  const auto& wider = wide(logits, at);
  if (!engine::current())
    if (const auto loss = eager_row_losses(wider, labels, at))
      return detail::evaluate(sinter::cast<T>(mean_over<all_rows, false>(*loss, at), at), at);
  const auto y = detail::evaluate(wider, at);
  const auto z = shifted<axes>(y, "cross_entropy", at);
  const auto all = log(sum_over<axes, false>(exp(z, at), at), at);
  const bool in_kernels = tracing() || y.device(at).is_cuda();
  const auto loss = sub(all, at_labels(z, labels, in_kernels, at), at);
  return narrow<T>(mean_over<all_rows, false>(loss, at), at);
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

/// x / n in f64.
template <class X>
auto shared(const X& x, dim n, location at) {
  if (n.is_symbolic()) return detail::evaluate(div(x, n, at), at);
  return detail::evaluate(mul(x, formula_number{1 / static_cast<double>(n.bits)}, at), at);
}

/// The mean over the last axis of n elements, whose sum may be beyond the dtype: they are multiplied by a power of two below 1 / n, which
/// changes no bit of a mean that is not subnormal.
template <class Y>
auto mean_in_range(const Y& y, dim n, location at) {
  using T = element_of<Y>;
  const auto mean = [&](const auto& power, const auto& share) {
    return detail::evaluate(div(sum_over<last_axis<Y>, true>(mul(y, power, at), at), share, at), at);
  };
  if (n.is_symbolic()) {
    using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    constexpr auto exponent = std::bit_cast<bits>(std::numeric_limits<T>::infinity());
    const auto size = size_value<T>(n, at);
    const auto below = bit_cast<T>(bit_and(bit_cast<bits>(size, at), exponent, at), at);
    const auto power = detail::evaluate(div(0.5, below, at), at);
    return mean(power, detail::evaluate(mul(size, power, at), at));
  }
  const auto count = static_cast<std::uint64_t>(n.bits);
  const double power = std::ldexp(1.0, -static_cast<int>(std::bit_width(count)));
  return mean(formula_number{power}, formula_number{power * static_cast<double>(count)});
}

/// 1 / sqrt(v + eps) of an f64, as T; eps is rounded to T.
template <class T, class V>
auto inverse_root(const V& v, double eps, location at) {
  return detail::evaluate(cast<T>(rsqrt(add(v, static_cast<double>(static_cast<T>(eps)), at), at), at), at);
}

/// (x - mean) / sqrt(variance + eps) over the last axis, in f32 or f64.
template <class Y>
auto standardised(const Y& y, double eps, location at) {
  constexpr auto axes = last_axis<Y>;
  const dim n = combined<axes>(y, at);
  const auto about = detail::evaluate(stop_gradient(mean_in_range(y, n, at), at), at);
  const auto off = detail::evaluate(sub(y, about, at), at);
  const auto rest = mean_in_range(off, n, at);
  const auto squares = squares_over<axes, true>(off, at);
  const auto mean = cast<double>(rest, at);
  const auto left = detail::evaluate(sub(shared(squares, n, at), mul(mean, mean, at), at), at);
  // A selection has a derivative at 0 too: that of the operand it takes.
  const auto v = detail::evaluate(where(lt(left, 0, at), 0, left, at), at);
  if constexpr (std::is_same_v<element_of<Y>, double>)  // squares that are infinite leave 0
    return mul(sub(off, rest, at), inverse_root<double>(where(isinf(squares, at), squares, v, at), eps, at), at);
  else return mul(sub(off, rest, at), inverse_root<element_of<Y>>(v, eps, at), at);
}

/// y / sqrt(mean(y²) + eps) over the last axis.
template <class Y>
auto unit_rms(const Y& y, double eps, location at) {
  const auto v = shared(squares_over<last_axis<Y>, true>(y, at), combined<last_axis<Y>>(y, at), at);
  return mul(y, inverse_root<element_of<Y>>(v, eps, at), at);
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
  if constexpr (detail::takes_rows<detail::named::layer_norm, X>()) {
    using T = typename X::value_type;
    const auto& wider = detail::wide(x, at);
    return detail::in_rows<T>("layer_norm", engine::row_map::layer_norm, wider, X::rank - 1, eps, at, [&] {
      return detail::narrow<T>(detail::standardised(detail::evaluate(wider, at), eps, at), at);
    });
  } else {
    return x;
  }
}
/// layer_norm(x) · gamma + beta; gamma and beta broadcast against x.
template <tensor_like X, tensor_like Gamma, tensor_like Beta>
auto layer_norm(const X& x, const Gamma& gamma, const Beta& beta, double eps = 1e-5,
                location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::layer_norm, X, Gamma, Beta>()) {
    const location at = where.in("layer_norm");
    using T = typename X::value_type;
    const auto& wider = detail::wide(x, at);
    const auto& scale = detail::wide(gamma, at);
    const auto& offset = detail::wide(beta, at);
    return detail::in_rows<T>(
        "layer_norm", engine::row_map::layer_norm, wider, X::rank - 1, eps, at,
        [&] {
          const auto scaled = mul(detail::standardised(detail::evaluate(wider, at), eps, at), scale, at);
          return detail::narrow<T>(add(scaled, offset, at), at);
        },
        scale, offset);
  } else {
    return x;
  }
}

/// x / sqrt(mean(x²) + eps) over the last axis (Zhang and Sennrich, 2019). Floating dtypes.
template <tensor_like X>
auto rms_norm(const X& x, double eps = 1e-5, location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::rms_norm, X>()) {
    const location at = where.in("rms_norm");
    using T = typename X::value_type;
    const auto& wider = detail::wide(x, at);
    return detail::in_rows<T>("rms_norm", engine::row_map::rms_norm, wider, X::rank - 1, eps, at, [&] {
      return detail::narrow<T>(detail::unit_rms(detail::evaluate(wider, at), eps, at), at);
    });
  } else {
    return x;
  }
}
/// rms_norm(x) · gamma; gamma broadcasts against x.
template <tensor_like X, tensor_like Gamma>
auto rms_norm(const X& x, const Gamma& gamma, double eps = 1e-5, location where = location::current()) {
  if constexpr (detail::takes_rows<detail::named::rms_norm, X, Gamma>()) {
    const location at = where.in("rms_norm");
    using T = typename X::value_type;
    const auto& wider = detail::wide(x, at);
    const auto& scale = detail::wide(gamma, at);
    return detail::in_rows<T>(
        "rms_norm", engine::row_map::rms_norm, wider, X::rank - 1, eps, at,
        [&] { return detail::narrow<T>(mul(detail::unit_rms(detail::evaluate(wider, at), eps, at), scale, at), at); },
        scale);
  } else {
    return x;
  }
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
