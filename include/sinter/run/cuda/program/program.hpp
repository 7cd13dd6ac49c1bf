// run/cuda/program/program.hpp: runs kernels of a GPU on their operands in one call; independent of graphs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "../../../base/local_list.hpp"
#include "../../../base/series.hpp"
#include "../device/memory.hpp"
#include "../device/module.hpp"
#include "../device/pinned.hpp"
#include "library_steps.hpp"
#include "step.hpp"
#include "step_times.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// Writes a step's table for this call: addresses and values, then numbers.
inline void write_table(const step& s, operand_table& call, char* to) {
  const std::size_t own = s.operands.size() - s.tabled;
  for (std::size_t i = 0; i < s.tabled; ++i) {
    const operand& o = s.operands[own + i];
    std::memcpy(to + i * sizeof(void*), call.value_of(o),
                o.bytes != 0 ? static_cast<std::size_t>(o.bytes) : sizeof(void*));
  }
  std::copy(s.numbers.begin(), s.numbers.end(), to + s.tabled * sizeof(void*));
}

/// Requests a copy of the tables that are not parameters, in the stream's order, to the call's place.
inline void send_tables(const sequence& s, operand_table& call, queue& q) {
  const auto bytes = static_cast<std::size_t>(s.table_bytes);
  pinned_block* const pinned = pinned_of(q.where->index).take(bytes, *q.where);
  sinter::detail::local_list<char, 16> own(pinned == nullptr ? bytes : 0);
  char* const from = pinned == nullptr ? own.data() : static_cast<char*>(pinned->data);
  for (const step& one : s.steps)
    if (one.table_at >= 0) write_table(one, call, from + one.table_at);
  if (pinned == nullptr) return host_to_device(call.tables(), from, bytes, q);
  const api::result asked = driver().copy_to_device(address_of(call.tables()), from, bytes, q.handle);
  // A pending copy without an event leaves the block to the GPU, which may be reading it.
  if (asked == api::success) check(driver().event_record(pinned->done, q.handle), "copying to the GPU");
  pinned_of(q.where->index).give(pinned);
  check(asked, "copying to the GPU");
}

/// The parameters of a launch for cuLaunchKernel.
class parameter_list {
 public:
  parameter_list(const step& s, operand_table& call)
      : scratch_(call.scratch() + s.scratch),
        table_at_(s.table_at < 0 ? nullptr : call.tables() + s.table_at),
        list_(s.operands.size() - s.tabled + 2 + call.sizes().size() + s.own_sizes.size()),
        table_(s.table_at < 0 ? s.table_bytes() : 0) {
    void** at = list_.data();
    for (std::size_t i = 0; i < s.operands.size() - s.tabled; ++i) *at++ = call.value_of(s.operands[i]);
    if (s.table_at >= 0) {
      *at++ = &table_at_;
    } else if (!s.numbers.empty()) {
      write_table(s, call, table_.data());
      *at++ = table_.data();
    }
    *at++ = &scratch_;
    for (const long& size : call.sizes()) *at++ = const_cast<long*>(&size);
    for (const long& size : s.own_sizes) *at++ = const_cast<long*>(&size);
  }

  void** data() { return list_.data(); }

 private:
  char *scratch_, *table_at_;
  sinter::detail::local_list<void*, 96> list_;
  sinter::detail::local_list<char, 1024> table_;
};

/// Must be called for each request to a stream by `label`, with the driver's result.
inline void requested(api::result r, const char* label, queue& q, const driver_table& call) {
  check_request(r, "launching", label);
  remember(label);
  if (synchronous()) [[unlikely]]
    check(call.stream_synchronize(q.handle), "waiting for", label);
}

/// Requests the kernel of a step from the stream.
inline void launch(const step& s, void** parameters, queue& q, const driver_table& call) {
  const api::result r = with_room(q.where->index, [&] {
    return call.launch(s.entry, s.blocks, 1, 1, s.threads, 1, 1, s.shared, q.handle, parameters, nullptr);
  });
  requested(r, s.label, q, call);
}

inline bool fills_nothing(const step& s) { return s.bytes == 0 || s.rows == 0; }

/// Requests one step from the stream.
inline void enqueue(const step& s, operand_table& table, bool tuned, queue& q, const driver_table& call) {
  switch (s.what) {
    case action::launch:
      if (s.blocks != 0) launch(s, parameter_list(s, table).data(), q, call);
      break;
    case action::fill:
      if (!fills_nothing(s)) {
        const auto to = reinterpret_cast<api::address>(table[s.operands[0]]) + static_cast<api::address>(s.from);
        const auto bytes = static_cast<std::size_t>(s.bytes);
        requested(s.rows == 1 ? call.fill(to, s.value, bytes, q.handle)
                              : call.fill_rows(to, static_cast<std::size_t>(s.pitch), s.value, bytes,
                                               static_cast<std::size_t>(s.rows), q.handle),
                  s.label, q, call);
      }
      break;
    case action::call: {
      sinter::detail::local_list<void*, 128> buffers(s.operands.size());
      for (std::size_t i = 0; i < buffers.size(); ++i)
        buffers[i] = s.operands[i].index < 0 ? nullptr : table[s.operands[i]];
      s.call->run(buffers.data(), table.scratch() + s.scratch, table.sizes().data(), q);
      break;
    }
    case action::product:
    case action::convolution:
      if (const library_row& library = library_of(s); !library.is_empty(s))
        library.request(s, table, nullptr, tuned, q);
      requested(api::success, s.label, q, call);
      break;
  }
}

/// Events of this thread, for the steps of one sequence that run apart; sequences within them have events of their own.
class step_events {
 public:
  explicit step_events(int device) : device_(device), begin_(used(device)) {}
  ~step_events() { used(device_) = begin_; }
  step_events(const step_events&) = delete;
  step_events& operator=(const step_events&) = delete;
  /// An event that marks the present end of q's work.
  api::event marked(queue& q) {
    auto& all = events(device_);
    const std::size_t k = used(device_)++;
    if (k == all.size()) {
      api::event made = nullptr;
      check(driver().event_create(&made, api::event_disable_timing), "making an event");
      all.push_back(made);
    }
    check(driver().event_record(all[k], q.handle), "recording an event");
    return all[k];
  }

 private:
  // A thread's events are left to the driver when it ends.
  static std::array<series<api::event>, max_devices>& all_events() {
    static thread_local std::array<series<api::event>, max_devices> kept;
    return kept;
  }
  static series<api::event>& events(int device) { return all_events()[static_cast<std::size_t>(device)]; }
  static std::size_t& used(int device) {
    static thread_local std::array<std::size_t, max_devices> counts{};
    return counts[static_cast<std::size_t>(device)];
  }
  int device_;
  std::size_t begin_;
};

/// After a failure the call's memory is used again in q's order, which then waits for the steps apart.
struct apart_joiner {
  queue &q, &beside;
  bool complete = false;
  ~apart_joiner() {
    if (complete) return;
    driver().event_record(beside.joint, beside.handle);
    driver().stream_wait(q.handle, beside.joint, 0);
  }
};

/// Requests steps of which some run apart. Later work of q waits for all.
inline void enqueue_with_apart(const sequence& s, operand_table& table, queue& q, const driver_table& call,
                               step_times* times) {
  queue& beside = exchange_queue(q.where->index);
  step_events events(q.where->index);
  series<api::event> begins(s.apart.size(), nullptr), ends(s.apart.size(), nullptr);
  const auto hold = [&](queue& waiter, api::event e) {
    check(call.stream_wait(waiter.handle, e, 0), "waiting for an event");
  };
  const auto mark = [&](int step) {
    for (std::size_t k = 0; k < s.apart.size(); ++k)
      if (s.apart[k].after == step) begins[k] = events.marked(q);
  };
  std::size_t next = 0, waited = 0;
  const auto wait = [&](std::size_t count) {  // for so many of the steps apart
    if (count > waited) hold(q, ends[count - 1]);
    waited = std::max(waited, count);
  };
  apart_joiner whole{q, beside};
  mark(-1);
  const bool tuned = times != nullptr && s.tuned;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (times != nullptr) times->begin(s.steps[i].number, s.steps[i].label, s.steps[i].ops);
    if (next < s.apart.size() && s.apart[next].step == static_cast<int>(i)) {
      hold(beside, begins[next]);
      enqueue(s.steps[i], table, false, beside, call);
      ends[next++] = events.marked(beside);
      continue;
    }
    for (std::size_t k = next; k-- > waited;)
      if (s.apart[k].before >= 0 && s.apart[k].before <= static_cast<int>(i)) {
        wait(k + 1);
        break;
      }
    enqueue(s.steps[i], table, tuned, q, call);
    mark(static_cast<int>(i));
  }
  wait(next);
  whole.complete = true;
}

}  // namespace detail

/// Requests all steps from a stream, whose context is current, with scratch_bytes at `base`. With `times`, measures each step, and
/// computes products as recorded calls do.
inline void execute_in(const sequence& s, std::span<void* const> given, char* base, const long* sizes, queue& q,
                       step_times* times = nullptr) {
  const driver_table& call = driver();
  detail::operand_table table(s, given, base, sizes);
  if (s.table_bytes != 0) {
    table.put_tables(base + s.tables);
    detail::send_tables(s, table, q);
  }
  if (!s.apart.empty()) {
    detail::enqueue_with_apart(s, table, q, call, times);
  } else {
    for (const step& one : s.steps) {
      if (times != nullptr) times->begin(one.number, one.label, one.ops);
      detail::enqueue(one, table, times != nullptr && s.tuned, q, call);
    }
  }
  if (times == nullptr) return;
  times->begin(-1, "");
  times->note();
}

/// Requests all steps from this thread's current stream of the sequence's GPU, and returns. `given` has the addresses of
/// inputs and results; by-value operands are read before the return. Throws system_error naming the step that failed.
inline void execute(const sequence& s, std::span<void* const> given, const long* sizes) {
  queue& q = current_queue(s.device);
  const context_scope here(*q.where);
  if (s.steps.empty()) return;
  const storage scratch = s.scratch_bytes > 0 ? allocate(static_cast<std::size_t>(s.scratch_bytes), s.device,
                                                         scratch_of_call, s.steps.back().label)
                                              : storage{};
  if (!is_traced()) return execute_in(s, given, static_cast<char*>(scratch.data()), sizes, q);
  step_times times(q);
  execute_in(s, given, static_cast<char*>(scratch.data()), sizes, q, &times);
}

}  // namespace sinter::engine::run::cuda
