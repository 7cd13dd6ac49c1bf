// run/cuda/device/chunks.hpp: ranges of a GPU's memory, and lists of the free ones by size.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "../../../base/storage.hpp"

namespace sinter::engine::run::cuda::detail {

inline constexpr std::size_t memory_unit = 512;
inline constexpr std::size_t largest_memory_request = std::size_t{1} << 46;

/// A range of device memory, in use or free. Neighbours are in the same segment, which belongs to one queue.
struct chunk : sinter::detail::block {
  chunk *lower = nullptr, *upper = nullptr;    ///< neighbours by address
  chunk *previous = nullptr, *next = nullptr;  ///< in its list of free chunks
  std::size_t size = 0;
  std::uint64_t users = 0;  ///< slots of other queues that may still use it
  int slot = 0;             ///< of the queue in whose order it is reused
  int writer = 0;           ///< of the queue that wrote it last
  bool is_free = false, small = false;
};

// Bins of free chunks: eight for each doubling, by the size in units, rounded down.
inline constexpr std::size_t bin_count = 320;
constexpr std::size_t bin_of(std::size_t size) {
  const std::size_t units = size / memory_unit;
  if (units < 8) return units;
  const auto doubling = static_cast<std::size_t>(std::bit_width(units)) - 1;
  return (doubling - 2) * 8 + ((units >> (doubling - 3)) & 7);
}
static_assert(bin_of(largest_memory_request) < bin_count);

/// Free chunks of one queue.
class free_chunks {
 public:
  void add(chunk* c) {
    const std::size_t bin = bin_of(c->size);
    c->previous = nullptr;
    c->next = heads_[bin];
    if (c->next != nullptr) c->next->previous = c;
    heads_[bin] = c;
    filled_[bin / 64] |= std::uint64_t{1} << bin % 64;
  }
  void remove(chunk* c) {
    const std::size_t bin = bin_of(c->size);
    if (c->previous != nullptr) c->previous->next = c->next;
    else heads_[bin] = c->next;
    if (c->next != nullptr) c->next->previous = c->previous;
    if (heads_[bin] == nullptr) filled_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
  }
  /// The best of the first few chunks with at least `size` bytes, from the smallest bin that has one; or null.
  chunk* find(std::size_t size) const {
    for (std::size_t bin = bin_of(size); (bin = next_filled(bin)) < bin_count; ++bin) {
      chunk* best = nullptr;
      int looked = 0;
      for (chunk* c = heads_[bin]; c != nullptr && looked < 32; c = c->next, ++looked)
        if (c->size >= size && (best == nullptr || c->size < best->size)) best = c;
      if (best != nullptr) return best;
    }
    return nullptr;
  }
  /// Calls f on each chunk; f may remove that chunk.
  template <class F>
  void each(F&& f) {
    for (chunk* head : heads_)
      for (chunk *c = head, *next = nullptr; c != nullptr; c = next) {
        next = c->next;
        f(c);
      }
  }

 private:
  std::size_t next_filled(std::size_t bin) const {
    for (std::size_t word = bin / 64; word < filled_.size(); ++word) {
      const std::uint64_t bits = filled_[word] & (word == bin / 64 ? ~std::uint64_t{0} << bin % 64 : ~std::uint64_t{0});
      if (bits != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    }
    return bin_count;
  }
  std::array<chunk*, bin_count> heads_{};
  std::array<std::uint64_t, bin_count / 64> filled_{};
};

}  // namespace sinter::engine::run::cuda::detail
