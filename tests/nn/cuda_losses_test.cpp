// Losses of classes on a GPU, emulated or real: values are the host's, and operands on two devices are an error.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/nn.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

struct operands {
  tensor<float, 2> logits;
  tensor<std::int64_t, 1> labels;
  tensor<float, 1> weights;
};

operands drawn() {
  return {normal<float>(make_key(1), 37, 5), arange<std::int64_t>(37) * std::int64_t{3} % std::int64_t{5},
          uniform<float>(make_key(2), 5) + 0.5f};
}

}  // namespace

TEST_CASE("a weighted cross entropy on a GPU is the host's") {
  if (device_count() == 0) return;
  const device gpu = device::cuda(0);
  const operands x = drawn();
  const auto want = nn::cross_entropy(x.logits, x.labels, x.weights).to_vector();
  const auto got =
      nn::cross_entropy(x.logits.to(gpu), x.labels.to(gpu), x.weights.to(gpu)).to(device::cpu()).to_vector();
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
}

TEST_CASE("operands of a loss on two devices are an error") {
  if (device_count() == 0) return;
  const device gpu = device::cuda(0);
  const operands x = drawn();
  const auto logits = x.logits.to(gpu);
  const auto labels = x.labels.to(gpu);
  CHECK_THROWS_AS(nn::cross_entropy(logits, labels, x.weights), user_error);
  CHECK_THROWS_AS(nn::cross_entropy(x.logits, labels), user_error);
  CHECK_THROWS_AS(nn::cross_entropy(logits, x.labels), user_error);
}
