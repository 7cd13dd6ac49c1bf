// plan/memory.hpp: the memory of each buffer: intermediates that share scratch memory, and results that replace an operand.
#pragma once

#include <algorithm>
#include <optional>

#include "../base/sorted.hpp"
#include "fusion/fuse.hpp"

namespace sinter::engine::plan {

/// A block of scratch memory that kernels [first, last] use.
struct lifetime {
  int buffer = -1;
  std::size_t first = 0, last = 0;
  std::int64_t bytes = 0;
};

struct arena {
  sorted_map<int, std::int64_t> offset;  ///< per buffer
  std::int64_t bytes = 0;
};

/// Offsets, multiples of 64, so that blocks in use at the same time do not overlap. The largest blocks are placed first, each
/// as low as it fits.
SINTER_API arena place(series<lifetime> blocks) {
  sort_stably(blocks, [](const lifetime& a, const lifetime& b) { return a.bytes > b.bytes; });
  struct block {
    std::int64_t at, end;
    std::size_t first, last;
  };
  series<block> placed;  // ascending by place
  series<std::pair<int, std::int64_t>> offsets;
  arena out;
  for (const auto& b : blocks) {
    const std::int64_t bytes = (b.bytes + 63) / 64 * 64;
    std::int64_t at = 0;
    for (const auto& p : placed) {
      if (p.last < b.first || b.last < p.first) continue;
      if (at + bytes <= p.at) break;
      at = std::max(at, p.end);
    }
    const auto* const before =
        std::upper_bound(placed.begin(), placed.end(), at, [](std::int64_t x, const block& p) { return x < p.at; });
    placed.insert(before, {at, at + bytes, b.first, b.last});
    offsets.push_back({b.buffer, at});
    out.bytes = std::max(out.bytes, at + bytes);
  }
  sort_stably(offsets, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [buffer, at] : offsets) out.offset.emplace(buffer, at);
  return out;
}

/// The elements of an array with these strides, which do not overlap; with gaps behind its rows.
inline std::int64_t elements_of(const ir::shape& extents, const series<dim>& strides,
                                std::span<const std::int64_t> sizes) {
  if (strides.empty()) return ir::product(extents).evaluate(sizes);
  std::int64_t most = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) most = std::max(most, (extents[d] * strides[d]).evaluate(sizes));
  return most;
}

/// The buffers that kernels write, except those in `elsewhere`, with the kernels of first and last use. `strides` are those of
/// `fused`.
SINTER_API series<lifetime> lifetimes(const ir::graph& g, const series<kernel>& kernels,
                                      const series<series<dim>>& strides, const sorted_set<int>& elsewhere,
                                      std::span<const std::int64_t> sizes) {
  series<lifetime> all(g.size());  // per node
  for (const int id : elsewhere) all[static_cast<std::size_t>(id)].buffer = -2;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for (const auto& b : kernels[k].buffers) {
      lifetime& life = all[static_cast<std::size_t>(b.id)];
      if (life.buffer == -2) continue;
      if (life.buffer < 0) {
        const ir::node& v = g[static_cast<node_id>(b.id)];
        const auto& layout = strides[static_cast<std::size_t>(b.id)];
        life = {b.id, k, k, elements_of(v.extents, layout, sizes) * static_cast<std::int64_t>(size_of(v.type))};
      }
      life.last = k;
    }
  erase_if(all, [](const lifetime& life) { return life.buffer < 0; });
  return all;
}

/// The operands over which results may be written. Kernel k runs at step when[k], ascending; kernels of one step run at once.
class replacements {
 public:
  /// Without `when` the kernels run one after another. Both arguments are kept by reference.
  SINTER_COLD replacements(const series<kernel>& kernels, std::span<const std::size_t> when)
      : kernels_(kernels), when_(when) {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const kernel& one = kernels[k];
      for (const auto& b : one.buffers) {
        use& u = use_of(b.id);
        u.in_product = false;
        u.loads.clear();
        if (u.kernels.empty() || u.kernels.back() != k) u.kernels.push_back(k);
      }
      const auto used = [&](int buffer) -> use& { return use_of(one.buffers[static_cast<std::size_t>(buffer)].id); };
      for (const auto& p : one.products) used(p.a.buffer).in_product = used(p.b.buffer).in_product = true;
      for (const auto& i : one.body)
        if (i.kind == kind::load) used(i.at.buffer).loads.push_back(&i.at);
        else if (i.kind == kind::search) used(i.at.buffer).in_product = true;
    }
  }

  /// The step from which a result may be written over memory that no kernel reads afterwards. Empty if the first kernel that
  /// touches the result does not store it, or if others store it, unless these combine with its contents.
  SINTER_COLD std::optional<std::size_t> written_at(int output) const {
    const use* const written = known_use(output);
    if (!written) return {};
    if (written->kernels.size() > 1 && !is_updated(written->kernels, output)) return {};
    const std::size_t k = written->kernels[0];
    return store_of(kernels_[k], output) ? std::optional(time(k)) : std::nullopt;
  }

  /// The step from which no kernel touches an operand.
  SINTER_COLD std::size_t free_from(int input) const {
    const use* const read = known_use(input);
    return read ? time(read->kernels.back()) + 1 : 0;
  }

  /// The buffers of an intermediate's kernel that no kernel reads afterwards, and that hold each element until the kernel writes
  /// the same element: by the last of its passes, over all its axes. Empty if other kernels store parts of the intermediate.
  SINTER_COLD series<int> read_for_last_time(int intermediate) const {
    series<int> out;
    const use* const made = known_use(intermediate);
    if (!made) return out;
    const kernel& k = kernels_[made->kernels[0]];
    const store* const to = last_store_of(k, intermediate);
    if (!to || is_stored_again(made->kernels, intermediate)) return out;
    for (const auto& b : k.buffers)
      if (is_last_to_read(made->kernels[0], b, *to) && !known_use(b.id)->loads.empty()) out.push_back(b.id);
    return out;
  }

  /// Operands that a result's kernel is the last to read, each element just before it writes the same element.
  SINTER_COLD series<int> read_in_place(int output) const {
    series<int> out;
    if (!written_at(output)) return out;
    const std::size_t k = known_use(output)->kernels[0];
    // Emitters may read again the elements whose squares they have summed.
    if (std::any_of(kernels_[k].body.begin(), kernels_[k].body.end(), [](const auto& i) { return i.squares; }))
      return out;
    const store& to = *store_of(kernels_[k], output);
    for (const auto& b : kernels_[k].buffers)
      if (is_last_to_read(k, b, to)) out.push_back(b.id);
    return out;
  }

 private:
  /// The kernels that touch a buffer, in order, and how the last of them reads it.
  struct use {
    series<std::size_t> kernels;
    bool in_product = false;
    series<const access*> loads;
  };

  use& use_of(int buffer) {
    const auto id = static_cast<std::size_t>(buffer);
    if (place_.size() <= id) place_.resize(id + 1, 0);
    if (place_[id] == 0) {
      uses_.emplace_back();
      place_[id] = static_cast<std::uint32_t>(uses_.size());
    }
    return uses_[place_[id] - 1];
  }
  /// Null if no kernel touches the buffer.
  const use* known_use(int buffer) const {
    const auto id = static_cast<std::size_t>(buffer);
    return id < place_.size() && place_[id] != 0 ? &uses_[place_[id] - 1] : nullptr;
  }

  /// Whether kernel k is the last one to touch a buffer, which it only reads, and only at the place to which `to` stores.
  bool is_last_to_read(std::size_t k, const buffer_use& b, const store& to) const {
    const use& u = *known_use(b.id);
    const std::size_t n = u.kernels.size();
    const bool last = u.kernels.back() == k && (n == 1 || time(u.kernels[n - 2]) < time(k));
    return !b.written && last && !u.in_product && !is_bias(kernels_[k], to) &&
           std::all_of(u.loads.begin(), u.loads.end(), [&](const auto* at) { return at->at == to.at.at; });
  }

  /// Whether what a product loads where it stores could be its bias, a number for each row or column. A library may store a result
  /// before it reads the bias.
  static bool is_bias(const kernel& k, const store& to) {
    if (!k.is_product()) return false;
    const std::size_t batch = static_cast<std::size_t>(k.products[0].batch),
                      columns = batch + static_cast<std::size_t>(k.products[0].m);
    const auto varies = [&](std::size_t from, std::size_t end) {
      for (std::size_t a = from; a < end; ++a)
        if (!k.axes[a].extent.is(1) && !to.at.at.stride[a].is(0)) return true;
      return false;
    };
    return !varies(batch, columns) || !varies(columns, k.axes.size());
  }

  /// The only store to a buffer, if it stores an element at each position of the axes, and no pass reads after it; or null. Not
  /// where emitters may read again the elements whose squares they have summed.
  static const store* last_store_of(const kernel& k, int buffer) {
    if (k.stands_alone()) return nullptr;
    const store* to = nullptr;
    for (const auto& s : k.stores)
      if (k.buffers[static_cast<std::size_t>(s.at.buffer)].id == buffer) {
        if (to || s.accumulate || s.at.at.index >= 0) return nullptr;
        to = &s;
      }
    if (!to) return nullptr;
    const auto of = [&](int id) -> const instruction& { return k.body[static_cast<std::size_t>(id)]; };
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (to->at.at.stride[a].is(0) && !k.axes[a].extent.is(1)) return nullptr;
    const int pass = of(to->value).stage;
    for (const auto& i : k.body)
      if (i.squares || (is_reduction(i) && of(i.args[0]).stage > pass)) return nullptr;
    for (const auto& s : k.stores)
      if (of(s.value).stage > pass) return nullptr;
    return of(to->value).after_rows ? nullptr : to;
  }

  /// The only store to a buffer in a kernel of one stage, if it does not accumulate; or null.
  static const store* store_of(const kernel& k, int output) {
    if (k.stages > 1) return nullptr;
    const store* to = nullptr;
    for (const auto& s : k.stores)
      if (k.buffers[static_cast<std::size_t>(s.at.buffer)].id == output) {
        if (to || s.accumulate) return nullptr;
        to = &s;
      }
    return to;
  }

  /// Whether kernels after the first one store a buffer's elements anew.
  bool is_stored_again(const series<std::size_t>& all, int buffer) const {
    for (std::size_t n = 1; n < all.size(); ++n) {
      const kernel& k = kernels_[all[n]];
      for (const auto& b : k.buffers)
        if (k.is_opaque() && b.id == buffer && b.written) return true;
      for (const auto& s : k.stores)
        if (!s.accumulate && k.buffers[static_cast<std::size_t>(s.at.buffer)].id == buffer) return true;
    }
    return false;
  }

  /// Whether kernels after the first one combine with its stored values, and none stores anew.
  bool is_updated(const series<std::size_t>& all, int buffer) const {
    bool some = false;
    for (std::size_t n = 1; n < all.size(); ++n) {
      const kernel& k = kernels_[all[n]];
      for (const auto& s : k.stores) {
        if (k.buffers[static_cast<std::size_t>(s.at.buffer)].id != buffer) continue;
        if (!s.accumulate) return false;
        some = true;
      }
    }
    return some;
  }

  std::size_t time(std::size_t k) const { return when_.empty() ? k : when_[k]; }

  const series<kernel>& kernels_;
  std::span<const std::size_t> when_;
  series<use> uses_;             ///< of the buffers that kernels touch
  series<std::uint32_t> place_;  ///< per node, the index of its use plus one; 0 for none
};

/// For each of `lives`, the index of the one whose memory it takes over element by element; -1: none. Lives are ascending by
/// buffer, and count steps as `known` does.
SINTER_API series<int> taken_over(const ir::graph& g, const series<lifetime>& lives, const replacements& known) {
  series<int> from(lives.size(), -1);
  series<char> taken(lives.size(), 0);
  for (std::size_t n = 0; n < lives.size(); ++n) {
    const lifetime& life = lives[n];
    for (const int id : known.read_for_last_time(life.buffer)) {
      const auto* const at =
          std::lower_bound(lives.begin(), lives.end(), id, [](const lifetime& x, int b) { return x.buffer < b; });
      const auto index = static_cast<std::size_t>(at - lives.begin());
      if (at == lives.end() || at->buffer != id || taken[index] || at->last != life.first || at->bytes != life.bytes ||
          size_of(g[static_cast<node_id>(id)].type) != size_of(g[static_cast<node_id>(life.buffer)].type))
        continue;
      taken[index] = 1;
      from[n] = static_cast<int>(index);
      break;
    }
  }
  return from;
}

/// Offsets of lives in one block of scratch memory, and its size.
struct placed_lives {
  series<std::int64_t> offset;
  std::int64_t bytes = 0;
};

/// As place(); lives that take over each other's memory, as taken_over() tells, are one block.
SINTER_API placed_lives place_in_turn(const series<lifetime>& lives, const series<int>& from) {
  series<std::size_t> owner;  // whose memory each has in the end
  series<lifetime> blocks = lives;
  for (std::size_t n = 0; n < lives.size(); ++n) {
    std::size_t at = n;
    while (from[at] >= 0) at = static_cast<std::size_t>(from[at]);
    owner.push_back(at);
    blocks[at].last = std::max(blocks[at].last, lives[n].last);
  }
  series<lifetime> own;
  for (std::size_t n = 0; n < lives.size(); ++n)
    if (owner[n] == n) own.push_back(blocks[n]);
  const arena all = place(std::move(own));
  placed_lives out;
  out.bytes = all.bytes;
  for (const std::size_t n : owner) out.offset.push_back(all.offset.at(lives[n].buffer));
  return out;
}

}  // namespace sinter::engine::plan
