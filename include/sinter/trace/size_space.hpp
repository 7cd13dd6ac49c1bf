// trace/size_space.hpp: the open sizes of one trace: arithmetic on them, and the answers to a function's questions about them.
#pragma once

#include <algorithm>
#include <atomic>
#include <numeric>

#include "../base/kept.hpp"
#include "../engine/engine.hpp"

#include "../base/engine_begin.hpp"

namespace sinter::engine::detail {

/// The extent of an axis, counted over all tensors' axes.
inline ir::dim extent_at(const size_layout& l, std::size_t axis) {
  const int k = l.size_of_axis[axis];
  return k < 0 ? ir::dim(l.extents[axis]) : l.sizes[static_cast<std::size_t>(k)].in_symbols(k);
}

/// The extents or strides of one tensor, in symbols.
inline series<ir::dim> open_extents(const size_layout& l, std::size_t tensor) {
  series<ir::dim> out;
  const tensor_layout& t = l.tensors[tensor];
  for (int a = 0; a < t.rank; ++a) out.push_back(extent_at(l, static_cast<std::size_t>(t.first + a)));
  return out;
}
inline series<ir::dim> open_strides(const size_layout& l, std::size_t tensor) {
  const tensor_layout& t = l.tensors[tensor];
  const auto given = l.strides.begin() + t.first;
  series<ir::dim> out(given, given + t.rank);
  ir::dim step = 1;
  for (std::size_t i = t.order.size(); t.dense && i-- > 0;) {
    out[static_cast<std::size_t>(t.order[i])] = step;
    step *= extent_at(l, static_cast<std::size_t>(t.first + t.order[i]));
  }
  return out;
}

/// Thrown out of a traced function that needs narrower sizes than the trace left open.
struct retrace {
  size_layout layout;
};

/// The sizes of one trace. A question that needs narrower sizes ends the trace with a retrace. A function that has read
/// values cannot run again; its graphs so far are then narrowed in place.
class size_space final : public ir::open_sizes {
 public:
  explicit size_space(size_layout layout) : layout_(std::move(layout)), serial_(next_serial()) {
    for (const open_size& s : layout_.sizes) {
      hints_.push_back(s.hint());
      most_.push_back(s.derived ? 0 : (s.most - s.offset) / s.factor);
    }
  }

  const size_layout& layout() const { return layout_; }
  /// The layout of a retrace that was thrown; the traced function may have caught it.
  const std::optional<size_layout>& wanted() const { return wanted_; }

  /// The trace continues after any question: its answers hold for this call, and narrow the graphs where they need it.
  void stay() { stays_ = true; }
  /// Narrows the graphs of this trace, too.
  void watch(const std::shared_ptr<tracer>& t) {
    erase_if(traces_, [](const auto& x) { return x.expired(); });
    traces_.push_back(t);
  }
  /// d with the narrowed symbols replaced.
  ir::dim resolved(ir::dim d) const {
    for (const auto& [k, value] : replaced_) d = substituted(d, k, value);
    return d;
  }
  void resolve(ir::graph& g) const {
    if (!replaced_.empty()) g.replace_sizes([this](const ir::dim& d) { return resolved(d); });
  }

  dim in_front(const ir::dim& given, location where = {}) {
    const ir::dim d = resolved(given);
    if (const auto n = d.number()) return dim(*n);
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i].value == d && values_[i].where.line == where.line && values_[i].where.file == where.file)
        return handle(i);
    values_.push_back({d, where});
    return handle(values_.size() - 1);
  }
  ir::dim behind(dim d) const { return d.is_symbolic() ? entry_of(d).value : ir::dim(d.bits); }

  /// The size in the traced call.
  std::int64_t present(dim d) const override { return behind(d).evaluate(hints_); }

  dim combine(sinter::detail::size_op what, dim a, dim b) override {
    using enum sinter::detail::size_op;
    const ir::dim x = behind(a), y = behind(b);
    const location where = place(a, b);
    switch (what) {
      case add:
        return in_front(x + y, where);
      case sub:
        return in_front(x - y, where);
      case mul:
        return in_front(x * y, where);
      default:
        break;
    }
    if (x.is_number() && y.is_number() && !y.is(0))  // marks of narrowed sizes
      return what == div ? dim(*x.number() / *y.number()) : dim(*x.number() % *y.number());
    if (const auto exact = x.divided_by(y)) return what == div ? in_front(*exact, where) : dim(0);
    if (y.evaluate(hints_) == 0) {
      fix_all(x, where, "divided by 0");
      fix_all(y, where, "a divisor that is 0");
      sinter::detail::fail_zero_divisor(x.evaluate(hints_));
    }
    // Quotients of sizes round down; quotients in C++ round towards 0.
    const bool from_below = is_positive(x * ir::dim(-1), where), by_positive = is_positive(y, where);
    if (behind(a) != x || behind(b) != y) return combine(what, a, b);
    if (!by_positive || from_below) {
      const dim q = combine(what, in_front(from_below ? x * ir::dim(-1) : x, where),
                            in_front(by_positive ? y : y * ir::dim(-1), where));
      return (what == div ? from_below == by_positive : from_below) ? combine(sub, dim(0), q) : q;
    }
    if (x.is(0)) return dim(0);
    const ir::dim quotient = floor_div(x, y);
    return in_front(what == div ? quotient : x - quotient * y, where);
  }

  bool compare(sinter::detail::size_relation what, dim a, dim b) override {
    using enum sinter::detail::size_relation;
    const ir::dim x = behind(a), y = behind(b);
    if (x == y) return what != less;
    const location where = place(a, b);
    if (what == equal) return agree(x, y, where);
    if (what == less) return is_positive(y - x, where);
    return !is_positive(x - y, where);
  }

  bool agree(const ir::dim& a, const ir::dim& b, location where) override {
    if (!is_zero(a - b, where)) return false;
    const ir::dim x = unified(resolved(a)), y = unified(resolved(b));
    if (x != y) equal_.push_back(x.is_number() ? std::pair(y, x) : std::pair(x, y));
    return true;
  }
  ir::dim unified(const ir::dim& given) const override {
    ir::dim d = given;
    for (const auto& [from, to] : equal_)  // in order: a later entry may replace part of an earlier replacement
      if (from == d) d = to;
    return d;
  }

  std::int64_t fix(dim a) override {
    const Entry e = entry_of(a);
    const std::int64_t now = e.value.evaluate(hints_);
    // For a remainder or a quotient the number becomes a guard, and the sizes stay open.
    if (!solved(e.value - ir::dim(now)) && agree(e.value, now, e.where)) return now;
    fix_all(e.value, e.where, "converted to an integer");
    return now;
  }

  dim read_at(dim a, location where) override { return in_front(behind(a), sinter::detail::kept(where)); }
  std::string text(dim a) override { return behind(a).text(); }

  bool give_up(ir::attributes& of, const std::string& why, location where) override {
    if (!stays_) return false;
    bool changed = fix_in_place("too open for " + why.substr(0, why.rfind(" (at ")), sinter::detail::kept(where));
    for (auto& d : of.dims) {
      const ir::dim value = resolved(d);
      changed |= value != d;
      d = value;
    }
    if (of.step)
      if (auto step = with_sizes(*of.step, [this](const ir::dim& d) { return resolved(d); })) {
        of.step = std::move(step);
        changed = true;
      }
    return changed;
  }

  /// Gives up all symbols: the trace repeats with numbers, or continues with them. Returns if there are none.
  void fix_everything(const std::string& why, location where) {
    where = sinter::detail::kept(where);
    if (stays_) return static_cast<void>(fix_in_place(why, where));
    size_layout next = layout_;
    bool any = false;
    for (open_size& s : next.sizes) any |= fixed(s, why, where);
    if (any) again(std::move(next));
  }

 private:
  struct Entry {
    ir::dim value;
    location where;
  };
  /// The number of times that a size is narrowed before it is fixed. A loop that counts up to it would narrow it in each turn.
  static constexpr int max_narrowings = 6;
  /// The largest divisor for which x / c * c == x is understood.
  static constexpr std::int64_t max_divisor = 64;

  static std::int64_t next_serial() {
    static std::atomic<std::int64_t> last{0};
    return ++last % ((std::int64_t{1} << 28) - 1) + 1;
  }
  dim handle(std::size_t i) const { return dim(dim::first_mark + (serial_ << 32) + static_cast<std::int64_t>(i)); }
  const Entry& entry_of(dim d) const {
    const std::int64_t offset = d.bits - dim::first_mark;
    const auto i = static_cast<std::size_t>(offset & 0xffffffff);
    if (offset >> 32 != serial_ || i >= values_.size())
      fail("size",
           "an extent of a traced tensor is used after its trace ended, or in another one; read it there again");
    return values_[i];
  }
  location place(dim a, dim b) const {
    for (dim d : {a, b})
      if (d.is_symbolic())
        if (const Entry& e = entry_of(d); e.where.line) return e.where;
    return {};
  }

  bool fix_in_place(const std::string& why, location where) {
    bool any = false;
    for (std::size_t k = 0; k < layout_.sizes.size(); ++k) {
      if (layout_.sizes[k].derived) continue;
      settle(k, hints_[k], why, where);
      any = true;
    }
    return any;
  }

  /// Replaces symbol k by `symbol` in every graph of the trace, and in the extents that the function holds. A symbol's
  /// meaning never changes, so remaining uses are still right, and are resolved when they are met.
  void settle(std::size_t k, const ir::dim& symbol, const std::string& why, location where) {
    const auto index = static_cast<int>(k);
    open_size& s = layout_.sizes[k];
    s.derived = true;
    s.value = symbol * ir::dim(s.factor) + ir::dim(s.offset);
    s.why = why;
    s.where = where;
    for (open_size& other : layout_.sizes)
      if (other.derived) other.value = substituted(other.value, index, symbol);
    replaced_.push_back({index, symbol});
    for (Entry& e : values_) e.value = substituted(e.value, index, symbol);
    for (const auto& t : traces_)
      if (const auto live = t.lock()) resolve(live->graph);
  }

  [[noreturn]] void again(size_layout next) {
    next.guards.clear();
    wanted_ = next;
    throw retrace{std::move(next)};
  }

  static bool fixed(open_size& s, const std::string& why, location where) {
    if (s.is_fixed()) return false;
    s.derived = true;
    s.value = s.number;
    s.why = why;
    s.where = where;
    return true;
  }

  /// Fixes every size that `d` depends on; returns if there is none.
  void fix_all(const ir::dim& d, location where, const std::string& why) {
    if (d.is_number()) return;
    if (stays_) {
      const ir::dim now = resolved(d);
      for (std::size_t k = 0; k < layout_.sizes.size(); ++k)
        if (depends_on(now, static_cast<int>(k))) settle(k, hints_[k], why, where);
      return;
    }
    size_layout next = layout_;
    for (std::size_t k = 0; k < next.sizes.size(); ++k) {
      if (!depends_on(d, static_cast<int>(k))) continue;
      const ir::dim number = next.sizes[k].hint();
      fixed(next.sizes[k], why, where);
      for (open_size& s : next.sizes)
        if (s.derived) s.value = substituted(s.value, static_cast<int>(k), number);
    }
    again(std::move(next));
  }

  /// Sets extent k to factor·s + offset with another factor and offset.
  void narrow(std::size_t k, std::int64_t factor, std::int64_t offset, location where, const char* why) {
    size_layout next = layout_;
    open_size& s = next.sizes[k];
    if (++s.narrowings > max_narrowings || s.number - offset < 2 * factor)
      return fix_all(ir::dim::symbol(static_cast<int>(k)), where, "compared with other sizes again and again");
    const auto with = static_cast<int>(stays_ ? layout_.sizes.size() : k);
    const ir::dim old = ir::dim::symbol(with) * ir::dim(factor / s.factor) + ir::dim((offset - s.offset) / s.factor);
    if (stays_) {
      s.factor = factor;
      s.offset = offset;
      s.why = why;
      s.where = where;
      hints_.push_back(s.hint());
      most_.push_back((s.most - offset) / factor);
      layout_.sizes.push_back(std::move(s));
      return settle(k, old, "", {});
    }
    for (open_size& other : next.sizes)
      if (other.derived) other.value = substituted(other.value, static_cast<int>(k), old);
    s.factor = factor;
    s.offset = offset;
    s.why = why;
    s.where = where;
    again(std::move(next));
  }

  /// The range of d by the bounds of symbols, and by the dividends of quotients.
  ir::size_range range_of(const ir::dim& d) const {
    const ir::size_range r = ir::range_of(d, most_);
    return {std::max(r.least, d.lower_bound()), std::min(r.most, d.upper_bound())};
  }

  bool is_zero(const ir::dim& d, location where) {
    const ir::size_range r = range_of(d);
    if (r.least > 0 || r.most < 0) return false;
    if (d.is_number()) return true;
    if (d.evaluate(hints_) != 0) return take({d, false, false, where});
    if (!is_always_zero(d)) make_zero(d, where);
    return true;
  }

  bool is_positive(const ir::dim& d, location where) {
    const ir::size_range r = range_of(d);
    if (r.least > 0) return true;
    if (r.most <= 0) return false;
    const bool holds = d.evaluate(hints_) > 0;
    narrow_to_positive(holds ? d : ir::dim(1) - d, where);
    return take({d, true, holds, where});
  }

  bool take(size_guard g) {
    if (stays_) return g.holds;  // for this call only
    for (const size_guard& known : layout_.guards)
      if (known.positive == g.positive &&
          (known.value == g.value || (!g.positive && known.value + g.value == ir::dim(0))))
        return known.holds;
    layout_.guards.push_back(g);
    return g.holds;
  }

  /// If d > 0 is a lower bound of one size, the trace repeats with that size counted from the bound. The relation is then
  /// known everywhere.
  void narrow_to_positive(const ir::dim& d, location where) {
    for (std::size_t k = 0; k < layout_.sizes.size(); ++k) {
      const auto form = linear_in(d, static_cast<int>(k));
      if (!form || form->coefficient <= 0 || !form->rest.is_number()) continue;
      const std::int64_t c = form->coefficient,
                         least = (c - *form->rest.number()) / c;  // ceil((1 - rest) / c), when > 0
      const open_size& s = layout_.sizes[k];
      return narrow(k, s.factor, s.offset + s.factor * (least - 2), where, "compared with a number");
    }
  }

  /// A symbol, and its value if d = 0.
  struct solution {
    std::size_t symbol;
    ir::dim value;
  };
  std::optional<solution> solved(const ir::dim& d) const {
    for (std::size_t k = layout_.sizes.size(); k-- > 0;) {
      const auto form = linear_in(d, static_cast<int>(k));
      if (!form) continue;
      if (const auto value = (form->rest * ir::dim(-1)).divided_by(form->coefficient)) return solution{k, *value};
    }
    return std::nullopt;
  }

  /// Makes d = 0 hold for all calls.
  void make_zero(const ir::dim& d, location where) {
    if (const auto found = solved(d)) {
      const std::size_t k = found->symbol;
      if (stays_) {
        const open_size& old = layout_.sizes[k];
        const ir::dim value = found->value * ir::dim(old.factor) + ir::dim(old.offset);
        return settle(k, found->value, "equal to " + value.text(), where);
      }
      size_layout next = layout_;
      open_size& s = next.sizes[k];
      s.value = found->value * ir::dim(s.factor) + ir::dim(s.offset);
      s.derived = true;
      s.why = "equal to " + s.value.text();
      s.where = where;
      for (open_size& other : next.sizes)
        if (other.derived) other.value = substituted(other.value, static_cast<int>(k), found->value);
      again(std::move(next));
    }
    // x / c * c == x: true for all sizes with the same remainder modulo c.
    for (std::size_t k = 0; k < layout_.sizes.size(); ++k) {
      const ir::dim symbol = ir::dim::symbol(static_cast<int>(k));
      for (std::int64_t c = 2; c <= max_divisor && depends_on(d, static_cast<int>(k)); ++c) {
        const std::int64_t rest = hints_[k] % c;
        if (hints_[k] < c || !substituted(d, static_cast<int>(k), symbol * ir::dim(c) + ir::dim(rest)).is(0)) continue;
        const open_size& s = layout_.sizes[k];
        const std::int64_t offset = hints_[k] < 2 * c ? rest - c : rest;
        return narrow(k, s.factor * c, s.offset + s.factor * offset, where, "divisible");
      }
    }
    // A guard that does not determine a size.
    take({d, false, true, where});
  }

  size_layout layout_;
  std::int64_t serial_;
  series<std::int64_t> hints_, most_;
  series<Entry> values_;
  std::optional<size_layout> wanted_;
  bool stays_ = false;
  series<std::pair<ir::dim, ir::dim>> equal_;  ///< sizes found equal, not identical; the second replaces the first
  struct replacement {
    int symbol;
    ir::dim value;
  };
  series<replacement> replaced_;  ///< in order: a later entry may replace part of an earlier replacement
  series<std::weak_ptr<tracer>> traces_;
};

}  // namespace sinter::engine::detail

#include "../base/engine_end.hpp"
