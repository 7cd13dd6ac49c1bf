// onnx/sample_rows.hpp: GridSample, AffineGrid, BitCast, and layers with a state: CausalConvWithState, LinearAttention.
#pragma once

#include "elementwise.hpp"
#include "loops.hpp"

namespace sinter::onnx::rows {

/// p, reflected at low and high until it lies between them.
inline node mirrored(const node& p, const node& low, const node& high) {
  const node span = minus(high, low), period = ir::maximum(plus(span, span), 1e-30);
  const node far = pointwise(op::abs, minus(p, low)), turns = pointwise(op::floor, over(far, period));
  const node t = minus(far, times(turns, period));
  return plus(low, ir::minimum(t, minus(plus(span, span), t)));
}

/// Places along one axis of a grid's samples, and the elements at whole places.
struct sampled_axis {
  dim extent;
  bool align = false;
  std::string padding;
  node low, high;  ///< the borders

  sampled_axis(dim n, dtype type, bool a, std::string p) : extent(n), align(a), padding(std::move(p)) {
    const node length = size_node(n, type);
    low = constant(type, align ? 0 : -0.5);
    high = align ? length - 1.0 : length - 0.5;
  }
  node place(const node& g) const {
    const node length = size_node(extent, g.type());
    return align ? times((g + 1.0) * 0.5, length - 1.0) : (times(g + 1.0, length) - 1.0) * 0.5;
  }
  node kept(const node& p) const {
    if (padding == "zeros") return p;
    const node last = size_node(extent, p.type()) - 1.0;
    if (padding == "border") return pointwise(op::minimum, ir::maximum(p, 0.0), last);
    const node m = mirrored(p, low, high);
    return choose(pointwise(op::lt, p, low), m, choose(pointwise(op::gt, p, high), m, p));
  }
  /// The index of the element at a whole place, and whether the element exists.
  std::pair<node, node> read(const node& whole) const {
    const node p = kept(whole), last = size_node(extent, p.type()) - 1.0;
    const node inside = pointwise(op::bit_and, pointwise(op::ge, p, constant(p.type(), 0)), pointwise(op::le, p, last));
    // Towards zero, as ONNX defines it.
    const node at = pointwise(op::trunc, pointwise(op::minimum, ir::maximum(p, 0.0), last));
    return {to_type(at, dtype::i64), inside};
  }
};

/// Whole places around a place, and their weights.
inline std::vector<std::pair<node, node>> taps_of(const node& p, const std::string& mode) {
  if (mode == "nearest") return {{p, node()}};
  const node first = pointwise(op::floor, p), t = minus(p, first);
  if (mode == "linear") return {{first, 1.0 - t}, {first + 1.0, t}};
  const double a = -0.75;
  const auto near = [&](const node& x) { return times(times(x * (a + 2) - (a + 3), x), x) + 1.0; };
  const auto far = [&](const node& x) { return times(times(x * a - 5 * a, x) + 8 * a, x) - 4 * a; };
  return {{first - 1.0, far(t + 1.0)}, {first, near(t)}, {first + 1.0, near(1.0 - t)}, {first + 2.0, far(2.0 - t)}};
}

inline void grid_sample(call& c) {
  std::string mode = c.s("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  // Weights of integers are fractions.
  const node image = mode == "nearest" || is_float(c.type(0)) ? wide(c.x(0)) : to_type(c.x(0), dtype::f64);
  const node grid = wide(c.x(1));
  const int spatial = image.rank() - 2;
  if (spatial < 1 || spatial > 5 || grid.rank() != image.rank()) c.refuse("a grid of another rank than its image");
  const extents e = extents_of(image), g = extents_of(grid);
  const dim positions = product_of(g, 1, g.size() - 1);
  std::vector<std::vector<std::pair<node, node>>> taps;
  std::vector<sampled_axis> axes;
  for (int axis = 0; axis < spatial; ++axis) {
    axes.emplace_back(e[static_cast<std::size_t>(axis) + 2], grid.type(), c.i("align_corners", 0) != 0,
                      c.s("padding_mode", "zeros"));
    const node coordinate = reshape_to(sliced(grid, grid.rank() - 1, spatial - 1 - axis, 1), {g[0], 1, positions});
    node p = axes.back().place(coordinate);
    if (mode == "nearest") p = ir::round(p);
    taps.push_back(taps_of(mode == "cubic" ? p : axes.back().kept(p), mode));
  }
  const node flat = reshape_to(image, {e[0], e[1], product_of(e, 2)});
  const extents out{e[0], e[1], positions};
  node sum;
  std::vector<std::size_t> at(static_cast<std::size_t>(spatial), 0);
  for (bool more = true; more;) {
    node index, weight, inside;
    for (std::size_t a = 0; a < at.size(); ++a) {
      const auto& [whole, w] = taps[a][at[a]];
      const auto [i, in] = axes[a].read(whole);
      index = index ? plus(times(index, size_node(axes[a].extent, dtype::i64)), i) : i;
      inside = inside ? pointwise(op::bit_and, inside, in) : in;
      if (w) weight = weight ? times(weight, w) : w;
    }
    node v = ir::gather(flat, broadcast_to(index, out), 2);
    v = choose(inside, v, constant(v.type(), 0));
    if (weight) v = times(v, to_type(weight, v.type()));
    sum = sum ? plus(sum, v) : v;
    more = false;
    for (std::size_t a = at.size(); a-- > 0 && !more;) {
      more = ++at[a] < taps[a].size();
      if (!more) at[a] = 0;
    }
  }
  extents shape{e[0], e[1]};
  shape.insert(shape.end(), g.begin() + 1, g.end() - 1);
  c.give(to_type(reshape_to(sum, shape), c.type(0)));
}

inline void bit_cast_row(call& c) {
  const dtype to = c.type_named("to", 0);
  const node x = c.x(0);
  const auto word = [](dtype t) { return t == dtype::f32 || t == dtype::f64 || (!is_float(t) && !is_bool(t)); };
  if (size_of(to) != size_of(x.type()) || !word(to) || !(word(x.type()) || is_bool(x.type())))
    c.refuse("between dtypes of which no bits are cast here");
  if (is_bool(x.type())) return c.give(to_type(x, to));
  if (x.type() == to) return c.give(x);
  ir::attributes a;
  a.type = to;
  c.give(ir::push(op::bit_cast, {x}, std::move(a)));
}

/// A causal convolution of each channel: sums over a window that ends at each place. The state is the last inputs.
inline void causal_conv_with_state(call& c) {
  const node x = wide(c.x(0)), w = wide(c.x(1));
  const extents e = extents_of(x), k = extents_of(w);
  if (e.size() != 3 || k.size() != 3 || k[2].is_symbolic())
    c.refuse("of another rank than 3, or with a kernel of unknown size");
  const std::int64_t taps = k[2].bits;
  if (taps < 1 || taps > 4096) c.refuse("with a kernel of " + std::to_string(taps) + " taps");
  const extents before{e[0], e[1], dim(taps - 1)};
  const node past = c.has(3) ? to_type(c.x(3), x.type()) : constant(x.type(), 0, before);
  const node all = joined({past, x}, 2);
  node sum;
  for (std::int64_t t = 0; t < taps; ++t) {
    const node part = times(sliced(all, 2, t, e[2]), reshape_to(sliced(w, 2, t, 1), {1, e[1], 1}));
    sum = sum ? plus(sum, part) : part;
  }
  if (c.has(2)) sum = plus(sum, reshape_to(to_type(c.x(2), x.type()), {1, e[1], 1}));
  const std::string name = c.s("activation", "none");
  if (name == "silu" || name == "swish") sum = over(sum, ir::exp(-sum) + 1.0);
  else if (name != "none" && !name.empty()) c.refuse("with the activation '" + name + "'");
  c.give(0, to_type(sum, c.type(0)));
  c.give(1, to_type(sliced(all, 2, e[2], taps - 1), c.type(0)));
}

/// Attention through a state of (head, key, value). Each step decays the state and adds to it. Rules: linear, gated, delta,
/// gated_delta.
inline void linear_attention(call& c) {
  const std::string rule = c.s("update_rule", "gated_delta");
  const dim heads = c.i("q_num_heads", 0), shared = c.i("kv_num_heads", 0);
  const node q = wide(c.x(0)), k = wide(c.x(1)), v = wide(c.x(2));
  const extents e = extents_of(q);
  if (e.size() != 3 || e[2].is_symbolic() || heads.bits < 1 || shared.bits < 1)
    c.refuse("without three axes, open in its features, or without numbers of heads");
  for (std::size_t i : {1, 2, 4, 5})
    if (c.has(i) && (c.rank(i) != 3 || c.shape(i)[2].is_symbolic()))
      c.refuse("with an input that is open in its features");
  const std::int64_t dk = e[2].bits / heads.bits, dv = extents_of(v)[2].bits / shared.bits;
  const dtype type = q.type();
  double scale = c.f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dk));
  const bool decays = rule == "gated" || rule == "gated_delta", deltas = rule == "delta" || rule == "gated_delta";
  const node initial = c.has(3) ? to_type(c.x(3), type) : constant(type, 0, {e[0], shared, dk, dv});
  std::vector<node> read{q, k, v};
  if (decays) read.push_back(ir::exp(wide(c.x(4))));
  if (deltas) read.push_back(wide(c.x(5)));
  for (node& x : read) x = permuted(x, {1, 0, 2});  // steps first
  const turned out = repeated(e[1], {initial}, read, false, [&](const turn& t) {
    const auto heads_of = [&](const node& x) { return reshape_to(x, {e[0], extents_of(x)[1], 1, 1}); };
    const node key = reshape_to(t.slices[1], {e[0], shared, dk, 1}),
               value = reshape_to(t.slices[2], {e[0], shared, 1, dv});
    node state = t.carried[0], add = value;
    if (decays)
      state =
          times(state, reshape_to(t.slices[3], {e[0], shared, dim(extents_of(t.slices[3])[1].bits / shared.bits), 1}));
    if (deltas) {
      add = minus(value, reduced(op::add, times(state, key), {2}, true));
      add = times(add, heads_of(t.slices[decays ? 4 : 3]));
    }
    state = plus(state, times(key, add));
    const node query = reshape_to(t.slices[0], {e[0], shared, heads.bits / shared.bits, dk, 1});
    const node o = reduced(op::add, times(query, unsqueezed(state, {2})), {3}, false);
    return turned{{state}, {reshape_to(o, {e[0], dim(heads.bits * dv)}) * scale}};
  });
  c.give(0, to_type(permuted(out.stacked[0], {1, 0, 2}), c.type(0)));
  c.give(1, to_type(out.carried[0], c.has(3) ? c.type(3) : c.type(0)));
}

/// Places of a grid, transformed by a matrix for each batch.
inline void affine_grid(call& c) {
  const node theta = wide(c.x(0));
  const extents size = c.sizes(1);
  const bool align = c.i("align_corners", 0) != 0;
  if (size.size() < 4 || size.size() > 5 || theta.rank() != 3) c.refuse("of another rank than 4 or 5");
  const std::size_t spatial = size.size() - 2;
  const extents places(size.begin() + 2, size.end());
  std::vector<node> coordinates;  // the last axis first, then ones
  for (std::size_t k = spatial; k-- > 0;) {
    const node i = iota(theta.type(), places, static_cast<int>(k)), n = size_node(places[k], theta.type());
    const node p = align ? over(i * 2.0, ir::maximum(n - 1.0, 1.0)) - 1.0 : over(i * 2.0 + 1.0, n) - 1.0;
    coordinates.push_back(reshape_to(p, {product_of(places), 1}));
  }
  coordinates.push_back(constant(theta.type(), 1, {product_of(places), 1}));
  const node flat = product(joined(coordinates, 1), permuted(theta, {0, 2, 1}));
  extents to{size[0]};
  to.insert(to.end(), places.begin(), places.end());
  to.push_back(dim(static_cast<std::int64_t>(spatial)));
  c.give(to_type(reshape_to(flat, to), c.type(0)));
}

inline const row samples[] = {
    {"AffineGrid", "", 1, affine_grid, "iotas, matmul"},
    {"BitCast", "", 1, bit_cast_row, "bit_cast"},
    {"CausalConvWithState", "", 1, causal_conv_with_state, "concat, slices, products"},
    {"GridSample", "", 1, grid_sample, "gathers and weights"},
    {"LinearAttention", "", 1, linear_attention, "products, scan"},
};

}  // namespace sinter::onnx::rows
