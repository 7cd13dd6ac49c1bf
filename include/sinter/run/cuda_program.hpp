// run/cuda_program.hpp: kernels of a GPU and where their operands live -> one call; knows no graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "../base/local_list.hpp"
#include "../base/series.hpp"
#include "cuda_blas.hpp"
#include "cuda_memory.hpp"
#include "cuda_module.hpp"

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
};

/// One kernel launch, fill, matrix product, or call of a routine.
struct step {
  action what = action::launch;
  const char* label = "a kernel";  ///< from cuda::label()
  series<operand> operands;        ///< a kernel's in order; a fill's target; a product's a, b, out and bias

  // Of a launch. Its parameters: the operands, the table if there is one, the scratch address, the sizes.
  std::size_t tabled = 0;  ///< the last so many operands are no parameters: their addresses, or values, begin the table
  series<char> numbers;    ///< which these bytes end; none: there is no table
  std::shared_ptr<const module> code;
  api::function entry = nullptr;
  unsigned blocks = 0, threads = 0, shared = 0;
  bool awaits = false;             ///< its first words are await_grids() (emit/prelude_cuda.hpp): it may be begun early
  std::int64_t scratch = 0;        ///< offset of the kernel's own scratch
  std::int64_t scratch_bytes = 0;  ///< and its size

  // Of a fill.
  std::int64_t bytes = 0;
  unsigned char value = 0;

  matmul product;
  std::shared_ptr<const routine> call;  ///< its operands may have index -1: a result that nothing reads
};

struct sequence {
  int device = 0;
  series<step> steps;
  int given = 0;                            ///< operands that the caller gives
  series<sharing> shared;                   ///< what of them may be the same memory, where one is written
  series<std::int64_t> intermediates;       ///< offsets in the scratch block
  series<std::int64_t> intermediate_bytes;  ///< and sizes
  std::int64_t scratch_bytes = 0;
  int sizes = 0;       ///< number of size symbols
  bool tuned = false;  ///< recorded products use the algorithm that is fastest when measured

  /// Some step is a call, which the host has to make each time: no recording can hold it.
  bool has_calls() const {
    for (const step& one : steps)
      if (one.what == action::call) return true;
    return false;
  }
};

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
  std::span<const long> sizes() const { return sizes_; }
  void* operator[](const operand& o) const { return address_.all()[static_cast<std::size_t>(o.index)]; }
  /// Where the kernel's parameter is: an address, or the element itself.
  void* value_of(const operand& o) {
    void*& slot = address_[static_cast<std::size_t>(o.index)];
    return o.bytes != 0 ? slot : &slot;
  }

 private:
  char* scratch_;
  std::span<const long> sizes_;
  local_list<void*, 96> address_;
};

/// The parameters of a launch, as cuLaunchKernel wants them.
class parameter_list {
 public:
  parameter_list(const step& s, operand_table& call)
      : scratch_(call.scratch() + s.scratch),
        list_(s.operands.size() - s.tabled + 2 + call.sizes().size()),
        table_(s.numbers.empty() ? 0 : s.tabled * sizeof(void*) + s.numbers.size()) {
    const std::size_t own = s.operands.size() - s.tabled;
    void** at = list_.data();
    for (std::size_t i = 0; i < own; ++i) *at++ = call.value_of(s.operands[i]);
    if (!s.numbers.empty()) {
      for (std::size_t i = 0; i < s.tabled; ++i) {
        const operand& o = s.operands[own + i];
        std::memcpy(table_.data() + i * sizeof(void*), call.value_of(o),
                    o.bytes != 0 ? static_cast<std::size_t>(o.bytes) : sizeof(void*));
      }
      std::copy(s.numbers.begin(), s.numbers.end(), table_.data() + s.tabled * sizeof(void*));
      *at++ = table_.data();
    }
    *at++ = &scratch_;
    for (const long& size : call.sizes()) *at++ = const_cast<long*>(&size);
  }

  void** data() { return list_.data(); }

 private:
  char* scratch_;
  local_list<void*, 96> list_;
  local_list<char, 1024> table_;
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

/// Asks the stream for one step.
inline void enqueue(const step& s, operand_table& table, queue& q, const driver_table& call) {
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
      local_list<void*, 128> buffers(s.operands.size());
      for (std::size_t i = 0; i < buffers.size(); ++i)
        buffers[i] = s.operands[i].index < 0 ? nullptr : table[s.operands[i]];
      s.call->run(buffers.data(), table.scratch() + s.scratch, table.sizes().data(), q);
      break;
    }
    case action::product:
      multiply(s.product, table[s.operands[0]], table[s.operands[1]], table[s.operands[2]],
               s.operands.size() > 3 ? table[s.operands[3]] : nullptr, q, s.label);
      requested(api::success, s.label, q, call);
      break;
  }
}

}  // namespace detail

/// Asks a stream, whose context is current, for all steps, with scratch_bytes at `base`.
inline void execute_in(const sequence& s, std::span<void* const> given, char* base, const long* sizes, queue& q) {
  const driver_table& call = driver();
  detail::operand_table table(s, given, base, sizes);
  for (const step& one : s.steps) detail::enqueue(one, table, q, call);
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
  execute_in(s, given, static_cast<char*>(scratch.data()), sizes, q);
}

}  // namespace sinter::engine::run::cuda
