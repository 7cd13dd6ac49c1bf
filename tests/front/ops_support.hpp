// tests/front/ops_support.hpp: plain arrays in f64 beside tensors, and running a function eagerly and traced.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <sinter/engine/engine.hpp>
#include <sinter/front/evaluate/handle.hpp>

#include "../texts.hpp"

namespace ops {

using texts::contains;
using texts::error_of;

using sinter::dims;
using sinter::dyn;
using sinter::location;
using sinter::tensor;
using coord = std::vector<std::int64_t>;

/// Row-major elements in f64.
struct array {
  coord extents;
  std::vector<double> at;
};

inline std::int64_t count(const coord& extents) {
  std::int64_t n = 1;
  for (auto e : extents) n *= e;
  return n;
}

/// f(coordinates) for every element of the extents, in row-major order.
template <class F>
array make(const coord& extents, F&& f) {
  array a{extents, {}};
  coord c(extents.size(), 0);
  for (std::int64_t i = 0, n = count(extents); i < n; ++i) {
    std::int64_t rest = i;
    for (std::size_t k = extents.size(); k-- > 0; rest /= extents[k]) c[k] = rest % extents[k];
    a.at.push_back(f(c));
  }
  return a;
}

inline double get(const array& a, const coord& c) {
  std::int64_t i = 0;
  for (std::size_t k = 0; k < c.size(); ++k) i = i * a.extents[k] + c[k];
  return a.at[static_cast<std::size_t>(i)];
}

template <sinter::tensor_like X>
array values(const X& x) {
  const auto t = sinter::detail::stage(x, location{});
  array a{{t.shape().begin(), t.shape().end()}, {}};
  for (const auto v : t.to_vector()) a.at.push_back(static_cast<double>(v));
  return a;
}

/// A tensor of a type and a rank with small values, positive and negative, that every dtype holds exactly.
template <class T, int R>
tensor<T, R> sample(const sinter::index_array<R>& extents, int seed = 1) {
  auto t = sinter::detail::empty<T, dims(R)>("sample", extents, {});
  T* p = t.data();
  unsigned state = static_cast<unsigned>(seed) * 2654435761u + 12345u;
  for (std::int64_t i = 0, n = t.numel(); i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    const int v = static_cast<int>(state >> 24) % 9 - 4;
    if constexpr (std::is_same_v<T, bool>) p[i] = v > 0;
    else if constexpr (std::is_unsigned_v<T>) p[i] = static_cast<T>(v + 4);
    else if constexpr (std::is_integral_v<T>) p[i] = static_cast<T>(v);
    else p[i] = static_cast<T>(static_cast<float>(v) * 0.5f + 0.25f);
  }
  return t;
}

inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (1 + std::abs(a) + std::abs(b));
}

inline std::string text(const coord& c) {
  std::string s = "(";
  for (auto e : c) s += std::to_string(e) + ",";
  return s + ")";
}

inline void check_equal(const array& got, const array& want, double tolerance = 0) {
  INFO("extents ", text(got.extents), " against ", text(want.extents));
  REQUIRE(got.extents == want.extents);
  REQUIRE(got.at.size() == want.at.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.at.size(); ++i) {
    if (close(got.at[i], want.at[i], tolerance)) continue;
    if (wrong++ == 0) FAIL_CHECK("element ", i, " is ", got.at[i], ", expected ", want.at[i]);
  }
  CHECK(wrong == 0);
}

template <class T>
double tolerance_of() {
  switch (sinter::dtype_of<T>) {
    case sinter::dtype::f64:
      return 1e-13;
    case sinter::dtype::f32:
      return 2e-6;
    case sinter::dtype::f16:
      return 4e-3;
    case sinter::dtype::bf16:
      return 3e-2;
    default:
      return 0;
  }
}

inline sinter::ir::literal_array literals(sinter::dtype type, coord extents, const std::vector<double>& floats,
                                          const std::vector<std::int64_t>& integers) {
  return {type, std::move(extents), floats, integers};
}

/// The elements as the interpreter takes them.
template <class T, dims S>
sinter::ir::literal_array literals(const tensor<T, S>& x) {
  sinter::ir::literal_array a{sinter::dtype_of<T>, {x.shape().begin(), x.shape().end()}, {}, {}};
  for (const auto v : x.to_vector()) {
    if (sinter::is_float(a.type)) a.f.push_back(static_cast<double>(v));
    else a.i.push_back(static_cast<std::int64_t>(v));
  }
  return a;
}

/// f's result as the interpreter computes it from the graph that f pushes for inputs like the tensors.
template <class F, class... T, dims... S>
array traced(F&& f, const tensor<T, S>&... x) {
  const auto t = std::make_shared<sinter::engine::tracer>();
  sinter::dtype type{};
  {
    sinter::engine::tracing_scope scope(t);
    const auto input = [&](const auto& concrete) {
      using X = std::remove_cvref_t<decltype(concrete)>;
      const auto node =
          t->graph.add_input(sinter::dtype_of<typename X::value_type>, sinter::detail::to_shape(concrete.shape()));
      return sinter::detail::access::traced<typename X::value_type, X::static_shape>(t, node, concrete.shape());
    };
    const std::tuple inputs{input(x)...};  // braces: in argument order
    const auto y = sinter::detail::evaluate(std::apply(f, inputs), location{});
    type = sinter::dtype_of<typename std::remove_cvref_t<decltype(y)>::value_type>;
    t->graph.outputs = {sinter::detail::access::node(y)};
  }
  REQUIRE(t->captures.empty());
  sinter::ir::check(t->graph, "trace");
  const auto inputs = std::vector<sinter::ir::literal_array>{literals(x)...};
  auto out = sinter::ir::evaluate(t->graph, inputs).at(0);
  CHECK(out.type == type);
  array a{out.extents, out.f};
  if (!sinter::is_float(type))
    for (auto v : out.i)
      a.at.push_back(type == sinter::dtype::u64 ? static_cast<double>(static_cast<std::uint64_t>(v))
                                                : static_cast<double>(v));
  return a;
}

/// Runs f eagerly and traced, and checks both against `want`.
template <class F, class... T, dims... S>
void check_both(const array& want, double tolerance, F&& f, const tensor<T, S>&... x) {
  {
    INFO("eager");
    check_equal(values(f(x...)), want, tolerance);
  }
  {
    INFO("traced");
    check_equal(traced(f, x...), want, tolerance);
  }
}

}  // namespace ops
