// bench/models/resnet.cpp: ResNet-50 (He et al., 2015; strides in the 3x3 convolutions): forward, and a step of training in f32 and with
// convolutions in bf16.
#include <sinter/nn.hpp>

#include "layers.hpp"

namespace models {
namespace {

using images = tensor<float, 4>;
using conv = nn::conv2d<float>;
using norm = nn::batch_norm<float>;
using statistics = nn::running_statistics<float>;

struct shortcut {
  conv c;
  norm n;
};

struct bottleneck {
  conv c1, c2, c3;
  norm n1, n2, n3;
  std::optional<shortcut> across;  // where channels or extents change
};

struct network {
  conv first;
  norm n;
  std::vector<bottleneck> blocks;
  nn::linear<float> head;
};

conv make_conv(key_stream& keys, std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride = 1) {
  return conv::init(keys(), in, out, side,
                    {.stride = stride, .padding = side / 2, .bias = false, .weight = nn::he_normal()});
}

bottleneck make_block(key_stream& keys, std::int64_t in, std::int64_t width, std::int64_t stride) {
  const std::int64_t out = 4 * width;
  bottleneck b{make_conv(keys, in, width, 1),
               make_conv(keys, width, width, 3, stride),
               make_conv(keys, width, out, 1),
               norm::init(width),
               norm::init(width),
               norm::init(out),
               std::nullopt};
  if (in != out || stride != 1) b.across = shortcut{make_conv(keys, in, out, 1, stride), norm::init(out)};
  return b;
}

network make_network(const settings& s) {
  key_stream keys(17);
  const std::vector<int> depths = s.small ? std::vector{1, 2} : std::vector{3, 4, 6, 3};
  std::int64_t width = s.small ? 4 : 64, in = width;
  network net{make_conv(keys, 3, width, 7, 2), norm::init(width), {}, {}};
  for (std::size_t level = 0; level < depths.size(); ++level, width *= 2)
    for (int i = 0; i < depths[level]; ++i) {
      net.blocks.push_back(make_block(keys, in, width, level > 0 && i == 0 ? 2 : 1));
      in = 4 * width;
    }
  net.head = nn::linear<float>::init(keys(), in, s.small ? 5 : 1000);
  return net;
}

images apply(const bottleneck& b, const nn::pass<float>& pass, const images& x) {
  const images y = relu(b.n1(b.c1(x), pass));
  const images z = b.n3(b.c3(relu(b.n2(b.c2(y), pass))), pass);
  return relu(z + (b.across ? images(b.across->n(b.across->c(x), pass)) : x));
}

matrix logits(const network& net, const nn::pass<float>& pass, const images& x) {
  images h = max_pool2d(relu(net.n(net.first(x), pass)), 3, {.stride = 2, .padding = 1});
  for (const bottleneck& b : net.blocks) h = apply(b, pass, h);
  return net.head(mean(h, axis<2, 3>));
}

struct progress {
  training<network> of;
  statistics s;
};

std::pair<tensor<float, 0>, progress> step(const progress& p, const images& x, const labels& y) {
  const auto loss = [&](const network& net) {
    const nn::pass pass(net, p.s, nn::training);
    return std::pair{tensor<float, 0>(cross_entropy(logits(net, pass, x), y)), pass.state()};
  };
  auto [result, gradient] = value_and_grad(loss, has_aux)(p.of.net);
  return {result.first, progress{adamw(p.of, gradient), result.second}};
}

images pictures(const settings& s) {
  const int pixels = s.small ? 32 : 224;
  return normal<float>(make_key(18), s.batch_or(32, 4), 3, pixels, pixels);
}

labels kinds(const settings& s) {
  return randint<std::int64_t>(make_key(19), 0, s.small ? 5 : 1000, s.batch_or(32, 4));
}

workload forward(const settings& s) {
  const network net = make_network(s);
  return called(
      s, "resnet50_forward",
      [](const network& net, const statistics& of, const images& x) {
        return logits(net, {net, of, nn::inference}, x);
      },
      net, nn::state(net), pictures(s));
}

template <class Step>
workload train(const settings& s, const char* name, Step of_step) {
  network net = make_network(s);
  const statistics of = nn::state(net);
  return trained(s, name, of_step, progress{start(std::move(net)), of}, pictures(s), kinds(s));
}

}  // namespace

std::vector<row> resnet_rows() {
  return {{"resnet50_forward", false, 1e-4f, forward},
          {"resnet50_train", true, 1e-3f, [](const settings& s) { return train(s, "resnet50_train", &step); }},
          {"resnet50_train_bf16", true, 5e-2f,
           [](const settings& s) { return train(s, "resnet50_train_bf16", autocast<bf16>(&step)); }}};
}

}  // namespace models
