// front/transforms/jvp.hpp: forward mode: jvp, and hvp over reverse mode.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "transforms.hpp"

namespace sinter {

namespace detail {

/// Splits the types of a call into arguments and tangents; each of Indexes has a tangent.
template <class Indexes, class... All>
class with_tangents {
  template <std::size_t... I, std::size_t... J, class... T>
  static auto lists(std::index_sequence<I...>, std::index_sequence<J...>, std::type_identity<std::tuple<T...>>)
      -> std::pair<type_list<std::tuple_element_t<I, std::tuple<T...>>...>,
                   type_list<std::tuple_element_t<sizeof...(I) + J, std::tuple<T...>>...>>;

 public:
  static constexpr std::size_t tangents = Indexes::size();
  static constexpr bool enough = sizeof...(All) > tangents;
  static constexpr std::size_t arguments = enough ? sizeof...(All) - tangents : 0;
  using places = std::make_index_sequence<arguments>;
  using tangent_places = std::make_index_sequence<enough ? tangents : 0>;
  using types = decltype(lists(places{}, tangent_places{}, std::type_identity<std::tuple<All...>>{}));
};

template <int... Index>
constexpr std::size_t index_at(std::integer_sequence<int, Index...>, std::size_t k) {
  constexpr int all[] = {Index...};
  return static_cast<std::size_t>(all[k]);
}

/// Whether a function's result has floating tensors.
template <class R>
constexpr bool gives_floats() {
  if constexpr (std::is_void_v<R>) return true;  // reported separately
  else return any_differentiable<settled<R>>();
}

/// The differentiated part of a function's result; with has_aux, the first of two.
template <bool Aux, class R>
constexpr const auto& value_of(const R& result) {
  if constexpr (Aux) return std::get<0>(result);
  else return result;
}
template <bool Aux, class R>
struct value_in {
  using type = R;
};
template <class R>
requires two_results<std::remove_cvref_t<R>>
struct value_in<true, R> {
  using type = std::tuple_element_t<0, std::remove_cvref_t<R>>;
};
template <bool Aux, class R>
using valued = typename value_in<Aux, R>::type;

/// The function that jvp returns.
template <class Indexes, class F, bool Aux = false>
class pushed_forward {
  template <class... Args>
  static constexpr bool has_other_numbers(type_list<Args...>) {
    return takes_other_numbers<Indexes, F, Args...>();
  }
  template <class... Args>
  static constexpr transform_fault fault_among(type_list<Args...>) {
    return fault_of_call<Indexes, F, Args...>();
  }

 public:
  /// The fault of arguments followed by tangents.
  template <class... All>
  static constexpr transform_fault fault_of = [] {
    using parts = with_tangents<Indexes, All...>;
    if constexpr (parts::enough) return fault_among(typename parts::types::first_type{});
    else return transform_fault::none;
  }();

  pushed_forward(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... All>
  auto operator()(All&&... all) const {
    using parts = with_tangents<Indexes, All...>;
    static_assert(parts::enough, "[jvp] a call gives the function's arguments, then a tangent for each that varies");
    if constexpr (parts::enough)
      return checked(typename parts::types::first_type{}, typename parts::types::second_type{},
                     typename parts::places{}, typename parts::tangent_places{},
                     std::forward_as_tuple(std::forward<All>(all)...));
    else return wrong_call<>{};
  }
  template <class... All>
  requires(has_other_numbers(typename with_tangents<Indexes, All...>::types::first_type{})) auto operator()(
      All&&... all) const {
    using parts = with_tangents<Indexes, All...>;
    return with_tensors(typename parts::types::first_type{}, typename parts::places{}, typename parts::tangent_places{},
                        std::forward_as_tuple(std::forward<All>(all)...));
  }
  SINTER_WRONG_TRANSFORMS("jvp", true, "floating tensors")

 private:
  template <class... Args, std::size_t... I, std::size_t... J, class All>
  auto with_tensors(type_list<Args...>, std::index_sequence<I...>, std::index_sequence<J...>, All&& all) const {
    return (*this)(as_other_dtype<other_dtype_t<Indexes, F, I, Args...>>(std::get<I>(std::move(all)), where_)...,
                   std::get<sizeof...(I) + J>(std::move(all))...);
  }
  template <class Arg, class V>
  static constexpr bool fits() {
    return fits_tree<Arg, decltype(passed_tangent<Arg>(std::declval<V>()))>();
  }
  template <class... Args, class... Vs, std::size_t... I, std::size_t... J, class All>
  auto checked(type_list<Args...>, type_list<Vs...>, std::index_sequence<I...>, std::index_sequence<J...>,
               All&& all) const {
    using facts = transformed<Indexes, F, Args...>;
    if constexpr (facts::compiles) {
      using given = std::tuple<decltype(passed<varies(Indexes{}, I)>(std::declval<Args>()))...>;
      constexpr bool fit = (... && fits<std::tuple_element_t<index_at(Indexes{}, J), given>, Vs>());
      using result = std::invoke_result_t<F&, std::tuple_element_t<I, given>...>;
      constexpr bool pair = !Aux || two_results<std::remove_cvref_t<result>>;
      constexpr bool floats = gives_floats<valued<Aux, result>>();
      static_assert(pair, "[jvp] with has_aux the function must return two results: (value, more)");
      static_assert(fit,
                    "[jvp] a tangent does not fit its argument: it is a tree of the same structure, dtypes and ranks");
      static_assert(floats, "[jvp] the function returns no floating tensor");
      if constexpr (fit && floats && pair) {
        const auto trace = [this](auto... x) {
          return this->under_trace(std::index_sequence<I...>{}, std::index_sequence<J...>{},
                                   std::tuple{std::move(x)...});
        };
        if (engine::current())
          return trace(passed<varies(Indexes{}, I)>(std::get<I>(std::move(all)))...,
                       passed_tangent<std::tuple_element_t<index_at(Indexes{}, J), given>>(
                           std::get<sizeof...(I) + J>(std::move(all)))...);
        return call_alone("jvp", where_, trace, passed<varies(Indexes{}, I)>(std::get<I>(std::move(all)))...,
                          passed_tangent<std::tuple_element_t<index_at(Indexes{}, J), given>>(
                              std::get<sizeof...(I) + J>(std::move(all)))...);
      } else {
        return wrong_call<>{};
      }
    } else {
      return wrong_call<>{};
    }
  }

  template <std::size_t... I, std::size_t... J, class... All>
  auto under_trace(std::index_sequence<I...>, std::index_sequence<J...>, const std::tuple<All...>& all) const {
    marked_call<Indexes, std::tuple_element_t<I, std::tuple<All...>>...> call("jvp", where_, std::get<I>(all)...);
    const auto& t = call.tracer();
    const auto result = settle_tree(call.run(f_));
    const auto& value = value_of<Aux>(result);
    series<ir::node_id> ys, along;
    push_floating(*t, value, ys, where_);
    (push_tangents(*t, "jvp", "the tangent", std::get<index_at(Indexes{}, J)>(all), std::get<sizeof...(I) + J>(all),
                   along, where_),
     ...);
    const auto marks = call.marks();
    const auto nodes =
        engine::jvp(*t, {ys.data(), ys.size()}, {marks.data(), marks.size()}, {along.data(), along.size()});
    const ir::node_id* next = nodes.begin();
    auto tangent = derivative_tree("jvp", where_, t, value, next);
    if constexpr (Aux) return std::tuple{value, std::move(tangent), std::get<1>(result)};
    else return std::pair{value, std::move(tangent)};
  }

  mutable F f_;
  location where_;
};

/// The function that hvp returns.
template <class Indexes, class F>
class curved {
  using derivative = pushed_forward<Indexes, differentiated<Indexes, false, false, F>>;
  template <class... All>
  static constexpr transform_fault fault_of = derivative::template fault_of<All...>;

 public:
  curved(F f, location where) : along_(differentiated<Indexes, false, false, F>(std::move(f), where), where) {}
  template <class... All>
  requires(fault_of<All...> == transform_fault::none) auto operator()(All&&... all) const {
    return along_(std::forward<All>(all)...).second;
  }
  SINTER_WRONG_TRANSFORMS("hvp", true, "a rank-0 floating tensor")

 private:
  derivative along_;
};

}  // namespace detail

/// The function that returns f's value and its tangent, in one pass. `auto [y, dy] = jvp(f)(x, v)` is f(x) and the derivative
/// of f at x along v. `Index` names the arguments that vary, the first by default. A call gives all arguments of f, then a
/// tangent for each varying argument: jvp<0, 2>(f)(x, n, z, dx, dz). A tangent is a tree like its argument, with tensors of
/// the same shapes; entries at the places of integers are not read. dy is a tree like f's result, with zeros for integer
/// tensors. while_loop is differentiable in forward mode only. user_error for a tangent of another shape. See grad for the
/// arguments that vary.
// clang-format off
template <int... Index, class F>
auto jvp(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::pushed_forward<detail::varying<Index...>, std::decay_t<F>>(std::forward<F>(f), where);
}

/// As above for an f that returns (value, more); returns (value, tangent, more).
template <int... Index, class F>
auto jvp(F&& f, has_aux_t, location where = location::current()) {
  return detail::pushed_forward<detail::varying<Index...>, std::decay_t<F>, true>(std::forward<F>(f), where);
}

/// The product of a vector and the second derivatives of f, which returns a rank-0 tensor. `hvp(f)(x, v)` is a tree like x. It
/// is jvp(grad(f)), and takes a few times as long as grad(f).
// clang-format off
template <int... Index, class F>
auto hvp(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::curved<detail::varying<Index...>, std::decay_t<F>>(std::forward<F>(f), where);
}

}  // namespace sinter
