// base/storage.hpp: a reference-counted block of bytes, which tensors share and kernels read.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "device.hpp"

namespace sinter {

namespace detail {
/// The count of a reference in an engine::capture_list, by which kernels hold their captures. The lower bits count all other
/// references.
inline constexpr long kept_reference = 1L << 32;

struct block {
  std::atomic<long> references{1};
  void* data = nullptr;
  std::size_t bytes = 0;
  /// Releases `data`, then the block itself.
  void (*release)(block*) noexcept = nullptr;
  void* context = nullptr;
  device where;
  /// Waits for elements that are being copied to this block, and throws an error of the copy; null once they have arrived.
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
  /// The device of the memory; the host for an empty handle.
  device where() const noexcept { return block_ ? block_->where : device{}; }
  /// Must be called before elements in host memory are accessed: waits for a pending copy to them.
  void wait() const {
    if (block_)
      if (auto* const wait = block_->arrive.load(std::memory_order_acquire)) [[unlikely]]
        wait(block_);
  }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  /// True when this handle is the only one.
  bool unique() const noexcept { return block_ && block_->references.load(std::memory_order_acquire) == 1; }
  bool operator==(const storage& other) const noexcept { return block_ == other.block_; }
  /// The block, for the allocator that made it.
  detail::block* get() const noexcept { return block_; }

 private:
  detail::block* block_ = nullptr;
};

}  // namespace sinter
