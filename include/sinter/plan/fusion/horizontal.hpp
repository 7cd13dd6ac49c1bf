// plan/fusion/horizontal.hpp: small independent kernels that can share a launch.
#pragma once

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "../../base/sorted.hpp"
#include "../kernel/common.hpp"
#include "../kernel/target.hpp"

namespace sinter::engine::plan {

/// Kernels with more elements fill a GPU alone. A saved launch then matters little, and only kernels that are alike share it.
/// A body of another form may need more registers, which slows down a kernel that waits for memory.
inline constexpr std::int64_t max_shared_elements = 4 << 20;
/// Kernels of fewer elements that only make results wait for others. A GPU would take about as long to begin and end them as to run
/// them.
inline constexpr std::int64_t max_waiting_elements = 1 << 20;
/// Limits of a shared launch: bodies, buffers that are parameters, and instructions (each is compiled).
inline constexpr std::size_t max_shared_bodies = 32, max_shared_buffers = 240, max_shared_instructions = 800;
/// The greatest number of its blocks, and the least work of a block, in elements.
inline constexpr std::int64_t max_shared_blocks = 0x7fffffff, min_block_elements = 256;

namespace detail {

/// The kernels with which a kernel may share a launch.
enum class launch_compatibility : std::uint8_t { none, batch, any };

/// Whether later kernels touch no buffer of a kernel, but for reading its operands.
inline bool makes_only_results(const kernel& k, const sorted_set<int>& read) {
  return std::none_of(k.buffers.begin(), k.buffers.end(),
                      [&](const auto& b) { return b.written && read.contains(b.id); });
}

/// `read` has the buffers that kernels read.
inline launch_compatibility launch_compatibility_of(const kernel& k, const sorted_set<int>& read) {
  if (k.is_product() || k.stands_alone() || k.is_opaque() || k.replaces) return launch_compatibility::none;
  for (const auto& i : k.body)
    if (i.kind == kind::reduce || i.kind == kind::arg_reduce) return launch_compatibility::none;
  for (const auto& s : k.stores)
    if (s.accumulate) return launch_compatibility::none;
  const std::int64_t n = traced_elements(k);
  if (n < max_shared_elements) return launch_compatibility::any;
  // A kernel of more axes is better printed alone, with tiles for transposed reads, and divisions by constants. Intermediates
  // that one launch makes all occupy memory at the same time.
  return k.axes.size() == 1 && makes_only_results(k, read) && n / min_block_elements < max_shared_blocks
             ? launch_compatibility::batch
             : launch_compatibility::none;
}

/// The length of the longest chain of kernels that must run before each. Readers of a buffer, and kernels that add to it,
/// follow its writers.
inline series<std::size_t> levels_of(const series<kernel>& kernels) {
  series<std::size_t> level(kernels.size());
  sorted_map<int, std::size_t> written;  // one more than the level of the last writer
  std::size_t effects = 0;               // one more than the level of the last one
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

/// The buffers that a copy for a scatter reads. Others read such a base before the copy, which may then be left out.
inline sorted_set<int> copied_bases(const series<kernel>& kernels) {
  sorted_set<int> bases;
  for (const kernel& k : kernels)
    if (k.replaces)
      for (const auto& b : k.buffers)
        if (!b.written) bases.insert(b.id);
  return bases;
}

/// The last level at which kernel k can run: its results are read behind it, and other kernels read its operands there or
/// later, so that nothing stays in memory for longer.
inline std::size_t last_level_of(std::size_t k, const series<kernel>& kernels, const series<series<std::size_t>>& users,
                                 const sorted_set<int>& bases, const series<std::size_t>& level) {
  std::size_t last = std::numeric_limits<std::size_t>::max();
  bool is_read = false;
  for (const auto& b : kernels[k].buffers) {
    if (!b.written && bases.contains(b.id)) return level[k];
    std::size_t others = 0;
    for (const std::size_t by : users[static_cast<std::size_t>(b.id)]) {
      if (by == k) continue;
      is_read = is_read || b.written;
      if (b.written) last = std::min(last, std::max<std::size_t>(level[by], 1) - 1);
      else others = std::max(others, level[by]);
    }
    if (!b.written) last = std::min(last, others);
  }
  return is_read ? std::max(last, level[k]) : level[k];
}

/// Kernels that share launches by shape, such as sums of squares of each gradient, wait for others of their shape until their
/// results are read.
inline void wait_for_reader(const series<kernel>& kernels, series<std::size_t>& level) {
  const auto users = users_of(kernels);
  const auto bases = copied_bases(kernels);
  sorted_map<std::size_t, std::string> forms;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (shares_by_shape(kernels[k])) forms.emplace(k, shape_form_of(kernels[k], widest_vector(kernels[k])));
  for (bool moved = true; moved;) {
    moved = false;
    sorted_map<std::pair<std::size_t, std::string>, series<std::size_t>> alike;
    for (const auto& [k, form] : forms) alike[{last_level_of(k, kernels, users, bases, level), form}].push_back(k);
    for (const auto& found : alike)
      for (const std::size_t k : found.second) {
        if (found.second.size() < min_alike || level[k] == found.first.first) continue;
        level[k] = found.first.first;
        moved = true;
      }
  }
}

/// Small kernels that only make results, such as updates of parameters, wait for the next such kernels, until they have
/// max_waiting_elements together.
inline void wait_for_compatible(const series<kernel>& kernels, const series<launch_compatibility>& with,
                                series<std::size_t>& level) {
  const auto users = users_of(kernels);
  const auto bases = copied_bases(kernels);
  const auto waits = [&](std::size_t k) {
    return with[k] == launch_compatibility::any &&
           std::none_of(kernels[k].buffers.begin(), kernels[k].buffers.end(), [&](const auto& b) {
             return b.written ? users[static_cast<std::size_t>(b.id)].size() > 1 : bases.contains(b.id);
           });
  };
  series<std::size_t> results;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (waits(k)) results.push_back(k);
  sort_stably(results, [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  std::int64_t together = 0;
  for (std::size_t n = 0, first = 0; n < results.size(); ++n) {
    together += traced_elements(kernels[results[n]]);
    if (together < max_waiting_elements && n + 1 < results.size()) continue;
    for (; first <= n; ++first) level[results[first]] = level[results[n]];
    together = 0;
  }
}

/// Kernels of one level that share a body, and their share of a launch.
struct body_group {
  std::size_t buffers = 0;  ///< common to all of them
  std::int64_t bytes = 0;   ///< bytes of parameters
};

inline body_group body_group_of(std::span<const kernel* const> alike) {
  const common_kernel c = in_common(alike);
  // The last few kernels of a launch have separate bodies.
  return {c.code.buffers.size() - c.apart.size(),
          static_cast<std::int64_t>(8 * (min_alike - 1) * c.code.buffers.size())};
}

/// For each kernel, the index of its group, or -1.
inline series<int> body_groups_of(const series<kernel>& kernels, const series<launch_compatibility>& with,
                                  const series<std::size_t>& level, series<body_group>& groups) {
  sorted_map<std::pair<std::size_t, std::string>, series<std::size_t>> alike;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (with[k] != launch_compatibility::none) alike[{level[k], form_of(kernels[k])}].push_back(k);
  series<int> of(kernels.size(), -1);
  for (const auto& found : alike) {
    if (found.second.size() < min_alike) continue;
    series<const kernel*> members;
    for (const std::size_t k : found.second) {
      members.push_back(&kernels[k]);
      of[k] = static_cast<int>(groups.size());
    }
    groups.push_back(body_group_of({members.data(), members.size()}));
  }
  return of;
}

/// For each kernel, the first kernel of its level and shape, with which it shares a launch; its own number if it shares none.
inline series<std::size_t> first_of_shape(const series<kernel>& kernels, const series<std::size_t>& level) {
  std::unordered_map<std::string, series<std::size_t>> alike;
  series<std::size_t> first(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    first[k] = k;
    if (!shares_by_shape(kernels[k])) continue;
    std::string form = shape_form_of(kernels[k], widest_vector(kernels[k]));
    ir::detail::append(form, level[k]);
    alike[std::move(form)].push_back(k);
  }
  for (const auto& found : alike)
    if (found.second.size() >= min_alike)
      for (const std::size_t k : found.second) first[k] = found.second[0];
  return first;
}

/// A launch that more kernels can join.
struct open_launch {
  std::size_t group = 0, bodies = 0, buffers = 0, instructions = 0;
  std::int64_t bytes = 0, blocks = 0;  ///< of parameters; the upper bound
  series<int> groups;

  /// Adds the kernel, whose group may be null, if there is room.
  bool take(const kernel& k, const body_group* its, int which, std::int64_t max_bytes) {
    const bool known = its && std::find(groups.begin(), groups.end(), which) != groups.end();
    const std::size_t own = known ? 0 : its ? its->buffers : k.buffers.size();
    const std::int64_t more = known ? 0 : its ? its->bytes : static_cast<std::int64_t>(8 * k.buffers.size());
    const std::size_t text = known ? 0 : k.body.size();
    const std::int64_t its_blocks = traced_elements(k) / min_block_elements + 1;
    if (bodies > 0 && (bodies + !known > max_shared_bodies || buffers + own > max_shared_buffers ||
                       instructions + text > max_shared_instructions || bytes + more > max_bytes ||
                       blocks + its_blocks > max_shared_blocks))
      return false;
    bodies += !known;
    buffers += own;
    instructions += text;
    bytes += more;
    blocks += its_blocks;
    if (its && !known) groups.push_back(which);
    return true;
  }
};

/// Whether kernels write literals alone, such as the zeros to which a scatter adds.
inline bool are_fills(const series<kernel>& kernels, const series<std::size_t>& group) {
  return std::all_of(group.begin(), group.end(), [&](std::size_t k) {
    const kernel& one = kernels[k];
    return !one.is_opaque() && !one.has_effect &&
           std::all_of(one.buffers.begin(), one.buffers.end(), [](const auto& b) { return b.written || b.by_value; });
  });
}

/// Moves fills directly before the first other group that touches their buffers: until then their memory is free.
inline void delay_fills(const series<kernel>& kernels, series<series<std::size_t>>& groups) {
  series<series<std::size_t>> out;
  sorted_map<int, std::size_t> waiting;  // for each buffer that a delayed group writes, the group
  series<char> done(groups.size(), 0);
  const auto release = [&](std::size_t g) {
    if (!std::exchange(done[g], char{1})) out.push_back(std::move(groups[g]));
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool waits = are_fills(kernels, groups[g]);
    for (const std::size_t k : groups[g])
      for (const auto& b : kernels[k].buffers)
        if (const auto at = waiting.find(b.id); at != waiting.end()) release(at->second);
    if (!waits) {
      release(g);
      continue;
    }
    for (const std::size_t k : groups[g])
      for (const auto& b : kernels[k].buffers) waiting[b.id] = g;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) release(g);
  groups = std::move(out);
}

}  // namespace detail

/// The kernels' numbers in groups that run one after another. Kernels of a group run at once, in one launch whose parameters
/// take at most `max_bytes` without its table (emit/cuda/shared.hpp). Pointwise kernels share a group if they are small, or
/// are alike, have one axis and make results. Other kernels share a group if they are small and have one shape
/// (shares_by_shape).
SINTER_API series<series<std::size_t>> horizontal(const series<kernel>& kernels, std::int64_t max_bytes = 4096) {
  auto level = detail::levels_of(kernels);
  detail::wait_for_reader(kernels, level);
  sorted_set<int> read;
  for (const kernel& k : kernels)
    for (const auto& b : k.buffers)
      if (!b.written) read.insert(b.id);
  series<detail::launch_compatibility> with;
  for (const kernel& k : kernels) with.push_back(detail::launch_compatibility_of(k, read));
  detail::wait_for_compatible(kernels, with, level);
  series<detail::body_group> groups;
  const auto own = detail::body_groups_of(kernels, with, level, groups);
  series<std::size_t> order(kernels.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  sort_stably(order, [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  const auto with_shape = detail::first_of_shape(kernels, level);
  series<std::size_t> launch(kernels.size(), kernels.size());  // of a shape, at its first kernel
  series<series<std::size_t>> out;
  series<detail::open_launch> open;  // of one level
  std::size_t at = 0;
  for (std::size_t k : order) {
    const kernel& c = kernels[k];
    if (level[k] != at) open.clear();
    at = level[k];
    if (shares_by_shape(c)) {
      std::size_t& where = launch[with_shape[k]];
      if (where == kernels.size()) where = out.size(), out.emplace_back();
      out[where].push_back(k);
      continue;
    }
    const detail::body_group* const its = own[k] < 0 ? nullptr : &groups[static_cast<std::size_t>(own[k])];
    const bool sized = std::all_of(c.axes.begin(), c.axes.end(), [](const axis& a) { return a.extent.is_number(); });
    if (!its && (with[k] != detail::launch_compatibility::any || !sized)) {
      out.push_back({k});
      continue;
    }
    // A kernel with its own body joins its neighbours.
    auto* where = its || open.empty() ? open.begin() : open.end() - 1;
    while (where != open.end() && !where->take(c, its, own[k], max_bytes)) ++where;
    if (where == open.end()) {
      open.emplace_back();
      where = open.end() - 1;
      where->group = out.size();
      where->bytes = 16 + 8 * c.symbols;  // the scratch address, the table's, the sizes
      where->take(c, its, own[k], max_bytes);
      out.emplace_back();
    }
    out[where->group].push_back(k);
  }
  detail::delay_fills(kernels, out);
  return out;
}

}  // namespace sinter::engine::plan
