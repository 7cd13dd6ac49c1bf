// lstm.cpp: an LSTM learns to go on with waves of any frequency and phase.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

using sequence = tensor<float, 3>;  // (batch, places, 1)

struct predictor {
  nn::lstm<float> cell;
  nn::linear<float> out;
};

/// sin(frequency · place + phase), another one in each row.
sequence waves(const key& k, std::int64_t batch, std::int64_t places) {
  const auto [a, b] = split(k);
  const sequence frequency = 0.3f + 0.5f * uniform<float>(a, batch, 1, 1),
                 phase = 6.28f * uniform<float>(b, batch, 1, 1);
  return sin(frequency * expand_dims<1>(arange<float>(places)) + phase);
}

tensor<float, 0> loss(const predictor& p, const sequence& x) {
  const auto [y, state] = p.cell(slice<1>(x, 0, -1));
  return nn::mse(p.out(y), slice<1>(x, 1), reduce::mean);
}

/// `places` more, each predicted from the ones before.
sequence go_on(const predictor& p, const sequence& x, std::int64_t places) {
  using column = tensor<float, 2>;
  const auto [y, state] = p.cell(x);
  const column first = p.out(column(reshape(slice<1>(y, -1), x.size(0), -1)));
  const auto [end, more] = scan(
      [&](const std::pair<nn::lstm_state<float>, column>& now, const tensor<std::int64_t, 0>&) {
        const nn::lstm_state<float> next = p.cell.step(p.cell.input(now.second), now.first);
        return std::pair{std::pair{next, column(p.out(next.h))}, now.second};
      },
      std::pair{state, first}, arange<std::int64_t>(places));
  return swapaxes<0, 1>(more);
}

int train(const arguments& given) {
  const std::int64_t epochs = given("epochs", 10), each = 50, places = 24, width = 32;
  const auto opt =
      optim::chain(optim::clip_by_global_norm(1), optim::adam({.rate = optim::warmup_cosine(1e-2, 20, each * epochs)}));
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}, .name = "step"});

  const auto [a, b] = split(make_key(1));
  predictor p{nn::lstm<float>::init(a, 1, width), nn::linear<float>::init(b, width, 1)};
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(epochs);
  for (std::int64_t i = 0; i < each * epochs; ++i) {
    tensor<float, 0> l;
    std::tie(l, p, state) = step(std::move(p), std::move(state), waves(fold_in(make_key(2), i), 16, places));
    losses.add(l);
    if ((i + 1) % each == 0) bar.show((i + 1) / each, words("loss %.5f", losses.last(20)));
  }
  const sequence all = waves(make_key(3), 64, 2 * places);
  const float error = mean(abs(go_on(p, slice<1>(all, 0, places), 10) - slice<1>(all, places, places + 10))).item();
  std::printf("ten places more are off by %.3f\n", error);
  losses.write(given("svg", "lstm.svg"), "lstm: loss");
  return verdict(given, -error);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }
