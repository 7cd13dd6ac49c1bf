// bench/models/llama.cpp: a stack of blocks as in Llama (Touvron et al., 2023): RMSNorm, rotary positions, SwiGLU, grouped heads.
#include "layers.hpp"

namespace models {
namespace {

struct block {
  vector before_attention, before_mlp;
  matrix q, k, v, out;
  matrix gate, up, down;
};

struct network {
  matrix tokens;
  std::vector<block> blocks;
  vector last;
  matrix head;
  int heads, groups;
};

/// (cos, sin) of position · frequency, each (length, width / 2).
std::pair<matrix, matrix> rotations(dim length, dim width) {
  const tensor<float, 1> place = arange<float>(length);
  const tensor<float, 1> frequency =
      exp(arange<float>(width / 2) * (-2 * std::log(10000.f)) / static_cast<float>(static_cast<std::int64_t>(width)));
  const matrix angle = expand_dims(place, axis<1>) * frequency;
  return {cos(angle), sin(angle)};
}

/// The halves of the last axis, turned by the angle of each position.
tensor<float, 4> rotate(const tensor<float, 4>& x, const std::pair<matrix, matrix>& by) {
  const auto half = split<3, 2>(x);
  return concat<3>(half[0] * by.first - half[1] * by.second, half[1] * by.first + half[0] * by.second);
}

/// Keys or values of each group for all heads of it.
tensor<float, 4> for_all_heads(const tensor<float, 4>& x, int heads) {
  const dim batch = x.size(0), groups = x.size(1), length = x.size(2), width = x.size(3);
  return reshape(broadcast_to(expand_dims(x, axis<2>), batch, groups, heads / groups, length, width), batch, heads,
                 length, width);
}

sequence attention(const block& b, const sequence& x, const network& net) {
  const tensor<float, 4> q = to_heads(matmul(x, b.q), net.heads), k = to_heads(matmul(x, b.k), net.groups),
                         v = to_heads(matmul(x, b.v), net.groups);
  const auto by = rotations(x.size(1), q.size(3));
  return matmul(
      from_heads(attend(rotate(q, by), for_all_heads(rotate(k, by), net.heads), for_all_heads(v, net.heads), true)),
      b.out);
}

sequence apply(const block& b, const sequence& x, const network& net) {
  const sequence h = x + attention(b, rms_norm(x, b.before_attention), net);
  const sequence y = rms_norm(h, b.before_mlp);
  return h + matmul(silu(matmul(y, b.gate)) * matmul(y, b.up), b.down);
}

sequence logits(const network& net, const ids& text) {
  sequence x = take(net.tokens, text);
  for (const block& b : net.blocks) x = apply(b, x, net);
  return matmul(rms_norm(x, net.last), net.head);
}

tensor<float, 0> loss(const network& net, const ids& text, const ids& next) {
  return cross_entropy(logits(net, text), next);
}

network make_network(int vocabulary, int width, int heads, int groups, int inner, int layers) {
  key_stream keys(4);
  const auto weight = [&](int in, int out) { return matrix(make_linear(keys, in, out).w); };
  const int narrow = width / heads * groups;
  network net{weight(vocabulary, width), {}, ones<float>(width), weight(width, vocabulary), heads, groups};
  for (int i = 0; i < layers; ++i)
    net.blocks.push_back({ones<float>(width), ones<float>(width), weight(width, width), weight(width, narrow),
                          weight(width, narrow), weight(width, width), weight(width, inner), weight(width, inner),
                          weight(inner, width)});
  return net;
}

network network_for(const settings& s) {
  const int layers = s.layers_or(8, 2);
  return s.small ? make_network(61, 32, 4, 2, 40, layers) : make_network(8000, 512, 8, 2, 1376, layers);
}

ids text_for(const settings& s, std::uint64_t seed) {
  return randint<std::int64_t>(make_key(seed), 0, s.small ? 61 : 8000, s.batch_or(1, 2), s.length_or(128, 10));
}

}  // namespace

std::vector<row> llama_rows() {
  const auto forward = [](const settings& s) {
    return called(s, "llama_forward", &logits, network_for(s), text_for(s, 5));
  };
  const auto train = [](const settings& s) {
    return descended(s, "llama_train", &loss, network_for(s), text_for(s, 5), text_for(s, 6));
  };
  return {{"llama_forward", false, 1e-4f, forward}, {"llama_train", true, 1e-4f, train}};
}

}  // namespace models
