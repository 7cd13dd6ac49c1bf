// bench/models/vit.cpp: a vision transformer (Dosovitskiy et al., 2020).
#include "patches.hpp"

namespace models {
namespace {

struct block {
  scale_and_shift before_attention;
  linear q, k, v, out;
  scale_and_shift before_mlp;
  linear up, down;
};

struct network {
  linear patches;
  matrix positions;
  vector summary;
  std::vector<block> blocks;
  scale_and_shift last;
  linear head;
  int heads, side;
};

sequence apply(const block& b, const sequence& x, int heads) {
  const sequence y = apply(b.before_attention, x);
  const sequence h = x + apply(b.out, from_heads(attend(to_heads(evaluate(apply(b.q, y)), heads),
                                                        to_heads(evaluate(apply(b.k, y)), heads),
                                                        to_heads(evaluate(apply(b.v, y)), heads), false)));
  return h + apply(b.down, gelu(apply(b.up, apply(b.before_mlp, h))));
}

matrix logits(const network& net, const images& x) {
  const sequence patches = apply(net.patches, to_patches(x, net.side));
  const auto summary = broadcast_to(net.summary, patches.size(0), 1, -1);
  sequence h = concat<1>(summary, patches) + net.positions;
  for (const block& b : net.blocks) h = apply(b, h, net.heads);
  return apply(net.head, apply(net.last, squeeze(slice<1>(h, 0, 1), axis<1>)));
}

tensor<float, 0> loss(const network& net, const images& x, const labels& y) { return cross_entropy(logits(net, x), y); }

network make_network(int pixels, int side, int width, int heads, int classes, int layers) {
  key_stream keys(7);
  const auto dense = [&](int in, int out) { return make_linear(keys, in, out); };
  const int patches = pixels / side * (pixels / side);
  network net{dense(side * side * 3, width),
              normal<float>(keys(), patches + 1, width) * 0.02f,
              normal<float>(keys(), width) * 0.02f,
              {},
              make_norm(width),
              dense(width, classes),
              heads,
              side};
  for (int i = 0; i < layers; ++i)
    net.blocks.push_back({make_norm(width), dense(width, width), dense(width, width), dense(width, width),
                          dense(width, width), make_norm(width), dense(width, 4 * width), dense(4 * width, width)});
  return net;
}

network network_for(const settings& s) {
  return s.small ? make_network(16, 4, 24, 3, 5, s.layers_or(12, 2))
                 : make_network(224, 16, 384, 6, 1000, s.layers_or(12, 2));
}

images images_for(const settings& s) {
  const int pixels = s.small ? 16 : 224;
  return normal<float>(make_key(8), s.batch_or(2, 3), pixels, pixels, 3);
}

}  // namespace

std::vector<row> vit_rows() {
  const auto forward = [](const settings& s) {
    return called(s, "vit_forward", &logits, network_for(s), images_for(s));
  };
  const auto train = [](const settings& s) {
    const auto y = randint<std::int64_t>(make_key(9), 0, s.small ? 5 : 1000, s.batch_or(2, 3));
    return descended(s, "vit_train", &loss, network_for(s), images_for(s), y);
  };
  return {{"vit_forward", false, 1e-4f, forward}, {"vit_train", true, 1e-4f, train}};
}

}  // namespace models
