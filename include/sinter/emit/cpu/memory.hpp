// emit/cpu/memory.hpp: where the arrays of a task lie: on the stack of its thread, or in that thread's part of scratch memory.
#pragma once

#include <algorithm>
#include <string>

#include "../../base/series.hpp"
#include "../../ir/dim.hpp"

namespace sinter::engine::emit {

/// Arrays of known size, of one kind (sums, kept values, values of columns), up to this many bytes lie on the stack. With what
/// compilers put there a call of a kernel takes 64 KiB of it at most.
inline constexpr std::int64_t stack_bytes = 16 << 10;

/// Scratch memory of a kernel: what tasks share, then a part for each thread. A kernel whose threads have parts finds how many
/// there are, and the bytes of each, in two words before it all.
struct scratch_use {
  static constexpr std::int64_t header = 64;

  /// Bytes, no more than some.
  struct bounded {
    ir::dim bytes;
    std::int64_t most = 0;
  };

  ir::dim shared;      ///< bytes, the header included
  ir::dim sums, kept;  ///< bytes of a thread: always, and where they are no more than most_kept
  std::int64_t most_kept = 0;
  series<bounded> blocks;  ///< of a thread
  series<bounded> behind;  ///< what tasks share behind the parts of all threads
  ir::dim tasks = 1;       ///< no more threads than these have something to do
  bool parallel = false;   ///< the kernel may run on several threads

  bool by_thread() const { return !sums.is(0) || !kept.is(0) || !blocks.empty() || !behind.empty(); }
  std::int64_t of_thread(std::span<const std::int64_t> sizes) const {
    const std::int64_t values = kept.evaluate(sizes);
    return (sums.evaluate(sizes) + (values <= most_kept ? values : 0) + of(blocks, sizes) + 63) / 64 * 64;
  }
  /// How many threads have a part, of those that there are; 0 where none has.
  std::int64_t threads(std::span<const std::int64_t> sizes, std::int64_t available) const {
    return by_thread() ? std::clamp<std::int64_t>(tasks.evaluate(sizes), 1, available) : 0;
  }
  std::int64_t bytes(std::span<const std::int64_t> sizes, std::int64_t available) const {
    return shared_until(sizes) + threads(sizes, available) * of_thread(sizes) + of(behind, sizes);
  }

  /// Declares `mine`, the part of the thread that a task runs on; of one of several, or of the only one.
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
