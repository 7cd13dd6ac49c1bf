// graph_network.cpp: a graph network (Kipf and Welling, 2017; Hamilton et al., 2017) learns which of four clubs each person belongs to, from
// who knows whom and the clubs of five persons of each.
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

constexpr std::int64_t clubs = 4, people = 200, width = 16;

/// Edges in both directions, from and to.
struct friendships {
  i64_1 from, to;
};

/// A layer: each person's own part, and the mean of the neighbours' messages.
struct layer {
  nn::linear<float> self, message;

  static layer init(const key& k, std::int64_t in, std::int64_t out) {
    const auto [a, b] = split(k);
    return {nn::linear<float>::init(a, in, out), nn::linear<float>::init(b, in, out)};
  }
  f32_2 operator()(const f32_2& h, const friendships& g) const {
    return self(h) + segment_mean(take(message(h), g.from), g.to, people);
  }
};

struct network {
  nn::embedding<float> person;
  layer first, second;

  static network init(const key& k) {
    const auto [a, b, c] = split<3>(k);
    return {nn::embedding<float>::init(a, people, width), layer::init(b, width, width), layer::init(c, width, clubs)};
  }
  f32_2 operator()(const friendships& g, nn::dropout drop) const {
    return second(drop(relu(first(drop(person.weight), g))), g);
  }
};

/// Persons of one club know each other with probability 0.2, others with 0.01.
friendships draw(const key& k, const i64_1& club) {
  const f32_2 likely = where(expand_dims<1>(club) == club, 0.2f, 0.01f);
  const auto [a, b] = nonzero(triu(uniform<float>(k, people, people) < likely, 1));
  return {concat(a, b), concat(b, a)};
}

int train(const arguments& given) {
  const int steps = given.steps(200);
  const i64_1 club = arange<std::int64_t>(people) % clubs, known = arange<std::int64_t>(5 * clubs);
  const friendships g = draw(make_key(1), club);
  const auto loss = [&](const network& p, const key& k) {
    return nn::cross_entropy(take(p(g, {0.5, k}), known), take(club, known), reduce::mean);
  };
  const optim::adam opt({.rate = 1e-2, .weight_decay = 5e-4});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  network p = network::init(make_key(2));
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    f32_0 l;
    std::tie(l, p, state) = step(std::move(p), std::move(state), fold_in(make_key(3), i));
    losses.add(l);
    bar.show(i + 1, words("loss %.4f", losses.last()));
  }
  const float right = 100 * mean(cast<float>(slice<0>(argmax(p(g, {}), axis<1>) == club, 5 * clubs))).item();
  std::printf("clubs of other persons  %.2f %% right\n", right);
  losses.write(given("svg", "graph_network.svg"), "graph_network: loss");
  return verdict(given, right);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
