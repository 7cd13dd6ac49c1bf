// tests/fuzz/lanes.hpp: random graphs as push_lanes() has them for many lanes, against a loop over the lanes.
#pragma once

#include <sinter/batch/push_lanes.hpp>

#include "draw.hpp"

namespace fuzz {

/// The graph of one lane, which inputs vary from lane to lane, and the results that do.
struct lanes_of {
  sinter::ir::graph lane;
  std::vector<char> inputs;
  std::int64_t count = 0;
  sinter::engine::lanes_result results;
};

/// The graph of d for some lanes. False where values have no room for them.
inline bool spread(drawn& d, lanes_of& l, std::mt19937_64& bits) {
  l.lane = d.graph;
  l.inputs.clear();
  for (std::size_t k = 0; k < l.lane.inputs.size(); ++k) l.inputs.push_back(bits() % 4 != 0);
  if (l.inputs.size() > 1 && bits() % 8 == 0) l.inputs.assign(l.inputs.size(), 0);
  static const std::int64_t counts[] = {0, 1, 2, 3, 3, 5};
  l.count = counts[bits() % std::size(counts)];
  if (elements(l.lane, d.how.hints) > 100'000) l.count = 1;
  sinter::ir::graph all;
  sinter::series<node_id> in;
  for (std::size_t k = 0; k < l.inputs.size(); ++k) {
    const auto& n = l.lane[l.lane.inputs[k]];
    if (l.inputs[k] && n.extents.size() >= sinter::max_rank) return false;
    in.push_back(all.add_input(n.type, l.inputs[k] ? sinter::ir::ops::behind(l.count, n.extents) : n.extents));
  }
  try {
    l.results = sinter::engine::batch::push_lanes(all, l.lane, in, l.inputs, l.count, {"fuzz.cpp", 1});
  } catch (const user_error& e) {
    if (std::string(e.what()).find("its lanes are one more axis") != std::string::npos) return false;
    throw;
  }
  all.outputs = l.results.nodes;
  d.graph = std::move(all);
  return true;
}

/// A plain graph or one with branches and loops, for lanes; by itself where there is no room for these.
inline drawn draw_lanes(std::uint64_t seed, bool symbols, lanes_of& l) {
  std::mt19937_64 bits(seed);
  drawn d = bits() % 3 == 0 ? draw_control(bits(), symbols) : draw(bits(), symbols);
  d.seed = seed;
  if (bits() % 4 == 0) spread(d, l, bits);  // lanes of lanes
  if (!spread(d, l, bits)) {
    l = {};
    return d;
  }
  d.kind += ", " + std::to_string(l.count) + " lanes";
  d.layouts.clear();
  d.sizes.clear();
  lay_out(d, bits);
  return d;
}

/// Lane i of an array with lanes.
inline literal_array lane_of(const literal_array& x, std::int64_t i) {
  return sinter::ir::detail::slice_of(x, static_cast<std::size_t>(i));
}

/// Whether the graph of all lanes gives, bit for bit, what that of one gives for each of them.
inline std::string run_lanes(const drawn& d, const lanes_of& l, const inputs& in,
                             const std::vector<std::int64_t>& sizes, tally& count) {
  const auto all = sinter::ir::evaluate(d.graph, in.values, sizes);
  for (std::int64_t i = 0; i < l.count; ++i) {
    std::vector<literal_array> one;
    for (std::size_t k = 0; k < l.inputs.size(); ++k)
      one.push_back(l.inputs[k] ? lane_of(in.values[k], i) : in.values[k]);
    const auto want = sinter::ir::evaluate(l.lane, one, sizes);
    for (std::size_t k = 0; k < want.size(); ++k) {
      const literal_array got = l.results.varies[k] ? lane_of(all[k], i) : all[k];
      bool equal = got.type == want[k].type && got.extents == want[k].extents && got.i == want[k].i &&
                   got.f.size() == want[k].f.size();
      for (std::size_t e = 0; equal && e < got.f.size(); ++e)
        equal = got.f[e] == want[k].f[e] || (std::isnan(got.f[e]) && std::isnan(want[k].f[e]));
      count.seen += got.f.size() + got.i.size();
      count.compared += got.f.size() + got.i.size();
      if (!equal) return "result " + std::to_string(k) + " of lane " + std::to_string(i) + " is another";
    }
  }
  return "";
}

}  // namespace fuzz
