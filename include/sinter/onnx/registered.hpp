// onnx/registered.hpp: operators of the user's code, by domain and name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dynamic.hpp"

namespace sinter::onnx {

/// A node of a model for a function that computes it.
struct operator_call {
  /// An attribute; the field of its kind is set.
  struct attribute {
    std::int64_t i = 0;
    double f = 0;
    std::string s;
    std::vector<std::int64_t> ints;
    std::vector<double> floats;
    std::vector<std::string> strings;
    dynamic_tensor t;
  };

  std::string name;    ///< the node's
  tensor_list inputs;  ///< traced tensors; an empty handle for an input that is left out
  std::map<std::string, attribute> attributes;
  std::size_t results = 1;  ///< the number of results that the node has

  /// The integer or number of an attribute, or another value without it.
  std::int64_t i(const std::string& key, std::int64_t otherwise) const {
    const auto it = attributes.find(key);
    return it == attributes.end() ? otherwise : it->second.i;
  }
  double f(const std::string& key, double otherwise) const {
    const auto it = attributes.find(key);
    return it == attributes.end() ? otherwise : it->second.f;
  }
};

/// Makes an operator known to all models that are loaded afterwards. `fn` is called while a model is traced, perhaps by several
/// threads; it gives as many results as the node has. user_error for an operator that is there already. Thread-safe.
SINTER_API void register_operator(const std::string& domain, const std::string& name,
                                  std::function<tensor_list(const operator_call&)> fn,
                                  location at = location::current());

}  // namespace sinter::onnx

// Header-only builds have the definitions with those of models.
#if !defined(SINTER_COMPILED)
#include "model.hpp"
#endif
