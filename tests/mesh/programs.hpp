// tests/mesh/programs.hpp: axes, placed programs and whole programs, and numbers for them.
#pragma once

#include <doctest/doctest.h>

#include <sinter/mesh.hpp>

#include "../close.hpp"

namespace programs {

using namespace sinter;

struct dp : mesh_axis {};
struct tp : mesh_axis {};

using W = placed<tensor<double, 2>, shard<tp, 1>, invariant<dp>>;
using X = placed<tensor<double, 2>, shard<dp, 0>, replicated<tp>>;
using loss_type = placed<tensor<double, 0>, invariant<dp>, invariant<tp>>;

/// (m, n), numbers that repeat nowhere.
inline tensor<double, 2> some(std::int64_t m, std::int64_t n, double seed = 0) {
  const tensor<double, 2> k = reshape(arange<double>(m * n), m, n);
  return sin(k * 1.7 + seed) + 0.1 * cos(k * k * 0.37 + seed);
}

inline loss_type loss(W w, X x) {
  auto h = relu(matmul(x, as<replicated<dp>>(w)));
  return all_reduce<invariant<dp>, invariant<tp>>(as<partial<dp>, partial<tp>>(sum(square(h))));
}
inline tensor<double, 0> whole_loss(tensor<double, 2> w, tensor<double, 2> x) {
  return sum(square(relu(matmul(x, w))));
}

/// Two layers: columns, then rows of the weights are divided, as tensor parallelism does.
struct layers {
  placed<tensor<double, 2>, shard<tp, 1>> up;
  placed<tensor<double, 2>, shard<tp, 0>> down;
};
inline loss_type layers_loss(layers p, X x) {
  auto h = tanh(matmul(x, as<replicated<dp>>(p.up)));
  auto y = all_reduce<invariant<tp>>(matmul(h, as<replicated<dp>>(p.down)));
  return all_reduce<invariant<dp>>(sum(square(y)));
}
inline tensor<double, 0> whole_layers_loss(tensor<double, 2> up, tensor<double, 2> down, tensor<double, 2> x) {
  return sum(square(matmul(tanh(matmul(x, up)), down)));
}

/// Elements of a tensor that other threads do not touch.
template <class T>
std::vector<double> numbers_of(const T& x) {
  return cast<double>(x).to_vector();
}

}  // namespace programs
