// emit/cuda/layout.hpp: a kernel's index maps on a GPU: 32-bit indices, vector accesses, numbers of elements.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "../../base/sorted.hpp"
#include "../../plan/kernel/reach.hpp"
#include "../text.hpp"

namespace sinter::engine::emit {

using plan::needs_wide_index;

/// The target to which emitted kernels are tuned.
struct cuda_target {
  int capability = 90;
  int multiprocessors = 132;
  bool deterministic = false;  ///< scatter_add sums in order, and so do products of a scatter
  bool tf32 = false;           ///< f32 products may round their operands to tf32
  std::int64_t parameter_bytes = 4096;
};

/// A launch of an entry of the source on a grid of blocks x 1 x 1; none if `blocks` evaluates to 0.
struct cuda_launch {
  std::string entry;
  ir::dim blocks;
  int threads = 0;
  int shared = 0;        ///< bytes of dynamic shared memory
  series<bool> touches;  ///< for each buffer, parameters before the table's: whether the entry reads or writes it
  std::size_t text = 0;  ///< the index of the source text that contains the entry
};

/// Gives the blocks of a launch their kernel's memory and numbers; a parameter.
struct cuda_table {
  series<int> buffers;      ///< 8 bytes each: an address, or the element itself
  series<ir::dim> numbers;  ///< follow the buffers
  int number_bytes = 4;
  bool in_memory = false;  ///< too large for parameters: the parameter is its address
};

/// The launches run in order on one stream. Every entry has the same parameters: one for each buffer (a pointer, or the
/// element itself if by_value), `char* scratch`, and one `long` for each size symbol. Each entry has its own text, so that
/// NVRTC can compile two at the same time. A table follows the buffers that are not in it.
struct cuda_source {
  series<std::string> texts;  ///< one for each entry
  series<cuda_launch> launches;
  ir::dim scratch;         ///< bytes of device memory, uninitialised
  series<int> parameters;  ///< with a table: the buffers that are parameters, by number among all kernels'
  cuda_table table;        ///< absent without numbers
  std::size_t members =
      1;  ///< kernels of one shape: each has equally many blocks of a launch, and as much scratch memory
};

/// Largest grid.
inline constexpr std::int64_t most_blocks = 0x7fffffff;
/// Larger buffers that are read once bypass the caches in kernels that store little. This is 1 to 2 % faster; kernels that
/// store as much as they read would be up to 7 % slower (H200).
inline constexpr std::int64_t once_bytes = 48 << 20;

inline bool divides(std::int64_t n, const dim& d) {
  if (const auto x = d.number()) return *x % n == 0;
  return d.divided_by(n).has_value();
}
/// True when n divides a number that is not 0: then every group of n is whole.
inline bool fills(std::int64_t n, const dim& d) { return !d.is(0) && divides(n, d); }
inline dim ceil_div(const dim& a, std::int64_t b) {
  if (const auto n = a.number()) return (*n + b - 1) / b;
  return floor_div(a + dim(b - 1), b);
}
inline std::int64_t power_of_two(std::int64_t n) {
  std::int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Elements that a block sorts in shared memory, and elements of the longest row that can be sorted.
inline constexpr std::int64_t sorted_tile = 2048, most_sorted = std::int64_t{1} << 31;
/// The greatest number of elements that is sorted like n, by one network, or by equally many merges.
inline std::int64_t longest_sorted(std::int64_t n) {
  if (n <= sorted_tile) return power_of_two(std::max<std::int64_t>(n, 32));
  std::int64_t longest = sorted_tile;
  while (longest < n) longest *= 4;
  return longest;
}

/// The assumptions of code for the sizes of `k`, which are numbers, so that it serves other sizes, too: rows up to the next
/// power of two, or rows of exactly that length, without bounds checks.
inline plan::size_fit fit_of(const kernel& k) {
  constexpr std::int64_t shortest = 32, longest = 1 << 17;  // beyond, registers cannot hold a row
  plan::size_fit fit{.small = !needs_wide_index(k)};
  const auto n = k.extent(role::inner).number().value_or(longest + 1);
  const bool reduces = std::any_of(k.body.begin(), k.body.end(),
                                   [](const auto& i) { return i.kind == kind::reduce || i.kind == kind::arg_reduce; });
  if (reduces && n <= longest) fit.longest = power_of_two(std::max(n, shortest));
  fit.whole = reduces && fit.longest == n;
  if (k.is_sort()) fit.longest = longest_sorted(k.extent(role::row).number().value_or(most_sorted));
  return fit;
}

inline dtype type_of(const kernel& k, const plan::access& a) {
  return k.buffers[static_cast<std::size_t>(a.buffer)].type;
}

/// Whether two instructions are reductions, or scans, with the same combiner.
inline bool combines_alike(const kernel& k, int one, int other) {
  const auto &a = k.body[static_cast<std::size_t>(one)], &b = k.body[static_cast<std::size_t>(other)];
  const auto operand = [&](const instruction& i) { return k.body[static_cast<std::size_t>(i.args[0])].type; };
  return a.kind == b.kind && a.code == b.code && a.type == b.type && operand(a) == operand(b);
}

inline bool is_position(const instruction& i) { return i.kind == kind::position && i.at.at.index < 0; }
/// Whether positions are compared with a constant; 32 bits suffice if positions fit them.
inline bool compares_positions(const kernel& k, const instruction& i) {
  if (i.kind != kind::compute || ir::row(i.code).rule != ir::dtype_rule::comparison || i.args.size() != 2) return false;
  const auto &a = k.body[static_cast<std::size_t>(i.args[0])], &b = k.body[static_cast<std::size_t>(i.args[1])];
  return is_position(a) != is_position(b) && a.type == dtype::i64 && (a.axes & b.axes) == 0;
}

/// True when `width` elements along `axis` are one access: contiguous, and aligned because they start at multiples of width.
inline bool is_vector_access(const kernel& k, const plan::access& a, int axis, std::int64_t width) {
  if (axis < 0 || !a.at.stride[static_cast<std::size_t>(axis)].is(1)) return false;
  const auto& b = k.buffers[static_cast<std::size_t>(a.buffer)];
  const auto bytes = std::min<std::int64_t>(width * static_cast<std::int64_t>(size_of(b.type)), 16);
  if (b.by_value || b.alignment % bytes != 0) return false;
  const std::int64_t unit = bytes / static_cast<std::int64_t>(size_of(b.type));
  if (!divides(unit, a.at.offset) || (a.at.index >= 0 && !divides(unit, a.at.indirect))) return false;
  if (a.at.index >= 0 && (k.body[static_cast<std::size_t>(a.at.index)].axes >> axis & 1u)) return false;
  for (std::size_t x = 0; x < a.at.stride.size(); ++x)
    if (static_cast<int>(x) != axis && !divides(unit, a.at.stride[x])) return false;
  return true;
}

/// True for four floats in 16 bytes, which some machines add atomically at once.
inline bool adds_vector(const kernel& k, const plan::access& a, int axis, int width) {
  return width == 4 && type_of(k, a) == dtype::f32 && is_vector_access(k, a, axis, width);
}

/// How a kernel treats the end of an axis that vectors do not divide.
enum class tail : std::uint8_t {
  none,   ///< vectors are narrower
  apart,  ///< it is the only axis, and its last elements are handled apart
  lanes,  ///< the last vector of a long axis has fewer lanes
};

/// Elements along `axis` that a thread processes at once: 16 bytes of the widest contiguous operand, fewer if the extent or
/// the addresses require it.
inline int vector_width(const kernel& k, int axis, tail at_end) {
  constexpr std::int64_t least_vectors = 8;  // of an axis whose last vector is not whole
  if (axis < 0) return 1;
  series<const plan::access*> along;
  for (const auto& i : k.body)
    if (i.kind == kind::load && i.at.at.stride[static_cast<std::size_t>(axis)].is(1)) along.push_back(&i.at);
  for (const auto& s : k.stores)
    if (!s.accumulate && s.at.at.stride[static_cast<std::size_t>(axis)].is(1)) along.push_back(&s.at);
  std::size_t widest = 0;
  for (const auto* a : along) widest = std::max(widest, size_of(type_of(k, *a)));
  if (!widest) return 1;
  for (std::int64_t w = static_cast<std::int64_t>(16 / widest); w > 1; w /= 2) {
    const auto is_one = [&](const auto* a) { return is_vector_access(k, *a, axis, w); };
    const dim& n = k.axes[static_cast<std::size_t>(axis)].extent;
    const bool whole = at_end == tail::apart || divides(w, n);
    if (!whole && (at_end == tail::none || n.number().value_or(0) < least_vectors * w)) continue;
    if (whole ? std::any_of(along.begin(), along.end(), is_one) : std::all_of(along.begin(), along.end(), is_one))
      return static_cast<int>(w);
  }
  return 1;
}

/// The lanes of a kernel with reductions; each has accumulators and values of at least 4 bytes in registers.
inline int reducing_width(const kernel& k, int axis) {
  const bool one = std::popcount(k.mask(role::inner)) == 1;
  return std::min(vector_width(k, axis, one ? tail::lanes : tail::none), 8);
}

/// The vectors of a row of `elements`; the last may have fewer lanes.
inline dim vectors_of_row(const dim& elements, int width) {
  if (width == 1) return elements;
  return divides(width, elements) ? *elements.divided_by(width) : ceil_div(elements, width);
}

/// True for kernels whose values need more than 32 registers of a thread besides kept values: blocks of 1024 threads would
/// spill.
inline bool is_heavy(const kernel& k) {
  int costly = 0;
  for (const auto& i : k.body) {
    const bool along = i.axes != 0 && (i.axes >> (k.axes.size() - 1) & 1u);
    costly += i.kind == kind::compute && ir::is_expensive(i.code) && along;
    if (i.kind == kind::arg_reduce || (i.type == dtype::f64 && along)) costly += 2;
  }
  return costly >= 2 || k.body.size() > 48;
}

/// True for accesses of a large buffer whose elements are accessed once.
inline bool touches_once(const kernel& k, const plan::access& a) {
  if (a.at.index >= 0) return false;
  dim bytes = static_cast<std::int64_t>(size_of(type_of(k, a)));  // may exceed 64 bits
  for (std::size_t x = 0; x < k.axes.size(); ++x) {
    const auto n = k.axes[x].extent.number();
    if (!n || (a.at.stride[x].is(0) && *n > 1)) return false;
    bytes *= k.axes[x].extent;
  }
  int uses = 0;
  for (const auto& i : k.body) uses += i.kind == kind::load && i.at.buffer == a.buffer;
  for (const auto& s : k.stores) uses += s.at.buffer == a.buffer;
  return bytes.number().value_or(0) >= once_bytes && uses == 1;
}

inline bool stores_much(const kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [&](const auto& s) { return touches_once(k, s.at); });
}

/// Loads at indices in levels, such that an index depends only on loads of earlier levels.
inline series<series<int>> load_levels(const kernel& k, const series<int>& late) {
  series<series<int>> out;
  sorted_map<int, std::size_t> level;
  auto depth = [&](auto&& self, int id) -> std::size_t {
    std::size_t d = 0;
    for (int a : k.body[static_cast<std::size_t>(id)].args) d = std::max(d, self(self, a));
    if (const auto l = level.find(id); l != level.end()) d = std::max(d, l->second + 1);
    return d;
  };
  for (int id : late) {  // operands precede users
    const std::size_t d = depth(depth, k.body[static_cast<std::size_t>(id)].at.at.index);
    level.emplace(id, d);
    if (out.size() <= d) out.resize(d + 1);
    out[d].push_back(id);
  }
  return out;
}

}  // namespace sinter::engine::emit
