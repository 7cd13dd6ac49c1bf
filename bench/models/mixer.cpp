// bench/models/mixer.cpp: an MLP-Mixer (Tolstikhin et al., 2021): perceptrons over patches and over channels in turn.
#include "patches.hpp"

namespace models {
namespace {

struct mlp {
  scale_and_shift before;
  linear up, down;
};

struct block {
  mlp over_patches, over_channels;
};

struct network {
  linear patches;
  std::vector<block> blocks;
  scale_and_shift last;
  linear head;
  int side;
};

sequence apply(const block& b, const sequence& x) {
  const sequence across = transpose(evaluate(apply(b.over_patches.before, x)));
  const sequence mixed = apply(b.over_patches.down, gelu(apply(b.over_patches.up, across)));
  const sequence h = x + transpose(mixed);
  const auto& c = b.over_channels;
  return h + apply(c.down, gelu(apply(c.up, apply(c.before, h))));
}

matrix logits(const network& net, const images& x) {
  sequence h = apply(net.patches, to_patches(x, net.side));
  for (const block& b : net.blocks) h = apply(b, h);
  return apply(net.head, mean(apply(net.last, h), axis<1>));
}

tensor<float, 0> loss(const network& net, const images& x, const labels& y) { return cross_entropy(logits(net, x), y); }

network make_network(int pixels, int side, int width, int classes, int layers) {
  key_stream keys(10);
  const auto dense = [&](int in, int out) { return make_linear(keys, in, out); };
  const int patches = pixels / side * (pixels / side);
  network net{dense(side * side * 3, width), {}, make_norm(width), dense(width, classes), side};
  for (int i = 0; i < layers; ++i)
    net.blocks.push_back({{make_norm(width), dense(patches, width / 2), dense(width / 2, patches)},
                          {make_norm(width), dense(width, 4 * width), dense(4 * width, width)}});
  return net;
}

}  // namespace

std::vector<row> mixer_rows() {
  const auto train = [](const settings& s) {
    const int pixels = s.small ? 16 : 224, layers = s.layers_or(8, 2), batch = s.batch_or(2, 3),
              classes = s.small ? 5 : 1000;
    network net =
        s.small ? make_network(pixels, 4, 24, classes, layers) : make_network(pixels, 16, 256, classes, layers);
    return descended(s, "mixer_train", &loss, std::move(net), normal<float>(make_key(11), batch, pixels, pixels, 3),
                     randint<std::int64_t>(make_key(12), 0, classes, batch));
  };
  return {{"mixer_train", true, 1e-4f, train}};
}

}  // namespace models
