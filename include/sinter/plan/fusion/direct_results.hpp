// plan/fusion/direct_results.hpp: products that store their result where a copy in another order of axes would put it.
#pragma once

#include <algorithm>
#include <optional>
#include <variant>

#include "../lowering/library_call.hpp"
#include "in_place.hpp"

namespace sinter::engine::plan::detail {

/// One array as numbers: offset, and the strides of a kernel's axes.
struct plain_map {
  std::int64_t offset = 0;
  series<std::int64_t> stride;
};

inline std::optional<plain_map> plain(const affine& at, std::size_t axes) {
  plain_map out;
  const auto offset = at.offset.number();
  if (!offset || at.index >= 0) return std::nullopt;
  out.offset = *offset;
  for (std::size_t a = 0; a < axes; ++a) {
    const auto s = at.stride[a].number();
    if (!s || *s < 0) return std::nullopt;
    out.stride.push_back(*s);
  }
  return out;
}

/// The extents of a kernel's axes; empty if one is unknown.
inline series<std::int64_t> plain_extents(const kernel& k) {
  series<std::int64_t> out;
  for (const auto& a : k.axes)
    if (const auto n = a.extent.number(); n && *n > 0) out.push_back(*n);
    else return {};
  return out;
}

/// True for a kernel that copies elements of one array to others of another.
inline bool only_copies(const kernel& k) {
  return !k.is_opaque() && k.products.empty() && k.body.size() == 1 && k.body[0].kind == kind::load &&
         k.stores.size() == 1 && !k.stores[0].accumulate && k.stores[0].value == 0 &&
         !k.buffers[static_cast<std::size_t>(k.body[0].at.buffer)].by_value;
}

/// Where the copy puts the elements that a writer stores: its store's map; empty if it is not affine in the writer's axes. Each
/// of them goes to one axis of the copy, or to a part of it.
inline std::optional<plain_map> stored_by_copy(const kernel& writer, const kernel& copy) {
  const auto extents = plain_extents(writer), all = plain_extents(copy);
  const auto made = plain(writer.stores[0].at.at, writer.axes.size()),
             read = plain(copy.body[0].at.at, copy.axes.size()), put = plain(copy.stores[0].at.at, copy.axes.size());
  if (!made || !read || !put || extents.empty() || all.empty() || made->offset != read->offset) return std::nullopt;
  std::int64_t elements = 1, copied = 1;
  for (const auto e : extents) elements *= e;
  for (const auto e : all) copied *= e;
  if (elements != copied) return std::nullopt;
  struct part {
    std::int64_t times, extent;
  };
  series<series<part>> parts(all.size());
  plain_map out{put->offset, {}};
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const std::int64_t step = made->stride[a];
    if (extents[a] == 1) {
      out.stride.push_back(0);
      continue;
    }
    std::size_t best = all.size();
    for (std::size_t j = 0; j < all.size(); ++j)
      if (all[j] > 1 && read->stride[j] > 0 && step % read->stride[j] == 0 &&
          step / read->stride[j] * (extents[a] - 1) < all[j])
        best = j;
    if (best == all.size()) return std::nullopt;
    const std::int64_t times = step / read->stride[best];
    parts[best].push_back({times, extents[a]});
    out.stride.push_back(times * put->stride[best]);
  }
  // The parts of an axis are its digits.
  for (std::size_t j = 0; j < all.size(); ++j) {
    std::sort(parts[j].begin(), parts[j].end(), [](const part& x, const part& y) { return x.times < y.times; });
    std::int64_t next = 1;
    for (const part& x : parts[j]) {
      if (x.times != next) return std::nullopt;
      next *= x.extent;
    }
    if (next != all[j]) return std::nullopt;
  }
  return out;
}

/// Removes copies of products' results in another order of axes, if a library computes the product in that order. `changed`
/// receives the products' numbers. Returns the number of each remaining kernel.
inline series<std::size_t> with_direct_results(const ir::graph& g, series<kernel>& kernels, const target& t,
                                               series<char>& changed) {
  series<std::size_t> left;
  series<char> gone(kernels.size(), 0), given(g.size(), 0), now(kernels.size(), 0);
  for (const auto id : g.inputs) given[id] = 1;
  for (const auto id : g.outputs) given[memory_behind(g, id)] = given[id] = 1;
  const auto users = users_of(kernels);
  for (std::size_t k = 0; k < kernels.size() && t.convolves != nullptr; ++k) {
    const kernel& copy = kernels[k];
    if (!only_copies(copy)) continue;
    const auto& source = copy.buffers[static_cast<std::size_t>(copy.body[0].at.buffer)];
    const auto& to = copy.buffers[static_cast<std::size_t>(copy.stores[0].at.buffer)];
    const auto& of_source = users[static_cast<std::size_t>(source.id)];
    if (given[static_cast<std::size_t>(source.id)] || of_source.size() != 2 || of_source[1] != k ||
        source.type != to.type || users[static_cast<std::size_t>(to.id)].front() != k)
      continue;
    kernel product = kernels[of_source[0]];
    if (!product.is_product() || product.stores.size() != 1) continue;
    const auto place = stored_by_copy(product, copy);
    if (!place) continue;
    auto& s = product.stores[0];
    s.at.at.offset = place->offset;
    for (std::size_t a = 0; a < product.axes.size(); ++a) s.at.at.stride[a] = place->stride[a];
    auto& b = product.buffers[static_cast<std::size_t>(s.at.buffer)];
    b.id = to.id;
    b.alignment = to.alignment;
    const auto call = as_library_call(product, t);
    if (!call || !std::holds_alternative<convolution_call>(*call)) continue;
    kernels[of_source[0]] = std::move(product);
    now[of_source[0]] = gone[k] = 1;
  }
  series<kernel> kept;
  changed.clear();
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (!gone[k]) {
      kept.push_back(std::move(kernels[k]));
      left.push_back(k);
      changed.push_back(now[k]);
    }
  kernels = std::move(kept);
  return left;
}

}  // namespace sinter::engine::plan::detail
