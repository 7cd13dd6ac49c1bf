// jit/library/memory.hpp: the memory of an exported program's intermediates, for all sizes of its calls.
#pragma once

#include <algorithm>

#include "../../emit/cpu/memory.hpp"
#include "../backends/code.hpp"
#include "numbers.hpp"

namespace sinter::engine::detail {

/// The buffers of an exported program's kernels: as `binding`, with offsets for all sizes.
struct c_binding {
  series<int> operand;             ///< as in binding
  series<c_number> intermediates;  ///< offsets in the scratch block
  c_number scratch_bytes;
};

/// The bytes of a buffer, with gaps behind its rows.
inline c_number bytes_of_buffer(c_numbers& numbers, const ir::node& v, const series<ir::dim>& strides) {
  const ir::dim size = static_cast<std::int64_t>(size_of(v.type));
  if (strides.empty()) return numbers.value(ir::product(v.extents) * size);
  c_number most{static_cast<std::int64_t>(size_of(v.type))};
  for (std::size_t d = 0; d < strides.size(); ++d)
    most = numbers.larger(most, numbers.value(v.extents[d] * strides[d] * size));
  return most;
}

/// A block of memory: its lives at its steps, and its bytes.
struct c_block {
  std::size_t first = 0, last = 0;
  c_number bytes, at;
  std::int64_t low = 0;  ///< its offset for the largest sizes

  bool meets(const c_block& x) const { return first <= x.last && x.first <= last; }
};

/// Places the blocks above one another in the order in which they lie for the largest sizes, and returns their bytes. Each lies
/// above all blocks below it that live at the same time, so that no two overlap for any sizes.
inline c_number place_for_all(c_numbers& numbers, series<c_block>& blocks) {
  series<plan::lifetime> largest;
  constexpr std::int64_t most = std::int64_t{1} << 50;  // the order alone counts
  for (std::size_t i = 0; i < blocks.size(); ++i)
    largest.push_back({static_cast<int>(i), blocks[i].first, blocks[i].last, std::min(blocks[i].bytes.n, most)});
  const plan::arena placed = plan::place(std::move(largest));
  series<std::size_t> order;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].low = placed.offset.at(static_cast<int>(i));
    order.push_back(i);
  }
  sort_stably(order, [&](std::size_t a, std::size_t b) { return blocks[a].low < blocks[b].low; });
  c_number end{0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    c_block& one = blocks[order[i]];
    one.at = {0};
    series<std::size_t> under;
    for (std::size_t j = i; j-- > 0;) {
      const c_block& below = blocks[order[j]];
      // A block between the two already lies above this one.
      if (!one.meets(below) ||
          std::any_of(under.begin(), under.end(), [&](std::size_t u) { return blocks[u].meets(below); }))
        continue;
      under.push_back(order[j]);
      one.at = numbers.larger(one.at, numbers.sum(below.at, numbers.whole(below.bytes)));
    }
    end = numbers.larger(end, numbers.sum(one.at, numbers.whole(one.bytes)));
  }
  return end;
}

/// As bind_operands(), for all sizes. `hints` are the sizes of the plan; empty if all are numbers.
inline c_binding bind_for_all(c_numbers& numbers, const series<result_spec>& results, const ir::graph& g,
                              const series<plan::kernel>& kernels, const series<series<ir::dim>>& strides,
                              std::span<const std::size_t> when, std::span<const std::int64_t> hints) {
  binding b = bind_operands(results, g, kernels, strides, when, hints);
  c_binding out{b.operand, {}, {b.scratch_bytes}};
  if (hints.empty()) {
    for (const std::int64_t at : b.intermediates) out.intermediates.push_back({at});
    return out;
  }
  const auto bytes = [&](std::size_t n) {
    const auto id = static_cast<std::size_t>(b.lives[n].buffer);
    return bytes_of_buffer(numbers, g[static_cast<ir::node_id>(id)], strides[id]);
  };
  series<c_block> blocks;
  series<std::size_t> block(b.lives.size(), 0), owner;
  for (std::size_t n = 0; n < b.lives.size(); ++n) {
    std::size_t at = n;
    // One that is as large for the sizes of the plan only has memory of its own.
    const auto follows = [&](std::size_t x) {
      return b.from[x] >= 0 && bytes(x).str() == bytes(static_cast<std::size_t>(b.from[x])).str();
    };
    while (follows(at)) at = static_cast<std::size_t>(b.from[at]);
    owner.push_back(at);
  }
  for (std::size_t n = 0; n < b.lives.size(); ++n)
    if (owner[n] == n) {
      block[n] = blocks.size();
      blocks.push_back({b.lives[n].first, b.lives[n].last, bytes(n), {}, 0});
    }
  for (std::size_t n = 0; n < b.lives.size(); ++n) {
    c_block& of = blocks[block[owner[n]]];
    of.first = std::min(of.first, b.lives[n].first);
    of.last = std::max(of.last, b.lives[n].last);
  }
  out.scratch_bytes = place_for_all(numbers, blocks);
  for (const std::size_t n : owner) out.intermediates.push_back(blocks[block[n]].at);
  return out;
}

/// A kernel's own scratch memory, with the numbers that its code takes as symbols.
struct c_scratch {
  c_number threads, of_thread, bytes;
};

inline c_scratch scratch_for_all(c_numbers& numbers, const emit::scratch_use& use, std::span<const c_number> own,
                                 bool several) {
  const auto sum_of = [&](const series<emit::scratch_use::bounded>& all) {
    c_number bytes{0};
    for (const auto& b : all) {
      const c_number some = numbers.larger(numbers.value(b.bytes, own), {0});
      bytes = numbers.sum(bytes, numbers.whole(numbers.smaller(some, {b.most})));
    }
    return bytes;
  };
  c_scratch out;
  const c_number shared = numbers.whole(numbers.value(use.shared, own));
  if (use.by_thread()) {
    const c_number kept = numbers.at_most(numbers.value(use.kept, own), use.max_kept);
    out.of_thread = numbers.whole(numbers.sum(numbers.sum(numbers.value(use.sums, own), kept), sum_of(use.blocks)));
    out.threads = {1};
    if (several)
      out.threads = numbers.smaller(numbers.larger(numbers.value(use.tasks, own), {1}), numbers.threads(several));
  }
  out.bytes = numbers.sum(numbers.sum(shared, numbers.product(out.threads, out.of_thread)), sum_of(use.behind));
  return out;
}

}  // namespace sinter::engine::detail
