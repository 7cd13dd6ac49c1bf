// run/cuda/device/driver.hpp: the CUDA driver, started on first use; its devices, and texts of its errors.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "../../../base/config.hpp"
#include "../../../base/error.hpp"
#include "../../../base/sorted.hpp"
#include "../../../base/text.hpp"
#include "api.hpp"
#include "library.hpp"

namespace sinter::engine::run::cuda {

inline constexpr int max_devices = 64;

/// A GPU and its primary context, which every CUDA library in the process shares.
struct gpu {
  int index = 0;
  api::device handle = 0;
  api::context context = nullptr;
  std::string name;
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  int shared_per_block = 0;  ///< the greatest shared memory of a kernel, in bytes
  int l2_bytes = 0;
  std::size_t memory = 0;
};

namespace detail {

/// The state of the driver: opened at most once, and searched again while it is missing.
struct driver_state {
  std::mutex mutex;
  std::atomic<bool> ready{false};
  std::atomic<bool> forked{false};
  driver_table table;
  int version = 0;  ///< 13000 for 13.0
  int devices = 0;
  std::array<std::atomic<gpu*>, max_devices> gpus{};
  std::atomic<bool> refuses_early_edges{false};  ///< learned from the first graph with such edges
  std::atomic<bool> refuses_conditions{false};   ///< and from the first graph with a conditional node
  std::mutex lost_mutex;
  std::string lost;  ///< the error after which the contexts are unusable
  // The labels of the last launches, for errors that are reported later.
  static constexpr unsigned remembered = 32;
  std::atomic<unsigned> launches{0};
  std::array<std::atomic<const char*>, remembered> labels{};
};

// Never destroyed: device memory is released while static objects are destroyed.
SINTER_API driver_state& driver_instance() {
  static driver_state* const instance = new driver_state;
  return *instance;
}

inline void after_fork() { driver_instance().forked.store(true, std::memory_order_relaxed); }

[[noreturn]] SINTER_API void fail_forked() {
  throw system_error(
      "[cuda] CUDA was started before this process was forked; start it after fork, or use exec: a child cannot use "
      "its parent's GPU contexts");
}

/// The error for a failed start, with a remedy.
SINTER_API std::string start_problem(api::result r) {
  switch (r) {
    case api::no_device:
      return "the CUDA driver finds no GPU; if there is one, see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case api::stub_library:
      return "the libcuda that was found is the toolkit's stub; put the driver's libcuda.so.1 first, or set "
             "SINTER_LIBCUDA to its path";
    case api::system_driver_mismatch:
    case api::compat_not_supported:
      return "the driver's library and its kernel module are of different versions; reboot, or reinstall the driver";
    case api::system_not_ready:
      return "the GPU system is not ready (the fabric manager or another service of the driver is not running)";
    default:
      return "the CUDA driver could not start";
  }
}

inline std::string coded(api::result r) {
  const char *name = nullptr, *words = nullptr;
  const driver_table& table = driver_instance().table;
  if (table.error_name == nullptr || table.error_name(r, &name) != api::success || name == nullptr)
    return "CUDA error " + std::to_string(r);
  std::string out = name;
  if (table.error_string(r, &words) == api::success && words != nullptr) out.append(": ").append(words);
  return out;
}

/// Opens the library and starts the driver; returns the problem, or "". The caller holds the state's mutex.
SINTER_API std::string start(driver_state& state) {
  const library found = open_library({"SINTER_LIBCUDA", {"libcuda.so.1", "libcuda.so"}, {}});
  if (found.handle == nullptr)
    return "no CUDA driver: " + found.problem +
           "; install NVIDIA's driver, or set SINTER_LIBCUDA to the path of libcuda.so.1";
  driver_table& table = state.table;
#define SINTER_ROW(member, name, parameters)                                             \
  table.member = reinterpret_cast<decltype(table.member)>(::dlsym(found.handle, #name)); \
  if (table.member == nullptr)                                                           \
    return "the CUDA driver " + found.path +                                             \
           " is too old: it lacks " #name                                                \
           "; install a driver for CUDA 12.0"                                            \
           " (525) or newer";
  SINTER_CUDA_DRIVER(SINTER_ROW)
#undef SINTER_ROW
  const auto newer = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(::dlsym(found.handle, name));
  };
  newer(table.stream_create_with_priority, "cuStreamCreateWithPriority");
  newer(table.stream_priorities, "cuCtxGetStreamPriorityRange");
  newer(table.graph_add_edges, "cuGraphAddDependencies_v2");
  newer(table.condition_create, "cuGraphConditionalHandleCreate");
  newer(table.graph_add_conditional, "cuGraphAddNode_v2");
  if (const auto r = table.init(0); r != api::success) return start_problem(r) + " (" + coded(r) + ")";
  if (const auto r = table.driver_version(&state.version); r != api::success)
    return "the CUDA driver does not tell its version (" + coded(r) + ")";
  if (state.version < 12000)
    return "the CUDA driver is too old: it is for CUDA " + std::to_string(state.version / 1000) + "." +
           std::to_string(state.version % 1000 / 10) + "; install a driver for CUDA 12.0 (525) or newer";
  if (const auto r = table.device_count(&state.devices); r != api::success)
    return start_problem(r) + " (" + coded(r) + ")";
  if (state.devices == 0) return start_problem(api::no_device);
  state.devices = std::min(state.devices, max_devices);
  ::pthread_atfork(nullptr, nullptr, after_fork);
  return "";
}

/// Starts the driver unless it is running; returns the problem, or "".
SINTER_API std::string try_start() {
  driver_state& state = driver_instance();
  if (state.ready.load(std::memory_order_acquire)) return "";
  const std::lock_guard lock(state.mutex);
  if (state.ready.load(std::memory_order_relaxed)) return "";
  std::string problem = start(state);
  if (problem.empty()) state.ready.store(true, std::memory_order_release);
  return problem;
}

/// "an illegal memory access" for the errors after which a context is lost; null for others.
inline const char* lost_words(api::result r) {
  switch (r) {
    case api::illegal_address:
      return "an illegal memory access";
    case api::illegal_instruction:
      return "an illegal instruction";
    case api::misaligned_address:
      return "a misaligned memory access";
    case api::invalid_address_space:
      return "an access to the wrong address space";
    case api::invalid_pc:
      return "a jump to an invalid address";
    case api::launch_failed:
      return "a trap";
    case api::assertion:
      return "a failed assertion";
    case api::hardware_stack_error:
      return "a stack error";
    case api::launch_timeout:
      return "a kernel stopped by the display's time limit";
    case api::ecc_uncorrectable:
      return "an uncorrectable memory error";
    default:
      return nullptr;
  }
}

/// The distinct labels of the last launches, latest first, and a remark if there may have been others.
SINTER_API std::string recent_labels() {
  const driver_state& state = driver_instance();
  const unsigned count = state.launches.load(std::memory_order_acquire);
  sorted_set<std::string> seen;
  std::string out;
  bool others = count > driver_state::remembered;
  for (unsigned back = 1; back <= std::min(count, driver_state::remembered); ++back) {
    const char* const labels = state.labels[(count - back) % driver_state::remembered].load(std::memory_order_acquire);
    for (std::string_view rest = labels != nullptr ? labels : ""; !rest.empty();) {
      const std::string label(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(std::min(label.size() + 1, rest.size()));
      if (!seen.insert(label).second) continue;
      if (seen.size() > driver_state::remembered) others = true;
      else out.append(out.empty() ? "" : ", ").append(label);
    }
  }
  if (out.empty()) return "(none was launched)";
  return others ? out + ", or an earlier one" : out;
}

/// True with SINTER_CUDA_SYNC=1: each launch is waited for, so that an error names its kernel.
inline bool synchronous() {
  static const bool chosen = [] {
    const std::string value = environment("SINTER_CUDA_SYNC");
    return !value.empty() && value != "0";
  }();
  return chosen;
}

/// Throws the system_error for `r`, the result of `what` for `label`. `culprit` is the kernel known to have caused the loss
/// of the GPU. Either may be null.
[[noreturn]] SINTER_API void fail_result(api::result r, std::string what, const char* label = nullptr,
                                         const char* culprit = nullptr) {
  driver_state& state = driver_instance();
  if (state.forked.load(std::memory_order_relaxed)) fail_forked();
  const std::lock_guard lock(state.lost_mutex);
  const char* const words = lost_words(r);
  if (label != nullptr) what.append(" ").append(label);
  if (!state.lost.empty())
    throw system_error("[cuda] " + what + " failed: the GPU is of no use to this process after " + state.lost);
  if (words != nullptr) {
    state.lost = culprit != nullptr ? std::string(words) + " in " + culprit
                                    : std::string(words) + " in one of the last kernels: " + recent_labels();
    throw system_error("[cuda] " + state.lost + " (" + coded(r) + ")" +
                       (culprit != nullptr ? "" : "; SINTER_CUDA_SYNC=1 tells which") +
                       "; the process has to be started again to use the GPU");
  }
  throw system_error("[cuda] " + what + " failed: " + coded(r));
}

}  // namespace detail

/// Throws system_error that `what` failed, unless `r` is success.
inline void check(api::result r, const char* what, const char* label = nullptr) {
  if (r != api::success) [[unlikely]]
    detail::fail_result(r, what, label, label);
}

/// Like check(), for a request to a stream: errors of earlier kernels do not name `label`.
inline void check_request(api::result r, const char* what, const char* label) {
  if (r != api::success) [[unlikely]]
    detail::fail_result(r, what, label);
}

/// The driver's entry points. Throws system_error without a usable driver, and in a child forked after the start.
inline const driver_table& driver() {
  detail::driver_state& state = detail::driver_instance();
  if (!state.ready.load(std::memory_order_acquire)) [[unlikely]]
    if (const std::string problem = detail::try_start(); !problem.empty()) throw system_error("[cuda] " + problem);
  if (state.forked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::fail_forked();
  return state.table;
}

/// True while the driver may be called: it was started in this process.
inline bool driver_alive() {
  const detail::driver_state& state = detail::driver_instance();
  return state.ready.load(std::memory_order_acquire) && !state.forked.load(std::memory_order_relaxed);
}

/// The CUDA version that the driver supports: 13000 for 13.0.
inline int driver_version() {
  driver();
  return detail::driver_instance().version;
}

/// The major CUDA version that the driver supports; 0 without a driver.
SINTER_API int driver_major() { return detail::try_start().empty() ? detail::driver_instance().version / 1000 : 0; }

/// Like open_library(), but among several major versions prefers one that the driver supports; `major` returns an open
/// library's version. The driver is queried after the library is opened, because it may be starting meanwhile.
template <class Major>
library open_supported(const library_names& names, Major&& major) {
  library newest = open_library(names);
  if (newest.handle == nullptr) return newest;
  const int most = driver_major();
  if (most == 0 || major(newest.handle) <= most) return newest;
  library_names older = names;
  older.files = {names.files.back() + "." + std::to_string(most)};
  library found = open_library(older);
  return found.handle != nullptr ? found : newest;
}

/// The number of GPUs; if 0, `problem` has the reason. Starts the driver; does not throw.
SINTER_API int device_count(std::string& problem) {
  problem = detail::try_start();
  detail::driver_state& state = detail::driver_instance();
  if (problem.empty() && state.forked.load(std::memory_order_relaxed))
    problem = "CUDA was started before this process was forked; start it after fork, or use exec";
  return problem.empty() ? state.devices : 0;
}

namespace detail {

SINTER_API gpu* open_device(const driver_table& call, int index) {
  auto opened = std::make_unique<gpu>();
  gpu& g = *opened;
  g.index = index;
  check(call.device_get(&g.handle, index), "finding a GPU");
  char name[256] = {};
  check(call.device_name(name, sizeof name, g.handle), "reading a GPU's name");
  g.name = name;
  const auto read = [&](int attribute) {
    int value = 0;
    check(call.device_attribute(&value, attribute, g.handle), "reading a GPU's properties");
    return value;
  };
  g.capability = 10 * read(api::capability_major) + read(api::capability_minor);
  g.multiprocessors = read(api::multiprocessor_count);
  g.shared_per_block = read(api::max_shared_optin);
  g.l2_bytes = read(api::l2_cache_bytes);
  check(call.device_memory(&g.memory, g.handle), "reading a GPU's memory size");
  const std::string who = "cuda(" + std::to_string(index) + "), " + g.name + ",";
  if (g.capability < 70)
    throw system_error("[cuda] " + who + " has compute capability " + std::to_string(g.capability / 10) + "." +
                       std::to_string(g.capability % 10) + "; sinter needs 7.0 or newer");
  const int mode = read(api::compute_mode);
  const auto r = call.context_retain(&g.context, g.handle);
  if (r == api::out_of_memory)
    throw system_error("[cuda] " + who + " has no memory left to start with; another process uses it (see nvidia-smi)");
  if (r == api::device_unavailable || r == api::invalid_device)
    throw system_error("[cuda] " + who +
                       (mode == api::mode_prohibited          ? " is in prohibited compute mode"
                        : mode == api::mode_exclusive_process ? " is in exclusive mode and used by another process"
                                                              : " is busy or not available") +
                       " (" + coded(r) + "); see nvidia-smi, or choose another with CUDA_VISIBLE_DEVICES");
  check(r, "starting a GPU's context");
  return opened.release();
}

}  // namespace detail

/// True after an error of a kernel: the driver refuses further work of this process.
inline bool is_lost() {
  detail::driver_state& state = detail::driver_instance();
  const std::lock_guard lock(state.lost_mutex);
  return !state.lost.empty();
}

/// The GPU with this index, whose context starts at the first call. Throws system_error if it does not exist or cannot be used.
SINTER_API gpu& device_at(int index) {
  const driver_table& call = driver();
  detail::driver_state& state = detail::driver_instance();
  if (index < 0 || index >= state.devices)
    throw system_error("[cuda] there is no cuda(" + std::to_string(index) + "); this process sees " +
                       std::to_string(state.devices) + (state.devices == 1 ? " GPU" : " GPUs") +
                       ", numbered from 0 (CUDA_VISIBLE_DEVICES)");
  auto& slot = state.gpus[static_cast<std::size_t>(index)];
  if (gpu* const known = slot.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(state.mutex);
  if (gpu* const known = slot.load(std::memory_order_relaxed)) return *known;
  gpu* const opened = detail::open_device(call, index);
  slot.store(opened, std::memory_order_release);
  return *opened;
}

/// Makes the GPU's context this thread's until the end of the scope, as every call of the driver requires.
class context_scope {
 public:
  explicit context_scope(const gpu& g) : call_(driver()) {
    check(call_.context_get(&before_), "asking for the current context");
    here_ = g.context;
    if (before_ != here_) check(call_.context_set(here_), "choosing a GPU");
  }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;
  // A thread without a context keeps this one, which displaces no other.
  ~context_scope() {
    if (before_ != here_ && before_ != nullptr) call_.context_set(before_);
  }

 private:
  const driver_table& call_;
  api::context before_ = nullptr, here_ = nullptr;
};

/// A text for the label of a kernel, which lives as long as the process: "softmax (at net.cpp:12)".
SINTER_API const char* label(const std::string& text) {
  static std::mutex mutex;
  static auto* const known = new sorted_map<std::string, const std::string*>;
  const std::lock_guard lock(mutex);
  const std::string*& kept = (*known)[text];
  if (kept == nullptr) kept = new std::string(text);
  return kept->c_str();
}

namespace detail {
/// Remembers a launch for errors that are reported later: its label, or several lines of labels, the last first.
inline void remember(const char* label) {
  driver_state& state = driver_instance();
  const unsigned at = state.launches.load(std::memory_order_relaxed);
  state.labels[at % driver_state::remembered].store(label, std::memory_order_relaxed);
  state.launches.store(at + 1, std::memory_order_release);
}
}  // namespace detail

}  // namespace sinter::engine::run::cuda
