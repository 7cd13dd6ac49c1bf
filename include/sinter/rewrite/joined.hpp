// rewrite/joined.hpp: sums of many zero pads, such as the gradient of an array's parts, become concatenations of the padded
// operands.
#pragma once

#include <algorithm>
#include <optional>
#include <queue>

#include "../base/series.hpp"
#include "match.hpp"
#include "rebuild.hpp"

namespace sinter::engine::rewrite {

namespace detail {

/// Shorter sums of pads stay: a kernel checks for each element which pads contain it.
inline constexpr std::size_t min_joined = 16;

/// The elements [start, end) of an axis, to which operands of pads are added.
struct padded_part {
  std::size_t axis = 0;
  std::int64_t start = 0, end = 0;
  series<ir::node_id> operands;
};

/// The part of a sum that a zero pad along one axis contributes; empty for other nodes.
inline std::optional<padded_part> part_of(const ir::graph& g, const node& n) {
  if (n.code != op::pad || std::bit_cast<std::uint64_t>(n.attr.literal.f) != 0 || n.attr.literal.i != 0) return {};
  const shape& in = g[n.in[0]].extents;
  padded_part out;
  std::size_t padded = 0;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const dim &low = n.attr.dims[d], &high = n.attr.dims[in.size() + d];
    if (low.is(0) && high.is(0)) continue;
    if (!low.is_number() || !in[d].is_number() || !n.extents[d].is_number()) return {};
    out = {d, *low.number(), *low.number() + *in[d].number(), {n.in[0]}};
    ++padded;
  }
  return padded == 1 && out.start < out.end ? std::optional(std::move(out)) : std::nullopt;
}

/// Sums with terms that are read one after another: nodes that are not read by exactly one other sum.
class long_sums {
 public:
  explicit long_sums(const ir::graph& g) : g_(g), readers_(g.size(), 0), within_(g.size(), 0) {
    for (const auto id : g.live()) {
      for (const auto in : g[id].in) ++readers_[in];
      if (g[id].code != op::add) continue;
      for (const auto in : g[id].in) within_[in] = g[in].code == op::add;
    }
    for (const auto id : g.outputs) ++readers_[id];
  }
  bool is_whole(ir::node_id id) const { return g_[id].code == op::add && !is_within(id); }

  /// Its terms, in order.
  series<ir::node_id> terms(ir::node_id sum) const {
    series<ir::node_id> out, waiting{sum};
    while (!waiting.empty()) {
      const ir::node_id id = waiting.back();
      waiting.pop_back();
      if (id != sum && !is_within(id)) {
        out.push_back(id);
        continue;
      }
      waiting.push_back(g_[id].in[1]);
      waiting.push_back(g_[id].in[0]);
    }
    return out;
  }

 private:
  bool is_within(ir::node_id id) const { return within_[id] && readers_[id] == 1; }

  const ir::graph& g_;
  series<std::uint32_t> readers_;
  series<char> within_;
};

/// Parts in the fewest layers without overlaps; parts at equal places are merged.
inline series<series<padded_part>> in_layers(series<padded_part> parts) {
  sort_stably(parts,
              [](const auto& a, const auto& b) { return std::pair(a.start, a.end) < std::pair(b.start, b.end); });
  series<padded_part> apart;
  for (auto& p : parts)
    if (!apart.empty() && apart.back().start == p.start && apart.back().end == p.end)
      apart.back().operands.push_back(p.operands[0]);
    else apart.push_back(std::move(p));
  series<series<padded_part>> layers;
  using entry = std::pair<std::int64_t, std::size_t>;  // the end of a layer, and its index
  std::priority_queue<entry, std::vector<entry>, std::greater<>> ends;
  for (auto& p : apart) {
    std::size_t at = layers.size();
    if (!ends.empty() && ends.top().first <= p.start) {
      at = ends.top().second;
      ends.pop();
    } else {
      layers.emplace_back();
    }
    ends.emplace(p.end, at);
    layers[at].push_back(std::move(p));
  }
  return layers;
}

/// A layer as one value with these extents; `moved` maps operands to the new graph.
inline value joined(const series<padded_part>& layer, const shape& extents, const value& near,
                    const series<ir::node_id>& moved) {
  const std::size_t axis = layer[0].axis;
  const auto zeros = [&](std::int64_t count) {
    shape some = extents;
    some[axis] = count;
    return value(near.owner(), near.owner().constant(near.type(), scalar{}, std::move(some), near.where()),
                 near.where());
  };
  series<value> pieces;
  std::int64_t at = 0;
  for (const auto& p : layer) {
    if (p.start > at) pieces.push_back(zeros(p.start - at));
    value sum(near.owner(), moved[p.operands[0]], near.where());
    for (std::size_t k = 1; k < p.operands.size(); ++k)
      sum = sum + value(near.owner(), moved[p.operands[k]], near.where());
    pieces.push_back(is_float(near.type()) ? sum + 0.0 : sum);  // -0 plus the surrounding zeros is 0
    at = p.end;
  }
  if (const std::int64_t rest = *extents[axis].number() - at; rest > 0) pieces.push_back(zeros(rest));
  return concat(pieces, static_cast<std::int64_t>(axis));
}

}  // namespace detail

/// Whether some sum has enough pads.
inline bool has_sums_of_pads(const ir::graph& g) {
  std::size_t pads = 0;
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == op::add)
      for (const auto in : g[id].in) pads += g[in].code == op::pad;
  return pads >= detail::min_joined;
}

/// Turns a sum of sixteen or more parts of one axis, few of which overlap, into a sum of a few concatenations.
inline ir::graph join_pads(const ir::graph& g) {
  const detail::long_sums sums(g);
  series<ir::node_id> moved(g.size(), ir::no_node);
  bool begun = false;
  return rebuild(g, [&](const value& made, ir::node_id id) {
    ir::graph& out = made.owner();
    for (std::size_t k = 0; !begun && k < g.inputs.size(); ++k) moved[g.inputs[k]] = out.inputs[k];
    begun = true;
    moved[id] = made.id();
    if (!sums.is_whole(id)) return made;
    series<detail::padded_part> parts;
    series<ir::node_id> others;
    for (const auto term : sums.terms(id)) {
      auto part = detail::part_of(g, g[term]);
      if (part && (parts.empty() || part->axis == parts[0].axis)) parts.push_back(std::move(*part));
      else others.push_back(term);
    }
    if (parts.size() < detail::min_joined) return made;
    const std::size_t count = parts.size();
    const auto layers = detail::in_layers(std::move(parts));
    if (4 * layers.size() > count) return made;
    value sum;
    const auto add = [&](const value& x) { sum = sum ? sum + x : x; };
    for (const auto other : others) add(value(out, moved[other], made.where()));
    for (const auto& layer : layers) add(detail::joined(layer, g[id].extents, made, moved));
    moved[id] = sum.id();
    return sum;
  });
}

}  // namespace sinter::engine::rewrite
