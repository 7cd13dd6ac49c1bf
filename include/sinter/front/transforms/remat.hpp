// front/transforms/remat.hpp: remat: functions whose intermediates are recomputed in the backward pass.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "custom.hpp"

namespace sinter {

struct save_products_t {};
/// remat(f, save_products) keeps the results of matrix products.
inline constexpr save_products_t save_products{};

namespace detail {

/// The function that remat returns.
template <ir::recompute Again, class F>
class recomputed_function {
 public:
  recomputed_function(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    constexpr bool right = told_to_take<F&, decltype(passed<false>(std::declval<Args>()))...>();
    constexpr bool takes = std::is_invocable_v<F&, decltype(passed<false>(std::declval<Args>()))...>;
    static_assert(right, "[remat] the function does not take these arguments: their number, a dtype or a rank differs");
    if constexpr (right && takes) {
      using result = std::invoke_result_t<F&, decltype(passed<false>(std::declval<Args>()))...>;
      static_assert(!std::is_void_v<result>, "[remat] the function returns nothing");
      if constexpr (!std::is_void_v<result>) return apply(passed<false>(std::forward<Args>(args))...);
    }
  }

 private:
  template <class... Args>
  auto apply(const Args&... args) const {
    using value_type = settled<std::invoke_result_t<F&, Args...>>;
    if (!engine::current()) return value_type(settle_tree(detail::invoke(where_, f_, Args(args)...)));
    const auto rules = [](const auto&, const engine::tracer&) { return std::shared_ptr<const ir::foreign>(); };
    return traced_call(f_, Again, rules, where_, args...);
  }

  mutable F f_;
  location where_;
};

template <class F>
struct function_within<recomputed_function<ir::recompute::all, F>> : function_within<F> {};
template <class F>
struct function_within<recomputed_function<ir::recompute::all_but_products, F>> : function_within<F> {};

}  // namespace detail

/// f with less memory and more time: the backward pass keeps only the arguments. It recomputes the intermediates of f once
/// the cotangents of f's results are known. A stack of layers, each remat(layer), keeps the layers' inputs, and the
/// intermediates of one layer at a time. Values and derivatives are f's. Without a derivative it is f itself.
template <class F>
auto remat(F f, location where = location::current()) {
  return detail::recomputed_function<ir::recompute::all, F>(std::move(f), where);
}
/// As above, but the results of matrix products in f are kept.
template <class F>
auto remat(F f, save_products_t, location where = location::current()) {
  return detail::recomputed_function<ir::recompute::all_but_products, F>(std::move(f), where);
}

}  // namespace sinter
