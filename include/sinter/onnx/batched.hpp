// onnx/batched.hpp: a model whose leading axis is fixed at 1, for many rows at once.
#pragma once

#include <functional>

#include "../front/compile/compile.hpp"
#include "../front/transforms/vmap.hpp"
#include "model.hpp"

namespace sinter::onnx {

namespace detail_ {

/// Which inputs of a model have a leading axis of 1. user_error if none has.
SINTER_API std::vector<bool> inputs_of_lanes(const model& m, location at);
/// The arguments of lanes without their leading axis of 1, then whole arguments. Gives results without that axis.
SINTER_API tensor_list call_lane(const model& m, const std::vector<bool>& which, const tensor_list& lanes,
                                 const tensor_list& whole, location at);

}  // namespace detail_

/// A model as a function of many rows: `onnx::batched f(m); f({x})` with x of (n, ...) where the file says (1, ...). It is vmap of
/// the model: rows do not see one another. Inputs with another leading axis are given whole. Results have n where the file has 1.
/// Copies share compiled code.
class batched {
 public:
  explicit batched(const model& m, location at = location::current())
      : model_(m), lanes_(detail_::inputs_of_lanes(m, at)) {
    const auto one = [m, which = lanes_, at](const tensor_list& lanes, const tensor_list& whole) {
      return detail_::call_lane(m, which, lanes, whole, at);
    };
    run_ = compile(vmap(one, in_axes<0, none>));
  }

  /// user_error unless inputs are as the file declares them, apart from the rows, of which all have one number.
  tensor_list operator()(const tensor_list& inputs, location at = location::current()) const {
    if (inputs.size() != lanes_.size())
      fail("onnx::batched",
           "the model takes " + std::to_string(lanes_.size()) + " inputs and is given " + std::to_string(inputs.size()),
           at);
    tensor_list lanes, whole;
    for (std::size_t k = 0; k < inputs.size(); ++k) (lanes_[k] ? lanes : whole).push_back(inputs[k]);
    return run_(lanes, whole);
  }

 private:
  model model_;
  std::vector<bool> lanes_;
  std::function<tensor_list(const tensor_list&, const tensor_list&)> run_;
};

}  // namespace sinter::onnx
