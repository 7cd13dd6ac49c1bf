// What a hit on a GPU allocates of the host's memory: nothing but the vectors of its result; the driver's own is not counted.
#include <cstdint>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/run/cuda/device/driver.hpp>
#include <sinter/sinter.hpp>

#include "../allocations.hpp"
#include "hits_programs.hpp"

namespace {

using namespace sinter;
using hits_programs::vec;
namespace cuda = engine::run::cuda;

template <auto Entry>
struct uncounted;
template <class... A, cuda::api::result (*cuda::driver_table::*Entry)(A...)>
struct uncounted<Entry> {
  static inline cuda::api::result (*real)(A...) = nullptr;
  static cuda::api::result call(A... a) {
    const long before = allocations;
    const auto r = real(a...);
    allocations = before;
    return r;
  }
  static void put(cuda::driver_table& table) {
    real = table.*Entry;
    if (real) table.*Entry = call;
  }
};

/// A GPU whose driver's allocations do not count.
device quiet_gpu() {
  static const bool done = [] {
    static_cast<void>(cuda::driver());
    auto& table = cuda::detail::driver_instance().table;
#define SINTER_ROW(member, name, parameters) uncounted<&cuda::driver_table::member>::put(table);
    SINTER_CUDA_DRIVER(SINTER_ROW)
#undef SINTER_ROW
    return true;
  }();
  static_cast<void>(done);
  return device::cuda(0);
}

std::vector<vec> vectors(std::size_t n, float value) {
  std::vector<vec> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(full<float>(value, std::int64_t(3 + i % 40), quiet_gpu()));
  return out;
}

}  // namespace

TEST_CASE("an optimizer's update of 200 parameters, recorded or not") {
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    CAPTURE(how == mode::reduce_overhead);
    const auto g = vectors(200, 1), p = vectors(200, 4);
    const auto update = compile(
        [](const auto& p, const auto& m, const auto& g) {
          const tensor<float, 0> one = sum(g[0]) / 3.f;
          const auto m2 = tree_map([&](auto m, auto g) { return 0.5f * m + g * one; }, m, g);
          return std::tuple{tree_map([](auto p, auto m) { return p - 0.5f * m; }, p, m2), m2};
        },
        {.mode = how});
    update(p, g, g);
    CHECK(update.report().kernels == 2);
    CHECK(allocations_of([&] { update(p, g, g); }, 8) == 2);
    const auto after = std::get<0>(update(p, g, g));
    for (const auto& x : after)
      for (const float v : x.to(device::cpu()).to_vector()) REQUIRE(v == 4 - 0.5f * 1.5f);
  }
}

TEST_CASE("loops, branches and kernels of more than 128 arrays, recorded or not") {
  const device gpu = quiet_gpu();
  std::vector<vec> many;
  for (int i = 0; i < 150; ++i) many.push_back(full<float>(float(i), 3, gpu));
  const vec x = vec{1, 2, 3}.to(gpu);
  const auto up = tensor<bool, 0>(true).to(gpu);
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    CAPTURE(how == mode::reduce_overhead);
    const auto f = compile(hits_programs::in_steps, {.mode = how});
    const auto want = f(x, up, many).to(device::cpu()).to_vector();
    CHECK(want[0] == 1 + 4 * 11175);
    // A recorded call has four copies; addresses beyond them change one.
    CHECK(allocations_of([&] { f(x, up, many); }, 8) == 0);
    std::vector<vec> kept(7, x);
    std::size_t turn = 0;
    CHECK(allocations_of([&] { kept[turn++ % 7] = f(x, up, many); }, 16) == 0);
    CHECK(f(x, up, many).to(device::cpu()).to_vector() == want);
  }
}

TEST_CASE("a custom op's kernel, launcher and copies") {
  const vec x = vec{1, 2, 3}.to(quiet_gpu());
  const auto on_host = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
      },
      none, [](const auto& x) { return result_of<float, 1>{x}; });
  const auto f = compile([&](vec x) { return vec(on_host(x + 1.f) * 3.f); });
  f(x);
  CHECK(allocations_of([&] { f(x); }, 8) == 0);
  CHECK(f(x).to(device::cpu()).to_vector()[2] == 24);
}
