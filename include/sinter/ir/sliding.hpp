// ir/sliding.hpp: windows that slide over an image: what convolutions and pools of other programs' formats compute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "graph.hpp"

namespace sinter::ir {

/// A window whose axes are places and taps of some operand axes, and the other operand axes as they are: what ONNX's operators
/// slide.
struct sliding {
  node_id image = no_node;                       ///< before its padding
  std::vector<std::size_t> spatial, place, tap;  ///< operand axes, and the window's axes of their places and taps
  std::vector<std::size_t> rest, rest_at;        ///< other operand axes, and the window's axes
  std::vector<std::int64_t> taps, strides, dilations, pads;
  std::optional<double> padding;  ///< the value of padding, where there is some
};

/// Reads one axis of the operand; false if it does not slide.
inline bool read_axis(const node& n, const shape& x, std::size_t d, const series<char>& is_tap, sliding& out) {
  const std::size_t rank = n.extents.size();
  std::vector<std::size_t> moves;
  for (std::size_t j = 0; j < rank; ++j)
    if (n.attr.ints[d * rank + j] != 0) moves.push_back(j);
  const auto factor = [&](std::size_t j) { return n.attr.ints[d * rank + j]; };
  if (!n.attr.dims[rank + d].is(0) || moves.empty() || moves.size() > 2) return false;
  if (moves.size() == 1) {
    out.rest.push_back(d);
    out.rest_at.push_back(moves[0]);
    return factor(moves[0]) == 1 && n.extents[moves[0]] == x[d];
  }
  if (is_tap[moves[0]] == is_tap[moves[1]] || factor(moves[0]) < 1 || factor(moves[1]) < 1) return false;
  const std::size_t tap = is_tap[moves[0]] ? moves[0] : moves[1], place = is_tap[moves[0]] ? moves[1] : moves[0];
  const auto taps = n.extents[tap].number();
  if (!taps || *taps < 1) return false;
  out.spatial.push_back(d);
  out.place.push_back(place);
  out.tap.push_back(tap);
  out.taps.push_back(*taps);
  out.strides.push_back(factor(place));
  out.dilations.push_back(factor(tap));
  // As many places as the operators find.
  const dim places = floor_div(x[d] - factor(tap) * (*taps - 1) - 1, factor(place)) + 1;
  return places == n.extents[place];
}

/// The padding of the window's operand becomes the operators' own.
inline void take_padding(const node& x, sliding& out) {
  const std::size_t r = x.extents.size();
  const auto is_spatial = [&](std::size_t d) {
    return std::find(out.spatial.begin(), out.spatial.end(), d) != out.spatial.end();
  };
  for (std::size_t d = 0; d < r; ++d)
    for (const std::size_t side : {std::size_t{0}, r}) {
      const auto width = x.attr.dims[side + d].number();
      if (!width || (!is_spatial(d) && *width != 0)) return;
    }
  for (std::size_t s = 0; s < out.spatial.size(); ++s) {
    out.pads[s] = *x.attr.dims[out.spatial[s]].number();
    out.pads[out.spatial.size() + s] = *x.attr.dims[r + out.spatial[s]].number();
  }
  out.padding = is_float(x.type) ? x.attr.literal.f : static_cast<double>(x.attr.literal.i);
  out.image = x.in[0];
}

/// The window of a node, if it slides over one to three axes and has `rests` more; `is_tap` tells its axes apart. With
/// `repeats`, one axis may repeat the others' elements; it is set to that axis, or to the rank.
inline std::optional<sliding> as_sliding(const graph& g, node_id id, const series<char>& is_tap, std::size_t rests = 2,
                                         std::size_t* repeats = nullptr) {
  const node& n = g[id];
  if (n.code != op::window) return std::nullopt;
  const node& x = g[n.in[0]];
  const std::size_t rank = n.extents.size();
  if (repeats) *repeats = rank;
  for (std::size_t j = 0; j < rank; ++j) {
    int uses = 0;
    for (std::size_t d = 0; d < x.extents.size(); ++d) uses += n.attr.ints[d * rank + j] != 0;
    if (uses == 0 && repeats && *repeats == rank) *repeats = j;
    else if (uses != 1) return std::nullopt;
  }
  sliding out;
  for (std::size_t d = 0; d < x.extents.size(); ++d)
    if (!read_axis(n, x.extents, d, is_tap, out)) return std::nullopt;
  if (out.rest.size() != rests || out.spatial.empty() || out.spatial.size() > 3) return std::nullopt;
  out.pads.assign(2 * out.spatial.size(), 0);
  out.image = n.in[0];
  if (x.code == op::pad) take_padding(x, out);
  return out;
}

/// The same over the padded image.
inline void over_padding(const graph& g, node_id id, sliding& s) {
  s.image = g[id].in[0];
  s.pads.assign(s.pads.size(), 0);
  s.padding.reset();
}

/// A sum over the taps of windows times weights, where each channel has weights of its own.
struct channel_windows {
  sliding over;
  std::size_t channel = 0;    ///< its index in over.rest
  std::size_t results = 0;    ///< the window's axis of a channel's results
  node_id weights = no_node;  ///< of the window's axes; those of images and places have an extent of 1
};

/// Whether weights have the extents that channel_windows names, for the channel of over.rest[k].
inline bool are_weights(const shape& w, const node& window, const shape& x, const channel_windows& of, std::size_t k) {
  const sliding& s = of.over;
  bool fit = w[s.rest_at[1 - k]].is(1) && w[s.rest_at[k]] == x[s.rest[k]] && x[s.rest[k]].is_number() &&
             w[of.results] == window.extents[of.results] && w[of.results].is_number();
  for (std::size_t a = 0; a < s.spatial.size(); ++a) fit = fit && w[s.place[a]].is(1) && w[s.tap[a]].is(s.taps[a]);
  return fit;
}

/// The windows of a sum, if they are such.
inline std::optional<channel_windows> as_channel_windows(const graph& g, node_id id) {
  const node& n = g[id];
  if (n.code != op::reduce || n.attr.combiner != op::add || !is_float(n.type)) return std::nullopt;
  const node& terms = g[n.in[0]];
  if (terms.code != op::mul) return std::nullopt;
  const std::size_t rank = terms.extents.size();
  series<char> is_tap(rank, 0);
  for (const auto axis : n.attr.ints) is_tap[static_cast<std::size_t>(axis)] = 1;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    channel_windows out;
    const node& window = g[terms.in[side]];
    auto s = as_sliding(g, terms.in[side], is_tap, 2, &out.results);
    if (!s || out.results == rank || is_tap[out.results] || n.attr.ints.size() != s->spatial.size()) continue;
    out.weights = terms.in[1 - side];
    if (g[out.weights].code == op::broadcast) out.weights = g[out.weights].in[0];
    if (s->padding && *s->padding != 0) over_padding(g, terms.in[side], *s);
    out.over = std::move(*s);
    const shape& w = g[out.weights].extents;
    if (w.size() != rank) continue;
    for (out.channel = 0; out.channel < 2; ++out.channel)
      if (are_weights(w, window, g[window.in[0]].extents, out, out.channel)) return out;
  }
  return std::nullopt;
}

/// A reduction over the taps of a window.
struct pool {
  sliding over;
  bool most = false;  ///< the maximum, else the sum
  double taps = 1;
  std::vector<std::int64_t> back;  ///< from the operators' axes to the reduction's
};

/// The pool that a reduction is, if it is one.
inline std::optional<pool> as_pool(const graph& g, node_id id) {
  const node& n = g[id];
  const std::size_t rank = g[n.in[0]].extents.size();
  series<char> is_tap(rank, 0);
  for (const auto axis : n.attr.ints) is_tap[static_cast<std::size_t>(axis)] = 1;
  auto s = as_sliding(g, n.in[0], is_tap);
  pool out;
  out.most = n.attr.combiner == op::maximum;
  const bool sum = n.attr.combiner == op::add;
  if (!s || !is_float(n.type) || n.attr.ints.size() != s->spatial.size() || (!out.most && !sum)) return std::nullopt;
  const bool dilates = std::any_of(s->dilations.begin(), s->dilations.end(), [](std::int64_t d) { return d != 1; });
  if (sum && dilates) return std::nullopt;
  bool wide = false;
  for (std::size_t k = 0; k < s->pads.size(); ++k) wide = wide || s->pads[k] >= s->taps[k % s->taps.size()];
  const double neutral = out.most ? -std::numeric_limits<double>::infinity() : 0;
  if (s->padding && (wide || *s->padding != neutral)) over_padding(g, n.in[0], *s);
  for (std::size_t j = 0; j < rank; ++j) {
    if (is_tap[j]) continue;
    const auto k = std::find(s->place.begin(), s->place.end(), j) - s->place.begin();
    out.back.push_back(j == s->rest_at[0] ? 0 : j == s->rest_at[1] ? 1 : 2 + k);
  }
  for (const auto t : s->taps) out.taps *= static_cast<double>(t);
  out.over = std::move(*s);
  return out;
}

}  // namespace sinter::ir
