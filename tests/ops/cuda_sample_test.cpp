// Numbers of distributions on a GPU, emulated or real, eagerly and compiled: the bits of the host.
#include <cmath>
#include <utility>

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

TEST_CASE("tails of truncated_normal on a GPU, and derivatives of gamma, beta and dirichlet numbers") {
  if (device_count() == 0) return;
  const auto gpu = device::cuda(0);
  const key k = make_key(7);
  for (const auto& bounds : {std::pair{2.0, 2.5}, std::pair{8.0, 100.0}, std::pair{-30.0, -20.0}}) {
    const double low = bounds.first, high = bounds.second;
    const auto draw = [low, high](const key& k) { return truncated_normal<double>(k, low, high, 300); };
    const auto want = draw(k).to_vector();
    const key there{k.state.to(gpu)};
    for (const auto& got : {draw(there), compile(draw)(there)}) {
      CHECK(got.device().is_cuda());
      CHECK(got.to(device::cpu()).to_vector() == want);
    }
  }
  using rows = tensor<double, 2>;
  const auto slopes = compile([k](const rows& a) {
    return grad([&](const rows& a) {
      return tensor<double, 0>(sum(gamma(k, a)) + sum(beta(k, a, 2.0)) + sum(square(dirichlet(k, a))));
    })(a);
  });
  const rows a{{0.3, 1, 2.5, 40}, {7, 1000, 0.9, 3}};
  const auto want = slopes(a).to_vector(), got = slopes(a.to(gpu)).to(device::cpu()).to_vector();
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-9));
}
