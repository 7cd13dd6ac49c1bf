// tests/emulator/stream.hpp: the emulated device's work: modules, operations, streams, events and graphs.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "block.hpp"
#include "memory.hpp"

namespace emulator {

struct function {
  std::string name;
  void* library = nullptr;
  entry_function* entry = nullptr;
  const int* sizes = nullptr;  ///< as device.hpp says
  sinter_thread** here = nullptr;
  char *shared_begin = nullptr, *shared_end = nullptr;
  int dynamic_limit = 48 * 1024;
  int device = 0;
};

struct module {
  void* library = nullptr;
  int device = 0;
  std::map<std::string, std::unique_ptr<function>> functions;
};

/// One operation of a stream or node of a graph; a copy is independent of what it was copied from.
struct operation {
  enum class kind { call, launch, fill, copy, wait, child, conditional } what = kind::call;
  std::function<void()> call;
  std::function<bool()> ready;  ///< of a call that waits for other processes; empty for others
  // launch
  function* entry = nullptr;
  uint3 grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared = 0;
  std::vector<unsigned char> parameters;
  std::vector<void*> addresses;  ///< of the parameters, once it is begun
  machine* on = nullptr;         ///< what it was begun on
  std::size_t ahead = 0;         ///< it may be begun before so many operations before it in the stream
  // fill, copy
  std::uintptr_t to = 0, from = 0;
  unsigned value = 0;
  std::size_t bytes = 0, rows = 1, pitch = 0;  ///< rows of a fill
  std::size_t span() const { return rows == 0 ? 0 : (rows - 1) * pitch + bytes; }
  // wait
  struct stream* other = nullptr;
  std::uint64_t until = 0;
  // child, conditional
  std::vector<operation> inside;
  std::vector<std::size_t> order;  ///< in which those of a conditional run
  unsigned long long condition = 0;
  bool repeats = false;
};

struct graph {
  struct node {
    operation work;
    graph* owner = nullptr;
    std::size_t index = 0;
    std::vector<std::size_t> before;  ///< nodes that have to end first
    std::vector<std::size_t> early;   ///< those of them that need not have ended when it is begun
    std::unique_ptr<graph> body;      ///< of a conditional
  };
  std::vector<std::unique_ptr<node>> nodes;
  graph* root = this;
  graph* handed_out = nullptr;  ///< where a driver shows a body
};

/// What the kernels of a graph set.
struct condition {
  graph* root = nullptr;
  unsigned begins = 0, value = 0;
  bool begins_anew = false, is_used = false;
};

struct executable {
  std::map<graph::node*, operation*> index;
  graph* root = nullptr;
  std::vector<operation> work;
  std::vector<std::size_t> order, ahead;
};

struct stream {
  int device = 0;
  std::deque<operation> queue;
  std::uint64_t asked = 0, done = 0;
  graph* capture = nullptr;
};

struct event {
  stream* where = nullptr;  ///< null before it is recorded
  std::uint64_t at = 0;
  std::shared_ptr<double> time = std::make_shared<double>(0);
};

inline double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct context {
  int device = 0;
};

/// The whole emulated machine.
struct world {
  bool started = false;
  std::vector<device_memory> memory;
  std::vector<std::unique_ptr<context>> contexts;
  std::set<stream*> streams;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<unsigned long long, condition> conditions;
  int lost = 0;  ///< the error after which nothing works
  bool deferred = setting("SINTER_EMULATOR_DEFER") == "1";
  bool reverse = setting("SINTER_EMULATOR_ORDER") == "reverse";
  std::vector<std::unique_ptr<machine>> machines;
  std::vector<machine*> idle;
  static constexpr std::size_t max_machines = 4;

  void report(int result, const std::string& what) {
    if (lost == 0) lost = result;
    std::fprintf(stderr, "[emulator] %s\n", what.c_str());
  }

  void enqueue(stream& s, operation o) {
    if (s.capture != nullptr) {
      auto n = std::make_unique<graph::node>();
      n->work = std::move(o);
      n->owner = s.capture;
      n->index = s.capture->nodes.size();
      s.capture->nodes.push_back(std::move(n));
      return;
    }
    s.queue.push_back(std::move(o));
    ++s.asked;
    if (!deferred) run_until(s, s.asked, false);
  }

  /// Does a stream's work up to the operation numbered `until`, and what it waits for. False where that work waits for another
  /// process, and the caller does not: `pause` lets other threads use the emulator meanwhile.
  bool run_until(stream& s, std::uint64_t until, bool waits = true) {
    while (s.done < until && !s.queue.empty()) {
      const std::uint64_t before = s.done;
      if (operation& first = s.queue.front(); first.what == operation::kind::wait) {
        if (!run_until(*first.other, first.until, waits)) return false;
      } else if (first.ready && lost == 0 && !first.ready()) {
        if (!waits) return false;
        pause();
        continue;
      }
      if (s.done != before) continue;  // another thread did it meanwhile
      operation o = std::move(s.queue.front());
      s.queue.pop_front();
      for (std::size_t k = 0; k < std::min(s.queue.size(), std::size_t{64}); ++k)
        if (s.queue[k].ahead == k + 1) launch(s.queue[k], true);
      perform(o);
      ++s.done;
    }
    return true;
  }
  void (*pause)() = nullptr;
  void drain(int device) {
    for (stream* s : streams)
      if (s->device == device) run_until(*s, s->asked);
    if (!memory[static_cast<std::size_t>(device)].intact()) report(700, "memory outside of an allocation was written");
  }

  void perform(operation& o) {
    if (lost != 0) return;
    switch (o.what) {
      case operation::kind::call:
        return o.call();
      case operation::kind::fill:
        if (!reachable(o.to, o.span())) return report(700, "a fill outside of device memory");
        for (std::size_t r = 0; r < o.rows; ++r)
          std::memset(reinterpret_cast<void*>(o.to + r * o.pitch), static_cast<int>(o.value), o.bytes);
        return;
      case operation::kind::copy:
        if (!reachable(o.to, o.bytes) || !reachable(o.from, o.bytes))
          return report(700, "a copy outside of device memory");
        std::memmove(reinterpret_cast<void*>(o.to), reinterpret_cast<const void*>(o.from), o.bytes);
        return;
      case operation::kind::conditional:
        while (lost == 0 && conditions.at(o.condition).value != 0) {
          for (const std::size_t next : o.order) {
            operation inner = o.inside[next];
            perform(inner);
          }
          if (!o.repeats) break;
        }
        return;
      case operation::kind::wait:
        run_until(*o.other, o.until);
        return;
      case operation::kind::child:
        for (auto& inner : o.inside) perform(inner);
        return;
      case operation::kind::launch:
        return launch(o);
    }
  }

  bool reachable(std::uintptr_t at, std::size_t bytes) const {
    for (const auto& m : memory)
      if (m.holds(at, bytes)) return true;
    return false;
  }

  /// Runs a kernel to its end; `early`, where a machine can be spared, until it waits for what is before it in the stream.
  void launch(operation& o, bool early = false) {
    if (lost != 0) return;
    const function& f = *o.entry;
    if (o.on == nullptr) {
      if (idle.size() < (early ? 2u : 1u) && machines.size() < max_machines) {
        machines.push_back(std::make_unique<machine>());
        idle.push_back(machines.back().get());
      }
      if (early && idle.size() < 2) return;
      if (!begin(o)) return;
      o.on = idle.back();
      idle.pop_back();
      o.on->dynamic_used = o.shared + 256;
      o.on->take(f.entry, o.addresses.data(), o.grid, o.block, f.shared_begin, f.shared_end, reverse);
    }
    *f.here = &o.on->here;
    fault found;
    const int caught = guarded([&] { found = o.on->run(early); });
    if (caught == SIGSEGV || caught == SIGBUS) found = {700, "an access outside of memory"};
    if (caught == SIGILL) found = {716, "a misaligned access, or an index outside of an array"};
    if (caught == SIGFPE) found = {719, "an integer division by zero"};
    if (found.result != 0) {
      const uint3 b = o.on->here.block, t = o.on->here.thread;
      report(found.result,
             f.name + ", block " + std::to_string(b.x) + ", thread " + std::to_string(t.x) + ": " + found.what);
    }
    if (early) return;
    for (const auto& [handle, value] : o.on->chosen)
      if (const auto at = conditions.find(handle); at != conditions.end()) at->second.value = value;
      else report(719, f.name + " sets a condition that no graph has");
    idle.push_back(o.on);
  }

  /// Finds a kernel's parameters; false where one is wrong.
  bool begin(operation& o) {
    const function& f = *o.entry;
    if (setting("SINTER_EMULATOR_FAULT") == f.name) return report(700, "an injected fault in " + f.name), false;
    std::size_t at = 0;
    for (const int* size = f.sizes; *size != 0; ++size) {
      const std::size_t bytes = static_cast<std::size_t>(std::abs(*size));
      at = (at + 7) / 8 * 8;
      o.addresses.push_back(o.parameters.data() + at);
      at += bytes;
      std::uintptr_t pointer = 0;
      if (*size < 0) std::memcpy(&pointer, o.addresses.back(), sizeof pointer);
      if (pointer != 0 && !reachable(pointer, 0))
        return report(700, f.name + ": parameter " + std::to_string(o.addresses.size() - 1) +
                               " points to memory that is not the device's, or was freed"),
               false;
    }
    return true;
  }
};

// Never destroyed: programs free device memory while static objects are destroyed.
inline world& all() {
  static world* const instance = new world;
  return *instance;
}

/// The bytes of a shared object in memory, from its headers.
inline std::size_t image_bytes(const unsigned char* image) {
  std::uint64_t sections = 0;
  std::uint16_t entry = 0, count = 0;
  std::memcpy(&sections, image + 40, 8);
  std::memcpy(&entry, image + 58, 2);
  std::memcpy(&count, image + 60, 2);
  return sections + std::size_t{entry} * count;
}

/// The parameters of a launch in one block of bytes, each at a multiple of 8.
inline std::vector<unsigned char> packed(const function& f, void** parameters) {
  std::vector<unsigned char> out;
  for (const int* size = f.sizes; *size != 0; ++size) {
    const auto bytes = static_cast<std::size_t>(std::abs(*size));
    const std::size_t at = (out.size() + 7) / 8 * 8;
    out.resize(at + bytes);
    std::memcpy(out.data() + at, *parameters++, bytes);
  }
  return out;
}

}  // namespace emulator
