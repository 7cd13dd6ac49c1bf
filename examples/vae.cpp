// vae.cpp: a variational autoencoder (Kingma and Welling, 2014) learns to draw digits; the picture has 64 that it made up.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/digits.hpp"
#include "support/pictures.hpp"
using namespace sinter;

using rows = tensor<float, 2>;

struct vae {
  nn::mlp<float, nn::silu> encode, decode;
};

/// Nats by which a picture is longer coded than it is: what pixels cost, and how far codes are from N(0, 1).
tensor<float, 0> loss(const vae& p, const rows& x, const key& k) {
  const auto [middle, log_variance] = split<1, 2>(p.encode(x));
  const rows z = middle + exp(0.5f * log_variance) * normal<float>(k, middle.shape());
  const auto pixels = sum(nn::binary_cross_entropy(p.decode(z), x), axis<1>);
  const auto codes = 0.5f * sum(square(middle) + exp(log_variance) - log_variance - 1.f, axis<1>);
  return mean(pixels + codes);
}

int train(const arguments& given) {
  const auto [train, test] = load_digits();
  const std::int64_t epochs = given("epochs", 40), codes = 8;
  const auto opt = optim::adam({.rate = optim::cosine(2e-3, 23 * epochs)});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}, .name = "step"});

  const auto [a, b] = split(make_key(1));
  vae p{nn::mlp<float, nn::silu>::init(a, {64, 256, 2 * codes}), nn::mlp<float, nn::silu>::init(b, {codes, 256, 64})};
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(epochs);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const key k = fold_in(make_key(2), epoch);
    for (auto& x : data::batches(nn::flatten{}(train.x), {.size = 64, .shuffle = k, .drop_last = true})) {
      tensor<float, 0> l;
      std::tie(l, p, state) = step(std::move(p), std::move(state), x, fold_in(k, losses.size()));
      losses.add(l);
    }
    bar.show(epoch + 1, words("loss %.2f", losses.last(20)));
  }
  const double held_out = loss(p, nn::flatten{}(test.x), make_key(3)).item();
  std::printf("held out    %.2f nats a picture\n", held_out);
  const rows drawn = sigmoid(p.decode(normal<float>(make_key(4), 64, codes)));
  write_pictures(given("svg", "vae.svg"), drawn.to_vector(), 8, 16);
  return verdict(given, -held_out);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }
