// run/cuda/program/program.hpp: runs kernels of a GPU on their operands in one call; independent of graphs.
#pragma once

#include <algorithm>
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
#include "step_times.hpp"
#include "tune.hpp"

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

enum class action : std::uint8_t { launch, fill, product, call };

class routine;

/// One kernel launch, fill, matrix product, or call of a routine.
struct step {
  action what = action::launch;
  const char* label = "a kernel";  ///< from cuda::label()
  int number = -1;                 ///< of its line in the report, if it has one
  series<operand> operands;        ///< a kernel's in order; a fill's target; a product's a, b, out and bias

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

  matmul product;
  std::shared_ptr<const routine> call;  ///< its operands may have index -1 for an unread result

  std::size_t table_bytes() const { return numbers.empty() ? 0 : tabled * sizeof(void*) + numbers.size(); }
};

struct sequence {
  int device = 0;
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
inline constexpr std::int64_t most_nodes = 16384;

/// a + times · b, capped above most_nodes.
inline std::int64_t sum_of_nodes(std::int64_t a, std::int64_t times, std::int64_t b) {
  const auto few = [](std::int64_t n) { return std::min(n, most_nodes + 1); };
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

  /// The greatest number of nodes that record() makes; more than most_nodes if it cannot be recorded.
  virtual std::int64_t nodes() const { return most_nodes + 1; }
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

/// Requests a product from the stream; with `tuned`, by the algorithm of recorded calls.
inline void enqueue_product(const step& s, const operand_table& table, bool tuned, queue& q) {
  const product_addresses at = offset(s.product, {table[s.operands[0]], table[s.operands[1]], table[s.operands[2]],
                                                  s.operands.size() > 3 ? table[s.operands[3]] : nullptr});
  const int alignment = common_alignment(s.product, at);
  multiply(tuned && alignment == 16 ? tuned_product(s.product, q.where->index, s.label)
                                    : plan_product(s.product, alignment, q.where->index),
           s.product, at, q, s.label);
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
      if (!is_empty(s.product)) enqueue_product(s, table, tuned, q);
      requested(api::success, s.label, q, call);
      break;
  }
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
  for (const step& one : s.steps) {
    if (times != nullptr) times->begin(one.number, one.label);
    detail::enqueue(one, table, times != nullptr && s.tuned, q, call);
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
