// llama.cpp: a small decoder in the manner of Llama (Touvron et al., 2023: RMSNorm, rotary places, shared key heads, SwiGLU) learns to
// repeat a word backwards.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

constexpr std::int64_t letters = 16, length = 6;

struct block {
  nn::rms_norm<float> n1, n2;
  nn::self_attention<float, nn::rotary> mix;
  nn::linear<float> gate, up, down;

  static block init(const key& k, std::int64_t width) {
    const auto [a, b, c, d] = split<4>(k);
    const auto norm = nn::rms_norm<float>::init(width);
    return {norm,
            norm,
            nn::self_attention<float, nn::rotary>::init(a, width, {.heads = 4, .key_heads = 2, .bias = false}),
            nn::linear<float>::init(b, width, 3 * width, {.bias = false}),
            nn::linear<float>::init(c, width, 3 * width, {.bias = false}),
            nn::linear<float>::init(d, 3 * width, width, {.bias = false})};
  }
  f32_3 operator()(const f32_3& x) const {
    const f32_3 h = x + mix(n1(x), causal), y = n2(h);
    return h + down(silu(gate(y)) * up(y));
  }
};

struct llama {
  nn::embedding<float> tokens;
  std::vector<block> blocks;
  nn::rms_norm<float> norm;

  static llama init(const key& k, std::int64_t width, std::int64_t layers) {
    const auto [a, b] = split(k);
    llama p{nn::embedding<float>::init(a, letters + 1, width), {}, nn::rms_norm<float>::init(width)};
    for (const key& each : split(b, layers)) p.blocks.push_back(block::init(each, width));
    return p;
  }
  f32_3 operator()(const i64_2& x) const {
    f32_3 h = tokens(x);
    for (const block& b : blocks) h = b(h);
    return matmul(norm(h), transpose(tokens.weight));
  }
};

/// Words, a mark, and the words backwards.
i64_2 draw(const key& k, std::int64_t n) {
  const i64_2 word = randint<std::int64_t>(k, 0, letters, n, length);
  return concat<1>(word, full<std::int64_t>(letters, n, 1), flip<1>(word));
}

f32_0 loss(const llama& p, const key& k) {
  const i64_2 x = draw(k, 64);
  return nn::cross_entropy(slice<1>(p(x), length, -1), slice<1>(x, length + 1), reduce::mean);
}

/// x and so many tokens behind it, each the most probable.
i64_2 write(const llama& p, i64_2 x, std::int64_t count) {
  const auto longer = compile(
      [](const llama& p, const i64_2& x) -> i64_2 { return concat<1>(x, argmax(slice<1>(p(x), -1), axis<-1>)); });
  for (std::int64_t i = 0; i < count; ++i) x = longer(p, x);
  return x;
}

int train(const arguments& given) {
  const int steps = given.steps(600);
  const auto opt = optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = optim::one_cycle(1e-2, steps)}));
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  llama p = llama::init(make_key(1), 32, 2);
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    f32_0 l;
    std::tie(l, p, state) = step(std::move(p), std::move(state), fold_in(make_key(2), i));
    losses.add(l);
    bar.show(i + 1, words("loss %.4f", losses.last()));
  }
  const i64_2 known = draw(make_key(3), 256);
  const float right = 100 * mean(cast<float>(write(p, slice<1>(known, 0, length + 1), length) == known)).item();
  std::printf("right letters  %.2f %%\n", right);
  losses.write(given("svg", "llama.svg"), "llama: loss");
  return verdict(given, right);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
