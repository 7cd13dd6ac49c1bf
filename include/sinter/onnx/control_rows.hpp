// onnx/control_rows.hpp: operators of sequences and optionals, which are lists while the model is traced; boxes, windows.
#pragma once

#include "flow_rows.hpp"

namespace sinter::onnx::rows {

inline item list_item(std::vector<item> all) {
  item x;
  x.list = std::make_shared<std::vector<item>>(std::move(all));
  return x;
}
inline std::vector<item>& list_of_input(call& c, std::size_t k) {
  if (!c.given(k).list) c.refuse("input " + std::to_string(k) + " is no sequence");
  return *c.in[k].list;
}
inline std::size_t place_in(call& c, std::size_t k, std::size_t count) {
  const std::int64_t at = c.integers(k).at(0), n = static_cast<std::int64_t>(count);
  if (at < -n || at >= n) c.refuse("its position is outside of the sequence");
  return static_cast<std::size_t>(at < 0 ? at + n : at);
}
inline void sequence_construct(call& c) { c.give(0, list_item(c.in)); }
inline void sequence_empty(call& c) { c.give(0, list_item({})); }
inline void sequence_length(call& c) {
  c.give(0, host_values{dtype::i64, {}, {dim(static_cast<std::int64_t>(list_of_input(c, 0).size()))}, {}});
}
inline void sequence_at(call& c) {
  const std::vector<item> all = list_of_input(c, 0);
  c.give(0, all[place_in(c, 1, all.size())]);
}
inline void sequence_insert(call& c) {
  std::vector<item> all = list_of_input(c, 0);
  std::size_t at = all.size();
  if (c.has(2) && c.integers(2).at(0) != static_cast<std::int64_t>(all.size())) at = place_in(c, 2, all.size());
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), c.given(1));
  c.give(0, list_item(std::move(all)));
}
inline void sequence_erase(call& c) {
  std::vector<item> all = list_of_input(c, 0);
  if (all.empty()) c.refuse("the sequence is empty");
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(c.has(1) ? place_in(c, 1, all.size()) : all.size() - 1));
  c.give(0, list_item(std::move(all)));
}
inline void concat_sequence(call& c) {
  const std::vector<item> all = list_of_input(c, 0);
  if (all.empty()) c.refuse("the sequence is empty");
  const auto axis = static_cast<int>(c.i("axis", 0));
  if (c.i("new_axis", 0)) return c.give(0, stacked_items(c, all, axis));
  std::vector<node> parts;
  for (const item& x : all) parts.push_back(c.im.value(x));
  c.give(joined(parts, axis_of(axis, parts[0].rank())));
}
inline void split_to_sequence(call& c) {
  const int axis = axis_of(c.i("axis", 0), c.rank(0));
  const auto n = static_cast<std::int64_t>(c.shape(0)[static_cast<std::size_t>(axis)]);
  std::vector<std::int64_t> parts;
  const bool single = !c.has(1), keep = !single || c.i("keepdims", 1) != 0;
  if (n > 65536) c.refuse("its axis has more than 65536 parts");
  if (single) parts.assign(static_cast<std::size_t>(n), 1);
  else if (c.shape(1).empty()) {
    const std::int64_t each = c.integers(1).at(0);
    if (each < 1) c.refuse("its parts have no length");
    for (std::int64_t at = 0; at < n; at += each) parts.push_back(std::min(each, n - at));
  } else parts = c.integers(1);
  const node x = c.x(0);
  std::vector<item> all;
  std::int64_t at = 0;
  for (const auto p : parts) {
    node y = sliced(x, axis, dim(at), dim(p));
    if (!keep) {
      extents e = extents_of(y);
      e.erase(e.begin() + axis);
      y = reshape_to(y, e);
    }
    all.push_back(traced_item(y));
    at += p;
  }
  c.give(0, list_item(std::move(all)));
}
inline void sequence_map(call& c) {
  const graph_proto& body = body_of(c);
  const std::size_t n = list_of_input(c, 0).size();
  std::vector<std::vector<item>> results(body.outputs.size());
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<item> in;
    for (const item& x : c.in) in.push_back(x.list ? x.list->at(k) : x);
    const auto out = c.im.run(body, &c.at, in);
    for (std::size_t i = 0; i < out.size(); ++i) results[i].push_back(out[i]);
  }
  for (std::size_t i = 0; i < results.size(); ++i) c.give(i, list_item(std::move(results[i])));
}
inline void optional_row(call& c) {
  item x = c.has(0) ? c.in[0] : list_item({});
  x.is_optional = !c.has(0);
  c.give(0, std::move(x));
}
inline void optional_has(call& c) {
  const bool some = c.has(0) && !c.in[0].is_optional;
  c.give(0, host_values{dtype::b8, {}, {dim(some ? 1 : 0)}, {}});
}
inline void optional_get(call& c) {
  if (c.given(0).is_optional) c.refuse("the optional is empty");
  c.give(0, c.in[0]);
}

/// Boxes in descending order of score, without boxes that overlap a kept box by more than a threshold. The values of boxes
/// and scores are read.
inline void non_max_suppression(call& c) {
  const std::int64_t most = c.has(2) ? c.integers(2).at(0) : 0;
  const double overlap = c.has(3) ? c.number(3) : 0;
  const bool limited = c.has(4), centred_boxes = c.i("center_point_box", 0) != 0;
  const double least = limited ? c.number(4) : 0;
  const host_values boxes = c.host(0), scores = c.host(1);
  const auto batches = static_cast<std::size_t>(scores.shape.at(0).bits),
             classes = static_cast<std::size_t>(scores.shape.at(1).bits),
             n = static_cast<std::size_t>(scores.shape.at(2).bits);
  if (!is_float(boxes.type) || !is_float(scores.type) || boxes.shape.size() != 3 || boxes.shape[0] != scores.shape[0] ||
      boxes.shape[1] != scores.shape[2] || boxes.shape[2] != 4)
    c.refuse("its boxes are " + text_of(boxes.shape) + " and its scores " + text_of(scores.shape));
  const auto box = [&](std::size_t b, std::size_t i) {
    const double* p = &boxes.floats[(b * n + i) * 4];
    if (centred_boxes) return std::array{p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
    return std::array{std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
  };
  const auto shared = [](const std::array<double, 4>& a, const std::array<double, 4>& b) {
    const double h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    if (h <= 0 || w <= 0) return 0.0;
    return h * w / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - h * w);
  };
  host_values out{dtype::i64, {}, {}, {}};
  for (std::size_t b = 0; b < batches; ++b)
    for (std::size_t k = 0; k < classes; ++k) {
      const double* s = scores.floats.data() + (b * classes + k) * n;
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < n; ++i)
        if (!limited || s[i] > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return s[x] > s[y]; });
      std::vector<std::size_t> kept;
      for (const std::size_t i : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const bool free = std::none_of(kept.begin(), kept.end(),
                                       [&](std::size_t j) { return shared(box(b, i), box(b, j)) > overlap; });
        if (free) kept.push_back(i);
      }
      for (const std::size_t i : kept)
        for (const std::size_t v : {b, k, i}) out.ints.push_back(dim(static_cast<std::int64_t>(v)));
    }
  out.shape = {dim(static_cast<std::int64_t>(out.ints.size() / 3)), dim(3)};
  c.give(0, std::move(out));
}

/// A window that is a sum of cosines.
inline void give_cosines(call& c, std::initializer_list<double> factors) {
  const double size = c.number(0);
  if (!(size >= 0 && size <= 65536)) c.refuse("its size is " + std::to_string(size) + ", beyond 65536");
  const auto n = static_cast<std::int64_t>(size);
  const double around = static_cast<double>(c.i("periodic", 1) ? n : n - 1);
  const dtype type = c.type_named("output_datatype", 1);
  if (!is_float(type)) c.refuse(std::string("its output_datatype is ") + dtype_name(type));
  host_values h{type, {dim(n)}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    double y = 0;
    int k = 0;
    for (const double f : factors) y += f * std::cos(6.283185307179586 * k++ * static_cast<double>(i) / around);
    h.floats.push_back(y);
  }
  c.give(0, std::move(h));
}
inline void hann(call& c) { give_cosines(c, {0.5, -0.5}); }
inline void hamming(call& c) { give_cosines(c, {25.0 / 46, -21.0 / 46}); }
inline void blackman(call& c) { give_cosines(c, {0.42, -0.5, 0.08}); }

inline const row controls[] = {
    {"BlackmanWindow", "", 1, blackman, "a constant"},
    {"ConcatFromSequence", "", 1, concat_sequence, "concat, stack"},
    {"HammingWindow", "", 1, hamming, "a constant"},
    {"HannWindow", "", 1, hann, "a constant"},
    {"NonMaxSuppression", "", 1, non_max_suppression, "places, of values that are read"},
    {"Optional", "", 1, optional_row, "a value of the trace"},
    {"OptionalGetElement", "", 1, optional_get, "the same value"},
    {"OptionalHasElement", "", 1, optional_has, "known"},
    {"SequenceAt", "", 1, sequence_at, "a list of the trace"},
    {"SequenceConstruct", "", 1, sequence_construct, "a list of the trace"},
    {"SequenceEmpty", "", 1, sequence_empty, "a list of the trace"},
    {"SequenceErase", "", 1, sequence_erase, "a list of the trace"},
    {"SequenceInsert", "", 1, sequence_insert, "a list of the trace"},
    {"SequenceLength", "", 1, sequence_length, "known"},
    {"SequenceMap", "", 1, sequence_map, "the body for each element"},
    {"SplitToSequence", "", 1, split_to_sequence, "slice"},
};

}  // namespace sinter::onnx::rows
