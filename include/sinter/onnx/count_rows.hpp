// onnx/count_rows.hpp: determinants, counts of n-grams, mel filters, and attention whose scores a graph changes.
#pragma once

#include "../linalg/handles.hpp"
#include "flow_rows.hpp"
#include "nn_rows.hpp"

namespace sinter::onnx::rows {

inline void determinant_row(call& c) {
  const node x = wide(c.x(0));
  const extents e = extents_of(x);
  if (e.size() < 2 || e[e.size() - 1] != e[e.size() - 2]) c.refuse("of " + text_of(e) + ", which is no square matrix");
  const extents lanes(e.begin(), e.end() - 2);
  const node flat = reshape_to(x, {product_of(lanes), e.back(), e.back()});
  const location at = place_of_nodes();
  const auto of = [&]<class T>(std::type_identity<T>) {
    const auto matrices = dynamic_tensor::of_node(flat.id()).as<tensor<T, 3>>(at);
    const auto values = linalg::handles::det<T>(sinter::detail::untyped(matrices, at), at);
    return value_of(dynamic_tensor(sinter::detail::typed<T, dims(1)>(values, at), at).node(at));
  };
  const node y = x.type() == dtype::f64 ? of(std::type_identity<double>()) : of(std::type_identity<float>());
  c.give(to_type(reshape_to(y, lanes), c.type(0)));
}

/// n-grams of one length in a pool: their elements, row by row, and the place of each count.
struct gram_pool {
  std::int64_t length = 1;
  std::vector<std::int64_t> elements, places;
  std::vector<double> weights;
};
inline std::vector<gram_pool> pools_of(call& c) {
  const auto counts = c.list("ngram_counts"), places = c.list("ngram_indexes"), pool = c.list("pool_int64s");
  const auto* weights = c.attribute("weights");
  if (c.has_attribute("pool_strings")) c.refuse("of texts, which no tensor holds");
  const std::int64_t least = c.i("min_gram_length", 1), most = c.i("max_gram_length", 1);
  std::vector<gram_pool> out;
  std::size_t gram = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const auto length = static_cast<std::int64_t>(k) + 1;
    const std::int64_t from = counts[k],
                       to = k + 1 < counts.size() ? counts[k + 1] : static_cast<std::int64_t>(pool.size());
    if (from < 0 || to < from || to > static_cast<std::int64_t>(pool.size()))
      c.refuse("its ngram_counts are outside of its pool");
    gram_pool p{length, {pool.begin() + from, pool.begin() + to}, {}, {}};
    for (std::int64_t g = 0; g < (to - from) / length; ++g, ++gram) {
      if (gram >= places.size() || places[gram] < 0 || places[gram] > (1 << 28))
        c.refuse("its ngram_indexes are not one for each n-gram");
      p.places.push_back(places[gram]);
      p.weights.push_back(weights && gram < weights->floats.size() ? static_cast<double>(weights->floats[gram]) : 1.0);
    }
    p.elements.resize(p.places.size() * k + p.places.size());
    if (length >= least && length <= most && !p.places.empty()) out.push_back(std::move(p));
  }
  return out;
}
inline item list_of_numbers(dtype type, const extents& e, const std::vector<std::int64_t>& v) {
  host_values h{type, e, {}, {}};
  for (const auto x : v) h.ints.push_back(dim(x));
  return known_item(std::move(h));
}
/// The count of each n-gram of the pool in each row of x (rows, n). The elements of an n-gram are at equal distances of up to
/// max_skip_count + 1.
inline void tf_idf(call& c) {
  const std::string mode = c.s("mode", "TF");
  const std::int64_t skips = c.i("max_skip_count", 0);
  const auto pools = pools_of(c);
  std::int64_t width = 0;
  for (const auto v : c.list("ngram_indexes")) {
    if (v < 0 || v > 1 << 28) c.refuse("its ngram_indexes are not from 0 to 2^28");
    width = std::max(width, v + 1);
  }
  if (skips < 0 || skips > 64) c.refuse("it skips " + std::to_string(skips) + " elements; at most 64 are");
  node x = to_type(c.x(0), dtype::i64);
  const bool single = x.rank() == 1;
  if (single) x = unsqueezed(x, {0});
  if (x.rank() != 2) c.refuse("of another rank than 1 and 2");
  const extents e = extents_of(x);
  if (e[1].is_symbolic()) c.refuse("of an open number of elements in a row");
  node y = constant(dtype::f32, 0, {e[0], dim(width)});
  for (const gram_pool& p : pools) {
    const dim grams = static_cast<std::int64_t>(p.places.size());
    const node pool = c.im.value(list_of_numbers(dtype::i64, {grams, dim(p.length)}, p.elements));
    node count = constant(dtype::f32, 0, {e[0], grams});
    for (std::int64_t step = 1; step <= (p.length == 1 ? 1 : skips + 1); ++step) {
      const std::int64_t starts = e[1].bits - (p.length - 1) * step;
      if (starts < 1) break;
      node same;
      for (std::int64_t k = 0; k < p.length; ++k) {
        const node at = unsqueezed(sliced(x, 1, k * step, starts), {2});
        const node eq = pointwise(op::eq, at, reshape_to(sliced(pool, 1, k, 1), {1, 1, grams}));
        same = same ? pointwise(op::bit_and, same, eq) : eq;
      }
      count = plus(count, reduced(op::add, to_type(same, dtype::f32), {1}, false));
    }
    if (mode == "IDF") count = ir::minimum(count, 1.0);
    if (mode != "TF") {
      host_values weights{dtype::f32, {1, grams}, {}, p.weights};
      count = times(count, c.im.value(known_item(std::move(weights))));
    }
    const node place = c.im.value(list_of_numbers(dtype::i64, {1, grams}, p.places));
    y = ir::scatter_add(y, broadcast_to(place, {e[0], grams}), count, 1);
  }
  c.give(single ? reshape_to(y, {dim(width)}) : y);
}

/// Triangles over the bins of a spectrum, with edges at equal distances on the mel scale.
inline void mel_weights(call& c) {
  const std::int64_t bins = whole_of(c.number(0)), length = whole_of(c.number(1)), rate = whole_of(c.number(2));
  const double low = c.number(3), high = c.number(4);
  if (bins < 1 || bins > (1 << 20) || length < 1 || length > (1 << 24) || rate < 1 ||
      (length / 2 + 1) > (std::int64_t{1} << 20) / bins)
    c.refuse("its numbers of bins and elements have to be positive, and not beyond a million weights");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(k) * step + mel(low)) / 2595) - 1);
    edges.push_back(whole_of(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  const std::int64_t rows = length / 2 + 1;
  host_values h{c.type_named("output_datatype", 1),
                {dim(rows), dim(bins)},
                {},
                wire::list_of<double>(static_cast<std::size_t>(rows * bins), 0.0)};
  if (!is_float(h.type)) c.refuse("of a dtype that is not floating");
  const auto set = [&](std::int64_t row, std::int64_t k, double v) {
    if (row >= 0 && row < rows) h.floats[static_cast<std::size_t>(row * bins + k)] = v;
  };
  for (std::int64_t k = 0; k < bins; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const std::int64_t first = edges[at], centre = edges[at + 1], last = edges[at + 2];
    if (centre == first) set(centre, k, 1);
    else
      for (std::int64_t j = std::max(first, std::int64_t{0}); j <= std::min(centre, rows - 1); ++j)
        set(j, k, static_cast<double>(j - first) / static_cast<double>(centre - first));
    for (std::int64_t j = std::max(centre, std::int64_t{0}); j < std::min(last, rows); ++j)
      set(j, k, static_cast<double>(last - j) / static_cast<double>(last - centre));
  }
  c.give(0, std::move(h));
}

/// Attention of (batch, heads, rows, size). Graphs of the node change its scores and weights.
inline void flex_attention(call& c) {
  const node q = c.x(0), k = c.x(1), v = c.x(2);
  const extents eq = extents_of(q), ek = extents_of(k);
  if (eq.size() != 4 || ek.size() != 4 || v.rank() != 4 || eq[3].is_symbolic())
    c.refuse("of another rank than 4, or of an open size");
  const dim group = eq[1] / ek[1];
  const auto repeated_heads = [&](const node& x) {
    const extents e = extents_of(x);
    if (group == 1) return x;
    return reshape_to(broadcast_to(unsqueezed(x, {2}), {e[0], e[1], group, e[2], e[3]}),
                      {e[0], e[1] * group, e[2], e[3]});
  };
  const auto changed = [&](const char* name, const node& x) {
    const auto* a = c.attribute(name);
    if (!a || !a->g) return x;
    const graph_proto& g = *a->g;
    const auto type = g.inputs.empty() ? std::nullopt : dtype_of_onnx(g.inputs[0].type.element);
    const auto out = c.im.run(g, &c.at, {traced_item(to_type(x, type.value_or(x.type())))});
    if (out.empty()) c.refuse(std::string("its ") + name + " gives nothing");
    return to_type(c.im.value(out[0]), x.type());
  };
  const double scale =
      c.has_attribute("scale") ? c.f("scale", 1) : 1 / std::sqrt(static_cast<double>(static_cast<std::int64_t>(eq[3])));
  const node scores = product(wide(q), permuted(wide(repeated_heads(k)), {0, 1, 3, 2})) * scale;
  const node weights = changed("prob_mod", softmax_of(changed("score_mod", scores), 3));
  c.give(to_type(product(weights, wide(repeated_heads(v))), q.type()));
}

inline const row counts[] = {
    {"Det", "", 1, determinant_row, "det"},
    {"MelWeightMatrix", "", 1, mel_weights, "a constant"},
    {"TfIdfVectorizer", "", 1, tf_idf, "comparisons, sums, scatter"},
    {"FlexAttention", "ai.onnx.preview", 1, flex_attention, "products and softmax"},
};

}  // namespace sinter::onnx::rows
