// Very many parts on a GPU: texts do not grow with them, nor do launches of pointwise kernels.
#include "many_parts.hpp"

#include "../emulator/select.hpp"

using namespace many_parts;

TEST_CASE("parts share texts on a GPU, however many they are") {
  constexpr int n = 70;
  const flat x = normal<float>(make_key(5), length * n), there = x.to(device::cuda(0));
  for (const auto& p : programs()) {
    INFO(p.name);
    const auto f = compile([&](const flat& y) { return p.f(y, n); });
    check_close(f(there).to(device::cpu()).to_vector(), p.f(x, n).to_vector());
    const report r = f.report();
    CHECK(r.backend == "cuda");
    CHECK(r.sources.size() <= p.texts + 2);
  }
}

TEST_CASE("a long chain of costly operations calls functions on a GPU, too") {
  const auto chain = [](const tensor<float, 1>& x) {
    tensor<float, 1> y = x;
    for (int i = 0; i < 20; ++i) y = pow(abs(sin(tanh(y))) + 0.5f, 1.25f);
    return y;
  };
  const flat x = normal<float>(make_key(8), 1000);
  const auto f = compile(chain);
  check_close(f(x.to(device::cuda(0))).to(device::cpu()).to_vector(), chain(x).to_vector());
  const report r = f.report();
  REQUIRE(r.sources.size() == 1);
  CHECK(r.sources[0].find("__noinline__ s_f32 called_tanh_f32(s_f32 a)") != std::string::npos);
  CHECK(r.sources[0].find("= called_pow_f32(") != std::string::npos);
}

TEST_CASE("numbers of 64 bits that differ from part to part keep them on a GPU") {
  const auto fills = []<class T>(const std::vector<T>& numbers) {
    return compile([numbers](const tensor<T, 1>& x) {
      std::vector<tensor<T, 1>> all;
      for (const T n : numbers) all.push_back(full<T>(n, x.size(0)));
      return all;
    });
  };
  const std::vector<double> reals{0, 1, 2, 3, 0.5, -0.1};
  const auto x = fills(reals)(tensor<double, 1>{1, 2, 3}.to(device::cuda(0)));
  const std::vector<std::int64_t> whole{0, 1, std::int64_t{1} << 40, -1, std::numeric_limits<std::int64_t>::min(), 5};
  const auto y = fills(whole)(tensor<std::int64_t, 1>{1, 2, 3}.to(device::cuda(0)));
  for (std::size_t i = 0; i < reals.size(); ++i) {
    CHECK(x[i].to(device::cpu())(2) == reals[i]);
    CHECK(y[i].to(device::cpu())(2) == whole[i]);
  }
}
