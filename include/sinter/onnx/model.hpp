// onnx/model.hpp: a model from a file: load, inputs and outputs, weights, calls.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dynamic.hpp"

namespace sinter::onnx {

/// An input or output as the file declares it.
struct value_description {
  std::string name;
  dtype type = dtype::f32;
  bool is_tensor = true;
  bool has_shape = false;
  std::vector<std::int64_t> extents;  ///< -1: open
  std::vector<std::string> axes;      ///< names of open axes; equal names are equal extents
  /// "x: f32 (N, 3, 224, 224)".
  std::string text() const {
    std::string out = name + ": " + (is_tensor ? dtype_name(type) : "sequence");
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
using tensor_list = std::vector<dynamic_tensor>;

/// A model that was loaded: a handle, so copies share what is compiled.
class model {
 public:
  struct state;
  explicit model(std::shared_ptr<state> s) : s_(std::move(s)) {}

  SINTER_API const std::vector<value_description>& inputs() const;
  SINTER_API const std::vector<value_description>& outputs() const;

  /// The floating initialisers by name; without copies where they lie in the file as they are in memory.
  SINTER_API tensor_map weights() const;

  /// The results for inputs in order. In a trace its nodes are pushed there; else the model is compiled by itself. user_error when an
  /// input has another dtype, rank or extent than the file declares, or axes of one name differ.
  SINTER_API tensor_list operator()(const tensor_list& inputs, location at = location::current()) const;
  /// The same with other weights, by name; those not given are the file's.
  SINTER_API tensor_list operator()(const tensor_map& weights, const tensor_list& inputs,
                                    location at = location::current()) const;
  /// Results by name for inputs by name.
  SINTER_API tensor_map operator()(const tensor_map& named, location at = location::current()) const;

  /// The mean square of all floating results, and its gradients: by floating inputs in order, then by weights by name.
  struct gradients {
    double loss = 0;
    tensor_list inputs;
    tensor_map weights;
  };
  SINTER_API gradients square_gradients(const tensor_list& inputs, location at = location::current()) const;

  /// What compilation did for the call last made, all calls; how many specialisations there are; nodes of the file's graph.
  SINTER_API report last() const;
  SINTER_API explanation explain() const;
  SINTER_API std::size_t specialisations() const;
  SINTER_API std::size_t nodes() const;

 private:
  std::shared_ptr<state> s_;
};

/// The model of an ONNX file. user_error for one that is damaged, and one with nodes for which there is no operator: all of
/// them are listed; system_error for a file that cannot be read. Weights in files beside it are mapped from the model's folder.
SINTER_API model load(const std::string& path, const options& how = {}, location at = location::current());
/// The same of bytes, which are copied.
SINTER_API model load(std::span<const std::byte> file, const options& how = {}, location at = location::current());

/// The elements of a file that holds one TensorProto.
SINTER_API io::array read_tensor(const std::string& path, location at = location::current());

/// An operator that models may have.
struct operator_description {
  std::string name, domain;
  int since = 1;    ///< the first version of the domain's operators that this is for
  std::string how;  ///< what it becomes
};
SINTER_API std::vector<operator_description> operators();

/// Which inputs and outputs of a model a function takes and gives, in order; empty: the file's.
struct names {
  std::vector<std::string> inputs = {}, outputs = {};
};

/// Places of a function's arguments and results among the model's. user_error when there are no such ones.
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

/// A model as a function of tensors: `onnx::function<tensor<float, 2>(tensor<float, 2>)> f("mlp.onnx");` Count, order, dtypes and
/// ranks are checked when it is made.
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

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "model_rules.hpp"
#endif
