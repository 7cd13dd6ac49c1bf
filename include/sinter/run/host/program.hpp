// run/host/program.hpp: runs loaded kernels on their operands in one call; independent of graphs.
#pragma once

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <memory>
#include <span>
#include <thread>

#include "../../base/local_list.hpp"
#include "../../base/series.hpp"
#include "../trace_file.hpp"
#include "buffer.hpp"
#include "forked.hpp"
#include "module.hpp"
#include "team.hpp"

namespace sinter::engine::run {

/// The greatest number of threads that run a kernel's tasks: the present number, or one for each core if more may come later.
inline std::int64_t max_threads() {
  std::int64_t n = std::max(1u, std::thread::hardware_concurrency());
#if defined(_OPENMP)
  n = std::max<std::int64_t>(n, omp_get_max_threads());
#endif
  return n;
}

/// A step other than a kernel: a branch, a loop, a user's function.
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;
  /// `buffers` are its operands, then its results, null for unread ones; it may use scratch_bytes() at `scratch`.
  virtual void run(void* const* buffers, char* scratch, const long* sizes) const = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }
};

/// A kernel, called for each of its members in turn. Operands are indexes into a table of addresses: the caller's operands,
/// then intermediates at fixed offsets of one scratch block.
struct step {
  std::shared_ptr<const module> code;
  kernel_function* entry = nullptr;
  std::shared_ptr<const routine> call;  ///< instead of a kernel
  std::size_t members = 1;
  series<int> operands;             ///< of each member; in a routine: -1 for an unread result
  series<long> numbers;             ///< of each member, in place of the call's sizes; empty: the sizes
  std::int64_t scratch = 0;         ///< offset of the kernel's own scratch
  long threads = 0, of_thread = 0;  ///< not 0: the number of threads' parts, and their bytes; it begins with both
  bool parallel = false;            ///< the kernel may run on several threads
  std::string label;                ///< the ops in it
  std::string ops;                  ///< while calls are traced, a line for each with its place
};

struct sequence {
  series<step> steps;
  series<std::int64_t> intermediates;  ///< offsets in the scratch block
  std::int64_t scratch_bytes = 0;
};

/// Calls the kernels in order, with scratch_bytes at `base`. `given` has the addresses of inputs and results.
inline void execute_in(const sequence& s, std::span<void* const> given, char* base, const long* sizes) {
  auto address = [&](int operand) -> void* {
    if (operand < 0) return nullptr;
    const auto i = static_cast<std::size_t>(operand);
    return i < given.size() ? given[i] : base + s.intermediates[i - given.size()];
  };
  const bool traced = is_traced();
  for (const auto& step : s.steps) {
    sinter::detail::local_list<void*, 128> table(step.operands.size() / step.members);
    const auto find = [&](std::size_t member) {
      const int* const of = step.operands.data() + member * table.size();
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = address(of[i]);
    };
    find(0);
    const noted_span noted("kernel", step.label, traced, step.ops);
    if (step.threads != 0) {
      long* const parts = reinterpret_cast<long*>(base + step.scratch);
      parts[0] = step.threads;
      parts[1] = step.of_thread;
    }
    if (step.entry == nullptr) {
      step.call->run(table.data(), base + step.scratch, sizes);
      continue;
    }
    const fitting_team team(step.parallel);
    const long* numbers = step.numbers.empty() ? sizes : step.numbers.data();
    step.entry(table.data(), base + step.scratch, numbers);
    for (std::size_t m = 1; m < step.members; ++m) {
      find(m);
      if (!step.numbers.empty()) numbers += step.numbers.size() / step.members;
      step.entry(table.data(), base + step.scratch, numbers);
    }
  }
}

/// The same, with its own scratch memory.
inline void execute(const sequence& s, std::span<void* const> given, const long* sizes) {
  const storage scratch = s.scratch_bytes > 0 ? allocate(static_cast<std::size_t>(s.scratch_bytes)) : storage{};
  execute_in(s, given, static_cast<char*>(scratch.data()), sizes);
}

}  // namespace sinter::engine::run
