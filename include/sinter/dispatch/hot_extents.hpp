// dispatch/hot_extents.hpp: finds frequent extents.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sinter::engine::detail {

/// Counts calls by their facts, approximately: some of the calls, and a few facts at a time, of which frequent ones stay.
class hot_extents {
 public:
  explicit hot_extents(int calls) : enough_(static_cast<std::uint32_t>(std::max(calls / every, 1))) {}

  /// Whether this call counts; other calls cost almost nothing.
  bool counts() {
    const std::uint32_t n = calls_.load(std::memory_order_relaxed) + 1;
    calls_.store(n == every ? 0 : n, std::memory_order_relaxed);
    return n == every;
  }

  /// True once, when `facts` have occurred often enough.
  bool just_hot(std::uint64_t facts) {
    slot& s = slots_[facts % places];
    if (s.facts.load(std::memory_order_relaxed) != facts) {
      const std::uint32_t n = s.times.load(std::memory_order_relaxed);
      if (n > 0) return s.times.store(n - 1, std::memory_order_relaxed), false;
      s.facts.store(facts, std::memory_order_relaxed);
    }
    return s.times.fetch_add(1, std::memory_order_relaxed) + 1 == enough_;
  }

  /// No kernels were made: reports the next counted call with these facts again.
  void ask_again(std::uint64_t facts) {
    slot& s = slots_[facts % places];
    if (s.facts.load(std::memory_order_relaxed) == facts) s.times.store(enough_ - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr int every = 7;
  static constexpr std::size_t places = 16;
  struct slot {
    std::atomic<std::uint64_t> facts{0};
    std::atomic<std::uint32_t> times{0};
  };
  slot slots_[places];
  std::atomic<std::uint32_t> calls_{0};
  const std::uint32_t enough_;
};

}  // namespace sinter::engine::detail
