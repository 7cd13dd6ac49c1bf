// ir/reference.hpp: the interpreter that every backend is measured against; needs no compiler.
#pragma once

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "../base/sorted.hpp"
#include "../base/text.hpp"
#include "graph.hpp"
#include "reference_opaque.hpp"
#include "reference_pointwise.hpp"

namespace sinter::ir {

namespace detail {

/// Copies a box of `extents` from offset p with strides ps to offset q with strides qs.
inline void copy_box(const extents_t& extents, const literal_array& from, const extents_t& ps, std::int64_t p,
                     literal_array& to, const extents_t& qs, std::int64_t q) {
  with_elements(to, [&](auto* t) {
    const auto* f = column<std::remove_pointer_t<decltype(t)>>(from);
    walk(extents, ps, qs, p, q, [&](std::int64_t i, std::int64_t j) { t[j] = f[i]; });
  });
}

inline void fill(literal_array& out, scalar literal) {
  if (is_float(out.type)) std::fill(out.f.begin(), out.f.end(), literal.f);
  else std::fill(out.i.begin(), out.i.end(), literal.i);
}

/// The value that a reduction of nothing has.
template <class T>
T identity_of(op combiner) {
  using limits = std::numeric_limits<T>;
  constexpr bool infinite = limits::has_infinity;
  switch (combiner) {
    case op::mul:
      return T(1);
    case op::bit_and:
      return static_cast<T>(~std::uint64_t{0});
    case op::maximum:
      return infinite ? -limits::infinity() : limits::lowest();
    case op::minimum:
      return infinite ? limits::infinity() : limits::max();
    default:
      return T(0);
  }
}

inline void reduce_array(const node& n, const literal_array& x, literal_array& out) {
  extents_t strides(x.extents.size(), 0);
  const extents_t kept = row_major(out.extents);
  std::size_t next = 0;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (std::find(n.attr.ints.begin(), n.attr.ints.end(), static_cast<std::int64_t>(i)) == n.attr.ints.end())
      strides[i] = kept[next++];
  with_computed(x.type, [&](auto computed) {
    using T = typename decltype(computed)::type;
    auto* to = column<T>(out);
    const auto* from = column<T>(x);
    using S = std::remove_pointer_t<decltype(to)>;
    std::fill_n(to, size_of(out), static_cast<S>(identity_of<T>(n.attr.combiner)));
    walk(x.extents, row_major(x.extents), strides, 0, 0, [&](std::int64_t i, std::int64_t j) {
      to[j] = static_cast<S>(pointwise_scalar<T>(n.attr.combiner, static_cast<T>(to[j]), static_cast<T>(from[i]), T{}));
    });
  });
}

/// Extents split at an axis: what is before it, the axis, what is after it.
struct split {
  std::int64_t outer = 1, length = 1, inner = 1;

  split(const extents_t& extents, std::size_t axis) : length(extents[axis]) {
    for (std::size_t i = 0; i < extents.size(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= extents[i];
  }
};

inline void arg_reduce_array(const node& n, const literal_array& x, literal_array& out) {
  const split s(x.extents, static_cast<std::size_t>(n.attr.ints[0]));
  const bool largest = n.attr.combiner == op::maximum;
  with_computed(x.type, [&](auto computed) {
    using T = typename decltype(computed)::type;
    const auto* from = column<T>(x);
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t k = 0; k < s.inner; ++k) {
        const auto at = [&](std::int64_t i) { return static_cast<T>(from[(o * s.length + i) * s.inner + k]); };
        std::int64_t best = s.length > 0 ? 0 : -1;
        for (std::int64_t i = 1; i < s.length; ++i) {
          if (at(best) != at(best)) break;
          if (at(i) != at(i) || (largest ? at(i) > at(best) : at(i) < at(best))) best = i;
        }
        out.i[static_cast<std::size_t>(o * s.inner + k)] = best;
      }
  });
}

inline void scan_array(const node& n, const literal_array& x, const literal_array* factors, literal_array& out) {
  const split s(x.extents, static_cast<std::size_t>(n.attr.ints[0]));
  const bool reverse = n.attr.ints[1] != 0;
  with_computed(x.type, [&](auto computed) {
    using T = typename decltype(computed)::type;
    const auto* from = column<T>(x);
    const auto* by = factors ? column<T>(*factors) : nullptr;
    auto* to = column<T>(out);
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t k = 0; k < s.inner; ++k) {
        T running = identity_of<T>(n.attr.combiner);
        for (std::int64_t step = 0; step < s.length; ++step) {
          const std::int64_t i = (o * s.length + (reverse ? s.length - 1 - step : step)) * s.inner + k;
          if (by && step > 0) running = pointwise_scalar<T>(op::mul, running, static_cast<T>(by[i]), T{});
          running = pointwise_scalar<T>(n.attr.combiner, running, static_cast<T>(from[i]), T{});
          to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(running);
        }
      }
  });
}

/// body(index's offset, x's offset, the index, x's extent and stride on the axis) for every element of `index`.
template <class F>
void walk_index(const node& n, const literal_array& x, const literal_array& index, F&& body) {
  const auto axis = static_cast<std::size_t>(n.attr.ints[0]);
  extents_t strides = row_major(x.extents);
  const std::int64_t extent = x.extents[axis], stride = std::exchange(strides[axis], 0);
  walk(index.extents, row_major(index.extents), strides, 0, 0,
       [&](std::int64_t i, std::int64_t j) { body(i, j, index.i[static_cast<std::size_t>(i)], extent, stride); });
}

inline void gather_array(const node& n, const literal_array& x, const literal_array& index, literal_array& out) {
  with_elements(out, [&](auto* to) {
    const auto* from = column<std::remove_pointer_t<decltype(to)>>(x);
    walk_index(n, x, index, [&](auto i, auto base, std::int64_t at, std::int64_t extent, std::int64_t stride) {
      if (extent > 0) to[i] = from[base + std::clamp<std::int64_t>(at, 0, extent - 1) * stride];
    });
  });
}

inline void scatter_add_array(const node& n, const literal_array& base, const literal_array& index,
                              const literal_array& updates, literal_array& out) {
  out.f = base.f;
  out.i = base.i;
  with_elements(out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto* from = column<T>(updates);
    walk_index(n, base, index, [&](auto i, auto at0, std::int64_t at, std::int64_t extent, std::int64_t stride) {
      if (at < 0 || at >= extent) return;
      T& slot = to[at0 + at * stride];
      slot = vocabulary::apply_row<op::add, T>(slot, from[i]);
    });
  });
}

inline void dot_array(const node& n, const literal_array& a, const literal_array& b, literal_array& out) {
  const auto nb = n.attr.ints[0], nk = n.attr.ints[1];
  const auto part = [](const extents_t& e, std::int64_t from, std::int64_t to) {
    return count_of(extents_t(e.begin() + from, e.begin() + to));
  };
  const auto ra = static_cast<std::int64_t>(a.extents.size()), rb = static_cast<std::int64_t>(b.extents.size());
  const std::int64_t batch = part(a.extents, 0, nb), rows = part(a.extents, nb, ra - nk),
                     inner = part(a.extents, ra - nk, ra), columns = part(b.extents, nb + nk, rb);
  fill(out, {});
  with_elements(out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto *x = column<T>(a), *y = column<T>(b);
    for (std::int64_t r = 0; r < batch * rows; ++r)
      for (std::int64_t k = 0; k < inner; ++k) {
        const T left = x[r * inner + k];
        const auto* right = y + (r / rows * inner + k) * columns;
        for (std::int64_t c = 0; c < columns; ++c) {
          T& slot = to[r * columns + c];
          slot = vocabulary::apply_row<op::add, T>(slot, vocabulary::apply_row<op::mul, T>(left, right[c]));
        }
      }
  });
}

/// The operands of one node, bound to numbers.
struct step {
  const node& n;
  series<const literal_array*> in;
  std::span<const std::int64_t> sizes;

  std::int64_t bound(std::size_t k) const { return n.attr.dims[k].evaluate(sizes); }
};

inline void iota_array(const step& s, literal_array& out) {
  const split at(out.extents, static_cast<std::size_t>(s.n.attr.ints[0]));
  with_elements(out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    for (std::int64_t o = 0; o < at.outer * at.length; ++o)
      std::fill_n(to + o * at.inner, at.inner, static_cast<T>(o % at.length));
  });
}

/// permute, broadcast and slice: the result reads its operand at an offset, by strides.
inline void view_array(const step& s, literal_array& out) {
  const literal_array& x = *s.in[0];
  const std::size_t rank = out.extents.size();
  const extents_t from = row_major(x.extents);
  extents_t strides(rank, 0);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i)
    if (s.n.code == op::permute) strides[i] = from[static_cast<std::size_t>(s.n.attr.ints[i])];
    else if (s.n.code == op::broadcast) strides[i] = x.extents[i] == out.extents[i] ? from[i] : 0;
    else {
      strides[i] = from[i] * s.n.attr.ints[i];
      offset += from[i] * s.bound(rank + i);
    }
  if (count_of(out.extents) > 0) copy_box(out.extents, x, strides, offset, out, row_major(out.extents), 0);
}

inline void pad_array(const step& s, literal_array& out) {
  fill(out, s.n.attr.literal);
  const extents_t to = row_major(out.extents);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < to.size(); ++i) offset += to[i] * s.bound(i);
  copy_box(s.in[0]->extents, *s.in[0], row_major(s.in[0]->extents), 0, out, to, offset);
}

inline void concat_array(const step& s, literal_array& out) {
  const auto axis = static_cast<std::size_t>(s.n.attr.ints[0]);
  const extents_t to = row_major(out.extents);
  std::int64_t offset = 0;
  for (const auto* x : s.in) {
    copy_box(x->extents, *x, row_major(x->extents), 0, out, to, offset);
    offset += to[axis] * x->extents[axis];
  }
}

inline void structural(const step& s, literal_array& out) {
  const auto& in = s.in;
  switch (s.n.code) {
    case op::constant:
      return fill(out, s.n.attr.literal);
    case op::iota:
      return iota_array(s, out);
    case op::reshape:
      out.f = in[0]->f;
      out.i = in[0]->i;
      return;
    case op::permute:
    case op::broadcast:
    case op::slice:
      return view_array(s, out);
    case op::pad:
      return pad_array(s, out);
    case op::concat:
      return concat_array(s, out);
    case op::reduce:
      return reduce_array(s.n, *in[0], out);
    case op::arg_reduce:
      return arg_reduce_array(s.n, *in[0], out);
    case op::gather:
      return gather_array(s.n, *in[0], *in[1], out);
    case op::scatter_add:
      return scatter_add_array(s.n, *in[0], *in[1], *in[2], out);
    case op::dot:
      return dot_array(s.n, *in[0], *in[1], out);
    case op::size:
      return fill(out, {0, s.bound(0)});
    case op::scan:
      return scan_array(s.n, *in[0], in.size() > 1 ? in[1] : nullptr, out);
    default:
      throw internal_error("internal error: evaluate meets an unknown op");
  }
}

inline extents_t bind(const shape& extents, std::span<const std::int64_t> sizes) {
  extents_t e;
  for (const auto& d : extents) e.push_back(d.evaluate(sizes));
  return e;
}

[[noreturn]] inline void out_of_memory(const step& s, std::size_t count) {
  throw system_error(sinter::detail::located(
      "[" + std::string(name(s.n.code)) + "] out of memory: the reference needs " +
          std::to_string(8 * static_cast<double>(count) / (1 << 20)) + " MiB for a result of " + text_of(s.n.extents),
      s.n.where));
}

/// `spare`, if any, is an operand of a pointwise op with the result's dtype, and nobody's any more: the result's elements
/// take the place of its.
inline literal_array compute(step s, literal_array* spare = nullptr) {
  literal_array out{s.n.type, bind(s.n.extents, s.sizes), {}, {}};
  if (spare) {
    std::swap(out, *spare);
    std::replace(s.in.begin(), s.in.end(), static_cast<const literal_array*>(spare),
                 static_cast<const literal_array*>(&out));
  }
  const auto count = static_cast<std::size_t>(count_of(out.extents));
  if (count > std::size_t{1} << 44) out_of_memory(s, count);  // 2^47 bytes are all that a process can address
  try {
    if (is_float(out.type)) out.f.resize(count);
    else out.i.resize(count);
    if (is_pointwise(s.n.code)) {
      arrays in{};
      std::copy(s.in.begin(), s.in.end(), in.begin());
      pointwise(s.n.code, in, out);
    } else {
      structural(s, out);
    }
  } catch (const std::bad_alloc&) {
    out_of_memory(s, count);
  } catch (const std::length_error&) {
    out_of_memory(s, count);
  }
  round_elements(out);
  return out;
}

inline void check_input(const node& n, const literal_array& x, std::span<const std::int64_t> sizes) {
  const auto extents = bind(n.extents, sizes);
  const auto count = static_cast<std::size_t>(count_of(extents));
  if (x.type != n.type || x.extents != extents || size_of(x) != count)
    fail("evaluate",
         "input " + std::to_string(n.attr.ints[0]) + " is " + dtype_name(x.type) + " with " +
             std::to_string(size_of(x)) + " elements; the graph takes " + dtype_name(n.type) + text_of(n.extents),
         n.where);
}

inline series<char> is_picked(const graph& g, const series<node_id>& live, node_id id);
inline series<literal_array> opaque_results(const node& n, const series<const literal_array*>& in,
                                            const series<char>& picked, std::span<const std::int64_t> sizes);

}  // namespace detail

SINTER_API series<literal_array> evaluate(const graph& g, std::span<const literal_array> inputs,
                                          std::span<const std::int64_t> sizes) {
  if (inputs.size() != g.inputs.size())
    fail("evaluate",
         "got " + std::to_string(inputs.size()) + " inputs; the graph takes " + std::to_string(g.inputs.size()));
  const auto live = g.live();
  series<std::size_t> uses(g.size(), 0);
  for (auto id : live)
    for (auto operand : g[id].in) ++uses[operand];
  for (auto id : g.outputs) ++uses[id];

  series<literal_array> computed(g.size());
  series<const literal_array*> at(g.size(), nullptr);
  sorted_map<node_id, series<literal_array>> steps;  // results of the opaque nodes
  for (auto id : live) {
    const node& n = g[id];
    if (n.code == op::input) {
      at[id] = &inputs[static_cast<std::size_t>(n.attr.ints[0])];
      detail::check_input(n, *at[id], sizes);
      continue;
    }
    detail::step s{n, {}, sizes};
    if (n.code == op::pick) {
      at[id] = &steps.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
      continue;
    }
    for (auto operand : n.in) s.in.push_back(at[operand]);
    if (n.code == op::opaque) {
      steps[id] = detail::opaque_results(n, s.in, detail::is_picked(g, live, id), sizes);
      for (auto operand : n.in)
        if (--uses[operand] == 0) computed[operand] = {};
      continue;
    }
    literal_array* spare = nullptr;
    for (auto operand : n.in)
      if (is_pointwise(n.code) && uses[operand] == 1 && at[operand] == &computed[operand] && g[operand].type == n.type)
        spare = &computed[operand];
    computed[id] = detail::compute(std::move(s), spare);
    at[id] = &computed[id];
    for (auto operand : n.in)
      if (--uses[operand] == 0) computed[operand] = {};
  }

  series<literal_array> results;
  for (auto id : g.outputs) {
    if (--uses[id] == 0 && at[id] == &computed[id]) results.push_back(std::move(computed[id]));
    else results.push_back(*at[id]);
  }
  return results;
}

}  // namespace sinter::ir
