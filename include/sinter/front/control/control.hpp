// front/control/control.hpp: branches and loops that are one node of a trace: cond, scan, fori_loop, while_loop.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../trees/stacked.hpp"
#include "parts.hpp"

namespace sinter {

namespace detail {

/// The part of xs for step i, in the storage of xs; while tracing, new inputs.
template <class X>
lane_t<X> slices(engine::tracer* t, const std::shared_ptr<engine::tracer>& handle, const X& xs, std::int64_t i,
                 location at) {
  return tree_as<lane_t<X>>(xs, [&]<class E, dims S, dims R>(const tensor<E, S>& x, std::type_identity<tensor<E, R>>) {
    index_array<R.rank> extents{}, strides{};
    std::copy_n(x.shape().begin() + 1, R.rank, extents.begin());
    std::copy_n(x.strides().begin() + 1, R.rank, strides.begin());
    if (t) return access::traced<E, R>(handle, t->graph.add_input(dtype_of<E>, to_shape(extents), at), extents);
    if (!x.defined()) fail_undefined("scan", at, access::donated_to(x));
    return access::make<E, R>(access::memory(x), access::data(x) + i * x.strides()[0], extents, strides);
  });
}

/// The tree of stacks for the results of one step.
template <class Y, class Leaf>
stacked_t<Y> stacked_tree(const Y& y, dim length, Leaf&& leaf) {
  return tree_as<stacked_t<Y>>(y,
                               [&]<class E, dims S, dims R>(const tensor<E, S>& x, std::type_identity<tensor<E, R>>) {
                                 index_array<R.rank> extents{length};
                                 for (int i = 0; i < S.rank; ++i) extents[static_cast<std::size_t>(i) + 1] = x.size(i);
                                 return leaf(x, tensor<E, R>(), extents);
                               });
}

/// Traces a body within the current trace, or alone to learn the types of its results.
template <class F, class C, class X>
auto trace_step(F& f, const std::shared_ptr<engine::tracer>& body, const C& init, const X& xs, location at) {
  body->graph.add_input(dtype::i64, {}, at);
  const C before = input_tree(body, init, at);
  auto x = slices(body.get(), body, xs, 0, at);
  const part_scope scope(body);
  auto out = detail::invoke(at, f, C(before), std::move(x));
  C next = carried("scan", before, settle_tree(std::get<0>(out)), at);
  return std::pair{std::move(next), settle_tree(std::get<1>(out))};
}

/// Returns false after a compile-time error if xs cannot be read step by step.
template <class X>
constexpr bool check_xs() {
  constexpr bool tensors = facts_of<X>.tensors > 0, axes = !any_part<short_parts<0>, X>(),
                 plain = any_part<plain_parts, X>();
  static_assert(tensors, "sinter: [scan] xs holds no tensor; fori_loop counts instead");
  static_assert(axes, "sinter: [scan] xs are read along their first axis; one of them has none");
  static_assert(!plain,
                "sinter: [scan] a struct in xs has no place for a slice of its tensors: give stacked<S>, which "
                "stack_tree, scan and vmap make, and f gets an S");
  return tensors && axes && !plain;
}

template <class C, class Result>
constexpr part_fault fault_of_step() {
  if constexpr (!is_tuple<Result>) return part_fault::pair;
  else if constexpr (count_types(children_of<Result>{}) != 2) return part_fault::pair;
  else return keeps_carry<C, std::tuple_element_t<0, Result>>() ? part_fault::none : part_fault::carry;
}

/// The fault of scan(f, C, X), if its steps can be taken.
template <class F, class C, class X>
constexpr part_fault fault_of_scan() {
  if constexpr (facts_of<X>.tensors == 0 || any_part<short_parts<0>, X>() || any_part<plain_parts, X>())
    return part_fault::none;
  else {
    using slice = lane_t<X>;
    constexpr bool right = told_to_take<F&, C, slice>(), takes = std::is_invocable_v<F&, C, slice>;
    if constexpr (takes) return fault_of_step<C, std::remove_cvref_t<std::invoke_result_t<F&, C, slice>>>();
    else return right ? part_fault::none : part_fault::arguments;
  }
}

template <class F, class C, class X>
auto traced_scan(F& f, const C& init, const X& xs, bool backwards, location at) {
  const auto outer = engine::current();
  const auto body = engine::make_inner_tracer();
  const dim length = length_of("scan", "xs", xs, at);
  series<ir::node_id> operands;
  push_leaves(*outer, init, operands, at);
  const std::size_t carried = operands.size();
  push_leaves(*outer, xs, operands, at);
  const auto [next, y] = trace_step(f, body, init, xs, at);
  {
    const part_scope scope(body);
    push_leaves(*body, next, body->graph.outputs, at);
    push_leaves(*body, y, body->graph.outputs, at);
  }
  const auto results =
      engine::push_loop(*outer, *body, carried, std::move(operands), engine::to_ir(length), at, backwards);
  const ir::node_id* node = results.begin();
  C last = traced_tree(outer, init, node);
  auto ys = stacked_tree(y, length, [&]<class E, dims S>(const auto&, tensor<E, S>, const auto& extents) {
    return access::traced<E, S>(outer, *node++, extents);
  });
  return std::pair{std::move(last), std::move(ys)};
}

/// Uninitialised memory for `length` results like x.
template <class E, dims S>
tensor<E, S> empty_stack(const index_array<S.rank>& extents, device where, location at) {
  storage memory = engine::allocate(
      static_cast<std::size_t>(checked_numel("scan", to_dims(extents), sizeof(E), at)) * sizeof(E), where);
  E* const data = static_cast<E*>(memory.data());
  return access::make<E, S>(std::move(memory), data, extents, row_major_strides(extents));
}

[[noreturn]] inline void fail_stacked_value(location at) {
  fail("scan",
       "a number, flag or text beside the tensors that f returns for stacking differs from step to step, but is kept "
       "once; return it as a rank-0 tensor",
       at);
}

template <class F, class C, class X>
auto eager_scan(F& f, C carry, const X& xs, bool backwards, location at) {
  const std::int64_t length = length_of("scan", "xs", xs, at);
  const auto stacks = [&](const auto& y, device where) {
    return stacked_tree(y, length, [&]<class E, dims S>(const auto& x, tensor<E, S>, const auto& extents) {
      return empty_stack<E, S>(extents, x.is_traced() ? where : x.device(), at);
    });
  };
  using stack_type = decltype(trace_step(f, engine::current(), carry, xs, at).second);
  std::optional<decltype(stacks(std::declval<const stack_type&>(), device{}))> ys;
  series<std::uint64_t> values;
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t i = backwards ? length - 1 - step : step;
    auto out = detail::invoke(at, f, C(carry), slices(nullptr, {}, xs, i, at));
    carry = carried("scan", carry, settle_tree(std::get<0>(out)), at);
    const auto y = settle_tree(std::get<1>(out));
    if (!ys) ys = stacks(y, {});
    const auto keep = [&]<class A, class B>(const A& stack, const B& x) {
      dims before;
      for (int k = 1; k < A::rank; ++k) before.push(stack.shape()[static_cast<std::size_t>(k)]);
      if (!(before == to_dims(x.shape())))
        fail("scan",
             "a step's result is " + text::shape(to_dims(x.shape())) + " where the steps before gave " +
                 text::shape(before) + "; all steps have to return one shape",
             at);
      const auto from = x.contiguous(at);
      using E = typename B::value_type;
      engine::copy(access::memory(stack), access::data(stack) + i * x.numel(), access::memory(from), access::data(from),
                   static_cast<std::size_t>(x.numel()) * sizeof(E));
      return stack;
    };
    if constexpr (facts_of<stack_type>.tensors > 0) map_tree("scan", at, keep, *ys, y);
    if constexpr (facts_of<stack_type>.statics > 0) {
      if (step == 0) values = value_words(y);
      else if (values != value_words(y)) fail_stacked_value(at);
    }
  }
  if (!ys) {
    // Without a step, a trace of the body gives the types of the stacks.
    const auto alone = engine::make_tracer();
    flat_arguments<C> flat("scan", at, carry);
    ys = stacks(trace_step(f, alone, carry, xs, at).second, flat.where({}));
  }
  return std::pair{std::move(carry), std::move(*ys)};
}

template <class F, class G, class... Args>
auto traced_cond(const char* op, const tensor<bool, 0>& predicate, F& f, G& g, location at, const Args&... args) {
  using yes_type = call_result_t<F, Args...>;
  using no_type = call_result_t<G, Args...>;
  const auto outer = engine::current();
  const ir::node_id test = push(*outer, predicate, at);
  const auto yes = engine::make_inner_tracer(), no = engine::make_inner_tracer();
  const auto branch = [&](auto& fn, const std::shared_ptr<engine::tracer>& part) {
    const part_scope scope(part);
    auto result = settle_tree(detail::invoke(at, fn, Args(args)...));
    push_leaves(*part, result, part->graph.outputs, at);
    return result;
  };
  if constexpr (std::is_void_v<yes_type> && std::is_void_v<no_type>) {
    const auto effect = [&](auto& fn, const std::shared_ptr<engine::tracer>& part) {
      const part_scope scope(part);
      detail::invoke(at, fn, Args(args)...);
    };
    effect(f, yes);
    effect(g, no);
    engine::push_cond(*outer, test, *yes, *no, at);
  } else {
    const auto a = branch(f, yes);
    const auto b = branch(g, no);
    const auto check = [&]<class A, class B>(const A& x, const B& y) {
      if (x.shape() != y.shape())
        fail(op,
             "one branch returns " + text::shape(to_dims(x.shape())) + ", the other " +
                 text::shape(to_dims(y.shape())) + "; both have to return one shape",
             at);
      return x;
    };
    map_tree(op, at, check, a, b);
    check_values(op, a, b, "one branch returns another number, flag or text in a struct than the other", at);
    const auto results = engine::push_cond(*outer, test, *yes, *no, at);
    const ir::node_id* node = results.begin();
    if constexpr (std::is_same_v<yes_type, no_type>) return traced_tree(outer, a, node);
    else return traced_tree(outer, relaxed(a), node);
  }
}

/// Checks that both branches return the same: equal types, or trees that differ only in static extents.
template <class A, class B>
constexpr bool check_branches() {
  constexpr bool both = std::is_void_v<A> == std::is_void_v<B>;
  static_assert(both, "sinter: [cond] one branch returns nothing, the other a value");
  if constexpr (!both || std::is_void_v<A>) return both;
  else {
    constexpr bool tensors = facts_of<A>.tensors > 0 && !bare_numbers<A>() && !bare_numbers<B>();
    static_assert(tensors,
                  "sinter: [cond] the branches return tensors; write a number as a rank-0 tensor: tensor<float, 0>(0)");
    if constexpr (!tensors || std::is_same_v<A, B>) return tensors;
    else {
      constexpr bool fit = std::is_same_v<decltype(relaxed(std::declval<A>())), decltype(relaxed(std::declval<B>()))>;
      static_assert(
          fit, "sinter: [cond] the branches return other structures, dtypes or ranks; both have to return the same");
      return fit;
    }
  }
}

template <class F, class G, class... Args>
auto cond_of(const char* op, const tensor<bool, 0>& predicate, F& f, G& g, location at, const Args&... args) {
  using yes_type = call_result_t<F, Args...>;
  using no_type = call_result_t<G, Args...>;
  constexpr bool fit = check_branches<yes_type, no_type>();
  if constexpr (!fit) return yes_type();
  else if (engine::current()) return traced_cond(op, predicate, f, g, at, args...);
  const bool yes = predicate.item(at);
  if constexpr (!fit) return yes_type();
  else if constexpr (std::is_void_v<yes_type>) {
    if (yes) detail::invoke(at, f, Args(args)...);
    else detail::invoke(at, g, Args(args)...);
  } else if constexpr (std::is_same_v<yes_type, no_type>) {
    return yes ? settle_tree(detail::invoke(at, f, Args(args)...)) : settle_tree(detail::invoke(at, g, Args(args)...));
  } else {
    return yes ? relaxed(settle_tree(detail::invoke(at, f, Args(args)...)))
               : relaxed(settle_tree(detail::invoke(at, g, Args(args)...)));
  }
}

template <class P>
constexpr bool is_condition() {
  if constexpr (tensor_like<P>) return P::rank == 0 && is_bool(dtype_of<typename P::value_type>);
  else return std::is_same_v<P, bool>;
}

template <class P>
tensor<bool, 0> predicate_of(const P& p, location at) {
  if constexpr (!is_condition<P>()) return {};  // the compiler reports another error
  else if constexpr (any_tensor<P>) return p;
  else return tensor<bool, 0>(p, at);
}

/// The condition of cond(), and its place.
struct predicate {
  tensor<bool, 0> value;
  location at;
  template <class P>
  requires(is_condition<P>()) predicate(const P& p, location where = location::current())
      : value(predicate_of(p, where)), at(where) {}
  template <tensor_like P>
  requires(!is_condition<P>())
      SINTER_WRONG_CALL("[cond] a condition is a bool of rank 0: reduce it with any(x) or all(x), or compare numbers")
  predicate(const P& p, location = {});
};

/// The fault of a body that takes First, if given, and the carry.
template <class Body, class C, class... First>
constexpr part_fault fault_of_body() {
  constexpr bool right = told_to_take<Body&, First..., C>(), takes = std::is_invocable_v<Body&, First..., C>;
  if constexpr (!takes) return right ? part_fault::none : part_fault::arguments;
  else {
    using result = std::remove_cvref_t<std::invoke_result_t<Body&, First..., C>>;
    if constexpr (std::is_void_v<result>) return part_fault::no_result;
    else return keeps_carry<C, result>() ? part_fault::none : part_fault::carry;
  }
}

template <class Test, class Body, class C>
constexpr part_fault fault_of_while() {
  constexpr part_fault of_body = fault_of_body<Body, C>();
  constexpr bool right = told_to_take<Test&, C>(), takes = std::is_invocable_v<Test&, C>;
  if constexpr (!takes) return right ? of_body : part_fault::arguments;
  else return is_condition<std::remove_cvref_t<std::invoke_result_t<Test&, C>>>() ? of_body : part_fault::condition;
}

template <class F, class G, class... Args>
constexpr part_fault fault_of_branches() {
  constexpr bool right = told_to_take<F&, Args...>() && told_to_take<G&, Args...>();
  if constexpr (!(std::is_invocable_v<F&, Args...> && std::is_invocable_v<G&, Args...>))
    return right ? part_fault::none : part_fault::arguments;
  else {
    using yes = call_result_t<F, Args...>;
    using no = call_result_t<G, Args...>;
    if constexpr (std::is_void_v<yes> != std::is_void_v<no>) return part_fault::no_result;
    else if constexpr (std::is_same_v<yes, no>) return part_fault::none;
    else return trees_match<fits_carry, yes, no>() ? part_fault::none : part_fault::results;
  }
}

template <class Test, class Body, class C>
C while_of(Test& test, Body& body, C carry, location at) {
  check_carry<C>();
  const auto outer = engine::current();
  if (!outer) {
    while (predicate_of(detail::invoke(at, test, C(carry)), at).item(at))
      carry = carried("while_loop", carry, settle_tree(detail::invoke(at, body, C(carry))), at);
    return carry;
  }
  series<ir::node_id> init;
  push_leaves(*outer, carry, init, at);
  const auto tested = engine::make_inner_tracer(), step = engine::make_inner_tracer();
  const C seen = input_tree(tested, carry, at), before = input_tree(step, carry, at);
  {
    const part_scope scope(tested);
    tested->graph.outputs.push_back(push(*tested, predicate_of(detail::invoke(at, test, C(seen)), at), at));
  }
  {
    const part_scope scope(step);
    push_leaves(*step, carried("while_loop", before, settle_tree(detail::invoke(at, body, C(before))), at),
                step->graph.outputs, at);
  }
  const auto results = engine::push_while(*outer, *tested, *step, std::move(init), at);
  const ir::node_id* node = results.begin();
  return traced_tree(outer, carry, node);
}

template <class Body, class C>
C fori_of(dim lower, dim upper, Body& body, C carry, location at) {
  check_carry<C>();
  // The type depends on C, so that its code is instantiated only where a loop is written.
  using index = tensor<std::conditional_t<true, std::int64_t, C>, 0>;
  if (!(lower < upper)) return carry;
  const auto outer = engine::current();
  if (!outer) {
    for (std::int64_t i = lower, end = upper; i < end; ++i)
      carry = carried("fori_loop", carry, settle_tree(detail::invoke(at, body, index(i), C(carry))), at);
    return carry;
  }
  series<ir::node_id> operands;
  push_leaves(*outer, carry, operands, at);
  const std::size_t count = operands.size();
  const auto inner = engine::make_inner_tracer();
  const ir::node_id turn = inner->graph.add_input(dtype::i64, {}, at);
  const C before = input_tree(inner, carry, at);
  {
    const part_scope scope(inner);
    const index i = access::traced<typename index::value_type, dims(0)>(inner, turn, {}) + lower;
    push_leaves(*inner, carried("fori_loop", before, settle_tree(detail::invoke(at, body, index(i), C(before))), at),
                inner->graph.outputs, at);
  }
  const ir::dim length = engine::to_ir(upper - lower);
  const auto results = engine::push_loop(*outer, *inner, count, std::move(operands), length, at);
  const ir::node_id* node = results.begin();
  return traced_tree(outer, carry, node);
}

}  // namespace detail

// Heads of wrong calls: compilers print each macro around a function's name.
#define SINTER_WRONG_COND(FAULT, TEXT)                                                                      \
  template <class F, class G, class... Args>                                                                \
  requires(detail::fault_of_branches<F, G, detail::settled<const Args&>...>() == detail::part_fault::FAULT) \
      SINTER_WRONG_CALL("[cond] " TEXT)                                                                     \
  detail::wrong_call<>
SINTER_WRONG_COND(arguments, "a branch does not take these arguments: their number, a dtype or a rank differs")
cond(const detail::predicate&, F&&, G&&, const Args&...) { return {}; }
SINTER_WRONG_COND(no_result, "one branch returns nothing, the other a value")
cond(const detail::predicate&, F&&, G&&, const Args&...) { return {}; }
SINTER_WRONG_COND(results, "the branches return other structures, dtypes or ranks; both have to return the same")
cond(const detail::predicate&, F&&, G&&, const Args&...) { return {}; }
#undef SINTER_WRONG_COND

/// f(args...) if `predicate`, a bool or a bool tensor of rank 0, holds, else g(args...). Inside compile() it is one node, and a
/// call runs one branch. It is differentiable by all values that the branches use, captured tensors included. Both branches are
/// traced, and must return one structure, dtype and shape (else user_error). On a GPU a call waits for the predicate. Outside
/// compile() it calls one of the functions.
template <class F, class G, class... Args>
auto cond(const detail::predicate& predicate, F&& f, G&& g, const Args&... args) {
  constexpr bool take = std::is_invocable_v<F&, detail::settled<const Args&>...> &&
                        std::is_invocable_v<G&, detail::settled<const Args&>...>;
  if constexpr (take) return detail::cond_of("cond", predicate.value, f, g, predicate.at, detail::settle_tree(args)...);
}

struct reversed_t {};

/// Runs from the last item to the first: `scan(f, init, xs, reversed)`.
inline constexpr reversed_t reversed{};

namespace detail {

template <class F, class C, class X>
auto scan_of(F& f, const C& init, const X& xs, bool backwards, location at) {
  check_carry<C>();
  constexpr bool readable = check_xs<X>();
  if constexpr (!readable) return std::pair{init, xs};
  else if constexpr (!std::is_invocable_v<F&, C, lane_t<X>>) return std::pair{init, xs};
  else if (engine::current()) return traced_scan(f, init, xs, backwards, at);
  else return eager_scan(f, init, xs, backwards, at);
}

}  // namespace detail

// Wrong calls of scan: whole functions with `reversed`, and the heads of the other overloads, before the declarator.
#define SINTER_WRONG_SCAN(FAULT, TEXT)                                                         \
  template <class F, class C, class X>                                                         \
  requires(detail::fault_of_scan<F, detail::settled<const C&>, detail::settled<const X&>>() == \
           detail::part_fault::FAULT) SINTER_WRONG_CALL("[scan] " TEXT)                        \
  detail::wrong_call<> scan(F&&, const C&, const X&, reversed_t, location = {}) { return {}; } \
  template <class F, class C, class X>                                                         \
  requires(detail::fault_of_scan<F, detail::settled<const C&>, detail::settled<const X&>>() == \
           detail::part_fault::FAULT) SINTER_WRONG_CALL("[scan] " TEXT)                        \
  detail::wrong_call<>
SINTER_WRONG_SCAN(arguments, "f takes the carry and a slice of xs; its number of arguments, a dtype or a rank differs")
scan(F&&, const C&, const X&, location = {}) { return {}; }
SINTER_WRONG_SCAN(pair, "f returns a pair: the next carry, and what is stacked")
scan(F&&, const C&, const X&, location = {}) { return {}; }
SINTER_WRONG_SCAN(carry,
                  "f returns a carry of another structure, dtype or rank than it was given; the carry comes first")
scan(F&&, const C&, const X&, location = {}) { return {}; }
#undef SINTER_WRONG_SCAN

/// Reads xs, a tree of tensors, slice by slice along the first axes. f(carry, x) returns a pair: the next carry, with init's
/// shapes, and a tree of results. Returns the last carry, and the results stacked along a new first axis. A stacked<S> in xs
/// arrives as S; structs S in f's results become stacked<S>. Inside compile() it is one node for any number of steps. It is
/// differentiable, by captured tensors too: the backward pass keeps the carry of each step, and recomputes the rest of the
/// step. Outside compile() it is a loop. user_error when a carry changes its shape.
template <class F, class C, class X>
auto scan(F&& f, const C& init, const X& xs, location at = location::current()) {
  return detail::scan_of(f, detail::settle_tree(init), detail::settle_tree(xs), false, at);
}
/// Runs from the last slice to the first; result i still belongs to slice i.
template <class F, class C, class X>
auto scan(F&& f, const C& init, const X& xs, reversed_t, location at = location::current()) {
  return detail::scan_of(f, detail::settle_tree(init), detail::settle_tree(xs), true, at);
}

#define SINTER_WRONG_FORI(FAULT, TEXT)                                                          \
  template <extent_like Lower, extent_like Upper, class Body, class C>                          \
  requires(detail::fault_of_body<Body, detail::settled<const C&>, tensor<std::int64_t, 0>>() == \
           detail::part_fault::FAULT) SINTER_WRONG_CALL("[fori_loop] " TEXT)                    \
  detail::wrong_call<>
SINTER_WRONG_FORI(arguments,
                  "the body takes a tensor<std::int64_t, 0> and the carry; its number of arguments, a dtype or a rank "
                  "differs")
fori_loop(Lower, Upper, Body&&, const C&, location = {}) { return {}; }
SINTER_WRONG_FORI(carry, "the body returns a carry of another dtype or rank than it was given, or another structure")
fori_loop(Lower, Upper, Body&&, const C&, location = {}) { return {}; }
SINTER_WRONG_FORI(no_result, "the body returns nothing, and not the next carry")
fori_loop(Lower, Upper, Body&&, const C&, location = {}) { return {}; }
#undef SINTER_WRONG_FORI

/// body(i, … body(lower + 1, body(lower, init))) for i below `upper`; i is a tensor<std::int64_t, 0>. Inside compile() it is
/// one node, and differentiable as scan is. Without a step it is init, and body is not called.
template <extent_like Lower, extent_like Upper, class Body, class C>
auto fori_loop(Lower lower, Upper upper, Body&& body, const C& init, location at = location::current()) {
  constexpr bool takes = std::is_invocable_v<Body&, tensor<std::int64_t, 0>, detail::settled<const C&>>;
  if constexpr (!takes) return detail::settle_tree(init);
  else return detail::fori_of(dim(lower), dim(upper), body, detail::settle_tree(init), at);
}

#define SINTER_WRONG_WHILE(FAULT, TEXT)                                                                  \
  template <class Test, class Body, class C>                                                             \
  requires(detail::fault_of_while<Test, Body, detail::settled<const C&>>() == detail::part_fault::FAULT) \
      SINTER_WRONG_CALL("[while_loop] " TEXT)                                                            \
  detail::wrong_call<>
SINTER_WRONG_WHILE(arguments, "test and body take the carry; a number of arguments, a dtype or a rank differs")
while_loop(Test&&, Body&&, const C&, location = {}) { return {}; }
SINTER_WRONG_WHILE(condition, "the test returns no bool of rank 0: reduce it with any(x) or all(x), or compare numbers")
while_loop(Test&&, Body&&, const C&, location = {}) { return {}; }
SINTER_WRONG_WHILE(carry, "the body returns a carry of another dtype or rank than it was given, or another structure")
while_loop(Test&&, Body&&, const C&, location = {}) { return {}; }
SINTER_WRONG_WHILE(no_result, "the body returns nothing, and not the next carry")
while_loop(Test&&, Body&&, const C&, location = {}) { return {}; }
#undef SINTER_WRONG_WHILE

/// body(… body(init)) as long as test(carry), a bool of rank 0, holds. Inside compile() it is one node. Gradients by its inputs
/// are refused: use fori_loop or scan. On a GPU each step waits for its test.
template <class Test, class Body, class C>
auto while_loop(Test&& test, Body&& body, const C& init, location at = location::current()) {
  constexpr bool take =
      std::is_invocable_v<Test&, detail::settled<const C&>> && std::is_invocable_v<Body&, detail::settled<const C&>>;
  if constexpr (!take) return detail::settle_tree(init);
  else return detail::while_of(test, body, detail::settle_tree(init), at);
}

}  // namespace sinter
