// The same as numbers_test on a GPU.
#include "number_programs.hpp"

using number_programs::check;

TEST_CASE("programs at random") { check(101, 4, sinter::device::cuda(0)); }

TEST_CASE("updates that are alike but for their numbers are one launch") {
  CHECK(number_programs::updated(3, sinter::device::cuda(0)).kernels == 1);
}

TEST_CASE("more than a thousand numbers") {
  using namespace number_programs;
  const auto fn = [](vec x, const floats& rates) {
    for (const float r : rates) x = x * 0.999f + r;
    return x;
  };
  const auto f = compile(fn);
  const vec x{1, 2, -3};
  for (const float by : {0.f, 0.25f, 1e-3f}) {
    floats rates;
    for (int i = 0; i < 600; ++i) rates.push_back(by * static_cast<float>(i));
    const stance_scope only(by == 0 ? stance::normal : stance::fail_on_recompile);
    const floats got = f(x.to(device::cuda(0)), rates).to(device::cpu()).to_vector(), want = fn(x, rates).to_vector();
    for (std::size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-4));
  }
}
