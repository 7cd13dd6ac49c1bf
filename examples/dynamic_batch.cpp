// Batches of any size: an axis that is marked stays open, and one specialisation, with kernels for all sizes, serves what a data
// loader gives last and what many users ask for at once. Digits are learned in batches that grow, and read in batches of chance.
//
//   dynamic_batch [--device cpu|cuda] [--epochs N] [--data digits.csv] [--svg dynamic_batch.svg]
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"

using namespace sinter;
using images = tensor<float, 2>;
using labels = tensor<std::int64_t, 1>;
using network = nn::mlp<float>;

const auto loss = [](const network& net, const images& x, const labels& y) {
  return nn::cross_entropy(net(x), y, reduce::mean);
};
const auto accuracy = [](const network& net, const images& x, const labels& y) {
  return mean(cast<float>(argmax(net(x), axis<-1>) == y));
};

/// Rows from `begin` on, so many as there are of `count`; how many is open.
std::pair<images, labels> batch(const images& x, const labels& y, std::int64_t begin, std::int64_t count) {
  const std::int64_t end = std::min<std::int64_t>(begin + count, y.numel());
  std::pair out{slice<0>(x, begin, end), slice<0>(y, begin, end)};
  mark_dynamic(out.first, 0), mark_dynamic(out.second, 0);
  return out;
}

bool train(const arguments& given) {
  const int steps = given.steps(20);
  const images file =
      data::read_csv(given("data", SINTER_EXAMPLE_DATA "/digits.csv"), {.header = false}).matrix<float>();
  const images all = take(file, permutation(make_key(5), file.size(0)));
  const auto [x, y] = batch(slice<1>(all, 0, 64) / 16.f, cast<std::int64_t>(reshape(slice<1>(all, 64), -1)), 360, 1437);
  const auto [test_x, test_y] =
      batch(slice<1>(all, 0, 64) / 16.f, cast<std::int64_t>(reshape(slice<1>(all, 64), -1)), 0, 360);

  const auto opt = optim::adamw({.rate = 3e-3});
  network net = network::init(make_key(0), {64, 64, 10});
  auto state = opt.init(net);
  const auto step = compile(
      [&](const network& net, const auto& state, const images& x, const labels& y) {
        const auto [l, g] = value_and_grad(loss)(net, x, y);
        const auto [next, after] = opt.update(net, g, state);
        return std::tuple{l, next, after};
      },
      {.donate = {0, 1}});
  const auto score = compile(accuracy);

  data::progress_bar bar(steps);
  std::vector<double> losses;
  for (int epoch = 0; epoch < steps; ++epoch) {
    const auto order = permutation(fold_in(make_key(1), epoch), y.numel());
    const images shuffled_x = take(x, order);
    const labels shuffled_y = take(y, order);
    const std::int64_t size = 24 + 8 * epoch;  // does not divide 1,437: the last batch is short
    for (std::int64_t at = 0; at < y.numel(); at += size) {
      tensor<float, 0> l;
      const auto [part_x, part_y] = batch(shuffled_x, shuffled_y, at, size);
      std::tie(l, net, state) = step(std::move(net), std::move(state), part_x, part_y);
      losses.push_back(l.item());
    }
    bar.show(epoch + 1, "batches of " + std::to_string(size) + ", loss " + std::to_string(losses.back()));
  }
  write_curve(given("svg", "dynamic_batch.svg"), "Digits in batches that grow", "step", losses);

  double right_ones = 0, rows = 0;
  for (int i = 0; rows < 360; ++i) {  // as if users came in groups
    const auto [part_x, part_y] =
        batch(test_x, test_y, std::int64_t(rows), randint<std::int64_t>(fold_in(make_key(2), i), 1, 40).item());
    right_ones += score(net, part_x, part_y).item() * double(part_y.numel()), rows += double(part_y.numel());
  }
  const double whole = 360 * accuracy(net, test_x, test_y).item();
  bool right = agrees("specialisations of the step", double(step.specialisations()), 1, 0);
  right &= agrees("specialisations of the score", double(score.specialisations()), 1, 0);
  right &= agrees("right ones, by groups and all at once", right_ones, whole, 1e-3);
  return right & below("held-out error", 1 - whole / 360, 0.07);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N] [--data FILE]", train); }
