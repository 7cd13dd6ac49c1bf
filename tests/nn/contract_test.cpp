// A GPT as a program writes it: it compiles as it stands, learns, and is compiled once.
#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include <sinter/sinter.hpp>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

using namespace sinter;

namespace {

// clang-format off
struct block { nn::layer_norm<float> n1, n2; nn::self_attention<float> mix; nn::linear<float> up, down; };
struct gpt { nn::embedding<float> tokens, places; std::vector<block> blocks; nn::layer_norm<float> last; };
using ids = tensor<std::int64_t, 2>;

tensor<float, 3> logits(const gpt& p, const ids& x, nn::dropout drop) {
  tensor<float, 3> h = drop(p.tokens(x) + p.places(arange<std::int64_t>(x.size(1))));
  for (auto& b : p.blocks) {
    h = h + drop(b.mix(b.n1(h), causal));
    h = h + drop(b.down(gelu(b.up(b.n2(h)))));
  }
  return matmul(p.last(h), transpose(p.tokens.weight));
}
auto opt = optim::chain(optim::clip_by_global_norm(1.f), optim::adamw({.rate = optim::warmup_cosine(3e-4f, 100, 5000), .weight_decay = 0.1f}));
auto step = compile([](gpt p, auto state, ids x, ids y, key k) {
  auto [loss, g] = value_and_grad([&](const gpt& p) { return mean(nn::cross_entropy(logits(p, x, nn::dropout{0.1f, k}), y)); })(p);
  auto [q, next] = opt.update(p, g, state);
  return std::tuple{loss, q, next};
}, {.donate = {0, 1}});
// clang-format on

gpt make(key k, int vocabulary, int places, int width, int heads) {
  const auto [a, b, c, d, e] = split<5>(k);
  gpt p{nn::embedding<float>::init(a, vocabulary, width),
        nn::embedding<float>::init(b, places, width),
        {},
        nn::layer_norm<float>::init(width)};
  p.blocks.push_back({nn::layer_norm<float>::init(width), nn::layer_norm<float>::init(width),
                      nn::self_attention<float>::init(c, width, {.heads = heads}),
                      nn::linear<float>::init(d, width, 2 * width), nn::linear<float>::init(e, 2 * width, width)});
  return p;
}

}  // namespace

TEST_CASE("a GPT learns in a step that is compiled once, its state holds tensors alone") {
  gpt p = make(make_key(1), 11, 6, 8, 2);
  auto state = opt.init(p);
  const ids x = randint<std::int64_t>(make_key(3), 0, 11, 3, 6), y = (x * 3 + 1) % std::int64_t(11);
  const auto loss_of = [&] { return mean(nn::cross_entropy(logits(p, x, {}), y)).item(); };
  const float before = loss_of();
  tensor<float, 0> loss;
  for (int i = 0; i < 60; ++i)
    std::tie(loss, p, state) = step(std::move(p), std::move(state), x, y, fold_in(make_key(2), i));
  CHECK(loss_of() < before - 0.02f);
  CHECK(step.specialisations() == 1);
  CHECK(std::get<1>(state).step.item() == 60);
  CHECK(tree_paths(all_leaves, state).size() == tree_paths(state).size() + 2 + 2 * 3 + 2);  // heads, and what eps are
}
