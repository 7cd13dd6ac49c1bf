// plan/kernel/common.hpp: kernels that differ only in buffers, numbers and literals become one kernel with a table of these.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <string>

#include "../../base/dtype.hpp"
#include "../../base/sorted.hpp"
#include "../../ir/push.hpp"
#include "kernel.hpp"
#include "reach.hpp"

namespace sinter::engine::plan {

/// This many kernels that are alike share one body, which reads their buffers and numbers from a table.
inline constexpr std::size_t min_alike = 4;

/// Limits for kernels that share a launch by shape, in fours or more: elements of a kernel that is not pointwise and stores
/// more than numbers, terms of a product's element, and terms of the whole product. Beyond them, a separate launch pays, and
/// for a product the matrix library.
inline constexpr std::int64_t max_elements_by_shape = 256 << 10, max_terms_by_shape = 256,
                              max_products_by_shape = 256 << 10;
/// The greatest number of elements of a row that is sorted in one launch.
inline constexpr std::int64_t max_sorted_by_shape = 2048;

/// The elements in the traced call; the largest number if they exceed 63 bits.
inline std::int64_t traced_elements(const kernel& k) {
  dim n = 1;
  for (const auto& a : k.axes) n *= a.extent.number().value_or(a.hint);
  return n.number().value_or(std::numeric_limits<std::int64_t>::max());
}

/// True for a reduction that stores only numbers, such as the sum of all squares of a gradient.
inline bool makes_numbers(const kernel& k) {
  return !k.is_product() && !k.stands_alone() && std::any_of(k.body.begin(), k.body.end(), is_reduction) &&
         std::all_of(k.stores.begin(), k.stores.end(), [](const store& s) {
           const auto& to = s.at.at;
           return to.index < 0 && std::all_of(to.stride.begin(), to.stride.end(), [](const dim& d) { return d.is(0); });
         });
}

/// True for kernels that share launches only with kernels of their shape: reductions to numbers, and small reductions,
/// products, scans, sorts and searches.
SINTER_API bool shares_by_shape(const kernel& k) {
  if (k.is_opaque() || k.replaces || k.has_effect) return false;
  if (std::any_of(k.stores.begin(), k.stores.end(), [](const auto& s) { return s.accumulate; })) return false;
  if (makes_numbers(k)) return true;
  const std::int64_t n = traced_elements(k);
  if (n > max_elements_by_shape) return false;
  if (k.is_product())
    return k.symbols == 0 && k.products[0].within.empty() && k.products[0].terms <= max_terms_by_shape &&
           n * k.products[0].terms <= max_products_by_shape;
  if (k.is_sort()) return k.extent(role::row).number().value_or(max_sorted_by_shape + 1) <= max_sorted_by_shape;
  return k.stands_alone() || std::any_of(k.body.begin(), k.body.end(), is_reduction);
}

/// One kernel for several kernels that are alike.
struct common_kernel {
  kernel code;                  ///< its symbols from `first` on stand for numbers that differ
  int first = 0;                ///< the kernels' own symbols come before
  series<series<dim>> numbers;  ///< for each symbol from `first` on, its value in each kernel
  series<int> apart;            ///< the buffers that differ, by number in each kernel
};

namespace detail {

enum class number_of : std::uint8_t { extent, stride, offset };

/// Calls f(number, kind of number) for the numbers of a kernel, in order.
template <class Kernel, class F>
void for_each_number(Kernel& k, F&& f) {
  const auto map = [&](auto& m) {
    f(m.offset, number_of::offset);
    for (auto& s : m.stride) f(s, number_of::stride);
    if (m.index >= 0) f(m.indirect, number_of::stride);
  };
  for (auto& a : k.axes) f(a.extent, number_of::extent);
  for (auto& i : k.body) {
    if (reads_memory(i) || i.kind == kind::position) map(i.at.at);
    if (i.kind == kind::inside)
      for (auto& r : i.ranges) map(r.at), f(r.extent, number_of::stride);
  }
  for (auto& s : k.stores) map(s.at.at);
  for (auto& p : k.products) {
    map(p.a.at), map(p.b.at);
    for (auto& r : p.within) map(r.at), f(r.extent, number_of::stride);
  }
}

/// True for a number that is part of the code, and not an entry of a table: an extent 0; for other kinds 0, 1 and negative
/// numbers.
inline bool is_fixed(const dim& n, number_of what) {
  return what == number_of::extent ? n.is(0) : n.is_number() && *n.number() < 2;
}

/// A literal as the number that instruction::at gives in its place: a float's bits.
inline std::int64_t bits_of(const instruction& i) {
  if (i.type == dtype::f64) return std::bit_cast<std::int64_t>(i.literal.f);
  if (is_float(i.type)) return std::bit_cast<std::int32_t>(static_cast<float>(i.literal.f));
  return i.literal.i;
}

/// The largest power of two up to `most` that divides n.
inline std::int64_t unit_of(const dim& n, std::int64_t most) {
  while (most > 1 && !n.divided_by(most)) most /= 2;
  return most;
}

/// The greatest number of elements of a vector.
inline std::int64_t widest_vector(const kernel& k) {
  std::size_t smallest = 16;
  if (k.axes.empty()) return 1;
  for (const auto& b : k.buffers) smallest = std::min(smallest, size_of(b.type));
  return static_cast<std::int64_t>(16 / smallest);
}

}  // namespace detail

/// Equal for kernels that are alike: equal instructions on equal types, and equal use of vectors and 64-bit indices. For
/// kernels without reductions. With `any_offset`, their start offsets in arrays may differ.
SINTER_API std::string form_of(const kernel& k, std::int64_t widest, bool any_offset) {
  std::string form;
  const auto add = [&](std::int64_t n) { form.append(std::to_string(n)).push_back(' '); };
  const auto add_all = [&](const auto& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const auto n : numbers) add(n);
  };
  add(static_cast<std::int64_t>(k.axes.size()));
  // With open extents, all kernels of a launch have the same indices (size_fit).
  add(k.symbols == 0 && needs_wide_index(k));
  for (const auto& i : k.body) {
    add(static_cast<std::int64_t>(i.kind));
    add(static_cast<std::int64_t>(i.code));
    add(static_cast<std::int64_t>(i.type));
    add_all(i.args);
    add(i.axes);
    add(static_cast<std::int64_t>(i.ranges.size()));
    add(i.at.buffer);
    add(i.at.at.index);
  }
  for (const auto& s : k.stores) {
    add(s.value);
    add(s.at.buffer);
    add(s.at.at.index);
  }
  for (const auto& b : k.buffers) {
    add(static_cast<std::int64_t>(b.type));
    add(b.written);
    add(b.by_value);
    add(b.by_value ? 0 : std::min<std::int64_t>(b.alignment, 16));
  }
  detail::for_each_number(k, [&](const dim& n, detail::number_of what) {
    // The only axis may end with a partial vector.
    const bool may_end = what == detail::number_of::extent && k.axes.size() == 1;
    if (any_offset && what == detail::number_of::offset) return;
    if (detail::is_fixed(n, what)) form.append(n.text());
    else form.append("n").append(std::to_string(may_end ? 1 : detail::unit_of(n, widest)));
    form.push_back(' ');
  });
  return form;
}

inline std::string form_of(const kernel& k) { return form_of(k, detail::widest_vector(k), false); }

namespace detail {

/// True for a kernel with a single pass over its elements.
inline bool is_plain(const kernel& k) {
  return !k.is_product() && !k.stands_alone() && !k.replaces && k.stages == 1 &&
         std::none_of(k.body.begin(), k.body.end(), is_reduction) &&
         std::none_of(k.stores.begin(), k.stores.end(), [](const store& s) { return s.accumulate; });
}

/// form_of() for a plain kernel with its loops, with any offsets.
inline std::string plain_form_of(const kernel& k) {
  std::string form = form_of(k, 1, true);
  for (const auto& a : k.axes) ir::detail::append(form, a.role);
  ir::detail::append(form, k.block), ir::detail::append(form, k.chunks), ir::detail::append(form, k.columns);
  return form;
}

}  // namespace detail

/// Equal for kernels of equal shape, of any kind: they differ only in nodes, in start offsets in arrays, and in literals.
/// Accesses in vectors of up to `widest` elements are the same in all.
SINTER_API std::string shape_form_of(const kernel& k, std::int64_t widest) {
  std::string form;
  const auto add = [&](auto n) { ir::detail::append(form, n); };
  const auto add_dim = [&](const dim& d) {
    add(d.is_number());
    if (const auto n = d.number()) add(*n);
    else add(reinterpret_cast<std::uintptr_t>(d.symbolic()));  // interned for the life of the process
  };
  const auto add_all = [&](const auto& numbers) {
    add(numbers.size());
    for (const auto n : numbers) add(n);
  };
  for (const auto& a : k.axes) add(a.role), add(a.hint);
  add(k.body.size());
  for (const auto& i : k.body) {
    add(i.kind), add(i.code), add(i.type), add(i.at.buffer), add(i.at.at.index), add(i.reverse), add(i.axes);
    add(i.span), add(i.stage), add(i.after_rows), add(i.kept), add(i.last_pass);
    add_all(i.args);
    add_all(i.over);
    add(i.ranges.size());
    for (const auto& r : i.ranges) add(r.likely), add(r.at.index);
    if (i.kind == kind::arg_reduce) {
      add_dim(i.at.at.offset);
      for (const dim& s : i.at.at.stride) add_dim(s);
    }
    if (i.kind == kind::sort || i.kind == kind::search)
      for (const auto& r : i.ranges) add_dim(r.at.offset), add_dim(r.extent);
  }
  add(k.stores.size());
  for (const auto& s : k.stores) {
    add(s.value), add(s.at.buffer), add(s.at.at.index), add(s.accumulate), add(s.combiner), add(s.apart);
    add_dim(s.bound);
  }
  add(k.buffers.size());
  for (const auto& b : k.buffers)
    add(b.type), add(b.written), add(b.by_value), add(std::min<std::int64_t>(b.alignment, 64));
  for (const auto& p : k.products) {
    add(p.a.buffer), add(p.b.buffer), add(p.terms), add(p.batch), add(p.m), add(p.type), add(p.within.size());
    for (const dim& d : p.k) add_dim(d);
  }
  add(k.symbols), add(k.fit.small), add(k.fit.narrow), add(k.fit.whole), add(k.fit.longest);
  add(k.stages), add(k.block), add(k.chunks), add(k.replaces), add(k.columns);
  detail::for_each_number(k, [&](const dim& n, detail::number_of what) {
    if (what == detail::number_of::offset) add(detail::unit_of(n, widest));
    else add_dim(n);
  });
  return form;
}

/// The kernels `alike` as one. Equal parts stay. Offsets are given as multiples of `widest` elements, if they are such.
SINTER_API common_kernel in_common(std::span<const kernel* const> alike, std::int64_t widest) {
  common_kernel c;
  c.code = *alike[0];
  c.first = c.code.symbols;
  for (std::size_t b = 0; b < c.code.buffers.size(); ++b) {
    buffer_use& all = c.code.buffers[b];
    bool differs = false;
    for (const auto* k : alike) {
      differs = differs || k->buffers[b].id != all.id;
      all.alignment = std::min(all.alignment, k->buffers[b].alignment);
    }
    if (differs) c.apart.push_back(static_cast<int>(b));
  }
  sorted_map<std::string, int> known;  // symbols by their values
  const auto number = [&](series<dim> values) {
    std::string key;
    for (const dim& v : values) key += v.text() + " ";
    const auto [at, fresh] = known.emplace(std::move(key), c.first + static_cast<int>(c.numbers.size()));
    if (fresh) c.numbers.push_back(std::move(values));
    return dim::symbol(at->second);
  };
  series<series<dim>> places;  // for each number in the kernel, its value in each of the kernels
  for (const auto* k : alike) {
    std::size_t at = 0;
    detail::for_each_number(*k, [&](const dim& n, detail::number_of) {
      if (places.size() == at) places.emplace_back();
      places[at++].push_back(n);
    });
  }
  std::size_t at = 0;
  detail::for_each_number(c.code, [&](dim& n, detail::number_of) {
    series<dim>& values = places[at++];
    if (std::all_of(values.begin(), values.end(), [&](const dim& v) { return v == n; })) return;
    std::int64_t unit = widest;
    for (const auto& v : values) unit = detail::unit_of(v, unit);
    for (auto& v : values) v = *v.divided_by(unit);
    n = number(std::move(values)) * dim(unit);
  });
  bool wide = false;
  for (std::size_t i = 0; i < c.code.body.size(); ++i) {
    instruction& all = c.code.body[i];
    if (all.kind != kind::literal) continue;
    series<dim> values;
    for (const auto* k : alike) values.push_back(detail::bits_of(k->body[i]));
    if (std::all_of(values.begin(), values.end(), [&](const dim& v) { return v == values[0]; })) continue;
    all.at.at.offset = number(std::move(values));
    wide = wide || size_of(all.type) == 8;
  }
  c.code.symbols = c.first + static_cast<int>(c.numbers.size());
  c.code.fit.small =
      !wide && std::none_of(alike.begin(), alike.end(), [](const auto* k) { return needs_wide_index(*k); });
  return c;
}
inline common_kernel in_common(std::span<const kernel* const> alike) {
  return in_common(alike, detail::widest_vector(*alike[0]));
}

}  // namespace sinter::engine::plan
