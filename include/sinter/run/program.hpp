// run/program.hpp: loaded kernels and where their operands live -> one call; knows no graph.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "../base/series.hpp"
#include "buffer.hpp"
#include "module.hpp"
#include "trace_file.hpp"

namespace sinter::run {

/// The signature of every emitted kernel.
using kernel_function = void(void* const* buffers, char* scratch, const long* sizes);

/// One kernel call: its operands are indices into a table of addresses: operands given by the caller, then
/// intermediates at fixed offsets of one scratch block.
struct step {
  std::shared_ptr<const module> code;
  kernel_function* entry = nullptr;
  series<int> operands;
  std::int64_t scratch = 0;  ///< offset of the kernel's own scratch
  std::string label;         ///< the ops in it
};

struct sequence {
  series<step> steps;
  series<std::int64_t> intermediates;  ///< offsets in the scratch block
  std::int64_t scratch_bytes = 0;
};

/// Calls the kernels in order. `given` are the addresses of inputs and results.
inline void execute(const sequence& s, std::span<void* const> given, const long* sizes) {
  const storage scratch = s.scratch_bytes > 0 ? allocate(static_cast<std::size_t>(s.scratch_bytes)) : storage{};
  char* const base = static_cast<char*>(scratch.data());
  auto address = [&](int operand) -> void* {
    const auto i = static_cast<std::size_t>(operand);
    return i < given.size() ? given[i] : base + s.intermediates[i - given.size()];
  };
  std::array<void*, 64> few;
  series<void*> many;
  for (const auto& step : s.steps) {
    void** table = few.data();
    if (step.operands.size() > few.size()) {
      many.resize(step.operands.size());
      table = many.data();
    }
    for (std::size_t i = 0; i < step.operands.size(); ++i) table[i] = address(step.operands[i]);
    const noted_span noted("kernel", step.label);
    step.entry(table, base + step.scratch, sizes);
  }
}

}  // namespace sinter::run
