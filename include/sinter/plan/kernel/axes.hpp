// plan/kernel/axes.hpp: reorders the axes of a kernel, and merges neighbouring axes.
#pragma once

#include <algorithm>

#include "kernel.hpp"

namespace sinter::engine::plan::detail {

/// Calls f(affine&) for every index map over the kernel's axes.
template <class F>
void for_each_map(kernel& k, F&& f) {
  for (auto& i : k.body) {
    if (reads_memory(i) || i.kind == kind::position || i.kind == kind::arg_reduce) f(i.at.at);
    for (auto& r : i.ranges) f(r.at);
  }
  for (auto& s : k.stores) f(s.at.at);
  for (auto& p : k.products) {
    f(p.a.at), f(p.b.at);
    for (auto& r : p.within) f(r.at);
  }
}

inline std::uint32_t moved(std::uint32_t mask, const series<std::size_t>& order) {
  std::uint32_t out = 0;
  for (std::size_t a = 0; a < order.size(); ++a) out |= (mask >> order[a] & 1u) << a;
  return out;
}

/// Renumbers the axes: new axis a is old axis order[a].
inline void reorder(kernel& k, const series<std::size_t>& order) {
  series<axis> axes;
  for (auto a : order) axes.push_back(k.axes[a]);
  k.axes = std::move(axes);
  for_each_map(k, [&](affine& m) {
    series<dim> strides;
    for (auto a : order) strides.push_back(m.stride[a]);
    strides.insert(strides.end(), m.stride.begin() + static_cast<std::ptrdiff_t>(order.size()), m.stride.end());
    m.stride = std::move(strides);
  });
  for (auto& i : k.body) {
    i.axes = moved(i.axes, order);
    series<int> over;
    for (std::size_t a = 0; a < order.size(); ++a)
      if (std::count(i.over.begin(), i.over.end(), static_cast<int>(order[a]))) over.push_back(static_cast<int>(a));
    i.over = std::move(over);
  }
}

/// Merges axis a + 1 into axis a.
inline void merge(kernel& k, std::size_t a) {
  k.axes[a].extent *= k.axes[a + 1].extent;
  k.axes.erase(k.axes.begin() + static_cast<std::ptrdiff_t>(a) + 1);
  for_each_map(k, [&](affine& m) { m.stride.erase(m.stride.begin() + static_cast<std::ptrdiff_t>(a)); });
  const std::uint32_t low = (1u << (a + 1)) - 1;
  for (auto& i : k.body) {
    i.axes = (i.axes & low) | (i.axes >> (a + 1) & 1u) << a | (i.axes >> 1 & ~low);
    series<int> over;
    for (int o : i.over)
      if (const int to = o > static_cast<int>(a) ? o - 1 : o; over.empty() || over.back() != to) over.push_back(to);
    i.over = std::move(over);
  }
}

/// True when axes a and a + 1 are one axis to every index map and reduction.
inline bool mergeable(kernel& k, std::size_t a) {
  if (k.axes[a].role != k.axes[a + 1].role) return false;
  bool same = true;
  const dim& e = k.axes[a + 1].extent;
  for_each_map(k, [&](const affine& m) { same = same && m.stride[a] == m.stride[a + 1] * e; });
  for (const auto& i : k.body) {
    auto has = [&](std::size_t x) { return std::count(i.over.begin(), i.over.end(), static_cast<int>(x)) > 0; };
    same = same && has(a) == has(a + 1);
  }
  return same;
}

}  // namespace sinter::engine::plan::detail
