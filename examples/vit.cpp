// vit.cpp: a vision transformer (Dosovitskiy et al., 2021) learns digits as sequences of 16 patches.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/digits.hpp"
using namespace sinter;

struct vit {
  nn::conv2d<float> patches;
  f32_2 places;
  std::vector<nn::transformer_block<float>> blocks;
  nn::layer_norm<float> norm;
  nn::linear<float> out;

  static vit init(const key& k, std::int64_t width, std::int64_t layers) {
    const auto [a, b, c, d] = split<4>(k);
    vit p{nn::conv2d<float>::init(a, 1, width, 2, {.stride = 2}),
          0.3f * normal<float>(b, 16, width),
          {},
          nn::layer_norm<float>::init(width),
          nn::linear<float>::init(c, width, 10)};
    for (const key& each : split(d, layers))
      p.blocks.push_back(nn::transformer_block<float>::init(each, width, {.attention = {.heads = 4}}));
    return p;
  }
  f32_2 operator()(const f32_4& x, nn::dropout drop) const {
    f32_3 h = transpose(reshape(patches(x), x.size(0), -1, 16)) + places;
    for (const auto& block : blocks) h = block(h, drop);
    return out(mean(norm(h), axis<1>));
  }
};

f32_0 loss(const vit& p, const f32_4& x, const i64_1& y, const key& k) {
  return nn::cross_entropy(p(x, {0.1, k}), y, reduce::mean);
}

int train(const arguments& given) {
  const auto [train, test] = load_digits();
  const std::int64_t epochs = given("epochs", 30);
  const optim::adamw opt({.rate = optim::one_cycle(3e-3, 22 * epochs)});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  vit p = vit::init(make_key(1), 32, 2);
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(epochs);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const key k = fold_in(make_key(2), epoch);
    for (auto& [x, y] : data::batches(train, {.size = 64, .shuffle = k, .drop_last = true})) {
      f32_0 l;
      std::tie(l, p, state) = step(std::move(p), std::move(state), x, y, fold_in(k, losses.size()));
      losses.add(l);
    }
    bar.show(epoch + 1, words("loss %.4f", losses.last(22)));
  }
  const float right = 100 * mean(cast<float>(argmax(p(test.x, {}), axis<-1>) == test.y)).item();
  std::printf("held-out accuracy  %.2f %%\n", right);
  losses.write(given("svg", "vit.svg"), "vit: loss");
  return verdict(given, right);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }
