// tests/budget/llama.cpp: a language model with rotary places, gated layers and shared key heads, its training and its writing, as
// users write them: what such a program costs its compiler.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include <cstdio>
#include <utility>
#include <vector>
using namespace sinter;

using linear = nn::linear<float>;
using attention_layer = nn::self_attention<float, nn::rotary>;
using caches = std::vector<attention_cache<float, 4>>;

struct block {
  nn::rms_norm<float> n1, n2;
  attention_layer mix;
  linear gate, up, down;
};
struct llama {
  nn::embedding<float> tokens;
  std::vector<block> blocks;
  nn::rms_norm<float> last;
  linear head;
};

llama make(const key& k, std::int64_t tokens, std::int64_t width, std::int64_t layers) {
  const nn::linear_options plain{.bias = false};
  llama p{nn::embedding<float>::init(fold_in(k, 0), tokens, width),
          {},
          nn::rms_norm<float>::init(width),
          linear::init(fold_in(k, 1), width, tokens, plain)};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto [a, b, c, d] = split<4>(fold_in(k, 2 + i));
    p.blocks.push_back({nn::rms_norm<float>::init(width), nn::rms_norm<float>::init(width),
                        attention_layer::init(a, width, {.heads = 4, .key_heads = 2, .bias = false}),
                        linear::init(b, width, 3 * width, plain), linear::init(c, width, 3 * width, plain),
                        linear::init(d, 3 * width, width, plain)});
  }
  return p;
}

f32_3 gated(const block& b, const f32_3& x) { return b.down(silu(b.gate(x)) * b.up(x)); }

f32_3 logits(const llama& p, const i64_2& x) {
  f32_3 h = p.tokens(x);
  for (const block& b : p.blocks) {
    h = h + b.mix(b.n1(h), causal);
    h = h + gated(b, b.n2(h));
  }
  return p.head(p.last(h));
}
std::pair<i64_2, caches> next_token(const llama& p, caches c, const i64_2& x) {
  f32_3 h = p.tokens(x), y;
  for (std::size_t i = 0; i < p.blocks.size(); ++i) {
    const block& b = p.blocks[i];
    std::tie(y, c[i]) = b.mix(b.n1(h), c[i], causal);
    h = h + y;
    h = h + gated(b, b.n2(h));
  }
  return {argmax(p.head(p.last(slice<1>(h, -1))), axis<-1>), std::move(c)};
}

int main() {
  const std::int64_t tokens = 24, length = 32, batch = 16, steps = 80;
  const optim::adamw adam({.rate = optim::warmup_cosine(3e-3, 10, steps), .weight_decay = 0.1});
  const auto opt = optim::chain(optim::clip_by_global_norm(1), adam);
  const auto step = compile(
      [&](const llama& p, auto state, const i64_2& text) {
        const auto loss = [&](const llama& p) {
          return mean(nn::cross_entropy(logits(p, slice<1>(text, 0, length)), slice<1>(text, 1, length + 1)));
        };
        auto [value, slope] = value_and_grad(loss)(p);
        auto [q, next] = opt.update(p, slope, state);
        return std::tuple{value, q, next};
      },
      {.donate = {0, 1}});
  llama p = make(make_key(1), tokens, 32, 2);
  auto state = opt.init(p);
  for (std::int64_t i = 0; i < steps; ++i) {  // counts, from anywhere on
    const i64_2 first = randint<std::int64_t>(fold_in(make_key(2), i), 0, tokens, batch, 1),
                text = (first + arange<std::int64_t>(length + 1)) % tokens;
    auto [value, q, next] = step(std::move(p), std::move(state), text);
    p = std::move(q);
    state = std::move(next);
    if (i % 20 == 19) std::printf("%d: %g\n", int(i), static_cast<double>(value.item()));
  }
  const auto write = compile(next_token, {.donate = {1}});
  caches c;
  for (const block& b : p.blocks) c.push_back(b.mix.cache(1, length));
  i64_2 x{{3, 4, 5, 6}};
  int wrong = 0;
  for (std::int64_t i = 7; i < 15; ++i) {
    std::tie(x, c) = write(p, std::move(c), x);
    wrong += x.item() != i;
  }
  std::printf("wrong: %d\n", wrong);
  return wrong == 0 ? 0 : 1;
}
