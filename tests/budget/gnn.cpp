// tests/budget/gnn.cpp: a graph network that learns the communities of a graph, as users write it: what it costs its compiler.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include <cstdio>
#include <utility>
#include <vector>
using namespace sinter;

struct layer {
  nn::linear<float> own, others;
};
struct network {
  std::vector<layer> layers;
  nn::linear<float> last;
};

/// The mean over the edges into each node.
f32_2 gathered(const f32_2& x, const i64_1& from, const i64_1& to) {
  const f32_2 sums = segment_sum(take(x, from), to, x.size(0));
  const f32_1 degrees = segment_sum(ones<float>(to.size(0)), to, x.size(0));
  return sums / expand_dims<-1>(maximum(degrees, 1));
}
f32_2 scores(const network& p, f32_2 x, const i64_1& from, const i64_1& to) {
  for (const layer& l : p.layers) x = relu(l.own(x) + l.others(gathered(x, from, to)));
  return p.last(x);
}

int main() {
  const std::int64_t nodes = 400, edges = 4000, classes = 4, width = 32;
  const auto [a, b, c, d] = split<4>(make_key(1));
  const i64_1 labels = arange<std::int64_t>(nodes) % classes, from = randint<std::int64_t>(a, 0, nodes, edges),
              near = from + classes * randint<std::int64_t>(b, 0, nodes / classes, edges),
              to = where(uniform<float>(c, edges) < 0.8f, near, from + 1) % nodes;
  const f32_2 x = one_hot<float>(labels, classes) + 2 * normal<float>(d, nodes, classes);
  const bool_1 known = uniform<float>(fold_in(d, 1), nodes) < 0.3f;

  network p{{}, nn::linear<float>::init(fold_in(a, 1), width, classes)};
  for (std::int64_t i = 0; i < 2; ++i)
    p.layers.push_back({nn::linear<float>::init(fold_in(b, i), i == 0 ? classes : width, width),
                        nn::linear<float>::init(fold_in(c, i), i == 0 ? classes : width, width)});
  const optim::adamw opt({.rate = 5e-3, .weight_decay = 1e-3});
  auto state = opt.init(p);
  const auto step = compile([&](const network& p, auto state) {
    const auto loss = [&](const network& p) {
      const f32_1 each = nn::cross_entropy(scores(p, x, from, to), labels);
      return sum(where(known, each, 0)) / sum(cast<float>(known));
    };
    auto [value, slope] = value_and_grad(loss)(p);
    auto [q, next] = opt.update(p, slope, state);
    return std::tuple{value, q, next};
  });
  for (int i = 0; i < 100; ++i) {
    auto [value, q, next] = step(p, state);
    p = q;
    state = next;
    if (i % 20 == 19) std::printf("%d: %g\n", i, static_cast<double>(value.item()));
  }
  const f32_0 right = mean(cast<float>(argmax(compile(scores)(p, x, from, to), axis<-1>) == labels));
  std::printf("right: %g\n", static_cast<double>(right.item()));
  return right.item() > 0.7f ? 0 : 1;
}
