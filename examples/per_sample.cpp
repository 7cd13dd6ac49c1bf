// Learning with differential privacy (Abadi et al., 2016): the gradient of each sample by vmap of grad, clipped to a norm by itself,
// added up with noise. A network learns digits so, and no digit moves it by more than the limit.
//
//   per_sample [--device cpu|cuda] [--steps N] [--data digits.csv] [--svg per_sample.svg]
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"

using namespace sinter;
using vector = tensor<float, 1>;
using images = tensor<float, 2>;
using labels = tensor<std::int64_t, 1>;
using network = nn::mlp<float>;

constexpr float limit = 1, noise = 0.8f;
constexpr std::int64_t batch = 256;

const auto loss = [](const network& net, const vector& x, const tensor<std::int64_t, 0>& y) {
  return tensor<float, 0>(-log_softmax(net(x))[y]);
};
/// The gradient of one sample, as a vector, no longer than the limit.
const auto clipped = [](const network& net, const vector& x, const tensor<std::int64_t, 0>& y) {
  const vector g = ravel(grad(loss)(net, x, y)).first;
  return vector(g * minimum(1, limit / norm(g)));
};
const auto accuracy = [](const network& net, const images& x, const labels& y) {
  return mean(cast<float>(argmax(net(x), axis<-1>) == y));
};

bool train(const arguments& given) {
  const int steps = given.steps(400);
  const images file =
      data::read_csv(given("data", SINTER_EXAMPLE_DATA "/digits.csv"), {.header = false}).matrix<float>();
  const images all = take(file, permutation(make_key(5), file.size(0)));
  const images x = slice<1>(all, 0, 64) / 16.f;
  const labels y = cast<std::int64_t>(reshape(slice<1>(all, 64), -1));
  const std::int64_t held = y.numel() / 5;
  const images test_x = slice<0>(x, 0, held), train_x = slice<0>(x, held);
  const labels test_y = slice<0>(y, 0, held), train_y = slice<0>(y, held);

  const auto opt = optim::adam({.rate = 3e-3});
  network net = network::init(make_key(0), {64, 48, 10});
  auto state = opt.init(net);
  const auto each = in_axes<none, 0, 0>;
  const auto step = compile(
      [&](const network& net, const auto& state, const images& x, const labels& y, const key& k) {
        const auto [choose, blur] = split(k);
        const labels rows = choice(choose, arange<std::int64_t>(y.size(0)), batch, false);
        const tensor<float, 2> g = vmap(clipped, each)(net, take(x, rows), take(y, rows));
        const vector sum_of = sum(g, axis<0>);
        const vector private_g = (sum_of + noise * limit * normal<float>(blur, sum_of.size(0))) / float(batch);
        const auto [next, after] = opt.update(net, ravel(net).second(private_g), state);
        return std::tuple{max(norm(g, axis<1>)), next, after};
      },
      {.donate = {0, 1}});
  const auto score = compile(accuracy);

  data::progress_bar bar(steps);
  std::vector<double> errors;
  double longest = 0;
  for (int i = 0; i < steps; ++i) {
    tensor<float, 0> largest;
    std::tie(largest, net, state) = step(std::move(net), std::move(state), train_x, train_y, fold_in(make_key(1), i));
    longest = std::max(longest, double(largest.item()));
    errors.push_back(1 - score(net, test_x, test_y).item());
    bar.show(i + 1, "held-out accuracy " + std::to_string(100 * (1 - errors.back())) + " %");
  }
  write_curve(given("svg", "per_sample.svg"), "Digits, learned privately: held-out error", "step", errors);

  const network whole = compile(grad([](const network& net, const images& x, const labels& y) {
    return nn::cross_entropy(net(x), y, reduce::mean);
  }))(net, test_x, test_y);
  const network mean_of =
      tree_map([](const auto& g) { return mean(g, axis<0>); }, compile(vmap(grad(loss), each))(net, test_x, test_y));
  bool right = below("mean of gradients - gradient of mean", tree_norm(tree_sub(mean_of, whole)).item(), 1e-5);
  right &= below("longest gradient of a sample", longest, limit * 1.0001);
  return right & below("held-out error", errors.back(), 0.12);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N] [--data FILE]", train); }
