// Numbers of distributions on a GPU, emulated or real, eagerly and compiled: the bits of the host.
#include <cmath>

#include "../emulator/select.hpp"
#include "walk.hpp"

using namespace sinter;

TEST_CASE("gamma, beta, poisson and dirichlet of parameters on a GPU") {
  if (device_count() == 0) return;
  const auto gpu = device::cuda(0);
  const key k = make_key(7);
  const tensor<double, 1> parameters{1e-200, 0.3, 1,    2.5, 11.9, 12, 40,       1e3,
                                     1e8,    3e9, 1e12, -1,  0,    7,  INFINITY, std::nan("")};
  const auto same = [&](const auto& f) {
    const auto want = f(parameters).to_vector();
    for (const auto& got : {f(parameters.to(gpu)), compile(f)(parameters.to(gpu))}) {
      CHECK(got.device().is_cuda());
      const auto x = got.to(device::cpu()).to_vector();
      REQUIRE(x.size() == want.size());
      for (std::size_t i = 0; i < x.size(); ++i) CHECK((std::isnan(want[i]) ? std::isnan(x[i]) : x[i] == want[i]));
    }
  };
  using vec = tensor<double, 1>;
  same([k](const vec& a) { return vec(gamma(k, a)); });
  same([k](const vec& a) { return vec(poisson(k, a)); });
  same([k](const vec& a) { return vec(beta(k, a, 2.0)); });
  same([k](const vec& a) { return vec(flatten(dirichlet(k, reshape(a, 4, 4)))); });
}
