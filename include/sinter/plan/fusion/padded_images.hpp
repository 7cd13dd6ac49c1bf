// plan/fusion/padded_images.hpp: pads of images that convolutions of a library read through, so that no padded copy is made.
#pragma once

#include <bit>

#include "fuse.hpp"

namespace sinter::engine::plan {

namespace detail {

/// Whether all readers of a node are products behind views, and whether windows are among these views.
struct read_by_products {
  bool only = true, windows = false;
};

inline bool is_pad_of_zeros(const ir::graph& g, node_id id) {
  const ir::node& v = g[id];
  if (v.code != ir::op::pad || std::bit_cast<std::uint64_t>(v.attr.literal.f) != 0 || v.attr.literal.i != 0)
    return false;
  const auto known = [](const dim& d) { return d.is_number() && *d.number() >= 0; };
  return std::all_of(v.attr.dims.begin(), v.attr.dims.end(), known) &&
         std::all_of(v.extents.begin(), v.extents.end(), known);
}

/// Per node, whether it is a pad with zeros that only windows of products read.
inline series<char> pads_of_windows(const ir::graph& g) {
  series<read_by_products> read(g.size());
  for (auto id : g.outputs) read[id].only = false;
  const auto live = g.live();
  series<char> out(g.size(), 0);
  for (std::size_t n = live.size(); n-- > 0;) {
    const node_id id = live[n];
    const ir::node& v = g[id];
    out[id] = read[id].only && read[id].windows && is_pad_of_zeros(g, id);
    const bool is_product = v.code == ir::op::dot, is_view = ir::is_view(v.code);
    for (auto in : v.in) {
      read[in].only = read[in].only && (is_product || (is_view && read[id].only));
      read[in].windows = read[in].windows || (is_view && (v.code == ir::op::window || read[id].windows));
    }
  }
  return out;
}

/// Stores the pads behind the operands of a product instead.
inline void store_pads(const ir::graph& g, const kernel& k, series<char>& read_through) {
  for (const auto& i : k.body) {
    if (i.kind != kind::product) continue;
    for (node_id id : g[i.origin].in) {
      while (ir::is_view(g[id].code) && !read_through[id]) id = g[id].in[0];
      read_through[id] = 0;
    }
  }
}

}  // namespace detail

/// Like fuse(), with pads that convolutions of a library read through.
SINTER_API fused fuse_with_libraries(const ir::graph& g, memory_map inputs, const target& t, bool reasons = false) {
  if (t.convolves == nullptr) return fuse(g, inputs, t, reasons);
  inputs.read_through = detail::pads_of_windows(g);
  for (;;) {
    fused out = fuse(g, inputs, t, reasons);
    bool all = true;
    for (const kernel& k : out.kernels) {
      if (!k.is_product() || k.products[0].within.empty() || as_library_call(with_sizes(k, inputs.hints), t)) continue;
      detail::store_pads(g, k, inputs.read_through);
      all = false;
    }
    if (all) return out;
  }
}

}  // namespace sinter::engine::plan
