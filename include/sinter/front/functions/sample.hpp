// front/functions/sample.hpp: what is drawn from a number of elements: permutations, and choices with and without replacement.
#pragma once

#include "order.hpp"
#include "random.hpp"

namespace sinter {

namespace detail {

/// The places of the first `count` of n random words in order: of each set of so many places every order is as likely.
template <std::same_as<key> Key>
tensor<std::int64_t, 1> drawn_places(const char* op, const Key& k, dim n, dim count, const target& where, location at) {
  const source s(op, k, where, at);
  const auto words = philox(s.state, counters<dims{dyn}>(op, {n}, 8, at), at);
  return typed<std::int64_t, dims{dyn}>(argsort_at(op, untyped(evaluate_on(words, s.on, at), at), 0, false, count, at),
                                        at);
}

}  // namespace detail

/// 0 to n - 1 in a random order, i64 of rank 1: each order is as likely. A device may stand last, as uniform's. The same on every
/// device. user_error for a negative n, and for more than 2^31.
template <std::same_as<key> Key>
tensor<std::int64_t, 1> permutation(const Key& k, dim n, detail::target where = {},
                                    location here = location::current()) {
  return detail::drawn_places("permutation", k, n, n, where, here.in("permutation"));
}

/// n of x's rows (axis 0), each as likely and drawn for itself, or with `replace` false each once at most, in a random order: of all
/// rows choice(k, x, x.size(0), false) shuffles them. The same on every device. user_error for a negative n, where x has no
/// row, and without replacement where it has fewer than n.
template <std::same_as<key> Key, tensor_like X>
auto choice(const Key& k, const X& x, dim n, bool replace = true, location here = location::current()) {
  const location at = here.in("choice");
  static_assert(X::rank > 0, "sinter: [choice] takes rows of a tensor; it has rank 0");
  if constexpr (X::rank == 0) {
    return x;
  } else {
    const auto from = detail::evaluate(x, at);
    const dim rows = detail::extents_of(from, at)[0];
    const detail::target on = detail::same_device(from, at);
    if (!replace) return take(from, detail::drawn_places("choice", k, rows, n, on, at), axis<0>, at);
    if (rows == 0 && n != 0) fail("choice", "x has no rows; test the extent before", at);
    const detail::source s("choice", k, on, at);
    const auto words = philox(s.state, detail::counters<dims{dyn}>("choice", {n}, 8, at), at);
    const tensor<std::int64_t, 1> places = detail::evaluate_on(cast<std::int64_t>(fmod(words, rows, at), at), s.on, at);
    return take(from, places, axis<0>, at);
  }
}

}  // namespace sinter
