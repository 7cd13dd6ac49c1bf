// tests/budget/vit.cpp: a vision transformer and its training, as users write them: what such a program costs its compiler.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include <cstdio>
#include <utility>
#include <vector>
using namespace sinter;

struct block {
  nn::layer_norm<float> n1, n2;
  nn::self_attention<float> mix;
  nn::linear<float> up, down;
};
struct vit {
  nn::conv2d<float> patches;
  f32_3 first, places;
  std::vector<block> blocks;
  nn::layer_norm<float> last;
  nn::linear<float> head;
};

vit make(const key& k, std::int64_t size, std::int64_t patch, std::int64_t width, std::int64_t layers) {
  const std::int64_t count = size / patch * (size / patch);
  vit p{nn::conv2d<float>::init(fold_in(k, 0), 1, width, patch, {.stride = patch}),
        0.02f * normal<float>(fold_in(k, 1), 1, 1, width),
        0.02f * normal<float>(fold_in(k, 2), 1, count + 1, width),
        {},
        nn::layer_norm<float>::init(width),
        nn::linear<float>::init(fold_in(k, 3), width, 2)};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto [a, b, c] = split<3>(fold_in(k, 4 + i));
    p.blocks.push_back({nn::layer_norm<float>::init(width), nn::layer_norm<float>::init(width),
                        nn::self_attention<float>::init(a, width, {.heads = 4}),
                        nn::linear<float>::init(b, width, 2 * width), nn::linear<float>::init(c, 2 * width, width)});
  }
  return p;
}

f32_2 logits(const vit& p, const f32_4& images, nn::dropout drop) {
  const f32_4 y = p.patches(images);
  const dim batch = y.size(0), width = y.size(1);
  const f32_3 rows = swapaxes<1, 2>(reshape(y, batch, width, y.size(2) * y.size(3))),
              first = broadcast_to(p.first, std::array<dim, 3>{batch, 1, width});
  f32_3 x = drop(concat<1>(first, rows) + p.places);
  for (const block& b : p.blocks) {
    x = x + drop(b.mix(b.n1(x)));
    x = x + drop(b.down(gelu(b.up(b.n2(x)))));
  }
  return p.head(reshape(slice<1>(p.last(x), 0, 1), batch, width));
}

int main() {
  const std::int64_t size = 16, batch = 32, steps = 60;
  // Bars along one of two axes, among noise.
  const auto drawn = [&](const key& k) {
    const auto [a, b, c] = split<3>(k);
    const i64_1 labels = randint<std::int64_t>(a, 0, 2, batch), place = randint<std::int64_t>(b, 0, size, batch);
    const bool_2 on = expand_dims<-1>(place) == arange<std::int64_t>(size);
    const bool_3 lies = expand_dims<1>(expand_dims<1>(labels)) == 0;
    const f32_3 bars = where(lies, cast<float>(expand_dims<1>(on)), cast<float>(expand_dims<2>(on)));
    return std::pair{f32_4(expand_dims<1>(2 * bars + 0.5f * normal<float>(c, batch, size, size))), labels};
  };
  const optim::adamw opt({.rate = optim::warmup_cosine(2e-3, 10, steps), .weight_decay = 0.05});
  const auto step = compile(
      [&](const vit& p, auto state, const f32_4& x, const i64_1& y, const key& k) {
        const auto loss = [&](const vit& p) {
          return mean(nn::cross_entropy(logits(p, x, nn::dropout{0.1f, k}), y, reduce::none, {.smoothing = 0.1}));
        };
        auto [value, slope] = value_and_grad(loss)(p);
        auto [q, next] = opt.update(p, slope, state);
        return std::tuple{value, q, next};
      },
      {.donate = {0, 1}});
  vit p = make(make_key(1), size, 4, 32, 2);
  auto state = opt.init(p);
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto [x, y] = drawn(fold_in(make_key(2), i));
    auto [value, q, next] = step(std::move(p), std::move(state), x, y, fold_in(make_key(3), i));
    p = std::move(q);
    state = std::move(next);
    if (i % 10 == 9) std::printf("%d: %g\n", int(i), static_cast<double>(value.item()));
  }
  const auto [x, y] = drawn(make_key(9));
  const auto scores = compile([](const vit& p, const f32_4& x) { return logits(p, x, nn::dropout{}); });
  const f32_0 right = mean(cast<float>(argmax(scores(p, x), axis<-1>) == y));
  std::printf("right: %g\n", static_cast<double>(right.item()));
  return right.item() > 0.8f ? 0 : 1;
}
