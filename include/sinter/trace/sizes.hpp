// trace/sizes.hpp: the extents that a trace keeps open: marks, the policy of one function, and repeated traces.
#pragma once

#include <algorithm>
#include <mutex>
#include <numeric>

#include "../base/callback.hpp"
#include "../base/log.hpp"
#include "../base/sorted.hpp"
#include "../engine/engine.hpp"
#include "../guards/sizes.hpp"
#include "size_space.hpp"

#include "../base/engine_begin.hpp"

namespace sinter::engine {

namespace detail {

/// The marks of axes by axis_mark, one axis after another.
struct mark {
  int axis = 0;
  bool dynamic = false;
  std::int64_t least = 2, most = std::int64_t{1} << 62;
  bool operator==(const mark&) const = default;
};

/// All combinations of marks in this process; a tensor carries the number of a combination.
class mark_table {
 public:
  static mark_table& one() {
    static mark_table& t = *new mark_table;
    return t;
  }
  std::uint32_t add(std::uint32_t marks, const mark& m) {
    const std::lock_guard lock(mutex_);
    series<mark> all = known_[marks];
    erase_if(all, [&](const mark& x) { return x.axis == m.axis; });
    all.push_back(m);
    sort_stably(all, [](const mark& a, const mark& b) { return a.axis < b.axis; });
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (known_[i] == all) return static_cast<std::uint32_t>(i);
    known_.push_back(std::move(all));
    return static_cast<std::uint32_t>(known_.size() - 1);
  }
  std::optional<mark> find(std::uint32_t marks, int axis) {
    const std::lock_guard lock(mutex_);
    for (const mark& m : known_[marks])
      if (m.axis == axis) return m;
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  series<series<mark>> known_{1};
};

/// The axes from the slowest to the fastest if elements lie without gaps; otherwise empty.
inline series<int> dense_order(const argument& x) {
  series<int> order;
  for (int a = 0; a < x.rank; ++a) order.push_back(a);
  // The stride of an axis with one element is irrelevant.
  series<int> wide;
  for (int a : order)
    if (x.extents[a] != 1) wide.push_back(a);
  sort_stably(wide, [&](int a, int b) { return x.strides[a] > x.strides[b]; });
  std::size_t next = 0;
  for (int& a : order)
    if (x.extents[a] != 1) a = wide[next++];
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const int a = order[i];
    if (x.extents[a] == 1) continue;
    if (x.strides[a] != step) return {};
    step *= x.extents[a];
  }
  return order;
}

inline size_space* space_of(const tracer& t) { return static_cast<size_space*>(t.sizes.get()); }

/// The largest step that divides all extents so far, at least 2; vector accesses of a GPU rely on it.
inline std::int64_t common_step(std::int64_t divisor, std::int64_t number) {
  for (std::int64_t step : {16, 8, 4, 2})
    if (divisor % step == 0 && number / step >= 2) return step;
  return 1;
}

inline void lay_out(size_layout& l, const call& c) {
  for (const argument& x : c.tensors) {
    tensor_layout t;
    t.rank = x.rank;
    t.first = static_cast<int>(l.extents.size());
    for (int a = 0; a < x.rank; ++a) {
      l.extents.push_back(x.extents[a]);
      l.strides.push_back(x.strides[a]);
      l.size_of_axis.push_back(-1);
    }
    l.tensors.push_back(std::move(t));
  }
}

/// Adds a tensor whose extents are determined by the layout's sizes.
inline void lay_out_next(size_layout& l, const argument& x, const ir::shape& extents) {
  tensor_layout t;
  t.rank = x.rank;
  t.first = static_cast<int>(l.extents.size());
  for (int a = 0; a < x.rank; ++a) {
    const ir::dim& e = extents[static_cast<std::size_t>(a)];
    l.extents.push_back(x.extents[a]);
    l.strides.push_back(x.strides[a]);
    l.size_of_axis.push_back(e.is_number() ? -1 : static_cast<int>(l.sizes.size()));
    if (e.is_number()) continue;
    open_size s;
    s.extents = {{static_cast<int>(l.tensors.size()), a}};
    s.number = x.extents[a];
    s.derived = true;
    s.value = e;
    l.sizes.push_back(std::move(s));
    t.open = true;
  }
  if (t.open) {
    t.order = dense_order(x);
    t.dense = !t.order.empty();
  }
  l.tensors.push_back(std::move(t));
}

/// Whether an extent of the graph depends on a symbol.
SINTER_API bool uses(const ir::graph& g, int symbol) {
  const auto any = [&](const series<ir::dim>& dims) {
    return std::any_of(dims.begin(), dims.end(), [&](const ir::dim& d) { return depends_on(d, symbol); });
  };
  for (std::size_t i = 0; i < g.size(); ++i) {
    const ir::node& n = g[static_cast<ir::node_id>(i)];
    if (any(n.extents) || any(n.attr.dims)) return true;
    if (!n.attr.step) continue;
    if (depends_on(n.attr.step->length, symbol)) return true;
    for (const auto& part : n.attr.step->parts)
      if (uses(part, symbol)) return true;
  }
  return false;
}

/// Keeps one extent open, under the symbol of equal extents.
inline void open_axis(size_layout& l, fact_of f, std::size_t axis, std::int64_t step, const mark& m) {
  open_size wanted;
  wanted.number = l.extents[axis];
  wanted.factor = step;
  wanted.most = m.most;
  if (step == 1) wanted.offset = std::max<std::int64_t>(m.least - 2, 0);
  std::size_t k = 0;
  while (k < l.sizes.size() && !(l.sizes[k].number == wanted.number && l.sizes[k].most == wanted.most)) ++k;
  if (k == l.sizes.size()) l.sizes.push_back(std::move(wanted));
  open_size& s = l.sizes[k];
  s.extents.push_back(f);
  if (s.factor > step) s.factor = step;
  if (s.factor > 1) s.offset = 0;
  l.size_of_axis[axis] = static_cast<int>(k);
}

}  // namespace detail

SINTER_API ir::dim open_size::in_symbols(int k) const {
  if (derived) return value;
  const ir::dim symbol = ir::dim::symbol(k);
  return factor == 1 && offset == 0 ? symbol : symbol * ir::dim(factor) + ir::dim(offset);
}

SINTER_API std::uint32_t add_mark(std::uint32_t marks, int axis, bool dynamic, std::int64_t least, std::int64_t most) {
  return detail::mark_table::one().add(marks, {axis, dynamic, least, most});
}

SINTER_API ir::dim to_ir(dim d) {
  if (!d.is_symbolic()) return d.bits;
  auto* const sizes = static_cast<detail::size_space*>(sinter::detail::current_sizes());
  if (!sizes) sinter::detail::fixed_size(d);  // throws
  return sizes->behind(d);
}
SINTER_API ir::shape to_ir(const dim* extents, int rank) {
  ir::shape s;
  for (int i = 0; i < rank; ++i) s.push_back(to_ir(extents[i]));
  return s;
}
SINTER_API dim from_ir(const ir::dim& d) {
  if (const auto n = d.number()) return dim(*n);
  auto* const sizes = static_cast<detail::size_space*>(sinter::detail::current_sizes());
  ensure(sizes != nullptr, "a symbolic extent is read inside its trace");
  return sizes->in_front(d);
}

SINTER_API void tracer::open_sizes() {
  if (request.layout.any_open()) sizes = make_on_heap<detail::size_space>(request.layout);
}

SINTER_API void tracer::input_extents(int leaf, dim* extents, int rank) const {
  if (!sizes || request.layout.sizes.empty()) return;
  const auto& l = request.layout;
  const tensor_layout& t = l.tensors[static_cast<std::size_t>(leaf)];
  ensure(t.rank == rank, "the tensors of a trace are those of its request");
  for (int a = 0; a < rank; ++a)
    extents[a] = detail::space_of(*this)->in_front(detail::extent_at(l, static_cast<std::size_t>(t.first + a)));
}

SINTER_API std::int64_t returned_size(const tracer& t, dim d) {
  return d.is_symbolic() && t.call && t.call->answers ? detail::space_of(t)->present(d) : std::int64_t{d};
}

SINTER_API void fix_sizes(tracer& t, const std::string& why, location where) {
  if (t.sizes) detail::space_of(t)->fix_everything(why, where);
}

SINTER_API void stay(tracer& t) {
  if (const auto* const first = std::exchange(t.request.on_read, nullptr)) (*first)();
  if (t.sizes) detail::space_of(t)->stay();
}

SINTER_API void watch_sizes(const std::shared_ptr<tracer>& t) {
  if (t->sizes) detail::space_of(*t)->watch(t);
}

SINTER_API ir::shape resolved_sizes(const tracer& t, ir::shape extents) {
  for (auto& d : extents) d = detail::space_of(t)->resolved(d);
  return extents;
}

SINTER_API size_layout segment_layout(tracer& t, ir::graph& g, std::span<const argument> inputs) {
  if (!t.sizes) return {};
  const detail::size_space& space = *detail::space_of(t);
  space.resolve(g);
  size_layout l = space.layout();
  l.guards.clear();
  for (open_size& s : l.sizes) s.why.clear();
  for (std::size_t i = l.tensors.size(); i < inputs.size(); ++i)
    detail::lay_out_next(l, inputs[i], g[g.inputs[i]].extents);
  return l;
}

namespace detail {

SINTER_API size_layout graph_layout(const ir::graph& g, std::span<const argument> inputs) {
  size_layout l;
  for (int k = 0; uses(g, k); ++k) {
    open_size s;
    for (std::size_t i = 0; i < inputs.size() && s.extents.empty(); ++i)
      for (int a = 0; a < inputs[i].rank && s.extents.empty(); ++a) {
        const auto form = linear_in(g[g.inputs[i]].extents[static_cast<std::size_t>(a)], k);
        if (!form || form->coefficient < 1 || !form->rest.is_number()) continue;
        s.extents = {{static_cast<int>(i), a}};
        s.number = inputs[i].extents[a];
        s.factor = form->coefficient;
        s.offset = *form->rest.number();
      }
    if (s.extents.empty()) fail("verify", "no input has the size s" + std::to_string(k) + " of the graph");
    l.sizes.push_back(std::move(s));
  }
  if (l.sizes.empty()) return l;
  for (std::size_t i = 0; i < inputs.size(); ++i) lay_out_next(l, inputs[i], g[g.inputs[i]].extents);
  return l;
}

}  // namespace detail

SINTER_API size_layout size_policy::layout_for(const call& c, dynamic how, bool tentative) {
  const std::lock_guard lock(mutex_);
  size_layout out;
  detail::lay_out(out, c);
  const auto& extents = out.extents;
  std::size_t at = 0;
  while (at < seen_.size() && !(seen_[at].signature == c.signature && seen_[at].extents.size() == extents.size())) ++at;
  const auto first_seen = [&] { return seen{c.signature, extents, series<char>(extents.size(), 0), extents}; };
  if (at == seen_.size() && !tentative) {
    if (seen_.size() >= max_seen) seen_.erase(seen_.begin());
    seen_.push_back(first_seen());
    at = seen_.size() - 1;
  }
  seen supposed;
  if (tentative) supposed = at < seen_.size() ? seen_[at] : first_seen();
  seen& known = tentative ? supposed : seen_[at];
  std::size_t axis = 0;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const argument& x = c.tensors[i];
    for (int a = 0; a < x.rank; ++a, ++axis) {
      const std::int64_t e = extents[axis];
      known.varies[axis] |= e != known.extents[axis];
      known.divisor[axis] = std::gcd(known.divisor[axis], e);
      const auto marked = x.marks ? detail::mark_table::one().find(x.marks, a) : std::nullopt;
      const detail::mark m = marked.value_or(detail::mark{a, false});
      const bool open = marked ? m.dynamic && e >= m.least && e <= m.most
                               : how == dynamic::yes || (how == dynamic::automatic && known.varies[axis]);
      if (!open || e < 2) continue;
      const std::int64_t step = x.where().is_cuda() ? detail::common_step(known.divisor[axis], e) : 1;
      detail::open_axis(out, {static_cast<int>(i), a}, axis, step, m);
    }
  }
  for (std::size_t i = 0; i < out.tensors.size(); ++i) {
    tensor_layout& t = out.tensors[i];
    for (int a = 0; a < t.rank; ++a) t.open |= out.size_of_axis[static_cast<std::size_t>(t.first + a)] >= 0;
    if (!t.open) continue;
    t.order = detail::dense_order(c.tensors[i]);
    t.dense = !t.order.empty();
  }
  return out;
}

SINTER_API size_layout laid_out_for(const call& c, size_layout of) {
  size_layout now;
  detail::lay_out(now, c);
  of.extents = std::move(now.extents);
  of.strides = std::move(now.strides);
  of.guards.clear();
  for (open_size& s : of.sizes) {
    const fact_of from = s.extents[0];
    s.number = c.tensors[static_cast<std::size_t>(from.tensor)].extents[from.axis];
  }
  return of;
}

namespace detail {

/// The narrowed sizes of a layout, in words.
inline series<narrowed_size> narrowed_sizes(const size_layout& l) {
  series<narrowed_size> out;
  for (const open_size& s : l.sizes) {
    if (s.why.empty()) continue;
    std::string how = "open";
    if (s.is_fixed()) how = "fixed at " + std::to_string(s.number);
    else if (s.derived) how = s.value.text();
    else if (s.factor > 1) how = "of the form " + (ir::dim::symbol(0) * ir::dim(s.factor) + ir::dim(s.offset)).text();
    else if (s.offset > 0) how = "at least " + std::to_string(s.offset + 2);
    for (const fact_of& f : s.extents) out.push_back({f, how, s.why, s.where});
  }
  return out;
}

}  // namespace detail

SINTER_API series<narrowed_size> narrowed_sizes(const tracer& t) {
  return t.sizes ? detail::narrowed_sizes(detail::space_of(t)->layout()) : series<narrowed_size>{};
}

SINTER_API traced trace_sizes(const call& c, const tracing& t, size_layout layout, const std::string& beyond,
                              bool may_read, const sinter::detail::callback<void()>& on_read) {
  ensure(!layout.any_open() || layout.tensors.size() == c.tensors.size(), "a layout of this call");
  for (;;) {
    const bool open = layout.any_open();
    trace_request request;
    bool read = false;
    const sinter::detail::callback<void()> reads = [&read, &on_read] {
      read = true;
      if (on_read) on_read();
    };
    request.on_read = &reads;
    request.beyond = beyond;
    request.may_read = may_read;
    if (open) request.layout = layout;
    std::optional<size_layout> again;
    try {
      traced out = t.run(t.what, request);
      if (out.answer) return out;
      if (const auto* sizes = detail::space_of(*out.graph)) again = sizes->wanted();
      if (!again) {
        out.graph->assumed.narrowed = detail::narrowed_sizes(open ? detail::space_of(*out.graph)->layout() : layout);
        if (!open) return out;
        out.graph->assumed.layout = detail::space_of(*out.graph)->layout();
        for (const open_size& s : out.graph->assumed.layout.sizes)
          if (!s.is_fixed())
            for (const fact_of& f : s.extents) out.graph->assumed.open.push_back(f);
        return out;
      }
    } catch (const detail::retrace& r) {
      again = r.layout;
    } catch (const user_error& problem) {
      if (!open || read) throw;
      // Either it is the caller's mistake, which the trace with numbers reports, or sizes alone could not decide.
      logs::to("guards", [&] { return std::string("every size is fixed: ") + problem.what(); });
      again = layout;
      for (open_size& s : again->sizes) {
        s.derived = true;
        s.value = s.number;
        s.why = problem.what();
      }
    }
    layout = std::move(*again);
  }
}

}  // namespace sinter::engine

#include "../base/engine_end.hpp"
