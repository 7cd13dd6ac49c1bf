// report/memory.hpp: describes the buffers that are in memory when a call needs most.
#pragma once

#include <algorithm>
#include <string>

#include "../engine/report.hpp"
#include "../plan/memory.hpp"

namespace sinter::engine::reporting {

namespace detail {

/// The step at which intermediates take most bytes; one that takes over another's memory does not count twice.
inline std::size_t fullest_step(const series<plan::lifetime>& lives, const series<int>& from) {
  series<std::int64_t> change;  // of the bytes in use, at each step
  for (std::size_t n = 0; n < lives.size(); ++n) {
    const std::size_t first = lives[n].first + (from[n] >= 0 ? 1 : 0), end = lives[n].last + 1;
    if (change.size() <= end) change.resize(end + 1, 0);
    if (first >= end) continue;
    change[first] += lives[n].bytes;
    change[end] -= lives[n].bytes;
  }
  std::size_t at = 0;
  std::int64_t now = 0, most = -1;
  for (std::size_t s = 0; s < change.size(); ++s)
    if (now += change[s]; now > most) most = now, at = s;
  return at;
}

/// Adds a buffer to those like it.
inline void add_buffer(series<buffer_report>& all, const char* what, const ir::graph& g, ir::node_id id,
                       std::int64_t bytes) {
  const ir::node& v = g[id];
  buffer_report one{
      what, "%" + std::to_string(id), ir::name(v.code), sinter::dtype_name(v.type), ir::text_of(v.extents), v.where, 1,
      bytes};
  for (buffer_report& b : all)
    if (b.what == one.what && b.op == one.op && b.type == one.type && b.shape == one.shape &&
        b.where.line == one.where.line && std::string_view(b.where.file) == one.where.file) {
      ++b.count;
      b.bytes += bytes;
      return;
    }
  all.push_back(std::move(one));
}

}  // namespace detail

/// The buffers in memory at the step at which intermediates take most: those, the inputs of `g`, and `results`, nodes that have
/// memory of their own. Buffers that are alike are one entry; the largest come first. `from` is that of plan::taken_over.
SINTER_API memory_report memory_at_most(const ir::graph& g, const series<plan::lifetime>& lives,
                                        const series<int>& from, const series<ir::node_id>& results,
                                        std::span<const std::int64_t> sizes) {
  memory_report out;
  out.step = detail::fullest_step(lives, from);
  const auto bytes_of = [&](ir::node_id id) {
    return ir::product(g[id].extents).evaluate(sizes) * static_cast<std::int64_t>(size_of(g[id].type));
  };
  for (std::size_t n = 0; n < lives.size(); ++n)
    if (lives[n].first + (from[n] >= 0 ? 1 : 0) <= out.step && out.step <= lives[n].last)
      detail::add_buffer(out.buffers, "intermediate", g, static_cast<ir::node_id>(lives[n].buffer), lives[n].bytes);
  for (const ir::node_id id : g.inputs) detail::add_buffer(out.buffers, "argument", g, id, bytes_of(id));
  for (const ir::node_id id : results) detail::add_buffer(out.buffers, "result", g, id, bytes_of(id));
  sort_stably(out.buffers, [](const buffer_report& a, const buffer_report& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace sinter::engine::reporting
