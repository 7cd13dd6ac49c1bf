// Published networks against ONNX files of the same: their weights are written under Hugging Face's names, loaded, and what the models give
// is compared. Runs where SINTER_TEST_ZOO is a folder of hf_gpt2, hf_llama, …, each with model.onnx, input_0.npy and output_0.npy.
#include <sinter/sinter.hpp>

#include <doctest/doctest.h>

#include <sinter/models.hpp>
#include <sinter/onnx.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "../scratch_folder.hpp"

using namespace sinter;

namespace {

/// The weights of a file, those to be written, and the folder of them.
struct renamed {
  std::string from;
  std::map<std::string, dynamic_tensor> file, to = {};
  scratch_folder folder = {};

  explicit renamed(const std::string& path) : from(path), file(onnx::load(path + "/model.onnx").weights()) {}
  template <int Rank>
  tensor<float, Rank> get(const std::string& name) const {
    REQUIRE_MESSAGE(file.contains(name), name);
    return file.at(name).as<tensor<float, Rank>>();
  }
  /// Matrices without a name, in the order of the nodes: val_88, val_95, …; turned into PyTorch's (out, in).
  std::vector<tensor<float, 2>> unnamed() const {
    std::map<int, tensor<float, 2>> found;
    for (const auto& [name, x] : file)
      if (name.starts_with("val_") && x.rank() == 2)
        found[std::atoi(name.c_str() + 4)] = transpose(x.as<tensor<float, 2>>());
    std::vector<tensor<float, 2>> out;
    for (const auto& [at, x] : found) out.push_back(x);
    return out;
  }
  std::string write(const std::string& config) const {
    io::save(folder.path + "/model.safetensors", to);
    std::FILE* f = std::fopen((folder.path + "/config.json").c_str(), "w");
    std::fputs(config.c_str(), f);
    std::fclose(f);
    return folder.path;
  }
  template <class T, int Rank>
  tensor<T, Rank> array(const std::string& name) const {
    return io::read_npy<T, Rank>(from + "/" + name + ".npy");
  }
  template <int Rank>
  void compare(const tensor<float, Rank>& y) const {
    const tensor<float, Rank> want = array<float, Rank>("output_0");
    const float off = max(abs(y - want)).item(), most = max(abs(want)).item();
    MESSAGE(from, ": largest difference ", off, ", largest value ", most);
    CHECK(off <= 1e-3f * most);
  }
};

std::string zoo(const std::string& name) {
  const char* const folder = std::getenv("SINTER_TEST_ZOO");
  const std::string path = folder ? std::string(folder) + "/" + name : "";
  std::FILE* const there = std::fopen((path + "/model.onnx").c_str(), "r");
  if (there) std::fclose(there);
  return there ? path : "";
}

const char* const encoder_maps[] = {"attention.self.query",   "attention.self.key", "attention.self.value",
                                    "attention.output.dense", "intermediate.dense", "output.dense"};

}  // namespace

TEST_CASE("GPT-2 gives what its ONNX file gives") {
  const std::string path = zoo("hf_gpt2");
  if (path.empty()) return;
  renamed r(path);
  for (const auto& [name, x] : r.file)
    if (name.starts_with("m.")) r.to[name.substr(2)] = x;
  r.to["wpe.weight"] = tensor<float, 2>(reshape(r.get<3>("embedding_1"), 32, 64));
  const auto m = models::gpt2::load(r.write(
      R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 128})"));
  r.compare<3>(models::gpt2::hidden(m, r.array<std::int64_t, 2>("input_0")));
}

TEST_CASE("Llama and Mistral give what their ONNX files give") {
  for (const std::string name : {"llama", "mistral"}) {
    const std::string path = zoo("hf_" + name);
    if (path.empty()) continue;
    renamed r(path);
    for (const auto& [weight, x] : r.file)
      if (weight.starts_with("m.")) r.to["model." + weight.substr(2)] = x;
    const auto maps = r.unnamed();
    REQUIRE(maps.size() == 14);
    const char* const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                 "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    for (std::size_t k = 0; k < 14; ++k)
      r.to["model.layers." + std::to_string(k / 7) + "." + names[k % 7] + ".weight"] = maps[k];
    const auto m = models::llama::load(
        r.write("{\"model_type\": \"" + name +
                R"(", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "sliding_window": null})"));
    r.compare<3>(models::llama::hidden(m, r.array<std::int64_t, 2>("input_0")));
  }
}

TEST_CASE("BERT gives what its ONNX file gives") {
  const std::string path = zoo("hf_bert");
  if (path.empty()) return;
  renamed r(path);
  for (const auto& [name, x] : r.file)
    if (name.starts_with("m.")) r.to[name.substr(2)] = x;
  r.to["embeddings.position_embeddings.weight"] = tensor<float, 2>(reshape(r.get<3>("embedding_2"), 32, 64));
  const auto maps = r.unnamed();
  REQUIRE(maps.size() == 12);
  for (std::size_t k = 0; k < 12; ++k)
    r.to["encoder.layer." + std::to_string(k / 6) + "." + encoder_maps[k % 6] + ".weight"] = maps[k];
  const auto m =
      models::bert::load(r.write(R"({"model_type": "bert", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 32, "hidden_act": "gelu"})"));
  r.compare<3>(models::bert::hidden(m, r.array<std::int64_t, 2>("input_0")));
}

TEST_CASE("ViT gives what its ONNX file gives") {
  const std::string path = zoo("timm_vit_tiny_patch16_224");
  if (path.empty()) return;
  renamed r(path);
  const std::int64_t width = 192;
  // The file has equal weights once.
  const std::map<std::string, std::string> same{{"blocks.9.norm2.bias", "blocks.2.attn.proj.bias"},
                                                {"blocks.10.norm2.bias", "blocks.4.norm1.bias"}};
  const auto put = [&](const std::string& to, const std::string& name) {
    const auto other = same.find(name);
    const std::string& from = other == same.end() ? name : other->second;
    REQUIRE_MESSAGE(r.file.contains(from), from);
    r.to[to] = r.file.at(from);
  };
  const auto norm = [&](const std::string& to, const std::string& name) {
    put(to + ".weight", name + ".weight");
    put(to + ".bias", name + ".bias");
  };
  put("vit.embeddings.position_embeddings", "pos_embed");
  put("vit.embeddings.cls_token", "expand");
  norm("vit.embeddings.patch_embeddings.projection", "patch_embed.proj");
  norm("vit.layernorm", "norm");
  norm("classifier", "head");
  const auto maps = r.unnamed();
  REQUIRE(maps.size() == 48);
  for (std::size_t k = 0; k < 12; ++k) {
    const std::string at = "vit.encoder.layer." + std::to_string(k) + ".", theirs = "blocks." + std::to_string(k) + ".";
    norm(at + "layernorm_before", theirs + "norm1");
    norm(at + "layernorm_after", theirs + "norm2");
    const auto bias = r.get<1>(theirs + "attn.qkv.bias");
    for (std::int64_t part = 0; part < 3; ++part) {
      const char* const names[] = {"query", "key", "value"};
      const std::string to = at + "attention.attention." + names[part];
      r.to[to + ".weight"] = tensor<float, 2>(slice<0>(maps[4 * k], part * width, (part + 1) * width));
      r.to[to + ".bias"] = tensor<float, 1>(slice<0>(bias, part * width, (part + 1) * width));
    }
    const char* const ours[] = {"attention.output.dense", "intermediate.dense", "output.dense"};
    const char* const biases[] = {"attn.proj", "mlp.fc1", "mlp.fc2"};
    for (std::size_t i = 0; i < 3; ++i) {
      r.to[at + ours[i] + ".weight"] = maps[4 * k + 1 + i];
      put(at + ours[i] + ".bias", theirs + biases[i] + ".bias");
    }
  }
  const auto m = models::vit::load(
      r.write(R"({"model_type": "vit", "hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3,
    "intermediate_size": 768, "hidden_act": "gelu", "image_size": 224, "patch_size": 16, "layer_norm_eps": 1e-6})"));
  r.compare<2>(models::vit::logits(m, r.array<float, 4>("input_0")));
}
