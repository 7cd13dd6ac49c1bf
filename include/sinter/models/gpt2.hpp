// models/gpt2.hpp: GPT-2 (Radford et al., 2019).
#pragma once

#include "files.hpp"

namespace sinter::models::gpt2 {

template <class T>
struct block {
  nn::layer_norm<T> ln_1, ln_2;
  nn::self_attention<T> attn;
  nn::linear<T> c_fc, c_proj;
};

template <class T = float>
struct model {
  nn::embedding<T> wte, wpe;
  std::vector<block<T>> h;
  nn::layer_norm<T> ln_f;
  activation act = activation::gelu_tanh;
};

/// Keys and values of each block, with room for further tokens.
template <class T>
using caches = std::vector<attention_cache<T, 4>>;

/// The last block's output for tokens (batch, places): (batch, places, width).
template <class T, tensor_like I>
tensor<T, 3> hidden(const model<T>& m, const I& ids) {
  tensor<T, 3> x = m.wte(ids) + m.wpe(arange<std::int64_t>(ids.size(1)));
  for (const block<T>& b : m.h) {
    x = x + b.attn(b.ln_1(x), causal);
    x = x + b.c_proj(activated(m.act, b.c_fc(b.ln_2(x))));
  }
  return m.ln_f(x);
}
/// The output for tokens that follow the tokens in the caches, and the extended caches.
template <class T, tensor_like I>
std::pair<tensor<T, 3>, caches<T>> hidden(const model<T>& m, const I& ids, caches<T> c) {
  tensor<T, 3> x = m.wte(ids) + m.wpe(arange<std::int64_t>(ids.size(1)) + c.at(0).length), y;
  for (std::size_t i = 0; i < m.h.size(); ++i) {
    const block<T>& b = m.h[i];
    std::tie(y, c[i]) = b.attn(b.ln_1(x), c[i], causal);
    x = x + y;
    x = x + b.c_proj(activated(m.act, b.c_fc(b.ln_2(x))));
  }
  return {m.ln_f(x), std::move(c)};
}

/// Scores of all tokens from the output of `hidden`: (…, width) to (…, tokens).
template <class T, tensor_like X>
tensor<T, X::rank> scores(const model<T>& m, const X& x) {
  return matmul(x, transpose(m.wte.weight));
}
/// Scores of the next token at each place: (batch, places, tokens).
template <class T, tensor_like I>
tensor<T, 3> logits(const model<T>& m, const I& ids) {
  return scores(m, hidden(m, ids));
}

/// Caches for a batch with this number of places.
template <class T>
caches<T> room(const model<T>& m, std::int64_t batch, std::int64_t places) {
  caches<T> c;
  for (const block<T>& b : m.h) c.push_back(b.attn.cache(batch, places));
  return c;
}

/// The model in a folder with config.json and model.safetensors or its shards, or of one of these files. user_error for
/// another kind of model; user_error that names every weight that is missing or has other extents. system_error for
/// unreadable files.
template <element T = float>
model<T> load(const std::string& path, const load_options& how = {}, location here = location::current()) {
  detail::files f("models::gpt2::load", path, {"gpt2"}, how, here);
  f.expect("scale_attn_weights", "true");
  f.expect("scale_attn_by_inverse_layer_idx", "false");
  f.expect("add_cross_attention", "false");
  if (!f.has("wte.weight")) f.prefix = "transformer.";
  const std::int64_t width = f.whole("n_embd"), hidden = f.whole("n_inner", 4 * width),
                     heads = f.heads("n_head", width);
  const double eps = f.number("layer_norm_epsilon", 1e-5);
  // GPT-2's maps are stored as (in, out).
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return nn::linear<T>{f.array<T, 2>(name + ".weight", {in, out}), f.array<T, 1>(name + ".bias", {out})};
  };
  model<T> m{f.embedding<T>("wte", f.whole("vocab_size"), width),
             f.embedding<T>("wpe", f.whole("n_positions", 1024), width),
             {},
             f.layer_norm<T>("ln_f", width, eps),
             f.act("activation_function", "gelu_new")};
  for (std::int64_t i = 0; i < f.whole("n_layer"); ++i) {
    const std::string at = "h." + std::to_string(i) + ".";
    m.h.push_back(
        {f.layer_norm<T>(at + "ln_1", width, eps), f.layer_norm<T>(at + "ln_2", width, eps),
         nn::self_attention<T>{
             linear(at + "attn.c_attn", width, 3 * width), linear(at + "attn.c_proj", width, width), heads, heads, {}},
         linear(at + "mlp.c_fc", width, hidden), linear(at + "mlp.c_proj", hidden, width)});
  }
  f.finish();
  return m;
}

}  // namespace sinter::models::gpt2
