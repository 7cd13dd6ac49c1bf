// bench/models/unet.cpp: a graph with skip connections, in the shape of a U-Net (Ronneberger et al., 2015). Convolutions are
// products of patches, which are padded slices side by side.
#include "patches.hpp"

namespace models {
namespace {

/// Two convolutions of 3 x 3.
struct pair_of_convolutions {
  linear first, second;
};

struct network {
  std::vector<pair_of_convolutions> down;
  pair_of_convolutions bottom;
  std::vector<pair_of_convolutions> up;  ///< the outermost last
  linear last;
};

/// x (batch, height, width, channels) by weights (9 · channels, out).
images convolve(const linear& layer, const images& x) {
  const images padded = pad(x, {{0, 0}, {1, 1}, {1, 1}, {0, 0}});
  std::vector<images> shifted;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) shifted.push_back(slice<2>(slice<1>(padded, i, i + x.size(1)), j, j + x.size(2)));
  return apply(layer, concat(shifted, axis<3>));
}

images apply(const pair_of_convolutions& p, const images& x) {
  return relu(convolve(p.second, relu(convolve(p.first, x))));
}

/// The mean of each square of 2 x 2.
images halve(const images& x) {
  return mean(reshape(x, x.size(0), x.size(1) / 2, 2, x.size(2) / 2, 2, x.size(3)), axis<2, 4>);
}

/// Each element four times.
images twice(const images& x) {
  const dim b = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3);
  return reshape(broadcast_to(reshape(x, b, h, 1, w, 1, c), b, h, 2, w, 2, c), b, 2 * h, 2 * w, c);
}

images predict(const network& net, images x) {
  std::vector<images> skipped;
  for (const auto& level : net.down) {
    skipped.push_back(apply(level, x));
    x = halve(skipped.back());
  }
  x = apply(net.bottom, x);
  for (const auto& level : net.up) {
    x = apply(level, concat<3>(twice(x), skipped.back()));
    skipped.pop_back();
  }
  return apply(net.last, x);
}

tensor<float, 0> loss(const network& net, const images& x, const images& y) { return mse_loss(predict(net, x), y); }

network make_network(int channels, int levels) {
  key_stream keys(15);
  const auto two = [&](int in, int out) {
    return pair_of_convolutions{make_linear(keys, 9 * in, out), make_linear(keys, 9 * out, out)};
  };
  network net;
  int in = 3;
  for (int i = 0, c = channels; i < levels; ++i, c *= 2) {
    net.down.push_back(two(in, c));
    in = c;
  }
  net.bottom = two(in, 2 * in);
  for (int i = 0; i < levels; ++i, in /= 2) net.up.push_back(two(3 * in, in));
  net.last = make_linear(keys, channels, 3);
  return net;
}

}  // namespace

std::vector<row> unet_rows() {
  const auto train = [](const settings& s) {
    const int pixels = s.small ? 8 : 64, batch = s.batch_or(2, 2);
    network net = s.small ? make_network(4, s.layers_or(3, 2)) : make_network(16, s.layers_or(3, 2));
    return descended(s, "unet_train", &loss, std::move(net), normal<float>(make_key(16), batch, pixels, pixels, 3),
                     normal<float>(make_key(17), batch, pixels, pixels, 3));
  };
  return {{"unet_train", true, 1e-4f, train}};
}

}  // namespace models
