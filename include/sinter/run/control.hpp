// run/control.hpp: branches, calls and loops with parts that are sequences of steps; shared by host and GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "../base/local_list.hpp"
#include "../base/series.hpp"

namespace sinter::engine::run {

/// The layout of a routine's scratch memory: blocks at multiples of 64 bytes.
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
  series<char> in_place;  ///< for each carried value, whether the body may overwrite it in place; empty: none
  std::size_t constants = 0;

  std::size_t operands() const { return carried.size() + sliced.size() + constants; }
};

/// Scratch memory of a loop: two places for each carried value, one for each unread stacked value, then the body's.
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

/// Calls the body for every step. `Machine` has copy(to, from, bytes), ordered with the body, and body(given). `given` has
/// the addresses of the index, an i64 on the host, of a step's operands, then of its results. `may_replace` enables
/// `in_place`.
template <class Machine>
void run_loop(const loop_shape& s, const loop_scratch& at, void* const* buffers, char* scratch, Machine&& machine,
              bool may_replace = true) {
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
  // Values carried in place have one place for all steps.
  const auto home = [&](std::size_t k) -> void* {
    if (!may_replace || s.in_place.empty() || !s.in_place[k] || history[k] || s.length == 0) return nullptr;
    return results[k] ? results[k] : scratch + at.turns[0][k];
  };
  for (std::size_t k = 0; k < carried; ++k)
    if (void* const own = home(k)) {
      machine.copy(own, buffers[k], s.carried[k]);
      values[k] = own;
    }
  for (std::int64_t turn = 0; turn < s.length; ++turn) {
    index = place(turn);
    for (std::size_t k = 0; k < sliced; ++k) values[carried + k] = slice(buffers[carried + k], index, s.sliced[k]);
    for (std::size_t k = 0; k < carried; ++k) {
      const bool last = turn + 1 == s.length;
      if (void* const own = home(k)) out[k] = own;
      else if (last && results[k]) out[k] = results[k];
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

/// A while loop's carried values alternate between two places; the test's result is in a third.
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
/// `in_place` is as in a loop.
template <class Machine>
void run_while(const series<std::int64_t>& carried, const series<char>& in_place, std::size_t constants,
               const while_scratch& at, void* const* buffers, char* scratch, Machine&& machine) {
  const std::size_t operands = carried.size() + constants;
  address_list tested(operands + 1), given(operands + carried.size());
  for (std::size_t k = 0; k < operands; ++k) tested[k] = given[k] = buffers[k];
  tested[operands] = scratch + at.test;
  for (std::size_t k = 0; k < in_place.size(); ++k)
    if (in_place[k]) {
      tested[k] = given[k] = buffers[operands + k] ? buffers[operands + k] : scratch + at.turns[0][k];
      machine.copy(given[k], buffers[k], carried[k]);
    }
  for (std::size_t turn = 0; machine.test(tested, scratch + at.part); turn ^= 1) {
    for (std::size_t k = 0; k < carried.size(); ++k)
      given[operands + k] = !in_place.empty() && in_place[k] ? given[k] : scratch + at.turns[turn][k];
    machine.body(given, scratch + at.part);
    for (std::size_t k = 0; k < carried.size(); ++k) given[k] = tested[k] = given[operands + k];
  }
  for (std::size_t k = 0; k < carried.size(); ++k)
    if (buffers[operands + k] && buffers[operands + k] != given[k])
      machine.copy(buffers[operands + k], given[k], carried[k]);
}

/// Memory for unread results that a routine must write.
class unread_results {
 public:
  unread_results(layout& at, const series<std::int64_t>& bytes) {
    for (auto n : bytes) places_.push_back(at.add(n));
  }
  std::size_t size() const { return places_.size(); }
  /// Sets the addresses of results that have none.
  void fill(void** results, char* scratch) const {
    for (std::size_t k = 0; k < places_.size(); ++k)
      if (!results[k]) results[k] = scratch + places_[k];
  }

 private:
  series<std::int64_t> places_;
};

/// A branch on one machine: the part for false, the part for true, and their memory.
template <class Sequence>
struct branch_of {
  Sequence parts[2];
  std::size_t operands;
  layout at;
  unread_results unread;
  std::int64_t part, bytes;

  branch_of(Sequence yes, Sequence no, std::size_t count, const series<std::int64_t>& result_bytes)
      : parts{std::move(no), std::move(yes)},
        operands(count),
        unread(at, result_bytes),
        part(at.add(std::max(parts[0].scratch_bytes, parts[1].scratch_bytes))),
        bytes(at.bytes()) {}

  /// The addresses for a part: the operands after the predicate, then the results.
  struct given : address_list {
    given(const branch_of& b, void* const* buffers, char* scratch) : address_list(b.operands - 1 + b.unread.size()) {
      std::copy_n(buffers + 1, size(), data());
      b.unread.fill(data() + b.operands - 1, scratch);
    }
  };
};

/// A part that runs once, on one machine.
template <class Sequence>
struct call_of {
  Sequence part;
  std::size_t operands;
  layout at;
  unread_results unread;
  std::int64_t inside, bytes;

  call_of(Sequence steps, std::size_t count, const series<std::int64_t>& result_bytes)
      : part(std::move(steps)),
        operands(count),
        unread(at, result_bytes),
        inside(at.add(part.scratch_bytes)),
        bytes(at.bytes()) {}

  /// The addresses for the part: the operands, then the results.
  struct given : address_list {
    given(const call_of& c, void* const* buffers, char* scratch) : address_list(c.operands + c.unread.size()) {
      std::copy_n(buffers, size(), data());
      c.unread.fill(data() + c.operands, scratch);
    }
  };
};

/// A loop of a known number of steps on one machine.
template <class Sequence>
struct loop_of {
  Sequence body;
  loop_shape shape;
  loop_scratch at;

  loop_of(Sequence steps, loop_shape s) : body(std::move(steps)), shape(std::move(s)), at(shape, body.scratch_bytes) {}
};

/// A loop on one machine that runs while a test holds.
template <class Sequence>
struct while_of {
  Sequence parts[2];  ///< the test, the body
  series<std::int64_t> carried;
  series<char> in_place;
  std::size_t constants;
  while_scratch at;

  while_of(Sequence test, Sequence body, series<std::int64_t> bytes, series<char> places, std::size_t count)
      : parts{std::move(test), std::move(body)},
        carried(std::move(bytes)),
        in_place(std::move(places)),
        constants(count),
        at(carried, std::max(parts[0].scratch_bytes, parts[1].scratch_bytes)) {}
};

}  // namespace sinter::engine::run
