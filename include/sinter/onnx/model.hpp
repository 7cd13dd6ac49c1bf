// onnx/model.hpp: a model from a file: loading, inputs and outputs, weights, calls.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dynamic.hpp"

namespace sinter::onnx {

/// An input or output, as the file declares it.
struct value_description {
  enum class kind_t { tensor, sequence, optional, other };

  std::string name;
  dtype type = dtype::f32;
  kind_t kind = kind_t::tensor;
  bool has_type = true;  ///< the file may leave the dtype open
  bool has_shape = false;
  bool is_text = false;                  ///< the elements are places in model::texts(), as i64
  std::vector<std::int64_t> extents;     ///< -1: open
  std::vector<std::string> axes;         ///< names of open axes; equal names have equal extents
  std::vector<value_description> inner;  ///< for a sequence or an optional: its content

  bool is_tensor() const { return kind == kind_t::tensor; }
  /// "x: f32 (N, 3, 224, 224)", "s: sequence of f32".
  std::string text() const { return name + ": " + kind_text(); }
  std::string kind_text() const {
    if (!is_tensor()) {
      if (kind == kind_t::other) return "of another kind";
      const std::string what = kind == kind_t::sequence ? "sequence" : "optional";
      return inner.empty() ? what : what + " of " + inner[0].kind_text();
    }
    std::string out = is_text ? "text as i64" : has_type ? dtype_name(type) : "tensor";
    if (!has_shape) return out;
    out += " (";
    for (std::size_t i = 0; i < extents.size(); ++i) {
      out += i ? ", " : "";
      out += extents[i] >= 0 ? std::to_string(extents[i]) : axes[i].empty() ? "?" : axes[i];
    }
    return out + ")";
  }
};

using tensor_map = std::map<std::string, dynamic_tensor>;

/// An input or output of a model: a tensor, a sequence of values, or nothing, for an optional without a value.
class value {
 public:
  value() = default;
  value(dynamic_tensor x) : tensor_(std::move(x)), kind_(kind_t::tensor) {}
  template <tensor_like X>
  value(const X& x, location at = location::current()) : value(dynamic_tensor(x, at)) {}
  /// A sequence of these values.
  explicit value(std::vector<value> elements) : list_(std::move(elements)), kind_(kind_t::sequence) {}

  bool is_tensor() const { return kind_ == kind_t::tensor; }
  bool is_sequence() const { return kind_ == kind_t::sequence; }
  /// False for an empty optional.
  bool has_value() const { return kind_ != kind_t::nothing; }
  /// The tensor; user_error for another kind of value.
  const dynamic_tensor& tensor(location at = location::current()) const {
    if (!is_tensor()) fail("onnx::value", "it is " + text() + " and no tensor", at);
    return tensor_;
  }
  const std::vector<value>& elements(location at = location::current()) const {
    if (!is_sequence()) fail("onnx::value", "it is " + text() + " and no sequence", at);
    return list_;
  }
  /// "f32 (2, 3)", "[f32 (2,), f32 (3,)]", "nothing".
  std::string text() const {
    if (!has_value()) return "nothing";
    if (is_tensor()) return tensor_.text();
    std::string out = "[";
    for (std::size_t k = 0; k < list_.size(); ++k) out += (k ? ", " : "") + list_[k].text();
    return out + "]";
  }
  /// The value with each tensor replaced by f(tensor), in order.
  template <class F>
  value mapped(F&& f) const {
    if (is_tensor()) return value(f(tensor_));
    if (!is_sequence()) return value();
    std::vector<value> out;
    for (const value& x : list_) out.push_back(x.mapped(f));
    return value(std::move(out));
  }

 private:
  enum class kind_t { nothing, tensor, sequence };
  dynamic_tensor tensor_;
  std::vector<value> list_;
  kind_t kind_ = kind_t::nothing;
};
using value_list = std::vector<value>;

/// Where a file comes from, in its own words.
struct metadata {
  std::string producer, producer_version, domain, description;
  std::int64_t version = 0;                       ///< of the model
  std::int64_t ir_version = 0;                    ///< of the file's format
  std::map<std::string, std::int64_t> opsets;     ///< by domain; "" is ONNX's own
  std::map<std::string, std::string> properties;  ///< metadata_props, such as labels and licences
};

/// A loaded model: a handle, so copies share compiled code.
class model {
 public:
  struct state;
  explicit model(std::shared_ptr<state> s) : s_(std::move(s)) {}

  SINTER_API const std::vector<value_description>& inputs() const;
  SINTER_API const std::vector<value_description>& outputs() const;

  /// All floating initialisers by name, for saving; they are not copied if they lie in the file as in memory.
  SINTER_API tensor_map weights() const;
  /// The weights that training changes, by the role of the operands that read them. Weights of these roles are left out: running
  /// means and variances, scales and zero points of quantisation, masks, initial states of zeros, and options of operators (bounds,
  /// sizes, windows). So are rank-0 tensors, and weights with several roles if one of these is among them. Constants of nodes are
  /// included if they are weights or biases of products, convolutions and recurrent operators.
  SINTER_API tensor_map parameters() const;

  /// The results for inputs in order. In a trace the model's nodes are pushed there; otherwise the model is compiled alone.
  /// user_error if an input has another dtype, rank or extent than the file declares, or axes of one name differ.
  SINTER_API tensor_list operator()(const tensor_list& inputs, location at = location::current()) const;
  /// The same with other weights, by name: any of weights() and parameters(); the remaining weights are the file's.
  /// user_error for a name that the file does not have, and for another dtype or other extents.
  SINTER_API tensor_list operator()(const tensor_map& weights, const tensor_list& inputs,
                                    location at = location::current()) const;
  /// Results by name for inputs by name; these may include initialisers that the file lists as inputs.
  SINTER_API tensor_map by_name(const tensor_map& named, location at = location::current()) const;
  /// Results by name. A template, so that it does not accept a list of tensors.
  template <std::same_as<tensor_map> Map>
  tensor_map operator()(const Map& named, location at = location::current()) const {
    return by_name(named, at);
  }
  tensor_map operator()(std::initializer_list<tensor_map::value_type> named, location at = location::current()) const {
    return by_name(tensor_map(named), at);
  }

  /// The results for inputs in order, some of which are sequences or optionals. Calls with sequences of other lengths are
  /// compiled anew.
  SINTER_API value_list run(const value_list& inputs, location at = location::current()) const;

  /// The same model with a key for random numbers that have no seed: u64 of rank 0, like sinter::key::state. Without a key, a
  /// model that is called alone draws other numbers at each call, and a trace of it is a user_error.
  SINTER_API model drawing(const tensor<std::uint64_t, 0>& key) const;

  /// The mean square of all floating results, and its gradients: by floating inputs in order, then by weights by name.
  struct gradients {
    double loss = 0;
    tensor_list inputs;
    tensor_map weights;
  };
  SINTER_API gradients square_gradients(const tensor_list& inputs, location at = location::current()) const;

  /// The texts that the model's operators of ai.onnx.ml map to numbers or back, sorted. Inputs and results of text are tensors of
  /// places in this list, as i64. -1 stands for every other text.
  SINTER_API const std::vector<std::string>& texts() const;
  SINTER_API std::vector<std::int64_t> places_of_texts(const std::vector<std::string>& texts) const;

  /// The model with further results behind its own: any values of its graph by name, such as hidden layers. The new model is
  /// compiled anew. user_error for names that the graph lacks.
  SINTER_API model with_outputs(const std::vector<std::string>& names, location at = location::current()) const;
  /// The names of all values of the graph: inputs, initialisers, and results of nodes in order.
  SINTER_API std::vector<std::string> value_names() const;
  SINTER_API metadata describe() const;

  /// The report of the last call, the explanation of all calls, the number of specialisations, the number of nodes in the
  /// file's graph.
  SINTER_API report last() const;
  SINTER_API explanation explain() const;
  SINTER_API std::size_t specialisations() const;
  SINTER_API std::size_t nodes() const;
  /// The operators of the file's graph, without the graphs within, with the number of nodes of each: {"MatMul", 4}.
  SINTER_API std::map<std::string, std::size_t> operators_used() const;

 private:
  std::shared_ptr<state> s_;
  dynamic_tensor key_;
};

/// The model of an ONNX file. user_error for a damaged file, and for nodes without an operator, all of which it lists.
/// system_error for an unreadable file. Weights in files beside it are mapped from the model's folder.
SINTER_API model load(const std::string& path, const options& how = {}, location at = location::current());
/// The model of the bytes of a file, which are copied. user_error, too, if it refers to files, because it has no folder.
SINTER_API model load(std::span<const std::byte> file, const options& how = {}, location at = location::current());
namespace detail_ {
SINTER_API model load_beside(std::span<const std::byte> file, const std::string& folder, const options& how,
                             location at);
}
/// The same with a folder for the model's files: `onnx::load(bytes, "models")`. user_error for an empty folder name.
template <std::convertible_to<std::string> Folder>
model load(std::span<const std::byte> file, const Folder& folder, const options& how = {},
           location at = location::current()) {
  return detail_::load_beside(file, folder, how, at);
}

/// The elements of a file that holds one TensorProto.
SINTER_API io::array read_tensor(const std::string& path, location at = location::current());
/// The value in a file for an input or output: a TensorProto, SequenceProto or OptionalProto.
SINTER_API value read_value(const std::string& path, const value_description& kind, location at = location::current());

/// A supported operator.
struct operator_description {
  std::string name, domain;
  int since = 1;    ///< the first version of the domain's operators that has this form
  std::string how;  ///< the ops that it becomes
};
SINTER_API std::vector<operator_description> operators();

/// The inputs and outputs that a function takes and gives, in order; empty for all in the file's order.
struct names {
  std::vector<std::string> inputs = {}, outputs = {};
};

/// The positions of a function's arguments and results among the model's. user_error if they do not exist.
struct signature_check {
  std::vector<std::size_t> inputs, outputs;
  struct kind {
    dtype type;
    int rank;
  };
  SINTER_API signature_check(const model& m, const names& which, const std::vector<kind>& takes,
                             const std::vector<kind>& gives, location at);
};

template <class Signature>
class function;

/// A model as a function of tensors: `onnx::function<tensor<float, 2>(tensor<float, 2>)> f("mlp.onnx");` Its construction
/// checks the number, order, dtypes and ranks.
template <class... R, class... A>
class function<std::tuple<R...>(A...)> {
 public:
  explicit function(const std::string& path, const names& which = {}, const options& how = {},
                    location at = location::current())
      : model_(load(path, how, at)), places_(model_, which, {kind<A>()...}, {kind<R>()...}, at) {}
  explicit function(model m, const names& which = {}, location at = location::current())
      : model_(std::move(m)), places_(model_, which, {kind<A>()...}, {kind<R>()...}, at) {}

  std::tuple<R...> operator()(const A&... x) const {
    tensor_list in(model_.inputs().size());
    std::size_t k = 0;
    ((in[places_.inputs[k++]] = dynamic_tensor(x)), ...);
    const tensor_list out = model_(in);
    return results(out, std::index_sequence_for<R...>{});
  }
  const onnx::model& model_of() const { return model_; }

 private:
  template <class X>
  static constexpr signature_check::kind kind() {
    return {dtype_of<typename X::value_type>, X::rank};
  }
  template <std::size_t... I>
  std::tuple<R...> results(const tensor_list& out, std::index_sequence<I...>) const {
    return {out[places_.outputs[I]].template as<R>()...};
  }

  onnx::model model_;
  signature_check places_;
};
template <any_tensor R, class... A>
class function<R(A...)> : private function<std::tuple<R>(A...)> {
  using base = function<std::tuple<R>(A...)>;

 public:
  using base::base;
  using base::model_of;
  R operator()(const A&... x) const { return std::get<0>(base::operator()(x...)); }
};

}  // namespace sinter::onnx

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "model_rules.hpp"
#endif
