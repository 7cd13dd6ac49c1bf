// models/bert.hpp: BERT (Devlin et al., 2019).
#pragma once

#include "files.hpp"

namespace sinter::models::bert {

template <class T>
struct layer {
  nn::self_attention<T> attention;
  nn::layer_norm<T> attention_norm;
  nn::linear<T> intermediate, output;
  nn::layer_norm<T> output_norm;
};

template <class T = float>
struct model {
  nn::embedding<T> word_embeddings, position_embeddings, token_type_embeddings;
  nn::layer_norm<T> norm;
  std::vector<layer<T>> layers;
  std::optional<nn::linear<T>> pooler;
  activation act = activation::gelu;
};

namespace detail {
using models::detail::files;

template <class T, class I, class Types, class... Mask>
tensor<T, 3> encoded(const model<T>& m, const I& ids, const Types& types, const Mask&... mask) {
  tensor<T, 3> x = m.norm(m.word_embeddings(ids) + m.token_type_embeddings(types) +
                          m.position_embeddings(arange<std::int64_t>(ids.size(1))));
  for (const layer<T>& l : m.layers) {
    x = l.attention_norm(x + l.attention(x, mask...));
    x = l.output_norm(x + l.output(activated(m.act, l.intermediate(x))));
  }
  return x;
}
}  // namespace detail

/// The last layer's output for tokens (batch, places): (batch, places, width). `types` has the sentence of each token,
/// integers that broadcast to the tokens. `mask` (batch, places) is false for padding.
template <class T, tensor_like I, tensor_like Types, tensor_like Mask>
tensor<T, 3> hidden(const model<T>& m, const I& ids, const Types& types, const Mask& mask) {
  const tensor<bool, 2> seen = mask;
  return detail::encoded(m, ids, types, masked(tensor<bool, 4>(reshape(seen, seen.size(0), 1, 1, seen.size(1)))));
}
template <class T, tensor_like I, tensor_like Types>
tensor<T, 3> hidden(const model<T>& m, const I& ids, const Types& types) {
  return detail::encoded(m, ids, types);
}
/// The last layer's output for tokens of the first sentence.
template <class T, tensor_like I>
tensor<T, 3> hidden(const model<T>& m, const I& ids) {
  return detail::encoded(m, ids, zeros<std::int64_t>(1, 1));
}

/// A summary of the output of `hidden`, from its first place: (batch, width). user_error for a model without a pooler.
template <class T>
tensor<T, 2> pooled(const model<T>& m, const tensor<T, 3>& x, location at = location::current()) {
  if (!m.pooler) fail("models::bert::pooled", "the model has no pooler; use the hidden state of its first place", at);
  return tanh((*m.pooler)(models::detail::first_place(x)));
}

/// The model in a folder with config.json and model.safetensors or its shards, or of one of these files. user_error for
/// another kind of model; user_error that names every weight that is missing or has other extents. system_error for
/// unreadable files.
template <element T = float>
model<T> load(const std::string& path, const load_options& how = {}, location here = location::current()) {
  detail::files f("models::bert::load", path, {"bert"}, how, here);
  f.expect("position_embedding_type", "absolute");
  f.expect("is_decoder", "false");
  f.expect("add_cross_attention", "false");
  if (!f.has("embeddings.word_embeddings.weight")) f.prefix = "bert.";
  const std::int64_t width = f.whole("hidden_size"), hidden = f.whole("intermediate_size"),
                     heads = f.heads("num_attention_heads", width);
  const double eps = f.number("layer_norm_eps", 1e-12);
  // Files of earlier versions use TensorFlow's names.
  const auto norm = [&](const std::string& name) {
    if (!f.has(name + ".gamma")) return f.layer_norm<T>(name, width, eps);
    return nn::layer_norm<T>{f.array<T, 1>(name + ".gamma", {width}), f.array<T, 1>(name + ".beta", {width}), eps};
  };
  const std::string e = "embeddings.";
  model<T> m{f.embedding<T>(e + "word_embeddings", f.whole("vocab_size"), width),
             f.embedding<T>(e + "position_embeddings", f.whole("max_position_embeddings", 512), width),
             f.embedding<T>(e + "token_type_embeddings", f.whole("type_vocab_size", 2), width),
             norm(e + "LayerNorm"),
             {},
             {},
             f.act("hidden_act", "gelu")};
  for (std::int64_t i = 0; i < f.whole("num_hidden_layers"); ++i) {
    const std::string at = "encoder.layer." + std::to_string(i) + ".", mix = at + "attention.self.";
    m.layers.push_back(
        {nn::self_attention<T>{f.linear<T>({mix + "query", mix + "key", mix + "value"}, width, {width, width, width}),
                               f.linear<T>(at + "attention.output.dense", width, width),
                               heads,
                               heads,
                               {}},
         norm(at + "attention.output.LayerNorm"), f.linear<T>(at + "intermediate.dense", width, hidden),
         f.linear<T>(at + "output.dense", hidden, width), norm(at + "output.LayerNorm")});
  }
  if (f.has("pooler.dense.weight")) m.pooler = f.linear<T>("pooler.dense", width, width);
  f.finish();
  return m;
}

}  // namespace sinter::models::bert
