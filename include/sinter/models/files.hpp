// models/files.hpp: a model's files as Hugging Face publishes them: the configuration, and the weights by the names of nn's
// layers.
#pragma once

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../nn.hpp"
#include "config.hpp"
#include "stored.hpp"

namespace sinter::models {

/// How the weights of linear maps are kept: as floats, or as integers of 8 or 4 bits with a scale for each 32 of a row.
enum class weights { floats, int8, int4 };

struct load_options {
  std::optional<device> where = {};                   ///< by default the default device
  models::weights weights = models::weights::floats;  ///< integers need models whose maps are stored_linear<T>
};

/// The function between two linear maps of a block.
enum class activation { gelu, gelu_tanh, relu, silu, quick_gelu };

/// An activation applied to a value.
template <tensor_like X>
tensor<typename X::value_type, X::static_shape> activated(activation how, const X& x,
                                                          location at = location::current()) {
  using T = typename X::value_type;
  using result = tensor<T, X::static_shape>;
  switch (how) {
    case activation::gelu:
      return result(sinter::gelu(x, at));
    case activation::gelu_tanh:
      return result(sinter::gelu_tanh(x, at));
    case activation::relu:
      return result(sinter::relu(x, at));
    case activation::silu:
      return result(sinter::silu(x, at));
    case activation::quick_gelu:
      break;
  }
  return result(sinter::mul(x, sinter::sigmoid(sinter::mul(x, T(1.702f), at), at), at));
}

namespace detail {

/// (batch, places, width) to (batch, width).
template <class T>
tensor<T, 2> first_place(const tensor<T, 3>& x) {
  return reshape(slice<1>(x, 0, 1), x.size(0), x.size(2));
}

/// Copies of matrices (out, in), side by side as (in, sum of outs), the layout of nn::linear.
inline io::array columns(const std::vector<io::array>& parts) {
  const std::int64_t in = parts[0].extents[1];
  std::int64_t all = 0, first = 0;
  for (const auto& p : parts) all += p.extents[0];
  io::array to = io::detail::make_array(parts[0].type, {in, all});
  const auto size = static_cast<std::int64_t>(size_of(to.type));
  constexpr std::int64_t tile = 32;
  for (const auto& p : parts) {
    const std::int64_t out = p.extents[0];
    for (std::int64_t r = 0; r < out; r += tile)
      for (std::int64_t c = 0; c < in; c += tile)
        for (std::int64_t i = c; i < std::min(c + tile, in); ++i)
          for (std::int64_t o = r; o < std::min(r + tile, out); ++o)
            std::memcpy(to.data + (i * all + first + o) * size, p.data + (o * in + i) * size,
                        static_cast<std::size_t>(size));
    first += out;
  }
  return to;
}

/// `attention`'s mask for caches of so many places, of which sequence b sees those from starts[b] on.
inline auto seen_from(const tensor<std::int64_t, 1>& starts, const dim& places) {
  const tensor<bool, 2> seen =
      arange<std::int64_t>(places, sinter::detail::same_device(starts, location::current())) >= expand_dims<1>(starts);
  return masked(tensor<bool, 4>(reshape(seen, std::array<dim, 4>{starts.size(0), 1, 1, places})));
}

/// The arrays one after another.
inline io::array joined(const std::vector<io::array>& parts) {
  std::int64_t all = 0;
  for (const auto& p : parts) all += p.extents[0];
  io::array to = io::detail::make_array(parts[0].type, {all});
  std::byte* next = to.data;
  for (const auto& p : parts) next = std::copy_n(p.data, p.bytes().size(), next);
  return to;
}

/// The files of a model. Mismatches are collected, and finish reports them.
class files {
 public:
  /// Opens a folder, a .safetensors file or an index of such files; config.json is beside them. user_error unless model_type
  /// is in `types`.
  files(const char* op, const std::string& path, std::initializer_list<const char*> types, const load_options& how,
        location at)
      : op_(op), folder_(path), how_(how), at_(at) {
    if (engine::current())
      fail(op, "a function is being traced; load before it is called, and pass the model to it", at);
    const auto names = io::detail::files_of(path);
    const auto among = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    std::string weights = path;
    if (names.empty()) folder_ = io::detail::folder_of(path);
    else weights += among("model.safetensors") ? "/model.safetensors" : "/model.safetensors.index.json";
    config_ = read_scalars(op, folder_ + "/config.json", at);
    check_type(types);
    if (weights.ends_with(".json")) open_shards(weights);
    else
      archives_.push_back(names.empty() ? io::open_archive(weights, at)
                                        : io::detail::open_regular_archive(weights, at));
  }

  /// Entries of the configuration; user_error for a missing entry without a default.
  std::int64_t whole(const std::string& name, std::optional<std::int64_t> otherwise = {}) const {
    const auto found = config_.find(name);
    if (found == config_.end()) return otherwise ? *otherwise : absent(name);
    char* end = nullptr;
    const std::int64_t x = std::strtoll(found->second.c_str(), &end, 10);
    if (*end != 0 || x < 0 || x > 1'000'000'000) refuse(name, "a whole number of 0 or more");
    return x;
  }
  double number(const std::string& name, std::optional<double> otherwise = {}) const {
    const auto found = config_.find(name);
    if (found == config_.end()) return otherwise ? *otherwise : static_cast<double>(absent(name));
    double x = 0;
    const char *const begin = found->second.data(), *const end = begin + found->second.size();
    const auto [stop, wrong] = std::from_chars(begin, end, x);
    if (stop != end || wrong != std::errc{} || !std::isfinite(x)) refuse(name, "a number");
    return x;
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = config_.find(name);
    return found == config_.end() ? otherwise : found->second;
  }
  bool configured(const std::string& name) const { return config_.contains(name); }
  /// user_error if an entry exists and is not the supported value.
  void expect(const std::string& name, const std::string& only) const {
    if (text(name, only) != only) refuse(name, "\"" + only + "\"");
  }
  activation act(const std::string& name, const char* otherwise) const {
    static constexpr std::pair<const char*, activation> known[] = {{"gelu", activation::gelu},
                                                                   {"gelu_new", activation::gelu_tanh},
                                                                   {"gelu_pytorch_tanh", activation::gelu_tanh},
                                                                   {"gelu_fast", activation::gelu_tanh},
                                                                   {"relu", activation::relu},
                                                                   {"silu", activation::silu},
                                                                   {"swish", activation::silu},
                                                                   {"quick_gelu", activation::quick_gelu}};
    const std::string which = text(name, otherwise);
    for (const auto& [word, what] : known)
      if (which == word) return what;
    refuse(name, "gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, silu, swish or quick_gelu");
  }
  /// An entry that is a number of heads, and must divide the width.
  std::int64_t heads(const std::string& name, std::int64_t width) const {
    const std::int64_t n = whole(name);
    if (n < 1 || width % n != 0) refuse(name, "a divisor of the width, " + std::to_string(width));
    return n;
  }

  /// Whether an array with this name, after the prefix, exists.
  bool has(const std::string& name) const { return find(prefix + name) != nullptr; }
  std::string prefix;  ///< of names in the files

  /// An array of these extents.
  template <element T, int Rank>
  tensor<T, Rank> array(const std::string& name, std::initializer_list<std::int64_t> extents) {
    const auto a = raw(name, dtype_of<T>, extents);
    return a ? placed<T, Rank>(*a) : tensor<T, Rank>();
  }
  /// PyTorch's maps (out, in), joined with their columns side by side.
  template <element T>
  nn::linear<T> linear(const std::vector<std::string>& names, std::int64_t in, const std::vector<std::int64_t>& outs) {
    std::vector<io::array> weights, biases;
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (const auto w = raw(names[k] + ".weight", dtype_of<T>, {outs[k], in})) weights.push_back(*w);
      if (!has(names[k] + ".bias")) continue;
      if (const auto b = raw(names[k] + ".bias", dtype_of<T>, {outs[k]})) biases.push_back(*b);
    }
    nn::linear<T> made;
    if (weights.size() == names.size()) made.weight = placed<T, 2>(columns(weights));
    if (biases.size() == names.size()) made.bias = placed<T, 1>(joined(biases));
    else if (!biases.empty()) note(names[0] + ".bias", "only some of the maps beside one another have a bias");
    return made;
  }
  template <element T>
  nn::linear<T> linear(const std::string& name, std::int64_t in, std::int64_t out) {
    return linear<T>(std::vector{name}, in, std::vector{out});
  }
  /// Maps beside one another; `turned`: they are stored as (in, out). Blocks of integers where the options want them.
  template <class Map>
  Map map(const std::vector<std::string>& names, std::int64_t in, const std::vector<std::int64_t>& outs,
          bool turned = false) {
    using T = typename map_traits<Map>::type;
    nn::linear<T> plain;
    if constexpr (!map_traits<Map>::stored) {
      if (how_.weights != weights::floats)
        fail(op_, "weights of integers need maps that hold them; load<T, models::stored_linear<T>>", at_);
    } else if (how_.weights != weights::floats) {
      return packed<T>(names, in, outs, turned);
    }
    if (turned) {
      plain.weight = array<T, 2>(names[0] + ".weight", {in, outs[0]});
      if (has(names[0] + ".bias")) plain.bias = array<T, 1>(names[0] + ".bias", {outs[0]});
    } else {
      plain = linear<T>(names, in, outs);
    }
    if constexpr (map_traits<Map>::stored) return {plain.weight, std::nullopt, plain.bias};
    else return plain;
  }
  template <element T>
  nn::layer_norm<T> layer_norm(const std::string& name, std::int64_t width, double eps) {
    return {array<T, 1>(name + ".weight", {width}), array<T, 1>(name + ".bias", {width}), eps};
  }
  template <element T>
  nn::embedding<T> embedding(const std::string& name, std::int64_t count, std::int64_t width) {
    return {array<T, 2>(name + ".weight", {count, width})};
  }
  /// The number of rows of a two-dimensional array; 0 if it does not exist.
  std::int64_t rows(const std::string& name) const {
    const io::detail::record* const r = find(prefix + name);
    return r && r->extents.size() == 2 ? r->extents[0] : 0;
  }

  /// user_error that lists the mismatches.
  void finish() const {
    if (faults_.empty()) return;
    std::string all = folder_ + ": the weights do not fit the configuration:";
    for (const std::string& fault : faults_) all += "\n  " + fault;
    if (faults_.size() == max_faults) all += "\n  and perhaps more";
    fail(op_, all, at_);
  }

 private:
  template <element T>
  stored_linear<T> packed(const std::vector<std::string>& names, std::int64_t in, const std::vector<std::int64_t>& outs,
                          bool turned) {
    std::vector<io::array> rows, biases;
    std::int64_t all = 0;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::int64_t out = outs[k];
      if (const auto w = turned ? raw(names[k] + ".weight", dtype::f32, {in, out})
                                : raw(names[k] + ".weight", dtype::f32, {out, in}))
        rows.push_back(turned ? columns({*w}) : *w);
      if (has(names[k] + ".bias"))
        if (const auto b = raw(names[k] + ".bias", dtype_of<T>, {out})) biases.push_back(*b);
      all += out;
    }
    stored_linear<T> made;
    if (biases.size() == names.size()) made.bias = placed<T, 1>(joined(biases));
    else if (!biases.empty()) note(names[0] + ".bias", "only some of the maps beside one another have a bias");
    if (rows.size() != names.size()) return made;
    const std::int64_t bits = how_.weights == weights::int8 ? 8 : 4, count = (in + block_size - 1) / block_size;
    io::array words = io::detail::make_array(dtype::u8, {all, count, block_size * bits / 8}),
              scales = io::detail::make_array(dtype::bf16, {all, count});
    std::int64_t first = 0;
    for (std::size_t k = 0; k < rows.size(); first += outs[k++])
      pack_rows({reinterpret_cast<const float*>(rows[k].data), static_cast<std::size_t>(outs[k] * in)}, in, bits,
                reinterpret_cast<std::uint8_t*>(words.data) + first * count * block_size * bits / 8,
                reinterpret_cast<bf16*>(scales.data) + first * count);
    made.packed = blocks{placed<std::uint8_t, 3>(words), placed<bf16, 2>(scales), in, bits};
    return made;
  }
  void check_type(std::initializer_list<const char*> types) const {
    const std::string type = text("model_type", "");
    std::string known;
    for (const char* t : types) {
      if (type == t) return;
      known += (known.empty() ? "\"" : ", \"") + std::string(t) + "\"";
    }
    fail(op_,
         folder_ + "/config.json is of model_type \"" + io::detail::shown(type) + "\"; this function loads " + known +
             ", and others of sinter::models, or onnx::load, other models",
         at_);
  }
  /// Opens each file of an index once; they are beside the index.
  void open_shards(const std::string& index) {
    const std::string before = "weight_map.";
    std::set<std::string> shards;
    for (const auto& [path, file] : read_scalars(op_, index, at_))
      if (path.starts_with(before)) shards.insert(file);
    if (shards.empty()) io::detail::fail_file(op_, index, "has no weight_map, as an index of files has", at_);
    for (const std::string& file : shards) {
      if (file.find('/') != std::string::npos || file == "..")
        io::detail::fail_file(op_, index, "names the file " + io::detail::shown(file) + ", which is not beside it",
                              at_);
      archives_.push_back(io::detail::open_regular_archive(io::detail::folder_of(index) + "/" + file, at_));
    }
  }

  [[noreturn]] std::int64_t absent(const std::string& name) const {
    fail(op_, folder_ + "/config.json has no \"" + name + "\"", at_);
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& want) const {
    fail(op_,
         folder_ + "/config.json has \"" + name + "\": " + io::detail::shown(text(name, "null")) +
             "; there is code for " + want,
         at_);
  }
  void note(const std::string& name, const std::string& what) {
    faults_.push_back(io::detail::shown(prefix + name) + ": " + what);
    if (faults_.size() == max_faults) finish();
  }
  const io::detail::record* find(const std::string& name) const {
    for (const auto& a : archives_)
      if (const auto r = a.records.find(name); r != a.records.end()) return &r->second;
    return nullptr;
  }
  std::optional<io::array> raw(const std::string& name, dtype type, std::vector<std::int64_t> extents) {
    for (const auto& a : archives_) {
      if (!a.contains(prefix + name)) continue;
      const io::array x = a.at(prefix + name, nullptr, at_);
      if (x.extents == extents) return io::detail::converted(x, type);
      note(name, "it is " + io::detail::shape_text(x.extents) + ", of the configuration follows " +
                     io::detail::shape_text(extents));
      return std::nullopt;
    }
    note(name, "the files do not have it");
    return std::nullopt;
  }
  template <element T, int Rank>
  tensor<T, Rank> placed(const io::array& a) const {
    return io::to_tensor<T, Rank>(a, at_).to(how_.where.value_or(default_device()));
  }

  static constexpr std::size_t max_faults = 50;
  const char* op_;
  std::string folder_;
  const load_options& how_;
  location at_;
  scalars config_;
  std::vector<io::archive> archives_;
  std::vector<std::string> faults_;
};

}  // namespace detail
}  // namespace sinter::models
