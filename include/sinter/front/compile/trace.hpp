// front/compile/trace.hpp: trace(fn)(args…): the graph of a call, for inspection.
#pragma once

#include <type_traits>
#include <utility>

#include "../../engine/backends.hpp"
#include "compile.hpp"
#include "mismatch.hpp"
#include "run_graph.hpp"

namespace sinter {

namespace detail {

/// The function that trace() returns.
template <class F>
class tracing_of {
  template <class... Args>
  static constexpr bool taken = told_to_take<F&, settled<const typename tensor_of_spec<Args>::type&>...>();

 public:
  tracing_of(F f, const options& how, location where) : f_(std::move(f)), how_(how), where_(where) {}

  template <class... Args>
  requires(taken<Args...>) auto operator()(const Args&... args) const {
    return of(settle_tree(expected_argument(args))...);
  }
  template <class... Args, std::enable_if_t<!taken<Args...>, int> = 0,
            class Mismatch = mismatch_t<F, settled<const typename tensor_of_spec<Args>::type&>...>>
  SINTER_WRONG_ARGUMENTS("trace")
  wrong_call<> operator()(const Args&...) const {
    return {};
  }

 private:
  /// An argument, or for a spec a tensor.
  template <class T>
  decltype(auto) expected_argument(const T& x) const {
    if constexpr (is_spec<T>) return expected<false>(x, where_);
    else return (x);
  }
  template <class... T>
  auto of(const T&... settled) const {
    const device on = flat_arguments<T...>("trace", where_, settled...).where(how_);
    if constexpr (std::is_invocable_v<F&, T...>) {
      if (how_.dynamic != dynamic::yes)
        return graph(std::shared_ptr<const engine::tracer>(trace_call(f_, {on, where_}, settled...).graph));
      options interpreted = how_;  // nothing is compiled
      interpreted.backend = engine::interpreter;
      const auto f = compile(f_, interpreted, where_);
      f.precompile(settled...);  // its specialisation has the open sizes
      return f.template inspect<true>(
          [](const auto& traced, const auto&...) { return graph(std::shared_ptr<const engine::tracer>(traced)); },
          settled...);
    }
  }

  mutable F f_;
  options how_;
  location where_;
};

}  // namespace detail

/// The graph of fn for arguments like these: `trace(f)(x)` reads x's dtype and extents, not its elements. A spec stands for a
/// tensor: `trace(f)(spec<tensor<float, 2>>{{64, 100}})`. Nothing is computed. Extents are numbers; with
/// `{.dynamic = dynamic::yes}` they are open sizes. user_error for a function that reads values.
// clang-format off
template <class F>
auto trace(F&& fn, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  using function = std::decay_t<F>;
  static_assert(std::is_class_v<function> || std::is_pointer_v<function> || std::is_member_pointer_v<function>,
                "sinter: [trace] takes a function: trace([](tensor<float, 1> x) { return x * 2; })");
  return detail::tracing_of<function>(std::forward<F>(fn), {}, where);
}
/// The same with options: `dynamic` and `device` count.
template <class F>
auto trace(F&& fn, const options& how, location where = location::current()) {
  return detail::tracing_of<std::decay_t<F>>(std::forward<F>(fn), how, where);
}

}  // namespace sinter
