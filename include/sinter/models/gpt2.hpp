// models/gpt2.hpp: GPT-2 (Radford et al., 2019).
#pragma once

#include "files.hpp"

namespace sinter::models::gpt2 {

template <class T, class Map = nn::linear<T>>
struct block {
  nn::layer_norm<T> ln_1, ln_2;
  nn::self_attention<T, nn::unplaced, Map> attn;
  Map c_fc, c_proj;
};

/// `Map`: nn::linear<T>, or stored_linear<T>, whose weights may be blocks of integers.
template <class T = float, class Map = nn::linear<T>>
struct model {
  nn::embedding<T> wte, wpe;
  std::vector<block<T, Map>> h;
  nn::layer_norm<T> ln_f;
  activation act = activation::gelu_tanh;
  std::optional<Map> lm_head = {};  ///< without a head, the rows of wte are the head
};

/// Keys and values of each block, with room for further tokens.
template <class T>
using caches = std::vector<attention_cache<T, 4>>;

/// The last block's output for tokens (batch, places): (batch, places, width).
template <class T, class Map, tensor_like I>
tensor<T, 3> hidden(const model<T, Map>& m, const I& ids) {
  tensor<T, 3> x = m.wte(ids) + m.wpe(arange<std::int64_t>(ids.size(1)));
  for (const block<T, Map>& b : m.h) {
    x = x + b.attn(b.ln_1(x), causal);
    x = x + b.c_proj(activated(m.act, b.c_fc(b.ln_2(x))));
  }
  return m.ln_f(x);
}
namespace detail {
using models::detail::files;

/// `hidden` with caches, for the sum of the embeddings. Options of `attention` follow.
template <class T, class Map, class... Options>
std::pair<tensor<T, 3>, caches<T>> continued(const model<T, Map>& m, tensor<T, 3> x, caches<T> c,
                                             const Options&... options) {
  tensor<T, 3> y;
  for (std::size_t i = 0; i < m.h.size(); ++i) {
    const block<T, Map>& b = m.h[i];
    std::tie(y, c.at(i)) = b.attn(b.ln_1(x), c.at(i), causal, options...);
    x = x + y;
    x = x + b.c_proj(activated(m.act, b.c_fc(b.ln_2(x))));
  }
  return {m.ln_f(x), std::move(c)};
}
}  // namespace detail

/// The output for tokens that follow the tokens in the caches, and the extended caches.
template <class T, class Map, tensor_like I>
std::pair<tensor<T, 3>, caches<T>> hidden(const model<T, Map>& m, const I& ids, caches<T> c) {
  const tensor<T, 3> x = m.wte(ids) + m.wpe(arange<std::int64_t>(ids.size(1)) + c.at(0).length);
  return detail::continued(m, x, std::move(c));
}
/// The same for texts that begin at different places: sequence b begins at place starts[b] of the caches, and what lies before it
/// is padding that nothing sees.
template <class T, class Map, tensor_like I>
std::pair<tensor<T, 3>, caches<T>> hidden(const model<T, Map>& m, const I& ids, caches<T> c,
                                          const tensor<std::int64_t, 1>& starts) {
  const tensor<std::int64_t, 1> along = arange<std::int64_t>(ids.size(1)) + c.at(0).length;
  const tensor<std::int64_t, 2> own = maximum(along - expand_dims<1>(starts), std::int64_t{0});
  const dim places = c.at(0).k.size(2);
  const tensor<T, 3> x = m.wte(ids) + m.wpe(own);
  return detail::continued(m, x, std::move(c), models::detail::seen_from(starts, places));
}

/// Scores of all tokens from the output of `hidden`: (…, width) to (…, tokens).
template <class T, class Map, tensor_like X>
tensor<T, X::rank> scores(const model<T, Map>& m, const X& x) {
  if (m.lm_head) return (*m.lm_head)(x);
  return matmul(x, transpose(m.wte.weight));
}
/// Scores of the next token at each place: (batch, places, tokens).
template <class T, class Map, tensor_like I>
tensor<T, 3> logits(const model<T, Map>& m, const I& ids) {
  return scores(m, hidden(m, ids));
}

/// Caches for a batch with this number of places.
template <class T, class Map>
caches<T> room(const model<T, Map>& m, std::int64_t batch, std::int64_t places) {
  caches<T> c;
  for (const block<T, Map>& b : m.h) c.push_back(b.attn.cache(batch, places));
  return c;
}

/// The most places of a text.
template <class T, class Map>
std::int64_t max_places(const model<T, Map>& m) {
  return m.wpe.weight.size(0);
}

/// The model in a folder with config.json and model.safetensors or its shards, or of one of these files. user_error for
/// another kind of model; user_error that names every weight that is missing or has other extents. system_error for
/// unreadable files.
template <element T = float, class Map = nn::linear<T>>
model<T, Map> load(const std::string& path, const load_options& how = {}, location here = location::current()) {
  detail::files f("models::gpt2::load", path, {"gpt2"}, how, here);
  f.expect("scale_attn_weights", "true");
  f.expect("scale_attn_by_inverse_layer_idx", "false");
  f.expect("add_cross_attention", "false");
  const bool tied = f.text("tie_word_embeddings", "true") == "true";
  std::optional<Map> head;
  const std::int64_t width = f.whole("n_embd"), hidden = f.whole("n_inner", 4 * width), tokens = f.whole("vocab_size"),
                     heads = f.heads("n_head", width);
  if (!tied) head = f.map<Map>({"lm_head"}, width, {tokens});
  if (!f.has("wte.weight")) f.prefix = "transformer.";
  if (tied && how.weights != weights::floats) head = f.map<Map>({"wte"}, width, {tokens});
  const double eps = f.number("layer_norm_epsilon", 1e-5);
  // GPT-2's maps are stored as (in, out).
  const auto map = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return f.map<Map>({name}, in, {out}, true);
  };
  model<T, Map> m{f.embedding<T>("wte", tokens, width),
                  f.embedding<T>("wpe", f.whole("n_positions", 1024), width),
                  {},
                  f.layer_norm<T>("ln_f", width, eps),
                  f.act("activation_function", "gelu_new"),
                  std::move(head)};
  for (std::int64_t i = 0; i < f.whole("n_layer"); ++i) {
    const std::string at = "h." + std::to_string(i) + ".";
    m.h.push_back(
        {f.layer_norm<T>(at + "ln_1", width, eps), f.layer_norm<T>(at + "ln_2", width, eps),
         nn::self_attention<T, nn::unplaced, Map>{
             map(at + "attn.c_attn", width, 3 * width), map(at + "attn.c_proj", width, width), heads, heads, {}},
         map(at + "mlp.c_fc", width, hidden), map(at + "mlp.c_proj", hidden, width)});
  }
  f.finish();
  return m;
}

}  // namespace sinter::models::gpt2
