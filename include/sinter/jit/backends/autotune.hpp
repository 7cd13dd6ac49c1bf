// jit/backends/autotune.hpp: mode::max_autotune: measures the ways to compute a kernel, chooses the fastest, and keeps the choice.
#pragma once

#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "../../base/callback.hpp"
#include "../../base/series.hpp"
#include "../../engine/options.hpp"
#include "../../plan/kernel/kernel.hpp"
#include "../../plan/schedule/print.hpp"
#include "../../run/build/choices.hpp"
#include "../../run/cuda/device/memory.hpp"
#include "../../run/cuda/program/nvrtc.hpp"
#include "../../run/host/buffer.hpp"
#include "../../run/host/program.hpp"
#include "../../run/ranks.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// A way to compute a kernel: its name, and for a recipe its option. The first of several is what rules choose.
struct way {
  std::string name;
  int option = plan::kernel::by_rule;
};

inline constexpr const char* without_recipe = "kernel";

inline way way_of_option(int option) { return {"option " + std::to_string(option), option}; }
/// The option of a way by its name.
inline int option_named(std::string_view name) {
  constexpr std::string_view of_recipe = "option ";
  if (name == without_recipe) return plan::kernel::no_recipe;
  if (!name.starts_with(of_recipe)) return plan::kernel::by_rule;
  int option = plan::kernel::by_rule;
  std::from_chars(name.data() + of_recipe.size(), name.data() + name.size(), option);
  return option;
}

/// The option that measurement chose for a step of a program.
inline int chosen_in(const code& c, std::size_t step) {
  return step < c.about.steps.size() ? option_named(c.about.steps[step].chosen) : plan::kernel::by_rule;
}
inline series<std::string> names_of(const series<way>& ways) {
  series<std::string> out;
  for (const way& w : ways) out.push_back(w.name);
  return out;
}

/// A way that can be measured: a call of it on operands for trials.
struct candidate {
  std::string name;
  sinter::detail::callback<void()> run;
};

/// Whether ways are measured. Ranks repeat the computations of invariant values, whose bits are to be equal: none measures for itself.
inline bool measures(const options& how) {
  return how.mode == mode::max_autotune && !how.deterministic && !run::world().is_of_processes();
}

/// SINTER_CANDIDATE: the name of the way that mode::max_autotune takes unmeasured, wherever a kernel has it; for tests.
inline std::string forced_way() { return run::detail::environment("SINTER_CANDIDATE"); }

/// What decides measured times besides the kernel.
inline std::string machine_text(device where) {
  if (!where.is_cuda())
    return "isa " + run::instruction_set() + "\nthreads " + std::to_string(run::max_threads()) + "\n";
  const run::cuda::gpu& gpu = run::cuda::device_at(where.index);
  return gpu.name + " " + std::to_string(gpu.capability) + " " + std::to_string(gpu.multiprocessors) + "\ndriver " +
         std::to_string(run::cuda::driver_version()) + "\n";
}

/// The key of a kernel's choice: its text, its operands, and the ways that there are.
inline std::string choice_key_of(const plan::kernel& k, const series<way>& ways, const std::string& more,
                                 device where) {
  std::string key = std::string(run::choice_key) + "sinter " SINTER_VERSION "\n" + machine_text(where);
  constexpr std::int64_t vector_bytes = 16;  // a greater alignment changes no text
  for (const way& w : ways) key += w.name + ";";
  key += more + "\n" + plan::text_of(k);
  for (const auto& b : k.buffers)
    key += std::string(dtype_name(b.type)) + (b.written ? " w" : "") + (b.by_value ? " v" : "") + " " +
           std::to_string(std::min(b.alignment, vector_bytes)) + ";";
  return key;
}

/// The elements of a buffer that a kernel of known extents may reach, and a row more: calls of libraries go on into gaps.
inline std::int64_t reach_of(const plan::kernel& k, int buffer) {
  std::int64_t most = 1;
  const auto add = [&](const plan::access& a, const series<ir::dim>& further) {
    if (a.buffer != buffer) return;
    std::int64_t last = a.at.offset.number().value_or(0), row = 0;
    for (std::size_t x = 0; x < a.at.stride.size(); ++x) {
      const ir::dim& extent = x < k.axes.size() ? k.axes[x].extent : further[x - k.axes.size()];
      const std::int64_t step = a.at.stride[x].number().value_or(0);
      last += std::max<std::int64_t>(0, step * (extent.number().value_or(1) - 1));
      row = std::max(row, step);
    }
    most = std::max(most, last + row + 1);
  };
  for (const auto& i : k.body)
    if (plan::reads_memory(i)) add(i.at, {});
  for (const auto& s : k.stores) add(s.at, {});
  for (const auto& p : k.products) {
    add(p.a, p.k);
    add(p.b, p.k);
  }
  return most;
}

/// Whether all extents, strides and places of a kernel are numbers, so that its operands' sizes and its work are known. Places that
/// depend on values follow the rules.
inline bool is_closed(const plan::kernel& k) {
  const auto depends = [](const plan::affine& at) { return at.index >= 0; };
  for (const auto& i : k.body) {
    if (plan::reads_memory(i) && depends(i.at.at)) return false;
    if (std::any_of(i.ranges.begin(), i.ranges.end(), [&](const auto& r) { return depends(r.at); })) return false;
  }
  for (const auto& s : k.stores)
    if (depends(s.at.at)) return false;
  for (const auto& p : k.products)
    if (depends(p.a.at) || depends(p.b.at)) return false;
  return k.symbols == 0 && !k.is_opaque() &&
         std::all_of(k.axes.begin(), k.axes.end(), [](const plan::axis& a) { return a.extent.is_number(); });
}

/// Arrays on a device in one block of memory. Numbers are small and not 0, truths are true, and integers are 0.
class trial_arrays {
 public:
  struct array {
    dtype type = dtype::f32;
    std::int64_t elements = 0;
    bool by_value = false;  ///< an element on the host
  };
  trial_arrays(const series<array>& all, device where) : values_(all.size()) {
    std::size_t bytes = 0;
    for (const array& a : all) bytes += a.by_value ? 0 : bytes_of(a);
    memory_ = where.is_cuda() ? run::cuda::allocate_if_room(bytes + 1, where.index) : run::allocate(bytes + 1);
    if (!memory_) return;
    char* at = static_cast<char*>(memory_.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int byte = is_float(all[i].type) ? 0x3c : all[i].type == dtype::b8 ? 1 : 0;
      std::memset(values_[i].bytes, byte, sizeof values_[i].bytes);
      table.push_back(all[i].by_value ? values_[i].bytes : at);
      if (all[i].by_value) continue;
      fill(at, byte, bytes_of(all[i]), where);
      at += bytes_of(all[i]);
    }
  }
  /// False if there is no room.
  explicit operator bool() const { return static_cast<bool>(memory_); }

  series<void*> table;

  static void fill(void* at, int byte, std::size_t bytes, device where) {
    if (!where.is_cuda()) return void(std::memset(at, byte, bytes));
    run::cuda::queue& q = run::cuda::current_queue(where.index);
    const run::cuda::context_scope here(*q.where);
    run::cuda::check(run::cuda::driver().fill(reinterpret_cast<run::cuda::api::address>(at),
                                              static_cast<unsigned char>(byte), bytes, q.handle),
                     "filling memory");
  }

 private:
  struct value {
    alignas(16) char bytes[16];
  };
  static std::size_t bytes_of(const array& a) {
    return (static_cast<std::size_t>(a.elements) * size_of(a.type) + 255) / 256 * 256;
  }
  series<value> values_;
  storage memory_;
};

/// Microseconds of single runs from cold caches.
class trial_clock {
 public:
  explicit trial_clock(device where) : where_(where) {
    if (!where.is_cuda()) {
      on_host_.resize(std::size_t{64} << 20);
      return;
    }
    dirt_bytes_ = 2 * static_cast<std::size_t>(std::max(1 << 20, run::cuda::device_at(where.index).l2_bytes));
    on_gpu_ = run::cuda::allocate_if_room(dirt_bytes_, where.index);
  }
  double time(const candidate& c) {
    void* const dirt = where_.is_cuda() ? on_gpu_.data() : on_host_.data();
    if (dirt) trial_arrays::fill(dirt, ++turn_ & 0x7f, where_.is_cuda() ? dirt_bytes_ : on_host_.size(), where_);
    return where_.is_cuda() ? on_gpu(c) : on_host(c);
  }

 private:
  static double on_host(const candidate& c) {
    const auto begin = std::chrono::steady_clock::now();
    c.run();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  double on_gpu(const candidate& c) const {
    using namespace run::cuda;
    const driver_table& call = driver();
    queue& q = current_queue(where_.index);
    const context_scope here(*q.where);
    struct events {
      api::event begin = nullptr, end = nullptr;
      ~events() {
        if (begin != nullptr) driver().event_destroy(begin);
        if (end != nullptr) driver().event_destroy(end);
      }
    } e;
    const char* const doing = "measuring a kernel";
    float took = 0;
    check(call.event_create(&e.begin, api::event_default), doing);
    check(call.event_create(&e.end, api::event_default), doing);
    check(call.event_record(e.begin, q.handle), doing);
    c.run();
    check(call.event_record(e.end, q.handle), doing);
    check(call.event_synchronize(e.end), doing);
    check(call.event_elapsed(&took, e.begin, e.end), doing);
    return 1e3 * static_cast<double>(took);
  }

  device where_;
  std::size_t dirt_bytes_ = 0;
  storage on_gpu_;
  series<char> on_host_;  // given back at the end, unlike what the allocator caches
  int turn_ = 0;
};

/// The times of candidates, in their order; those that fail, or come after two seconds, are left out.
inline run::measured_ways times_of(const series<candidate>& all, trial_clock& clock) {
  constexpr int tries = 5;
  constexpr double hopeless = 1.5;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  double best = std::numeric_limits<double>::infinity();
  run::measured_ways out;
  for (const candidate& c : all) {
    if (!out.empty() && std::chrono::steady_clock::now() > deadline) break;
    try {
      c.run();  // everything is loaded then
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < tries; ++i) {
        least = std::min(least, clock.time(c));
        if (least > hopeless * best || std::chrono::steady_clock::now() > deadline) break;
      }
      best = std::min(best, least);
      out.push_back({c.name, least});
    } catch (const system_error& problem) {
      logs::to("perf", [&] { return c.name + " is not measured: " + problem.what(); });
    }
  }
  return out;
}

/// Moves the fastest way to the front. It is the rules' one, `usual`, unless another is clearly faster.
inline void put_fastest_first(run::measured_ways& ways, const std::string& usual) {
  const auto cost = [&](const run::timed_way& w) { return (w.name == usual ? 0.95 : 1) * w.microseconds; };
  const auto best =
      std::min_element(ways.begin(), ways.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  std::rotate(ways.begin(), best, best + 1);
}

/// One thread measures at a time.
inline std::mutex& measuring() {
  static std::mutex& one_at_a_time = *new std::mutex;
  return one_at_a_time;
}

/// The index of the way to take among `names`, the first of which is what rules choose. `prepare` gives the candidates that can be
/// measured, if neither this process nor an earlier one has. Reports the choice for a kernel, or for an op if `step` is -1.
template <class Prepare>
std::size_t choose(code& c, const std::string& key, const series<std::string>& names, const std::string& what,
                   std::int64_t step, Prepare&& prepare) {
  const auto at = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const auto take = [&](const std::string& name) {
    if (step >= 0) c.about.steps[static_cast<std::size_t>(step)].chosen = name;
    return at(name);
  };
  if (const std::string forced = forced_way(); !forced.empty()) return at(forced) < names.size() ? take(forced) : 0;
  run::measured_ways ways = run::choice_table::get().find(key);
  const auto is_known = [&] { return !ways.empty() && at(ways[0].name) < names.size(); };
  std::unique_lock<std::mutex> lock;
  series<candidate> candidates;
  if (!is_known()) {
    candidates = prepare();
    if (candidates.size() < 2) return 0;
    lock = std::unique_lock(measuring());
    ways = run::choice_table::get().find(key);  // another thread may have measured meanwhile
  }
  if (!is_known()) {
    trial_clock clock(c.where);
    ways = times_of(candidates, clock);
    if (ways.empty()) return 0;
    c.about.measured += ways.size();
    c.measured.insert(key);
    put_fastest_first(ways, names[0]);
    run::choice_table::get().store(key, ways);
    logs::to("perf", [&] {
      std::string line = what + ":";
      for (const auto& w : ways) line += " " + w.name + " " + text::number(w.microseconds) + " us";
      return line;
    });
  }
  choice_report told{what, step, !c.measured.contains(key), {}};
  for (const auto& w : ways) told.candidates.push_back({w.name, w.microseconds});
  const auto is_same = [&](const choice_report& x) {
    return x.what == what && std::equal(x.candidates.begin(), x.candidates.end(), told.candidates.begin(),
                                        told.candidates.end(), [](const auto& a, const auto& b) {
                                          return a.name == b.name && a.microseconds == b.microseconds;
                                        });
  };
  if (std::none_of(c.about.choices.begin(), c.about.choices.end(), is_same)) c.about.choices.push_back(std::move(told));
  return take(ways[0].name);
}

/// The work of a step, in bytes, by the measure of fusion.
inline double work_of(const kernel_report& r, double bytes_per_operation) {
  return static_cast<double>(r.read + r.written) + bytes_per_operation * static_cast<double>(r.flops);
}
/// The least work of a step of a graph that is measured: a hundredth of all.
inline double least_work(const code& c, std::size_t first, std::size_t count, double bytes_per_operation) {
  double all = 0;
  for (std::size_t s = first; s < first + count; ++s) all += work_of(c.about.steps[s], bytes_per_operation);
  return all / 100;
}

/// The operands of a kernel for trials; of each buffer one.
inline std::shared_ptr<trial_arrays> arrays_for(const plan::kernel& k, device where) {
  series<trial_arrays::array> all;
  for (std::size_t b = 0; b < k.buffers.size(); ++b)
    all.push_back({k.buffers[b].type, reach_of(k, static_cast<int>(b)), k.buffers[b].by_value});
  return std::shared_ptr<trial_arrays>(new trial_arrays(all, where));
}

}  // namespace sinter::engine::detail
