// models/llama.hpp: Llama (Touvron et al., 2023) and Mistral: RMSNorm, rotary places, shared key heads, SwiGLU.
#pragma once

#include <numbers>

#include "files.hpp"

namespace sinter::models::llama {

/// Rotates queries and keys by their places. If a model was first trained on shorter texts, slow pairs rotate slower by
/// `factor`. Pairs with fewer than `low` turns in `trained` places do; pairs above `high` turns do not; pairs between do in
/// part. If `high` is 0, all do.
struct places {
  nn::constant base = 10000, factor = 1, low = 0, high = 0;
  std::int64_t trained = 0;

  /// Radians per place, for each pair.
  std::vector<double> rates(std::int64_t width) const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double rate =
          std::pow(static_cast<double>(base), -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const double turns = rate * static_cast<double>(trained) / (2 * std::numbers::pi);
      const double kept = high == 0 ? 0 : std::clamp((turns - low) / (high - low), 0.0, 1.0);
      out.push_back(rate * (kept + (1 - kept) / factor));
    }
    return out;
  }
  /// x (…, places, width).
  template <class X, class Positions>
  X turned(const X& x, const Positions& positions, location at) const {
    using T = typename X::value_type;
    using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto all = rates(x.size(X::rank - 1, at));
    const tensor<double, 2> angle = expand_dims<-1>(tensor<double, 1>(cast<double>(positions))) * from_span(all);
    const tensor<W, 2> c = cast<W>(cos(angle)), s = cast<W>(sin(angle));
    const auto half = static_cast<std::int64_t>(all.size());
    const tensor<W, X::rank> a = cast<W>(slice<-1>(x, 0, half)), b = cast<W>(slice<-1>(x, half));
    return cast<T>(concat<-1>(tensor<W, X::rank>(a * c - b * s), tensor<W, X::rank>(b * c + a * s)));
  }
  template <class X>
  X operator()(const X& x, location at) const {
    if (factor == 1) return sinter::rotary(x, {.base = base}, at);
    return turned(x, arange<std::int64_t>(x.size(X::rank - 2, at)), at);
  }
  template <class X, class First>
  X operator()(const X& x, const First& first, location at) const {
    const tensor<std::int64_t, 1> positions = arange<std::int64_t>(x.size(X::rank - 2, at)) + first;
    if (factor == 1) return sinter::rotary(x, positions, {.base = base}, at);
    return turned(x, positions, at);
  }
};

template <class T, class Map = nn::linear<T>>
struct layer {
  nn::rms_norm<T> input_layernorm, post_attention_layernorm;
  nn::self_attention<T, places, Map> self_attn;
  Map gate_proj, up_proj, down_proj;
};

/// `Map`: nn::linear<T>, or stored_linear<T>, whose weights may be blocks of integers.
template <class T = float, class Map = nn::linear<T>>
struct model {
  nn::embedding<T> embed_tokens;
  std::vector<layer<T, Map>> layers;
  nn::rms_norm<T> norm;
  std::optional<Map> lm_head;
  bool tied = false;  ///< without a head, the embedding's rows are the head
  activation act = activation::silu;
};

/// Keys and values of each layer, with room for further tokens.
template <class T>
using caches = std::vector<attention_cache<T, 4>>;

/// The part of a layer after attention.
template <class T, class Map>
tensor<T, 3> widened(const model<T, Map>& m, const layer<T, Map>& l, const tensor<T, 3>& x) {
  const tensor<T, 3> y = l.post_attention_layernorm(x);
  return x + l.down_proj(activated(m.act, l.gate_proj(y)) * l.up_proj(y));
}
/// The last layer's output for tokens (batch, places): (batch, places, width).
template <class T, class Map, tensor_like I>
tensor<T, 3> hidden(const model<T, Map>& m, const I& ids) {
  tensor<T, 3> x = m.embed_tokens(ids);
  for (const layer<T, Map>& l : m.layers) {
    x = x + l.self_attn(l.input_layernorm(x), causal);
    x = widened(m, l, x);
  }
  return m.norm(x);
}
namespace detail {
using models::detail::files;

/// `hidden` with caches. Options of `attention` follow.
template <class T, class Map, class I, class... Options>
std::pair<tensor<T, 3>, caches<T>> continued(const model<T, Map>& m, const I& ids, caches<T> c,
                                             const Options&... options) {
  tensor<T, 3> x = m.embed_tokens(ids), y;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    std::tie(y, c.at(i)) = m.layers[i].self_attn(m.layers[i].input_layernorm(x), c.at(i), causal, options...);
    x = x + y;
    x = widened(m, m.layers[i], x);
  }
  return {m.norm(x), std::move(c)};
}
}  // namespace detail

/// The output for tokens that follow the tokens in the caches, and the extended caches.
template <class T, class Map, tensor_like I>
std::pair<tensor<T, 3>, caches<T>> hidden(const model<T, Map>& m, const I& ids, caches<T> c) {
  return detail::continued(m, ids, std::move(c));
}
/// The same for texts that begin at different places: sequence b begins at place starts[b] of the caches, and what lies before it
/// is padding that nothing sees. Only distances between places count, so the places need no shift.
template <class T, class Map, tensor_like I>
std::pair<tensor<T, 3>, caches<T>> hidden(const model<T, Map>& m, const I& ids, caches<T> c,
                                          const tensor<std::int64_t, 1>& starts) {
  const dim places = c.at(0).k.size(2);
  return detail::continued(m, ids, std::move(c), models::detail::seen_from(starts, places));
}

/// Scores of all tokens from the output of `hidden`: (…, width) to (…, tokens). user_error for a model without a head.
template <class T, class Map, tensor_like X>
tensor<T, X::rank> scores(const model<T, Map>& m, const X& x, location at = location::current()) {
  if (m.lm_head) return (*m.lm_head)(x);
  if (!m.tied) fail("models::llama::scores", "the model's files have no lm_head; use what hidden gives", at);
  return matmul(x, transpose(m.embed_tokens.weight));
}
/// Scores of the next token at each place: (batch, places, tokens).
template <class T, class Map, tensor_like I>
tensor<T, 3> logits(const model<T, Map>& m, const I& ids, location at = location::current()) {
  return scores(m, hidden(m, ids), at);
}

/// Caches for a batch with this number of places.
template <class T, class Map>
caches<T> room(const model<T, Map>& m, std::int64_t batch, std::int64_t count) {
  caches<T> c;
  for (const layer<T, Map>& l : m.layers) c.push_back(l.self_attn.cache(batch, count));
  return c;
}
/// The most places of a text; 0: no bound.
template <class T, class Map>
std::int64_t max_places(const model<T, Map>&) {
  return 0;
}

namespace detail {
/// The `places` of a configuration: rope_theta and rope_scaling, or both in rope_parameters.
inline places places_of(const files& f) {
  const std::string newer = "rope_parameters.", older = "rope_scaling.";
  places p{f.number(newer + "rope_theta", f.number("rope_theta", 10000))};
  const std::string in = f.configured(newer + "rope_type") ? newer : older;
  const std::string kind = f.text(in + "rope_type", f.text(in + "type", "default"));
  if (kind == "default") return p;
  if (kind != "linear") f.expect(in + "rope_type", "llama3");
  p.factor = f.number(in + "factor");
  if (kind == "linear") return p;
  p.low = f.number(in + "low_freq_factor");
  p.high = f.number(in + "high_freq_factor");
  p.trained = f.whole(in + "original_max_position_embeddings");
  return p;
}
}  // namespace detail

/// The model in a folder with config.json and model.safetensors or its shards, or of one of these files. user_error for
/// another kind of model; user_error that names every weight that is missing or has other extents. system_error for
/// unreadable files.
template <element T = float, class Map = nn::linear<T>>
model<T, Map> load(const std::string& path, const load_options& how = {}, location here = location::current()) {
  detail::files f("models::llama::load", path, {"llama", "mistral"}, how, here);
  if (f.configured("sliding_window")) f.expect("sliding_window", "null");
  const bool tied = f.text("tie_word_embeddings", "false") == "true";
  const std::int64_t width = f.whole("hidden_size"), hidden = f.whole("intermediate_size"),
                     heads = f.whole("num_attention_heads"), keys = f.whole("num_key_value_heads", heads),
                     each =
                         f.configured("head_dim") ? f.whole("head_dim") : width / f.heads("num_attention_heads", width),
                     tokens = f.whole("vocab_size");
  f.heads("num_key_value_heads", heads);
  const double eps = f.number("rms_norm_eps", 1e-6);
  const places turn = detail::places_of(f);
  model<T, Map> m;
  m.tied = tied;
  if (!tied && f.has("lm_head.weight")) m.lm_head = f.map<Map>({"lm_head"}, width, {tokens});
  if (!f.has("embed_tokens.weight")) f.prefix = "model.";
  const auto norm = [&](const std::string& name) {
    return nn::rms_norm<T>{f.array<T, 1>(name + ".weight", {width}), eps};
  };
  m.embed_tokens = f.embedding<T>("embed_tokens", tokens, width);
  if (tied && how.weights != weights::floats) m.lm_head = f.map<Map>({"embed_tokens"}, width, {tokens});
  m.norm = norm("norm");
  m.act = f.act("hidden_act", "silu");
  for (std::int64_t i = 0; i < f.whole("num_hidden_layers"); ++i) {
    const std::string at = "layers." + std::to_string(i) + ".", mix = at + "self_attn.", mlp = at + "mlp.";
    m.layers.push_back(
        {norm(at + "input_layernorm"), norm(at + "post_attention_layernorm"),
         nn::self_attention<T, places, Map>{f.map<Map>({mix + "q_proj", mix + "k_proj", mix + "v_proj"}, width,
                                                       {heads * each, keys * each, keys * each}),
                                            f.map<Map>({mix + "o_proj"}, heads * each, {width}), heads, keys, turn},
         f.map<Map>({mlp + "gate_proj"}, width, {hidden}), f.map<Map>({mlp + "up_proj"}, width, {hidden}),
         f.map<Map>({mlp + "down_proj"}, hidden, {width})});
  }
  f.finish();
  return m;
}

}  // namespace sinter::models::llama
