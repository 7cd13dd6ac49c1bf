// tests/fuzz/draw.hpp: what a seed stands for: a graph, layouts of its inputs, sizes of its symbols.
#pragma once

#include <array>
#include <sinter/rewrite/rewrite.hpp>

#include "kernels.hpp"
#include "unroll.hpp"

namespace fuzz {

struct drawn {
  std::uint64_t seed = 0;
  std::string kind;
  recipe how;
  sinter::ir::graph graph;      ///< as a user would trace it
  sinter::ir::graph rewritten;  ///< after every pass
  std::vector<layout> layouts;
  std::vector<std::vector<std::int64_t>> sizes;  ///< of the symbols, to run it at; one empty list where there are none

  bool symbolic() const { return !how.hints.empty(); }
  /// What inputs are drawn with.
  std::mt19937_64 values() const { return std::mt19937_64(seed * 2 + 1); }
};

inline recipe small_recipe(std::mt19937_64& bits) {
  static const std::int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70, 256};
  recipe r;
  for (int i = 0; i < 3; ++i) r.theme.push_back(extents[bits() % std::size(extents)]);
  if (bits() % 12 == 0) r.theme.push_back(0);
  return r;
}

/// Enough elements for blocks, chunks and threads.
inline recipe large_recipe(std::mt19937_64& bits) {
  static const std::vector<dim> themes[] = {{40000, 2},    {257, 300},    {3, 20000}, {130, 2, 131}, {70001},
                                            {32, 1024, 2}, {2, 3, 16384}, {5000, 17}, {65536},       {64, 1200}};
  recipe r;
  r.theme = themes[bits() % std::size(themes)];
  r.max_elements = 100000;
  r.steps = 8;
  return r;
}

inline recipe symbolic_recipe(std::mt19937_64& bits) {
  recipe r;
  r.theme = {dim::symbol(0), dim::symbol(1), static_cast<std::int64_t>(1 + bits() % 9)};
  r.hints = {5 + static_cast<std::int64_t>(bits() % 20), 17};
  r.steps = 10;
  return r;
}

/// Extents of 0 among the others, for an eighth of the seeds.
inline void add_nothing(recipe& r, std::uint64_t seed) {
  if (std::mt19937_64(seed * 5 + 4)() % 8 == 0) r.theme.push_back(0);
}

/// Of all values that are computed.
inline std::int64_t elements(const sinter::ir::graph& g, const std::vector<std::int64_t>& sizes) {
  std::int64_t n = 0;
  for (auto id : g.live())
    if (__builtin_add_overflow(n, sinter::ir::product(g[id].extents).evaluate(sizes), &n)) return INT64_MAX;
  return n;
}

/// Draws layouts of the inputs and sizes of the symbols at which the graph is what a trace would give.
inline void lay_out(drawn& d, std::mt19937_64& bits) {
  d.layouts = layouts_of(d.graph, bits, d.symbolic());
  d.sizes.emplace_back();
  if (d.symbolic()) d.sizes = {d.how.hints};
  for (int again = 0; d.symbolic() && again < 4 && d.sizes.size() < 3; ++again) {
    std::vector<std::int64_t> sizes{2 + static_cast<std::int64_t>(bits() % 40),
                                    2 + static_cast<std::int64_t>(bits() % 33)};
    // Extents multiply: what the reference has no memory for is drawn smaller.
    while (elements(d.graph, sizes) > 20'000'000 && sizes != std::vector<std::int64_t>{2, 2})
      for (auto& s : sizes) s = std::max<std::int64_t>(s / 2, 2);
    if (holds(d.graph, sizes)) d.sizes.push_back(std::move(sizes));
  }
}

/// Draws the graph of a seed without rewriting it.
inline drawn draw(std::uint64_t seed, bool symbols) {
  std::mt19937_64 bits(seed);
  drawn d;
  d.seed = seed;
  const auto style = bits() % 100;
  if (style < 66) {
    d.kind = "small";
    d.how = small_recipe(bits);
    d.how.max_elements = 512;
    d.how.steps = 2 + static_cast<int>(bits() % 7);
  } else if (style < 75) {
    d.kind = "medium";
    d.how = small_recipe(bits);
  } else if (style < 78) {
    d.kind = "large";
    d.how = large_recipe(bits);
  } else if (symbols) {
    d.kind = "symbolic";
    d.how = symbolic_recipe(bits);
  } else {
    d.kind = "small";
    d.how = small_recipe(bits);
    d.how.steps = 10;
  }
  if (bits() % 4 == 0) {
    d.kind += " with gradients";
    d.how.derivatives = 1 + static_cast<int>(bits() % 2);
    d.how.steps = std::min(d.how.steps, 6);
    d.how.max_elements = std::min<std::int64_t>(d.how.max_elements, 20000);
  }
  add_nothing(d.how, seed);
  d.graph = random_graph(bits(), d.how).graph;
  lay_out(d, bits);
  return d;
}

/// Branches and loops, with derivatives at times. Their numbers of elements are small, since all steps are taken apart.
inline drawn draw_control(std::uint64_t seed, bool symbols) {
  std::mt19937_64 bits(seed);
  drawn d;
  d.seed = seed;
  d.kind = "control";
  d.how = symbols && bits() % 4 == 0 ? symbolic_recipe(bits) : small_recipe(bits);
  if (d.symbolic()) d.kind += " symbolic";
  d.how.max_elements = 200;
  d.how.steps = 1 + static_cast<int>(bits() % 3);
  if (bits() % 3 == 0) {
    d.kind += " with gradients";
    d.how.derivatives = 1;
  }
  add_nothing(d.how, seed);
  d.graph = control_graph(bits(), d.how).graph;
  lay_out(d, bits);
  return d;
}

/// The values of a graph's results as the reference computes them without branches, loops and attention, with bounds.
struct expected {
  sinter::ir::graph plain;
  std::vector<bounded> nodes;
  std::vector<const bounded*> results;

  expected(const sinter::ir::graph& g, const std::vector<literal_array>& values,
           const std::vector<std::int64_t>& sizes) {
    const bool control = has_control(g);
    if (control) plain = unrolled(g);
    const bool attends = sinter::ir::has_attention(control ? plain : g);
    if (attends) plain = sinter::ir::compose_attention(control ? plain : g);
    const sinter::ir::graph& from = control || attends ? plain : g;
    nodes = evaluate(from, values, sizes);
    for (auto id : from.outputs) results.push_back(&nodes[id]);
  }
  expected(const expected&) = delete;
};

/// The reference's values against an evaluation of an equal graph; "" when they agree.
inline std::string difference(const bounded& want, const literal_array& got, tally& count) {
  if (got.type != want.value.type) return "which has another dtype";
  if (got.extents != want.value.extents) return "which has other extents";
  for (std::size_t i = 0; i < want.bound.size(); ++i) {
    ++count.seen;
    if (want.bound[i] == unknown) continue;
    ++count.compared;
    if (sinter::is_float(got.type)) {
      const double r = want.value.f[i], y = got.f[i], e = want.bound[i];
      const double allowed = e > 0 ? 2 * e + detail::unit(got.type) * std::fabs(r) : 0;
      if (r == y || (std::isnan(r) && std::isnan(y)) || std::fabs(r - y) <= allowed) continue;
      return "element " + std::to_string(i) + ": " + sinter::text::number(y) + ", not " + sinter::text::number(r) +
             " +- " + sinter::text::number(allowed);
    }
    if (got.i[i] != want.value.i[i])
      return "element " + std::to_string(i) + ": " + std::to_string(got.i[i]) + ", not " +
             std::to_string(want.value.i[i]);
  }
  return "";
}

/// Whether the graph after every rewrite, or with its loops, means what it did before.
inline std::string run_reference(const sinter::ir::graph& rewritten, const inputs& in,
                                 const std::vector<const bounded*>& wanted, const std::vector<std::int64_t>& sizes,
                                 tally& count) {
  const auto got = sinter::ir::evaluate(rewritten, in.values, sizes);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string why = difference(*wanted[k], got[k], count);
    if (!why.empty()) return "result " + std::to_string(k) + ", " + why;
  }
  return "";
}

/// Results of branches and loops.
inline std::vector<node_id> floating_picks(const sinter::ir::graph& g) {
  std::vector<node_id> found;
  for (auto id : g.live())
    if (g[id].code == op::pick && sinter::is_float(g[id].type)) found.push_back(id);
  return found;
}

/// The floating nodes that follow from an input. Constants do not vary: a graph may promise something about their values, as
/// `apart` of scatter does.
inline std::vector<node_id> floating_and_varying(const sinter::ir::graph& g) {
  std::vector<char> varies(g.size());
  for (auto id : g.inputs) varies[id] = 1;
  std::vector<node_id> found;
  for (auto id : g.live()) {
    for (auto in : g[id].in) varies[id] |= varies[in];
    if (varies[id] && sinter::is_float(g[id].type)) found.push_back(id);
  }
  return found;
}

/// Those of them that y follows from.
inline std::vector<node_id> floating_below(const sinter::ir::graph& g, node_id y) {
  std::vector<char> reached(y + 1);
  reached[y] = 1;
  for (node_id id = y + 1; id-- > 0;)
    if (reached[id])
      for (auto in : g[id].in) reached[in] = 1;
  std::vector<node_id> found = floating_and_varying(g);
  std::erase_if(found, [&](node_id id) { return id >= y || !reached[id]; });
  return found;
}

/// Whether reverse and forward mode agree on d y / d x of two of the graph's nodes: for random c and t, c·(J t) and
/// (Jᵀ c)·t are equal within the bounds of both sums. "" also where a sum is not finite, or nothing is known about it.
inline std::string run_derivatives(const drawn& d, tally& count) {
  std::mt19937_64 bits(d.seed * 3 + 2);
  sinter::ir::graph g = d.graph;
  const std::vector<node_id> floating = floating_and_varying(g);
  if (floating.size() < 2) return "";
  node_id y = floating[floating.size() - 1 - bits() % std::min<std::size_t>(floating.size() - 1, 4)];
  node_id x = floating[bits() % floating.size()];
  if (const auto picks = floating_picks(g); !picks.empty()) {
    y = picks[bits() % picks.size()];
    const auto below = floating_below(g, y);
    if (!below.empty()) x = below[bits() % below.size()];
  }
  if (x >= y) return "";
  const auto sum = [&](node_id a, node_id b) {
    const sinter::ir::value v = sinter::ir::value(g, a, {}) * sinter::ir::value(g, b, {});
    std::vector<std::int64_t> axes(v.extents().size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    return reduce(v, op::add, axes).id();
  };
  const node_id c = g.add_input(g[y].type, g[y].extents), t = g.add_input(g[x].type, g[x].extents);
  const bool smooth = differentiates([&] {
    const auto forward = sinter::engine::autodiff::jvp(g, std::array{y}, std::array{x}, std::array{t});
    const auto reverse = sinter::engine::gradient(g, sum(c, y), std::array{x}, {});
    g.outputs = {sum(c, forward[0]), sum(reverse[0], t)};
  });
  if (!smooth) return "";
  const auto& sizes = d.sizes.back();
  if (elements(g, sizes) > 20'000'000) return "";
  std::vector<literal_array> values;
  for (auto id : g.inputs) values.push_back(random_values(bits, g[id].type, extents_of(g[id].extents, sizes)));
  detail::any_order = true;
  const expected all(g, values, sizes);
  detail::any_order = false;
  const bounded &a = *all.results[0], &b = *all.results[1];
  ++count.seen;
  const double along = a.value.f[0], back = b.value.f[0], allowed = 2 * (a.bound[0] + b.bound[0]);
  if (!std::isfinite(along) || !std::isfinite(back) || !(allowed < unknown)) return "";
  ++count.compared;
  if (std::fabs(along - back) <= allowed) return "";
  return "d %" + std::to_string(y) + " / d %" + std::to_string(x) + ": forward mode gives " +
         sinter::text::number(along) + ", reverse mode " + sinter::text::number(back) + " +- " +
         sinter::text::number(allowed) + "\n" + sinter::ir::print(g);
}

}  // namespace fuzz
