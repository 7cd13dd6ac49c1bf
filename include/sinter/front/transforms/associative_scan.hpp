// front/transforms/associative_scan.hpp: associative_scan: running results of an associative function, in logarithmically
// many steps.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../control/control.hpp"
#include "../functions/join.hpp"
#include "vmap.hpp"

namespace sinter {

namespace detail {

/// Applies f to each tensor of a tree, and keeps the tensors' types.
template <class T, class F>
T over_items(const T& tree, F&& f) {
  return tree_as<T>(tree, [&]<class To>(const To& x, std::type_identity<To>) { return To(f(x)); });
}

template <class T>
T items_of(const T& tree, std::int64_t first, std::int64_t last, std::int64_t step, location at) {
  return over_items(tree, [&](const auto& x) { return slice<0>(x, first, last, step, at); });
}

template <class A>
A joined_items(const A& a, const A& b, location at) {
  return concat<0>(a, b, {}, {}, {}, {}, {}, {}, {}, at);
}

/// a[0], b[0], a[1], …; a has as many items as b, or one more.
template <class A>
A interleaved(const A& a, const A& b, location at) {
  const dim pairs = b.shape()[0];
  dims to = to_dims(b.shape());
  to[0] = pairs * 2;
  const A both = reshape_to<tensor<typename A::value_type, with_axis(A::static_shape, 1)>, A::static_shape>(
      stack<1>(A(slice<0>(a, 0, pairs, 1, at)), b, {}, {}, {}, {}, {}, {}, {}, at), to, at);
  if (a.shape()[0] == pairs) return both;
  return joined_items(both, A(slice<0>(a, pairs, to_end, 1, at)), at);
}

/// The running results of `n` items. The running results of pairs are the results of every second item.
template <class Combine, class T>
T scanned(const Combine& combine, const T& xs, std::int64_t n, location at) {
  if (n < 2) return xs;
  const std::int64_t pairs = n / 2;
  const T second = scanned(combine, combine(items_of(xs, 0, 2 * pairs, 2, at), items_of(xs, 1, n, 2, at)), pairs, at);
  const T start = items_of(xs, 0, 1, 1, at);
  const std::int64_t later = n - pairs - 1;  // number of items with an even index above 0
  const auto join = [&](const auto& a, const auto& b) { return joined_items(a, b, at); };
  const T first = later == 0 ? start
                             : map_tree("associative_scan", at, join, start,
                                        combine(items_of(second, 0, later, 1, at), items_of(xs, 2, n, 2, at)));
  return map_tree(
      "associative_scan", at, [&](const auto& a, const auto& b) { return interleaved(a, b, at); }, first, second);
}

/// The result of f on two items, with the types of an item.
template <class T, class Y>
T combined(const T& like, const Y& y, location at) {
  return map_tree(
      "associative_scan", at,
      [&]<class A, class B>(const A& a, const B& b) {
        static_assert(alike<A, B>,
                      "sinter: [associative_scan] the function returns another dtype or rank than its arguments have");
        if constexpr (alike<A, B>) {
          if (a.shape() != b.shape())
            fail("associative_scan",
                 "the function makes " + text::shape(to_dims(b.shape())) + " of items of " +
                     text::shape(to_dims(a.shape())) + "; it has to return the shapes that it was given",
                 at);
          return A(b);
        } else {
          return a;
        }
      },
      like, y);
}

template <class T>
T flipped(const T& xs, location at) {
  return over_items(xs, [&](const auto& x) { return flip<0>(x, at); });
}

template <class F, class T>
T associative_scan_of(F& f, const T& xs, bool backwards, location at) {
  using item = lane_t<T>;
  const auto combine = [&](const T& a, const T& b) {
    const auto one = [&](const item& x, const item& y) {
      return combined(x, settle_tree(detail::invoke(at, f, item(x), item(y))), at);
    };
    return vmap(one, in_axes<>, out_axes<>, at)(a, b);
  };
  const std::int64_t n = length_of("associative_scan", "xs", xs, at);
  return backwards ? flipped(scanned(combine, flipped(xs, at), n, at), at) : scanned(combine, xs, n, at);
}

/// The fault of f(item, item) for xs of type X.
template <class F, class X>
constexpr part_fault fault_of_combine() {
  if constexpr (facts_of<X>.tensors == 0 || any_part<short_parts<0>, X>() || any_part<plain_parts, X>())
    return part_fault::none;
  else {
    using item = lane_t<X>;
    constexpr bool right = told_to_take<F&, item, item>(), takes = std::is_invocable_v<F&, item, item>;
    if constexpr (!takes) return right ? part_fault::none : part_fault::arguments;
    else if constexpr (std::is_void_v<std::invoke_result_t<F&, item, item>>) return part_fault::no_result;
    else
      return keeps_carry<item, std::remove_cvref_t<std::invoke_result_t<F&, item, item>>>() ? part_fault::none
                                                                                            : part_fault::results;
  }
}

template <class T>
constexpr bool check_items() {
  constexpr bool tensors = facts_of<T>.tensors > 0, axes = !any_part<short_parts<0>, T>(),
                 plain = any_part<plain_parts, T>();
  static_assert(tensors, "sinter: [associative_scan] xs holds no tensor");
  static_assert(axes, "sinter: [associative_scan] xs are read along their first axis; one of them has none");
  static_assert(!plain,
                "sinter: [associative_scan] a struct in xs has no place for an item of its tensors: give stacked<S>, "
                "which stack_tree, scan and vmap make");
  return tensors && axes && !plain;
}

template <class F, class X>
auto associative_scan_call(F& f, const X& xs, bool backwards, location at) {
  constexpr bool readable = check_items<X>();
  if constexpr (!readable) return xs;
  else {
    using item = lane_t<X>;
    using items = stacked_t<item>;
    if constexpr (!std::is_invocable_v<F&, item, item>) return xs;  // the compiler reports another error
    else {
      const items all = tree_as<items>(xs, []<class To>(const auto& x, std::type_identity<To>) { return To(x); });
      const auto run = [&f, backwards, at](const items& x) { return associative_scan_of(f, x, backwards, at); };
      if (engine::current()) return run(all);
      return call_alone("associative_scan", at, run, all);
    }
  }
}

}  // namespace detail

// Wrong calls of associative_scan: whole functions with `reversed`, and the heads of the other overloads, before the declarator.
#define SINTER_WRONG_ASSOCIATIVE(FAULT, TEXT)                                                     \
  template <class F, class X>                                                                     \
  requires(detail::fault_of_combine<F, detail::settled<const X&>>() == detail::part_fault::FAULT) \
      SINTER_WRONG_CALL("[associative_scan] " TEXT)                                               \
  detail::wrong_call<> associative_scan(F&&, const X&, reversed_t, location = {}) { return {}; }  \
  template <class F, class X>                                                                     \
  requires(detail::fault_of_combine<F, detail::settled<const X&>>() == detail::part_fault::FAULT) \
      SINTER_WRONG_CALL("[associative_scan] " TEXT)                                               \
  detail::wrong_call<>
SINTER_WRONG_ASSOCIATIVE(arguments,
                         "the function takes two items of xs; its number of arguments, a dtype or a rank differs")
associative_scan(F&&, const X&, location = {}) { return {}; }
SINTER_WRONG_ASSOCIATIVE(no_result, "the function returns nothing, and not an item made of two")
associative_scan(F&&, const X&, location = {}) { return {}; }
SINTER_WRONG_ASSOCIATIVE(results,
                         "the function returns another dtype or rank than its arguments have, or another structure")
associative_scan(F&&, const X&, location = {}) { return {}; }
#undef SINTER_WRONG_ASSOCIATIVE
template <class F>
SINTER_WRONG_CALL("[associative_scan] is called as associative_scan(f, xs), or associative_scan(f, xs, reversed)")
detail::wrong_call<> associative_scan(F&&) {
  return {};
}

/// The running results of an associative f along the first axes of xs, a tree of tensors: x0, f(x0, x1), f(f(x0, x1), x2), …
/// f takes two items and returns one of the same tree. A stacked<S> in xs arrives as S. Each call of f handles many items;
/// the number of calls grows with the logarithm of the length. If f is not associative, the results differ from scan's.
/// A trace holds for one length. user_error for first axes that differ, and for a shape that f changes.
template <class F, class X>
auto associative_scan(F&& f, const X& xs, location at = location::current()) {
  return detail::associative_scan_call(f, detail::settle_tree(xs), false, at);
}
/// Runs from the last item to the first: …, f(f(xn, xn-1), xn-2).
template <class F, class X>
auto associative_scan(F&& f, const X& xs, reversed_t, location at = location::current()) {
  return detail::associative_scan_call(f, detail::settle_tree(xs), true, at);
}

}  // namespace sinter
