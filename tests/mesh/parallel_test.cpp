// Training on many ranks, against the same training on one device: data_parallel, fully_sharded, pipeline.
#include <cmath>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

struct pp : mesh_axis {};

/// Extents that 2, 3 and 4 ranks do not divide.
struct net {
  tensor<double, 2> up, down;
  tensor<double, 1> bias;
  tensor<double, 0> scale;
};
net some_net() { return {some(5, 7, 0.1), some(7, 3, 0.2), tensor<double, 1>(sin(arange<double>(7))), 0.7}; }
tensor<double, 0> net_loss(const net& p, const tensor<double, 2>& x, const tensor<double, 2>& y) {
  const auto h = tanh(matmul(x, p.up) + p.bias);
  return mean(square(matmul(h, p.down) * p.scale - y));
}
std::vector<double> all_of(const net& p) {
  std::vector<double> out;
  for (const auto& part : {numbers_of(p.up), numbers_of(p.down), numbers_of(p.bias), numbers_of(p.scale)})
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

const auto optimizer = [] { return optim::adamw({.rate = 0.05, .weight_decay = 0.1}); };
constexpr int steps = 5;

struct trained {
  std::vector<double> losses, parameters;
};
trained on_one_device(const tensor<double, 2>& x, const tensor<double, 2>& y) {
  const auto opt = optimizer();
  net p = some_net();
  auto state = opt.init(p);
  const auto step = compile([&](net q, auto s, tensor<double, 2> a, tensor<double, 2> b) {
    auto [l, g] = value_and_grad(net_loss)(q, a, b);
    auto [r, next] = opt.update(q, g, s);
    return std::tuple{l, r, next};
  });
  trained out;
  for (int i = 0; i < steps; ++i) {
    auto [l, q, s] = step(p, state, x, y);
    out.losses.push_back(l.item());
    p = q, state = s;
  }
  out.parameters = all_of(p);
  return out;
}

using batch = placed<tensor<double, 2>, shard<dp, 0>>;

/// One training step of a rank, all ranks having all parameters.
template <class Opt>
auto data_step(const Opt& opt) {
  using state = decltype(opt.init(std::declval<net>()));
  return [opt](placed<net, invariant<dp>> p, placed<state, invariant<dp>> s, batch x, batch y) {
    auto [l, g] = data_parallel<dp>(net_loss)(p, x, y);
    auto [q, next] = opt.update(local(p), local(g), local(s));
    return std::tuple{l, placed<net, invariant<dp>>(q), placed<state, invariant<dp>>(next)};
  };
}
/// The same, each rank having its rows of the parameters and of the optimizer's state.
using rows = row_shards<net, dp>;
template <class Opt>
auto sharded_step(const Opt& opt) {
  using state = decltype(opt.init(std::declval<rows>()));
  return [opt](rows p, placed<state, replicated<dp>> s, batch x, batch y) {
    auto [l, g] = fully_sharded<dp>(net_loss)(p, x, y);
    auto [q, next] = opt.update(p, g, local(s));
    return std::tuple{l, q, placed<state, replicated<dp>>(next)};
  };
}

const tensor<double, 2>& inputs() {
  static const tensor<double, 2> x = some(12, 5, 0.5);
  return x;
}
const tensor<double, 2>& targets() {
  static const tensor<double, 2> y = some(12, 3, 0.9);
  return y;
}

}  // namespace

TEST_CASE("losses of data parallel ranks are those of one device") {
  const auto want = on_one_device(inputs(), targets());
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    findings wrong;
    on_threads(ranks, [&](int) {
      const auto m = make_mesh<dp>({ranks});
      const auto opt = optimizer();
      const auto step = compile(shard_map(m, data_step(opt)));
      placed<net, invariant<dp>> p(some_net());
      placed<decltype(opt.init(some_net())), invariant<dp>> s(opt.init(some_net()));
      std::vector<double> losses;
      for (int i = 0; i < steps; ++i) {
        auto [l, q, next] = step(p, s, inputs(), targets());
        losses.push_back(local(l).item());
        p = q, s = next;
      }
      wrong.close(losses, want.losses, "losses");
      wrong.close(all_of(local(p)), want.parameters, "parameters");
      // The loss and all gradients are one exchange.
      wrong.expect(step.report().collectives == (ranks == 1 ? 0 : 1),
                   std::to_string(step.report().collectives) + " collectives");
    });
    CHECK(wrong.all() == "");
  }
}

TEST_CASE("losses of fully sharded ranks are those of one device") {
  const auto want = on_one_device(inputs(), targets());
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    findings wrong;
    on_threads(ranks, [&](int) {
      const auto m = make_mesh<dp>({ranks});
      const auto opt = optimizer();
      const auto step = compile(shard_map(m, sharded_step(opt)));
      rows p = cut_rows<dp>(m, some_net());
      wrong.expect(p.part().up.size(0) == (5 + ranks - 1) / ranks && p.rows() == std::vector<std::int64_t>{5, 7, 7, 0},
                   "the rows of a rank");
      placed<decltype(opt.init(p)), replicated<dp>> s(opt.init(p));
      std::vector<double> losses;
      for (int i = 0; i < steps; ++i) {
        auto [l, q, next] = step(p, s, inputs(), targets());
        losses.push_back(local(l).item());
        p = q, s = next;
      }
      wrong.close(losses, want.losses, "losses");
      const auto whole = compile(shard_map(m, [](rows r) { return gather_rows(r); }))(p);
      wrong.close(all_of(local(whole)), want.parameters, "parameters");
    });
    CHECK(wrong.all() == "");
  }
}

TEST_CASE("simulated data parallel and fully sharded ranks") {
  const auto x = inputs(), y = targets();
  const auto want = value_and_grad(net_loss)(some_net(), x, y);
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const auto m = simulated_mesh<dp>({ranks});
    const auto whole = [](placed<net, invariant<dp>> p, batch a, batch b) {
      auto [l, g] = data_parallel<dp>(net_loss)(p, a, b);
      return std::tuple{l, g};
    };
    const auto parts = [](rows p, batch a, batch b) {
      auto [l, g] = fully_sharded<dp>(net_loss)(p, a, b);
      return std::tuple{l, g};
    };
    const auto one = simulate(whole, m)(some_net(), x, y);
    const auto other = simulate(parts, m)(some_net(), x, y);
    check_close(std::get<0>(one).to_vector(), want.first.to_vector(), 1e-12);
    check_close(all_of(std::get<1>(one)), all_of(want.second), 1e-12);
    check_close(std::get<0>(other).to_vector(), want.first.to_vector(), 1e-12);
    check_close(all_of(std::get<1>(other)), all_of(want.second), 1e-12);
  }
}

namespace {

struct deep {
  std::vector<tensor<float, 2>> layers;
};
deep some_deep(std::size_t count, std::int64_t width) {
  deep p;
  for (std::size_t k = 0; k < count; ++k)
    p.layers.push_back(cast<float>(some(width, width, static_cast<double>(k)) * 0.1));
  return p;
}
tensor<float, 0> deep_loss(const deep& p, const tensor<float, 2>& x) {
  tensor<float, 2> h = x;
  for (const auto& w : p.layers) h = tanh(matmul(h, w));
  return mean(square(h));
}
using small_batch = placed<tensor<float, 2>, shard<dp, 0>>;

}  // namespace

TEST_CASE("sums are joined into buckets that the products' kernels write") {
  findings wrong;
  on_threads(2, [&](int) {
    const auto m = make_mesh<dp>({2});
    // 4 layers of 1 MiB: the last layer's gradient and the loss go first, then the others.
    const auto step = compile(shard_map(m, [](placed<deep, invariant<dp>> p, small_batch x) {
      auto [l, g] = data_parallel<dp>(deep_loss)(p, x);
      deep q = local(p);
      for (std::size_t k = 0; k < q.layers.size(); ++k) q.layers[k] = q.layers[k] - 0.1f * local(g).layers[k];
      return std::tuple{l, placed<deep, invariant<dp>>(q)};
    }));
    step(some_deep(4, 512), cast<float>(some(4, 512)));
    const report r = step.report();
    wrong.expect(r.collectives == 2, std::to_string(r.collectives) + " collectives");
    wrong.expect(r.copies <= 1, std::to_string(r.copies) + " copies; only the loss, a result, is copied");
  });
  CHECK(wrong.all() == "");
}

TEST_CASE("gradients of sharded layers") {
  findings wrong;
  const auto p = some_deep(8, 64);
  const auto x = cast<float>(some(4, 64));
  const auto want = value_and_grad(deep_loss)(p, x);
  on_threads(2, [&](int rank) {
    const auto m = make_mesh<dp>({2});
    const auto step =
        compile(shard_map(m, [](row_shards<deep, dp> q, small_batch b) { return fully_sharded<dp>(deep_loss)(q, b); }));
    const auto got = step(cut_rows<dp>(m, p), x);
    wrong.close(numbers_of(local(got.first)), numbers_of(want.first), "the loss", 1e-5);
    for (std::size_t k = 0; k < 8; ++k)
      wrong.close(numbers_of(got.second.part().layers[k]),
                  numbers_of(tensor<float, 2>(slice<0>(want.second.layers[k], 32 * rank, 32 * rank + 32))),
                  "gradient " + std::to_string(k), 1e-5);
  });
  CHECK(wrong.all() == "");
}

TEST_CASE("of gathered parameters two layers are in memory") {
  constexpr std::size_t width = 256, layer_bytes = width * width * sizeof(float);
  findings wrong;
  for (const std::size_t count : {4, 16}) {
    on_threads(2, [&](int) {
      const auto m = make_mesh<dp>({2});
      const auto p = cut_rows<dp>(m, some_deep(count, width));
      const auto x = cast<float>(some(4, width));
      const auto forward = compile(shard_map(m, [](row_shards<deep, dp> q, small_batch b) {
        return placed<tensor<float, 0>, varying<dp>>(deep_loss(local(gather_rows(q)), local(b)));
      }));
      forward(p, x);
      const std::size_t scratch = forward.report().scratch_bytes;
      wrong.expect(
          scratch < 2 * layer_bytes + layer_bytes / 2,
          std::to_string(count) + " layers forward: " + std::to_string(scratch / layer_bytes) + " layers of scratch");
      const auto step = compile(
          shard_map(m, [](row_shards<deep, dp> q, small_batch b) { return fully_sharded<dp>(deep_loss)(q, b); }));
      step(p, x);
      // Gradients before their exchange, in buckets of at most the number of layers, and their sums.
      const std::size_t more = step.report().scratch_bytes, gradients = count + count / 2 + 1;
      wrong.expect(more < (gradients + 3) * layer_bytes,
                   std::to_string(count) + " layers: " + std::to_string(more / layer_bytes) + " layers of scratch");
    });
  }
  CHECK(wrong.all() == "");
}

TEST_CASE("the norm of gradients that ranks divide is that of all ranks") {
  findings wrong;
  const auto x = inputs(), y = targets();
  const auto whole = value_and_grad(net_loss)(some_net(), x, y).second;
  const double norm = tree_norm(whole).item();
  const auto clip = optim::chain(optim::clip_by_global_norm(0.5 * norm), optim::sgd({.rate = 0.1}));
  const auto want = clip.update(some_net(), whole, clip.init(some_net())).first;
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    on_threads(ranks, [&](int) {
      const auto m = make_mesh<dp>({ranks});
      const auto f = [&](rows p, batch a, batch b) {
        auto [l, g] = fully_sharded<dp>(net_loss)(p, a, b);
        return std::tuple{placed<tensor<double, 0>, replicated<dp>>(tree_norm(g)),
                          gather_rows(clip.update(p, g, clip.init(p)).first)};
      };
      const auto got = compile(shard_map(m, f))(cut_rows<dp>(m, some_net()), x, y);
      wrong.close(numbers_of(local(std::get<0>(got))), {norm}, "the norm");
      wrong.close(all_of(local(std::get<1>(got))), all_of(want), "clipped");
    });
    const auto m = simulated_mesh<dp>({ranks});
    const auto alone = [&](rows p, batch a, batch b) {
      auto [l, g] = fully_sharded<dp>(net_loss)(p, a, b);
      return clip.update(p, g, clip.init(p)).first;
    };
    check_close(all_of(simulate(alone, m)(some_net(), x, y)), all_of(want), 1e-12);
  }
  CHECK(wrong.all() == "");
  // Placed tensors in a struct, and a second axis that does not divide them.
  const auto m = simulated_mesh<dp, pp>({2, 3});
  using column = placed<tensor<double, 2>, shard<dp, 1>>;
  const auto norms = [](column a) {
    return placed<tensor<double, 0>, replicated<dp>>(tree_norm(std::tuple{a, std::vector{a}}));
  };
  const auto c = some(3, 4);
  check_close(simulate(norms, m)(c).to_vector(), std::vector<double>{std::sqrt(2.0) * tree_norm(std::tuple{c}).item()},
              1e-12);
}

TEST_CASE("a step whose scaled gradients overflow on one rank is left out on all") {
  findings wrong;
  for (const bool overflows : {false, true})
    on_threads(2, [&](int) {
      const auto m = make_mesh<dp>({2});
      const auto opt = optim::scale_loss(optim::sgd({.rate = 0.1}));
      net g = some_net();
      if (overflows) g.up = g.up + reshape(where(eq(arange<double>(35), 34.0), INFINITY, 0.0), 5, 7);
      const auto p = cut_rows<dp>(m, some_net());
      const auto f = [opt](rows q, rows slope) { return gather_rows(opt.update(q, slope, opt.init(q)).first); };
      const auto got = compile(shard_map(m, f))(p, cut_rows<dp>(m, g));
      const bool moved = all_of(local(got)) != all_of(some_net());
      wrong.expect(moved != overflows, overflows ? "the step is taken" : "the step is left out");
    });
  CHECK(wrong.all() == "");
}

namespace {

struct layer {
  tensor<double, 2> weight;
  tensor<double, 1> bias;
};
tensor<double, 2> run_layer(const layer& p, const tensor<double, 2>& h) { return tanh(matmul(h, p.weight) + p.bias); }
stacked<layer> four_layers() {
  std::vector<layer> all;
  for (int k = 0; k < 4; ++k) all.push_back({some(3, 3, k), tensor<double, 1>(cos(arange<double>(3) + k))});
  return stack_tree(all);
}
tensor<double, 0> layers_in_a_row(const stacked<layer>& all, const tensor<double, 2>& x) {
  tensor<double, 2> h = x;
  for (const auto& one : unstack(all)) h = run_layer(one, h);
  return sum(square(h));
}
using stage = placed<stacked<layer>, shard<pp, 0>>;
using shared_batch = placed<tensor<double, 2>, replicated<pp>>;
placed<tensor<double, 0>> piped_loss(const stage& all, const shared_batch& x, std::int64_t microbatches) {
  const auto y = pipeline<pp>(run_layer, {.microbatches = microbatches})(all, x);
  // Each rank has the result, and counts its share.
  const auto own = as<partial<pp>>(as<varying<pp>>(sum(square(y)) / static_cast<double>(axis_size<pp>())));
  return all_reduce<invariant<pp>>(own);
}

}  // namespace

TEST_CASE("a pipeline's value and derivatives are those of its layers in a row") {
  const auto all = four_layers();
  const auto x = some(6, 3, 0.4);
  const auto want = value_and_grad(layers_in_a_row)(all, x);
  const auto numbers = [](const stacked<layer>& p) {
    std::vector<double> out;
    for (const auto& one : unstack(p))
      for (const auto& part : {numbers_of(one.weight), numbers_of(one.bias)})
        out.insert(out.end(), part.begin(), part.end());
    return out;
  };
  for (const std::int64_t ranks : {1, 2, 4})
    for (const std::int64_t microbatches : {1, 3, 6}) {
      CAPTURE(ranks);
      CAPTURE(microbatches);
      const auto f = [=](stage p, shared_batch b) {
        auto [l, g] = value_and_grad([&](const stage& q) { return piped_loss(q, b, microbatches); })(p);
        return std::tuple{l, g};
      };
      const auto got = simulate(f, simulated_mesh<pp>({ranks}))(all, x);
      check_close(std::get<0>(got).to_vector(), want.first.to_vector(), 1e-12);
      check_close(numbers(std::get<1>(got)), numbers(want.second), 1e-12);
    }
  findings wrong;
  on_threads(2, [&](int rank) {
    const auto m = make_mesh<pp>({2});
    const auto step = compile(shard_map(m, [](stage p, shared_batch b) {
      auto [l, g] = value_and_grad([&](const stage& q) { return piped_loss(q, b, 3); })(p);
      return std::tuple{l, g};
    }));
    const auto got = step(all, x);
    wrong.close(numbers_of(local(std::get<0>(got))), want.first.to_vector(), "the loss");
    const auto own = numbers(local(std::get<1>(got))), every = numbers(want.second);
    wrong.close(own, std::vector<double>(every.begin() + rank * 24, every.begin() + rank * 24 + 24), "gradients");
  });
  CHECK(wrong.all() == "");
}

TEST_CASE("batches and losses that do not fit are refused") {
  const auto five = [](stage p, shared_batch b) { return pipeline<pp>(run_layer, {.microbatches = 5})(p, b); };
  CHECK_THROWS_WITH_AS(simulate(five, simulated_mesh<pp>({2}))(four_layers(), some(6, 3)),
                       doctest::Contains("a batch of 6 rows does not divide into 5 microbatches"), user_error);
  const auto still = [](placed<net, invariant<dp>> p) {
    return data_parallel<dp>([](const net& q) { return sum(q.bias); })(p).first;
  };
  CHECK_THROWS_WITH_AS(simulate(still, simulated_mesh<dp>({2}))(some_net()), doctest::Contains("replicated"),
                       user_error);
}
