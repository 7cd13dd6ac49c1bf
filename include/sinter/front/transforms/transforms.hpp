// front/transforms/transforms.hpp: functions that transform functions: grad and value_and_grad.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "vary.hpp"

namespace sinter {

struct has_aux_t {};

/// The function returns (value, more): `value_and_grad(f, has_aux)` gives ((value, more), gradients).
inline constexpr has_aux_t has_aux{};

namespace detail {

/// A loss of another type, and its tensor. (mesh/placed.hpp)
template <class V>
struct loss_behind {
  static constexpr bool is = false;
};

template <class V>
constexpr bool is_loss() {
  if constexpr (tensor_like<V>) return V::rank == 0 && is_float(dtype_of<typename V::value_type>);
  else return loss_behind<V>::is;
}

template <class V>
auto settled_loss(const V& loss, location where) {
  if constexpr (tensor_like<V>) return evaluate(loss, where);
  else return settle_tree(loss);
}
template <class V>
ir::node_id push_loss(engine::tracer& t, const V& loss, location where) {
  if constexpr (tensor_like<V>) {
    const ir::node_id y = push(t, loss, where);
    engine::check_loss(t, y, where);
    return y;
  } else {
    return push(t, loss_behind<V>::tensor(loss), where);
  }
}

template <class T>
auto as_gradient(T&& tree) {
  using from = std::remove_cvref_t<T>;
  using to = typename gradient_type<from>::type;
  constexpr bool typed = !std::is_same_v<from, to> || !has_other_gradients<from>();
  static_assert(
      typed,
      "sinter: [grad] a replicated or partial field of a struct has a gradient of another placement: make the "
      "field invariant<A> and write as<replicated<A>>(x), or pass it as an argument of its own");
  if constexpr (std::is_same_v<from, to>) return from(std::forward<T>(tree));
  else return tree_as<to>(tree, []<class X>(const X& x, auto) { return x; });
}

/// A pair, a tuple or an array of two.
template <class T>
concept two_results = requires {
  requires std::tuple_size<T>::value == 2;
};

/// The function that grad and value_and_grad return.
template <class Indexes, bool Value, bool Aux, class F>
class differentiated {
  template <class Result>
  static constexpr transform_fault fault_of_result() {
    if constexpr (std::is_void_v<Result>) return transform_fault::none;
    else if constexpr (!Aux) return is_loss<Result>() ? transform_fault::none : transform_fault::loss;
    else if constexpr (!two_results<Result>) return transform_fault::pair;
    else
      return is_loss<std::remove_cvref_t<std::tuple_element_t<0, Result>>>() ? transform_fault::none
                                                                             : transform_fault::loss;
  }

 public:
  template <class... Args>
  static constexpr transform_fault fault_of = [] {
    constexpr transform_fault found = fault_of_call<Indexes, F, Args...>();
    if constexpr (found != transform_fault::none || takes_other_numbers<Indexes, F, Args...>()) return found;
    else return fault_of_result<typename decltype(transformed<Indexes, F, Args...>::result())::type>();
  }();

  differentiated(F f, location where) : f_(std::move(f)), where_(where) {}

  SINTER_RIGHT_TRANSFORMS
  SINTER_WRONG_TRANSFORMS("grad", true, "a rank-0 floating tensor")

 private:
  template <std::size_t... I, class... Args>
  auto checked(std::index_sequence<I...>, Args&&... args) const {
    if (engine::current()) return under_trace(passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
    return call_alone(
        "grad", where_, [this](auto&&... x) { return this->under_trace(std::move(x)...); },
        passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
  }

  template <class... Args>
  auto under_trace(Args... args) const {
    marked_call<Indexes, Args...> call("grad", where_, args...);
    const auto gradients = [&](ir::node_id y) {
      const auto marks = call.marks();
      const auto nodes = engine::gradient(*call.tracer(), y, {marks.data(), marks.size()}, where_);
      const ir::node_id* next = nodes.begin();
      return call.trees(
          [&](const auto& x) { return as_gradient(derivative_tree("grad", where_, call.tracer(), x, next)); });
    };
    return results(call.run(f_), gradients, *call.tracer());
  }

  /// The caller's results: the function's result and its gradients.
  template <class Result, class Gradients>
  auto results(const Result& result, const Gradients& gradients, engine::tracer& tracer) const {
    if constexpr (Aux) {
      const auto value = settled_loss(std::get<0>(result), where_);
      auto more = settle_tree(std::get<1>(result));
      auto gradient = gradients(push_loss(tracer, value, where_));
      if constexpr (Value) return std::pair{std::pair{value, std::move(more)}, std::move(gradient)};
      else return std::pair{std::move(gradient), std::move(more)};
    } else {
      const auto value = settled_loss(result, where_);
      auto gradient = gradients(push_loss(tracer, value, where_));
      if constexpr (Value) return std::pair{value, std::move(gradient)};
      else return gradient;
    }
  }

  mutable F f_;
  location where_;
};

template <class Indexes, bool Value, bool Aux, class F>
struct function_within<differentiated<Indexes, Value, Aux, F>> : function_within<F> {};
template <class Indexes, bool Value, bool Aux, class F>
inline constexpr bool has_own_faults<differentiated<Indexes, Value, Aux, F>> = true;

}  // namespace detail

/// The function that returns f's result and its gradient: `auto [l, g] = value_and_grad(loss)(params, x, y)`. `Index` is the
/// argument to differentiate by, the first by default. The gradient is a tree of that argument's type; for several, as in
/// value_and_grad<0, 2>(f), a tuple of such trees. Integer and bool tensors in it become zeros; numbers and flags are passed
/// on. A C++ number as the differentiated argument is a tensor of rank 0 with the dtype of f's parameter: grad(f)(2.0).
/// Tensors that f captures are constants. f must return a rank-0 floating tensor. Inside compile() the gradient becomes part
/// of the graph. Outside, each call traces and runs it, with kernels kept by structure. An index out of range is then a
/// user_error.
// clang-format off
template <int... Index, class F>
auto value_and_grad(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::differentiated<detail::varying<Index...>, true, false, std::decay_t<F>>(std::forward<F>(f), where);
}
/// As above for an f that returns (value, more), as a pair or tuple; returns ((value, more), gradient).
template <int... Index, class F>
auto value_and_grad(F&& f, has_aux_t, location where = location::current()) {
  return detail::differentiated<detail::varying<Index...>, true, true, std::decay_t<F>>(std::forward<F>(f), where);
}

/// The function that returns f's gradient; see value_and_grad. `grad(grad(f))` is the second derivative.
// clang-format off
template <int... Index, class F>
auto grad(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::differentiated<detail::varying<Index...>, false, false, std::decay_t<F>>(std::forward<F>(f), where);
}
/// As above for an f that returns (value, more); returns (gradient, more).
template <int... Index, class F>
auto grad(F&& f, has_aux_t, location where = location::current()) {
  return detail::differentiated<detail::varying<Index...>, false, true, std::decay_t<F>>(std::forward<F>(f), where);
}

}  // namespace sinter
