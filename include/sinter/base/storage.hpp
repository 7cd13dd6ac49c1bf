// base/storage.hpp: a reference-counted block of bytes; what tensors share and kernels read.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "device.hpp"

namespace sinter {

namespace detail {
/// What a reference counts of those of engine::capture_list, with which kernels hold what they have captured: the
/// bits below count all others.
inline constexpr long kept_reference = 1L << 32;

struct block {
  std::atomic<long> references{1};
  void* data = nullptr;
  std::size_t bytes = 0;
  /// Releases `data`, then the block itself.
  void (*release)(block*) noexcept = nullptr;
  void* context = nullptr;
  device where;
  /// Waits for elements that are still being copied here, and throws what failed; null once they have arrived.
  std::atomic<void (*)(block*)> arrive{nullptr};
};
}  // namespace detail

/// Shared ownership of a block; copying is one atomic increment.
class storage {
 public:
  storage() = default;
  explicit storage(detail::block* owned) noexcept : block_(owned) {}
  storage(const storage& other) noexcept : block_(other.block_) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  storage(storage&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  storage& operator=(storage other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~storage() {
    if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) block_->release(block_);
  }

  void* data() const noexcept { return block_ ? block_->data : nullptr; }
  std::size_t bytes() const noexcept { return block_ ? block_->bytes : 0; }
  /// The device whose memory it is; a handle to nothing is the host's.
  device where() const noexcept { return block_ ? block_->where : device{}; }
  /// To be called before elements in host memory are touched: waits where a copy to them is on its way.
  void settle() const {
    if (block_)
      if (auto* const wait = block_->arrive.load(std::memory_order_acquire)) [[unlikely]]
        wait(block_);
  }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  /// True when this handle is the only one.
  bool unique() const noexcept { return block_ && block_->references.load(std::memory_order_acquire) == 1; }
  bool operator==(const storage& other) const noexcept { return block_ == other.block_; }
  /// For the allocator that made the block.
  detail::block* get() const noexcept { return block_; }

 private:
  detail::block* block_ = nullptr;
};

}  // namespace sinter
