// ir/ops/scatter.hpp: scatter (base, index, updates): ints = {axis, apart}, attr.combiner. The result is base; for each c of
// updates, its element at c with c[axis] = index[c] is combined with updates[c]. The combiner is mul, maximum or minimum, or
// identity, by which the last of several updates replaces the element. Extents and indices are as in scatter_add; indices out
// of range are dropped. With `apart`, updates of one element are equal.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct scatter_op : along_axis {
  static void infer(inference& f) {
    f.expect(3, 2, 0);
    const op combiner = f.n.attr.combiner;
    if (combiner != op::identity && combiner != op::mul && combiner != op::maximum && combiner != op::minimum)
      f.refuse({combiner, " does not combine a scatter"});
    if (combiner != op::identity) f.numbers(f.n.type);
    f.scattered();
  }
  static std::string text(const node& n) {
    const op combiner = n.attr.combiner;
    return std::string(" ") + (combiner == op::identity ? "set" : name(combiner)) +
           " axis=" + std::to_string(n.attr.ints.at(0)) + (n.attr.ints.at(1) ? " apart" : "");
  }
  static void read(words& w, node& n) {
    n.attr.combiner = w.takes_word("set") ? op::identity : w.combiner();
    const std::int64_t axis = w.integer("axis");
    n.attr.ints = {axis, w.takes_word("apart")};
  }
  static void reference(const evaluation& e, literal_array& out) {
    out.f = e.in[0]->f;
    out.i = e.in[0]->i;
    const op combiner = e.n.attr.combiner;
    detail::with_computed(out.type, [&](auto computed) {
      using T = typename decltype(computed)::type;
      auto* const to = detail::column<T>(out);
      using S = std::remove_pointer_t<decltype(to)>;
      const auto* from = detail::column<T>(*e.in[2]);
      walk_index(e.axis(), *e.in[0], *e.in[1],
                 [&](auto i, auto at0, std::int64_t at, std::int64_t extent, std::int64_t stride) {
                   if (at < 0 || at >= extent) return;
                   S& slot = to[at0 + at * stride];
                   if (combiner == op::identity) slot = static_cast<S>(from[i]);
                   else
                     slot = static_cast<S>(
                         detail::pointwise_scalar<T>(combiner, static_cast<T>(slot), static_cast<T>(from[i]), T{}));
                 });
    });
  }
  static value jvp(const site& s, const tangents& t) {
    const value base = t[0] ? t[0] : s.in(0).like(0.0), updates = t[2] ? t[2] : s.in(2).like(0.0);
    if (extent_of(s).is(0)) return base;
    switch (s.n().attr.combiner) {
      case op::identity:
        return scatter(base, s.in(1), updates, op::identity, s.axis(), is_apart(s));
      case op::mul: {
        const slopes d = product_slopes_of(s);
        return scatter_add(base * d.base, s.in(1), updates * d.updates, s.axis());
      }
      default: {
        const ties e = ties_of(s);
        return share(scatter_add(select(e.base, base, 0.0), s.in(1), select(e.updates, updates, 0.0), s.axis()),
                     e.count);
      }
    }
  }
  static value vjp(const site& s, std::size_t k, const value& ct) {
    const value index = s.in(1);
    if (extent_of(s).is(0)) return k == 0 ? ct : zeros(ct, index.extents());
    switch (s.n().attr.combiner) {
      case op::identity:
        if (k == 0) return scatter(ct, index, zeros(ct, index.extents()), op::identity, s.axis(), true);
        return select(is_last(s), gather(ct, index, s.axis()), 0.0);
      case op::mul: {
        const slopes d = product_slopes_of(s);
        return k == 0 ? ct * d.base : select(within(s), gather(ct, index, s.axis()) * d.updates, 0.0);
      }
      default: {
        const ties e = ties_of(s);
        const value part = share(ct, e.count);
        return k == 0 ? select(e.base, part, 0.0) : select(e.updates, gather(part, index, s.axis()), 0.0);
      }
    }
  }
  static roundings rounding(const evaluation& e, const literal_array& out) {
    if (e.n.attr.combiner != op::mul) return {};
    return {static_cast<double>(out.f.size()), true, true};
  }

  /// Where an update is the last of its element. An index that repeats off the axis is evaluated once.
  static value is_last(const site& s) {
    if (is_apart(s)) return within(s);
    const value all = s.in(1);
    const auto axis = static_cast<std::size_t>(s.axis());
    value index = all;
    if (all.get().code == op::broadcast) {
      const value narrow(all.owner(), all.get().in[0], all.where());
      if (narrow.extents()[axis] == all.extents()[axis]) index = narrow;
    }
    shape places = index.extents();
    places[axis] = extent_of(s);
    const value turn = iota(index, dtype::i64, index.extents(), s.axis());
    const value none(index.owner(), index.owner().constant(dtype::i64, -1.0, std::move(places), index.where()),
                     index.where());
    const value last = scatter(none, index, turn, op::maximum, s.axis());
    const value is = bit_and(is_within(index, extent_of(s)), eq(gather(last, index, s.axis()), turn));
    return broadcast(is, all.extents());
  }

  static bool is_apart(const site& s) {
    return s.n().attr.ints[1] != 0 || s.in(1).extents()[static_cast<std::size_t>(s.axis())].is(1);
  }

 private:
  struct ties {
    value base, updates, count;
  };
  struct slopes {
    value base, updates;
  };

  static dim extent_of(const site& s) { return s.in(0).extents()[static_cast<std::size_t>(s.axis())]; }
  static value within(const site& s) { return is_within(s.in(1), extent_of(s)); }

  /// The elements that equal the extreme in the result, and their number; in f32 for halves.
  static ties ties_of(const site& s) {
    const value y = s.result(), updates = s.in(2);
    const dtype t = is_narrow(y.type()) ? dtype::f32 : y.type();
    ties e;
    e.base = eq(s.in(0), y);
    e.updates = bit_and(within(s), eq(updates, gather(y, s.in(1), s.axis())));
    e.count = scatter_add(cast(e.base, t), s.in(1), cast(e.updates, t), s.axis());
    return e;
  }

  /// The slopes of a product. By the base it is the product of the updates; by an update that is alone at its element it is
  /// the base.
  static slopes product_slopes_of(const site& s) {
    const value base = s.in(0), index = s.in(1), updates = s.in(2);
    const value by_base = scatter(base.like(1.0), index, updates, op::mul, s.axis(), is_apart(s));
    const value alone = gather(base, index, s.axis());
    if (is_apart(s)) return {by_base, alone};
    const auto whole = [](const value& x, double literal) {
      return value(x.owner(), x.owner().constant(dtype::i32, literal, x.extents(), x.where()), x.where());
    };
    const value met = gather(scatter_add(whole(base, 0.0), index, whole(updates, 1.0), s.axis()), index, s.axis());
    return {by_base, select(le(met, 1.0), alone, slope_of_several(s))};
  }

  /// The slope by an update that shares its element: the result divided by it; for a zero, the product of the others. It is
  /// in f64, which holds products that f32 does not. A second derivative by two zeros is undefined.
  static value slope_of_several(const site& s) {
    const value base = cast(s.in(0), dtype::f64), index = s.in(1), updates = cast(s.in(2), dtype::f64);
    const value no_base = eq(base, 0.0), no_update = eq(updates, 0.0);
    const auto at = [&](const value& x) { return gather(x, index, s.axis()); };
    const value y = at(scatter(base, index, updates, op::mul, s.axis()));
    const value rest = scatter(select(no_base, 1.0, base), index, select(no_update, 1.0, updates), op::mul, s.axis());
    const value zeros_met = at(scatter_add(cast(no_base, dtype::f64), index, cast(no_update, dtype::f64), s.axis()));
    const value without = select(eq(zeros_met, 1.0), at(rest), 0.0);
    const value d = select(no_update, without, y / select(no_update, 1.0, updates));
    return cast(kinked(bit_and(no_update, ge(zeros_met, 2.0)), d, y), s.result().type());
  }
};

}  // namespace sinter::ir::ops
