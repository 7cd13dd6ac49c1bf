// Graph breaks of functions that run on a GPU: values come to the host when they are read, everything else stays there.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../close.hpp"

using namespace sinter;

namespace {

using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// The GPU of these tests; without one they run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }

}  // namespace

TEST_CASE("values are read, live ones stay on the GPU, results are there") {
  const auto f = compile([](tensor<float, 2> x, tensor<float, 0> scale) {
    const tensor<float, 2> y = x * scale;
    const auto lazy = y + 1.f;
    const float total = sum(y).item();
    const std::vector<float> rows = sum(y, axis<1>).to_vector();
    const std::size_t length = to_string(y).size();
    if (any(y > 100.f)) return std::tuple{tensor<float, 2>(lazy * total), rows, length};
    return std::tuple{tensor<float, 2>(lazy - total), rows, length};
  });
  for (const float k : {1.f, 2.f, 40.f}) {
    const tensor<float, 2> x{{k, 2}, {3, 4}};
    const tensor<float, 0> three = 3.f;
    const auto [y, rows, length] = f(x.to(gpu()), three);
    CHECK(y.device() == gpu());
    const float total = 3 * k + 27;
    const tensor<float, 2> lazy = x * 3.f + 1.f;
    const tensor<float, 2> want = k > 30 ? tensor<float, 2>(lazy * total) : tensor<float, 2>(lazy - total);
    CHECK(y.to_vector() == want.to_vector());
    CHECK(rows == floats{3 * k + 6, 21});
    CHECK(length == to_string(tensor<float, 2>(x * 3.f)).size());
  }
  CHECK(f.specialisations() == 1);
}

TEST_CASE("a loop that ends when a value on the GPU says so; under reduce_overhead too") {
  for (const mode m : {mode::standard, mode::reduce_overhead}) {
    const auto f = compile(
        [](vec x) {
          int steps = 0;
          while (max(x).item() > 1.f) {
            x = x * 0.5f;
            ++steps;
          }
          return std::pair{x, steps};
        },
        {.mode = m});
    for (int call = 0; call < 3; ++call) {
      const auto [x, steps] = f(vec{8, 4}.to(gpu()));
      CHECK(x.to_vector() == floats{1, 0.5f});
      CHECK(steps == 3);
      CHECK(f(vec{2, 4}.to(gpu())).second == 2);
    }
  }
}

TEST_CASE("disable gets tensors of the GPU and gives some back") {
  const auto f = compile([](vec x) {
    const vec y = disable([](const vec& v) {
      CHECK(v.device() == gpu());
      CHECK(!v.is_traced());
      return (v.to(device::cpu()) + 1.f).eval().to(gpu());
    })(x * 2.f);
    return y * x;
  });
  CHECK(f(vec{1, 2}.to(gpu())).to_vector() == floats{3, 10});
  CHECK(f(vec{2, 2}.to(gpu())).to_vector() == floats{10, 10});
}

TEST_CASE("within grad on the GPU") {
  const auto loss = [](vec x) {
    const auto s = sum(x * x);
    return s.item() > 10.f ? tensor<float, 0>(s * 3.f) : tensor<float, 0>(s * s);
  };
  const auto step = compile([&](vec x) { return grad(loss)(x); });
  CHECK(step(vec{3, 4}.to(gpu())).to_vector() == floats{18, 24});
  CHECK(step(vec{1, 1}.to(gpu())).to_vector() == floats{8, 8});
  CHECK(grad(loss)(vec{3, 4}.to(gpu())).to_vector() == floats{18, 24});
}

TEST_CASE("an address of the GPU that the function reads holds a copy") {
  const auto f = compile([](vec x) {
    const vec y = x + 1.f;
    const vec there = detail::access::make<float, dims(1)>(storage(), y.data(), {2}, {1});
    float host[2];
    engine::copy(host, device::cpu(), detail::access::data(there), y.device(), sizeof host);
    return y * host[1];
  });
  CHECK(f(vec{1, 2}.to(gpu())).to_vector() == floats{6, 9});
  const auto refused = [](const auto& g) {
    try {
      g();
    } catch (const user_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto corner = compile([](vec x) { return x * x(0); });
  if (device_count() > 0) CHECK(refused([&] { corner(vec{1}.to(gpu())); }).find("device") != std::string::npos);
  else CHECK(corner(vec{3}).item() == 9);
  const auto write = compile([](vec x) {
    const vec y = x + 1.f;
    const float nine = 9;
    engine::copy(y.data(), y.device(), &nine, device::cpu(), sizeof nine);
    return y;
  });
  CHECK(refused([&] { write(vec{1, 2}.to(gpu())); }).find("copy to be read") != std::string::npos);
}

TEST_CASE("captured tensors on the GPU") {
  const vec w = vec{1, 2}.to(gpu());
  const auto f = compile([w](vec x) { return any(x > 0.f) ? vec(x * w) : vec(x - w); });
  CHECK(f(vec{1, 1}.to(gpu())).to_vector() == floats{1, 2});
  w.fill(5);
  CHECK(f(vec{1, 1}.to(gpu())).to_vector() == floats{5, 5});
  CHECK(f(vec{-1, -1}.to(gpu())).to_vector() == floats{-6, -6});
  const auto g = compile([w](vec x) { return w.to_vector()[0] > 0 ? x : -x; });
  CHECK(g(vec{1, 1}.to(gpu())).to_vector() == floats{1, 1});
  w.fill(-1);
  CHECK(g(vec{1, 1}.to(gpu())).to_vector() == floats{-1, -1});
}

TEST_CASE("segments on a GPU keep sizes open") {
  const auto fn = [](tensor<float, 2> x, tensor<float, 0> scale) {
    const tensor<float, 2> y = x * scale;
    const bool up = mean(y).item() > 0;
    tensor<float, 2> z = softmax(y) / x.size(0);
    if (up) z = concat<0>(z, y);
    if (x.size(0) > 6) z = z + 1.f;
    const bool some = static_cast<bool>(any(z > 0.9f));
    return some ? tensor<float, 2>(z * 2.f) : z;
  };
  const auto f = compile(fn);
  std::size_t after = 0;
  for (int call = 0; call < 24; ++call) {
    const int n = 1 + call * 5 % 11;
    const tensor<float, 2> x = normal<float>(make_key(call), n, 8) + (call % 2 ? 0.3f : -0.3f);
    const tensor<float, 0> scale = 1.5f;
    const floats got = f(x.to(gpu()), scale).to_vector(), want = fn(x, scale).to_vector();
    check_close(got, want, 1e-4);
    if (call == 21) after = f.report().kernels;
  }
  CHECK(f.specialisations() == 1);
  CHECK(f.report().kernels == after);
}

TEST_CASE("C++ numbers that vary are arguments of kernels, and of recorded calls") {
  const auto fn = [](vec x, float by, bool reads) { return x * by + (reads ? sum(x).item() * 0.125f : 0.5f); };
  for (const mode m : {mode::standard, mode::reduce_overhead})
    for (const bool reads : {false, true}) {
      const auto f = compile([&](vec x, float by) { return fn(x, by, reads); }, {.mode = m});
      const vec x = vec{1, 2, 4}.to(gpu());
      f(x, 2.f), f(x, 3.f);
      for (int round = 0; round < 3; ++round)
        for (const float by : {4.f, 0.25f, -1.f, 8.f}) {
          const stance_scope only(reads && round == 0 ? stance::normal : stance::fail_on_recompile);
          CHECK(f(x, by).to(device::cpu()).to_vector() == fn(vec{1, 2, 4}, by, reads).to_vector());
        }
      CHECK(f.report().backend == (device_count() > 0 ? "cuda" : "cpu"));
    }
}
