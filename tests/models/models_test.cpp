// Published networks from files against loops over plain numbers: small random configurations, eagerly and compiled; what loading refuses.
#include <sinter/sinter.hpp>

#include <sinter/models.hpp>

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "../close.hpp"
#include "plain.hpp"

#if defined(SINTER_COMPILED) && defined(NLOHMANN_JSON_VERSION_MAJOR)
#error "nlohmann/json.hpp is seen by a user's unit"
#endif

using namespace sinter;

namespace {

/// f(m, x…) eagerly and by both backends.
template <class F, class... X>
void check_all(const doubles& want, const F& f, const X&... x) {
  check_close(flatten(f(x...)).to_vector(), want, 1e-9);
  for (const char* backend : {"reference", "cpu"})
    check_close(flatten(compile(f, {.backend = backend})(x...)).to_vector(), want, 1e-9);
}

const std::string bert_config = R"({"model_type": "bert", "vocab_size": 13, "hidden_size": 12, "num_hidden_layers": 2,
  "num_attention_heads": 3, "intermediate_size": 20, "hidden_act": "gelu", "max_position_embeddings": 8, "type_vocab_size": 2,
  "layer_norm_eps": 1e-12})";

/// A layer of BERT or ViT: its names of norms are the model's.
void encoder_layer(published& p, const std::string& at, const std::string& attention) {
  for (const char* name : {"query", "key", "value"}) p.map(at + attention + name, 12, 12);
  p.map(at + "attention.output.dense", 12, 12);
  p.map(at + "intermediate.dense", 20, 12);
  p.map(at + "output.dense", 12, 20);
}
doubles encoder_mix(const published& p, const std::string& at, const std::string& attention, const doubles& x,
                    heads_of h) {
  return mapped(p, at + "attention.output.dense",
                attended(mapped(p, at + attention + "query", x, 12), mapped(p, at + attention + "key", x, 12),
                         mapped(p, at + attention + "value", x, 12), h),
                12);
}
doubles encoder_map(const published& p, const std::string& at, const doubles& x) {
  return mapped(p, at + "output.dense", each(mapped(p, at + "intermediate.dense", x, 12), gelu_of), 20);
}
published bert_of(const std::string& before) {
  published p;
  p.matrix(before + "embeddings.word_embeddings.weight", 13, 12);
  p.matrix(before + "embeddings.position_embeddings.weight", 8, 12);
  p.matrix(before + "embeddings.token_type_embeddings.weight", 2, 12);
  p.norm(before + "embeddings.LayerNorm", 12);
  p.map(before + "pooler.dense", 12, 12);
  for (int i = 0; i < 2; ++i) {
    const std::string at = before + "encoder.layer." + std::to_string(i) + ".";
    encoder_layer(p, at, "attention.self.");
    p.norm(at + "attention.output.LayerNorm", 12);
    p.norm(at + "output.LayerNorm", 12);
  }
  return p;
}
doubles bert_hidden(const published& p, const std::string& before, const ids& x, const std::vector<std::int64_t>& types,
                    const std::vector<bool>& seen) {
  const auto batch = static_cast<std::size_t>(x.size(0)), places = static_cast<std::size_t>(x.size(1));
  const std::string e = before + "embeddings.";
  doubles h = sum_of(rows_of(p.get(e + "word_embeddings.weight"), 12, flatten(x).to_vector()),
                     rows_of(p.get(e + "position_embeddings.weight"), 12, counted(batch, places)));
  h = normed(p, e + "LayerNorm", sum_of(h, rows_of(p.get(e + "token_type_embeddings.weight"), 12, types)), 1e-12);
  for (int i = 0; i < 2; ++i) {
    const std::string at = before + "encoder.layer." + std::to_string(i) + ".";
    h = normed(p, at + "attention.output.LayerNorm",
               sum_of(h, encoder_mix(p, at, "attention.self.", h, {batch, places, 3, 3, 4, false, seen})), 1e-12);
    h = normed(p, at + "output.LayerNorm", sum_of(h, encoder_map(p, at, h)), 1e-12);
  }
  return h;
}

const std::string vit_config =
    R"({"model_type": "vit", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
  "intermediate_size": 20, "hidden_act": "gelu", "image_size": 6, "patch_size": 3, "num_channels": 2, "layer_norm_eps": 1e-12})";

published vit_of() {
  published p;
  p.cubes["vit.embeddings.cls_token"] = normal<double>(p.next(), 1, 1, 12);
  p.cubes["vit.embeddings.position_embeddings"] = normal<double>(p.next(), 1, 5, 12);
  p.windows["vit.embeddings.patch_embeddings.projection.weight"] = normal<double>(p.next(), 12, 2, 3, 3);
  p.vector("vit.embeddings.patch_embeddings.projection.bias", 12);
  p.norm("vit.layernorm", 12);
  p.map("classifier", 5, 12);
  for (int i = 0; i < 2; ++i) {
    const std::string at = "vit.encoder.layer." + std::to_string(i) + ".";
    encoder_layer(p, at, "attention.attention.");
    p.norm(at + "layernorm_before", 12);
    p.norm(at + "layernorm_after", 12);
  }
  return p;
}
doubles vit_logits(const published& p, const tensor<double, 4>& x) {
  const auto batch = static_cast<std::size_t>(x.size(0));
  const std::string e = "vit.embeddings.";
  const doubles w = p.get(e + "patch_embeddings.projection.weight"), b = p.get(e + "patch_embeddings.projection.bias"),
                raw = flatten(x).to_vector(), first = p.get(e + "cls_token"),
                at_place = p.get(e + "position_embeddings");
  doubles h;
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t place = 0; place < 5; ++place)
      for (std::size_t o = 0; o < 12; ++o) {
        double y = place == 0 ? first[o] : b[o];
        for (std::size_t c = 0; place > 0 && c < 2; ++c)
          for (std::size_t i = 0; i < 9; ++i)
            y += w[(o * 2 + c) * 9 + i] *
                 raw[((n * 2 + c) * 6 + (place - 1) / 2 * 3 + i / 3) * 6 + (place - 1) % 2 * 3 + i % 3];
        h.push_back(y + at_place[place * 12 + o]);
      }
  for (int i = 0; i < 2; ++i) {
    const std::string at = "vit.encoder.layer." + std::to_string(i) + ".";
    h = sum_of(h, encoder_mix(p, at, "attention.attention.", normed(p, at + "layernorm_before", h, 1e-12),
                              {batch, 5, 3, 3, 4}));
    h = sum_of(h, encoder_map(p, at, normed(p, at + "layernorm_after", h, 1e-12)));
  }
  h = normed(p, "vit.layernorm", h, 1e-12);
  return mapped(p, "classifier", columns_of(h, 60, 0, 12), 12);
}

}  // namespace

TEST_CASE("GPT-2 from one file and from shards, and what it writes with a cache") {
  const ids x{{1, 10, 3, 0, 7}, {4, 4, 2, 9, 5}};
  for (const bool shards : {false, true}) {
    const std::string before = shards ? "transformer." : "";
    const published p = gpt2_of(before);
    p.write(gpt2_config, shards);
    const doubles want = gpt2_logits(p, before, x);
    const auto m = models::gpt2::load<double>(p.folder + (shards ? "/model.safetensors.index.json" : ""));
    check_all(
        want, [](const auto& m, const ids& x) { return models::gpt2::logits(m, x); }, m, x);
    const auto small = models::gpt2::load(p.folder);
    check_close(flatten(models::gpt2::logits(small, x)).to_vector(), want, 1e-3);
  }
  const published p = gpt2_of("");
  p.write(gpt2_config);
  const auto m = models::gpt2::load<double>(p.folder + "/model.safetensors");
  const auto step = compile(
      [](const auto& m, const ids& x, models::gpt2::caches<double> c) {
        auto [h, next] = models::gpt2::hidden(m, x, std::move(c));
        return std::pair{models::gpt2::scores(m, h), next};
      },
      {.backend = "reference"});
  auto c = models::gpt2::room(m, 2, 6);
  doubles got;
  for (std::int64_t i = 0; i < 5; ++i) {
    auto [y, next] = step(m, ids(slice<1>(x, i, i + 1)), c);
    c = next;
    const auto row = flatten(y).to_vector();
    got.insert(got.end(), row.begin(), row.begin() + 11);
  }
  const doubles want = gpt2_logits(p, "", x);
  check_close(got, doubles(want.begin(), want.begin() + 55), 1e-9);
}

TEST_CASE("Llama: shared keys, a head of its own or the embedding's rows, places as published and scaled") {
  const ids x{{1, 8, 3, 0}, {4, 4, 2, 7}};
  const auto plain = doubles{1, std::pow(500000.0, -0.5)};
  published p = llama_of(true);
  p.write(llama_config(R"("rope_theta": 500000.0, "tie_word_embeddings": false)"));
  const auto m = models::llama::load<double>(p.folder);
  const auto f = [](const auto& m, const ids& x) { return models::llama::logits(m, x); };
  const doubles rows = llama_hidden(p, x, plain);
  check_all(mapped(rows, p.get("lm_head.weight"), {}, 12), f, m, x);

  p.write(llama_config(
      R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "tie_word_embeddings": true)"));
  check_close(flatten(f(models::llama::load<double>(p.folder), x)).to_vector(),
              mapped(rows, p.get("model.embed_tokens.weight"), {}, 12), 1e-9);

  p.write(llama_config(R"("rope_scaling": {"type": "linear", "factor": 2.5}, "rope_theta": 500000)"));
  const auto h = [](const auto& m, const ids& x) { return models::llama::hidden(m, x); };
  check_all(llama_hidden(p, x, {0.4, plain[1] / 2.5}), h, models::llama::load<double>(p.folder), x);

  // The first pair turns 1.6 times in 10 places, the second 0.16 times.
  p.write(llama_config(
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 10}, "rope_theta": 100)"));
  const double kept = (10 / (2 * M_PI) - 1) / 3;
  const auto scaled = models::llama::load<double>(p.folder);
  const doubles want = llama_hidden(p, x, {(1 - kept) / 8 + kept, 0.1 / 8});
  check_all(want, h, scaled, x);
  auto c = models::llama::room(scaled, 2, 4);
  tensor<double, 3> first, rest;
  std::tie(first, c) = models::llama::hidden(scaled, ids(slice<1>(x, 0, 3)), c);
  std::tie(rest, c) = models::llama::hidden(scaled, ids(slice<1>(x, 3, 4)), c);
  check_close(flatten(concat<1>(first, rest)).to_vector(), want, 1e-9);
}

TEST_CASE("BERT: sentences, masks, a pooler") {
  const ids x{{1, 12, 3, 0, 7}, {4, 4, 2, 9, 5}}, types{{0, 0, 1, 1, 1}, {0, 1, 1, 0, 0}};
  const tensor<bool, 2> mask{{true, true, true, true, false}, {true, true, true, false, false}};
  for (const std::string before : {"", "bert."}) {
    const published p = bert_of(before);
    p.write(bert_config);
    const auto m = models::bert::load<double>(p.folder);
    check_all(
        bert_hidden(p, before, x, std::vector<std::int64_t>(10), {}),
        [](const auto& m, const ids& x) { return models::bert::hidden(m, x); }, m, x);
    const doubles want = bert_hidden(p, before, x, flatten(types).to_vector(), {1, 1, 1, 1, 0, 1, 1, 1, 0, 0});
    check_all(
        want, [](const auto& m, const auto&... x) { return models::bert::hidden(m, x...); }, m, x, types, mask);
    const doubles summary = each(mapped(p, before + "pooler.dense", columns_of(want, 60, 0, 12), 12),
                                 [](double x) { return std::tanh(x); });
    check_close(flatten(models::bert::pooled(m, models::bert::hidden(m, x, types, mask))).to_vector(), summary, 1e-9);
  }
}

TEST_CASE("ViT: patches, a first place, classes") {
  const published p = vit_of();
  p.write(vit_config);
  const tensor<double, 4> x = normal<double>(make_key(99), 3, 2, 6, 6);
  const auto m = models::vit::load<double>(p.folder);
  check_all(
      vit_logits(p, x), [](const auto& m, const tensor<double, 4>& x) { return models::vit::logits(m, x); }, m, x);
  check_said(said([&] { models::vit::hidden(m, zeros<double>(1, 2, 9, 9)); }),
             "the images have 9 patches, the model 4");
}

TEST_CASE("a loaded model is trained as any tree is") {
  const published p = gpt2_of("");
  p.write(gpt2_config);
  const auto m = models::gpt2::load<double>(p.folder);
  const ids x{{1, 10, 3, 0}}, y{{10, 3, 0, 5}};
  const auto loss = [&](const auto& m) { return mean(nn::cross_entropy(models::gpt2::logits(m, x), y)); };
  const auto step = compile(
      [&](const auto& m) {
        auto [l, g] = value_and_grad(loss)(m);
        return std::pair{l, tree_map([](const auto& p, const auto& g) { return p - 0.05 * g; }, m, g)};
      },
      {.backend = "reference"});
  auto [first, next] = step(m);
  for (int i = 0; i < 5; ++i) next = step(next).second;
  CHECK(loss(next).item() < 0.9 * first.item());
}

TEST_CASE("what loading refuses: other models, settings without code, weights that are missing or of other extents") {
  published p = gpt2_of("");
  const auto load = [&] { models::gpt2::load(p.folder); };
  check_said(said(load), "config.json: cannot be opened");
  p.write("{\"model_type\": \"t5\"}");
  check_said(said(load),
             "config.json is of model_type \"t5\"; this function loads \"gpt2\", and others of sinter::models");
  p.write("{\"model_type\": ");
  check_said(said(load), "config.json: its JSON is damaged at byte");
  p.write("");
  check_said(said(load), "config.json: is empty");
  p.write("{\"model_type\": \"gpt2\", \"n_embd\": 12, \"n_head\": 3}");
  check_said(said(load), "config.json has no \"vocab_size\"");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = gpt2_config;
    text.replace(text.find(from), from.size(), to);
    p.write(text);
    return said(load);
  };
  check_said(with("\"gelu_new\"", "\"snake\""), "\"activation_function\": snake; there is code for gelu, gelu_new");
  check_said(with("\"n_head\": 3", "\"n_head\": 5"), "\"n_head\": 5; there is code for a divisor of the width, 12");
  check_said(with("\"n_layer\": 2", "\"n_layer\": -2"),
             "\"n_layer\": -2; there is code for a whole number of 0 or more");
  check_said(with("\"n_inner\": null", "\"scale_attn_by_inverse_layer_idx\": true"), "there is code for \"false\"");
  const std::string endless = with("\"n_layer\": 2", "\"n_layer\": 1000000000");
  check_said(endless, "\n  h.2.ln_1.weight: the files do not have it");
  check_said(endless, "\n  and perhaps more");
  std::string both = with("\"n_inner\": null", "\"n_inner\": 40");
  check_said(both, "the weights do not fit the configuration");
  check_said(both, "h.0.mlp.c_fc.weight: it is (12, 48), of the configuration follows (12, 40)");
  check_said(both, "h.1.mlp.c_proj.weight: it is (48, 12), of the configuration follows (40, 12)");
  p.matrices.erase("h.1.attn.c_proj.weight");
  p.vectors.erase("ln_f.bias");
  p.write(gpt2_config);
  check_said(said(load), "\n  ln_f.bias: the files do not have it\n  h.1.attn.c_proj.weight: the files do not have it");
  check_said(said([] { models::gpt2::load("/nowhere"); }), "cannot be opened");

  published q = llama_of(false);
  q.write(llama_config("\"sliding_window\": 16"));
  check_said(said([&] { models::llama::load(q.folder); }), "\"sliding_window\": 16");
  q.write(llama_config("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}"));
  check_said(said([&] { models::llama::load(q.folder); }),
             "\"rope_scaling.rope_type\": yarn; there is code for \"llama3\"");
  q.write(llama_config("\"rope_theta\": 10000"));
  const auto bare = models::llama::load(q.folder);
  check_said(said([&] { models::llama::logits(bare, ids{{1}}); }),
             "the model's files have no lm_head; use what hidden gives");
  q.write(llama_config("\"rope_theta\": 10000"), true);
  q.text("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../model.safetensors\"}}");
  check_said(said([&] { models::llama::load(q.folder + "/model.safetensors.index.json"); }),
             "names the file ../model.safetensors, which is not beside it");
  q.text("model.safetensors.index.json", "{}");
  check_said(said([&] { models::llama::load(q.folder + "/model.safetensors.index.json"); }), "has no weight_map");
  q.text("config.json", std::string(20, '['));
  check_said(said([&] { models::llama::load(q.folder); }), "its JSON has more than 16 levels where it should not");
}

TEST_CASE("a folder's files are regular ones; the weights that the user names may be a pipe") {
  published q = llama_of(false);
  const auto begun = [&](bool shards, const char* pipe) {
    for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json", "model-1.safetensors"})
      std::filesystem::remove(q.folder + "/" + name);
    q.write(llama_config("\"rope_theta\": 10000"), shards);
    std::filesystem::remove(q.folder + "/" + pipe);
    REQUIRE(::mkfifo((q.folder + "/" + pipe).c_str(), 0600) == 0);
    return said([&] { models::llama::load(q.folder); });
  };
  for (const char* name : {"config.json", "model.safetensors"})
    check_said(begun(false, name),
               (std::string(name) + ": is a pipe; what a file or a folder names must be a regular file"));
  for (const char* name : {"model.safetensors.index.json", "model-1.safetensors"})
    check_said(begun(true, name),
               (std::string(name) + ": is a pipe; what a file or a folder names must be a regular file"));
}
