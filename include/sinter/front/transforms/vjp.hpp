// front/transforms/vjp.hpp: derivatives as functions that outlive the call: vjp and linearize.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../evaluate/handle.hpp"
#include "jvp.hpp"

namespace sinter {

namespace detail {

/// A value of the function that a derivative needs: traced or concrete.
struct residual {
  trace_handle traced;
  handle known;
};

/// A derivative at a point: a graph, and its residuals.
struct linear_state {
  const char* op = "";
  location where;
  ir::graph graph;
  series<residual> residuals;
  std::size_t all_bytes = 0;  ///< that the residuals would have without recomputation; 0 in a trace
};

/// The bytes of elements of some nodes; an open size counts as one.
SINTER_API std::size_t bytes_of_nodes(const ir::graph& g, const series<ir::node_id>& nodes);

/// Keeps the derivative that is cut out of a trace.
SINTER_API std::shared_ptr<const linear_state> keep_linear(const std::shared_ptr<engine::tracer>& t,
                                                           engine::linear_part part, const char* op, location where);
/// Keeps the derivative of a finished call. The last results are the residuals of the graph.
SINTER_API std::shared_ptr<const linear_state> keep_linear(ir::graph part, std::span<const engine::captured> taken,
                                                           std::size_t all_bytes, const char* op, location where);
/// The bytes that the residuals hold; 0 in a trace.
SINTER_API std::size_t held_bytes(const linear_state& s);
/// Pushes the graph on the current trace, with `given` as its last inputs, and returns its results.
SINTER_API series<ir::node_id> push_linear(const linear_state& s, const series<ir::node_id>& given);

/// A derivative at a point as a function. It takes a tree for each of `From`, and gives a tree like `To`, or a tuple of such
/// trees.
template <bool Transposed, class From, class To>
class linear_function;
template <bool Transposed, class... From, class... To>
class linear_function<Transposed, std::tuple<From...>, std::tuple<To...>> {
 public:
  linear_function(std::shared_ptr<const linear_state> state, std::tuple<From...> from, std::tuple<To...> to)
      : state_(std::move(state)), like_(std::make_shared<const likes>(likes{std::move(from), std::move(to)})) {}

  template <class... V>
  auto operator()(V&&... v) const {
    constexpr bool number = sizeof...(V) == sizeof...(From);
    if constexpr (Transposed) static_assert(number, "[vjp] a pullback takes one argument: the cotangent of the result");
    else static_assert(number, "[linearize] a linear function takes a tangent for each argument that varies");
    if constexpr (number) {
      constexpr bool fit = (... && fits_tree<From, decltype(passed_tangent<From>(std::declval<V>()))>());
      if constexpr (Transposed)
        static_assert(
            fit,
            "[vjp] the cotangent does not fit: it is a tree of the same structure, dtypes and ranks as what it "
            "is of");
      else
        static_assert(fit,
                      "[linearize] a tangent does not fit its argument: it is a tree of the same structure, dtypes and "
                      "ranks");
      if constexpr (fit) {
        if (engine::current()) return apply(passed_tangent<From>(std::forward<V>(v))...);
        return call_alone(
            state_->op, state_->where, [this](const auto&... x) { return this->apply(x...); },
            passed_tangent<From>(std::forward<V>(v))...);
      }
    }
  }

  /// The bytes of the function's values that the derivative holds; 0 in a trace, whose compilation decides.
  std::size_t held_bytes() const { return detail::held_bytes(*state_); }
  /// The bytes that it would hold if it computed no value again.
  std::size_t all_bytes() const { return state_->all_bytes; }

 private:
  struct likes {
    std::tuple<From...> from;
    std::tuple<To...> to;
  };

  template <class... V>
  auto apply(const V&... v) const {
    constexpr bool typed =
        !Transposed || (!(... || has_other_gradients<From>()) && !(... || has_other_gradients<To>()));
    static_assert(typed,
                  "sinter: [vjp] a replicated or partial tensor has a cotangent of another placement; write "
                  "value_and_grad of a loss, whose gradients have their placements");
    const auto& t = engine::current();
    series<ir::node_id> given;
    std::apply(
        [&](const From&... like) {
          (push_tangents(*t, state_->op, Transposed ? "the cotangent" : "the tangent", like, v, given, state_->where),
           ...);
        },
        like_->from);
    const auto nodes = push_linear(*state_, given);
    const ir::node_id* next = nodes.begin();
    const auto tree = [&](const auto& like) { return derivative_tree(state_->op, state_->where, t, like, next); };
    return std::apply(
        [&](const To&... like) {
          if constexpr (sizeof...(To) == 1) return tree(like...);
          else return std::tuple{tree(like)...};
        },
        like_->to);
  }

  std::shared_ptr<const linear_state> state_;
  std::shared_ptr<const likes> like_;
};

/// The functions that vjp and linearize return.
template <class Indexes, bool Transposed, class F, bool Aux = false>
class linearized {
  static constexpr const char* op = Transposed ? "vjp" : "linearize";
  template <class... Args>
  static constexpr transform_fault fault_of = fault_of_call<Indexes, F, Args...>();

 public:
  linearized(F f, location where) : f_(std::move(f)), where_(where) {}

  SINTER_RIGHT_TRANSFORMS
  SINTER_WRONG_TRANSFORMS("vjp", Transposed, "floating tensors")
  SINTER_WRONG_TRANSFORMS("linearize", !Transposed, "floating tensors")

 private:
  template <std::size_t... I, class... Args>
  auto checked(std::index_sequence<I...>, Args&&... args) const {
    using result = std::invoke_result_t<F&, decltype(passed<varies(Indexes{}, I)>(std::declval<Args>()))...>;
    constexpr bool pair = !Aux || two_results<std::remove_cvref_t<result>>;
    static_assert(pair, "[vjp] with has_aux the function must return two results: (value, more)");
    constexpr bool floats = gives_floats<valued<Aux, result>>();
    static_assert(floats, "[vjp] the function returns no floating tensor");
    if constexpr (floats && pair) {
      if (engine::current()) return in_trace(passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
      return alone(passed<varies(Indexes{}, I)>(std::forward<Args>(args))...);
    }
  }

  /// f's value, and the derivative within the current trace.
  template <class... Args>
  auto traced(const Args&... args) const {
    marked_call<Indexes, Args...> call(op, where_, args...);
    auto value = settle_tree(call.run(f_));
    series<ir::node_id> ys;
    push_floating(*call.tracer(), value_of<Aux>(value), ys, where_);
    const auto marks = call.marks();
    return std::pair{std::move(value), engine::linear(*call.tracer(), {ys.data(), ys.size()},
                                                      {marks.data(), marks.size()}, Transposed, where_)};
  }

  template <class... Args>
  auto in_trace(const Args&... args) const {
    auto [value, part] = traced(args...);
    return with_map(keep_linear(engine::current(), std::move(part), op, where_), std::move(value), args...);
  }

  template <class... Args>
  auto alone(const Args&... args) const {
    options how;
    how.name = op;
    flat_arguments<Args...> flat(how.name, where_, args...);
    const device on = flat.where(how);
    engine::trace_target to{on, where_};
    to.how = &how;
    to.arguments = flat.tensors();
    to.whole = true;
    engine::traced did;
    did.graph = engine::make_tracer(to);
    const auto [skeleton, part, count, all_bytes] = [&] {
      const engine::tracing_scope scope(did.graph);
      const engine::live_scope until_here(*did.graph);
      std::tuple<Args...> inputs{input_tree(did.graph, args, where_)...};
      auto [value, cut] = std::apply([&](const Args&... input) { return this->traced(input...); }, inputs);
      const std::size_t whole = bytes_of_nodes(did.graph->graph, cut.from);
      if (!engine::keeps_all_values) cut = engine::partitioned(did.graph->graph, std::move(cut));
      series<ir::node_id> nodes;
      push_leaves_of(*did.graph, value, nodes);
      const std::size_t own = nodes.size();
      nodes.insert(nodes.end(), cut.from.begin(), cut.from.end());
      did.graph->graph.outputs = std::move(nodes);
      auto like = shaped(value);
      engine::finish(did);
      return std::tuple{std::move(like), std::move(cut), own, whole};
    }();
    engine::answer(did, flat.tensors(), how, on);
    check_indices(did);
    using result = std::remove_const_t<decltype(skeleton)>;
    auto value = assemble<result>(
        &skeleton, [] {}, did.answer->data());
    return with_map(keep_linear(part.graph, {did.answer->data() + count, part.from.size()}, all_bytes, op, where_),
                    std::move(value), args...);
  }

  template <class Result, class... Args>
  static auto with_map(std::shared_ptr<const linear_state> state, Result result, const Args&... args) {
    auto map = function(std::move(state), Indexes{}, value_of<Aux>(result), args...);
    if constexpr (Aux) return std::tuple{std::get<0>(result), std::move(map), std::get<1>(result)};
    else return std::pair{std::move(result), std::move(map)};
  }

  template <class T>
  void push_leaves_of(engine::tracer& t, const T& tree, series<ir::node_id>& to) const {
    for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
      if constexpr (is_dynamic<Leaf>) to.push_back(x.node(where_));
      else if constexpr (tensor_like<Leaf>) to.push_back(push(t, x, where_));
    });
  }

  template <int... Index, class Value, class... Args>
  static auto function(std::shared_ptr<const linear_state> state, std::integer_sequence<int, Index...>,
                       const Value& value, const Args&... args) {
    const std::tuple<const Args&...> all(args...);
    std::tuple<std::tuple_element_t<static_cast<std::size_t>(Index), std::tuple<Args...>>...> in{
        shaped(std::get<static_cast<std::size_t>(Index)>(all))...};
    std::tuple<Value> out{shaped(value)};
    if constexpr (Transposed)
      return linear_function<true, decltype(out), decltype(in)>(std::move(state), std::move(out), std::move(in));
    else return linear_function<false, decltype(in), decltype(out)>(std::move(state), std::move(in), std::move(out));
  }

  mutable F f_;
  location where_;
};

}  // namespace detail

/// While it lives, vjp() and linearize() on this thread keep all values that derivatives need. Otherwise those outside of
/// compile() keep the fewest bytes, and the derivative computes cheap values again.
class keep_all_scope {
 public:
  keep_all_scope() : before_(std::exchange(engine::keeps_all_values, true)) {}
  ~keep_all_scope() { engine::keeps_all_values = before_; }
  keep_all_scope(const keep_all_scope&) = delete;
  keep_all_scope& operator=(const keep_all_scope&) = delete;

 private:
  bool before_;
};

/// The function that returns f's value and its pullback: `auto [y, back] = vjp(f)(x)`. For a cotangent ct, a tree like y,
/// back(ct) is the cotangent of x, a tree like x. `Index` names the arguments that vary, the first by default; for several,
/// the pullback gives a tuple. It holds the residuals of f, and can be called often. Outside compile() it may outlive the
/// call, and is a function like any other: compile(back) works. Inside a trace it ends with the trace. user_error for a
/// cotangent of another shape. See grad for the arguments that vary.
// clang-format off
template <int... Index, class F>
auto vjp(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::linearized<detail::varying<Index...>, true, std::decay_t<F>>(std::forward<F>(f), where);
}

/// As above for an f that returns (value, more); returns (value, pullback, more).
template <int... Index, class F>
auto vjp(F&& f, has_aux_t, location where = location::current()) {
  return detail::linearized<detail::varying<Index...>, true, std::decay_t<F>, true>(std::forward<F>(f), where);
}

/// The function that returns f's value and its derivative as a function: `auto [y, along] = linearize(f)(x)`. along(v) is the
/// tangent of jvp(f)(x, v), without a further evaluation of f. See vjp for its lifetime.
// clang-format off
template <int... Index, class F>
auto linearize(F&& f, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::linearized<detail::varying<Index...>, false, std::decay_t<F>>(std::forward<F>(f), where);
}

}  // namespace sinter

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "linear_rules.hpp"
#endif
