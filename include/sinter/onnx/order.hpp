// onnx/order.hpp: puts nodes of a file in an order in which each node follows the nodes that compute its inputs.
#pragma once

#include <queue>
#include <string_view>
#include <unordered_map>

#include "proto.hpp"

namespace sinter::onnx {

namespace detail_ {

/// Calls f with each name that a node reads, also in its inner graphs.
template <class F>
void each_read(const node_proto& n, const F& f) {
  for (const std::string& name : n.inputs) f(name);
  for (const attribute_proto& a : n.attributes) {
    if (!a.g) continue;
    for (const node_proto& inner : a.g->nodes) each_read(inner, f);
    for (const value_info& y : a.g->outputs) f(y.name);
  }
}

/// Lists, for each node, the nodes that read its results. Empty if the order is right already.
inline std::vector<std::vector<std::size_t>> readers_of(const std::vector<node_proto>& nodes) {
  std::unordered_map<std::string_view, std::size_t> made;
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (const std::string& y : nodes[k].outputs)
      if (!y.empty()) made.emplace(y, k);
  std::vector<std::vector<std::size_t>> out(nodes.size());
  bool right = true;
  for (std::size_t k = 0; k < nodes.size(); ++k)
    each_read(nodes[k], [&](const std::string& name) {
      const auto from = made.find(name);
      if (from == made.end() || from->second == k) return;
      out[from->second].push_back(k);
      right = right && from->second < k;
    });
  if (right) out.clear();
  return out;
}

}  // namespace detail_

/// Moves nodes behind the nodes that compute their inputs, also in inner graphs. Otherwise nodes keep their order. If nodes
/// read each other in a circle, all nodes keep their order.
inline void put_in_order(std::vector<node_proto>& nodes) {
  for (node_proto& n : nodes)
    for (attribute_proto& a : n.attributes)
      if (a.g) put_in_order(a.g->nodes);
  const auto readers = detail_::readers_of(nodes);
  if (readers.empty()) return;
  std::vector<std::size_t> missing(nodes.size(), 0), order;
  for (const auto& all : readers)
    for (const std::size_t k : all) ++missing[k];
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t k = 0; k < nodes.size(); ++k)
    if (missing[k] == 0) ready.push(k);
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t k : readers[order.back()])
      if (--missing[k] == 0) ready.push(k);
  }
  if (order.size() < nodes.size()) return;
  std::vector<node_proto> sorted;
  sorted.reserve(nodes.size());
  for (const std::size_t k : order) sorted.push_back(std::move(nodes[k]));
  nodes = std::move(sorted);
}

}  // namespace sinter::onnx
