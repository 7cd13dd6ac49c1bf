// resnet.cpp: a residual network with batch normalisation; its running statistics go in and come back.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/digits.hpp"
using namespace sinter;

using images = tensor<float, 4>;
using statistics = nn::running_statistics<float>;  // of all norms

struct residual {
  nn::conv2d<float> c1, c2;
  nn::batch_norm<float> n1, n2;
  std::optional<nn::conv2d<float>> shortcut;  // where channels or extents change
};

struct resnet {
  nn::conv2d<float> first;
  nn::batch_norm<float> norm;
  std::vector<residual> blocks;
  nn::linear<float> last;
};

residual make_block(const key& k, std::int64_t in, std::int64_t out, std::int64_t stride) {
  using conv = nn::conv2d<float>;
  const auto [a, b, c] = split<3>(k);
  const auto weight = nn::he_normal();
  residual r{conv::init(a, in, out, 3, {.stride = stride, .padding = 1, .bias = false, .weight = weight}),
             conv::init(b, out, out, 3, {.padding = 1, .bias = false, .weight = weight}),
             nn::batch_norm<float>::init(out), nn::batch_norm<float>::init(out), std::nullopt};
  if (in != out || stride != 1) r.shortcut = conv::init(c, in, out, 1, {.stride = stride, .bias = false});
  return r;
}

resnet make(const key& k) {
  const auto [a, b, c, d] = split<4>(k);
  return {nn::conv2d<float>::init(a, 1, 16, 3, {.padding = 1, .bias = false}),
          nn::batch_norm<float>::init(16),
          {make_block(b, 16, 16, 2), make_block(c, 16, 32, 2)},
          nn::linear<float>::init(d, 32, 10)};
}

tensor<float, 2> logits(const resnet& p, const nn::pass<float>& pass, const images& x) {
  images h = relu(p.norm(p.first(x), pass));
  for (const residual& b : p.blocks) {
    const images y = b.n2(b.c2(relu(b.n1(b.c1(h), pass))), pass);
    h = relu(y + (b.shortcut ? (*b.shortcut)(h) : h));
  }
  return p.last(mean(h, axis<2, 3>));
}

int train(const arguments& given) {
  const auto [train, test] = load_digits();
  const std::int64_t epochs = given("epochs", 8);
  const auto opt =
      optim::sgd({.rate = optim::cosine(0.1, 45 * epochs), .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4});
  const auto loss = [](const resnet& p, const statistics& s, const digits& d) {
    const nn::pass pass(p, s, nn::training);
    return std::pair{tensor<float, 0>(mean(nn::cross_entropy(logits(p, pass, d.x), d.y))), pass.state()};
  };
  const auto step = compile(optim::train_step(opt, loss, has_aux), {.donate = {0, 1, 2}, .name = "step"});
  auto score = compile([](const resnet& p, const statistics& s, const digits& d) {
    return mean(cast<float>(argmax(logits(p, {p, s, nn::inference}, d.x), axis<-1>) == d.y));
  });

  resnet p = make(make_key(1));
  std::pair now{tensor<float, 0>(0), nn::state(p)};
  auto state = opt.init(p);
  loss_curve losses;
  double right = 0;
  data::progress_bar bar(epochs);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (auto& batch : data::batches(train, {.size = 32, .shuffle = fold_in(make_key(2), epoch)})) {
      std::tie(now, p, state) = step(std::move(p), std::move(state), std::move(now.second), batch);
      losses.add(now.first);
    }
    right = 100 * score(p, now.second, test).item();
    bar.show(epoch + 1, words("loss %.4f   held-out accuracy %.2f %%", losses.last(20), right));
  }
  losses.write(given("svg", "resnet.svg"), "resnet: loss");
  return verdict(given, right);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }
