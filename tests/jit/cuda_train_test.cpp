// Whole programs on a GPU: a training step, recorded as a CUDA graph or not, gives what it gives on the host; and what only a
// real GPU has room for.
#include <doctest/doctest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
struct network {
  layer first, last;
};
struct training {
  network net, momentum;
};

network make(std::uint64_t seed) {
  const auto k = split(make_key(seed), 4);
  return {{0.3f * normal<float>(k[0], 13, 24), 0.1f * normal<float>(k[1], 24)},
          {0.3f * normal<float>(k[2], 24, 5), 0.1f * normal<float>(k[3], 5)}};
}

const auto step = [](const training& s, const tensor<float, 2>& x, const tensor<std::int64_t, 1>& y) {
  const auto loss = [&](const network& p) {
    const tensor<float, 2> h = relu(matmul(x, p.first.w) + p.first.b);
    return cross_entropy(matmul(h, p.last.w) + p.last.b, y);
  };
  const auto [l, g] = value_and_grad(loss)(s.net);
  const auto m = tree_map([](auto m, auto g) { return 0.9f * m + g; }, s.momentum, g);
  return std::pair{l, training{tree_map([](auto p, auto m) { return p - 0.1f * m; }, s.net, m), m}};
};

struct history {
  std::vector<float> losses, weights;
};

/// Trains for some steps; every step's loss is read only after the last one.
history train(device where, options how, bool lend) {
  const tensor<float, 2> x = normal<float>(make_key(5), 17, 13).to(where);
  const tensor<std::int64_t, 1> y = randint<std::int64_t>(make_key(6), 0, 5, 17).to(where);
  training s = to(training{make(1), make(2)}, where);
  if (lend) how.donate = {0};
  const auto f = compile(step, how);
  std::vector<tensor<float, 0>> losses;
  for (int i = 0; i < 9; ++i) {
    auto [l, next] = lend ? f(std::move(s), x, y) : f(s, x, y);
    losses.push_back(l);
    s = std::move(next);
  }
  CHECK(f.specialisations() == 1);
  CHECK(f.report().backend == (where.is_cuda() ? "cuda" : "cpu"));
  history h;
  for (const auto& l : losses) h.losses.push_back(l.item());
  h.weights = s.net.first.w.to_vector();
  return h;
}

void check_close(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 2e-5f * (1 + std::abs(want[i])));
}

}  // namespace

TEST_CASE("a network trains on a GPU as on the host, recorded or not, with its state lent or kept") {
  const history want = train(device::cpu(), {}, false);
  CHECK(want.losses.back() < want.losses.front());
  for (const mode m : {mode::standard, mode::reduce_overhead})
    for (const bool lend : {false, true}) {
      INFO("recorded ", m == mode::reduce_overhead, ", lent ", lend);
      const history got = train(device::cuda(0), {.mode = m}, lend);
      check_close(got.losses, want.losses);
      check_close(got.weights, want.weights);
    }
}

TEST_CASE("a recorded function's results are not overwritten by later calls, nor by another shape's recording") {
  const auto f = compile(
      [](auto x) {
        return std::pair{x * 2.f, cumsum<0>(x + 1.f)};
      },
      {.mode = mode::reduce_overhead});
  std::vector<std::tuple<float, tensor<float, 1>, tensor<float, 1>>> kept;
  for (int i = 0; i < 12; ++i) {
    const float v = static_cast<float>(i);
    const auto [a, b] = f(full<float>(v, i % 2 ? 5 : 7, device::cuda(0)));
    kept.emplace_back(v, a, b);
  }
  for (const auto& [v, a, b] : kept) {
    for (float x : a.to_vector()) CHECK(x == 2 * v);
    float sum = 0;
    for (float x : b.to_vector()) CHECK(x == (sum += v + 1));
  }
}

TEST_CASE("what follows a product keeps NaN and infinities, whoever does it") {
  const auto host = [](auto x) { return x.to(device::cpu()).to_vector(); };
  tensor<float, 2> a = normal<float>(make_key(1), 64, 96);
  a(3, 5) = NAN;
  a(7, 7) = INFINITY;
  a(9, 1) = -INFINITY;
  const tensor<float, 2> b = normal<float>(make_key(2), 96, 32);
  const tensor<float, 1> c = normal<float>(make_key(3), 32);
  const auto same = [&](auto f) {
    const auto want = host(compile(f, {.backend = "reference"})(a, b, c));
    const device gpu = device::cuda(0);
    for (const precision p : {precision::highest, precision::high}) {
      const auto got = host(compile(f, {.precision = p})(a.to(gpu), b.to(gpu), c.to(gpu)));
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK(std::isnan(got[i]) == std::isnan(want[i]));
        CHECK(std::isinf(got[i]) == std::isinf(want[i]));
      }
    }
  };
  same([](auto a, auto b, auto) { return matmul(a, b); });
  same([](auto a, auto b, auto) { return evaluate(relu(matmul(a, b))); });
  same([](auto a, auto b, auto c) { return evaluate(relu(matmul(a, b) + c)); });
  same([](auto a, auto b, auto c) { return evaluate(gelu_tanh(matmul(a, b) + c)); });
}

TEST_CASE("rows that wait in shared memory: a norm's backward pass over more rows than there are blocks") {
  const device gpu = device::cuda(0);
  for (const std::int64_t columns : {132, 520, 4096}) {
    const std::int64_t rows = columns == 132 ? 2200 : columns == 520 ? 700 : 300;
    const tensor<float, 2> x = normal<float>(make_key(1), rows, columns), w = normal<float>(make_key(2), rows, columns);
    const tensor<float, 1> g = normal<float>(make_key(3), columns), b = normal<float>(make_key(4), columns);
    const auto f = [](auto x, auto g, auto b, auto w) {
      return grad([&](auto all) {
        const auto& [x, g, b] = all;
        return sum(layer_norm(x, g, b, 1e-5f) * w);
      })(std::tuple{x, g, b});
    };
    const auto on_gpu = compile(f);
    const auto [dx, dg, db] = on_gpu(x.to(gpu), g.to(gpu), b.to(gpu), w.to(gpu));
    const auto [want_x, want_g, want_b] = compile(f)(x, g, b, w);
    const auto near = [](auto got, auto want) {
      const auto a = got.to(device::cpu()).to_vector(), e = want.to_vector();
      REQUIRE(a.size() == e.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        CHECK(double(a[i]) == doctest::Approx(double(e[i])).epsilon(1e-4).scale(10));
    };
    CHECK(on_gpu.report().sources[0].find("copy_async(&ring") != std::string::npos);
    near(dx, want_x);
    near(dg, want_g);
    near(db, want_b);
  }
}

TEST_CASE("tensors of five billion elements") {
  if (!emulator::real()) {
    MESSAGE("SKIPPED: only a real GPU has the memory");
    return;
  }
  constexpr std::int64_t n = 5'000'000'011, wrap = std::int64_t{1} << 32;
  const tensor<std::int8_t, 1> x = full<std::int8_t>(3, n, device::cuda(0));
  const auto f = compile([](auto x) { return std::tuple{x + x, sum(cast<std::int64_t>(x))}; });
  const auto [y, total] = f(x);
  CHECK(total.item() == 3 * n);
  for (const std::int64_t at : {std::int64_t{0}, wrap / 2 - 2, wrap - 2, n - 4})
    CHECK(slice<0>(y, at, at + 4).to_vector() == std::vector<std::int8_t>{6, 6, 6, 6});
  const auto rows = reshape(slice<0>(y, 0, n - 11), 5, 1'000'000'000);
  const tensor<std::int8_t, 1> columns = sum(rows, axis<0>);
  CHECK(slice<0>(columns, 999'999'996).to_vector() == std::vector<std::int8_t>{30, 30, 30, 30});
  const tensor<std::int8_t, 1> picked = take(y, tensor<std::int64_t, 1>{n - 1, wrap + 1, 7}.to(device::cuda(0)));
  CHECK(picked.to_vector() == std::vector<std::int8_t>{6, 6, 6});
}
