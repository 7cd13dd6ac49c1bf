// onnx/order.hpp: nodes of a file in an order in which each stands behind those that make its inputs.
#pragma once

#include <queue>
#include <string_view>
#include <unordered_map>

#include "proto.hpp"

namespace sinter::onnx {

namespace detail_ {

/// Calls f with each name that a node reads, in graphs within it too.
template <class F>
void each_read(const node_proto& n, const F& f) {
  for (const std::string& name : n.inputs) f(name);
  for (const attribute_proto& a : n.attributes) {
    if (!a.g) continue;
    for (const node_proto& inner : a.g->nodes) each_read(inner, f);
    for (const value_info& y : a.g->outputs) f(y.name);
  }
}

/// For each node those that read what it makes. Empty where the order is right as it is.
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

/// Moves nodes behind those that make what they read, here and in graphs within; else they keep their order, and all of it where
/// they read one another in a circle.
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
