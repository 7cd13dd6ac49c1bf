// Convolutions and pools on a GPU, emulated or real, eagerly and compiled, with their derivatives.
#include <sinter/windows.hpp>

#include "../emulator/select.hpp"
#include "../ops/walk.hpp"

using namespace sinter;

TEST_CASE("on a GPU") {
  if (device_count() == 0) return;
  using real = tensor<float, 4>;
  const auto gpu = device::cuda(0);
  const real x = ops::between<float, 4>({2, 4, 7, 6}, -2, 2, 3), w = ops::between<float, 4>({6, 4, 3, 3}, -2, 2, 4);
  const auto same = [](const real& got, const real& want) {
    CHECK(got.device().is_cuda());
    CHECK(max(abs(got.to(device::cpu()) - want)).item() < 1e-4F);
  };
  const auto f = [](const real& t, const real& k) {
    const real y = conv2d(t, k, {.stride = 2, .padding = 1});
    return real(max_pool2d(y, 2, {.stride = 1, .padding = 1}));
  };
  const auto back = [](const real& t, const real& k) {
    return real(conv_transpose2d(t, permute<1, 0, 2, 3>(k), {.stride = 2, .groups = 2}));
  };
  same(f(x.to(gpu), w.to(gpu)), f(x, w));
  same(back(x.to(gpu), w.to(gpu)), back(x, w));
  const auto all = [&](const real& t, const real& k) {
    const auto [gx, gw] = grad<0, 1>([&](const real& p, const real& q) { return sum(exp(f(p, q) * 0.1F)); })(t, k);
    return std::tuple{f(t, k), gx, gw};
  };
  options how;
  how.backend = "reference";
  const auto [y, gx, gw] = compile(all)(x.to(gpu), w.to(gpu));
  const auto [want, want_x, want_w] = compile(all, how)(x, w);
  same(y, want);
  same(gx, want_x);
  same(gw, want_w);
}

TEST_CASE("what is read at places, and averages of windows with padding, alone on a GPU") {
  if (device_count() == 0) return;
  using real = tensor<float, 4>;
  const real x = ops::between<float, 4>({1, 2, 6, 6}, -2, 2, 3);
  const auto same = [&](const auto& f) {
    const real got = f(x.to(device::cuda(0)));
    CHECK(got.device().is_cuda());
    CHECK(max(abs(got.to(device::cpu()) - real(f(x)))).item() < 1e-5F);
  };
  same([](const real& t) { return interpolate(t, {.size = {9, 4}}); });
  same([](const real& t) { return interpolate(t, {.size = {9, 4}, .mode = resize::linear}); });
  same([](const real& t) { return adaptive_max_pool2d(t, {4, 4}); });
  same([](const real& t) { return avg_pool2d(t, 3, {.padding = 1, .count_include_pad = false}); });
  same([](const real& t) {
    const auto p = max_pool2d_with_indices(t, 2);
    return max_unpool2d(p.values, p.indices, 2);
  });
}
