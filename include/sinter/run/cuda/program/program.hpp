// run/cuda/program/program.hpp: kernels of a GPU and where their operands live -> one call; knows no graph.
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

/// An operand of a step: an index into a table of addresses (operands given by the caller, then intermediates at fixed
/// offsets of one scratch block). With `bytes`, the given address is the host's and the value there is what the kernel
/// receives.
struct operand {
  int index = 0;
  int bytes = 0;
  bool written = false;
  bool touched = true;  ///< false for a parameter that this entry does not look at
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

  // Of a launch. Its parameters: the operands, the table if there is one, the scratch address, the sizes, its own.
  std::size_t tabled = 0;  ///< the last so many operands are no parameters: their addresses, or values, begin the table
  series<char> numbers;    ///< which these bytes end; none: there is no table
  std::int64_t table_at = -1;  ///< not -1: it is so far into the sequence's tables, and the parameter is its address
  series<long> own_sizes;
  std::shared_ptr<const module> code;
  std::string name;  ///< of the entry in its module
  int text = -1;     ///< the module's among those of the program's texts
  api::function entry = nullptr;
  unsigned blocks = 0, threads = 0, shared = 0;
  bool awaits = false;             ///< its first words are await_grids() (emit/prelude/cuda.hpp): it may be begun early
  std::int64_t scratch = 0;        ///< offset of the kernel's, or the routine's, own scratch
  std::int64_t scratch_bytes = 0;  ///< and its size

  // Of a fill.
  std::int64_t bytes = 0;
  unsigned char value = 0;

  matmul product;
  std::shared_ptr<const routine> call;  ///< its operands may have index -1: a result that nothing reads

  std::size_t table_bytes() const { return numbers.empty() ? 0 : tabled * sizeof(void*) + numbers.size(); }
};

struct sequence {
  int device = 0;
  series<step> steps;
  int given = 0;                            ///< operands that the caller gives
  series<sharing> shared;                   ///< what of them may be the same memory, where one is written
  series<std::int64_t> intermediates;       ///< offsets in the scratch block
  series<std::int64_t> intermediate_bytes;  ///< and sizes
  std::int64_t scratch_bytes = 0;
  std::int64_t tables = 0, table_bytes = 0;  ///< where in the scratch block tables are that are no parameters; and size
  int sizes = 0;                             ///< number of size symbols
  bool tuned = false;                        ///< recorded products use the algorithm that is fastest when measured
  /// The kernel `choose` (emit/cuda/choose.hpp), with which recorded branches and loops begin.
  const char* choose = nullptr;
};

class tape;

/// Nodes that the graph of a recorded call has at most. What would need more runs step by step.
inline constexpr std::int64_t most_nodes = 16384;

/// The sum, or where that is more than most_nodes, or one of them is, something that is more.
inline std::int64_t sum_of_nodes(std::int64_t a, std::int64_t times, std::int64_t b) {
  const auto few = [](std::int64_t n) { return std::min(n, most_nodes + 1); };
  return few(few(a) + few(times) * few(b));
}

/// A step that is more than one kernel: a branch, a loop, a function of the user.
class routine {
 public:
  routine() = default;
  routine(const routine&) = delete;
  routine& operator=(const routine&) = delete;
  virtual ~routine() = default;
  /// `buffers` are its operands, then its results, null for one that nothing reads; it may use scratch_bytes() at `scratch`.
  virtual void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }

  /// Nodes that record() makes at most; more than most_nodes for what cannot be recorded.
  virtual std::int64_t nodes() const { return most_nodes + 1; }
  /// The steps that record() walks over.
  virtual std::span<const sequence> parts() const { return {}; }
  /// As run(), as nodes of a graph. (cuda_tape.hpp)
  virtual void record(void* const*, char*, tape&) const {}
};

/// Nodes of a graph that records the steps, at most. It has tables of its own, which count, too: as much as 4 KB of a node.
inline std::int64_t nodes_of(const sequence& s) {
  std::int64_t n = s.table_bytes / 4096;
  for (const step& one : s.steps) n = sum_of_nodes(n, 1, one.what == action::call ? one.call->nodes() : 1);
  return n;
}

/// What allocate() is told, with the label of its last step.
inline constexpr const char* scratch_of_call = "scratch memory of a call that ends with";

/// The grid of a launch. Throws system_error when it is larger than CUDA allows.
SINTER_API void set_blocks(step& s, std::int64_t blocks) {
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max())
    throw system_error("[cuda] " + std::string(s.label) + " needs " + std::to_string(blocks) +
                       " blocks; a grid has at most 2147483647");
  s.blocks = static_cast<unsigned>(blocks);
}

/// A launch of the entry `name`; blocks and threads are checked against the limits of CUDA. Throws system_error.
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
  /// The sequence's tables in the GPU's memory, once somebody has said where that is.
  char* tables() const {
    ensure(tables_ != nullptr, "a table in memory has a place");
    return tables_;
  }
  void put_tables(void* where) { tables_ = static_cast<char*>(where); }
  std::span<const long> sizes() const { return sizes_; }
  void* operator[](const operand& o) const { return address_.all()[static_cast<std::size_t>(o.index)]; }
  /// Where the kernel's parameter is: an address, or the element itself.
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

/// Writes a step's table of this call: addresses and values, then numbers.
inline void write_table(const step& s, operand_table& call, char* to) {
  const std::size_t own = s.operands.size() - s.tabled;
  for (std::size_t i = 0; i < s.tabled; ++i) {
    const operand& o = s.operands[own + i];
    std::memcpy(to + i * sizeof(void*), call.value_of(o),
                o.bytes != 0 ? static_cast<std::size_t>(o.bytes) : sizeof(void*));
  }
  std::copy(s.numbers.begin(), s.numbers.end(), to + s.tabled * sizeof(void*));
}

/// Asks for a copy of the tables that are no parameters, in the stream's order, to where the call has them.
inline void send_tables(const sequence& s, operand_table& call, queue& q) {
  const auto bytes = static_cast<std::size_t>(s.table_bytes);
  pinned_block* const pinned = pinned_of(q.where->index).take(bytes, *q.where);
  sinter::detail::local_list<char, 16> own(pinned == nullptr ? bytes : 0);
  char* const from = pinned == nullptr ? own.data() : static_cast<char*>(pinned->data);
  for (const step& one : s.steps)
    if (one.table_at >= 0) write_table(one, call, from + one.table_at);
  if (pinned == nullptr) return host_to_device(call.tables(), from, bytes, q);
  const api::result asked = driver().copy_to_device(address_of(call.tables()), from, bytes, q.handle);
  // A copy that is under way and has no event leaves the block to the GPU, which may be reading it.
  if (asked == api::success) check(driver().event_record(pinned->done, q.handle), "copying to the GPU");
  pinned_of(q.where->index).give(pinned);
  check(asked, "copying to the GPU");
}

/// The parameters of a launch, as cuLaunchKernel wants them.
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

/// To be said of each request to a stream that `label` made, with what the driver answered.
inline void requested(api::result r, const char* label, queue& q, const driver_table& call) {
  check_request(r, "launching", label);
  remember(label);
  if (synchronous()) [[unlikely]]
    check(call.stream_synchronize(q.handle), "waiting for", label);
}

/// Asks the stream for the kernel of a step.
inline void launch(const step& s, void** parameters, queue& q, const driver_table& call) {
  const api::result r = with_room(q.where->index, [&] {
    return call.launch(s.entry, s.blocks, 1, 1, s.threads, 1, 1, s.shared, q.handle, parameters, nullptr);
  });
  requested(r, s.label, q, call);
}

/// Asks the stream for a product, by the algorithm that recorded calls use if `tuned`.
inline void enqueue_product(const step& s, const operand_table& table, bool tuned, queue& q) {
  const product_addresses at = offset(s.product, {table[s.operands[0]], table[s.operands[1]], table[s.operands[2]],
                                                  s.operands.size() > 3 ? table[s.operands[3]] : nullptr});
  const int alignment = common_alignment(s.product, at);
  multiply(tuned && alignment == 16 ? tuned_product(s.product, q.where->index, s.label)
                                    : plan_product(s.product, alignment, q.where->index),
           s.product, at, q, s.label);
}

/// Asks the stream for one step.
inline void enqueue(const step& s, operand_table& table, bool tuned, queue& q, const driver_table& call) {
  switch (s.what) {
    case action::launch:
      if (s.blocks != 0) launch(s, parameter_list(s, table).data(), q, call);
      break;
    case action::fill:
      if (s.bytes != 0)
        requested(call.fill(reinterpret_cast<api::address>(table[s.operands[0]]), s.value,
                            static_cast<std::size_t>(s.bytes), q.handle),
                  s.label, q, call);
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

/// Asks a stream, whose context is current, for all steps, with scratch_bytes at `base`. With `times`, notes how long they take, and
/// does products as recorded calls do.
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

/// Asks this thread's current stream of the sequence's GPU for all steps and returns. `given` are the addresses of inputs
/// and results; by-value operands are read before it returns. Throws system_error naming the step that failed.
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
