// run/control.hpp: branches and loops whose parts are sequences of steps; one text for the host and for GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "../base/local_list.hpp"
#include "../base/series.hpp"

namespace sinter::engine::run {

/// Where things lie in the scratch memory of a routine: blocks at multiples of 64 bytes.
class layout {
 public:
  std::int64_t add(std::int64_t bytes) { return std::exchange(end_, end_ + (bytes + 63) / 64 * 64); }
  std::int64_t bytes() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

/// The addresses of a call.
using address_list = sinter::detail::local_list<void*, 128>;

/// A loop's operands and results, in the order of a routine's buffers: carried, sliced, constants; carried, stacked, history.
struct loop_shape {
  std::int64_t length = 0;
  bool reverse = false;
  series<std::int64_t> carried, sliced, stacked;  ///< bytes of each value, of a slice
  std::size_t constants = 0;

  std::size_t operands() const { return carried.size() + sliced.size() + constants; }
};

/// Scratch memory of a loop: two places for each carried value, one for a stacked value that nothing reads, then the body's.
struct loop_scratch {
  series<std::int64_t> turns[2], unread;
  std::int64_t body = 0, bytes = 0;

  loop_scratch() = default;
  loop_scratch(const loop_shape& s, std::int64_t body_bytes) {
    layout at;
    for (auto& turn : turns)
      for (auto n : s.carried) turn.push_back(at.add(n));
    for (auto n : s.stacked) unread.push_back(at.add(n));
    body = at.add(body_bytes);
    bytes = at.bytes();
  }
};

/// Calls the body for every step. `Machine` has copy(to, from, bytes), which is in order with the body, and
/// body(given): the addresses of the index, an i64 on the host, the operands of a step, then its results.
template <class Machine>
void run_loop(const loop_shape& s, const loop_scratch& at, void* const* buffers, char* scratch, Machine&& machine) {
  const std::size_t carried = s.carried.size(), sliced = s.sliced.size(), stacked = s.stacked.size();
  void* const* const results = buffers + s.operands();
  void* const* const history = results + carried + stacked;
  const auto place = [&](std::int64_t turn) { return s.reverse ? s.length - 1 - turn : turn; };
  const auto slice = [](void* base, std::int64_t i, std::int64_t bytes) {
    return static_cast<char*>(base) + i * bytes;
  };
  std::int64_t index = 0;
  address_list given(1 + s.operands() + carried + stacked);
  given[0] = &index;
  void** const values = given.data() + 1;
  void** const out = values + s.operands();
  for (std::size_t k = 0; k < s.operands(); ++k) values[k] = buffers[k];
  for (std::size_t k = 0; k < carried; ++k) {
    void* const first = s.length == 0 ? results[k] : history[k] ? slice(history[k], place(0), s.carried[k]) : nullptr;
    if (first) machine.copy(first, buffers[k], s.carried[k]);
  }
  for (std::int64_t turn = 0; turn < s.length; ++turn) {
    index = place(turn);
    for (std::size_t k = 0; k < sliced; ++k) values[carried + k] = slice(buffers[carried + k], index, s.sliced[k]);
    for (std::size_t k = 0; k < carried; ++k) {
      const bool last = turn + 1 == s.length;
      if (last && results[k]) out[k] = results[k];
      else if (!last && history[k]) out[k] = slice(history[k], place(turn + 1), s.carried[k]);
      else out[k] = scratch + at.turns[turn % 2][k];
    }
    for (std::size_t k = 0; k < stacked; ++k)
      out[carried + k] =
          results[carried + k] ? slice(results[carried + k], index, s.stacked[k]) : scratch + at.unread[k];
    machine.body(given, scratch + at.body);
    for (std::size_t k = 0; k < carried; ++k) values[k] = out[k];
  }
}

/// A while loop's carried values are in one of two places; the test's result in a third.
struct while_scratch {
  series<std::int64_t> turns[2];
  std::int64_t test = 0, part = 0, bytes = 0;

  while_scratch() = default;
  while_scratch(const series<std::int64_t>& carried, std::int64_t part_bytes) {
    layout at;
    for (auto& turn : turns)
      for (auto n : carried) turn.push_back(at.add(n));
    test = at.add(1);
    part = at.add(part_bytes);
    bytes = at.bytes();
  }
};

/// `Machine` has copy, test(given, scratch) -> bool, whose last address receives the bool, and body(given, scratch).
template <class Machine>
void run_while(const series<std::int64_t>& carried, std::size_t constants, const while_scratch& at,
               void* const* buffers, char* scratch, Machine&& machine) {
  const std::size_t operands = carried.size() + constants;
  address_list tested(operands + 1), given(operands + carried.size());
  for (std::size_t k = 0; k < operands; ++k) tested[k] = given[k] = buffers[k];
  tested[operands] = scratch + at.test;
  for (std::size_t turn = 0; machine.test(tested, scratch + at.part); turn ^= 1) {
    for (std::size_t k = 0; k < carried.size(); ++k) given[operands + k] = scratch + at.turns[turn][k];
    machine.body(given, scratch + at.part);
    for (std::size_t k = 0; k < carried.size(); ++k) given[k] = tested[k] = given[operands + k];
  }
  for (std::size_t k = 0; k < carried.size(); ++k)
    if (buffers[operands + k]) machine.copy(buffers[operands + k], given[k], carried[k]);
}

/// The addresses for a branch: the operands behind the predicate, and the results, in scratch memory where nothing reads them.
struct branch_buffers : address_list {
  branch_buffers(void* const* buffers, std::size_t operands, const series<std::int64_t>& unread, char* scratch)
      : address_list(operands - 1 + unread.size()) {
    std::copy(buffers + 1, buffers + operands, data());
    for (std::size_t k = 0; k < unread.size(); ++k) {
      void* const result = buffers[operands + k];
      (*this)[operands - 1 + k] = result ? result : scratch + unread[k];
    }
  }
};

}  // namespace sinter::engine::run
