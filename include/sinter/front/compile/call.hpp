// front/compile/call.hpp: a call in the engine's terms: arguments as leaves, a function as a graph, outputs as a result tree.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../engine/engine.hpp"
#include "../evaluate/handle.hpp"
#include "../tensor/number.hpp"
#include "../trees/items.hpp"
#include "../trees/leaves.hpp"
#include "../trees/tree_map.hpp"

namespace sinter::detail {

/// A tree with its expressions evaluated: a stage point.
template <class T>
auto settle_tree(T&& t) {
  using tree_type = std::remove_cvref_t<T>;
  if constexpr (facts_of<T>.lazy)
    return map_tree(
        "tree", {}, [](const auto& x) { return x; }, t);
  else return tree_type(std::forward<T>(t));
}

template <class T>
using settled = decltype(settle_tree(std::declval<T>()));

/// A text literal; without a terminating 0, an array is text to its end.
template <class T>
inline constexpr bool is_text_literal = false;
template <std::size_t N>
inline constexpr bool is_text_literal<const char (&)[N]> = true;

/// The argument that a function receives. Floating arguments are numbers if Numbers, expressions become tensors, and text
/// literals become std::string.
template <bool Numbers, class T>
decltype(auto) given(T&& x) {
  using value = std::remove_cvref_t<T>;
  if constexpr (is_text_literal<T&&>) return std::string(std::begin(x), std::find(std::begin(x), std::end(x), '\0'));
  else if constexpr (is_floating_scalar<value> && Numbers) return number<value>(x);
  else if constexpr (facts_of<T>.lazy && !is_number<value>) return settle_tree(std::forward<T>(x));
  else return static_cast<T&&>(x);
}
template <bool Numbers, class T>
using given_t = std::remove_cvref_t<decltype(given<Numbers>(std::declval<T>()))>;

/// Whether F takes its floating arguments as numbers.
template <class F, class... Args>
inline constexpr bool takes_numbers =
    takes_arguments<F&, given_t<true, Args>...>() && std::is_invocable_v<F&, given_t<true, Args>...>;

template <class Result>
struct call_result {
  using type = settled<Result>;
};
template <>
struct call_result<void> {
  using type = void;
};

/// The result of calling F with the trees Args by value, as a tree of tensors; void stays void.
template <class F, class... Args>
using call_result_t = typename call_result<std::invoke_result_t<F&, Args...>>::type;

/// The tree with every tensor replaced by a new input of the graph.
template <class T>
T input_tree(const std::shared_ptr<engine::tracer>& tracer, const T& t, location where) {
  if constexpr (facts_of<T>.tensors == 0) return t;
  else
    return map_tree(
        "trace", where,
        [&]<class X>(const X& x) -> X {
          if constexpr (is_dynamic<X>) {
            return x.input(*tracer, where);
          } else {
            X out;
            put_input(tracer, dtype_of<typename X::value_type>, X::static_shape, x.shape().data(), access::parts(out),
                      where);
            return out;
          }
        },
        t);
}

/// A number as an input of the graph. A number beyond the tracer's bits enters by its value.
template <class T>
number<T> input_tree(const std::shared_ptr<engine::tracer>& tracer, const number<T>& x, location where) {
  const auto leaf = static_cast<int>(tracer->graph.inputs.size());
  const ir::node_id node = tracer->graph.add_input(dtype_of<T>, {}, where);
  std::uint64_t bits = 0;
  std::memcpy(&bits, x.address(), sizeof(T));
  const engine::specialised value{{leaf, -1}, bits, where};
  const std::size_t bit = tracer->numbers.size();
  if (bit == 64) {
    tracer->specialise(value);
    return x;
  }
  tracer->numbers.push_back(value);
  return number<T>(*x.address(), tracer, node, std::uint64_t{1} << bit);
}

/// A visitor that does not depend on the function, so that a program has it once.
struct scalar_finder {
  engine::tracer* tracer;

  template <class Leaf>
  void leaf(const Leaf&) const {
    if constexpr (is_floating_scalar<Leaf>) tracer->has_scalars = true;
  }
  void length(std::uint64_t) const {}
  void key(const std::string&) const {}
};

/// Tells the tracer whether a tree has floating C++ values.
template <class T>
void note_scalars(engine::tracer& t, const T& tree) {
  if constexpr (facts_of<T>.statics != 0) visit_leaves(tree, scalar_finder{&t});
}

/// Collects the nodes of a result's tensors; its sizes become results of the call.
struct result_reader {
  const std::shared_ptr<engine::tracer>* tracer;
  series<ir::node_id>* nodes;
  location where;

  template <class Leaf>
  void leaf(Leaf&& x) const {
    using X = std::remove_cvref_t<Leaf>;
    if constexpr (is_dynamic<X>) nodes->push_back(x.node(where));
    else if constexpr (tensor_like<X>) nodes->push_back(push(**tracer, x, where));
    else if constexpr (std::is_same_v<Leaf, dim&>) x = engine::returned_size(**tracer, x);
    else if constexpr (std::is_same_v<Leaf, const dim&>) static_cast<void>(static_cast<std::int64_t>(x));
  }
  void length(std::uint64_t) const {}
  void key(const std::string&) const {}
};

/// The tree with empty handles.
template <class T>
T hollow(const T& t) {
  if constexpr (facts_of<T>.tensors == 0) return t;
  else
    return map_tree(
        "trace", {}, []<class X>(const X&) { return X(); }, t);
}

template <class T>
constexpr bool holds_view();

template <class... T>
constexpr bool holds_view(type_list<T...>) {
  return (... || holds_view<T>());
}

/// Whether a tree has text that it does not own.
template <class T>
constexpr bool holds_view() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused || b == branch::tensor) return false;
  else if constexpr (b == branch::scalar) return std::is_same_v<T, std::string_view>;
  else if constexpr (has_elements(b)) return holds_view<element_in<T>>();
  else return holds_view(children_of<T>{});
}

/// Calls fn once on inputs shaped like `args`, and keeps the graph; if fn reads values, the results. Exceptions of fn pass
/// through.
template <class F, class... Args>
SINTER_COLD engine::traced trace_call(F& fn, const engine::trace_target& to, const Args&... args) {
  using result_type = call_result_t<F, Args...>;
  const location where = to.where;
  engine::traced out;
  out.graph = engine::make_tracer(to);
  const engine::tracing_scope scope(out.graph);
  const engine::live_scope until_here(*out.graph);
  std::tuple<Args...> inputs{input_tree(out.graph, args, where)...};
  if (to.request) (note_scalars(*out.graph, args), ...);
  if constexpr (std::is_void_v<result_type>) {
    std::apply([&](Args&... input) { detail::invoke(where, fn, std::move(input)...); }, inputs);
  } else {
    constexpr bool owned = !holds_view<result_type>();
    static_assert(
        owned,
        "[compile] the result holds a std::string_view, which later calls would return too; return a std::string");
    result_type result =
        std::apply([&](Args&... input) { return settle_tree(detail::invoke(where, fn, std::move(input)...)); }, inputs);
    series<ir::node_id> nodes;
    visit_leaves(result, result_reader{&out.graph, &nodes, where});
    out.graph->graph.outputs = std::move(nodes);
    out.skeleton = on_heap(hollow(result));
  }
  engine::finish(out);
  return out;
}

/// A tensor in the memory of an output.
template <class X, class Output>
[[gnu::always_inline]] inline X leaf_from(Output& out) {
  if constexpr (is_dynamic<X>) {
    return X::made(out);
  } else {
    using E = typename X::value_type;
    constexpr dims Shape = X::static_shape;
    index_array<Shape.rank> extents;
    std::copy_n(std::data(out.extents), Shape.rank, extents.data());
    E* data = static_cast<E*>(out.memory.data());
    return access::make<E, Shape>(std::move(out.memory), data, extents, row_major_strides(extents));
  }
}

/// Turns outputs into tensors, in order.
template <class Output>
struct output_reader {
  Output* next;

  template <class Leaf>
  void leaf([[maybe_unused]] Leaf&& x) {
    using X = std::remove_cvref_t<Leaf>;
    if constexpr (branch_of<X>() == branch::tensor) x = leaf_from<X>(*next++);
  }
  void length(std::uint64_t) {}
  void key(const std::string&) {}
};

/// The result tree: the skeleton with its tensors from `next`, in order, after `run`. A copy constructor of the user can throw
/// before `run` only.
template <class Result, class Run, class Output>
requires(owns_leaves<Result>()) Result assemble(const void* skeleton, Run&& run, Output* next) {
  Result out = *static_cast<const Result*>(skeleton);  // in no inner scope: g++ 12 would move it
  run();
  visit_leaves(out, output_reader<Output>{next});
  return out;
}
template <class Result, class Run, class Output>
requires(!owns_leaves<Result>()) Result assemble(const void* skeleton, Run&& run, [[maybe_unused]] Output* next) {
  const Result& shape = *static_cast<const Result*>(skeleton);
  run();
  if constexpr (facts_of<Result>.tensors == 0) return shape;
  else
    return map_tree(
        "run", {}, [&]<class X>(const X&) { return leaf_from<X>(*next++); }, shape);
}

/// The results of a call that trace_call answered.
template <class Result>
SINTER_COLD Result answer_of(engine::traced& t) {
  if constexpr (!std::is_void_v<Result>) {
    return assemble<Result>(
        t.skeleton.get(), [] {}, t.answer->data());
  }
}

/// Runs a program, and replaces the skeleton's tensors by its outputs.
template <class Result>
Result run_program(const engine::program& code, const void* skeleton, std::span<const engine::argument> arguments,
                   std::span<const std::uint8_t> donate) {
  constexpr tree_facts known = [] {
    if constexpr (std::is_void_v<Result>) return tree_facts{};
    else return facts_of<Result>;
  }();
  items<engine::output, known.fixed ? known.tensors : -1> outputs(code.output_count());
  const auto run = [&] { code.run(arguments, donate, outputs.data()); };
  if constexpr (std::is_void_v<Result>) {
    run();
  } else {
    return assemble<Result>(skeleton, run, outputs.data());
  }
}

}  // namespace sinter::detail
