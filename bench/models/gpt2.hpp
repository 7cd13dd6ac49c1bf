// bench/models/gpt2.hpp: GPT-2 (Radford et al., 2019): 124 million parameters with 12 layers.
#pragma once

#include "layers.hpp"

namespace models::gpt2 {

struct block {
  scale_and_shift before_attention;
  linear qkv, out;
  scale_and_shift before_mlp;
  linear up, down;
};

struct network {
  matrix tokens, positions;
  std::vector<block> blocks;
  scale_and_shift last;
  int heads;
};

struct configuration {
  int vocabulary = 50257, positions = 1024, width = 768, heads = 12;
};

inline block make_block(key_stream& keys, int width) {
  return {make_norm(width), make_linear(keys, width, 3 * width), make_linear(keys, width, width),
          make_norm(width), make_linear(keys, width, 4 * width), make_linear(keys, 4 * width, width)};
}

inline network make_network(const configuration& c, int layers) {
  key_stream keys(1);
  network net{normal<float>(keys(), c.vocabulary, c.width) * 0.02f,
              normal<float>(keys(), c.positions, c.width) * 0.01f,
              {},
              make_norm(c.width),
              c.heads};
  for (int i = 0; i < layers; ++i) net.blocks.push_back(make_block(keys, c.width));
  return net;
}

inline sequence attention(const block& b, const sequence& x, int heads) {
  const auto parts = split<2, 3>(evaluate(apply(b.qkv, x)));
  return apply(
      b.out, from_heads(attend(to_heads(parts[0], heads), to_heads(parts[1], heads), to_heads(parts[2], heads), true)));
}

inline sequence apply(const block& b, const sequence& x, int heads) {
  const sequence h = x + attention(b, models::apply(b.before_attention, x), heads);
  return h + models::apply(b.down, gelu_tanh(models::apply(b.up, models::apply(b.before_mlp, h))));
}

inline sequence logits(const network& net, const ids& text) {
  sequence x = take(net.tokens, text) + slice<0>(net.positions, 0, text.size(1));
  for (const block& b : net.blocks) x = apply(b, x, net.heads);
  return matmul(models::apply(net.last, x), transpose(net.tokens));
}

inline tensor<float, 0> loss(const network& net, const ids& text, const ids& next) {
  return cross_entropy(logits(net, text), next);
}

}  // namespace models::gpt2
