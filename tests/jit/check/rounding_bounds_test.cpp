// What verify allows for: the exact value is never taken for a mistake, and a mistake is found.
#include <sinter/engine/engine.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/jit/check/rounding_bounds.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace sinter;
using namespace sinter::engine::detail;
using ir::op;

namespace {

struct function {
  op code;
  double low, high;  ///< operands, and what values the function before gives are brought to
};
const function functions[] = {{op::tanh, -3, 3},    {op::exp, -4, 4},       {op::log, 0.1, 9},   {op::log1p, -0.9, 4},
                              {op::expm1, -2, 2},   {op::sin, -6, 6},       {op::cos, -6, 6},    {op::asin, -0.9, 0.9},
                              {op::atan, -9, 9},    {op::sinh, -4, 4},      {op::cosh, -4, 4},   {op::asinh, -9, 9},
                              {op::acosh, 1.2, 9},  {op::atanh, -0.9, 0.9}, {op::erf, -3, 3},    {op::erfc, -3, 3},
                              {op::sigmoid, -6, 6}, {op::sqrt, 0.1, 9},     {op::rsqrt, 0.1, 9}, {op::cbrt, 0.1, 9}};

/// after(scale·before(x) + shift) in a dtype.
ir::graph chain(dtype type, std::int64_t n, const function& before, const function& after, double scale, double shift) {
  ir::graph g;
  const ir::node_id x = g.add_input(type, {n}, {});
  const auto number = [&](double v) { return g.constant(type, v, {n}, {}); };
  const ir::node_id y = g.push(before.code, {x}, {}, {});
  const ir::node_id z = g.push(op::add, {g.push(op::mul, {y, number(scale)}, {}, {}), number(shift)}, {}, {});
  g.outputs = {g.push(after.code, {z}, {}, {})};
  return g;
}

/// Numbers that the dtype holds.
ir::literal_array drawn(dtype type, std::int64_t n, const function& f, unsigned seed) {
  std::mt19937 random(seed);
  ir::literal_array x{type, {n}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) x.f.push_back(std::uniform_real_distribution(f.low, f.high)(random));
  ir::detail::round_elements(x);
  return x;
}

double rounded_to(dtype type, double x) {
  ir::literal_array one{type, {}, {x}, {}};
  ir::detail::round_elements(one);
  return one.f[0];
}

}  // namespace

TEST_CASE("the exact value rounded once is never taken for a mistake") {
  constexpr std::int64_t n = 500;
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::f8_e4m3, dtype::f8_e5m2})
    for (const function& before : functions)
      for (const function& after : functions) {
        const auto x = drawn(type, n, before, 7);
        // Into the middle of what the second function takes.
        const double scale = is_narrow(type) ? 0.25 : 0.0625, shift = rounded_to(type, (after.low + after.high) / 2);
        ir::graph g = chain(type, n, before, after, scale, shift);
        arrays known, wide;
        known.emplace(g.inputs[0], x);
        ir::graph exact = chain(dtype::f64, n, before, after, scale, shift);
        ir::literal_array of = x;
        of.type = dtype::f64;
        wide.emplace(exact.inputs[0], of);
        rounding_bounds evaluated(exact, wide, {}, 0);
        ir::literal_array got = evaluated(exact.outputs[0]);
        got.type = type;
        ir::detail::round_elements(got);
        tolerance_check reference(g, known, {});
        const difference d = reference.compare(g.outputs[0], got);
        CAPTURE(std::string(ir::name(before.code)));
        CAPTURE(std::string(ir::name(after.code)));
        CAPTURE(std::string(dtype_name(type)));
        CAPTURE(d.got);
        CAPTURE(d.want);
        CHECK(!d.found);
      }
}

TEST_CASE("a mistake of 128 units in the last place is found") {
  constexpr std::int64_t n = 500;
  for (const function& before : functions) {
    const function after{op::tanh, -3, 3};
    const auto x = drawn(dtype::f32, n, before, 11);
    ir::graph g = chain(dtype::f32, n, before, after, 0.0625, 0.5);
    arrays known;
    known.emplace(g.inputs[0], x);
    tolerance_check reference(g, known, {});
    ir::literal_array got = reference.value(g.outputs[0]);
    for (double& v : got.f) v += std::ldexp(v, -17);
    const difference d = reference.compare(g.outputs[0], got);
    CAPTURE(std::string(ir::name(before.code)));
    CHECK(d.found);
  }
}

TEST_CASE("results that may underflow are zero or not, which flags of them may tell") {
  ir::graph g;
  const ir::node_id x = g.add_input(dtype::f32, {3}, {});
  const ir::node_id y = g.push(op::sigmoid, {x}, {}, {});
  ir::attributes to;
  to.type = dtype::b8;
  g.outputs = {y, g.push(op::cast, {y}, to, {})};
  arrays known;
  known.emplace(x, ir::literal_array{dtype::f32, {3}, {-90, 1, -20}, {}});
  tolerance_check reference(g, known, {});
  const auto flags = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    return reference.compare(g.outputs[1], ir::literal_array{dtype::b8, {3}, {}, {a, b, c}});
  };
  CHECK(!flags(0, 1, 1).found);
  CHECK(!flags(1, 1, 1).found);
  CHECK(flags(1, 0, 1).found);
  CHECK(flags(1, 1, 0).found);
}
