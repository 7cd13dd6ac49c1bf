// run/cuda/program/step.hpp: the steps of a program on a GPU, and the addresses of a call's operands.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "../../../base/convolution.hpp"
#include "../../../base/local_list.hpp"
#include "../../../base/series.hpp"
#include "../device/memory.hpp"
#include "../device/module.hpp"
#include "matmul.hpp"

namespace sinter::engine::run::cuda {

/// An operand of a step: an index into a table of addresses (the caller's operands, then intermediates at fixed offsets of
/// one scratch block). With `bytes`, the given address is on the host, and the kernel receives the value there.
struct operand {
  int index = 0;
  int bytes = 0;
  bool written = false;
  bool touched = true;  ///< false for a parameter that this entry does not access
};

/// A result that may have an argument's storage, as indexes into the table.
struct sharing {
  int result = 0, argument = 0;
};

enum class action : std::uint8_t { launch, fill, product, convolution, call };

class routine;

/// One kernel launch, fill, call of a library, or call of a routine.
struct step {
  action what = action::launch;
  const char* label = "a kernel";  ///< from cuda::label()
  int number = -1;                 ///< of its line in the report, if it has one
  std::string ops;                 ///< while calls are traced, a line for each op of that line with its place
  series<operand> operands;        ///< a kernel's in order; a fill's target; a library's arrays, then its bias

  // Members of a launch. Its parameters are the operands, the table if it has one, the scratch address, the sizes, and
  // `own_sizes`.
  std::size_t tabled = 0;  ///< this many last operands are not parameters: their addresses, or values, begin the table
  series<char> numbers;    ///< the bytes at the table's end; empty: without a table
  std::int64_t table_at = -1;  ///< not -1: the offset in the sequence's tables; the parameter is its address
  series<long> own_sizes;
  std::shared_ptr<const module> code;
  std::string name;  ///< the name of the entry in its module
  int text = -1;     ///< the module's index among the program's texts
  api::function entry = nullptr;
  unsigned blocks = 0, threads = 0, shared = 0;
  bool awaits = false;             ///< its first words are await_grids() (emit/prelude/cuda.hpp): it may start early
  std::int64_t scratch = 0;        ///< offset of the kernel's, or the routine's, scratch memory
  std::int64_t scratch_bytes = 0;  ///< and its size

  // Members of a fill: `rows` pieces of `bytes` bytes, `pitch` bytes apart, the first one at `from`.
  std::int64_t bytes = 0, from = 0, pitch = 0, rows = 1;
  unsigned char value = 0;

  matmul product;                       ///< of a, b and out
  convolution windows;                  ///< of an image, weights and a result
  std::array<std::int64_t, 4> first{};  ///< of a convolution: the first elements of its arrays and its bias
  std::shared_ptr<const routine> call;  ///< its operands may have index -1 for an unread result

  std::size_t table_bytes() const { return numbers.empty() ? 0 : tabled * sizeof(void*) + numbers.size(); }
};

/// A step on the stream for exchanges, beside the other steps.
struct apart_step {
  int step = 0;
  int after = -1;   ///< the last earlier step, not apart, that it waits for; -1: only work before the sequence
  int before = -1;  ///< the first later step, not apart, that waits for it; -1: only what follows the sequence
};

struct sequence {
  int device = 0;
  series<apart_step> apart;
  series<step> steps;
  int given = 0;                            ///< operands from the caller
  series<sharing> shared;                   ///< operands that may share memory although one is written
  series<std::int64_t> intermediates;       ///< offsets in the scratch block
  series<std::int64_t> intermediate_bytes;  ///< and sizes
  std::int64_t scratch_bytes = 0;
  std::int64_t tables = 0, table_bytes = 0;  ///< offset in the scratch block, and size, of other tables than parameters
  int sizes = 0;                             ///< number of size symbols
  bool tuned = false;                        ///< recorded products use the algorithm that was measured to be fastest
  /// The kernel `choose` (emit/cuda/choose.hpp), which begins recorded branches and loops.
  const char* choose = nullptr;
};

class tape;

/// The greatest number of nodes in a recorded call's graph. Larger calls run step by step.
inline constexpr std::int64_t max_nodes = 16384;

/// a + times · b, capped above max_nodes.
inline std::int64_t sum_of_nodes(std::int64_t a, std::int64_t times, std::int64_t b) {
  const auto few = [](std::int64_t n) { return std::min(n, max_nodes + 1); };
  return few(few(a) + few(times) * few(b));
}

/// A step other than a kernel: a branch, a loop, a user's function.
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;
  /// `buffers` are its operands, then its results, null for unread ones; it may use scratch_bytes() at `scratch`.
  virtual void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }
  /// Whether run() is called with the stream for exchanges, and only steps on the same memory wait for it.
  virtual bool is_apart() const { return false; }
  /// Whether run() calls nothing of the user's. Recorded calls, which hold their scratch memory, run it between their graphs.
  virtual bool is_brief() const { return is_apart(); }

  /// The greatest number of nodes that record() makes; more than max_nodes if it cannot be recorded.
  virtual std::int64_t nodes() const { return max_nodes + 1; }
  /// The steps that record() walks over.
  virtual std::span<const sequence> parts() const { return {}; }
  /// Like run(), as nodes of a graph. (cuda_tape.hpp)
  virtual void record(void* const*, char*, tape&) const {}
};

/// The greatest number of nodes of a graph that records the steps. Its tables count, too: 4 KB as much as a node.
inline std::int64_t nodes_of(const sequence& s) {
  std::int64_t n = s.table_bytes / 4096;
  for (const step& one : s.steps) n = sum_of_nodes(n, 1, one.what == action::call ? one.call->nodes() : 1);
  return n;
}

/// The purpose for allocate(), followed by the label of the last step.
inline constexpr const char* scratch_of_call = "scratch memory of a call that ends with";

/// The grid of a launch. Throws system_error when it is larger than CUDA allows.
SINTER_API void set_blocks(step& s, std::int64_t blocks) {
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max())
    throw system_error("[cuda] " + std::string(s.label) + " needs " + std::to_string(blocks) +
                       " blocks; a grid has at most 2147483647");
  s.blocks = static_cast<unsigned>(blocks);
}

/// A launch of the entry `name`; checks blocks and threads against CUDA's limits. Throws system_error.
SINTER_API step make_launch(std::shared_ptr<const module> code, const std::string& name, std::int64_t blocks,
                            int threads, int shared, const char* label) {
  if (threads < 1 || threads > 1024)
    throw system_error("[cuda] " + std::string(label) + " needs blocks of " + std::to_string(threads) +
                       " threads; a block has 1 to 1024");
  step s;
  s.label = label;
  s.name = name;
  s.entry = code->find(name, shared);
  s.code = std::move(code);
  set_blocks(s, blocks);
  s.threads = static_cast<unsigned>(threads);
  s.shared = static_cast<unsigned>(shared);
  return s;
}

namespace detail {

/// The addresses of a call's operands.
class operand_table {
 public:
  operand_table(const sequence& s, std::span<void* const> given, char* scratch, const long* sizes)
      : scratch_(scratch),
        sizes_(sizes, static_cast<std::size_t>(s.sizes)),
        address_(given.size() + s.intermediates.size()) {
    std::copy(given.begin(), given.end(), address_.data());
    for (std::size_t i = 0; i < s.intermediates.size(); ++i) address_[given.size() + i] = scratch + s.intermediates[i];
  }

  char* scratch() const { return scratch_; }
  /// The sequence's tables in the GPU's memory, after their place is set.
  char* tables() const {
    ensure(tables_ != nullptr, "a table in memory has a place");
    return tables_;
  }
  void put_tables(void* where) { tables_ = static_cast<char*>(where); }
  std::span<const long> sizes() const { return sizes_; }
  void* operator[](const operand& o) const { return address_.all()[static_cast<std::size_t>(o.index)]; }
  /// The kernel's parameter: an address, or the element itself.
  void* value_of(const operand& o) {
    void*& slot = address_[static_cast<std::size_t>(o.index)];
    return o.bytes != 0 ? slot : &slot;
  }

 private:
  char* scratch_;
  char* tables_ = nullptr;
  std::span<const long> sizes_;
  sinter::detail::local_list<void*, 96> address_;
};

}  // namespace detail

}  // namespace sinter::engine::run::cuda
