// ir/counterparts.hpp: what writers of other programs' formats share: rows of ops, the order of nodes, gathers by a list.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "graph.hpp"

namespace sinter::ir {

/// An op of sinter's graphs and its form in another format; "" where it has none.
struct counterpart {
  std::string op, how;
};

/// The row of an op in a format's table, or nullptr.
template <class Row, std::size_t N>
const Row* row_of(const Row (&rows)[N], op code) {
  for (const Row& r : rows)
    if (r.code == code) return &r;
  return nullptr;
}

/// Every op by a format's rows. `walked` says what becomes of inputs, constants, branches and loops, and `composed` of ops that
/// engine::ordinary replaces.
template <class Row, std::size_t N>
std::vector<counterpart> counterparts(const Row (&rows)[N], const char* walked, const char* composed) {
  std::vector<counterpart> all;
  for (int k = 0; k < pointwise_count + static_cast<int>(std::size(structural_rows)); ++k) {
    const auto code = static_cast<op>(k);
    const Row* const r = row_of(rows, code);
    const bool walk = code == op::input || code == op::constant || code == op::opaque || code == op::pick;
    const bool other = code == op::attention || code == op::attention_back;
    all.push_back({name(code), r ? r->how : walk ? walked : other ? composed : ""});
  }
  return all;
}

/// Writes the live nodes of b.g in order. Those that wait are written when b.late is called for them.
template <class Builder>
void write_in_order(Builder& b, const series<node_id>& live, const series<char>& waits,
                    void (*write)(Builder&, node_id), void (*write_step)(Builder&, node_id, const series<node_id>&)) {
  const picks results(b.g, live);
  b.late = write;
  for (const node_id id : live) {
    const op code = b.g[id].code;
    if (code == op::input || code == op::pick || waits[id]) continue;
    if (code == op::opaque) write_step(b, id, results.of(id));
    else write(b, id);
  }
}

/// Whether the index of a gather is the same off its axis: it takes whole slices, by the list that its broadcast has.
inline bool takes_slices(const graph& g, const node& gather) {
  const node& index = g[gather.in[1]];
  if (index.code != op::broadcast) return false;
  const auto axis = static_cast<std::size_t>(gather.attr.ints[0]);
  const shape &own = g[index.in[0]].extents, &x = g[gather.in[0]].extents;
  if (own[axis] != gather.extents[axis]) return false;
  for (std::size_t k = 0; k < own.size(); ++k)
    if (k != axis && !(own[k].is(1) && x[k] == gather.extents[k])) return false;
  return true;
}

}  // namespace sinter::ir
