// plan/kernel/sized.hpp: a kernel for one set of sizes.
#pragma once

#include "kernel.hpp"

namespace sinter::engine::plan {

/// The kernel with every size a number.
SINTER_API kernel with_sizes(kernel k, std::span<const std::int64_t> sizes) {
  const auto bind = [&](dim& d) { d = d.evaluate(sizes); };
  const auto bind_map = [&](affine& m) {
    bind(m.offset);
    bind(m.indirect);
    for (auto& s : m.stride) bind(s);
  };
  for (auto& a : k.axes) bind(a.extent);
  for (auto& i : k.body) {
    bind_map(i.at.at);
    for (auto& r : i.ranges) bind_map(r.at), bind(r.extent);
  }
  for (auto& s : k.stores) bind_map(s.at.at), bind(s.bound);
  for (auto& p : k.products) {
    bind_map(p.a.at);
    bind_map(p.b.at);
    for (auto& e : p.k) bind(e);
    for (auto& r : p.within) bind_map(r.at), bind(r.extent);
  }
  k.symbols = 0;
  return k;
}

}  // namespace sinter::engine::plan
