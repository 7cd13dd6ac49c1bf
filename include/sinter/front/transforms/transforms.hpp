// front/transforms/transforms.hpp: functions made of functions: grad and value_and_grad.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../compile/integers.hpp"
#include "call_alone.hpp"

namespace sinter {

struct has_aux_t {};

/// The function returns (value, more): `value_and_grad(f, has_aux)` gives ((value, more), gradients).
inline constexpr has_aux_t has_aux{};

namespace detail {

/// A tensor that derivatives flow through.
template <class T>
inline constexpr bool differentiable = false;
template <class T, dims Shape>
inline constexpr bool differentiable<tensor<T, Shape>> = is_float(dtype_of<T>);

template <class T>
constexpr bool any_differentiable();

template <class... T>
constexpr bool any_differentiable(type_list<T...>) {
  return (... || any_differentiable<T>());
}

template <class T>
constexpr bool any_differentiable() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused) return true;
  else if constexpr (b == branch::tensor || b == branch::scalar) return differentiable<T>;
  else if constexpr (has_elements(b)) return any_differentiable<element_in<T>>();
  else return any_differentiable(children_of<T>{});
}

template <class V>
constexpr bool is_loss() {
  if constexpr (tensor_like<V>) return V::rank == 0 && is_float(dtype_of<typename V::value_type>);
  else return false;
}

/// A pair, a tuple or an array of two.
template <class T>
concept two_results = requires {
  requires std::tuple_size<T>::value == 2;
};

/// The function that grad and value_and_grad return.
template <int Index, bool Value, bool Aux, class F>
class differentiated {
 public:
  differentiated(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    constexpr bool exists = Index >= 0 && Index < static_cast<int>(sizeof...(Args));
    static_assert(exists, "[grad] the function has no such argument");
    if constexpr (exists) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        using given = std::tuple<decltype(passed<I>(std::forward<Args>(args)))...>;
        constexpr bool varies = any_differentiable<std::tuple_element_t<static_cast<std::size_t>(Index), given>>();
        static_assert(varies, "[grad] the argument holds no floating tensor");
        constexpr bool right = told_to_take<F&, std::tuple_element_t<I, given>...>();
        constexpr bool takes = std::is_invocable_v<F&, std::tuple_element_t<I, given>...>;
        static_assert(right,
                      "[grad] the function does not take these arguments: their number, a dtype or a rank differs");
        constexpr bool returns = [] {
          if constexpr (!takes) return true;
          else return !std::is_void_v<std::invoke_result_t<F&, std::tuple_element_t<I, given>...>>;
        }();
        static_assert(returns, "[grad] the function must return a rank-0 floating tensor; it returns nothing");
        if constexpr (varies && takes && returns) {
          if (engine::current()) return under_trace(passed<I>(std::forward<Args>(args))...);
          return call_alone(
              "grad", where_, [this](auto&&... x) { return this->under_trace(std::move(x)...); },
              passed<I>(std::forward<Args>(args))...);
        }
      }
      (std::index_sequence_for<Args...>{});
    }
  }

 private:
  /// An argument as the function takes it: a number stays one, unless it is what varies.
  template <std::size_t I, class T>
  static auto passed(T&& x) {
    if constexpr (is_number<std::remove_cvref_t<T>> && I != static_cast<std::size_t>(Index))
      return std::remove_cvref_t<T>(x);
    else return settle_tree(std::forward<T>(x));
  }

  /// Marks make the argument's leaves distinct from everything else in the graph: what the function captured is
  /// constant to this derivative, also when it is the same tensor.
  template <class... Args>
  auto under_trace(Args... args) const {
    using argument = std::tuple_element_t<static_cast<std::size_t>(Index), std::tuple<Args...>>;
    const auto tracer = engine::current();
    const engine::counted_scope uncut(tracer->call ? &tracer->call->whole : nullptr);
    series<ir::node_id> marks;
    const auto mark = [&]<class X>(const X& x) {
      if constexpr (differentiable<X>) {
        marks.push_back(tracer->graph.mark(push(*tracer, x, where_)));
        return access::traced<typename X::value_type, X::static_shape>(tracer, marks.back(), x.shape());
      } else {
        return x;
      }
    };
    const auto gradients = [&](const argument& original, ir::node_id y) {
      const auto nodes = engine::gradient(*tracer, y, {marks.data(), marks.size()}, where_);
      auto next = nodes.begin();
      return map_tree(
          "grad", where_,
          [&]<class X>(const X& x) {
            if constexpr (differentiable<X>)
              return access::traced<typename X::value_type, X::static_shape>(tracer, *next++, x.shape());
            else return filled<typename X::value_type, X::static_shape>("grad", {}, x.shape(), {}, where_);
          },
          original);
    };
    const std::tuple<const Args&...> all(args...);
    const argument& original = std::get<static_cast<std::size_t>(Index)>(all);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return results(
          detail::invoke(where_, f_, marked<I>(std::get<I>(all), mark)...),
          [&](ir::node_id y) { return gradients(original, y); }, *tracer);
    }
    (std::index_sequence_for<Args...>{});
  }

  template <std::size_t I, class T, class Mark>
  auto marked(const T& argument, const Mark& mark) const {
    if constexpr (I == static_cast<std::size_t>(Index)) return map_tree("grad", where_, mark, argument);
    else return argument;
  }

  /// What the caller gets: the function's result and the gradients of it.
  template <class Result, class Gradients>
  auto results(const Result& result, const Gradients& gradients, engine::tracer& tracer) const {
    const auto settled_loss = [this]<class V>(const V& v) {
      static_assert(is_loss<V>(), "[grad] the function must return a rank-0 floating tensor; use sum or mean");
      if constexpr (is_loss<V>()) return evaluate(v, where_);
      else return tensor<float, dims{}>();
    };
    if constexpr (Aux && !two_results<Result>) {
      static_assert(two_results<Result>, "[grad] with has_aux the function must return two results: (value, more)");
    } else if constexpr (Aux) {
      const auto value = settled_loss(std::get<0>(result));
      auto more = settle_tree(std::get<1>(result));
      auto gradient = gradients(push(tracer, value, where_));
      if constexpr (Value) return std::pair{std::pair{value, std::move(more)}, std::move(gradient)};
      else return std::pair{std::move(gradient), std::move(more)};
    } else {
      const auto value = settled_loss(result);
      auto gradient = gradients(push(tracer, value, where_));
      if constexpr (Value) return std::pair{value, std::move(gradient)};
      else return gradient;
    }
  }

  mutable F f_;
  location where_;
};

template <int Index, bool Value, bool Aux, class F>
struct function_within<differentiated<Index, Value, Aux, F>> : function_within<F> {};

}  // namespace detail

/// The function that returns f's result and its gradient: `auto [l, g] = value_and_grad(loss)(params, x, y)`.
/// `Index` is the argument to differentiate with respect to; the gradient is a tree of that argument's type. Integer
/// and bool tensors in it give zeros, numbers and flags are passed on. Only the argument varies: tensors that f
/// captures are constants. f must return a rank-0 floating tensor. Inside compile() it becomes part of the graph;
/// outside it is traced and run at each call, with kernels kept by structure; an index out of range is a user_error then.
// clang-format off
template <int Index = 0, class F>
auto value_and_grad(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::differentiated<Index, true, false, std::decay_t<F>>(std::forward<F>(f), where);
}
/// As above for an f that returns (value, more), as a pair or tuple; gives ((value, more), gradient).
template <int Index = 0, class F>
auto value_and_grad(F&& f, has_aux_t, location where = location::current()) {
  return detail::differentiated<Index, true, true, std::decay_t<F>>(std::forward<F>(f), where);
}

/// The function that returns f's gradient; see value_and_grad. `grad(grad(f))` is the second derivative.
// clang-format off
template <int Index = 0, class F>
auto grad(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::differentiated<Index, false, false, std::decay_t<F>>(std::forward<F>(f), where);
}
/// As above for an f that returns (value, more); gives (gradient, more).
template <int Index = 0, class F>
auto grad(F&& f, has_aux_t, location where = location::current()) {
  return detail::differentiated<Index, false, true, std::decay_t<F>>(std::forward<F>(f), where);
}

}  // namespace sinter
