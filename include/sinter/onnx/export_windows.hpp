// onnx/export_windows.hpp: windows as Conv, MaxPool and AveragePool, or as gathers.
#pragma once

#include <algorithm>

#include "../ir/sliding.hpp"
#include "exporter.hpp"

namespace sinter::onnx::out {

inline attributes_t sliding_attributes(const ir::sliding& s, bool dilates = true) {
  attributes_t out{wire::ints_attribute("kernel_shape", s.taps), wire::ints_attribute("strides", s.strides),
                   wire::ints_attribute("pads", s.pads)};
  if (dilates) out.push_back(wire::ints_attribute("dilations", s.dilations));
  return out;
}

/// The image with the axes `first`, `second`, then the spatial ones.
inline std::string laid_out(builder& b, const ir::sliding& s, std::size_t first, std::size_t second) {
  std::vector<std::int64_t> perm{static_cast<std::int64_t>(first), static_cast<std::int64_t>(second)};
  for (const std::size_t d : s.spatial) perm.push_back(static_cast<std::int64_t>(d));
  return b.transposed(b.full(s.image), std::move(perm));
}

/// A product of windows with weights as Conv; "" for another product.
inline std::string convolved(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const ir::shape &x = b.at(n.in[0]).extents, &w = b.at(n.in[1]).extents;
  const auto nk = static_cast<std::size_t>(n.attr.ints[1]), kept = x.size() - nk;
  if (n.attr.ints[0] != 0 || !is_float(n.type) || w.size() != nk + 1) return "";
  series<char> is_tap(x.size(), 0);
  for (std::size_t j = kept; j < x.size(); ++j) is_tap[j] = 1;
  auto s = ir::as_sliding(b.g, n.in[0], is_tap);
  if (!s || nk != s->spatial.size() + 1 || is_tap[s->rest_at[0]] == is_tap[s->rest_at[1]]) return "";
  if (s->padding && *s->padding != 0) ir::over_padding(b.g, n.in[0], *s);
  const std::size_t channel = is_tap[s->rest_at[0]] ? 0 : 1;
  std::vector<std::int64_t> perm{static_cast<std::int64_t>(nk), static_cast<std::int64_t>(s->rest_at[channel] - kept)},
      back;
  for (const std::size_t tap : s->tap) perm.push_back(static_cast<std::int64_t>(tap - kept));
  for (std::size_t j = 0; j < kept; ++j) {
    const auto k = std::find(s->place.begin(), s->place.end(), j) - s->place.begin();
    back.push_back(j == s->rest_at[1 - channel] ? 0 : 2 + k);
  }
  back.push_back(1);
  const std::string image = laid_out(b, *s, s->rest[1 - channel], s->rest[channel]);
  return b.transposed(b.node("Conv", {image, b.transposed(b.full(n.in[1]), std::move(perm))}, sliding_attributes(*s)),
                      std::move(back));
}

/// A Conv of groups, whose result (n, groups·each, places…) gets axes of its own for groups and each, and then the order `axes`:
/// the place in (n, groups, each, places…) of each axis of the node.
inline std::string grouped(builder& b, const ir::sliding& s, const std::string& image, const std::string& weights,
                           std::int64_t groups, const ir::shape& parts, std::vector<std::int64_t> axes) {
  attributes_t how = sliding_attributes(s);
  how.push_back(wire::int_attribute("group", groups));
  return b.transposed(b.reshaped(b.node("Conv", {image, weights}, how), parts), std::move(axes));
}

/// Sums of windows times weights of each channel as Conv with a group for each; "" for another sum.
inline std::string convolved_by_channel(builder& b, node_id id) {
  const auto c = ir::as_channel_windows(b.g, id);
  if (!c) return "";
  const ir::sliding& s = c->over;
  const ir::node& n = b.at(id);
  const ir::shape& window = b.at(b.at(n.in[0]).in[0]).extents;
  const std::size_t rows = s.rest_at[1 - c->channel], channels = s.rest_at[c->channel];
  std::vector<std::size_t> parts{rows, channels, c->results};
  parts.insert(parts.end(), s.place.begin(), s.place.end());
  ir::shape extents, kernel{window[channels] * window[c->results], 1};
  for (const std::size_t j : parts) extents.push_back(window[j]);
  std::vector<std::int64_t> perm{static_cast<std::int64_t>(channels), static_cast<std::int64_t>(c->results)}, axes;
  for (std::size_t k = 0; k < s.tap.size(); ++k) {
    perm.push_back(static_cast<std::int64_t>(s.tap[k]));
    kernel.push_back(s.taps[k]);
  }
  for (std::size_t j = 0; j < window.size(); ++j) {
    if (const auto at = std::find(parts.begin(), parts.end(), j); at != parts.end()) axes.push_back(at - parts.begin());
    if (j == rows || std::find(s.place.begin(), s.place.end(), j) != s.place.end())
      perm.push_back(static_cast<std::int64_t>(j));
  }
  const std::string image = laid_out(b, s, s.rest[1 - c->channel], s.rest[c->channel]),
                    weights = b.reshaped(b.transposed(b.full(c->weights), std::move(perm)), kernel);
  return grouped(b, s, image, weights, *window[channels].number(), extents, std::move(axes));
}

/// A product for each group of channels as Conv; "" for another product. Windows slide over (n, s…, groups, inputs), which is
/// the image with its last axis divided.
inline std::string convolved_in_groups(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const ir::node &window = b.at(n.in[0]), &w = b.at(n.in[1]);
  const std::size_t rank = window.extents.size();
  const auto nk = static_cast<std::size_t>(n.attr.ints[1]), kept = rank - nk;
  if (n.attr.ints[0] != 1 || !is_float(n.type) || window.code != ir::op::window || w.extents.size() != nk + 2)
    return "";
  const ir::node& split = b.at(window.in[0]);
  const std::size_t last = split.extents.size() - 1;
  if (split.code != ir::op::reshape || b.at(split.in[0]).extents.size() != last) return "";
  const ir::node& whole = b.at(split.in[0]);
  for (std::size_t d = 0; d + 1 < last; ++d)
    if (whole.extents[d] != split.extents[d]) return "";
  series<char> is_tap(rank, 0);
  for (std::size_t j = kept; j < rank; ++j) is_tap[j] = 1;
  auto s = ir::as_sliding(b.g, n.in[0], is_tap, 3);
  if (!s || nk != s->spatial.size() + 1 || s->rest[0] != 0 || s->rest[1] + 1 != last || s->rest_at[1] != 0 ||
      is_tap[s->rest_at[0]] || !is_tap[s->rest_at[2]] || !split.extents[last - 1].is_number())
    return "";
  s->image = split.in[0];
  if (whole.code == ir::op::pad) ir::take_padding(whole, *s);
  if (s->padding && *s->padding != 0) {
    s->image = split.in[0];
    s->pads.assign(s->pads.size(), 0);
  }
  const auto of_w = [&](std::size_t j) { return static_cast<std::int64_t>(1 + j - kept); };
  std::vector<std::int64_t> perm{0, static_cast<std::int64_t>(nk + 1), of_w(s->rest_at[2])}, axes{1};
  ir::shape kernel{w.extents[0] * w.extents[nk + 1], split.extents[last]},
      parts{split.extents[0], w.extents[0], w.extents[nk + 1]};
  for (std::size_t k = 0; k < s->tap.size(); ++k) {
    perm.push_back(of_w(s->tap[k]));
    kernel.push_back(s->taps[k]);
    parts.push_back(window.extents[s->place[k]]);
  }
  for (std::size_t j = 1; j < kept; ++j)
    axes.push_back(j == s->rest_at[0] ? 0 : 3 + (std::find(s->place.begin(), s->place.end(), j) - s->place.begin()));
  axes.push_back(2);
  const std::string image = laid_out(b, *s, 0, last - 1),
                    weights = b.reshaped(b.transposed(b.full(n.in[1]), std::move(perm)), kernel);
  return grouped(b, *s, image, weights, *split.extents[last - 1].number(), parts, std::move(axes));
}

inline std::string average_of(builder& b, const ir::pool& p) {
  attributes_t how = sliding_attributes(p.over, false);
  how.push_back(wire::int_attribute("count_include_pad", 1));
  return b.node("AveragePool", {laid_out(b, p.over, p.over.rest[0], p.over.rest[1])}, how);
}

/// A reduction over the taps of a window as a pool; "" for another reduction.
inline std::string pooled(builder& b, node_id id) {
  const auto p = ir::as_pool(b.g, id);
  if (!p) return "";
  if (!p->most) return b.transposed(b.node("Mul", {average_of(b, *p), b.literal(b.at(id).type, p->taps)}), p->back);
  const std::string x = laid_out(b, p->over, p->over.rest[0], p->over.rest[1]);
  return b.transposed(b.node("MaxPool", {x}, sliding_attributes(p->over)), p->back);
}

/// True for products with windows, which wait for the sum over taps.
inline bool may_convolve(const builder& b, node_id id) {
  const ir::node& n = b.at(id);
  return n.code == ir::op::mul && is_float(n.type) &&
         (b.at(n.in[0]).code == ir::op::window || b.at(n.in[1]).code == ir::op::window);
}

/// True for sums over windows, which wait for a division.
inline bool may_average(const builder& b, node_id id) {
  const ir::node& n = b.at(id);
  return n.code == ir::op::reduce && n.attr.combiner == ir::op::add && b.at(n.in[0]).code == ir::op::window;
}

/// The sum of a window over its number of taps as AveragePool; "" for another division.
inline std::string averaged(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  node_id by = n.in[1];
  while (b.at(by).code == ir::op::broadcast || b.at(by).code == ir::op::reshape) by = b.at(by).in[0];
  if (!may_average(b, n.in[0]) || b.at(by).code != ir::op::constant) return "";
  const auto p = ir::as_pool(b.g, n.in[0]);
  return p && b.at(by).attr.literal.f == p->taps ? b.transposed(average_of(b, *p), p->back) : "";
}

/// Any window of known extents: elements of the flat operand by their places.
inline std::string gathered_window(builder& b, node_id id) {
  const ir::node& n = b.at(id);
  const ir::shape& x = b.at(n.in[0]).extents;
  const std::size_t rank = n.extents.size();
  ir::detail::extents_t extents, from;
  for (const ir::dim& d : n.extents) extents.push_back(d.number().value_or(-1));
  for (const ir::dim& d : x) from.push_back(d.number().value_or(-1));
  bool known = true;
  for (const auto e : extents) known = known && e >= 0;
  for (const auto e : from) known = known && e >= 0;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < x.size(); ++d) known = known && n.attr.dims[rank + d].is_number();
  constexpr std::int64_t most = std::int64_t{1} << 26;
  if (!known || ir::detail::count_of(extents) > most)
    return b.refuse(n, "window", "neither a convolution nor a pool, and of open or large extents");
  const auto strides = ir::detail::row_major_strides(from);
  ir::detail::extents_t steps(rank, 0);
  for (std::size_t d = 0; d < x.size(); ++d) {
    offset += strides[d] * *n.attr.dims[rank + d].number();
    for (std::size_t j = 0; j < rank; ++j) steps[j] += strides[d] * n.attr.ints[d * rank + j];
  }
  ir::literal_array places{dtype::i64, extents, {}, {}};
  places.i.resize(static_cast<std::size_t>(ir::detail::count_of(extents)));
  std::size_t at = 0;
  ir::detail::walk(extents, steps, steps, offset, 0, [&](std::int64_t p, std::int64_t) { places.i[at++] = p; });
  const ir::shape flat{ir::dim(ir::detail::count_of(from))};
  return b.node("Gather", {b.reshaped(b.full(n.in[0]), flat), b.constant(std::move(places))},
                {wire::int_attribute("axis", 0)});
}

}  // namespace sinter::onnx::out
