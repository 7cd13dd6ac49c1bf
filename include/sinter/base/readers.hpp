// base/readers.hpp: the readers of a structure that another thread replaces: retired parts are freed once no reader can see
// them.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "series.hpp"

namespace sinter {

/// Readers enter, load the structure's address, and leave; they never wait. One writer at a time unlinks, retires and
/// collects. Two counts, of readers before and after the last turn, show which parts no reader can see.
class readers {
 public:
  using count = std::atomic<long>;

  readers() = default;
  readers(const readers&) = delete;
  readers& operator=(const readers&) = delete;
  ~readers() {
    for (auto& free : before_) free();
    for (auto& free : after_) free();
  }

  /// The count that the reader decrements when it leaves.
  count& enter() {
    slot& mine = slots_[place()];
    for (;;) {
      const unsigned turn = turn_.load();
      count& in = mine.in[turn & 1];
      in.fetch_add(1);
      if (turn_.load() == turn) return in;
      in.fetch_sub(1);
    }
  }

  /// Runs `free` once no reader sees a part that was unlinked before this call. Writers only.
  void retire(std::function<void()> free) {
    after_.push_back(std::move(free));
    collect();
    collect();
  }

  /// Frees all parts that no reader can see. Writers only.
  void collect() {
    const unsigned other = (turn_.load() + 1) & 1;
    for (const slot& s : slots_)
      if (s.in[other].load() != 0) return;
    for (auto& free : before_) free();
    before_ = std::move(after_);
    after_.clear();
    turn_.fetch_add(1);
  }

  /// The number of parts that wait for readers.
  std::size_t retired() const { return before_.size() + after_.size(); }

 private:
  static constexpr unsigned places = 8;
  struct alignas(64) slot {
    count in[2] = {0, 0};
  };

  static unsigned place() {
    static std::atomic<unsigned> next{0};
    static constinit thread_local unsigned mine = places;
    if (mine == places) mine = next.fetch_add(1) % places;
    return mine;
  }

  slot slots_[places];
  std::atomic<unsigned> turn_{0};
  series<std::function<void()>> before_, after_;  ///< retired before the last turn, and since
};

}  // namespace sinter
