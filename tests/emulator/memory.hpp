// tests/emulator/memory.hpp: the emulated device's memory: host pages with inaccessible ones around each allocation.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace emulator {

inline std::string setting(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}
inline long long number(const char* name, long long otherwise) {
  const std::string value = setting(name);
  return value.empty() ? otherwise : std::atoll(value.c_str());
}

/// The major version that one of these libraries tells, by its file's name: 12 for libnvrtc.so.12, else 13.
inline int library_major() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&library_major), &info);
  return info.dli_fname != nullptr && std::string_view(info.dli_fname).ends_with(".12") ? 12 : 13;
}

/// Allocations end at an inaccessible page, but for the rest of their last 256 bytes, which holds canaries.
class device_memory {
 public:
  static constexpr std::size_t page = 4096, granule = 256, max_poisoned = std::size_t{64} << 20;
  static constexpr unsigned char fresh = 0xCB, canary = 0xAB;

  std::size_t total() const { return static_cast<std::size_t>(number("SINTER_EMULATOR_MEMORY", 8ll << 30)); }
  std::size_t used() const { return used_; }

  /// The address, or 0 when there is not as much left.
  std::uintptr_t allocate(std::size_t bytes) {
    if (bytes > total() || used_ > total() - bytes) return 0;
    const std::size_t rounded = (bytes + granule - 1) / granule * granule;
    const std::size_t body = (rounded + page - 1) / page * page;
    void* const raw =
        ::mmap(nullptr, body + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return 0;
    char* const first = static_cast<char*>(raw) + page;
    ::mprotect(raw, page, PROT_NONE);
    ::mprotect(first + body, page, PROT_NONE);
    char* const data = first + body - rounded;
    std::memset(first, canary, static_cast<std::size_t>(data - first));
    if (bytes <= max_poisoned) std::memset(data, fresh, bytes);
    std::memset(data + bytes, canary, rounded - bytes);
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    blocks_[at] = {bytes, rounded, raw, body + 2 * page, first};
    used_ += bytes;
    return at;
  }

  /// False when there is no such allocation.
  bool free(std::uintptr_t at) {
    const auto found = blocks_.find(at);
    if (found == blocks_.end()) return false;
    used_ -= found->second.bytes;
    ::munmap(found->second.raw, found->second.mapped);
    blocks_.erase(found);
    return true;
  }

  /// True when [at, at + bytes) lies in one allocation.
  bool holds(std::uintptr_t at, std::size_t bytes) const {
    auto found = blocks_.upper_bound(at);
    if (found == blocks_.begin()) return false;
    --found;
    const std::size_t offset = at - found->first;
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
  }

  /// False when something was written around an allocation.
  bool intact() const {
    static const std::string canaries(page, static_cast<char>(canary));  // there are fewer before, and after, any
    for (const auto& [at, b] : blocks_) {
      const char* const data = reinterpret_cast<const char*>(at);
      if (std::memcmp(b.first, canaries.data(), static_cast<std::size_t>(data - b.first)) != 0) return false;
      if (std::memcmp(data + b.bytes, canaries.data(), b.rounded - b.bytes) != 0) return false;
    }
    return true;
  }
  std::size_t count() const { return blocks_.size(); }

 private:
  struct block {
    std::size_t bytes, rounded;
    void* raw;
    std::size_t mapped;
    char* first;
  };
  std::map<std::uintptr_t, block> blocks_;
  std::size_t used_ = 0;
};

}  // namespace emulator
