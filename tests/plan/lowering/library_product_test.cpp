// Products as calls of a matrix library: what a call says, done with loops, against the reference.
#include <doctest/doctest.h>

#include <sinter/ir/reference.hpp>

#include "../graphs.hpp"

using namespace graphs;
using sinter::ir::literal_array;

namespace {

/// The kernels of a graph planned for a GPU with a matrix library.
fused planned(graph& g) {
  memory_map m;
  m.strides.resize(g.size());
  return fuse(g, m, gpu_target());
}

double activated(blas_activation how, double x) {
  if (how == blas_activation::relu) return x > 0 ? x : 0;
  if (how == blas_activation::gelu_tanh)
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

/// What the call leaves in its output, of `size` elements.
std::vector<double> called(const blas_call& c, const std::vector<std::vector<double>>& buffers, std::size_t size) {
  std::vector<double> out(size);
  auto at = [](const blas_operand& o, std::int64_t r, std::int64_t b, std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(o.offset + r * o.repeat + b * o.batch +
                                    (o.transpose ? j * o.row + i : i * o.row + j));
  };
  for (std::int64_t r = 0; r < c.repeat; ++r)
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t i = 0; i < c.m; ++i)
        for (std::int64_t j = 0; j < c.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < c.k; ++k)
            sum += buffers[static_cast<std::size_t>(c.a.buffer)].at(at(c.a, r, b, i, k)) *
                   buffers[static_cast<std::size_t>(c.b.buffer)].at(at(c.b, r, b, k, j));
          if (c.bias >= 0)
            sum += buffers[static_cast<std::size_t>(c.bias)].at(static_cast<std::size_t>(c.bias_offset + j));
          out.at(at(c.out, r, b, i, j)) = activated(c.after, sum);
        }
  return out;
}

/// The call of a graph that is one product with what follows; the values that it gives are checked.
std::optional<blas_call> call_of(graph& g, bool may_repeat = false) {
  const auto f = planned(g);
  if (f.kernels.size() != 1) return std::nullopt;
  const auto c = as_blas(f.kernels[0], may_repeat);
  if (!c) return c;
  std::vector<literal_array> inputs;
  std::vector<std::vector<double>> buffers(f.kernels[0].buffers.size());
  for (auto id : g.inputs) {
    literal_array x{g[id].type, {}, {}, {}};
    std::int64_t n = 1;
    for (const auto& e : g[id].extents) x.extents.push_back(*e.number()), n *= *e.number();
    for (std::int64_t i = 0; i < n; ++i)
      x.f.push_back(static_cast<double>((i * 7 + static_cast<std::int64_t>(id)) % 11 - 5) / 8);
    for (std::size_t b = 0; b < buffers.size(); ++b)
      if (f.kernels[0].buffers[b].id == static_cast<int>(id)) buffers[b] = x.f;
    inputs.push_back(std::move(x));
  }
  const auto want = sinter::ir::evaluate(g, inputs);
  const auto got = called(*c, buffers, want[0].f.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[0].f[i]).epsilon(1e-5));
  return c;
}

value with_bias(const value& x, const value& b) {
  return x + expand(b, {static_cast<std::int64_t>(x.rank()) - 2}, x.extents());
}

value tanh_of(const value& x) { return {x.owner(), x.owner().push(op::tanh, {x.id()}, {})}; }

}  // namespace

TEST_CASE("plain, transposed and batched products") {
  graph g;
  g.outputs = {dot(input(g, {6, 5}), input(g, {5, 7}), 0, 1).id()};
  REQUIRE(call_of(g));
  graph t;
  t.outputs = {dot(permute(input(t, {5, 6}), {1, 0}), permute(input(t, {7, 5}), {1, 0}), 0, 1).id()};
  const auto c = call_of(t);
  REQUIRE(c);
  CHECK((c->a.transpose && c->b.transpose && c->a.row == 6 && c->b.row == 5));
  graph b;
  b.outputs = {dot(input(b, {3, 6, 5}), permute(input(b, {3, 7, 5}), {0, 2, 1}), 1, 1).id()};
  const auto batched = call_of(b);
  REQUIRE(batched);
  CHECK((batched->batch == 3 && batched->a.batch == 30 && batched->out.batch == 42));
  graph w;  // a window that is the whole image: channels last, which both operands have first
  w.outputs = {
      dot(permute(input(w, {6, 2, 3, 4}), {0, 2, 3, 1}), permute(input(w, {5, 2, 3, 4}), {2, 3, 1, 0}), 0, 3).id()};
  const auto window = call_of(w);
  REQUIRE(window);
  CHECK((window->k == 24 && window->b.transpose));
  graph v;  // a matrix and a vector
  v.outputs = {dot(input(v, {6, 5}), input(v, {5}), 0, 1).id()};
  CHECK(call_of(v));
}

TEST_CASE("attention's heads are several calls") {
  graph g;
  const value q = permute(input(g, {2, 6, 3, 4}), {0, 2, 1, 3}), k = permute(input(g, {2, 6, 3, 4}), {0, 2, 3, 1});
  g.outputs = {dot(q, k, 2, 1).id()};
  graph again = g;
  CHECK(!call_of(again));
  const auto c = call_of(g, true);
  REQUIRE(c);
  CHECK((c->repeat == 2 && c->batch == 3));
}

TEST_CASE("bias and activations go along") {
  graph g;
  const value y = with_bias(dot(input(g, {6, 5}), input(g, {5, 7}), 0, 1), input(g, {7}));
  g.outputs = {y.id()};
  CHECK(call_of(g)->bias >= 0);
  graph r;
  const value x = with_bias(dot(input(r, {6, 5}), input(r, {5, 7}), 0, 1), input(r, {7}));
  r.outputs = {maximum(x, x.like(0.0)).id()};
  CHECK(call_of(r)->after == blas_activation::relu);
  graph s;  // written as a choice, without a bias
  const value z = dot(input(s, {6, 5}), input(s, {5, 7}), 0, 1);
  s.outputs = {select(gt(z, z.like(0.0)), z, 0.0).id()};
  CHECK(call_of(s)->after == blas_activation::relu);
  graph h;
  const value u = with_bias(dot(input(h, {6, 5}), input(h, {5, 7}), 0, 1), input(h, {7}));
  h.outputs = {(u * 0.5 * (tanh_of((u + u * u * u * 0.044715) * 0.7978845608028654) + 1.0)).id()};
  CHECK(call_of(h)->after == blas_activation::gelu_tanh);
}

TEST_CASE("what the library cannot do stays a kernel of its own, and the product a call") {
  graph g;
  const value y = dot(input(g, {64, 50}), input(g, {50, 70}), 0, 1);
  g.outputs = {exp(y).id()};
  const auto f = planned(g);
  REQUIRE(f.kernels.size() == 2);
  CHECK(as_blas(f.kernels[0]));
  CHECK(!as_blas(f.kernels[1]));
  memory_map m;
  m.strides.resize(g.size());
  CHECK(fuse(g, m, gpu_target({.blas = false})).kernels.size() == 1);
  graph leaky;  // nearly relu
  const value z = dot(input(leaky, {64, 50}), input(leaky, {50, 70}), 0, 1);
  leaky.outputs = {maximum(z, z * 0.01).id()};
  CHECK(planned(leaky).kernels.size() == 2);
}

TEST_CASE("integers, and products with nothing in them, are not for the library") {
  graph g;
  g.outputs = {dot(input(g, {6, 5}, dtype::i32), input(g, {5, 7}, dtype::i32), 0, 1).id()};
  CHECK(!as_blas(planned(g).kernels.at(0)));
  graph k;
  k.outputs = {dot(input(k, {6, 0}), input(k, {0, 7}), 0, 1).id()};
  CHECK(!as_blas(planned(k).kernels.at(0)));
  graph h;
  h.outputs = {dot(input(h, {6, 5}, dtype::f16), input(h, {5, 7}, dtype::f16), 0, 1).id()};
  CHECK(as_blas(planned(h).kernels.at(0))->type == dtype::f16);
}
