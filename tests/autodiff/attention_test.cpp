// Derivatives of attention by differences, twice: of every operand, captured ones too, forwards and backwards, with rows that see nothing.
#include <sinter/autodiff/jvp.hpp>
#include <sinter/ir/attention_site.hpp>

#include "numeric.hpp"

using arrays::literal_array;
using numeric::value;
using sinter::dtype;
using sinter::ir::attention_factor;
using sinter::ir::attention_site;
using sinter::ir::graph;
using sinter::ir::op;
namespace ir = sinter::ir;

namespace {

constexpr std::int64_t batch = 2, groups = 2, queries = 3, keys = 5, features = 4, values = 3;

enum option { plain = 0, masked = 1, biased = 2, capped = 4, dropped = 8, unguarded = 16, blind = 32, spread = 64 };

/// What op::attention computes, from other ops.
value composed(const value& o) {
  sinter::series<value> in;
  for (auto id : o.get().in) in.push_back({o.owner(), id});
  return ir::ops::composed_attention(o.get(), in);
}

/// Attention of in[0 … 2], with a bias in[3] and a keep mask in[4], as one op.
value attention(const std::vector<value>& in, int options) {
  graph& g = in[0].owner();
  const value q = in[0], k = in[1], v = in[2];
  const value dots = ir::dot(q, ir::permute(k, {0, 2, 1}), 1, 1);
  const ir::shape all = dots.extents();
  value s = dots * 0.5;
  if (options & capped) s = ir::push(op::tanh, {s * 0.3}) * 2.0;
  if (options & biased) s = s + ir::broadcast(ir::reshape(in[3], {1, 1, queries, keys}), all);
  if (options & spread) s = s * ir::broadcast(ir::reshape(ir::exp(in[5]), {1, groups, 1, 1}), all);
  const value i = ir::iota(q, dtype::i64, all, 2), j = ir::iota(q, dtype::i64, all, 3);
  attention_site site;
  site.q = q.id(), site.k = k.id(), site.v = v.id();
  site.products = dots.id(), site.score = s.id();
  site.batch = 1, site.groups = 1;
  site.guarded = !(options & unguarded);
  if (options & masked) site.allowed = ir::le(j, i).id();
  if (options & blind) site.allowed = ir::lt(j, i).id();  // the first query sees nothing
  if (options & dropped)
    site.factors = {{attention_factor::how::times, ir::broadcast(ir::reshape(in[4], {1, 1, 1, keys}), all).id()},
                    {attention_factor::how::where, ir::ne(j, i + ir::iota(q, dtype::i64, all, 1)).id()},
                    {attention_factor::how::over, g.constant(q.type(), 0.9, all)}};
  return ir::push_attention(g, site, {});
}

std::vector<literal_array> inputs(dtype t = dtype::f64) {
  return {arrays::random(t, {batch, groups, queries, features}, 1),
          arrays::random(t, {batch, keys, features}, 2),
          arrays::random(t, {batch, keys, values}, 3),
          arrays::random(t, {queries, keys}, 4),
          arrays::random(t, {keys}, 5),
          arrays::random(t, {groups}, 6)};
}

constexpr int all_options[] = {plain,
                               masked,
                               biased | masked,
                               capped | biased | spread,
                               dropped | masked,
                               blind | biased,
                               dropped | blind | biased | capped,
                               unguarded,
                               unguarded | biased | dropped | spread};

std::size_t count_of(const graph& g, op code) {
  std::size_t n = 0;
  for (auto id : g.live()) n += g[id].code == code;
  return n;
}

}  // namespace

TEST_CASE("attention has its composition's values, gradients and second derivatives") {
  for (const int options : all_options) {
    CAPTURE(options);
    const auto as_op = [&](const std::vector<value>& in) { return attention(in, options); };
    const auto at = inputs();
    graph g;
    std::vector<value> in;
    for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
    const value one = as_op(in), other = composed(one);
    CHECK(one.get().code == op::attention);
    CHECK(one.extents() == ir::shape{batch, groups, queries, values});
    g.outputs = {one.id(), other.id()};
    ir::check(g, "test");
    const auto y = arrays::run(g, at);
    CHECK(arrays::difference(y[0], y[1]) == "");
    CHECK(std::isfinite(y[0].f[0]));
    if (options & blind)
      for (std::int64_t e = 0; e < values; ++e) CHECK(y[0].f[static_cast<std::size_t>(e)] == 0);
    numeric::check(as_op, at);
    numeric::check(as_op, at, 2, 2e-5);
  }
}

TEST_CASE("the gradient of attention is an op, one node an operand, with the gradient of the composition") {
  for (const int options : all_options) {
    CAPTURE(options);
    const auto at = inputs(dtype::f32);
    graph g;
    std::vector<value> in;
    for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
    const value one = attention(in, options), other = composed(one);
    const auto wrt = numeric::ids(in);
    g.outputs = sinter::engine::gradient(g, numeric::weigh(one).id(), wrt, {});
    std::size_t asked = 3;
    asked += (options & biased) != 0;
    asked += (options & dropped) != 0;
    asked += (options & spread) != 0;
    CHECK(count_of(g, op::attention_back) == asked);
    const auto mine = g.outputs;
    const auto theirs = sinter::engine::gradient(g, numeric::weigh(other).id(), wrt, {});
    g.outputs.insert(g.outputs.end(), theirs.begin(), theirs.end());
    ir::check(g, "test");
    const auto y = arrays::run(g, at);
    for (std::size_t k = 0; k < mine.size(); ++k) {
      CAPTURE(k);
      CHECK(arrays::difference(y[k], y[k + mine.size()], 1e-6) == "");
    }
  }
}

TEST_CASE("log of the sum of powers: values, derivatives, and -inf for a row that sees nothing") {
  const auto logs = [](const std::vector<value>& in, int options) {
    const ir::node n = attention(in, options).get();
    ir::attributes attr = n.attr;
    attr.ints[0] = 1;
    return value(in[0].owner(), in[0].owner().push(op::attention, n.in, attr));
  };
  const auto at = inputs();
  numeric::check_twice([&](const std::vector<value>& in) { return logs(in, masked | biased | spread); }, at);
  graph g;
  std::vector<value> in;
  for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
  g.outputs = {logs(in, blind).id()};
  const auto y = arrays::run(g, at)[0];
  CHECK(y.extents == arrays::extents_t{batch, groups, queries});
  CHECK(y.f[0] == -std::numeric_limits<double>::infinity());
  CHECK(std::isfinite(y.f[1]));
}

TEST_CASE("tangents of attention and of its gradient are those of the composition") {
  for (const int options : all_options) {
    CAPTURE(options);
    const auto at = inputs();
    graph g;
    std::vector<value> in, along;
    for (const auto& x : at) in.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
    for (const auto& x : at) along.push_back({g, g.add_input(x.type, arrays::shape(x.extents)), {}});
    const value one = attention(in, options), other = composed(one);
    const auto wrt = numeric::ids(in), tangents = numeric::ids(along);
    for (const value& y : {one, other}) {
      const auto slopes = sinter::engine::gradient(g, numeric::weigh(y).id(), wrt, {});
      sinter::series<ir::node_id> ys{y.id()};
      ys.insert(ys.end(), slopes.begin(), slopes.end());
      const auto pushed = sinter::engine::autodiff::jvp(g, {ys.data(), ys.size()}, wrt, tangents);
      g.outputs.insert(g.outputs.end(), pushed.begin(), pushed.end());
    }
    auto both = at;
    for (std::size_t k = 0; k < at.size(); ++k)
      both.push_back(arrays::random(dtype::f64, at[k].extents, static_cast<unsigned>(20 + k)));
    const auto y = arrays::run(g, both);
    const std::size_t half = y.size() / 2;
    REQUIRE(half == 1 + at.size());
    for (std::size_t k = 0; k < half; ++k) {
      CAPTURE(k);
      CHECK(arrays::difference(y[k], y[k + half], 1e-10) == "");
    }
  }
}

TEST_CASE("no number, one key, huge scores and -inf") {
  const double inf = std::numeric_limits<double>::infinity();
  graph g;
  const value q(g, g.add_input(dtype::f32, {1, 1, 3, 2})), k(g, g.add_input(dtype::f32, {1, 2, 2})),
      v(g, g.add_input(dtype::f32, {1, 2, 1}));
  const value dots = ir::dot(q, ir::permute(k, {0, 2, 1}), 1, 1);
  attention_site site;
  site.q = q.id(), site.k = k.id(), site.v = v.id(), site.products = site.score = dots.id();
  site.batch = site.groups = 1;
  const value y = ir::push_attention(g, site, {});
  CHECK(y.get().in.size() == 3);
  g.outputs = {y.id()};
  const auto of = [&](std::vector<double> a, std::vector<double> b) {
    return arrays::run(
               g, {arrays::of(dtype::f32, {1, 1, 3, 2}, std::move(a)), arrays::of(dtype::f32, {1, 2, 2}, std::move(b)),
                   arrays::of(dtype::f32, {1, 2, 1}, {3, 5})})[0]
        .f;
  };
  const auto huge = of({1e19, 1e19, -1e19, 0, 0, 0}, {1e19, 0, 0, 0});
  CHECK(huge[0] == 3);
  CHECK(huge[1] == 5);
  CHECK(huge[2] == 4);
  // A row of -inf sees nothing, one of NaN is NaN.
  const auto special = of({1, 0, 0, 1, std::nan(""), 0}, {-inf, 1, -inf, 1});
  CHECK(special[0] == 0);
  CHECK(std::isnan(special[2]));
}

TEST_CASE("attention names dtypes and shapes that do not fit") {
  graph g;
  const auto in = [&](dtype t, ir::shape e) { return value(g, g.add_input(t, std::move(e))); };
  const value q = in(dtype::f32, {2, 3, 4}), k = in(dtype::f32, {2, 5, 4}), dots = in(dtype::f32, {2, 3, 5});
  const auto refused = [&](const value& q, const value& k, const value& v) {
    attention_site site;
    site.q = q.id(), site.k = k.id(), site.v = v.id(), site.products = site.score = dots.id();
    site.batch = 1;
    return arrays::message([&] { ir::push_attention(g, site, {}); });
  };
  CHECK(refused(q, k, in(dtype::bf16, {2, 5, 6})) == "[attention] q is f32, v is bf16; cast one with cast<T>(x)");
  CHECK(refused(q, k, in(dtype::f32, {2, 5, 6})) == "");
  const auto text = refused(q, in(dtype::f32, {2, 5, 3}), in(dtype::f32, {2, 5, 6}));
  CHECK(text.find("(2, 5, 3)") != std::string::npos);
  CHECK(text.find("(2, 5, 4)") != std::string::npos);
}
