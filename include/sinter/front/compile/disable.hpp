// front/compile/disable.hpp: disable(fn): a function that is not traced.
#pragma once

#include <type_traits>
#include <utility>

#include "../../base/callback.hpp"
#include "call.hpp"

namespace sinter {

namespace detail {

/// The tree with concrete tensors in place of the traced ones of `t`, which stay computed.
template <class T>
T known_tree(const T& t, location where) {
  if constexpr (facts_of<T>.tensors == 0) return t;
  else
    return map_tree(
        "disable", where, [&]<class X>(const X& x) { return x.is_traced() ? access::known(x, "disable", where) : x; },
        t);
}

/// An argument of an untraced function: expressions become tensors, and numbers become their values.
template <class T>
auto untraced(T&& x) {
  using value = std::remove_cvref_t<T>;
  if constexpr (is_number<value>) return static_cast<typename value::value_type>(x);
  else return settle_tree(std::forward<T>(x));
}

/// The function that disable returns.
template <class F>
class disabled {
 public:
  disabled(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    if (!engine::current()) return eager(untraced(std::forward<Args>(args))...);
    return between(untraced(std::forward<Args>(args))...);
  }

 private:
  template <class... Args>
  auto between(const Args&... args) const {
    engine::cut(*engine::current(), "disable", where_);
    return eager(known_tree(args, where_)...);
  }

  template <class... Args>
  auto eager(Args... args) const {
    using result_type = call_result_t<F, Args...>;
    const engine::tracing_scope eagerly(nullptr);
    if constexpr (std::is_void_v<result_type>) detail::invoke(where_, f_, std::move(args)...);
    else return settle_tree(detail::invoke(where_, f_, std::move(args)...));
  }

  mutable F f_;
  location where_;
};

}  // namespace detail

/// The function that runs fn natively, on concrete tensors, at every call. In a compiled function it is a graph break: its
/// arguments are computed first, and its results are inputs of the next graph. Arguments and results are trees. Traced tensors
/// must be arguments, not captures. user_error inside grad and value_and_grad, inside trace() and under options.fullgraph.
// clang-format off
template <class F>
auto disable(F&& fn, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::disabled<std::decay_t<F>>(std::forward<F>(fn), where);
}

}  // namespace sinter
