// emit/cpu/stream.hpp: results that are written past the caches, and operands that are prefetched.
#pragma once

#include "../../base/sorted.hpp"
#include "body.hpp"
#include "memory.hpp"

namespace sinter::engine::emit {

/// Buffers of at least this size that are written and not read again bypass the caches.
inline constexpr std::int64_t stream_bytes = 16 << 20;

/// The condition for a result to bypass the caches: it exceeds them, and its vectors are aligned. See body_printer::store.
SINTER_API std::string stream_rule(const kernel& k, const plan::store& s, std::size_t last) {
  const plan::buffer_use& target = k.buffers[static_cast<std::size_t>(s.at.buffer)];
  if (k.chunks != 1 || s.accumulate || !s.at.at.stride[last].is(1) || target.alignment % 64 != 0) return "";
  std::string rule;
  bool aligned = true;
  const auto add = [&](const std::string& condition) { rule += (rule.empty() ? "" : " && ") + condition; };
  const auto align = [&](const dim& d) {
    if (d.divided_by(16)) return;
    if (d.is_number()) aligned = false;
    else add("(" + d.text() + ")%16 == 0");
  };
  dim total = static_cast<std::int64_t>(size_of(target.type));
  for (const auto& a : k.axes) total *= a.extent;
  if (const auto n = total.number()) aligned = *n >= stream_bytes;
  else add("(" + total.text() + ") >= " + std::to_string(stream_bytes));
  for (std::size_t a = 0; a < s.at.at.stride.size(); ++a)
    if (a != last) align(s.at.at.stride[a]);
  align(s.at.at.offset);
  return !aligned ? "" : rule.empty() ? "true" : rule;
}

/// A loop that threads share, each with its `memory`. A thread waits once, at its end, for its writes past the caches, which
/// takes as long as a row of some hundred elements.
template <class F>
void parallel_loop(const kernel& k, writer& out, const std::string& head, bool several, bool streams,
                   const scratch_use& memory, F&& body) {
  const std::string threads = memory.by_thread() ? " num_threads(threads_of(scratch))" : "";
  const std::string pragma =
      several ? omp_for(k, (streams ? "parallel" : "parallel for schedule(static)") + threads) : "";
  const auto inside = [&] {
    if (memory.by_thread()) out.line(memory.declaration(!pragma.empty()));
    body();
  };
  if (!pragma.empty()) out.line(pragma);
  if (!streams) return out.block(head, inside);
  out.block("", [&] {
    if (!pragma.empty()) out.line("#pragma omp for schedule(static) nowait");
    out.block(head, inside);
    out.line("stream_end();");
  });
}

/// Operands of fewer bytes are probably in a cache.
inline constexpr std::int64_t ahead_bytes = 1 << 20;

/// True for a load of an operand that probably no cache holds.
SINTER_API bool reads_much(const kernel& k, const instruction& i) {
  dim bytes = static_cast<std::int64_t>(size_of(i.type));
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (!i.at.at.stride[a].is(0)) bytes *= k.axes[a].extent;
  return bytes.number().value_or(ahead_bytes) >= ahead_bytes;
}

/// True if the operations on elements dominate the kernel's time.
SINTER_API bool computes_much(const kernel& k) {
  const std::size_t last = k.axes.size() - 1;
  return std::any_of(k.body.begin(), k.body.end(), [&](const instruction& i) {
    return i.kind == kind::compute && (i.axes >> last & 1) && ir::is_expensive(i.code);
  });
}

/// Prefetches a later row's memory for the loads among a pass's values. A load is prefetched in its last pass: the first pass
/// runs at memory speed, the last computes meanwhile. In kernels of one pass with little computation, prefetching costs more
/// than it gains.
SINTER_API void prefetch(const kernel& k, const body_printer& body, const sorted_set<int>& values, int pass,
                         writer& out) {
  const std::size_t last = k.axes.size() - 1;
  const bool slow = k.stages > 1 || computes_much(k);
  for (int id : values) {
    const instruction& i = body.at(id);
    if (!slow || i.kind != kind::load || i.last_pass != pass || i.at.at.index >= 0 || !i.at.at.stride[last].is(1))
      continue;
    dim step = 0;
    bool differs = true;
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (k.axes[a].role != role::inner) step = i.at.at.stride[a], differs = !step.is(0);
    if (differs && reads_much(k, i))
      out.line("ahead<" + std::to_string(k.stages > 1 ? plan::kept_row_bytes : 8192) + ">(" + body.address(i.at) +
               ", " + step.text() + ", " + k.extent(role::inner).text() + ");");
  }
}

}  // namespace sinter::engine::emit
