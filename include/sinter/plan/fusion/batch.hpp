// plan/fusion/batch.hpp: kernels that differ in their buffers and numbers alone -> one kernel and a table of both.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "../kernel/kernel.hpp"
#include "../kernel/reach.hpp"

namespace sinter::engine::plan {

/// Kernels that are alike, as one.
struct common_kernel {
  kernel code;                  ///< its symbols from `first` on stand for numbers that differ
  int first = 0;                ///< symbols of the kernels themselves come before
  series<series<dim>> numbers;  ///< per symbol from `first` on: its value in each kernel
  series<int> apart;            ///< the buffers, by number in each kernel, that differ
};

namespace detail {

/// Calls f(number, is an extent) for the numbers of a kernel without reductions, in order.
template <class Kernel, class F>
void for_each_number(Kernel& k, F&& f) {
  const auto map = [&](auto& m) {
    f(m.offset, false);
    for (auto& s : m.stride) f(s, false);
    if (m.index >= 0) f(m.indirect, false);
  };
  for (auto& a : k.axes) f(a.extent, true);
  for (auto& i : k.body) {
    if (i.kind == kind::load || i.kind == kind::position) map(i.at.at);
    for (auto& r : i.ranges) map(r.at), f(r.extent, false);
  }
  for (auto& s : k.stores) map(s.at.at);
}

/// True for what code is printed for, and no entry of a table: an extent of nothing; elsewhere nothing, one, and what is negative.
inline bool is_fixed(const dim& n, bool is_extent) { return is_extent ? n.is(0) : n.is_number() && *n.number() < 2; }

/// The largest power of two up to `most` that divides n.
inline std::int64_t unit_of(const dim& n, std::int64_t most) {
  while (most > 1 && !n.divided_by(most)) most /= 2;
  return most;
}

/// Elements of a vector at most.
inline std::int64_t widest_vector(const kernel& k) {
  std::size_t smallest = 16;
  for (const auto& b : k.buffers) smallest = std::min(smallest, size_of(b.type));
  return static_cast<std::int64_t>(16 / smallest);
}

}  // namespace detail

/// Equal for kernels that are alike: they have equal instructions on equal types, and what one accesses in vectors, or with
/// indices of 64 bits, the others do, too. Of kernels without reductions.
SINTER_API std::string form_of(const kernel& k) {
  std::string form;
  const auto add = [&](std::int64_t n) { form.append(std::to_string(n)).push_back(' '); };
  const auto add_all = [&](const auto& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const auto n : numbers) add(n);
  };
  add(static_cast<std::int64_t>(k.axes.size()));
  // Of open extents all of a launch have the same indices (size_fit).
  add(k.symbols == 0 && needs_wide_index(k));
  for (const auto& i : k.body) {
    add(static_cast<std::int64_t>(i.kind));
    add(static_cast<std::int64_t>(i.code));
    add(static_cast<std::int64_t>(i.type));
    add_all(i.args);
    add(std::bit_cast<std::int64_t>(i.literal.f));
    add(i.literal.i);
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
  const std::int64_t widest = detail::widest_vector(k);
  detail::for_each_number(k, [&](const dim& n, bool is_extent) {
    // The only axis may end in part of a vector.
    if (detail::is_fixed(n, is_extent)) form.append(n.text());
    else form.append("n").append(std::to_string(is_extent && k.axes.size() == 1 ? 1 : detail::unit_of(n, widest)));
    form.push_back(' ');
  });
  return form;
}

/// `alike` as one kernel. What is equal in all of them stays as it is.
SINTER_API common_kernel in_common(std::span<const kernel* const> alike) {
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
  series<series<dim>> places;  // of each number in the kernel, its value in each of them
  for (const auto* k : alike) {
    std::size_t at = 0;
    detail::for_each_number(*k, [&](const dim& n, bool) {
      if (places.size() == at) places.emplace_back();
      places[at++].push_back(n);
    });
  }
  const std::int64_t widest = detail::widest_vector(c.code);
  std::size_t at = 0;
  detail::for_each_number(c.code, [&](dim& n, bool) {
    series<dim>& values = places[at++];
    if (std::all_of(values.begin(), values.end(), [&](const dim& v) { return v == n; })) return;
    std::int64_t unit = widest;
    for (const auto& v : values) unit = detail::unit_of(v, unit);
    for (auto& v : values) v = *v.divided_by(unit);
    auto found = std::find(c.numbers.begin(), c.numbers.end(), values) - c.numbers.begin();
    if (found == static_cast<std::ptrdiff_t>(c.numbers.size())) c.numbers.push_back(std::move(values));
    n = dim::symbol(c.first + static_cast<int>(found)) * dim(unit);
  });
  c.code.symbols = c.first + static_cast<int>(c.numbers.size());
  c.code.fit.small = std::none_of(alike.begin(), alike.end(), [](const auto* k) { return needs_wide_index(*k); });
  return c;
}

}  // namespace sinter::engine::plan
