// Positions that are compared with numbers, in each kind of kernel of a GPU: the local names of no kernel hide the function that narrows
// those numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

/// f of x times factors along both axes, whose last position is told from the others: on a GPU as eagerly on the host.
template <class F>
void same_on_gpu(const char* name, const f32_2& x, F f) {
  INFO(std::string(name));
  const auto with = [&](const f32_2& x, const f32_0& scale) {
    const auto factor = [&](const dim& n) { return f32_1(scale * linspace<float>(1, 2, n, x.device())); };
    return f32_1(flatten(f(f32_2(expand_dims<1>(factor(x.size(0))) * factor(x.size(1)) * x))));
  };
  const auto compiled = compile(with);
  const device gpu = device::cuda(0);
  const auto got = compiled(x.to(gpu), f32_0(0.5f).to(gpu)).to(device::cpu()).to_vector();
  const auto want = with(x, 0.5f).to_vector();
  CHECK(compiled.report().backend == "cuda");
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(got[i] - want[i]) <= 1e-4f * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("positions compared with numbers in every kind of GPU kernel") {
  const f32_2 x = normal<float>(make_key(1), 20, 100);
  same_on_gpu("elements", x, [](const f32_2& y) { return f32_2(y + 1.f); });
  same_on_gpu("transposed", x, [](const f32_2& y) { return f32_2(transpose(y) * 2.f); });
  same_on_gpu("rows", x, [](const f32_2& y) { return f32_1(sum(y, axis<1>)); });
  same_on_gpu("columns", x, [](const f32_2& y) { return f32_1(sum(y, axis<0>)); });
  same_on_gpu("all", x, [](const f32_2& y) { return f32_1(reshape(sum(y), 1)); });
  same_on_gpu("softmax", x, [](const f32_2& y) { return f32_2(softmax(y)); });
  same_on_gpu("the greatest", x, [](const f32_2& y) { return f32_1(cast<float>(argmax(y, axis<1>))); });
  same_on_gpu("running sums", x, [](const f32_2& y) { return f32_2(cumsum(y, axis<1>)); });
  same_on_gpu("running sums of columns", x, [](const f32_2& y) { return f32_2(cumsum(y, axis<0>)); });
  same_on_gpu("sorted", x, [](const f32_2& y) { return f32_2(sort(y, axis<1>)); });
  same_on_gpu("product", x, [](const f32_2& y) { return f32_2(matmul(y, transpose(y))); });
}
