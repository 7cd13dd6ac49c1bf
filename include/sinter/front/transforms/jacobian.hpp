// front/transforms/jacobian.hpp: all derivatives of one tensor by another: jacfwd, jacrev, jacobian, hessian.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "jvp.hpp"

namespace sinter {

namespace detail {

enum class jacobian_way : std::uint8_t { forward, reverse, shorter };

template <dims A, dims B>
constexpr dims joined_shape() {
  dims d;
  for (const auto e : A) d.push(e);
  if constexpr (A.rank + B.rank <= max_rank)
    for (const auto e : B) d.push(e);
  return d;
}

/// The function that jacfwd, jacrev and jacobian return.
template <jacobian_way Way, class Indexes, class F>
class jacobian_function {
  template <class... Args>
  static constexpr transform_fault fault_of = fault_of_call<Indexes, F, Args...>();

 public:
  jacobian_function(F f, location where) : f_(std::move(f)), where_(where) {}

  SINTER_RIGHT_TRANSFORMS
  SINTER_WRONG_TRANSFORMS("jacobian", !has_own_faults<F>, "a floating tensor")
  SINTER_WRONG_TRANSFORMS("hessian", has_own_faults<F>, "a rank-0 floating tensor")

 private:
  template <std::size_t... I, class... Args>
  auto checked(std::index_sequence<I...>, Args&&... args) const {
    using given = std::tuple<decltype(passed<varies(Indexes{}, I)>(std::declval<Args>()))...>;
    using x_type = std::tuple_element_t<index_at(Indexes{}, 0), given>;
    using y_type = settled<std::invoke_result_t<F&, std::tuple_element_t<I, given>...>>;
    constexpr bool one = Indexes::size() == 1 && differentiable<x_type> && differentiable<y_type>;
    static_assert(one,
                  "[jacobian] it is of one floating tensor by another: the argument and the result are; ravel makes a "
                  "vector of a tree");
    if constexpr (one) {
      constexpr bool room =
          x_type::rank + y_type::rank <= max_rank && x_type::rank < max_rank && y_type::rank < max_rank;
      static_assert(room,
                    "[jacobian] the result has the axes of f's result, then those of its argument, 12 at most, "
                    "and each of them has 11 at most");
      if constexpr (room) {
        if (engine::current()) return under_trace(passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
        return call_alone(
            "jacobian", where_, [this](auto&&... x) { return this->under_trace(std::move(x)...); },
            passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
      }
    }
  }

  template <class... Args>
  auto under_trace(Args... args) const {
    marked_call<Indexes, Args...> call("jacobian", where_, args...);
    const auto& x = call.template argument<index_at(Indexes{}, 0)>();
    const auto& t = call.tracer();
    const auto y = settle_tree(call.run(f_));
    const ir::node_id node = push(*t, y, where_);
    using X = std::remove_cvref_t<decltype(x)>;
    using Y = std::remove_cvref_t<decltype(y)>;
    bool forward = Way == jacobian_way::forward;
    if constexpr (Way == jacobian_way::shorter) forward = product(x.shape()) <= product(y.shape());
    using T = std::conditional_t<Way == jacobian_way::forward, typename Y::value_type, typename X::value_type>;
    static_assert(std::is_same_v<typename X::value_type, typename Y::value_type>,
                  "[jacobian] the argument and the result have one dtype; cast one with cast<T>(x)");
    constexpr dims shape = joined_shape<Y::static_shape, X::static_shape>();
    index_array<shape.rank> extents{};
    std::copy(x.shape().begin(), x.shape().end(), std::copy(y.shape().begin(), y.shape().end(), extents.begin()));
    return access::traced<T, shape>(t, engine::jacobian(*t, node, call.marks()[0], forward, where_), extents);
  }

  mutable F f_;
  location where_;
};

}  // namespace detail

/// The function that returns all derivatives of f's result by its argument, both tensors: `jacobian(f)(x)` has the axes of
/// f(x), then those of x. `Index` names the argument, the first by default. All columns or rows are computed together, as in
/// vmap. jacfwd uses forward mode, with a tangent for each element of x. jacrev uses reverse mode, with a cotangent for each
/// element of f(x). jacobian uses the mode with fewer of them. See grad for the arguments that vary.
// clang-format off
template <int... Index, class F>
auto jacobian(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::jacobian_function<detail::jacobian_way::shorter, detail::varying<Index...>, std::decay_t<F>>(
      std::forward<F>(f), where);
}
/// jacobian in forward mode, with a tangent for each element of x: for results that are longer than x.
// clang-format off
template <int... Index, class F>
auto jacfwd(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::jacobian_function<detail::jacobian_way::forward, detail::varying<Index...>, std::decay_t<F>>(
      std::forward<F>(f), where);
}
/// jacobian in reverse mode, with a cotangent for each element of f(x): for results that are shorter than x.
// clang-format off
template <int... Index, class F>
auto jacrev(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::jacobian_function<detail::jacobian_way::reverse, detail::varying<Index...>, std::decay_t<F>>(
      std::forward<F>(f), where);
}

/// All second derivatives of an f that returns a rank-0 tensor: `hessian(f)(x)` has the axes of x twice. It is
/// jacfwd(grad(f)). For the product with one vector write hvp(f)(x, v).
// clang-format off
template <int... Index, class F>
auto hessian(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  using slope = detail::differentiated<detail::varying<Index...>, false, false, std::decay_t<F>>;
  return detail::jacobian_function<detail::jacobian_way::forward, detail::varying<Index...>, slope>(
      slope(std::forward<F>(f), where), where);
}

}  // namespace sinter
