// front/compile/trace.hpp: trace(fn)(args…): the graph of a call, to look at.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "call.hpp"

namespace sinter {

/// What a function did when it was called once on symbolic tensors.
class traced_graph {
 public:
  explicit traced_graph(std::shared_ptr<const engine::tracer> tracer) : tracer_(std::move(tracer)) {}

  /// One line a node, in order of evaluation; the same program gives the same text.
  std::string text() const { return ir::print(tracer_->graph); }
  /// Number of nodes that the results need, inputs included.
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

/// The function that traces fn instead of computing: `trace(f)(x)` reads x's dtype and extents, not its elements.
// clang-format off
template <class F>
auto trace(F&& fn, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  using function = std::decay_t<F>;
  static_assert(std::is_class_v<function> || std::is_pointer_v<function> || std::is_member_pointer_v<function>,
                "sinter: [trace] takes a function: trace([](tensor<float, 1> x) { return x * 2; })");
  return [f = std::decay_t<F>(std::forward<F>(fn)), where](const auto&... args) mutable {
    return [&]<class... T>(const T&... settled) {
      constexpr bool right = detail::told_to_take<function&, T...>();
      constexpr bool takes = std::is_invocable_v<function&, T...>;
      static_assert(
          right, "sinter: [trace] the function does not take these arguments: their number, a dtype or a rank differs");
      const device on = detail::flat_arguments<T...>("trace", where, settled...).where({});
      if constexpr (takes) return traced_graph(detail::trace_call(f, {on, where}, settled...).graph);
    }(detail::settle_tree(args)...);
  };
}

}  // namespace sinter
