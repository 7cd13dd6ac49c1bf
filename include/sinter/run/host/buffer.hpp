// run/host/buffer.hpp: memory for tensors: a caching allocator, so that page faults do not recur at every call.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/storage.hpp"
#include "../kept_memory.hpp"

namespace sinter::engine::run {

namespace detail {

using sinter::detail::block;

// The block's header is in the 64 bytes before its data: one allocation for each tensor.
inline constexpr std::size_t header_bytes = 64;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;
inline constexpr std::size_t largest_request = std::size_t{1} << 46;
static_assert(sizeof(block) <= header_bytes);

// Size classes, including the header: multiples of 64 up to 1 KiB, then eight steps for each doubling, so that at most an
// eighth is wasted. From 2 MiB on sizes are whole huge pages.
inline constexpr std::size_t linear_classes = 16;
inline constexpr std::size_t class_count = linear_classes + 8 * 37;

constexpr std::size_t class_of(std::size_t total) {
  if (total <= 1024) return (total + 63) / 64 - 1;
  const std::size_t doubling = static_cast<std::size_t>(std::bit_width(total - 1)) - 1;
  return linear_classes + (doubling - 10) * 8 + ((total - 1) >> (doubling - 3)) - 8;
}

constexpr std::size_t bytes_of(std::size_t index) {
  if (index < linear_classes) return (index + 1) * 64;
  const std::size_t doubling = (index - linear_classes) / 8 + 10;
  const std::size_t size = (8 + (index - linear_classes) % 8 + 1) << (doubling - 3);
  return size <= huge_page ? size : (size + huge_page - 1) / huge_page * huge_page;
}

// Blocks up to this class are kept by the thread that freed them, at most local_bytes for each class.
inline constexpr std::size_t local_classes = class_of(std::size_t{64} << 10) + 1;
inline constexpr std::size_t local_bytes = std::size_t{256} << 10;
inline constexpr std::size_t local_blocks = 64;

// Free blocks are linked through `context`.
inline block* next_of(const block* b) { return static_cast<block*>(b->context); }

inline void return_to_system(block* b, std::size_t index) noexcept {
  const std::size_t size = bytes_of(index);
  if (size >= huge_page) ::munmap(b, size);
  else std::free(b);
}

/// Fresh memory from the system, or null. Large blocks start on a huge page, and request such pages.
inline void* take_from_system(std::size_t index) noexcept {
  const std::size_t size = bytes_of(index);
  if (size < huge_page) return std::aligned_alloc(64, size);
  void* const mapped = ::mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const auto aligned = (begin + huge_page - 1) / huge_page * huge_page;
  if (aligned > begin) ::munmap(mapped, aligned - begin);
  if (begin + huge_page > aligned) ::munmap(reinterpret_cast<void*>(aligned + size), begin + huge_page - aligned);
#if defined(MADV_HUGEPAGE)
  ::madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

/// The free lists of all threads. Never destroyed: tensors may outlive all static objects.
class pool {
 public:
  pool() {
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    limit_ = std::size_t{64} << 20;
    if (pages > 0 && page > 0)
      limit_ = std::max(limit_, static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / 4);
  }

  block* take(std::size_t index) noexcept {
    bin& from = bins_[index];
    if (from.head.load(std::memory_order_relaxed) == nullptr) return nullptr;
    const std::lock_guard lock(from.mutex);
    block* const b = from.head.load(std::memory_order_relaxed);
    if (b == nullptr) return nullptr;
    from.head.store(next_of(b), std::memory_order_relaxed);
    cached_.fetch_sub(bytes_of(index), std::memory_order_relaxed);
    return b;
  }

  void give(block* b, std::size_t index) noexcept {
    const std::size_t size = bytes_of(index);
    if (size > limit_ / 2) return return_to_system(b, index);
    // Sizes that are no longer used must not keep used sizes out of the cache.
    if (cached_.load(std::memory_order_relaxed) + size > limit_) trim(limit_ / 2);
    bin& to = bins_[index];
    const std::lock_guard lock(to.mutex);
    b->context = to.head.load(std::memory_order_relaxed);
    to.head.store(b, std::memory_order_relaxed);
    cached_.fetch_add(size, std::memory_order_relaxed);
  }

  /// Returns free blocks to the system, the largest first, until at most `keep` bytes remain.
  void trim(std::size_t keep) noexcept {
    for (std::size_t index = class_count; index-- > 0;)
      while (cached_.load(std::memory_order_relaxed) > keep) {
        block* const b = take(index);
        if (b == nullptr) break;
        return_to_system(b, index);
      }
  }

  std::size_t cached() const noexcept { return cached_.load(std::memory_order_relaxed); }

 private:
  struct bin {
    std::mutex mutex;
    std::atomic<block*> head{nullptr};
  };
  std::array<bin, class_count> bins_;
  std::atomic<std::size_t> cached_{0};
  std::size_t limit_ = 0;
};

SINTER_API pool& shared_pool() {
  static pool* const instance = new pool;
  return *instance;
}

/// This thread's free lists. Trivial, so that they stay readable while the thread's objects are destroyed.
struct local_bins {
  enum : unsigned char { fresh, alive, dead };
  block* head[local_classes];
  unsigned short count[local_classes];
  unsigned char state;
};
inline constinit thread_local local_bins local{};

SINTER_API void flush_local() noexcept {
  for (std::size_t index = 0; index < local_classes; ++index)
    while (block* const b = local.head[index]) {
      local.head[index] = next_of(b);
      shared_pool().give(b, index);
    }
  std::fill(std::begin(local.count), std::end(local.count), static_cast<unsigned short>(0));
}

struct local_guard {
  local_guard() { local.state = local_bins::alive; }
  ~local_guard() {
    local.state = local_bins::dead;
    flush_local();
  }
};

/// True if this thread's lists may be used; the first call arranges to empty them at the end of the thread.
inline bool local_usable() {
  if (local.state == local_bins::fresh) {
    static thread_local local_guard guard;
    (void)guard;
  }
  return local.state == local_bins::alive;
}

inline void free_block(block* b) noexcept {
  if (kept_memory::any() && kept_memory::get().take(b)) return;
  const std::size_t index = class_of(b->bytes + header_bytes);
  if (index < local_classes && local_usable()) {
    const std::size_t room = std::clamp<std::size_t>(local_bytes / bytes_of(index), 4, local_blocks);
    if (local.count[index] < room) {
      b->context = local.head[index];
      local.head[index] = b;
      ++local.count[index];
      return;
    }
  }
  shared_pool().give(b, index);
}

inline block* find_block(std::size_t index) {
  if (index < local_classes && local_usable()) {
    if (block* const b = local.head[index]) {
      local.head[index] = next_of(b);
      --local.count[index];
      return b;
    }
  }
  return shared_pool().take(index);
}

inline std::string megabytes(std::size_t bytes) {
  return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) + " MiB)";
}

}  // namespace detail

/// `bytes` bytes of memory, 64-byte aligned and uninitialised; data() is not null even for 0 bytes. Reuses freed blocks.
/// Thread-safe. Throws system_error with the size if the system has no more memory.
SINTER_API storage allocate(std::size_t bytes) {
  if (bytes > detail::largest_request)
    throw system_error("out of memory: a tensor of " + detail::megabytes(bytes) + " cannot be allocated");
  const std::size_t index = detail::class_of(bytes + detail::header_bytes);
  void* memory = detail::find_block(index);
  if (memory == nullptr) memory = detail::take_from_system(index);
  if (memory == nullptr) {
    detail::shared_pool().trim(0);
    memory = detail::take_from_system(index);
  }
  if (memory == nullptr)
    throw system_error("out of memory: a tensor of " + detail::megabytes(bytes) + " cannot be allocated");
  auto* const b = new (memory) detail::block;
  b->data = static_cast<char*>(memory) + detail::header_bytes;
  b->bytes = bytes;
  b->release = detail::free_block;
  return storage(b);
}

/// Shares `data` in place; `deleter(data)` is called once, with the last handle. If this throws, the deleter has been called.
template <class Deleter>
storage adopt(void* data, std::size_t bytes, Deleter deleter) {
  struct owner : sinter::detail::block {
    explicit owner(Deleter&& d) : deleter(std::move(d)) {}
    Deleter deleter;
  };
  owner* b = nullptr;
  try {
    b = new owner(std::move(deleter));
  } catch (...) {
    deleter(data);
    throw;
  }
  b->data = data;
  b->bytes = bytes;
  b->release = [](sinter::detail::block* base) noexcept {
    if (kept_memory::any() && kept_memory::get().take(base)) return;
    auto* const self = static_cast<owner*>(base);
    self->deleter(self->data);
    delete self;
  };
  return storage(b);
}

/// Returns free memory to the system: this thread's, and the memory shared by all threads.
SINTER_API void trim() {
  detail::flush_local();
  detail::shared_pool().trim(0);
}

/// Bytes of free blocks shared by all threads.
SINTER_API std::size_t cached_bytes() { return detail::shared_pool().cached(); }

}  // namespace sinter::engine::run
