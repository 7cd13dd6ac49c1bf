// tests/plan/loops/programs.hpp: kernels of the forms that recipes take.
#pragma once

#include "kernels.hpp"

namespace kernels {

/// A product with a bias and an activation behind it, and a factor that is computed.
inline program with_neighbours(std::int64_t m, std::int64_t n, std::int64_t k, dtype narrow) {
  program p;
  const int b = p.axis(2), i = p.axis(m), j = p.axis(n), l = p.axis(k);
  const int x = p.input(narrow, {b, i, l}, 1), gate = p.input(narrow, {b, i, l}), y = p.input(narrow, {b, l, j}, 2);
  const int wide = p.apply(op::mul, dtype::f32, {converted(p.k, x, dtype::f32), converted(p.k, gate, dtype::f32)});
  const int left = narrow == dtype::f32 ? wide : converted(p.k, converted(p.k, wide, narrow), dtype::f32);
  const int s =
      p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {left, converted(p.k, y, dtype::f32)})}, {l});
  const int biased = p.apply(op::add, dtype::f32, {s, p.input(dtype::f32, {j})});
  p.output(p.apply(op::maximum, dtype::f32, {biased, p.number(dtype::f32, 0)}), {b, i, j}, dtype::f32);
  p.output(s, {b, i, j}, dtype::f32);
  return p;
}

inline program softmax(std::int64_t rows, std::int64_t columns) {
  program p;
  const int r = p.axis(rows), c = p.axis(columns);
  const int x = p.input(dtype::f32, {r, c}, 1);
  const int most = p.reduce(op::maximum, dtype::f32, {x}, {c});
  const int gap = p.apply(op::sub, dtype::f32, {x, most}), e = p.apply(op::exp, dtype::f32, {gap});
  const int sum = p.reduce(op::add, dtype::f32, {e}, {c});
  p.output(p.apply(op::div, dtype::f32, {e, sum}), {r, c}, dtype::f32);
  return p;
}

inline program attention_of(std::int64_t rows, std::int64_t keys, std::int64_t features, std::int64_t values,
                            dtype narrow, bool causal, std::int64_t batch = 2) {
  program p;
  const int b = p.axis(batch), i = p.axis(rows), j = p.axis(keys), h = p.axis(features), e = p.axis(values);
  const auto in = [&](std::vector<int> axes) {
    const int x = p.input(narrow, std::move(axes));
    return narrow == dtype::f32 ? x : converted(p.k, x, dtype::f32);
  };
  const int q = in({b, i, h}), k = in({b, j, h}), v = in({b, j, e});
  int s = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {q, k})}, {h});
  s = p.apply(op::mul, dtype::f32, {s, p.number(dtype::f32, 0.125)});
  if (causal) {
    range r{p.map({{i, 1}, {j, -1}}, keys - rows), 1 << 20};
    s = p.apply(op::select, dtype::f32, {inside(p.k, op::pad, {r}), s, p.number(dtype::f32, -INFINITY)});
  }
  const int all = p.reduce(op::maximum, dtype::f32, {s, p.number(dtype::f32, 1), v}, {j}, merge_rule::weighted);
  const std::uint32_t row = 1u << b | 1u << i;
  const int sum = p.part(all, 1, dtype::f32, row), out = p.part(all, 2, dtype::f32, row | 1u << e);
  p.output(p.apply(op::div, dtype::f32, {out, sum}), {b, i, e}, dtype::f32);
  p.output(p.apply(op::add, dtype::f32, {p.part(all, 0, dtype::f32, row), p.apply(op::log, dtype::f32, {sum})}), {b, i},
           dtype::f32);
  return p;
}

/// The gradients of attention's keys and values, or of its queries: weights and their cotangents of blocks, and sums over the rows, or the
/// columns. `groups` of rows share their keys. With `rounded` the terms' left factors are rounded, as a matrix intrinsic rounds them.
inline program attention_back_of(std::int64_t groups, std::int64_t rows, std::int64_t keys, std::int64_t features,
                                 std::int64_t values, dtype narrow, bool causal, bool by_keys, bool rounded = false,
                                 std::int64_t batch = 2) {
  program p;
  const int b = p.axis(batch), g = p.axis(groups), i = p.axis(rows), j = p.axis(keys), h = p.axis(features),
            e = p.axis(values), h2 = p.axis(features), e2 = p.axis(values);
  const auto in = [&](std::vector<int> axes, dtype t) {
    const int x = p.input(t, std::move(axes));
    return t == dtype::f32 ? x : converted(p.k, x, dtype::f32);
  };
  const auto mul = [&](int x, int y) { return p.apply(op::mul, dtype::f32, {x, y}); };
  const int q = in({b, g, i, h}, narrow), k = in({b, j, h}, narrow), v = in({b, j, e}, narrow),
            dy = in({b, g, i, e}, narrow), shift = in({b, g, i}, dtype::f32), inner = in({b, g, i}, dtype::f32);
  const int s = p.reduce(op::add, dtype::f32, {by_keys ? mul(k, q) : mul(q, k)}, {h});
  const int to_weight = p.reduce(op::add, dtype::f32, {by_keys ? mul(v, dy) : mul(dy, v)}, {e});
  const int gap = p.apply(op::sub, dtype::f32, {s, shift});
  int weight = p.apply(op::exp, dtype::f32, {mul(gap, p.number(dtype::f32, 0.01))});
  int change = mul(weight, p.apply(op::sub, dtype::f32, {to_weight, inner}));
  if (causal) {
    const int seen = inside(p.k, op::pad, {range{p.map({{i, 1}, {j, -1}}, keys - rows), 1 << 20}});
    weight = p.apply(op::select, dtype::f32, {seen, weight, p.number(dtype::f32, 0)});
    change = p.apply(op::select, dtype::f32, {seen, change, p.number(dtype::f32, 0)});
  }
  // The elements of a load along another axis.
  const auto again = [&](int x, int from, int to) {
    const auto was = p.k.body[static_cast<std::size_t>(unwidened(p.k, x))].at;
    affine at = was.at;
    std::swap(at.stride[static_cast<std::size_t>(from)], at.stride[static_cast<std::size_t>(to)]);
    const int y = p.load(was.buffer, at);
    return narrow == dtype::f32 ? y : converted(p.k, y, dtype::f32);
  };
  const auto total = [&](int x, int y, const series<int>& over) {
    if (rounded) x = converted(p.k, converted(p.k, x, narrow), dtype::f32);
    return p.reduce(op::add, dtype::f32, {mul(x, y)}, over);
  };
  if (by_keys) {
    p.output(total(weight, again(dy, e, e2), {g, i}), {b, j, e2}, narrow);
    p.output(total(change, again(q, h, h2), {g, i}), {b, j, h2}, narrow);
  } else {
    p.output(total(change, again(k, h, h2), {j}), {b, g, i, h2}, narrow);
  }
  return p;
}

}  // namespace kernels
