// front/compile/trace.hpp: trace(fn)(args…): the graph of a call, for inspection.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "call.hpp"
#include "mismatch.hpp"

namespace sinter {

/// The graph of a function that was called once on symbolic tensors.
class traced_graph {
 public:
  explicit traced_graph(std::shared_ptr<const engine::tracer> tracer) : tracer_(std::move(tracer)) {}

  /// One line for each node, in order of evaluation; the same program gives the same text.
  std::string text() const { return ir::print(tracer_->graph); }
  /// The number of nodes that the results need, inputs included.
  std::size_t nodes() const { return tracer_->graph.live().size(); }
  const ir::graph& graph() const { return tracer_->graph; }

  template <class Stream>
  requires requires(Stream& s, const std::string& text) { s << text; }
  friend Stream& operator<<(Stream& stream, const traced_graph& traced) {
    stream << traced.text();
    return stream;
  }

 private:
  std::shared_ptr<const engine::tracer> tracer_;
};

namespace detail {

/// The function that trace() returns.
template <class F>
class tracing_of {
  template <class... Args>
  static constexpr bool taken = told_to_take<F&, settled<const Args&>...>();

 public:
  tracing_of(F f, location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  requires(taken<Args...>) auto operator()(const Args&... args) const { return of(settle_tree(args)...); }
  template <class... Args, std::enable_if_t<!taken<Args...>, int> = 0,
            class Mismatch = mismatch_t<F, settled<const Args&>...>>
  SINTER_WRONG_ARGUMENTS("trace")
  wrong_call<> operator()(const Args&...) const {
    return {};
  }

 private:
  template <class... T>
  auto of(const T&... settled) const {
    const device on = flat_arguments<T...>("trace", where_, settled...).where({});
    if constexpr (std::is_invocable_v<F&, T...>) return traced_graph(trace_call(f_, {on, where_}, settled...).graph);
  }

  mutable F f_;
  location where_;
};

}  // namespace detail

/// The function that traces fn without computing: `trace(f)(x)` reads x's dtype and extents, not its elements.
// clang-format off
template <class F>
auto trace(F&& fn, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  using function = std::decay_t<F>;
  static_assert(std::is_class_v<function> || std::is_pointer_v<function> || std::is_member_pointer_v<function>,
                "sinter: [trace] takes a function: trace([](tensor<float, 1> x) { return x * 2; })");
  return detail::tracing_of<function>(std::forward<F>(fn), where);
}

}  // namespace sinter
