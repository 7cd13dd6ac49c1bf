// models/vit.hpp: the vision transformer (Dosovitskiy et al., 2021).
#pragma once

#include "files.hpp"

namespace sinter::models::vit {

template <class T>
struct layer {
  nn::layer_norm<T> layernorm_before, layernorm_after;
  nn::self_attention<T> attention;
  nn::linear<T> intermediate, output;
};

template <class T = float>
struct model {
  tensor<T, 3> cls_token, position_embeddings;  ///< (1, 1, width), (1, 1 + patches, width)
  nn::conv2d<T> projection;
  std::vector<layer<T>> layers;
  nn::layer_norm<T> layernorm;
  std::optional<nn::linear<T>> pooler, classifier;
  activation act = activation::gelu;
};

/// The last layer's output for images (batch, channels, height, width): (batch, 1 + patches, features). user_error for images
/// whose size is not the model's.
template <class T, tensor_like X>
tensor<T, 3> hidden(const model<T>& m, const X& images, location at = location::current()) {
  const tensor<T, 4> patches = m.projection(images);
  const dim batch = patches.size(0), features = patches.size(1), count = patches.size(2) * patches.size(3);
  if (count + 1 != m.position_embeddings.size(1))
    fail("models::vit::hidden",
         "the images have " + std::to_string(std::int64_t(count)) + " patches, the model " +
             std::to_string(std::int64_t(m.position_embeddings.size(1)) - 1) +
             "; resize them to its image_size with interpolate",
         at);
  const tensor<T, 3> rows = swapaxes<1, 2>(reshape(patches, batch, features, count)),
                     first = broadcast_to(m.cls_token, std::array<dim, 3>{batch, 1, features});
  tensor<T, 3> x = concat<1>(first, rows) + m.position_embeddings;
  for (const layer<T>& l : m.layers) {
    x = x + l.attention(l.layernorm_before(x));
    x = x + l.output(activated(m.act, l.intermediate(l.layernorm_after(x))));
  }
  return m.layernorm(x);
}
/// Scores of the classes: (batch, classes). user_error for a model without a classifier.
template <class T, tensor_like X>
tensor<T, 2> logits(const model<T>& m, const X& images, location at = location::current()) {
  if (!m.classifier) fail("models::vit::logits", "the model has no classifier; use what hidden gives", at);
  return (*m.classifier)(models::detail::first_place(hidden(m, images, at)));
}

/// The model in a folder with config.json and model.safetensors or its shards, or of one of these files. user_error for
/// another kind of model; user_error that names every weight that is missing or has other extents. system_error for
/// unreadable files.
template <element T = float>
model<T> load(const std::string& path, const load_options& how = {}, location here = location::current()) {
  detail::files f("models::vit::load", path, {"vit"}, how, here);
  std::optional<nn::linear<T>> classifier;
  const std::int64_t width = f.whole("hidden_size"), hidden = f.whole("intermediate_size"),
                     heads = f.heads("num_attention_heads", width), patch = f.whole("patch_size", 16),
                     channels = f.whole("num_channels", 3);
  const double eps = f.number("layer_norm_eps", 1e-12);
  if (f.has("classifier.weight")) classifier = f.linear<T>("classifier", width, f.rows("classifier.weight"));
  if (!f.has("embeddings.cls_token")) f.prefix = "vit.";
  const std::int64_t along = patch == 0 ? 0 : f.whole("image_size", 224) / patch;
  const std::string e = "embeddings.", p = e + "patch_embeddings.projection";
  model<T> m{f.array<T, 3>(e + "cls_token", {1, 1, width}),
             f.array<T, 3>(e + "position_embeddings", {1, along * along + 1, width}),
             {f.array<T, 4>(p + ".weight", {width, channels, patch, patch}), f.array<T, 1>(p + ".bias", {width}),
              conv_options{.stride = patch}},
             {},
             f.layer_norm<T>("layernorm", width, eps),
             {},
             std::move(classifier),
             f.act("hidden_act", "gelu")};
  for (std::int64_t i = 0; i < f.whole("num_hidden_layers"); ++i) {
    const std::string at = "encoder.layer." + std::to_string(i) + ".", mix = at + "attention.attention.";
    m.layers.push_back(
        {f.layer_norm<T>(at + "layernorm_before", width, eps), f.layer_norm<T>(at + "layernorm_after", width, eps),
         nn::self_attention<T>{f.linear<T>({mix + "query", mix + "key", mix + "value"}, width, {width, width, width}),
                               f.linear<T>(at + "attention.output.dense", width, width),
                               heads,
                               heads,
                               {}},
         f.linear<T>(at + "intermediate.dense", width, hidden), f.linear<T>(at + "output.dense", hidden, width)});
  }
  if (f.has("pooler.dense.weight")) m.pooler = f.linear<T>("pooler.dense", width, width);
  f.finish();
  return m;
}

}  // namespace sinter::models::vit
