// tests/plan/loops/random_programs.hpp: kernels and schedules drawn from a seed. Schedules need not be legal.
#pragma once

#include "kernels.hpp"

namespace kernels {

class drawn {
 public:
  explicit drawn(std::uint64_t seed) : random_(seed) {}
  int upto(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }  ///< below n
  bool one_in(int n) { return upto(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + upto(static_cast<int>(all.size())));
  }
  template <class C>
  auto any(const C& all) {
    return all[static_cast<std::size_t>(upto(static_cast<int>(all.size())))];
  }
  template <class C>
  void shuffle(C& all) {
    std::shuffle(all.begin(), all.end(), random_);
  }

 private:
  std::mt19937_64 random_;
};

/// A number of 0 to 9, mostly small and odd; sometimes the size of a symbol.
inline dim drawn_extent(program& p, drawn& d) {
  const int n = d.one_in(24) ? 0 : d.of({1, 2, 3, 3, 4, 5, 6, 7, 8, 9});
  if (n < 2 || !d.one_in(4)) return n;
  p.sizes.push_back(n);
  return dim::symbol(static_cast<int>(p.sizes.size()) - 1);
}

/// Something pointwise of a value, exact on integers.
inline int decorated(program& p, drawn& d, int v, dtype type, const std::vector<int>& axes) {
  switch (d.upto(5)) {
    case 0:
      return p.apply(op::add, type, {v, p.input(type, axes, d.upto(3))});
    case 1:
      return p.apply(op::maximum, type, {v, p.number(type, 0)});
    case 2:
      return p.apply(op::mul, type, {v, p.number(type, 2)});
    case 3: {
      // Only where the first coordinate is not above the second, plus something.
      if (axes.size() < 2) return v;
      range r{p.map({{axes[1], 1}, {axes[0], -1}}, d.upto(3)), 1 << 20};
      const int in = inside(p.k, op::pad, {r});
      return p.apply(op::select, type, {in, v, p.number(type, 0)});
    }
    default:
      return v;
  }
}

/// sum over k of x(b, m, k) · y(b, k, n), with what comes before and behind.
inline program drawn_product(drawn& d) {
  program p;
  const dtype type = d.of({dtype::f32, dtype::f32, dtype::i32, dtype::f64});
  std::vector<int> b;
  if (d.one_in(3)) b.push_back(p.axis(drawn_extent(p, d)));
  const int m = p.axis(drawn_extent(p, d)), n = p.axis(drawn_extent(p, d)), k = p.axis(drawn_extent(p, d));
  std::vector<int> ax = b, ay = b, ao = b;
  ax.insert(ax.end(), {m, k}), ay.insert(ay.end(), {k, n}), ao.insert(ao.end(), {m, n});
  if (d.one_in(3)) std::swap(ay[ay.size() - 1], ay[ay.size() - 2]);
  int x = decorated(p, d, p.input(type, ax, d.upto(3)), type, {m, k});
  const int y = decorated(p, d, p.input(type, ay, d.upto(3)), type, {k, n});
  const int s = p.reduce(op::add, type, {p.apply(op::mul, type, {x, y})}, {k});
  p.output(decorated(p, d, s, type, {m, n}), ao, type);
  if (d.one_in(4)) p.output(p.apply(op::mul, type, {s, p.number(type, 3)}), ao, type);
  return p;
}

/// Rows: a reduction, and values that read it; sometimes a second one.
inline program drawn_rows(drawn& d) {
  program p;
  const int r = p.axis(drawn_extent(p, d)), c = p.axis(drawn_extent(p, d));
  const bool down = d.one_in(3);
  const int over = down ? r : c;
  const int x = decorated(p, d, p.input(dtype::f32, {r, c}, d.upto(3)), dtype::f32, {r, c});
  const op code = d.of({op::add, op::maximum, op::minimum});
  const int s = p.reduce(code, dtype::f32, {x}, {over});
  const int centred = p.apply(op::add, dtype::f32, {x, s});
  if (d.one_in(2)) {
    const int q = p.reduce(op::add, dtype::f32, {centred}, {over});
    p.output(p.apply(op::add, dtype::f32, {centred, q}), {r, c}, dtype::f32);
    if (d.one_in(2)) p.output(q, {down ? c : r}, dtype::f32);
  } else {
    if (d.one_in(2)) p.output(centred, {r, c}, dtype::f32);
    p.output(s, {down ? c : r}, dtype::f32);
  }
  return p;
}

/// One reduction of everything, or of two axes.
inline program drawn_total(drawn& d) {
  program p;
  const int a = p.axis(drawn_extent(p, d)), b = p.axis(drawn_extent(p, d)), c = p.axis(drawn_extent(p, d));
  const int x = decorated(p, d, p.input(dtype::f32, {a, b, c}, d.upto(2)), dtype::f32, {b, c});
  const bool all = d.one_in(2);
  const int s = p.reduce(d.of({op::add, op::maximum}), dtype::f32, {x}, all ? series<int>{a, b, c} : series<int>{a, c});
  p.output(s, all ? std::vector<int>{} : std::vector<int>{b}, dtype::f32);
  return p;
}

/// A window: out(y, o) = sum over t, c of x(y · step + t · dilation - pad, c) · w(t, c, o), guarded.
inline program drawn_window(drawn& d) {
  program p;
  const int length = 3 + d.upto(6), taps = 1 + d.upto(3), step = 1 + d.upto(2), dilation = 1 + d.upto(2),
            pad = d.upto(3);
  const int reach = (taps - 1) * dilation + 1, places = std::max(0, (length + 2 * pad - reach) / step + 1);
  const int y = p.axis(places), o = p.axis(drawn_extent(p, d)), t = p.axis(taps), c = p.axis(1 + d.upto(4));
  const std::int64_t channels = p.extent(c);
  range r{p.map({{y, step}, {t, dilation}}, -pad), length};
  const int guard = inside(p.k, op::pad, {r});
  const int b = p.buffer(dtype::f32, length * channels);
  const int x = p.load(b, p.map({{y, step * channels}, {t, dilation * channels}, {c, 1}}, -pad * channels), guard);
  const int w = p.input(dtype::f32, {t, c, o});
  const int s = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {x, w})}, {t, c});
  p.output(decorated(p, d, s, dtype::f32, {y, o}), {y, o}, dtype::f32);
  return p;
}

/// Two contractions with a score between: out(i, e) = sum over j of f(sum over d of q(i, d) · k(j, d)) · v(j, e). With `weighted`,
/// attention: the quotient is left away.
inline program drawn_attention(drawn& d, bool weighted, dtype narrow) {
  program p;
  const int i = p.axis(drawn_extent(p, d)), j = p.axis(drawn_extent(p, d)), e = p.axis(1 + d.upto(5)),
            h = p.axis(1 + d.upto(4));
  const auto input = [&](std::vector<int> axes, std::int64_t gap) {
    const int x = p.input(narrow, std::move(axes), gap);
    return narrow == dtype::f32 ? x : converted(p.k, x, dtype::f32);
  };
  const int q = input({i, h}, d.upto(2)), k = input({j, h}, 0), v = input({j, e}, 0);
  const int s = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {q, k})}, {h});
  if (!weighted) {
    const int f = decorated(p, d, p.apply(op::maximum, dtype::f32, {s, p.number(dtype::f32, 0)}), dtype::f32, {i, j});
    const int out = p.reduce(op::add, dtype::f32, {p.apply(op::mul, dtype::f32, {f, v})}, {j});
    p.output(out, {i, e}, dtype::f32);
    return p;
  }
  int score = s;
  if (d.one_in(2)) {
    range r{p.map({{i, 1}, {j, -1}}, d.upto(3) - 1), 1 << 20};
    score = p.apply(op::select, dtype::f32, {inside(p.k, op::pad, {r}), s, p.number(dtype::f32, -INFINITY)});
  }
  const int one = p.number(dtype::f32, 1);
  const int all = p.reduce(op::maximum, dtype::f32, {score, one, v}, {j}, merge_rule::weighted);
  const std::uint32_t rows = 1u << i, both = rows | 1u << e;
  p.output(p.part(all, 0, dtype::f32, rows), {i}, dtype::f32);
  if (d.one_in(2)) p.output(p.part(all, 1, dtype::f32, rows), {i}, dtype::f32);
  p.output(p.part(all, 2, dtype::f32, both), {i, e}, dtype::f32);
  return p;
}

/// The first extreme of each row, or its moments.
inline program drawn_tuple(drawn& d) {
  program p;
  const int r = p.axis(drawn_extent(p, d)), c = p.axis(1 + d.upto(8));
  const int x = p.input(dtype::f32, {r, c}, d.upto(3));
  const std::uint32_t rows = 1u << r;
  if (d.one_in(2)) {
    const int at = position(p.k, p.map({{c, 1}}));
    const int f = p.reduce(d.of({op::maximum, op::minimum}), dtype::f32, {x, at}, {c}, merge_rule::first);
    p.output(p.part(f, 1, dtype::i64, rows), {r}, dtype::i64);
    if (d.one_in(2)) p.output(p.part(f, 0, dtype::f32, rows), {r}, dtype::f32);
    return p;
  }
  const int f = p.reduce(op::add, dtype::f64, {converted(p.k, x, dtype::f64)}, {c}, merge_rule::moments);
  for (int n = 0; n < 3; ++n) p.output(p.part(f, n, dtype::f64, rows), {r}, dtype::f64);
  return p;
}

struct drawn_case {
  program p;
  double bound = 0;  ///< 0: exact
};
inline drawn_case drawn_program(drawn& d) {
  switch (d.upto(8)) {
    case 0:
    case 1:
    case 2:
      return {drawn_product(d), 0};
    case 3:
      return {drawn_rows(d), 0};
    case 4:
      return d.one_in(2) ? drawn_case{drawn_total(d), 0} : drawn_case{drawn_tuple(d), 1e-9};
    case 5:
      return {drawn_window(d), 0};
    case 6:
      return {drawn_attention(d, false, dtype::f32), 0};
    default:
      return {drawn_attention(d, true, dtype::f32), 1e-5};
  }
}

/// Splits, an order, bindings, tiles: mostly legal.
class drawn_schedule {
 public:
  drawn_schedule(const program& p, drawn& d) : k_(p.k), d_(d) {}

  schedules::schedule run() {
    s_.recipe = "drawn";
    for (std::size_t a = 0; a < k_.axes.size(); ++a) pieces_.push_back({static_cast<int>(a), 0});
    split();
    if (d_.one_in(4)) order_by_number();
    else reorder();
    bind();
    stage();
    return std::move(s_);
  }

 private:
  struct drawn_piece {
    int axis;
    std::int64_t extent;  ///< 0: not a number that a split made
  };

  bool is_summed(int axis) const {
    for (const auto& i : k_.body)
      if (i.kind == kind::reduce && (loops::axes_over(i) >> axis & 1u)) return true;
    return false;
  }
  void split() {
    const int count = static_cast<int>(k_.axes.size());
    for (int a = 0; a < count; ++a)
      for (int n = 0, times = d_.of({0, 1, 1, 2}), from = a; n < times; ++n) {
        const auto rest = d_.of({loops::tail::guard, loops::tail::guard, loops::tail::peel, loops::tail::pad});
        const std::int64_t whole = pieces_[static_cast<std::size_t>(from)].extent;
        const std::int64_t by = whole == 0                        ? d_.of({2, 2, 3, 4, 4, 6})
                                : whole % 2 == 0 && !d_.one_in(8) ? 2
                                                                  : d_.of<std::int64_t>({1, 2, 3, whole});
        s_.steps.push_back(schedules::split{from, by, rest});
        if (whole) pieces_[static_cast<std::size_t>(from)].extent = (whole + by - 1) / by;
        pieces_.push_back({a, by});
        if (d_.one_in(2)) from = static_cast<int>(pieces_.size()) - 1;
      }
    order_.clear();
    series<int> chain;
    for (int a = 0; a < count; ++a) chain.push_back(a);
    order_ = chain;
    // Each split's inner piece stands right behind the outer one.
    std::size_t made = k_.axes.size();
    for (const auto& step : s_.steps) {
      const auto& one = std::get<schedules::split>(step);
      order_.insert(std::find(order_.begin(), order_.end(), one.piece) + 1, static_cast<int>(made++));
    }
  }
  void order_by_number() {}
  /// Moves pieces while those of one axis keep their order.
  void reorder() {
    std::vector<std::vector<int>> of_axis(k_.axes.size());
    for (int p : order_) of_axis[static_cast<std::size_t>(pieces_[static_cast<std::size_t>(p)].axis)].push_back(p);
    std::vector<int> axes;
    for (int p : order_) axes.push_back(pieces_[static_cast<std::size_t>(p)].axis);
    d_.shuffle(axes);
    std::vector<std::size_t> next(k_.axes.size(), 0);
    series<int> order;
    for (int a : axes) order.push_back(of_axis[static_cast<std::size_t>(a)][next[static_cast<std::size_t>(a)]++]);
    order_ = order;
    s_.steps.push_back(schedules::reorder{order_});
  }
  void bind() {
    const bool blocks = d_.one_in(2), threads = d_.one_in(2);
    bool grid = blocks;
    for (int p : order_) {
      const int a = pieces_[static_cast<std::size_t>(p)].axis;
      if (grid && is_summed(a) && d_.one_in(3) && share(p, a, schedules::share::way::launch)) {
        s_.steps.push_back(schedules::bind_to{p, loops::bind::grid});
        continue;
      }
      if (grid && !is_summed(a) && !d_.one_in(4)) {
        s_.steps.push_back(schedules::bind_to{p, loops::bind::grid});
        continue;
      }
      grid = false;
      if (threads && d_.one_in(3)) {
        if (is_summed(a)) share(p, a, schedules::share::way::block);
        s_.steps.push_back(schedules::bind_to{p, loops::bind::threads});
      } else if (d_.one_in(5)) {
        s_.steps.push_back(schedules::bind_to{p, d_.of({loops::bind::lanes, loops::bind::unrolled})});
      }
    }
  }
  bool share(int p, int axis, schedules::share::way how) {
    bool any = false;
    for (std::size_t v = 0; v < k_.body.size(); ++v)
      if (k_.body[v].kind == kind::reduce && (loops::axes_over(k_.body[v]) >> axis & 1u)) {
        s_.steps.push_back(schedules::share{static_cast<int>(v), p, how});
        any = true;
      }
    return any;
  }
  void stage() {
    for (std::size_t v = 0; v < k_.body.size(); ++v) {
      const auto& i = k_.body[v];
      if (i.kind == kind::reduce && d_.one_in(20))
        s_.steps.push_back(schedules::keep{static_cast<int>(v), d_.any(order_)});
      const bool tuple = i.kind == kind::reduce && i.rule != merge_rule::one && !d_.one_in(10);
      const bool may =
          !tuple &&
          (i.kind == kind::load || i.kind == kind::compute || i.kind == kind::part || i.kind == kind::reduce) &&
          i.axes != 0;
      if (!may || !d_.one_in(3)) continue;
      schedules::stage one{
          static_cast<int>(v), place(i.axes),
          d_.of({loops::space::stack, loops::space::registers, loops::space::shared, loops::space::shared})};
      if (one.in == loops::space::shared) {
        one.slots = one.at < 0 ? 1 : d_.of({1, 1, 2, 3});
        one.by = d_.of({loops::mover::threads, loops::mover::async, loops::mover::tma});
        if (i.kind != kind::load) one.by = loops::mover::threads;
      }
      s_.steps.push_back(one);
      if (d_.one_in(3) && one.at >= 0) s_.steps.push_back(schedules::skew{static_cast<int>(v), one.at});
    }
  }

  /// Mostly a piece of an axis along which the value varies.
  int place(std::uint32_t axes) {
    if (d_.one_in(8)) return -1;
    for (int tries = 0; tries < 6; ++tries)
      if (const int p = d_.any(order_); (axes >> pieces_[static_cast<std::size_t>(p)].axis & 1u)) return p;
    return d_.any(order_);
  }

  const kernel& k_;
  drawn& d_;
  schedules::schedule s_;
  std::vector<drawn_piece> pieces_;
  series<int> order_;
};

}  // namespace kernels
