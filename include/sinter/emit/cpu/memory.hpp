// emit/cpu/memory.hpp: the memory of a task's arrays: the stack of its thread, or the thread's part of scratch memory.
#pragma once

#include <algorithm>
#include <string>

#include "../../base/series.hpp"
#include "../../ir/dim.hpp"

namespace sinter::engine::emit {

/// Arrays of known size of one kind (sums, kept values, values of columns) lie on the stack up to this many bytes. With the
/// compiler's own needs, a kernel takes at most 64 KiB of stack.
inline constexpr std::int64_t stack_bytes = 16 << 10;

/// Scratch memory of a kernel: a shared part, then a part for each thread. If threads have parts, two words before it hold
/// the number of parts and the bytes of each.
struct scratch_use {
  static constexpr std::int64_t header = 64;

  /// A size with an upper bound.
  struct bounded {
    ir::dim bytes;
    std::int64_t most = 0;
  };

  ir::dim shared;      ///< bytes, including the header
  ir::dim sums, kept;  ///< bytes of a thread: always, and up to max_kept
  std::int64_t max_kept = 0;
  series<bounded> blocks;  ///< of a thread
  series<bounded> behind;  ///< shared memory of the tasks after the parts of all threads
  ir::dim tasks = 1;       ///< the greatest number of threads with work
  bool parallel = false;   ///< the kernel may run on several threads

  bool by_thread() const { return !sums.is(0) || !kept.is(0) || !blocks.empty() || !behind.empty(); }
  std::int64_t of_thread(std::span<const std::int64_t> sizes) const {
    const std::int64_t values = kept.evaluate(sizes);
    return (sums.evaluate(sizes) + (values <= max_kept ? values : 0) + of(blocks, sizes) + 63) / 64 * 64;
  }
  /// The number of threads that have a part, among those available; 0 if no part is needed.
  std::int64_t threads(std::span<const std::int64_t> sizes, std::int64_t available) const {
    return by_thread() ? std::clamp<std::int64_t>(tasks.evaluate(sizes), 1, available) : 0;
  }
  std::int64_t bytes(std::span<const std::int64_t> sizes, std::int64_t available) const {
    return shared_until(sizes) + threads(sizes, available) * of_thread(sizes) + of(behind, sizes);
  }

  /// Declares `mine`, the part of a task's thread; `several` tells whether there are several threads.
  std::string declaration(bool several) const {
    return "char* const mine = part_of(scratch, " + shared.text() + ", " + (several ? "thread_number()" : "0") + ");";
  }

 private:
  static std::int64_t of(const series<bounded>& all, std::span<const std::int64_t> sizes) {
    std::int64_t bytes = 0;
    for (const auto& b : all) bytes += (std::clamp<std::int64_t>(b.bytes.evaluate(sizes), 0, b.most) + 63) / 64 * 64;
    return bytes;
  }
  std::int64_t shared_until(std::span<const std::int64_t> sizes) const {
    return (shared.evaluate(sizes) + 63) / 64 * 64;
  }
};

}  // namespace sinter::engine::emit
