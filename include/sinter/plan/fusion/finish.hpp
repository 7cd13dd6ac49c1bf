// plan/fusion/finish.hpp: the end of fusion: drops unread stores, and adds names and reasons.
#pragma once

#include <string>
#include <unordered_map>

#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../../ir/push.hpp"
#include "../kernel/kernel.hpp"

namespace sinter::engine::plan {

/// Two kernels, by number, that access an array in common, and the reason why they are separate. "%7" in the reason is a node.
struct neighbours {
  std::size_t first = 0, second = 0;
  std::string why;
};

/// A reason in which nodes such as "%7" are replaced by the user's terms: "%7 reduce (at net.cpp:12)".
SINTER_API std::string in_words(const ir::graph& g, std::string why) {
  for (std::size_t at = why.find('%'); at != std::string::npos; at = why.find('%', at)) {
    std::size_t end = ++at, id = 0;
    while (end < why.size() && why[end] >= '0' && why[end] <= '9')
      id = 10 * id + static_cast<std::size_t>(why[end++] - '0');
    if (end == at || id >= g.size()) continue;
    const ir::node& n = g[static_cast<node_id>(id)];
    why.insert(end, sinter::detail::located(std::string(" ") + ir::name(n.code), n.where));
    at = end;
  }
  return why;
}

/// The user's op that an instruction computes; empty if none.
inline std::string op_name(const instruction& i) {
  switch (i.kind) {
    case kind::load:
      return i.at.at.index < 0 ? "" : ir::name(ir::op::gather);
    case kind::inside:
      return ir::name(i.code);
    case kind::compute:
      return i.node == ir::no_node ? "" : ir::name(i.code);
    case kind::reduce:
      return i.squares ? ir::name(ir::op::sum_squares) : std::string("reduce_") + ir::name(i.code);
    case kind::arg_reduce:
      return std::string("arg_") + ir::name(i.code);
    case kind::product:
      return ir::name(ir::op::dot);
    case kind::scan:
      return std::string("scan_") + ir::name(i.code);
    case kind::sort:
      return ir::name(ir::op::argsort);
    case kind::search:
      return ir::name(ir::op::searchsorted);
    default:
      return "";
  }
}
inline std::string op_name(const store& s) {
  if (!s.accumulate) return "";
  if (s.combiner == ir::op::add) return ir::name(ir::op::scatter_add);
  return std::string("scatter_") + (s.combiner == ir::op::identity ? "set" : ir::name(s.combiner));
}

namespace detail {

/// The distinct ops of a kernel in order, at most twelve.
inline std::string label_of(const kernel& k) {
  if (k.by_recipe) return k.label;
  series<std::string> names;
  const auto add = [&](std::string name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  };
  for (const auto& i : k.body) add(op_name(i));
  for (const auto& s : k.stores) add(op_name(s));
  std::string label;
  for (std::size_t n = 0; n < names.size() && n < 12; ++n) label += (n ? " " : "") + names[n];
  return names.empty() ? "copy" : names.size() > 12 ? label + " ..." : label;
}

/// Keeps only the buffers to which the kernel refers.
inline void number_buffers(kernel& k) {
  series<int> place(k.buffers.size(), -1);
  series<buffer_use> used;
  auto visit = [&](access& a) {
    int& at = place[static_cast<std::size_t>(a.buffer)];
    if (at < 0) {
      at = static_cast<int>(used.size());
      used.push_back(k.buffers[static_cast<std::size_t>(a.buffer)]);
    }
    a.buffer = at;
  };
  for (auto& p : k.products) visit(p.a), visit(p.b);
  for (auto& i : k.body)
    if (reads_memory(i)) visit(i.at);
  for (auto& s : k.stores) visit(s.at);
  k.buffers = std::move(used);
}

/// Removes the stores of values that only the computing kernel uses.
inline void drop_unread(series<kernel>& kernels, const ir::graph& g) {
  series<char> read(g.size(), 0);
  for (auto id : g.outputs) read[id] = 1;
  const auto of = [&](const kernel& k, const store& s) -> char& {
    return read[static_cast<std::size_t>(k.buffers[static_cast<std::size_t>(s.at.buffer)].id)];
  };
  for (const auto& k : kernels) {
    for (const auto& b : k.buffers)
      if (!b.written) read[static_cast<std::size_t>(b.id)] = 1;
    for (const auto& s : k.stores)
      if (s.accumulate) of(k, s) = 1;
  }
  for (auto& k : kernels) {
    auto unread = [&](const store& s) { return of(k, s) == 0; };
    if (erase_if(k.stores, unread)) number_buffers(k);
  }
}

/// For each kernel, the first kernel of equal structure that stores the same at the same places; they differ only in nodes.
inline series<std::size_t> first_alike(const series<kernel>& kernels, const series<const void*>& structures) {
  std::unordered_map<std::string, std::size_t> known;
  series<std::size_t> out;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::string key;
    const auto add = [&](auto x) { ir::detail::append(key, x); };
    add(structures[k] ? structures[k] : &kernels[k]);
    for (const auto& s : kernels[k].stores) add(s.value), add(s.at.buffer);
    for (const auto& i : kernels[k].body) add(i.where.file), add(i.where.line);
    out.push_back(known.emplace(std::move(key), k).first->second);
  }
  return out;
}

/// The number of kernels if every op had its own.
inline std::size_t count_ops(const ir::graph& g, const series<node_id>& live) {
  std::size_t n = 0;
  for (auto id : live)
    n += !ir::is_view(g[id].code) && g[id].code != ir::op::input && g[id].code != ir::op::constant &&
         g[id].code != ir::op::iota && g[id].code != ir::op::pick;
  return n;
}

}  // namespace detail
}  // namespace sinter::engine::plan
