// tests/models/plain.hpp: small published models of random weights, and what GPT-2 and Llama compute, in loops over plain numbers.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <sinter/models.hpp>
#include <sinter/sinter.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "../scratch_folder.hpp"

namespace {

using namespace sinter;

using doubles = std::vector<double>;
using ids = tensor<std::int64_t, 2>;

/// Weights by name, random, and the folder that they are written into.
struct published {
  std::shared_ptr<scratch_folder> place = std::make_shared<scratch_folder>();
  std::string folder = place->path;
  std::map<std::string, tensor<double, 1>> vectors;
  std::map<std::string, tensor<double, 2>> matrices;
  std::map<std::string, tensor<double, 3>> cubes;
  std::map<std::string, tensor<double, 4>> windows;
  std::uint64_t seed = 1;

  key next() { return make_key(seed++); }
  void vector(const std::string& name, std::int64_t n, double center = 0) {
    vectors[name] = normal<double>(next(), n) * 0.3 + center;
  }
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    matrices[name] = normal<double>(next(), rows, columns) * 0.4;
  }
  void norm(const std::string& name, std::int64_t n) {
    vector(name + ".weight", n, 1);
    vector(name + ".bias", n);
  }
  void map(const std::string& name, std::int64_t out, std::int64_t in) {
    matrix(name + ".weight", out, in);
    vector(name + ".bias", out);
  }
  doubles get(const std::string& name) const {
    if (vectors.contains(name)) return vectors.at(name).to_vector();
    if (matrices.contains(name)) return matrices.at(name).to_vector();
    if (cubes.contains(name)) return cubes.at(name).to_vector();
    return windows.contains(name) ? windows.at(name).to_vector() : doubles();
  }
  void text(const std::string& name, const std::string& text) const {
    std::FILE* f = std::fopen((folder + "/" + name).c_str(), "w");
    std::fputs(text.c_str(), f);
    std::fclose(f);
  }
  /// All in one file, or of two axes in one and the rest in another.
  void write(const std::string& config, bool shards = false) const {
    text("config.json", config);
    if (!shards)
      return io::save(folder + "/model.safetensors", std::tuple{vectors, matrices, cubes, windows},
                      {.rename = [](const std::string& path) { return path.substr(path.find('.') + 1); }});
    io::save(folder + "/model-1.safetensors", matrices);
    io::save(folder + "/model-2.safetensors", vectors);
    std::string index = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {";
    for (const auto& [name, x] : matrices) index += "\"" + name + "\": \"model-1.safetensors\", ";
    for (const auto& [name, x] : vectors) index += "\"" + name + "\": \"model-2.safetensors\", ";
    index.resize(index.size() - 2);
    text("model.safetensors.index.json", index + "}}");
  }
};

// ---- What the models compute, of rows of plain numbers.

/// Rows times a map (out, in), plus a bias where there is one.
inline doubles mapped(const doubles& x, const doubles& w, const doubles& b, std::size_t in, bool turned = false) {
  const std::size_t out = w.size() / in, rows = x.size() / in;
  doubles y(rows * out);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) {
      y[r * out + o] = b.empty() ? 0 : b[o];
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * (turned ? w[i * out + o] : w[o * in + i]);
    }
  return y;
}
inline doubles mapped(const published& p, const std::string& name, const doubles& x, std::size_t in,
                      bool turned = false) {
  return mapped(x, p.get(name + ".weight"), p.get(name + ".bias"), in, turned);
}
inline doubles normed(const published& p, const std::string& name, doubles x, double eps, bool centred = true) {
  const doubles w = p.get(name + ".weight"), b = p.get(name + ".bias");
  const std::size_t n = w.size();
  for (std::size_t r = 0; r < x.size(); r += n) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < n; ++i) mean += centred ? x[r + i] / static_cast<double>(n) : 0;
    for (std::size_t i = 0; i < n; ++i) square += (x[r + i] - mean) * (x[r + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      x[r + i] = (x[r + i] - mean) / std::sqrt(square + eps) * w[i] + (b.empty() ? 0 : b[i]);
  }
  return x;
}
inline doubles each(doubles x, const std::function<double(double)>& f) {
  for (double& v : x) v = f(v);
  return x;
}
inline doubles sum_of(doubles x, const doubles& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}
inline double gelu_of(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double silu_of(double x) { return x / (1 + std::exp(-x)); }

struct heads_of {
  std::size_t batch, places, heads, keys, width;
  bool causal = false;
  std::vector<bool> seen = {};  ///< of (batch, places); empty: all
};
/// Rows of queries, keys and values, each (batch · places, its heads · width), to rows of heads · width.
inline doubles attended(const doubles& q, const doubles& k, const doubles& v, const heads_of& h) {
  doubles y(h.batch * h.places * h.heads * h.width);
  for (std::size_t b = 0; b < h.batch; ++b)
    for (std::size_t head = 0; head < h.heads; ++head)
      for (std::size_t i = 0; i < h.places; ++i) {
        const std::size_t shared = head / (h.heads / h.keys);
        const auto key_at = [&](std::size_t j) { return ((b * h.places + j) * h.keys + shared) * h.width; };
        const std::size_t at = ((b * h.places + i) * h.heads + head) * h.width;
        doubles score(h.places, -INFINITY);
        double total = 0, most = -INFINITY;
        for (std::size_t j = 0; j < (h.causal ? i + 1 : h.places); ++j) {
          if (!h.seen.empty() && !h.seen[b * h.places + j]) continue;
          score[j] = 0;
          for (std::size_t c = 0; c < h.width; ++c) score[j] += q[at + c] * k[key_at(j) + c];
          score[j] /= std::sqrt(static_cast<double>(h.width));
          most = std::max(most, score[j]);
        }
        for (double& s : score) total += s = std::exp(s - most);
        for (std::size_t j = 0; j < h.places; ++j)
          for (std::size_t c = 0; c < h.width; ++c) y[at + c] += score[j] / total * v[key_at(j) + c];
      }
  return y;
}
/// Columns first to last of rows.
inline doubles columns_of(const doubles& x, std::size_t width, std::size_t first, std::size_t last) {
  doubles y;
  for (std::size_t r = 0; r < x.size(); r += width)
    for (std::size_t c = first; c < last; ++c) y.push_back(x[r + c]);
  return y;
}
/// Rows of a table.
inline doubles rows_of(const doubles& table, std::size_t width, const std::vector<std::int64_t>& at) {
  doubles y;
  for (auto i : at)
    for (std::size_t c = 0; c < width; ++c) y.push_back(table[static_cast<std::size_t>(i) * width + c]);
  return y;
}
inline std::vector<std::int64_t> counted(std::size_t batch, std::size_t places) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < batch * places; ++i) out.push_back(static_cast<std::int64_t>(i % places));
  return out;
}

inline const std::string gpt2_config =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 11, "n_positions": 7,
  "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": null, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"})";

inline published gpt2_of(const std::string& before) {
  published p;
  p.matrix(before + "wte.weight", 11, 12);
  p.matrix(before + "wpe.weight", 7, 12);
  p.norm(before + "ln_f", 12);
  for (int i = 0; i < 2; ++i) {
    const std::string at = before + "h." + std::to_string(i) + ".";
    p.norm(at + "ln_1", 12);
    p.norm(at + "ln_2", 12);
    const auto map = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      p.matrix(at + name + ".weight", in, out);
      p.vector(at + name + ".bias", out);
    };
    map("attn.c_attn", 12, 36);
    map("attn.c_proj", 12, 12);
    map("mlp.c_fc", 12, 48);
    map("mlp.c_proj", 48, 12);
  }
  return p;
}
/// `head`: the name of the last map.
inline doubles gpt2_logits(const published& p, const std::string& before, const ids& x,
                           const std::string& head = "wte.weight") {
  const auto batch = static_cast<std::size_t>(x.size(0)), places = static_cast<std::size_t>(x.size(1));
  doubles h = sum_of(rows_of(p.get(before + "wte.weight"), 12, flatten(x).to_vector()),
                     rows_of(p.get(before + "wpe.weight"), 12, counted(batch, places)));
  for (int i = 0; i < 2; ++i) {
    const std::string at = before + "h." + std::to_string(i) + ".";
    const doubles y = mapped(p, at + "attn.c_attn", normed(p, at + "ln_1", h, 1e-5), 12, true);
    const doubles mix = attended(columns_of(y, 36, 0, 12), columns_of(y, 36, 12, 24), columns_of(y, 36, 24, 36),
                                 {batch, places, 3, 3, 4, true});
    h = sum_of(h, mapped(p, at + "attn.c_proj", mix, 12, true));
    const doubles up = each(mapped(p, at + "mlp.c_fc", normed(p, at + "ln_2", h, 1e-5), 12, true), gelu_tanh_of);
    h = sum_of(h, mapped(p, at + "mlp.c_proj", up, 48, true));
  }
  return mapped(normed(p, before + "ln_f", h, 1e-5), p.get(before + head), {}, 12);
}

inline std::string llama_config(const std::string& more) {
  return R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "rms_norm_eps": 1e-06, "hidden_act": "silu", )" +
         more + "}";
}
inline published llama_of(bool head) {
  published p;
  p.matrix("model.embed_tokens.weight", 9, 12);
  p.vector("model.norm.weight", 12, 1);
  if (head) p.matrix("lm_head.weight", 9, 12);
  for (int i = 0; i < 2; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    p.vector(at + "input_layernorm.weight", 12, 1);
    p.vector(at + "post_attention_layernorm.weight", 12, 1);
    p.matrix(at + "self_attn.q_proj.weight", 16, 12);
    p.matrix(at + "self_attn.k_proj.weight", 8, 12);
    p.matrix(at + "self_attn.v_proj.weight", 8, 12);
    p.matrix(at + "self_attn.o_proj.weight", 12, 16);
    p.matrix(at + "mlp.gate_proj.weight", 20, 12);
    p.matrix(at + "mlp.up_proj.weight", 20, 12);
    p.matrix(at + "mlp.down_proj.weight", 12, 20);
  }
  return p;
}
/// Rows of heads of four numbers turned by their places at these rates.
inline doubles turned(doubles x, std::size_t heads, std::size_t places, const doubles& rates) {
  for (std::size_t r = 0; r < x.size() / (4 * heads); ++r)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t c = 0; c < 2; ++c) {
        double& a = x[(r * heads + h) * 4 + c];
        double& b = x[(r * heads + h) * 4 + c + 2];
        const double angle = static_cast<double>(r % places) * rates[c];
        std::tie(a, b) =
            std::pair{a * std::cos(angle) - b * std::sin(angle), b * std::cos(angle) + a * std::sin(angle)};
      }
  return x;
}
inline doubles llama_hidden(const published& p, const ids& x, const doubles& rates) {
  const auto batch = static_cast<std::size_t>(x.size(0)), places = static_cast<std::size_t>(x.size(1));
  doubles h = rows_of(p.get("model.embed_tokens.weight"), 12, flatten(x).to_vector());
  for (int i = 0; i < 2; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".", mix = at + "self_attn.", mlp = at + "mlp.";
    const doubles y = normed(p, at + "input_layernorm", h, 1e-6, false);
    const doubles all = attended(turned(mapped(p, mix + "q_proj", y, 12), 4, places, rates),
                                 turned(mapped(p, mix + "k_proj", y, 12), 2, places, rates),
                                 mapped(p, mix + "v_proj", y, 12), {batch, places, 4, 2, 4, true});
    h = sum_of(h, mapped(p, mix + "o_proj", all, 16));
    const doubles z = normed(p, at + "post_attention_layernorm", h, 1e-6, false),
                  up = mapped(p, mlp + "up_proj", z, 12);
    doubles gate = each(mapped(p, mlp + "gate_proj", z, 12), silu_of);
    for (std::size_t k = 0; k < gate.size(); ++k) gate[k] *= up[k];
    h = sum_of(h, mapped(p, mlp + "down_proj", gate, 20));
  }
  return normed(p, "model.norm", h, 1e-6, false);
}

/// What f throws; "" where it ends.
template <class F>
std::string said(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}
inline void check_said(const std::string& text, const std::string& part) {
  if (text.find(part) == text.npos) FAIL_CHECK("\"", text, "\" does not say \"", part, "\"");
}

}  // namespace
