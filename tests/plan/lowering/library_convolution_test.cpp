// Products of windows as calls of a library for convolutions: what a call says, done with loops, against the reference.
#include <doctest/doctest.h>

#include <sinter/ir/reference.hpp>
#include <sinter/plan/fusion/for_libraries.hpp>

#include <numeric>

#include "../graphs.hpp"

using namespace graphs;
using sinter::engine::convolution;
using sinter::engine::convolution_array;
using sinter::engine::convolution_kind;
using sinter::ir::literal_array;

namespace {

using numbers = std::vector<std::int64_t>;

/// An image (n, h, w, c), weights in some order of memory, and how windows lie; axes are those of dot: (n, h, w, r, s, c) by (r, s,
/// c, o).
struct example {
  numbers image, weights;
  std::int64_t step = 1, dilation = 1, low = 0, high = 0;
};

value padded(const value& x, std::int64_t low, std::int64_t high) {
  if (low == 0 && high == 0) return x;
  return pad(x, {0, low, low, 0}, {0, high, high, 0}, 0.0);
}

value windows_of(const value& x, const example& e) {
  const std::int64_t h = e.image[1] + e.low + e.high, w = e.image[2] + e.low + e.high, r = e.weights[0],
                     s = e.weights[1];
  const shape extents{
      e.image[0], (h - (r - 1) * e.dilation - 1) / e.step + 1, (w - (s - 1) * e.dilation - 1) / e.step + 1, r, s,
      e.image[3]};
  return window(padded(x, e.low, e.high), extents, shape{0, 0, 0, 0},
                {1, 0, 0, 0, 0, 0, 0, e.step, 0, e.dilation, 0, 0, 0, 0, e.step, 0, e.dilation, 0, 0, 0, 0, 0, 0, 1});
}

/// A library that computes every convolution.
target with_library() {
  return gpu_target({.convolves = [](const convolution&, int) { return true; }});
}

fused planned(const graph& g, const target& t) {
  memory_map m;
  m.strides.resize(g.size());
  return fuse_with_libraries(g, std::move(m), t);
}

bool advance(numbers& index, const convolution_array& x) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < x.extents[d]) return true;
    index[d] = 0;
  }
  return false;
}
std::size_t at(const convolution_array& x, std::int64_t offset, const numbers& index) {
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * x.strides[d];
  return static_cast<std::size_t>(offset);
}

/// What the call leaves in its written array of `size` elements.
std::vector<double> called(const convolution_call& call, const std::vector<std::vector<double>>& buffers,
                           std::size_t size) {
  const convolution& c = call.what;
  const std::size_t rank = static_cast<std::size_t>(c.spatial) + 2;
  std::vector<double> out(size, 0);
  const auto read = [&](int b, std::size_t n) { return buffers.at(static_cast<std::size_t>(b)).at(n); };
  const std::int64_t inputs = c.weights.extents[1], outputs = c.weights.extents[0] / c.groups;
  numbers y(rank, 0);
  do {
    numbers tap(rank, 0);
    const std::size_t to = at(c.result, call.result_offset, y);
    do {
      if (tap[0] != y[1]) continue;
      numbers x(rank, 0);
      x[0] = y[0];
      x[1] = y[1] / outputs * inputs + tap[1];
      bool inside = true;
      for (std::size_t d = 2; d < rank; ++d) {
        x[d] = y[d] * c.step[d - 2] + tap[d] * c.dilation[d - 2] - c.low[d - 2];
        inside = inside && x[d] >= 0 && x[d] < c.image.extents[d];
      }
      if (!inside) continue;
      const std::size_t i = at(c.image, call.image_offset, x), w = at(c.weights, call.weights_offset, tap);
      if (c.kind == convolution_kind::result) out.at(to) += read(call.image, i) * read(call.weights, w);
      if (c.kind == convolution_kind::image) out.at(i) += read(call.result, to) * read(call.weights, w);
      if (c.kind == convolution_kind::weights) out.at(w) += read(call.image, i) * read(call.result, to);
    } while (advance(tap, c.weights));
    if (c.kind != convolution_kind::result) continue;
    if (call.bias >= 0) out.at(to) += read(call.bias, static_cast<std::size_t>(call.bias_offset + y[1]));
    if (has_relu(c.after)) out.at(to) = std::max(out.at(to), 0.0);
  } while (advance(y, c.result));
  return out;
}

/// The call of a graph that is one kernel; the values that it gives are checked.
std::optional<convolution_call> call_of(graph& g, const target& t = with_library()) {
  const auto f = planned(g, t);
  if (f.kernels.size() != 1) return std::nullopt;
  const kernel& k = f.kernels[0];
  const auto found = as_library_call(k, t);
  if (!found || !std::holds_alternative<convolution_call>(*found)) return std::nullopt;
  const auto& call = std::get<convolution_call>(*found);
  std::vector<literal_array> inputs;
  std::vector<std::vector<double>> buffers(k.buffers.size());
  for (auto id : g.inputs) {
    literal_array x{g[id].type, {}, {}, {}};
    std::int64_t n = 1;
    for (const auto& e : g[id].extents) x.extents.push_back(*e.number()), n *= *e.number();
    for (std::int64_t i = 0; i < n; ++i)
      x.f.push_back(static_cast<double>((i * 7 + static_cast<std::int64_t>(id)) % 11 - 5) / 8);
    for (std::size_t b = 0; b < buffers.size(); ++b)
      if (k.buffers[b].id == static_cast<int>(id)) buffers[b] = x.f;
    inputs.push_back(std::move(x));
  }
  const auto want = sinter::ir::evaluate(g, inputs);
  const auto got = called(call, buffers, want[0].f.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[0].f[i]).epsilon(1e-5));
  return call;
}

/// Weights (o, r, s, c) as dot's second operand.
value turned(const value& w) { return permute(w, {1, 2, 3, 0}); }

const std::vector<example> examples{
    {{2, 9, 8, 5}, {3, 3}, 1, 1, 1, 1},  {{2, 9, 8, 5}, {3, 2}, 1, 1, 0, 0},  {{2, 9, 12, 4}, {3, 3}, 2, 1, 1, 1},
    {{1, 10, 8, 4}, {3, 3}, 3, 1, 0, 0}, {{2, 11, 9, 3}, {3, 3}, 1, 2, 2, 2}, {{2, 6, 7, 3}, {2, 4}, 1, 1, 0, 1},
    {{1, 6, 5, 1}, {3, 3}, 1, 1, 1, 1},  {{3, 5, 5, 4}, {5, 5}, 1, 1, 1, 1},  {{2, 8, 8, 4}, {1, 1}, 2, 1, 0, 0}};

}  // namespace

TEST_CASE("windows times weights are one call, whose padding is the pad's") {
  for (const example& e : examples) {
    graph g;
    const value x = input(g, {e.image[0], e.image[1], e.image[2], e.image[3]}),
                w = input(g, {6, e.weights[0], e.weights[1], e.image[3]});
    g.outputs = {dot(windows_of(x, e), turned(w), 0, 3).id()};
    const auto call = call_of(g);
    REQUIRE(call);
    CHECK(call->what.kind == convolution_kind::result);
    CHECK(call->what.spatial == 2);
    if (e.weights[0] > 1) CHECK(call->what.low[0] == e.low);
  }
}

TEST_CASE("a bias, and a bias with a relu, are part of the call; other functions are not") {
  const example& e = examples[0];
  const auto build = [&](graph& g, auto&& then) {
    const value x = input(g, {2, 9, 8, 5}), w = input(g, {6, 3, 3, 5}), b = input(g, {6});
    const value y = dot(windows_of(x, e), turned(w), 0, 3);
    g.outputs = {then(y, y + expand(b, {0, 1, 2}, y.extents())).id()};
  };
  graph biased, clipped, other;
  build(biased, [](const value&, const value& sum) { return sum; });
  build(clipped, [](const value&, const value& sum) { return maximum(sum, 0.0); });
  build(other,
        [](const value&, const value& sum) { return value(sum.owner(), sum.owner().push(op::exp, {sum.id()}, {})); });
  CHECK(call_of(biased)->what.after == sinter::engine::convolution_epilogue::bias);
  CHECK(call_of(clipped)->what.after == sinter::engine::convolution_epilogue::bias_relu);
  // The exponential is another kernel.
  const auto f = planned(other, with_library());
  REQUIRE(f.kernels.size() == 2);
  CHECK(as_library_call(f.kernels[0], with_library()));
}

TEST_CASE("reversed taps are the image's gradient, and a sum over places is the weights'") {
  graph g;
  {
    // dx(n, p, c) = Σ dy(n, p + 1 - t, o) w(t, c, o)
    const example e{{2, 9, 8, 6}, {3, 3}, 1, 1, 1, 1};
    const value dy = input(g, {2, 9, 8, 6}), w = input(g, {6, 3, 3, 5});
    const shape extents{2, 9, 8, 3, 3, 6};
    const value reads = window(padded(dy, 1, 1), extents, shape{0, 2, 2, 0},
                               {1, 0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 1});
    g.outputs = {dot(reads, permute(w, {1, 2, 0, 3}), 0, 3).id()};
    const auto call = call_of(g);
    REQUIRE(call);
    CHECK(call->what.kind == convolution_kind::image);
  }
  graph h;
  {
    // dw(o, t, c) = Σ x(n, p + t - 1, c) dy(n, p, o), stored with o first
    const example e{{2, 9, 8, 5}, {3, 3}, 1, 1, 1, 1};
    const value x = input(h, {2, 9, 8, 5}), dy = input(h, {2, 9, 8, 6});
    const value reads = permute(windows_of(x, e), {3, 4, 5, 0, 1, 2});
    h.outputs = {permute(dot(reads, dy, 0, 3), {3, 0, 1, 2}).id()};
    const auto call = call_of(h);
    REQUIRE(call);
    CHECK(call->what.kind == convolution_kind::weights);
  }
}

TEST_CASE("weights in another order lie in the library's order, as a copy or as the product's result") {
  const example& e = examples[0];
  graph g;
  const value x = input(g, {2, 9, 8, 5}), w = input(g, {3, 3, 5, 6});
  g.outputs = {dot(windows_of(x, e), w, 0, 3).id()};
  CHECK_FALSE(call_of(g));
  const auto t = with_library();
  const auto f = planned(g, t);
  const auto weights = weights_to_order(g, f.kernels, {}, t);
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].operand == 1);
  CHECK(weights[0].order == sinter::series<std::int64_t>{3, 0, 1, 2});
  own_strides own;
  graph again = with_ordered_weights(g, weights, own);
  memory_map m;
  m.strides.resize(again.size());
  REQUIRE(own.size() == 1);
  m.strides[own[0].first] = own[0].second;
  const auto ordered = fuse_with_libraries(again, std::move(m), t);
  REQUIRE(ordered.kernels.size() == 2);
  const auto call = as_library_call(ordered.kernels[1], t);
  REQUIRE(call);
  CHECK(std::get<convolution_call>(*call).what.weights.strides[1] == 1);
  // The array's room counts its strides.
  const auto lives = lifetimes(again, ordered.kernels, ordered.strides, {}, {});
  for (const auto& life : lives)
    if (life.buffer == static_cast<int>(own[0].first)) CHECK(life.bytes == 3 * 3 * 5 * 6 * 4);
}

TEST_CASE("beside weights in another order long products are sums of slices") {
  const example& e = examples[0];
  graph g;
  const value x = input(g, {2, 9, 8, 5}), w = input(g, {3, 3, 5, 6}), m = input(g, {64, 64});
  const value product = dot(input(g, {64, 4096}), input(g, {4096, 64}), 0, 1);
  g.outputs = {dot(windows_of(x, e), w, 0, 3).id(), (m - product).id()};
  const auto t = with_library();
  const auto f = fuse_for_libraries(g, {}, t, [&](const own_strides& own) {
    memory_map memory;
    memory.strides.resize(g.size());
    for (const auto& [id, strides] : own) memory.strides[id] = strides;
    return fuse_with_libraries(g, std::move(memory), t);
  });
  std::int64_t convolutions = 0, slices = 0;
  for (const kernel& k : f.kernels) {
    if (!k.is_product()) continue;
    const auto call = as_library_call(k, t);
    REQUIRE(call);
    if (const auto* const blas = std::get_if<blas_call>(&*call)) slices = blas->batch;
    else ++convolutions;
  }
  CHECK(convolutions == 1);
  CHECK(slices > 1);
}

TEST_CASE("what is no convolution of whole arrays has no call") {
  const auto t = with_library();
  {
    // A product of matrices is the other library's.
    graph g;
    g.outputs = {dot(input(g, {8, 5}), input(g, {5, 6}), 0, 1).id()};
    CHECK(std::holds_alternative<blas_call>(*as_library_call(planned(g, t).kernels[0], t)));
    CHECK_FALSE(as_convolution(planned(g, t).kernels[0]));
  }
  {
    // Nothing to compute.
    graph g;
    const example e{{0, 9, 8, 5}, {3, 3}, 1, 1, 0, 0};
    g.outputs = {dot(windows_of(input(g, {0, 9, 8, 5}), e), turned(input(g, {6, 3, 3, 5})), 0, 3).id()};
    for (const kernel& k : planned(g, t).kernels) CHECK_FALSE(as_library_call(k, t));
  }
  {
    // Pads with other numbers than 0, and images that others read too, are in memory.
    graph g;
    const example e{{2, 9, 8, 5}, {3, 3}, 1, 1, 0, 0};
    const value x = input(g, {2, 7, 6, 5}), p = pad(x, {0, 1, 1, 0}, {0, 1, 1, 0}, 1.0);
    g.outputs = {dot(windows_of(p, e), turned(input(g, {6, 3, 3, 5})), 0, 3).id()};
    const auto f = planned(g, t);
    REQUIRE(f.kernels.size() == 2);
    CHECK(f.kernels[1].products[0].within.empty());
    CHECK(as_library_call(f.kernels[1], t));
  }
  {
    // Without a library, or where it refuses, the padded image is in memory as well.
    graph g;
    const example& e = examples[0];
    g.outputs = {dot(windows_of(input(g, {2, 9, 8, 5}), e), turned(input(g, {6, 3, 3, 5})), 0, 3).id()};
    const target refuses = gpu_target({.convolves = [](const convolution&, int) { return false; }});
    for (const target& without : {gpu_target(), refuses}) {
      const auto f = planned(g, without);
      REQUIRE(f.kernels.size() == 2);
      CHECK(f.kernels[1].products[0].within.empty());
      CHECK_FALSE(as_library_call(f.kernels[1], without));
    }
  }
}
