// ppo.cpp: proximal policy optimisation (Schulman et al., 2017) learns to balance a pole on a cart (Barto et al., 1983).
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

constexpr std::int64_t carts = 64, places = 64, pushes = carts * places;

/// The carts' places, speeds, angles and turning speeds, (carts, 4), and how many steps each has balanced.
struct world {
  f32_2 x;
  i64_1 steps;
};

world reset(const key& k) { return {uniform<float>(k, carts, 4) * 0.1f - 0.05f, zeros<std::int64_t>(carts)}; }

/// 0.02 seconds with a push to the left or the right. Those that fall, or have balanced 500 steps, begin again: 1 where they do.
std::pair<world, f32_1> push(const world& w, const i64_1& right, const key& k) {
  const auto column = [&](int i) { return f32_1(flatten(slice<1>(w.x, i, i + 1))); };
  const f32_1 x = column(0), v = column(1), angle = column(2), turn = column(3);
  const f32_1 s = sin(angle), c = cos(angle);
  const f32_1 force = (cast<float>(right) * 20.f - 10.f + 0.05f * turn * turn * s) / 1.1f;
  const f32_1 turning = (9.8f * s - c * force) / (0.5f * (4.f / 3.f - 0.1f * c * c / 1.1f));
  const f32_1 pushed = force - 0.05f * turning * c / 1.1f;
  const f32_2 next = w.x + 0.02f * stack<1>(v, pushed, turn, turning);
  const bool_1 over = abs(x) > 2.4f || abs(angle) > 0.2095f || w.steps >= 499;
  const world fresh = reset(k);
  return {{where(expand_dims<1>(over), fresh.x, next), where(over, 0, w.steps + 1)}, cast<float>(over)};
}

struct agent {
  nn::mlp<float, nn::tanh> policy, critic;

  f32_1 value(const f32_2& x) const { return flatten(critic(x)); }
};

/// The logarithms of the probabilities of what was done.
f32_1 chosen(const f32_2& scores, const i64_1& right) {
  return flatten(take_along_axis(scores, expand_dims<1>(right), axis<1>));
}

/// Steps of all carts, one behind the other.
struct steps {
  f32_2 x;
  i64_1 right;
  f32_1 score, advantage, target;
};

f32_0 loss(const agent& p, const steps& s) {
  const f32_2 scores = log_softmax(p.policy(s.x));
  const f32_1 ratio = exp(chosen(scores, s.right) - s.score);
  const f32_1 a = (s.advantage - mean(s.advantage)) / (stddev(s.advantage) + 1e-8f);
  const f32_1 gain = minimum(ratio * a, clamp(ratio, 0.8f, 1.2f) * a);
  const f32_1 entropy = -sum(exp(scores) * scores, axis<1>);
  return mean(0.5f * square(p.value(s.x) - s.target) - gain - 0.01f * entropy);
}

/// Plays all carts for some steps: the world behind them, the steps, and how many carts fell.
std::tuple<world, steps, f32_0> play(const agent& p, const world& start, const key& k) {
  const auto act = [&](const world& w, const key& k) {
    const auto [a, b] = split(k);
    const f32_2 scores = log_softmax(p.policy(w.x));
    const i64_1 right = categorical(a, scores);
    const auto [next, over] = push(w, right, b);
    return std::pair{next, std::tuple{w.x, right, chosen(scores, right), p.value(w.x), over}};
  };
  const auto [end, seen] = scan(act, start, split_stacked(k, places));
  const auto& [x, right, score, value, over] = seen;
  const auto earlier = [](const std::pair<f32_1, f32_1>& later, const std::pair<f32_1, f32_1>& now) {
    const auto& [value, over] = now;
    const f32_1 goes_on = 0.99f * (1.f - over);
    const f32_1 advantage = 1.f + goes_on * later.second - value + 0.95f * goes_on * later.first;
    return std::pair{std::pair{advantage, value}, advantage};
  };
  const f32_2 advantage =
      scan(earlier, std::pair{zeros<float>(carts), p.value(end.x)}, std::pair{value, over}, reversed).second;
  return {end,
          {reshape(x, pushes, 4), flatten(right), flatten(score), flatten(advantage), flatten(advantage + value)},
          sum(over)};
}

int train(const arguments& given) {
  const int rounds = given.steps(80);
  const auto opt = optim::chain(optim::clip_by_global_norm(0.5), optim::adam({.rate = 2e-3}));
  const optim::train_step improve(opt, loss);
  const auto round = compile(
      [&](const agent& p, const auto& state, const world& w, const key& k) {
        const auto [a, b] = split(k);
        const auto [end, seen, falls] = play(p, w, a);
        const i64_2 order = vmap([](const key& k) { return permutation(k, pushes); })(split_stacked(b, 4));
        const auto learn = [&, &seen = seen](const auto& now, const i64_1& rows) {
          const steps part = tree_map([&](const auto& x) { return take(x, rows); }, seen);
          const auto [l, q, next] = improve(now.first, now.second, part);
          return std::pair{std::pair{q, next}, l};
        };
        const auto learnt = scan(learn, std::pair{p, state}, reshape(order, 16, -1)).first;
        return std::tuple{learnt.first, learnt.second, end, falls};
      },
      {.donate = {0, 1}});
  const auto [a, b, c] = split<3>(make_key(1));
  agent p{nn::mlp<float, nn::tanh>::init(a, {4, 64, 64, 2}), nn::mlp<float, nn::tanh>::init(b, {4, 64, 64, 1})};
  auto state = opt.init(p);
  world w = reset(c);
  loss_curve fallen;
  data::progress_bar bar(rounds);
  for (int i = 0; i < rounds; ++i) {
    f32_0 falls;
    std::tie(p, state, w, falls) = round(std::move(p), std::move(state), w, fold_in(make_key(2), i));
    fallen.add(falls);
    bar.show(i + 1, words("balanced for %.0f steps", pushes / std::max(1.0, fallen.last(5))));
  }
  fallen.write(given("svg", "ppo.svg"), "ppo: poles that fall in a round");
  return verdict(given, pushes / fallen.last(5));
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", train); }
