// base/readers.hpp: who reads a structure that another thread replaces: what is retired is freed when nobody can see it.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "series.hpp"

namespace sinter {

/// Readers enter, load the structure's address, and leave; they never wait. One writer at a time unlinks, retires and
/// collects. Two counts, of readers that came before and after the last turn, tell what nobody can see any more.
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

  /// The count to decrement when leaving.
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

  /// `free` runs once nobody reads what was unlinked before this. Writers only.
  void retire(std::function<void()> free) {
    after_.push_back(std::move(free));
    collect();
    collect();
  }

  /// Frees what it can. Writers only.
  void collect() {
    const unsigned other = (turn_.load() + 1) & 1;
    for (const slot& s : slots_)
      if (s.in[other].load() != 0) return;
    for (auto& free : before_) free();
    before_ = std::move(after_);
    after_.clear();
    turn_.fetch_add(1);
  }

  /// How much waits for readers.
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
