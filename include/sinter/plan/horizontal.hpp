// plan/horizontal.hpp: small kernels that do not depend on one another, and can share a launch.
#pragma once

#include <algorithm>

#include "../base/sorted.hpp"
#include "alike.hpp"
#include "target.hpp"

namespace sinter::engine::plan {

/// Elements from which on a kernel fills a GPU by itself.
inline constexpr std::int64_t most_shared_elements = 4 << 20;
/// Of a launch that several kernels share: bodies, buffers that are parameters, and instructions (each is compiled).
inline constexpr std::size_t most_shared_bodies = 32, most_shared_buffers = 240, most_shared_instructions = 800;
/// So many kernels that are alike share one body, which finds their buffers and numbers in a table.
inline constexpr std::size_t least_alike = 4;

namespace detail {

inline bool can_share(const kernel& k) {
  if (k.is_product() || k.is_scan() || k.is_opaque()) return false;
  for (const auto& i : k.body)
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) return false;
  for (const auto& s : k.stores)
    if (s.accumulate) return false;
  dim count = 1;
  for (const auto& a : k.axes) count *= a.extent.number().value_or(a.hint);
  return count.number().value_or(most_shared_elements) < most_shared_elements;
}

/// The length of the longest chain of kernels that have to run before each: what reads or adds to a buffer follows those
/// that wrote it.
inline series<std::size_t> levels_of(const series<kernel>& kernels) {
  series<std::size_t> level(kernels.size());
  sorted_map<int, std::size_t> written;  // one more than the level of the last writer
  std::size_t effects = 0;               // one more than the level of the last
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    bool adds = false;
    for (const auto& s : kernels[k].stores) adds = adds || s.accumulate;
    for (const auto& b : kernels[k].buffers)
      if (const auto w = written.find(b.id); w != written.end() && (!b.written || adds))
        level[k] = std::max(level[k], w->second);
    if (kernels[k].has_effect) {
      level[k] = std::max(level[k], effects);
      effects = level[k] + 1;
    }
    for (const auto& b : kernels[k].buffers)
      if (b.written) written[b.id] = std::max(written[b.id], level[k] + 1);
  }
  return level;
}

/// Kernels of one level that share a body, and what they take of a launch's parameters in bytes.
struct kin {
  std::size_t buffers = 0;           ///< that all of them have in common
  std::int64_t first = 0, each = 0;  ///< the first of a launch takes both
  int number = 4;                    ///< bytes of a number in the table
};

inline kin kin_of(std::span<const kernel* const> alike) {
  const common_kernel c = in_common(alike);
  kin out;
  out.buffers = c.code.buffers.size() - c.apart.size();
  out.number = needs_wide_index(c.code) ? 8 : 4;
  // A few that are left for a launch have a body each.
  out.first = static_cast<std::int64_t>(8 * (least_alike - 1) * out.buffers);
  out.each = static_cast<std::int64_t>(8 * c.apart.size()) +
             out.number * static_cast<std::int64_t>(c.numbers.size() + 1);  // and the number of its first block
  return out;
}

/// Per kernel its number among the kins, or -1.
inline series<int> kins_of(const series<kernel>& kernels, const series<std::size_t>& level, series<kin>& kins) {
  sorted_map<std::pair<std::size_t, std::string>, series<std::size_t>> alike;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (can_share(kernels[k])) alike[{level[k], form_of(kernels[k])}].push_back(k);
  series<int> of(kernels.size(), -1);
  for (const auto& found : alike) {
    if (found.second.size() < least_alike) continue;
    series<const kernel*> members;
    for (const std::size_t k : found.second) {
      members.push_back(&kernels[k]);
      of[k] = static_cast<int>(kins.size());
    }
    kins.push_back(kin_of({members.data(), members.size()}));
  }
  return of;
}

/// A launch that more kernels may share.
struct open_launch {
  std::size_t group = 0, bodies = 0, buffers = 0, instructions = 0;
  std::int64_t bytes = 0;  ///< of parameters
  int number = 0;          ///< bytes of a number in its table; 0: none so far
  series<int> kins;

  /// Takes the kernel, which has no kin where that is null, if there is room.
  bool take(const kernel& k, const kin* its, int which, std::int64_t most_bytes) {
    const bool known = its && std::find(kins.begin(), kins.end(), which) != kins.end();
    const std::size_t own = known ? 0 : its ? its->buffers : k.buffers.size();
    const std::int64_t more =
        its ? its->each + (known ? 0 : its->first) : static_cast<std::int64_t>(8 * k.buffers.size());
    const std::size_t text = known ? 0 : k.body.size();
    if (bodies > 0 && (bodies + !known > most_shared_bodies || buffers + own > most_shared_buffers ||
                       instructions + text > most_shared_instructions ||
                       (its && number != 0 && number != its->number) || bytes + more > most_bytes))
      return false;
    bodies += !known;
    buffers += own;
    instructions += text;
    bytes += more;
    if (its) number = its->number;
    if (its && !known) kins.push_back(which);
    return true;
  }
};

}  // namespace detail

/// The kernels by number, in groups that run one after another; those of a group run at once, in one launch whose parameters take
/// `most_bytes` at most. Only small pointwise kernels share a group.
SINTER_API series<series<std::size_t>> horizontal(const series<kernel>& kernels, std::int64_t most_bytes = 4096) {
  const auto level = detail::levels_of(kernels);
  series<detail::kin> kins;
  const auto own = detail::kins_of(kernels, level, kins);
  series<std::size_t> order(kernels.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  sort_stably(order, [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  series<series<std::size_t>> out;
  series<detail::open_launch> open;  // of one level
  std::size_t at = 0;
  for (std::size_t k : order) {
    const kernel& c = kernels[k];
    if (level[k] != at) open.clear();
    at = level[k];
    const detail::kin* const its = own[k] < 0 ? nullptr : &kins[static_cast<std::size_t>(own[k])];
    const bool sized = std::all_of(c.axes.begin(), c.axes.end(), [](const axis& a) { return a.extent.is_number(); });
    if (!detail::can_share(c) || (!its && !sized)) {
      out.push_back({k});
      continue;
    }
    // What has a body of its own goes with its neighbours.
    auto* where = its || open.empty() ? open.begin() : open.end() - 1;
    while (where != open.end() && !where->take(c, its, own[k], most_bytes)) ++where;
    if (where == open.end()) {
      open.emplace_back();
      where = open.end() - 1;
      where->group = out.size();
      where->bytes = 16 + 8 * c.symbols;  // the scratch address, the end of the table, the sizes
      where->take(c, its, own[k], most_bytes);
      out.emplace_back();
    }
    out[where->group].push_back(k);
  }
  return out;
}

}  // namespace sinter::engine::plan
