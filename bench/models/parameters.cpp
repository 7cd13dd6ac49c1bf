// bench/models/parameters.cpp: a thousand small parameters that have nothing to do with one another.
#include "layers.hpp"

namespace models {
namespace {

using parameters = std::vector<vector>;

parameters make_parameters(const settings& s, std::uint64_t seed) {
  key_stream keys(seed);
  parameters all;
  for (int i = 0, count = s.small ? 40 : 1000; i < count; ++i) all.push_back(normal<float>(keys(), 64));
  return all;
}

/// How far they are from others.
tensor<float, 0> loss(const parameters& p, const parameters& wanted) {
  const auto apart = tree_map([](auto p, auto w) { return mse_loss(p, w); }, p, wanted);
  return tree_reduce([](auto sum, auto x) { return sum + x; }, apart, zeros<float>()) / static_cast<float>(p.size());
}

std::pair<tensor<float, 0>, parameters> sgd(const parameters& p, const parameters& wanted) {
  auto [l, gradient] = value_and_grad(&loss)(p, wanted);
  return {l, tree_map([](auto p, auto g) { return p - 0.1f * g; }, p, gradient)};
}

}  // namespace

std::vector<row> parameter_rows() {
  const auto plain = [](const settings& s) {
    return trained(s, "parameters_sgd", &sgd, make_parameters(s, 18), make_parameters(s, 19));
  };
  const auto adam = [](const settings& s) {
    return descended(s, "parameters_adam", &loss, make_parameters(s, 18), make_parameters(s, 19));
  };
  return {{"parameters_sgd", true, 1e-4f, plain}, {"parameters_adam", true, 1e-4f, adam}};
}

}  // namespace models
