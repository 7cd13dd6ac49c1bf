// ir/reference.hpp: the interpreter against which every backend is compared; it needs no compiler.
#pragma once

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "../base/sorted.hpp"
#include "../base/text.hpp"
#include "graph.hpp"
#include "ops/table.hpp"
#include "reference_opaque.hpp"
#include "reference_pointwise.hpp"

namespace sinter::ir {

namespace detail {

inline extents_t bind(const shape& extents, std::span<const std::int64_t> sizes) {
  extents_t e;
  for (const auto& d : extents) e.push_back(d.evaluate(sizes));
  return e;
}

[[noreturn]] inline void out_of_memory(const ops::evaluation& s, std::size_t count) {
  throw system_error(sinter::detail::located(
      "[" + std::string(name(s.n.code)) + "] out of memory: the reference needs " +
          std::to_string(8 * static_cast<double>(count) / (1 << 20)) + " MiB for a result of " + text_of(s.n.extents),
      s.n.where));
}

/// `spare`, if given, is an operand of a pointwise op with the result's dtype and no other reader: the result overwrites its
/// elements.
inline literal_array compute(ops::evaluation s, literal_array* spare = nullptr) {
  literal_array out{s.n.type, bind(s.n.extents, s.sizes), {}, {}};
  if (spare) {
    std::swap(out, *spare);
    std::replace(s.in.begin(), s.in.end(), static_cast<const literal_array*>(spare),
                 static_cast<const literal_array*>(&out));
  }
  const auto count = static_cast<std::size_t>(count_of(out.extents));
  if (count > std::size_t{1} << 44) out_of_memory(s, count);  // a process can address at most 2^47 bytes
  try {
    if (is_float(out.type)) out.f.resize(count);
    else out.i.resize(count);
    if (is_pointwise(s.n.code)) {
      arrays in{};
      std::copy(s.in.begin(), s.in.end(), in.begin());
      pointwise(s.n.code, in, out);
    } else {
      ops::record_of(s.n.code).reference(s, out);
    }
  } catch (const std::bad_alloc&) {
    out_of_memory(s, count);
  } catch (const std::length_error&) {
    out_of_memory(s, count);
  }
  round_elements(out);
  return out;
}

inline void check_input(const node& n, const literal_array& x, std::span<const std::int64_t> sizes) {
  const auto extents = bind(n.extents, sizes);
  const auto count = static_cast<std::size_t>(count_of(extents));
  if (x.type != n.type || x.extents != extents || size_of(x) != count)
    fail("evaluate",
         "input " + std::to_string(n.attr.ints[0]) + " is " + dtype_name(x.type) + " with " +
             std::to_string(size_of(x)) + " elements; the graph takes " + dtype_name(n.type) + text_of(n.extents),
         n.where);
}

inline series<char> is_picked(const series<node_id>& picks_of_step);
inline series<literal_array> opaque_results(const node& n, const series<const literal_array*>& in,
                                            const series<char>& picked, std::span<const std::int64_t> sizes);

}  // namespace detail

SINTER_API series<literal_array> evaluate(const graph& g, std::span<const literal_array> inputs,
                                          std::span<const std::int64_t> sizes) {
  if (inputs.size() != g.inputs.size())
    fail("evaluate",
         "got " + std::to_string(inputs.size()) + " inputs; the graph takes " + std::to_string(g.inputs.size()));
  const auto live = g.live();
  series<std::size_t> uses(g.size(), 0);
  for (auto id : live)
    for (auto operand : g[id].in) ++uses[operand];
  for (auto id : g.outputs) ++uses[id];

  series<literal_array> computed(g.size());
  series<const literal_array*> at(g.size(), nullptr);
  const picks picked(g, live);
  sorted_map<node_id, series<literal_array>> steps;  // results of the opaque nodes
  for (auto id : live) {
    const node& n = g[id];
    if (n.code == op::input) {
      at[id] = &inputs[static_cast<std::size_t>(n.attr.ints[0])];
      detail::check_input(n, *at[id], sizes);
      continue;
    }
    ops::evaluation s{n, {}, sizes};
    if (n.code == op::pick) {
      at[id] = &steps.at(n.in[0])[static_cast<std::size_t>(n.attr.ints[0])];
      continue;
    }
    for (auto operand : n.in) s.in.push_back(at[operand]);
    if (n.code == op::opaque) {
      steps[id] = detail::opaque_results(n, s.in, detail::is_picked(picked.of(id)), sizes);
      for (auto operand : n.in)
        if (--uses[operand] == 0) computed[operand] = {};
      continue;
    }
    literal_array* spare = nullptr;
    for (auto operand : n.in)
      if (is_pointwise(n.code) && uses[operand] == 1 && at[operand] == &computed[operand] && g[operand].type == n.type)
        spare = &computed[operand];
    computed[id] = detail::compute(std::move(s), spare);
    at[id] = &computed[id];
    for (auto operand : n.in)
      if (--uses[operand] == 0) computed[operand] = {};
  }

  series<literal_array> results;
  for (auto id : g.outputs) {
    if (--uses[id] == 0 && at[id] == &computed[id]) results.push_back(std::move(computed[id]));
    else results.push_back(*at[id]);
  }
  return results;
}

}  // namespace sinter::ir
