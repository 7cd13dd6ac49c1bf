// tests/front/transforms/lane_loops.hpp: vmap against a loop over lanes: eagerly, compiled and interpreted.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

namespace lane_loops {

using namespace sinter;
using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using cube = tensor<double, 3>;
using ids = tensor<std::int64_t, 1>;
using count = tensor<std::int64_t, 0>;

/// Numbers of which no two are equal.
template <class... I>
auto numbers(int seed, I... extents) {
  return normal<double>(make_key(seed), extents...);
}

/// What lane i has of an argument.
template <int Axis, class X>
auto lane(const X& x, std::int64_t i) {
  if constexpr (tensor_like<X>) {
    constexpr dims shape = detail::without_axis(X::static_shape, detail::place_of_axis(Axis, X::rank));
    return tensor<typename X::value_type, shape>(squeeze(slice(x, axis<Axis>, i, i + 1), axis<Axis>));
  } else {
    return detail::lane_at(x, i, {});
  }
}
template <auto Axis, class X>
auto lane_of(const X& x, std::int64_t i) {
  if constexpr (std::is_same_v<std::remove_const_t<decltype(Axis)>, none_t>) return x;
  else return lane<Axis>(x, i);
}

template <auto Axis, class X>
void count_lanes(const X& x, std::int64_t& n) {
  if constexpr (!std::is_same_v<std::remove_const_t<decltype(Axis)>, none_t>) {
    if constexpr (tensor_like<X>) n = x.size(Axis < 0 ? Axis + X::rank : Axis);
    else n = detail::length_of("test", "x", x, {});
  }
}

template <class A, class B>
void check_same(const A& got, const B& want, double epsilon = 1e-9) {
  detail::map_tree(
      "test", {},
      [&](const auto& a, const auto& b) {
        REQUIRE(a.shape() == b.shape());
        check_close(a.to_vector(), b.to_vector(), epsilon);
        return a;
      },
      got, want);
}

/// f of each lane, one after the other.
template <auto... In, class F, class... Args>
auto looped(in_axes_t<In...>, const F& f, const Args&... args) {
  std::int64_t n = 0;
  (count_lanes<In>(args, n), ...);
  using one = decltype(detail::settle_tree(f(lane_of<In>(args, 0)...)));
  std::vector<one> each;
  for (std::int64_t i = 0; i < n; ++i) each.push_back(detail::settle_tree(f(lane_of<In>(args, i)...)));
  return stack_tree(each);
}

/// vmap(f, in) is the loop: alone, compiled, and by the interpreter.
template <auto... In, class F, class... Args>
void check_lanes(const char* name, in_axes_t<In...> in, const F& f, const Args&... args) {
  CAPTURE(name);
  const auto want = looped(in, f, args...);
  const auto all = [&](const Args&... x) { return vmap(f, in)(x...); };
  check_same(all(args...), want);
  for (const char* backend : {"cpu", "reference"}) {
    CAPTURE(backend);
    const auto g = compile(all, {.backend = backend});
    check_same(g(args...), want);
    CHECK(g.report().backend == backend);
  }
}

}  // namespace lane_loops
