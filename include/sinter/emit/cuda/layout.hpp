// emit/cuda/layout.hpp: the launches of a source; accesses that bypass caches, and the order of loads at indices.
#pragma once

#include <algorithm>

#include "../../base/series.hpp"
#include "../../base/sorted.hpp"
#include "../../plan/kernel/reach.hpp"
#include "../../plan/schedule/passes.hpp"
#include "../text.hpp"

namespace sinter::engine::emit {

using plan::ceil_div;
using plan::divides;
using plan::fills;
using plan::needs_wide_index;
using plan::vectors_of_row;

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
  std::string schedule;    ///< which it prints: a line for the shape, and one for each launch
  series<int> parameters;  ///< with a table: the buffers that are parameters, by number among all kernels'
  cuda_table table;        ///< absent without numbers
  std::size_t members =
      1;  ///< kernels of one shape: each has equally many blocks of a launch, and as much scratch memory
};

/// Largest grid.
inline constexpr std::int64_t max_blocks = 0x7fffffff;
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

/// True for four floats in 16 bytes, which some machines add atomically at once.
inline bool adds_vector(const kernel& k, const plan::access& a, int axis, int width) {
  return width == 4 && type_of(k, a) == dtype::f32 && is_vector_access(k, a, axis, width);
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
  return bytes.number().value_or(0) >= plan::once_bytes && uses == 1;
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
