// attention as an op: what a trace pushes, its gradient, and the composition that the rewrites put back.
#include <doctest/doctest.h>

#include <limits>
#include <sinter/ir/ops/attention_back.hpp>
#include <sinter/rewrite/rewrite.hpp>
#include <sinter/sinter.hpp>
#include <string>
#include <vector>

#include "../ir/arrays.hpp"

using namespace sinter;
using arrays::literal_array;
using ir::op;

namespace {

using four = tensor<float, 4>;
using real = tensor<float, 0>;

four heads(std::int64_t h, std::int64_t n, std::int64_t d) { return full<float>(1, {2, h, n, d}); }

std::size_t count_of(const ir::graph& g, op code) {
  std::size_t n = 0;
  for (auto id : g.live()) n += g[id].code == code;
  return n;
}

/// The operands that the first attention captures.
std::size_t captured_by(const ir::graph& g) {
  for (auto id : g.live())
    if (g[id].code == op::attention) return g[id].in.size() - 3;
  return 1000;
}

std::string rewritten(const ir::graph& g) { return ir::print(engine::rewrite::run_all(g)); }

/// softmax(q kᵀ / √d) v in a user's words.
template <class T>
auto by_hand(const tensor<T, 4>& q, const tensor<T, 4>& k, const tensor<T, 4>& v) {
  const auto d = static_cast<double>(std::int64_t(q.size(3)));
  const auto scores = cast<float>(matmul(q, transpose(k))) * static_cast<float>(1 / std::sqrt(d));
  return tensor<T, 4>(matmul(cast<T>(softmax(scores)), v));
}

/// What both give on random inputs, to within `tolerance`.
void same_values(const ir::graph& a, const ir::graph& b, double tolerance) {
  std::vector<literal_array> in;
  for (auto id : a.inputs) {
    arrays::extents_t e;
    for (const auto& d : a[id].extents) e.push_back(*d.number());
    in.push_back(arrays::random(a[id].type, e, static_cast<unsigned>(in.size()) + 1));
  }
  const auto x = ir::evaluate(a, {in.data(), in.size()}), y = ir::evaluate(b, {in.data(), in.size()});
  REQUIRE(x.size() == y.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    REQUIRE(x[k].f.size() == y[k].f.size());
    REQUIRE(!x[k].f.empty());
    for (std::size_t i = 0; i < x[k].f.size(); ++i)
      CHECK(x[k].f[i] == doctest::Approx(y[k].f[i]).epsilon(tolerance).scale(1));
  }
}

}  // namespace

TEST_CASE("a trace pushes attention as one op, with its options inside") {
  const four q = heads(4, 5, 8), k = heads(2, 7, 8), v = heads(2, 7, 3);
  const auto plain = trace([](four q, four k, four v) { return attention(q, k, v); })(q, k, v);
  CHECK(count_of(plain.body(), op::attention) == 1);
  CHECK(count_of(plain.body(), op::dot) == 0);
  CHECK(count_of(plain.body(), op::exp) == 0);
  CHECK(captured_by(plain.body()) == 1);  // the scale
  const auto masks = trace([](four q, four k, four v) { return attention(q, k, v, causal, sliding<3>); })(q, k, v);
  CHECK(count_of(masks.body(), op::attention) == 1);
  CHECK(captured_by(masks.body()) == 2);  // and the place of the first query
  const tensor<float, 3> bias = full<float>(1, {4, 5, 7});
  const auto scored_by = trace([](four q, four k, four v, tensor<float, 3> bias) {
    return attention(q, k, v, scored([&](auto s, auto, auto, auto, auto) { return tanh(s + bias) * 30.0f; }));
  })(q, k, v, bias);
  CHECK(count_of(scored_by.body(), op::attention) == 1);
  CHECK(captured_by(scored_by.body()) == 3);  // two numbers and the bias
  // A score that depends on others of its row is no part of attention.
  const auto rows = trace([](four q, four k, four v) {
    return attention(q, k, v, scored([](auto s, auto, auto, auto, auto) { return s - max(s, axis<-1>, keepdims); }));
  })(q, k, v);
  CHECK(count_of(rows.body(), op::attention) == 0);
  CHECK(count_of(rows.body(), op::exp) == 1);
}

TEST_CASE("another number in a score is no other part") {
  const four x = heads(2, 5, 8);
  const auto step_of = [&](float by) {
    const auto t = trace([by](four x) {
      return attention(x, x, x, scored([by](auto s, auto, auto, auto, auto) { return s + by * tanh(s); }));
    })(x);
    for (auto id : t.body().live())
      if (t.body()[id].code == op::attention) return t.body()[id].attr.step->text;
    return std::string();
  };
  CHECK(step_of(2) == step_of(3));
  CHECK(!step_of(2).empty());
}

TEST_CASE("the rewrites put back the composition: the nodes of softmax by hand, forward and backward") {
  const four q = heads(2, 5, 16), k = heads(2, 7, 16), v = heads(2, 7, 3);
  const auto op_of = [](four q, four k, four v) { return attention(q, k, v); };
  const auto hand = [](four q, four k, four v) { return by_hand(q, k, v); };
  CHECK(rewritten(trace(op_of)(q, k, v).body()) == rewritten(trace(hand)(q, k, v).body()));
  const auto loss = [](const auto& f) {
    return grad<0, 1, 2>([f](four q, four k, four v) { return real(sum(sin(f(q, k, v)))); });
  };
  const auto back = trace(loss(op_of))(q, k, v), back_by_hand = trace(loss(hand))(q, k, v);
  CHECK(count_of(back.body(), op::attention_back) == 3);
  CHECK(count_of(back.body(), op::exp) == 0);
  CHECK(rewritten(back.body()) == rewritten(back_by_hand.body()));
  same_values(back.body(), back_by_hand.body(), 1e-5);
}

TEST_CASE("the composition of bf16: the nodes of softmax in f32 by hand") {
  using half = tensor<bf16, 4>;
  const half q = full<bf16>(bf16(1), {2, 2, 5, 16}), v = full<bf16>(bf16(1), {2, 2, 5, 3});
  const auto op_of = [](half q, half k, half v) { return attention(q, k, v); };
  const auto hand = [](half q, half k, half v) { return by_hand(q, k, v); };
  CHECK(rewritten(trace(op_of)(q, q, v).body()) == rewritten(trace(hand)(q, q, v).body()));
}
