// bench/models/residual.cpp: a perceptron of 200 residual layers.
#include "layers.hpp"

namespace models {
namespace {

struct network {
  linear first;
  std::vector<linear> layers;
  linear last;
};

tensor<float, 0> loss(const network& net, const matrix& x, const labels& y) {
  matrix h = apply(net.first, x);
  for (const linear& l : net.layers) h = h + 0.1f * relu(apply(l, h));
  return cross_entropy(apply(net.last, h), y);
}

}  // namespace

std::vector<row> residual_rows() {
  const auto train = [](const settings& s) {
    const int width = s.small ? 16 : 128, batch = s.batch_or(64, 8), layers = s.layers_or(200, 20);
    key_stream keys(14);
    network net{make_linear(keys, 32, width), {}, make_linear(keys, width, 10)};
    for (int i = 0; i < layers; ++i) net.layers.push_back(make_linear(keys, width, width));
    return descended(s, "residual_train", &loss, std::move(net), normal<float>(keys(), batch, 32),
                     randint<std::int64_t>(keys(), 0, 10, batch));
  };
  return {{"residual_train", true, 1e-4f, train}};
}

}  // namespace models
