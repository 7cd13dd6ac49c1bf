// tests/fuzz/random_graph.hpp: random graphs over every op.
#pragma once

#include <sinter/ir/attention_site.hpp>

#include "growing_graph.hpp"

namespace fuzz {

class random_graph : public growing_graph {
 public:
  random_graph(std::uint64_t seed, recipe how) : growing_graph(seed, std::move(how)) {
    for (int i = 0; i < 2; ++i) keep(input(any_type(), any_shape(4)));
    grow(how_.steps);
    derive(how_.derivatives);
    choose_outputs();
  }

 protected:
  struct unfinished {};
  random_graph(std::uint64_t seed, recipe how, unfinished) : growing_graph(seed, std::move(how)) {}

  /// f, unless shapes do not fit.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const user_error&) {}
  }
  void grow(int steps) {
    for (int i = 0; i < steps; ++i) attempt([&] { step(); });
  }
  void derive(int times) {
    for (int i = 0; i < times; ++i) attempt([&] { differentiated(); });
  }

  void step() {
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
        return pointwise();
      case 3:
      case 4:
        return pointwise();
      case 5:
        return reshaped();
      case 6:
        return permuted();
      case 7:
        return sliced();
      case 8:
      case 9:
        return reduced();
      case 10:
        return normalised();
      case 11:
        return padded();
      case 12:
        return joined();
      case 13:
        return indexed();
      case 14:
        return product();
      case 15:
        return scanned();
      case 16:
        return stencil();
      case 17:
        return chance(60) ? windowed() : stencil();
      case 18:
        for (int tries = 0; tries < 6 && !anything(); ++tries) {}
        return;
      default:
        return chance(30) ? extreme() : chance(30) ? ordered() : chance(30) ? attended() : arithmetic_chain();
    }
  }

  void pointwise() {
    const op code = static_cast<op>(below(static_cast<std::uint64_t>(sinter::ir::pointwise_count)));
    const auto& r = sinter::ir::row(code);
    const node_id x = any();
    const shape s = shape_of(x);
    dtype t = type_of(x);
    attributes a;
    using rule = sinter::ir::dtype_rule;
    switch (r.rule) {
      case rule::arithmetic:
        if (sinter::is_bool(t)) t = dtype::f32;
        break;
      case rule::floating:
      case rule::test:
        if (!sinter::is_float(t)) t = one_of({dtype::f32, dtype::f64, dtype::f16});
        break;
      case rule::integer:
      case rule::bits:
        if (sinter::is_float(t)) t = one_of({dtype::i32, dtype::u8, dtype::i64, dtype::u16});
        if (sinter::is_bool(t) && r.rule == rule::integer) t = dtype::i16;
        break;
      case rule::selection: {
        const node_id m = tensor(dtype::b8, s);
        keep(push(code, {m, x, tensor(t, s)}));
        return;
      }
      case rule::conversion:
        a.type = any_type();
        break;
      case rule::same_size:
        if (!sinter::ir::has_own_bits(t)) t = one_of({dtype::f32, dtype::f64, dtype::i32, dtype::u16});
        do a.type = any_type();
        while (!sinter::ir::has_own_bits(a.type) || size_of(a.type) != size_of(t));
        break;
      case rule::random:
        t = dtype::u64;
        break;
      default:
        break;
    }
    std::vector<node_id> in{cast(x, t)};
    for (int k = 1; k < r.arity; ++k) in.push_back(tensor(t, s));
    if (in.size() == 2 && chance(30)) std::swap(in[0], in[1]);
    keep(push(code, in, a));
  }

  /// Smooth arithmetic that keeps values in range, so that comparisons stay meaningful.
  void arithmetic_chain() {
    node_id x = any();
    if (!sinter::is_float(type_of(x))) x = cast(x, dtype::f32);
    for (int i = 0; i < 3; ++i) {
      const op unary = one_of({op::tanh, op::sigmoid, op::sin, op::abs, op::neg, op::erf, op::asinh});
      const op binary = one_of({op::add, op::sub, op::mul, op::maximum});
      x = chance(50) ? push(unary, {x}) : push(binary, {x, tensor(type_of(x), shape_of(x))});
    }
    keep(x);
  }

  void reshaped() {
    const node_id x = any();
    shape s = shape_of(x);
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      const auto at = static_cast<std::ptrdiff_t>(s.empty() ? 0 : below(s.size()));
      const auto i = static_cast<std::size_t>(at);
      switch (below(5)) {
        case 0:
          s.insert(s.begin() + at, dim(1));
          break;
        case 1:
          if (!s.empty() && s[i].is(1)) s.erase(s.begin() + at);
          break;
        case 2:
        case 3:
          if (i + 1 < s.size()) {
            s[i] *= s[i + 1];
            s.erase(s.begin() + at + 1);
          }
          break;
        default:
          if (s.empty() || s[i].is(0)) break;
          for (const auto& t : how_.theme) {
            if (t.is(0)) continue;
            const auto q = s[i].divided_by(t);
            if (!q || chance(30)) continue;
            s[i] = chance(50) ? *q : t;
            s.insert(s.begin() + at + 1, s[i] == t ? *q : t);
            break;
          }
      }
    }
    if (s.size() <= 7) keep(reshape(x, s));
  }

  void permuted() {
    const node_id x = any();
    std::vector<std::int64_t> p(rank(x));
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<std::int64_t>(i);
    std::shuffle(p.begin(), p.end(), bits_);
    const node_id y = keep(permute(x, p));
    if (rank(x) > 0 && shape_of(x) == shape_of(y) && chance(60)) keep(push(op::eq, {x, y}));
  }

  void sliced() {
    const node_id x = any();
    const shape& s = shape_of(x);
    attributes a;
    shape starts;
    for (const auto& e : s) {
      if (const dim part = pick(how_.theme);
          !e.is_number() && chance(30) && part.evaluate(how_.hints) <= e.evaluate(how_.hints)) {
        // As many as another extent, which is no larger: the first of them, the last, or the first backwards.
        const auto how = below(3);
        a.ints.push_back(how == 2 ? -1 : 1);
        a.dims.push_back(part);
        starts.push_back(how == 0 ? dim(0) : how == 1 ? e - part : part - dim(1));
        continue;
      }
      if (!e.is_number() || e.is(0) || chance(30)) {
        // A symbol is at least 2: whole, reversed, or all but the ends.
        const auto how = e.is(0) || (e.is_number() && *e.number() < 2) ? 0 : below(4);
        a.ints.push_back(how == 1 ? -1 : 1);
        a.dims.push_back(how >= 2 ? e - dim(1) : e);
        starts.push_back(how == 1 ? e - dim(1) : how == 2 ? dim(1) : dim(0));
        continue;
      }
      const auto n = *e.number();
      const auto stride = static_cast<std::int64_t>(1 + below(3));
      const auto count =
          static_cast<std::int64_t>(below(static_cast<std::uint64_t>((n + stride - 1) / stride))) + (chance(5) ? 0 : 1);
      const auto reach = std::max<std::int64_t>((count - 1) * stride, 0);
      const auto start = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n - reach)));
      const bool backwards = chance(40);
      a.ints.push_back(backwards ? -stride : stride);
      a.dims.push_back(count);
      starts.push_back(backwards ? start + reach : start);
    }
    a.dims.insert(a.dims.end(), starts.begin(), starts.end());
    keep(push(op::slice, {x}, a));
  }

  /// Windows of some axes: a place and, at times, a tap for each axis of x, in any order; reads that meet, at times, and a product over
  /// the taps.
  void windowed() {
    const node_id x = any();
    const shape s = shape_of(x);
    struct step {
      std::size_t axis;
      std::int64_t factor;
      dim extent;
    };
    std::vector<step> places, taps;
    shape starts;
    for (std::size_t d = 0; d < s.size(); ++d) {
      const auto n = s[d].number();
      if (!n || *n < 2 || chance(30)) {
        // A symbol is at least 2: all, or pairs of neighbours.
        const bool pairs = !n && chance(50);
        places.push_back({d, 1, pairs ? s[d] - dim(1) : s[d]});
        if (pairs) taps.push_back({d, 1, 2});
        starts.push_back(0);
        continue;
      }
      const auto dilation = static_cast<std::int64_t>(1 + below(3)), by = static_cast<std::int64_t>(1 + below(4));
      const auto count = 1 + static_cast<std::int64_t>(below(
                                 static_cast<std::uint64_t>(std::min<std::int64_t>((*n - 1) / dilation + 1, 11))));
      const std::int64_t room = *n - 1 - dilation * (count - 1);
      const auto high = 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(room / by + 1)));
      const auto first = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(room - by * (high - 1)) + 1));
      const bool turned = chance(20), tap_turned = chance(20);
      places.push_back({d, turned ? -by : by, high});
      taps.push_back({d, tap_turned ? -dilation : dilation, count});
      starts.push_back(first + (turned ? by * (high - 1) : 0) + (tap_turned ? dilation * (count - 1) : 0));
    }
    if (chance(15)) places.push_back({s.size(), 1, 1 + static_cast<std::int64_t>(below(3))});  // repeated
    if (places.size() + taps.size() > 7) taps.clear();
    const bool numbers = !sinter::is_bool(type_of(x)), product = numbers && !taps.empty() && chance(50);
    std::vector<step> axes = places;
    axes.insert(axes.end(), taps.begin(), taps.end());
    if (!product) std::shuffle(axes.begin(), axes.end(), bits_);
    attributes a;
    std::int64_t elements = 1;
    for (const auto& i : axes) {
      a.dims.push_back(i.extent);
      elements *= std::max<std::int64_t>(i.extent.evaluate(how_.hints), 1);
      if (elements > how_.max_elements) return;
    }
    a.dims.insert(a.dims.end(), starts.begin(), starts.end());
    for (std::size_t d = 0; d < s.size(); ++d)
      for (const auto& i : axes) a.ints.push_back(i.axis == d ? i.factor : 0);
    if (!product && !axes.empty() && !a.ints.empty() && chance(10))
      a.ints[below(a.ints.size())] += 1;  // refused mostly
    const node_id y = push(op::window, {x}, a);
    if (!holds(graph, y, how_.hints)) return;
    if (!product) return void(keep(y));
    shape weights;
    for (const auto& i : taps) weights.push_back(i.extent);
    if (chance(70)) weights.push_back(1 + static_cast<std::int64_t>(below(3)));
    attributes of;
    of.ints = {0, static_cast<std::int64_t>(taps.size())};
    keep(push(op::dot, {y, tensor(type_of(x), weights)}, of));
  }

  void reduced() {
    const node_id x = any();
    const auto axes = some_axes(x);
    if (!axes.empty()) keep(reduce(x, combiner_for(type_of(x)), axes));
  }

  /// x with a reduction of itself, as softmax and the normalisations do; twice at times.
  void normalised() {
    node_id x = any();
    if (!sinter::is_float(type_of(x))) x = cast(x, one_of({dtype::f32, dtype::f64}));
    const auto axes = some_axes(x);
    if (axes.empty()) return;
    shape kept = shape_of(x);
    for (auto a : axes) kept[static_cast<std::size_t>(a)] = 1;
    for (std::uint64_t n = 1 + below(2); n > 0; --n) {
      const node_id r = reduce(x, one_of({op::add, op::maximum, op::minimum}), axes);
      if (chance(20)) keep(r);
      node_id back = broadcast(reshape(r, kept), shape_of(x));
      x = push(one_of({op::sub, op::maximum, op::add, op::mul}), {chance(60) ? x : push(op::tanh, {x}), back});
      if (chance(50)) x = push(one_of({op::sigmoid, op::tanh, op::sin}), {x});
    }
    keep(x);
    if (chance(50)) {
      // What follows a sum over rows: a bias gradient next to a row reduction.
      const auto other = some_axes(x);
      if (!other.empty()) keep(reduce(x, op::add, other));
    }
  }

  void padded() {
    const node_id x = any();
    attributes a;
    const std::size_t r = rank(x);
    for (std::size_t i = 0; i < 2 * r; ++i)
      a.dims.push_back(chance(45) ? dim(0) : dim(static_cast<std::int64_t>(below(4))));
    const dtype t = type_of(x);
    a.literal = sinter::is_bool(t) ? scalar{0, static_cast<std::int64_t>(below(2))}
                                   : scalar::of(t, static_cast<double>(below(3)));
    keep(push(op::pad, {x}, a));
  }

  void joined() {
    const node_id x = any();
    if (rank(x) == 0) return;
    const auto axis = below(rank(x));
    std::vector<node_id> in;
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      shape s = shape_of(x);
      if (chance(30)) s[axis] = pick(how_.theme);
      in.push_back(chance(40) ? x : tensor(type_of(x), s));
    }
    attributes a;
    a.ints = {static_cast<std::int64_t>(axis)};
    keep(push(op::concat, in, a));
  }

  /// Several parts, as large as an operand, of what surrounds it or joins it with another, combined; of the result so again at
  /// times.
  void stencil() {
    node_id x = any();
    for (std::uint64_t n = 1 + below(3); n > 0 && rank(x) > 0; --n) {
      const shape s = shape_of(x);
      attributes a;
      shape room(s.size(), 0);  // by how much a part's place may vary
      node_id all = x;
      if (chance(70)) {
        shape low, high;
        for (std::size_t d = 0; d < s.size(); ++d) {
          low.push_back(static_cast<std::int64_t>(below(3)));
          high.push_back(static_cast<std::int64_t>(below(3)));
          room[d] = low[d] + high[d];
        }
        a.dims = low;
        a.dims.insert(a.dims.end(), high.begin(), high.end());
        a.literal = sinter::is_bool(type_of(x)) ? scalar{0, static_cast<std::int64_t>(below(2))}
                                                : scalar::of(type_of(x), static_cast<double>(below(2)));
        all = push(op::pad, {x}, a);
      } else {
        const auto axis = below(rank(x));
        shape other = s;
        if (chance(50)) other[axis] = 1 + static_cast<std::int64_t>(below(3));
        room[axis] = other[axis];
        a.ints = {static_cast<std::int64_t>(axis)};
        const node_id y = chance(30) && other == s ? x : tensor(type_of(x), other);
        all = push(op::concat, chance(50) ? std::vector{x, y} : std::vector{y, x}, a);
      }
      node_id total = part_of(all, s, room);
      for (std::uint64_t more = 1 + below(4); more > 0; --more) {
        const node_id part = part_of(all, s, room);
        const op code =
            sinter::is_bool(type_of(x)) ? one_of({op::eq, op::ne}) : one_of({op::add, op::sub, op::maximum, op::mul});
        total = push(code, chance(50) ? std::vector{total, part} : std::vector{part, total});
      }
      keep(total);
      x = total;
    }
  }
  node_id part_of(node_id x, const shape& extents, const shape& room) {
    attributes a;
    shape starts;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const bool backwards = chance(15);
      const auto most = room[d].number();
      dim start = most ? dim(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(*most) + 1)))
                       : one_of({dim(0), dim(1), room[d]});
      if (backwards && !extents[d].is(0)) start += extents[d] - dim(1);
      a.ints.push_back(backwards ? -1 : 1);
      a.dims.push_back(extents[d]);
      starts.push_back(std::move(start));
    }
    a.dims.insert(a.dims.end(), starts.begin(), starts.end());
    return push(op::slice, {x}, a);
  }

  void extreme() {
    node_id x = any();
    if (rank(x) == 0) return;
    if (sinter::is_bool(type_of(x))) x = cast(x, dtype::u8);
    attributes a;
    a.combiner = chance(50) ? op::maximum : op::minimum;
    a.ints = {static_cast<std::int64_t>(below(rank(x)))};
    keep(push(op::arg_reduce, {x}, a));
  }

  /// A permutation that sorts, its first part, or places among what is sorted or is not.
  void ordered() {
    const node_id x = any();
    if (rank(x) == 0) return;
    attributes a;
    a.ints = {static_cast<std::int64_t>(below(rank(x))), static_cast<std::int64_t>(below(2))};
    const auto axis = static_cast<std::size_t>(a.ints[0]);
    if (chance(30)) return void(keep(push(op::searchsorted, {x, tensor(type_of(x), shape_of(x))}, a)));
    const dim extent = shape_of(x)[axis];
    a.dims = {chance(30) && extent.is_number() && *extent.number() > 1 ? dim(*extent.number() / 2) : extent};
    const node_id order = push(op::argsort, {x}, a);
    keep(order);
    a.dims = {};
    a.ints = {a.ints[0]};
    keep(push(op::gather, {x, order}, a));
  }

  /// Attention with or without heads and a mask of places, of which a row may see nothing.
  void attended() {
    const dtype t = one_of({dtype::f32, dtype::f32, dtype::f64, dtype::bf16});
    const dim batch = pick(how_.theme), queries = pick(how_.theme), keys = pick(how_.theme),
              features = pick(how_.theme);
    const bool heads = chance(60);
    const auto of = [&](const dim& places) { return heads ? shape{batch, places, features} : shape{places, features}; };
    if (bulk({batch, queries, keys, features}) > 10 * how_.max_elements) return;
    attributes a;
    a.ints = {heads, 1};
    const node_id q = tensor(t, of(queries)), k = tensor(t, of(keys)), v = tensor(t, of(keys));
    const std::vector<std::int64_t> turn = heads ? std::vector<std::int64_t>{0, 2, 1} : std::vector<std::int64_t>{1, 0};
    node_id s = push(op::dot, {q, permute(k, turn)}, a);
    sinter::ir::attention_site site;
    site.q = q, site.k = k, site.v = v, site.products = s;
    site.batch = heads;
    const shape all = shape_of(s);
    const auto last = static_cast<std::int64_t>(all.size()) - 1;
    if (chance(50)) {
      attributes place;
      place.type = dtype::i64;
      place.dims = all;
      place.ints = {last - 1};
      const node_id i = push(op::iota, {}, place);
      place.ints = {last};
      const node_id j = push(op::iota, {}, place);
      node_id seen = push(op::le, {j, i});
      if (chance(40)) seen = push(op::bit_and, {seen, tensor(dtype::b8, all)});
      attributes none;
      none.type = t;
      none.dims = all;
      none.literal = scalar::of(t, -1000);
      if (chance(50)) site.allowed = seen;
      s = push(op::select, {seen, s, push(op::constant, {}, none)});
    }
    if (!keys.is(0) && chance(50)) {
      site.score = chance(30) ? push(op::mul, {s, tensor(t, all)}) : s;
      site.guarded = chance(70);
      if (chance(30)) site.factors = {{sinter::ir::attention_factor::how::where, tensor(dtype::b8, all)}};
      return void(keep(sinter::ir::push_attention(graph, site, {}).id()));
    }
    shape kept = all;
    kept.back() = 1;
    const auto back = [&](node_id x) { return broadcast(reshape(x, kept), all); };
    const node_id e = push(op::exp, {push(op::sub, {s, back(reduce(s, op::maximum, {last}))})});
    const node_id weights = push(op::div, {e, back(reduce(e, op::add, {last}))});
    if (chance(20)) keep(weights);
    keep(push(op::dot, {weights, v}, a));
  }

  /// A part of a tensor replaced, by places that begin at a number that is read.
  void placed() {
    const node_id x = any();
    if (rank(x) == 0) return;
    const auto axis = below(rank(x));
    const shape s = shape_of(x);
    if (!s[axis].is_number() || *s[axis].number() < 2) return;
    shape part = s;
    part[axis] = 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(*s[axis].number())));
    attributes place;
    place.type = dtype::i64;
    place.dims = part;
    place.ints = {static_cast<std::int64_t>(axis)};
    const node_id first = broadcast(tensor(dtype::i64, {}), part);
    attributes a;
    a.combiner = op::identity;
    a.ints = {static_cast<std::int64_t>(axis), 0};
    keep(push(op::scatter, {x, push(op::add, {push(op::iota, {}, place), first}), tensor(type_of(x), part)}, a));
  }

  void scanned() {
    node_id x = any();
    if (rank(x) == 0) return;
    if (sinter::is_bool(type_of(x))) x = cast(x, dtype::i16);
    attributes a;
    a.combiner = one_of({op::add, op::add, op::mul, op::maximum, op::minimum});
    a.ints = {static_cast<std::int64_t>(below(rank(x))), static_cast<std::int64_t>(below(2))};
    std::vector<node_id> in{x};
    if (a.combiner == op::add && chance(40)) in.push_back(tensor(type_of(x), shape_of(x)));
    keep(push(op::scan, in, a));
  }

  /// Derivatives of a scalar by some of what it follows from.
  void differentiated() {
    const auto from = floating();
    if (from.empty() || graph.size() > 400) return;
    node_id y = from[from.size() - 1 - std::min(below(from.size()), below(from.size()))];
    // A cotangent that varies.
    if (chance(50)) y = push(op::mul, {y, tensor(type_of(y), shape_of(y))});
    if (rank(y) > 0) {
      std::vector<std::int64_t> axes(rank(y));
      for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
      y = reduce(y, op::add, axes);
    }
    std::vector<node_id> wrt;
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      const node_id x = pick(from);
      if (x < y) wrt.push_back(x);
    }
    if (wrt.empty()) return;
    sinter::series<node_id> derivatives;
    differentiates([&] { derivatives = sinter::engine::gradient(graph, y, wrt, {"fuzz.cpp", ++lines_}); });
    for (auto d : derivatives) keep(d);
    if (graph.size() > 1200) throw user_error("too many nodes");
  }

  void indexed() {
    if (chance(20)) return placed();
    node_id x = any();
    if (rank(x) == 0) return;
    const auto axis = below(rank(x));
    shape s = shape_of(x);
    if (chance(70)) s[axis] = pick(how_.theme);
    const dtype it = chance(50) ? dtype::i32 : dtype::i64;
    attributes a;
    a.ints = {static_cast<std::int64_t>(axis)};
    if (chance(55)) {
      keep(push(op::gather, {x, tensor(it, s)}, a));
    } else {
      const op combiners[] = {op::identity, op::mul, op::maximum, op::minimum};
      const auto which = below(6);
      if (which < 4) {
        a.combiner = combiners[which];
        a.ints.push_back(0);
      }
      if (sinter::is_bool(type_of(x)) && which != 0) x = cast(x, dtype::i32);
      const node_id index = tensor(it, s);
      keep(push(which < 4 ? op::scatter : op::scatter_add, {x, index, tensor(type_of(x), s)}, a));
    }
  }

  void product() {
    const auto nb = chance(35) ? 1 : 0, nk = static_cast<int>(chance(75) ? 1 : below(3));
    const auto nm = chance(70) ? 1 : below(3), nn = chance(70) ? 1 : below(3);
    shape b, m, k, n;
    for (int i = 0; i < nb; ++i) b.push_back(pick(how_.theme));
    for (int i = 0; i < nk; ++i) k.push_back(pick(how_.theme));
    for (std::uint64_t i = 0; i < nm; ++i) m.push_back(pick(how_.theme));
    for (std::uint64_t i = 0; i < nn; ++i) n.push_back(pick(how_.theme));
    dtype t = type_of(any());
    if (sinter::is_bool(t)) t = dtype::f32;
    auto join = [](std::initializer_list<shape> parts) {
      shape s;
      for (const auto& p : parts) s.insert(s.end(), p.begin(), p.end());
      return s;
    };
    if (bulk(join({b, m, k, n})) > 40 * how_.max_elements) return;
    attributes a;
    a.ints = {nb, nk};
    node_id y = push(op::dot, {operand(t, join({b, m, k})), operand(t, join({b, k, n}))}, a);
    if (chance(50)) y = push(op::add, {y, tensor(t, shape_of(y))});
    if (chance(30)) y = push(op::maximum, {y, literal(t, shape_of(y))});
    keep(y);
  }

  /// An operand of a product: as it is, or transposed.
  node_id operand(dtype t, const shape& s) {
    if (s.size() < 2 || chance(50)) return tensor(t, s);
    std::vector<std::int64_t> p(s.size()), inverse(s.size());
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<std::int64_t>(i);
    std::shuffle(p.begin(), p.end(), bits_);
    shape before(s.size());
    for (std::size_t i = 0; i < p.size(); ++i) before[static_cast<std::size_t>(p[i])] = s[i];
    return permute(tensor(t, before), p);
  }

  /// What nothing uses, and some of what is used.
  void choose_outputs() {
    std::vector<char> used(graph.size());
    for (node_id id = 0; id < graph.size(); ++id)
      for (auto in : graph[id].in) used[in] = 1;
    std::vector<node_id> chosen;
    for (auto x : pool_)
      if (!used[x] || chance(12)) chosen.push_back(x);
    std::vector<char> taken(graph.size());
    for (auto x : chosen) {
      if (taken[x]++) continue;
      graph.outputs.push_back(graph[x].code == op::input || graph[x].code == op::reshape ? graph.mark(x) : x);
    }
  }
};

}  // namespace fuzz
