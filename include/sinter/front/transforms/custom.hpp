// front/transforms/custom.hpp: functions with their own derivative rules: custom_vjp and custom_jvp.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../control/parts.hpp"
#include "jvp.hpp"

namespace sinter {

namespace detail {

/// Whether an argument's tensors are operands of the function's node. Numbers of the call are captured instead.
template <class T>
inline constexpr bool is_part_operand = !is_number<T>;

/// Traces the function as a node of the current trace, which has rules or is recomputed, and returns its results.
/// `rules` receives the results and captures of the function, in its own trace.
template <class F, class Rules, class... Args>
auto traced_call(F& f, ir::recompute again, const Rules& rules, location where, const Args&... args) {
  const auto outer = engine::current();
  const auto inner = engine::make_inner_tracer();
  series<ir::node_id> operands;
  const auto push_operands = [&]<class T>(const T& x) {
    if constexpr (is_part_operand<T>) push_leaves(*outer, x, operands, where);
  };
  (push_operands(args), ...);
  const auto input = [&]<class T>(const T& x) -> T {
    if constexpr (is_part_operand<T>) return input_tree(inner, x, where);
    else return x;
  };
  std::tuple<Args...> in{input(args)...};
  auto result = [&] {
    const part_scope scope(inner);
    auto out = std::apply([&](Args&... x) { return settle_tree(detail::invoke(where, f, std::move(x)...)); }, in);
    push_leaves(*inner, out, inner->graph.outputs, where);
    return out;
  }();
  const auto nodes = engine::push_call(*outer, *inner, rules(result, *inner), again, std::move(operands), where);
  const ir::node_id* next = nodes.begin();
  return traced_tree(outer, result, next);
}

/// The inputs for the graph of a rule: trees of operands, then the captures, then the results.
template <class Value, class... Args>
struct rule_inputs {
  std::shared_ptr<engine::tracer> tracer = engine::make_tracer();
  std::tuple<Args...> operands;
  Value results;

  rule_inputs(const std::tuple<Args...>& like, const series<ir::result_type>& captured, const Value& value,
              location where)
      : operands(inputs(like, where)), results(after(captured, value, where)) {}

  /// A tree of further inputs like x: all its tensors if `all`, else the floating ones.
  template <class T>
  T more(const T& x, bool all, location where) {
    return map_tree(
        "trace", where,
        [&]<class E, dims S>(const tensor<E, S>& leaf) {
          if (!all && !is_float(dtype_of<E>)) {
            const engine::tracing_scope scope(tracer);
            return filled<E, S>("custom_jvp", {}, leaf.shape(), {}, where);
          }
          return access::traced<E, S>(tracer, tracer->graph.add_input(dtype_of<E>, to_shape(leaf.shape()), where),
                                      leaf.shape());
        },
        x);
  }

 private:
  std::tuple<Args...> inputs(const std::tuple<Args...>& like, location where) {
    return std::apply(
        [&](const Args&... x) {
          const auto one = [&]<class T>(const T& tree) -> T {
            if constexpr (is_part_operand<T> && facts_of<T>.tensors > 0) return more(tree, true, where);
            else return tree;
          };
          return std::tuple<Args...>{one(x)...};
        },
        like);
  }
  Value after(const series<ir::result_type>& captured, const Value& value, location where) {
    for (const auto& c : captured) tracer->graph.add_input(c.type, c.extents, where);
    return more(value, true, where);
  }
};

/// The arguments that have floating tensors.
template <class... Args>
auto varying_arguments(const std::tuple<Args...>& all) {
  const auto one = []<class T>(const T& x) {
    if constexpr (is_part_operand<T> && any_differentiable<T>()) return std::tuple<const T&>(x);
    else return std::tuple<>();
  };
  return std::apply([&](const Args&... x) { return std::tuple_cat(one(x)...); }, all);
}

/// The rule's graph; user_error if it captures a tensor.
inline ir::graph rule_graph(const engine::tracer& t, const char* op, const char* what, location where) {
  if (!t.captures.empty())
    fail(op, std::string(what) + " uses a tensor from outside; it is a function of what it is given", where);
  return t.graph;
}

/// The graph of backward(residuals, cotangents of the results), which gives the cotangents of the arguments.
template <class Forward, class Backward, class Value, class... Args>
ir::graph pull_graph(Forward& forward, Backward& backward, const std::tuple<Args...>& like,
                     const series<ir::result_type>& captured, const Value& value, location where) {
  rule_inputs<Value, Args...> in(like, captured, value, where);
  const Value ct = in.more(value, true, where);
  const engine::tracing_scope scope(in.tracer);
  using both_t = std::invoke_result_t<Forward&, Args...>;
  constexpr bool two = two_results<both_t>;
  static_assert(two, "[custom_vjp] forward returns two results: the value, and what backward needs");
  if constexpr (two) {
    auto both = std::apply([&](Args&... x) { return detail::invoke(where, forward, Args(x)...); }, in.operands);
    auto kept = settle_tree(std::get<1>(both));
    const std::size_t effects = in.tracer->graph.effects.size();  // effects of the function, which were done already
    constexpr bool takes = told_to_take<Backward&, decltype(kept), Value>();
    static_assert(takes, "[custom_vjp] backward takes what forward kept, then the cotangent of the result");
    if constexpr (takes) {
      auto pulled = settle_tree(detail::invoke(where, backward, std::move(kept), Value(ct)));
      if (in.tracer->graph.effects.size() > effects) fail_rule_effect("custom_vjp", "its backward", where);
      const auto wanted = varying_arguments(like);
      const auto push_one = [&](const auto& argument, const auto& given) {
        constexpr bool fit = fits_tree<std::remove_cvref_t<decltype(argument)>, std::remove_cvref_t<decltype(given)>>();
        static_assert(
            fit,
            "[custom_vjp] backward returns a cotangent for each argument with floating tensors, like it: of one "
            "the cotangent, of several a tuple");
        if constexpr (fit)
          push_tangents(*in.tracer, "custom_vjp", "the cotangent that backward returns", argument, given,
                        in.tracer->graph.outputs, where);
      };
      if constexpr (std::tuple_size_v<decltype(wanted)> == 1) {
        push_one(std::get<0>(wanted), pulled);
      } else {
        constexpr bool tuple = is_tuple<decltype(pulled)>;
        constexpr bool as_many = [] {
          if constexpr (tuple) return std::tuple_size_v<decltype(pulled)> == std::tuple_size_v<decltype(wanted)>;
          else return false;
        }();
        static_assert(as_many,
                      "[custom_vjp] backward returns a tuple: a cotangent for each argument with floating tensors");
        if constexpr (as_many) [&]<std::size_t... I>(std::index_sequence<I...>) {
            (push_one(std::get<I>(wanted), std::get<I>(pulled)), ...);
          }
        (std::make_index_sequence<std::tuple_size_v<decltype(wanted)>>{});
      }
    }
  }
  return rule_graph(*in.tracer, "custom_vjp", "its forward or backward", where);
}

/// The graph of rule(arguments…, tangents…), which gives the value and its tangent.
template <class Rule, class Value, class... Args>
ir::graph push_graph(Rule& rule, const std::tuple<Args...>& like, const series<ir::result_type>& captured,
                     const Value& value, location where) {
  rule_inputs<Value, Args...> in(like, captured, value, where);
  const auto along =
      std::apply([&](const auto&... x) { return std::tuple{in.more(x, false, where)...}; }, varying_arguments(like));
  const engine::tracing_scope scope(in.tracer);
  return std::apply(
      [&]<class... V>(const V&... v) {
        constexpr bool takes = told_to_take<Rule&, Args..., V...>();
        static_assert(takes,
                      "[custom_jvp] the rule takes the arguments, then a tangent for each that has floating tensors");
        if constexpr (takes) {
          auto both = settle_tree(
              std::apply([&](Args&... x) { return detail::invoke(where, rule, Args(x)..., V(v)...); }, in.operands));
          if (!in.tracer->graph.effects.empty()) fail_rule_effect("custom_jvp", "its rule", where);
          constexpr bool two = two_results<decltype(both)>;
          static_assert(two, "[custom_jvp] the rule returns two results: the value and its tangent");
          if constexpr (two) {
            using tangent = std::remove_cvref_t<decltype(std::get<1>(both))>;
            constexpr bool fit = fits_tree<Value, tangent>();
            static_assert(fit,
                          "[custom_jvp] the tangent does not fit the result: it is a tree of the same structure, "
                          "dtypes and ranks");
            if constexpr (fit)
              push_tangents(*in.tracer, "custom_jvp", "the tangent that the rule returns", value, std::get<1>(both),
                            in.tracer->graph.outputs, where);
          }
        }
        return rule_graph(*in.tracer, "custom_jvp", "its rule", where);
      },
      along);
}

/// The dtypes and extents of a function's captures.
inline series<ir::result_type> captured_types(const engine::tracer& inner) {
  series<ir::result_type> out;
  for (const auto id : inner.imported) out.push_back({inner.outer->graph[id].type, inner.outer->graph[id].extents});
  return out;
}

/// The facts that a rule is traced for.
template <class Value, class... Args>
struct rule_facts {
  std::tuple<Args...> like;
  series<ir::result_type> captured;
  Value value;
  location where;
};

/// An argument of a function with rules. Rules are traced elsewhere, so numbers of a call become their values.
template <class T>
auto by_value(T&& x) {
  using type = std::remove_cvref_t<T>;
  if constexpr (is_number<type>) return static_cast<typename type::value_type>(x);
  else return passed<false>(std::forward<T>(x));
}

/// A function with rules. `Second` is nothing_t for a rule of tangents.
struct nothing_t {};
template <class F, class First, class Second>
class ruled_function {
  static constexpr bool backwards = !std::is_same_v<Second, nothing_t>;

 public:
  ruled_function(F f, First first, Second second, location where)
      : f_(std::move(f)), first_(std::move(first)), second_(std::move(second)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    constexpr bool right = told_to_take<F&, decltype(by_value(std::declval<Args>()))...>();
    constexpr bool takes = std::is_invocable_v<F&, decltype(by_value(std::declval<Args>()))...>;
    if constexpr (backwards)
      static_assert(right,
                    "[custom_vjp] the function does not take these arguments: their number, a dtype or a rank differs");
    else
      static_assert(right,
                    "[custom_jvp] the function does not take these arguments: their number, a dtype or a rank differs");
    if constexpr (right && takes) {
      using result = std::invoke_result_t<F&, decltype(by_value(std::declval<Args>()))...>;
      if constexpr (backwards) static_assert(!std::is_void_v<result>, "[custom_vjp] the function returns nothing");
      else static_assert(!std::is_void_v<result>, "[custom_jvp] the function returns nothing");
      if constexpr (!std::is_void_v<result>) return apply(by_value(std::forward<Args>(args))...);
    }
  }

 private:
  template <class... Args>
  auto apply(const Args&... args) const {
    using value_type = settled<std::invoke_result_t<F&, Args...>>;
    if (!engine::current()) return value_type(settle_tree(detail::invoke(where_, f_, Args(args)...)));
    const auto rules = [&](const value_type& value, const engine::tracer& inner) {
      auto r = std::make_shared<ir::foreign>();
      r->name = backwards ? "custom_vjp" : "custom_jvp";
      r->identity = ir::new_identity();
      // The user's functions are called as non-const.
      const rule_facts<value_type, Args...> facts{{shaped(args)...}, captured_types(inner), shaped(value), where_};
      if constexpr (backwards)
        r->pull = [forward = first_, backward = second_, facts] {
          auto one = forward;
          auto two = backward;
          return pull_graph(one, two, facts.like, facts.captured, facts.value, facts.where);
        };
      else
        r->push = [rule = first_, facts] {
          auto one = rule;
          return push_graph(one, facts.like, facts.captured, facts.value, facts.where);
        };
      return std::shared_ptr<const ir::foreign>(std::move(r));
    };
    return traced_call(f_, ir::recompute::nothing, rules, where_, args...);
  }

  mutable F f_;
  First first_;
  Second second_;
  location where_;
};

}  // namespace detail

/// f with its own backward pass: `custom_vjp(f, forward, backward)` computes the values of f. To differentiate it,
/// forward(arguments…) gives the trees (value, residuals). backward(residuals, cotangent of the value) gives the cotangent of
/// the argument with floating tensors; if several have them, a tuple of cotangents. The value is f's; forward supplies the
/// residuals, and computations shared with f are done once. A tangent follows from backward if that is linear in the cotangent;
/// otherwise jvp is a user_error. A derivative with respect to captures of f is a user_error, too. Kernels fuse through f,
/// forward and backward.
template <class F, class Forward, class Backward>
auto custom_vjp(F f, Forward forward, Backward backward, location where = location::current()) {
  return detail::ruled_function<F, Forward, Backward>(std::move(f), std::move(forward), std::move(backward), where);
}

/// f with its own tangent: rule(arguments…, tangents…) gives (value, tangent of the value). Each argument with floating
/// tensors has a tangent. Cotangents follow from the rule if it is linear in the tangents; otherwise grad is a user_error.
/// A derivative with respect to captures of f is a user_error, too.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule, location where = location::current()) {
  return detail::ruled_function<F, Rule, detail::nothing_t>(std::move(f), std::move(rule), {}, where);
}

}  // namespace sinter

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "sample_rules.hpp"
#endif
