// front/functions/einsum.hpp: products and sums by labels: einsum<"bhqd,bhkd->bhqk">(q, k).
#pragma once

#include "../shapes/einsum_parse.hpp"
#include "matmul.hpp"
#include "reductions.hpp"

namespace sinter {

namespace detail {

using einsum_rules::labels;

template <fixed_string Text, int... Ranks>
consteval einsum_rules::notation parsed() {
  using einsum_rules::fault;
  constexpr int ranks[] = {Ranks...};
  constexpr auto n = einsum_rules::parse(Text.text, ranks);
  static_assert(n.error != fault::character,
                "sinter: [einsum] labels are letters; only '...', ',', '->' and spaces stand between them");
  static_assert(n.error != fault::ellipsis, "sinter: [einsum] dots are '...', once in an operand and in the result");
  static_assert(n.error != fault::rank, "sinter: [einsum] more than 12 labels");
  static_assert(n.error != fault::operands, "sinter: [einsum] one to four operands; multiply them in steps");
  static_assert(n.error != fault::arrow, "sinter: [einsum] write the operands, then '->', then the result, once");
  static_assert(n.error != fault::result_repeated, "sinter: [einsum] a label repeats in the result");
  static_assert(n.error != fault::result_unknown, "sinter: [einsum] a label of the result is in no operand");
  return n;
}

/// The place of each of `wanted` in `from`.
constexpr op_shapes::axis_list places(const labels& wanted, const labels& from) {
  op_shapes::axis_list p;
  for (char c : wanted) p.at[p.count++] = from.find(c);
  return p;
}
constexpr labels operator+(labels a, const labels& b) {
  for (char c : b) a.push(c);
  return a;
}
constexpr labels without(const labels& a, const labels& dropped) {
  labels r;
  for (char c : a)
    if (!dropped.has(c)) r.push(c);
  return r;
}
constexpr bool too_many(const labels& a, const labels& b) { return a.count + b.count > max_rank; }

template <labels From, labels To, class X>
auto reorder(const X& x, location at) {
  constexpr auto perm = places(To, From);
  constexpr dims shape = op_shapes::permute(X::static_shape, perm).shape;
  return typed<element_of<X>, shape>(views::permute(untyped(x, at), perm, at), at);
}

/// x summed over the labels of Dropped.
template <labels From, labels Dropped, class X>
auto sum_labels(const X& x, location at) {
  if constexpr (Dropped.count == 0) return x;
  else return sum_over<places(Dropped, From).sorted(), false>(x, at);
}

/// x with Gap axes of extent 1 before axis Split, and After such axes at the end. Two operands spaced like this multiply pointwise.
template <int Split, int Gap, int After, class X>
auto spaced(const X& x, location at) {
  const handle h = untyped(x, at);
  dims d = op_shapes::part(h.extents, 0, Split);
  for (int i = 0; i < Gap; ++i) d.push(1);
  for (int i = Split; i < X::rank; ++i) d.push(h.extents[i]);
  for (int i = 0; i < After; ++i) d.push(1);
  return typed<element_of<X>, any_shape(X::rank + Gap + After)>(views::reshape(h, d, at), at);
}

/// x, rounded under autocast when it is f32.
template <class X>
auto lowered(const X& x, location at) {
  if constexpr (std::is_same_v<element_of<X>, float>) {
    if (product_dtype == dtype::f32) return x;
    return typed<float, X::static_shape>(rounded(untyped(x, at), product_dtype, at), at);
  } else {
    return x;
  }
}

/// The product of two operands, neither of which has a label of its own to sum, as (batch, rows, cols).
template <einsum_rules::contraction C, labels La, labels Lb, class A, class B>
auto multiply_labels(const A& a, const B& b, location at) {
  using T = element_of<A>;
  constexpr int batch = C.batch.count, rows = C.rows.count, cols = C.cols.count;
  const auto left = reorder<La, C.batch + C.rows + C.inner>(a, at);
  if constexpr (rows == 0 && cols == 0) {
    const auto right = reorder<Lb, C.batch + C.inner>(b, at);
    constexpr auto summed = places(C.inner, C.batch + C.inner);
    const auto product = mul(lowered(left, at), lowered(right, at), at);
    return lowered(reduce<ir::op::add, summed, false>(product, "einsum", at), at);
  } else if constexpr (C.inner.count == 0) {
    const auto right = reorder<Lb, C.batch + C.cols>(b, at);
    const auto product =
        mul(spaced<batch + rows, 0, cols>(lowered(left, at), at), spaced<batch, rows, 0>(lowered(right, at), at), at);
    return lowered(detail::evaluate(product, at), at);
  } else {
    const auto right = reorder<Lb, C.batch + C.inner + C.cols>(b, at);
    return typed<T, any_shape(batch + rows + cols)>(
        dot<T>(untyped(left, at), untyped(right, at), batch, C.inner.count, at), at);
  }
}

/// The labels of an intermediate product.
constexpr labels product_labels(const einsum_rules::contraction& c) { return c.batch + c.rows + c.cols; }

/// Labels of the result and of the operands from First on.
constexpr labels still_needed(const einsum_rules::notation& n, int first) {
  labels r = n.result;
  for (int i = first; i < n.count; ++i)
    for (char c : n.operand[i])
      if (!r.has(c)) r.push(c);
  return r;
}

template <einsum_rules::notation N, int Next, labels La, class A>
auto contract(location at, const A& a) {
  const auto summed = sum_labels<La, without(La, N.result)>(a, at);
  return reorder<without(La, without(La, N.result)), N.result>(summed, at);
}

/// Multiplies the operands from left to right, and sums each label as soon as no later operand has it.
template <einsum_rules::notation N, int Next, labels La, class A, class B, class... Rest>
auto contract(location at, const A& a, const B& b, const Rest&... rest) {
  constexpr labels lb = N.operand[Next];
  constexpr auto c = einsum_rules::classify(La, lb, still_needed(N, Next + 1));
  static_assert(!too_many(c.batch + c.rows, c.cols),
                "sinter: [einsum] a product of two operands would have more than 12 axes");
  const auto left = sum_labels<La, c.a_summed>(a, at);
  const auto right = sum_labels<lb, c.b_summed>(b, at);
  const auto product = multiply_labels<c, without(La, c.a_summed), without(lb, c.b_summed)>(left, right, at);
  return contract<N, Next + 1, product_labels(c)>(at, product, rest...);
}

/// Compile-time errors for operands that do not fit the notation; false after an error.
template <einsum_rules::notation N, class First, class... Rest>
constexpr bool check_operands_of() {
  constexpr bool count = N.count == 1 + int(sizeof...(Rest));
  constexpr bool dtypes = ((dtype_of<element_of<First>> == dtype_of<element_of<Rest>>)&&...);
  constexpr bool numbers = !is_bool(dtype_of<element_of<First>>);
  static_assert(count, "sinter: [einsum] the text names another number of operands");
  static_assert(dtypes, "sinter: [einsum] the operands have different dtypes; cast one with cast<T>(x)");
  static_assert(numbers, "sinter: [einsum] takes numbers, not bool; cast with cast<T>(x)");
  if constexpr (count && dtypes && numbers) {
    constexpr dims shapes[] = {First::static_shape, Rest::static_shape...};
    constexpr bool fits = einsum_rules::measure(N, shapes).error == nullptr;
    static_assert(fits,
                  "sinter: [einsum] write one label per axis, or '...', and give equal static extents to equal labels");
    return fits;
  }
  return false;
}

/// An operand with each label once: axes of '...' get the extents in `sizes`, and equal labels give the diagonal.
template <labels Labels, class X>
auto prepared(const X& x, const einsum_rules::measured& sizes, location at) {
  using namespace einsum_rules;
  if constexpr (repeated(Labels) < 0 && !has_ellipsis(Labels)) {
    return x;
  } else {
    labels left = Labels;
    handle h = untyped(x, at);
    if (has_ellipsis(left)) h = views::broadcast(h, sizes.of(left), at);
    for (int again; (again = repeated(left)) >= 0; left.erase(again))
      h = views::diagonal(h, left.find(left[again]), again, at);
    return typed<element_of<X>, any_shape(once(Labels).count)>(h, at);
  }
}

template <fixed_string Text, class... Operands>
auto einsum_all(location at, const Operands&... operands) {
  constexpr auto n = parsed<Text, Operands::rank...>();
  if constexpr (n.error != einsum_rules::fault::none) {
    return (stage(operands, at), ...);
  } else if constexpr (!check_operands_of<n, Operands...>()) {
    return (stage(operands, at), ...);
  } else {
    constexpr dims shapes[] = {Operands::static_shape...};
    constexpr dims result = einsum_rules::measure(n, shapes).of(n.result);
    const dims extents[] = {to_dims(extents_of(operands, at))...};
    const auto sizes = einsum_rules::measure(n, extents);
    if (sizes.error)
      fail("einsum",
           std::string(sizes.error) + " in \"" + Text.text + "\": the operands are " +
               text::join(extents, ", ", [](const dims& d) { return text::shape(d); }) + "; " + sizes.hint,
           at);
    constexpr auto single = once(n);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return fitted<result>(
          contract<single, 1, single.operand[0]>(at, prepared<n.operand[I]>(stage(operands, at), sizes, at)...), at);
    }
    (std::index_sequence_for<Operands...>());
  }
}

}  // namespace detail

/// Sums of products in Einstein's notation. Equal labels in different operands multiply along, equal labels in one operand take
/// its diagonal, and labels missing from the result are summed. '...' stands for an operand's remaining axes; those of several
/// operands broadcast. Without '->' the result has these axes, then the labels that occur once, in alphabetical order. One to four
/// operands of one numeric dtype, contracted from left to right. A label with two extents is a compile-time error, or a user_error
/// at run time.
template <fixed_string Text, tensor_like A>
auto einsum(const A& a, location at = location::current()) {
  return detail::einsum_all<Text>(at.in("einsum"), a);
}
template <fixed_string Text, tensor_like A, tensor_like B>
auto einsum(const A& a, const B& b, location at = location::current()) {
  return detail::einsum_all<Text>(at.in("einsum"), a, b);
}
template <fixed_string Text, tensor_like A, tensor_like B, tensor_like C>
auto einsum(const A& a, const B& b, const C& c, location at = location::current()) {
  return detail::einsum_all<Text>(at.in("einsum"), a, b, c);
}
template <fixed_string Text, tensor_like A, tensor_like B, tensor_like C, tensor_like D>
auto einsum(const A& a, const B& b, const C& c, const D& d, location at = location::current()) {
  return detail::einsum_all<Text>(at.in("einsum"), a, b, c, d);
}
/// Five operands or more: a compile-time error.
template <fixed_string Text, class A, class B, class C, class D, tensor_like E, class... More>
void einsum(const A&, const B&, const C&, const D&, const E&, const More&...) {
  constexpr bool few = !tensor_like<E>;
  static_assert(few, "sinter: [einsum] takes one to four operands; multiply them in steps");
}

}  // namespace sinter
