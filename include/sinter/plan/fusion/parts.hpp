// plan/fusion/parts.hpp: kernels of equal shape, such as for many parts of an array: the sharing of code and of steps.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "horizontal.hpp"

namespace sinter::engine::plan {

/// The least number of kernels that share code in a step, and the greatest number of elements of each. A kernel's unread
/// temporaries stay in memory as long as the step takes.
inline constexpr std::size_t min_in_step = 8;
inline constexpr std::int64_t max_step_elements = 16 << 10;
/// From this many shapes on, one code has extents as numbers, too.
inline constexpr std::size_t min_shapes = 32;
/// The greatest number of a launch's parameters that are its own numbers.
inline constexpr std::size_t max_launch_numbers = 64;

/// The sharing of code and of steps among kernels.
struct shared_parts {
  series<common_kernel> codes;
  series<int> code;            ///< for each kernel, its code in `codes`; -1: its own
  series<std::size_t> member;  ///< for each kernel, its number in that code
  series<std::size_t> first;   ///< for each kernel, the first with the same text
  series<std::size_t> step;    ///< for each kernel, its step's number; ascending

  /// The kernel to print for a kernel that is the first of its text.
  const kernel& printed(const series<kernel>& kernels, std::size_t k) const {
    return code[k] < 0 ? kernels[k] : codes[static_cast<std::size_t>(code[k])].code;
  }
  /// Appends the numbers that a kernel's code takes after the sizes.
  void append_numbers(std::size_t k, std::span<const std::int64_t> sizes, series<long>& out) const {
    if (code[k] < 0) return;
    for (const auto& values : codes[static_cast<std::size_t>(code[k])].numbers)
      out.push_back(static_cast<long>(values[member[k]].evaluate(sizes)));
  }
  bool begins_step(std::size_t k) const { return k == 0 || step[k] != step[k - 1]; }
};

namespace detail {

/// Merges very many shapes that differ only in numbers. `members` has kernels by shape.
inline void join_shapes(series<series<std::size_t>>& members, const series<kernel>& kernels) {
  if (members.size() < min_shapes) return;
  std::unordered_map<std::string, series<std::size_t>> alike;
  for (std::size_t s = 0; s < members.size(); ++s) {
    const kernel& k = kernels[members[s][0]];
    if (!is_plain(k)) continue;
    alike[plain_form_of(k)].push_back(s);
  }
  for (const auto& found : alike) {
    const auto& shapes = found.second;
    if (shapes.size() < min_shapes) continue;
    auto& all = members[shapes[0]];
    for (std::size_t s = 1; s < shapes.size(); ++s) {
      all.insert(all.end(), members[shapes[s]].begin(), members[shapes[s]].end());
      members[shapes[s]].clear();
    }
    sort_stably(all, std::less());
  }
}

/// Gives one code to `min_alike` or more kernels of equal shape with different texts. `alike`, `vectors`: see codes_of().
inline void share_code(shared_parts& p, const series<kernel>& kernels, const series<std::size_t>& alike, bool vectors) {
  const auto widest = [&](const kernel& k) { return vectors ? widest_vector(k) : 1; };
  std::unordered_map<std::string, std::size_t> known;
  series<series<std::size_t>> members;  // by shape, with different texts
  series<std::size_t> shape(kernels.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].is_opaque() || kernels[k].by_recipe || alike[k] != k) continue;
    shape[k] = known.emplace(shape_form_of(kernels[k], widest(kernels[k])), members.size()).first->second;
    if (shape[k] == members.size()) members.emplace_back();
    members[shape[k]].push_back(k);
  }
  if (!vectors) join_shapes(members, kernels);
  for (const auto& all : members) {
    if (all.size() < min_alike) continue;
    series<const kernel*> of;
    for (const std::size_t k : all) of.push_back(&kernels[k]);
    common_kernel common = in_common({of.data(), of.size()}, widest(*of[0]));
    if (vectors && common.numbers.size() > max_launch_numbers) continue;
    for (std::size_t m = 0; m < all.size(); ++m) {
      p.code[all[m]] = static_cast<int>(p.codes.size());
      p.member[all[m]] = m;
      p.first[all[m]] = all[0];
    }
    p.codes.push_back(std::move(common));
  }
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (const std::size_t same = alike[k]; same < k)
      p.code[k] = p.code[same], p.member[k] = p.member[same], p.first[k] = p.first[same];
}

/// True for a kernel that may share a step.
inline bool is_small_part(const kernel& k) {
  return !k.is_opaque() && !k.replaces && traced_elements(k) <= max_step_elements &&
         std::none_of(k.stores.begin(), k.stores.end(), [](const store& s) { return s.accumulate; });
}

/// The end of the kernels from `first` on that can be one step: small consecutive kernels with one code, none of which reads
/// another's result. `writer` has for each buffer the last such `first`, plus 1.
inline std::size_t end_of_step(const shared_parts& p, const series<kernel>& kernels, std::size_t first,
                               series<std::size_t>& writer) {
  std::size_t k = first;
  for (; k < kernels.size() && p.first[k] == p.first[first] && is_small_part(kernels[k]); ++k) {
    const auto& buffers = kernels[k].buffers;
    const auto at = [&](const buffer_use& b) -> std::size_t& {
      const auto id = static_cast<std::size_t>(b.id);
      if (writer.size() <= id) writer.resize(id + 1, 0);
      return writer[id];
    };
    if (std::any_of(buffers.begin(), buffers.end(), [&](const auto& b) { return !b.written && at(b) == first + 1; }))
      break;
    for (const auto& b : buffers)
      if (b.written) at(b) = first + 1;
  }
  return k;
}

}  // namespace detail

/// `alike` has for each kernel the first that differs only in nodes, or kernels.size() if it shares nothing. With `vectors`,
/// the printed code uses vector accesses; otherwise offsets may be any.
SINTER_API shared_parts codes_of(const series<kernel>& kernels, const series<std::size_t>& alike, bool vectors) {
  shared_parts p;
  p.code.resize(kernels.size(), -1);
  p.member.resize(kernels.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) p.first.push_back(k);
  detail::share_code(p, kernels, alike, vectors);
  return p;
}

/// Gives one code for each shape to the kernels `shaped`, which share launches by shape, whatever their launches.
SINTER_API void share_shapes(shared_parts& p, const series<kernel>& kernels, const series<std::size_t>& shaped) {
  std::unordered_map<std::string, std::size_t> known;
  series<series<std::size_t>> members;  // by shape
  for (const std::size_t k : shaped) {
    const auto at = known.emplace(shape_form_of(kernels[k], detail::widest_vector(kernels[k])), members.size());
    if (at.second) members.emplace_back();
    members[at.first->second].push_back(k);
  }
  for (const auto& all : members) {
    series<const kernel*> of;
    for (const std::size_t k : all) {
      p.code[k] = static_cast<int>(p.codes.size());
      p.member[k] = of.size();
      of.push_back(&kernels[k]);
    }
    p.codes.push_back(in_common({of.data(), of.size()}));
  }
}

/// Like codes_of, with steps, whose kernels a host runs one after another.
SINTER_API shared_parts parts_of(const series<kernel>& kernels, const series<std::size_t>& alike) {
  shared_parts p = codes_of(kernels, alike, false);
  series<std::size_t> writer;
  std::size_t steps = 0;
  while (p.step.size() < kernels.size()) {
    const std::size_t first = p.step.size();
    const std::size_t end = std::max(first + 1, detail::end_of_step(p, kernels, first, writer));
    const bool together = end - first >= min_in_step;
    for (std::size_t k = first; k < end; ++k) p.step.push_back(together ? steps : steps++);
    steps += together;
  }
  return p;
}

}  // namespace sinter::engine::plan
