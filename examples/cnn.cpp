// cnn.cpp: a small convolutional network learns to read handwritten digits.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/digits.hpp"
using namespace sinter;

struct cnn {
  nn::conv2d<float> c1, c2;
  nn::group_norm<float> n1, n2;
  nn::linear<float> hidden, last;
};

cnn make(const key& k) {
  const auto [a, b, c, d] = split<4>(k);
  return {nn::conv2d<float>::init(a, 1, 16, 3, {.padding = same}),
          nn::conv2d<float>::init(b, 16, 32, 3, {.padding = same}),
          nn::group_norm<float>::init(4, 16),
          nn::group_norm<float>::init(4, 32),
          nn::linear<float>::init(c, 32 * 4 * 4, 64),
          nn::linear<float>::init(d, 64, 10)};
}

tensor<float, 2> logits(const cnn& p, const tensor<float, 4>& x, nn::dropout drop) {
  tensor<float, 4> h = relu(p.n1(p.c1(x)));
  h = max_pool2d(relu(p.n2(p.c2(h))), 2);
  return p.last(drop(relu(p.hidden(nn::flatten{}(h)))));
}

int train(const arguments& given) {
  const auto [train, test] = load_digits();
  const std::int64_t epochs = given("epochs", 12);
  const auto opt = optim::adamw({.rate = optim::warmup_cosine(3e-3, 40, 45 * epochs), .weight_decay = 1e-2});
  const auto loss = [](const cnn& p, const digits& d, const key& k) {
    return mean(nn::cross_entropy(logits(p, d.x, nn::dropout{0.3, k}), d.y));
  };
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}, .name = "step"});
  auto score = compile(
      [](const cnn& p, const digits& d) { return mean(cast<float>(argmax(logits(p, d.x, {}), axis<-1>) == d.y)); });

  cnn p = make(make_key(1));
  auto state = opt.init(p);
  loss_curve losses;
  double right = 0;
  data::progress_bar bar(epochs);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const key k = fold_in(make_key(2), epoch);
    for (auto& batch : data::batches(train, {.size = 32, .shuffle = k})) {
      tensor<float, 0> l;
      std::tie(l, p, state) = step(std::move(p), std::move(state), batch, fold_in(k, losses.size()));
      losses.add(l);
    }
    right = 100 * score(p, test).item();
    bar.show(epoch + 1, words("loss %.4f   held-out accuracy %.2f %%", losses.last(20), right));
  }
  losses.write(given("svg", "cnn.svg"), "cnn: loss");
  return verdict(given, right);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }
