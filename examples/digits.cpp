// A small network learns to read handwritten digits. Forward pass, backward pass and Adam are one compiled function.
//
//   digits [--epochs N] [--data digits.csv] [--svg digits_loss.svg]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include "support/program.hpp"

using namespace sinter;

// ---- The model: plain structs. Static extents are checked when this file compiles.

using images = tensor<float, dims{dyn, 64}>;
using labels = tensor<std::int64_t, 1>;

template <int In, int Out>
struct dense {
  tensor<float, dims{In, Out}> w;
  tensor<float, dims{Out}> b;
};

struct mlp {
  dense<64, 128> first;
  dense<128, 64> second;
  dense<64, 10> last;
};

template <int In, int Out>
dense<In, Out> make_dense(const key& k) {
  return {normal<float, dims{In, Out}>(k) * std::sqrt(2.f / In), zeros<float, dims{Out}>()};
}

template <int In, int Out>
auto apply(const dense<In, Out>& layer, const tensor<float, dims{dyn, In}>& x) {
  return matmul(x, layer.w) + layer.b;
}

auto logits(const mlp& net, const images& x) {
  return apply(net.last, relu(apply(net.second, relu(apply(net.first, x)))));
}

const auto loss = [](const mlp& net, const images& x, const labels& y) { return cross_entropy(logits(net, x), y); };

const auto accuracy = [](const mlp& net, const images& x, const labels& y) {
  return mean(cast<float>(argmax(logits(net, x), axis<-1>) == y));
};

// ---- The optimiser: Adam (Kingma and Ba, 2015), over any tree of tensors.

struct training {
  mlp net;
  mlp momentum;  // running mean of gradients
  mlp power;     // running mean of their squares
  tensor<float, 0> steps;
};

training adam(const training& s, const mlp& gradient) {
  constexpr float rate = 1e-3f, b1 = 0.9f, b2 = 0.999f, epsilon = 1e-8f;
  const tensor<float, 0> n = s.steps + 1.f;
  const auto m = tree_map([](auto m, auto g) { return b1 * m + (1 - b1) * g; }, s.momentum, gradient);
  const auto v = tree_map([](auto v, auto g) { return b2 * v + (1 - b2) * g * g; }, s.power, gradient);
  const auto update = [&](auto p, auto m, auto v) {
    return p - rate * (m / (1 - pow(b1, n))) / (sqrt(v / (1 - pow(b2, n))) + epsilon);
  };
  return {tree_map(update, s.net, m, v), m, v, n};
}

// ---- The data: a fifth is held out, by an order that never changes.

struct dataset {
  images x;
  labels y;
};

std::vector<std::int64_t> shuffled_places(const key& k, std::int64_t n) {
  const auto random = randint<std::int64_t>(k, 0, std::int64_t{1} << 62, n).to_vector();
  std::vector<std::int64_t> order(random.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<std::size_t>(random[i]) % (i + 1)]);
  return order;
}

dataset rows(const dataset& d, const std::int64_t* begin, std::size_t count) {
  const labels index = from_span(std::span(begin, count));
  return {take(d.x, index), take(d.y, index)};
}

dataset load(const std::string& path) {
  const tensor<float, 2> all = data::read_csv(path, {.header = false}).matrix<float>();
  if (all.size(1) != 65) throw std::runtime_error(path + ": expected 64 pixels and a label in every row");
  return {slice<1>(all, 0, 64) / 16.f, cast<std::int64_t>(reshape(slice<1>(all, 64), -1))};
}

// ---- The program.

double milliseconds(auto&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int train_and_report(const arguments& given) {
  const std::int64_t epochs = given("epochs", 30);
  constexpr std::size_t batch = 32;
  const auto [data_key, net_key, shuffle_key] = split<3>(make_key(2024));

  const dataset all = load(given("data", SINTER_EXAMPLE_DATA "/digits.csv"));
  const auto order = shuffled_places(data_key, all.y.numel());
  const std::size_t held_out = order.size() / 5;
  const dataset test = rows(all, order.data(), held_out);
  const dataset train = rows(all, order.data() + held_out, order.size() - held_out);
  const std::size_t batches = (order.size() - held_out) / batch;
  std::printf("digits: %d to learn from, %d held out\n", int(train.y.numel()), int(test.y.numel()));

  const auto [k1, k2, k3] = split<3>(net_key);
  const mlp net{make_dense<64, 128>(k1), make_dense<128, 64>(k2), make_dense<64, 10>(k3)};
  const auto zero = [](const auto& p) { return zeros_like(p); };
  training state{net, tree_map(zero, net), tree_map(zero, net), 0.f};

  // Traced at the first call; after that, only kernels run. std::move lends the old state's memory to the new one.
  const auto step = compile(
      [](const training& s, const images& x, const labels& y) {
        const auto [l, gradient] = value_and_grad(loss)(s.net, x, y);
        return std::pair{l, adam(s, gradient)};
      },
      {.donate = {0}, .name = "step"});
  const auto score = compile(accuracy, {.name = "score"});

  std::vector<double> losses, times;
  const auto epoch_keys = split(shuffle_key, epochs);
  data::progress_bar bar(epochs);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto shuffled = shuffled_places(epoch_keys[static_cast<std::size_t>(epoch)], train.y.numel());
    for (std::size_t i = 0; i < batches; ++i) {
      const dataset part = rows(train, shuffled.data() + i * batch, batch);
      times.push_back(milliseconds([&] {
        auto [l, next] = step(std::move(state), part.x, part.y);
        state = std::move(next);
        losses.push_back(l.item());
      }));
    }
    const float right = score(state.net, test.x, test.y).item();
    bar.show(epoch + 1,
             words("epoch %2d   loss %.4f   held-out accuracy %.2f %%", int(epoch + 1), losses.back(), 100 * right));
  }

  const float right = score(state.net, test.x, test.y).item();
  const report r = step.report();
  std::printf("held-out accuracy  %.2f %%\n", 100 * right);
  std::printf("first step         %.1f ms: trace, differentiate, fuse, compile, load, run\n", times.front());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  std::printf("later steps        %.3f ms, the median\n", *middle);
  std::printf("graph              %zu nodes traced, %zu after rewriting\n", r.nodes_traced, r.nodes_rewritten);
  std::printf("kernels            %zu before fusion, %zu after\n", r.kernels_unfused, r.kernels);
  std::printf("backend            %s\n", r.backend.c_str());
  const std::string svg = given("svg", "digits_loss.svg");
  write_curve(svg, "digits: training loss", "step", losses);
  std::printf("loss curve         %s\n", svg.c_str());
  if (!given.has("epochs") && !given.has("data") && right < 0.96f) {
    std::fprintf(stderr, "digits: the accuracy should be at least 96 %%\n");
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--data FILE]", train_and_report); }
