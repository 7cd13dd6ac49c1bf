// A small model of each operator: its inputs, constants and attributes. Seeds of mutations, and what gradients are tested on.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model_writer.hpp"

namespace onnx_test {

/// An input of the model.
struct argument {
  std::vector<std::int64_t> extents;
  double low = -1.5, high = 1.5;  ///< its elements are drawn between them
  int type = f64;
};

/// An operator with one input after the other: an argument of the model, a constant, or nothing.
struct operand {
  enum class what { argument, integers, reals, nothing } is = what::nothing;
  argument of;
  std::vector<std::int64_t> extents, integers;
  std::vector<double> reals;
  int type = i64;

  operand() = default;
  operand(argument a) : is(what::argument), of(std::move(a)) {}
};
inline operand x(std::vector<std::int64_t> extents, double low = -1.5, double high = 1.5) {
  return argument{std::move(extents), low, high};
}
inline operand integers(std::vector<std::int64_t> extents, std::vector<std::int64_t> v, int type = i64) {
  operand o;
  o.is = operand::what::integers;
  o.extents = std::move(extents);
  o.integers = std::move(v);
  o.type = type;
  return o;
}
inline operand list(std::vector<std::int64_t> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return integers({n}, std::move(v));
}
inline operand number(std::int64_t v) { return integers({}, {v}); }
inline operand reals(std::vector<std::int64_t> extents, std::vector<double> v) {
  operand o;
  o.is = operand::what::reals;
  o.extents = std::move(extents);
  o.reals = std::move(v);
  o.type = f64;
  return o;
}
inline operand none() { return {}; }

inline message attribute_tensor(const std::string& name, const message& t) {
  return message().text(1, name).part(5, t).number(20, 4);
}

/// The bytes of numbers in an ONNX type.
inline message constant_tensor(const std::string& name, const operand& o) {
  message t;
  for (auto e : o.extents) t.number(1, static_cast<std::uint64_t>(e));
  t.number(2, static_cast<std::uint64_t>(o.type)).text(8, name);
  std::string bytes;
  const auto put = [&](auto v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (double v : o.reals) put(v);
  for (std::int64_t v : o.integers) {
    if (o.type == i64) put(v);
    else if (o.type == i32) put(static_cast<std::int32_t>(v));
    else put(static_cast<std::int8_t>(v));
  }
  return t.text(9, bytes);
}

/// A graph whose inputs and outputs have types but no extents.
inline message body(const std::vector<message>& nodes, const std::vector<std::string>& in,
                    const std::vector<std::string>& out) {
  message g;
  for (const auto& n : nodes) g.part(1, n);
  g.text(2, "body");
  const auto value_named = [](const std::string& name) {
    return message().text(1, name).part(2, message().part(1, message().number(1, f64)));
  };
  for (const auto& i : in) g.part(11, value_named(i));
  for (const auto& o : out) g.part(12, value_named(o));
  return g;
}

/// How an operator is tried.
struct operator_model {
  std::string op;
  std::vector<operand> in;
  std::vector<message> attributes = {};
  std::vector<bool> reals = {true};  ///< for each result, whether it is of floats
  int opset = 22;
  std::vector<message> before = {}, after = {};  ///< nodes around it; those after make `y0`, of which the loss is
  const char* no_gradient = nullptr;             ///< why it has none
  std::string domain = {};
};

inline std::string name_of_input(std::size_t k) { return "x" + std::to_string(k); }

/// The model of one operator. With `loss` its only result is a weighted sum of all results of floats.
inline std::string model_of(const operator_model& m, bool loss) {
  graph g;
  std::vector<std::string> in, out;
  for (std::size_t k = 0; k < m.in.size(); ++k) {
    const operand& o = m.in[k];
    std::vector<std::string> axes;
    for (auto e : o.of.extents) axes.push_back(std::to_string(e));
    if (o.is == operand::what::argument) g.inputs.push_back(value(name_of_input(k), o.of.type, axes));
    else if (o.is != operand::what::nothing) g.initializers.push_back(constant_tensor(name_of_input(k), o));
    in.push_back(o.is == operand::what::nothing ? "" : name_of_input(k));
  }
  for (std::size_t k = 0; k < m.reals.size(); ++k) out.push_back("y" + std::to_string(k));
  g.nodes = m.before;
  if (!m.op.empty()) g.nodes.push_back(node(m.op, in, out, m.attributes).text(7, m.domain));
  g.nodes.insert(g.nodes.end(), m.after.begin(), m.after.end());
  const auto untyped = [](const std::string& name, int type) {
    return message().text(1, name).part(2, message().part(1, message().number(1, static_cast<std::uint64_t>(type))));
  };
  if (!loss) {
    for (const auto& o : out) g.outputs.push_back(untyped(o, f64));
    return g.model(m.opset);
  }
  g.initializers.push_back(constant_tensor("flat", list({-1})));
  g.initializers.push_back(constant_tensor("zero", number(0)));
  g.initializers.push_back(constant_tensor("one", number(1)));
  std::vector<std::string> sums;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!m.reals[k]) continue;
    const std::string n = std::to_string(k);
    g.nodes.push_back(node("Cast", {out[k]}, {"wide" + n}, {attribute("to", f64)}));
    g.nodes.push_back(node("Reshape", {"wide" + n, "flat"}, {"row" + n}));
    g.nodes.push_back(node("Size", {"row" + n}, {"size" + n}));
    g.nodes.push_back(node("Range", {"zero", "size" + n, "one"}, {"places" + n}));
    g.nodes.push_back(node("Cast", {"places" + n}, {"angles" + n}, {attribute("to", f64)}));
    g.nodes.push_back(node("Cos", {"angles" + n}, {"weights" + n}));
    g.nodes.push_back(node("Mul", {"row" + n, "weights" + n}, {"terms" + n}));
    g.nodes.push_back(node("ReduceSum", {"terms" + n}, {"sum" + n}, {attribute("keepdims", 0)}));
    sums.push_back("sum" + n);
  }
  g.nodes.push_back(node("Sum", sums, {"loss"}));
  g.outputs.push_back(value("loss", f64, {}));
  return g.model(m.opset);
}

/// Models of operators of elements.
inline void put_elementwise(std::vector<operator_model>& all) {
  for (const char* op :
       {"Abs",    "Asinh",       "Atan",      "Celu",     "Cos",       "Cosh",     "Elu", "Erf",  "Exp",
        "Gelu",   "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish",     "Neg", "Relu", "Selu",
        "Shrink", "Sigmoid",     "Sin",       "Sinh",     "Softplus",  "Softsign", "Tan", "Tanh", "ThresholdedRelu",
        "Ceil",   "Floor",       "Round",     "Sign"})
    all.push_back({op, {x({2, 3}, -1.3, 1.4)}});
  for (const char* op : {"Affine", "ParametricSoftplus", "ScaledTanh"})
    all.push_back({op, {x({2, 3})}, {attribute_float("alpha", 1.25f), attribute_float("beta", 0.75f)}});
  all.push_back({"Scale", {x({2, 3})}, {attribute_float("scale", 1.25f)}});
  for (const char* op : {"Acos", "Asin", "Atanh"}) all.push_back({op, {x({2, 3}, -0.8, 0.8)}});
  for (const char* op : {"Acosh", "Log", "Reciprocal", "Sqrt"}) all.push_back({op, {x({2, 3}, 1.2, 3)}});
  for (const char* op : {"Add", "Div", "Mul", "Sub", "Pow", "Mod"}) {
    operator_model m{op, {x({2, 3}, 1.2, 3), x({3}, 1.1, 2.5)}};
    if (m.op == "Mod") m.attributes = {attribute("fmod", 1)};
    all.push_back(m);
  }
  for (const char* op : {"Max", "Mean", "Min", "Sum"}) all.push_back({op, {x({2, 3}), x({3}), x({2, 1})}});
  all.push_back({"Clip", {x({2, 3}), reals({}, {-0.7}), reals({}, {0.8})}});
  all.push_back({"PRelu", {x({2, 3}), x({3}, 0.1, 0.9)}});
  all.push_back({"Swish", {x({2, 3})}, {attribute_float("alpha", 1.25f)}, {true}, 24});
  all.push_back({"Where", {integers({2, 3}, {1, 0, 1, 0, 0, 1}, b8), x({2, 3}), x({3})}});
  all.push_back({"Cast", {x({2, 3})}, {attribute("to", f64)}});
  all.push_back({"CastLike", {x({2, 3}), reals({1}, {0})}});
  all.push_back({"Dropout", {x({2, 3})}, {}, {true, false}});
  const char* const flags = "its results are flags or integers";
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
    all.push_back({op, {x({2, 3}), x({3})}, {}, {false}, 22, {}, {}, flags});
  for (const char* op : {"IsInf", "IsNaN"}) all.push_back({op, {x({2, 3})}, {}, {false}, 22, {}, {}, flags});
  for (const char* op : {"And", "Or", "Xor"})
    all.push_back({op, {integers({2}, {1, 0}, b8), integers({2}, {1, 1}, b8)}, {}, {false}, 22, {}, {}, flags});
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    all.push_back({op, {list({12, 5}), list({10, 3})}, {}, {false}, 22, {}, {}, flags});
  all.push_back({"Not", {integers({2}, {1, 0}, b8)}, {}, {false}, 22, {}, {}, flags});
  all.push_back({"BitwiseNot", {list({1, 6})}, {}, {false}, 22, {}, {}, flags});
  all.push_back({"BitShift",
                 {integers({2}, {16, 4}, u8), integers({2}, {1, 2}, u8)},
                 {attribute_text("direction", "LEFT")},
                 {false},
                 22,
                 {},
                 {},
                 flags});
  all.push_back({"BitCast", {x({2})}, {attribute("to", i64)}, {false}, 26, {}, {}, "bits are not numbers"});
}

inline void put_shapes(std::vector<operator_model>& all) {
  all.push_back({"CenterCropPad", {x({4, 3}), list({2, 5})}});
  all.push_back({"Concat", {x({2, 3}), x({1, 3})}, {attribute("axis", 0)}});
  all.push_back({"Crop", {x({1, 1, 4, 5})}, {attribute_list("border", {1, 0, 2, 1})}});
  all.push_back({"DepthToSpace", {x({1, 8, 2, 1})}, {attribute("blocksize", 2)}});
  all.push_back({"Expand", {x({3, 1}), list({2, 3, 2})}});
  all.push_back({"Flatten", {x({2, 1, 3})}, {attribute("axis", 1)}});
  all.push_back({"Pad", {x({2, 3}), list({1, 0, 0, 2}), reals({}, {0.5})}});
  all.push_back({"Pad", {x({2, 3}), list({1, 2, 0, 1})}, {attribute_text("mode", "reflect")}});
  all.push_back({"Pad", {x({2, 3}), list({1, 2, 0, 1})}, {attribute_text("mode", "edge")}});
  all.push_back({"Reshape", {x({2, 3}), list({-1, 2})}});
  all.push_back({"Slice", {x({4, 3}), list({3, 0}), list({0, 2}), list({0, 1}), list({-1, 1})}});
  all.push_back({"SpaceToDepth", {x({1, 1, 4, 2})}, {attribute("blocksize", 2)}});
  all.push_back({"Split", {x({5, 2}), list({2, 3})}, {attribute("axis", 0)}, {true, true}});
  all.push_back({"Squeeze", {x({2, 1, 3}), list({1})}});
  all.push_back({"Tile", {x({2, 3}), list({2, 1})}});
  all.push_back({"Transpose", {x({2, 3})}, {attribute_list("perm", {1, 0})}});
  all.push_back({"Trilu", {x({3, 3}), number(1)}, {attribute("upper", 0)}});
  all.push_back({"Unsqueeze", {x({2, 3}), list({0, -1})}});
  const char* const unread = "its results are no function of elements";
  all.push_back({"Constant",
                 {},
                 {attribute_tensor("value", constant_tensor("c", reals({2}, {1, 2})))},
                 {true},
                 22,
                 {},
                 {},
                 unread});
  all.push_back({"ConstantOfShape", {list({2, 3})}, {}, {true}, 22, {}, {}, unread});
  all.push_back({"EyeLike", {x({3, 3})}, {attribute("k", 1)}, {true}, 22, {}, {}, unread});
  all.push_back({"Range", {number(1), number(9), number(2)}, {}, {false}, 22, {}, {}, unread});
  all.push_back({"Shape", {x({2, 3})}, {attribute("start", 1)}, {false}, 22, {}, {}, unread});
  all.push_back({"Size", {x({2, 3})}, {}, {false}, 22, {}, {}, unread});
  for (const char* op : {"BlackmanWindow", "HammingWindow", "HannWindow"})
    all.push_back({op, {number(5)}, {}, {true}, 22, {}, {}, unread});
}

inline void put_reductions(std::vector<operator_model>& all) {
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                         "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
    all.push_back({op, {x({2, 3, 2}, 0.4, 1.8), list({1})}, {attribute("keepdims", 0)}});
  all.push_back({"CumSum", {x({2, 3}), number(1)}, {attribute("reverse", 1), attribute("exclusive", 1)}});
  all.push_back({"CumProd", {x({2, 3}, 0.5, 1.5), number(1)}, {}, {true}, 26});
  all.push_back({"TopK", {x({2, 4}), list({2})}, {}, {true, false}});
  for (const char* op : {"ArgMax", "ArgMin"})
    all.push_back({op, {x({2, 3})}, {attribute("axis", 1)}, {false}, 22, {}, {}, "its results are places"});
  all.push_back({"Hardmax", {x({2, 3})}});
}

inline void put_gathers(std::vector<operator_model>& all) {
  all.push_back({"Gather", {x({3, 2}), integers({2, 2}, {0, -1, 2, 0})}});
  all.push_back({"GatherElements", {x({3, 2}), integers({2, 2}, {2, 0, -1, 1})}});
  all.push_back({"GatherND", {x({3, 2}), integers({2, 2}, {2, 0, -1, 1})}});
  all.push_back({"Compress", {x({3, 2}), integers({3}, {1, 0, 1}, b8)}, {attribute("axis", 0)}});
  all.push_back({"OneHot", {list({1, 0}), number(3), x({2})}});
  all.push_back({"ReverseSequence", {x({3, 2}), list({2, 3})}});
  all.push_back({"Scatter", {x({3, 2}), integers({1, 2}, {2, 0}), x({1, 2})}, {attribute("axis", 0)}, {true}, 10});
  all.push_back({"ScatterElements",
                 {x({3, 2}), integers({2, 2}, {2, 0, 2, 1}), x({2, 2})},
                 {attribute("axis", 0), attribute_text("reduction", "add")}});
  all.push_back({"ScatterND", {x({3, 2}), integers({2, 1}, {2, 0}), x({2, 2})}});
  all.push_back({"TensorScatter", {x({1, 4, 2}), x({1, 2, 2}), list({1})}, {}, {true}, 24});
  const char* const places = "its results are places";
  all.push_back({"NonZero", {reals({3}, {1, 0, 2})}, {}, {false}, 22, {}, {}, places});
  all.push_back({"Unique",
                 {reals({3}, {2, 1, 2})},
                 {},
                 {true, false, false, false},
                 22,
                 {},
                 {},
                 "it is computed of values that are read"});
  all.push_back({"NonMaxSuppression",
                 {reals({1, 2, 4}, {0, 0, 1, 1, 0, 2, 1, 3}), reals({1, 1, 2}, {0.9, 0.8}), number(2)},
                 {},
                 {false},
                 22,
                 {},
                 {},
                 places});
}

inline void put_networks(std::vector<operator_model>& all) {
  all.push_back({"MatMul", {x({2, 3}), x({3, 2})}});
  all.push_back({"Gemm",
                 {x({3, 2}), x({3, 2}), x({2})},
                 {attribute("transA", 1), attribute_float("alpha", 0.5f), attribute_float("beta", 2)}});
  for (const char* op : {"Softmax", "LogSoftmax"}) all.push_back({op, {x({2, 3})}});
  all.push_back({"LayerNormalization", {x({2, 4}), x({4}, 0.5, 1.5), x({4})}, {}, {true, true, true}});
  all.push_back({"RMSNormalization", {x({2, 4}), x({4}, 0.5, 1.5)}, {}, {true}, 23});
  all.push_back({"SimplifiedLayerNormalization", {x({2, 4}), x({4}, 0.5, 1.5)}, {}, {true, true}});
  all.push_back(
      {"ImageScaler", {x({1, 2, 2, 2})}, {attribute_float("scale", 1.25f), attribute_floats("bias", {0.5f, -1})}});
  all.push_back({"InstanceNormalization", {x({1, 2, 4}), x({2}, 0.5, 1.5), x({2})}});
  all.push_back({"GroupNormalization", {x({1, 4, 2}), x({4}, 0.5, 1.5), x({4})}, {attribute("num_groups", 2)}});
  all.push_back({"BatchNormalization", {x({2, 2, 2}), x({2}, 0.5, 1.5), x({2}), x({2}), x({2}, 0.5, 1.5)}});
  all.push_back({"BatchNormalization",
                 {x({2, 2, 2}), x({2}, 0.5, 1.5), x({2}), x({2}), x({2}, 0.5, 1.5)},
                 {attribute("training_mode", 1)},
                 {true, true, true}});
  all.push_back({"LRN", {x({1, 4, 2})}, {attribute("size", 3), attribute_float("alpha", 0.3f)}});
  all.push_back({"LpNormalization", {x({2, 3}, 0.3, 1.5)}});
  all.push_back({"MeanVarianceNormalization", {x({2, 1, 2, 2})}});
  all.push_back({"RotaryEmbedding", {x({1, 2, 2, 4}), x({1, 2, 2}), x({1, 2, 2})}, {}, {true}, 23});
  all.push_back(
      {"Attention", {x({1, 2, 2, 3}), x({1, 1, 3, 3}), x({1, 1, 3, 2})}, {attribute("is_causal", 1)}, {true}, 23});
  all.push_back({"Attention",
                 {x({1, 2, 6}), x({1, 3, 6}), x({1, 3, 4}), reals({2, 3}, {0, 1, 2, 0.5, -1, 0})},
                 {attribute("q_num_heads", 2), attribute("kv_num_heads", 2), attribute_float("softcap", 2)},
                 {true},
                 23});
  all.push_back({"NegativeLogLikelihoodLoss", {x({3, 2}), list({1, 0, 1}), x({2}, 0.5, 1)}});
  all.push_back({"SoftmaxCrossEntropyLoss", {x({3, 2}), list({1, 0, 1}), x({2}, 0.5, 1)}, {}, {true, true}});
}

inline void put_windows(std::vector<operator_model>& all) {
  all.push_back({"Conv",
                 {x({1, 2, 4, 3}), x({2, 1, 2, 2}), x({2})},
                 {attribute("group", 2), attribute_list("pads", {1, 0, 0, 1}), attribute_list("strides", {2, 1})}});
  all.push_back({"ConvTranspose", {x({1, 2, 2}), x({2, 1, 2}), x({1})}, {attribute_list("strides", {2})}});
  all.push_back({"AveragePool",
                 {x({1, 1, 3, 3})},
                 {attribute_list("kernel_shape", {2, 2}), attribute_list("pads", {1, 0, 0, 1})}});
  all.push_back({"MaxPool",
                 {x({1, 1, 4, 3})},
                 {attribute_list("kernel_shape", {2, 2}), attribute_list("strides", {2, 1})},
                 {true, false}});
  all.push_back({"LpPool", {x({1, 1, 4}, 0.3, 1.5)}, {attribute_list("kernel_shape", {2})}});
  all.push_back({"GlobalAveragePool", {x({1, 2, 3})}});
  all.push_back({"GlobalMaxPool", {x({1, 2, 3})}});
  all.push_back({"GlobalLpPool", {x({1, 2, 3}, 0.3, 1.5)}});
  all.push_back({"MaxUnpool",
                 {x({1, 1, 2}), integers({1, 1, 2}, {1, 2})},
                 {attribute_list("kernel_shape", {2}), attribute_list("strides", {2})}});
  all.push_back({"Col2Im", {x({1, 4, 4}), list({3, 3}), list({2, 2})}});
  all.push_back({"Resize", {x({1, 1, 2, 2}), none(), none(), list({1, 1, 3, 4})}, {attribute_text("mode", "linear")}});
  all.push_back({"Resize", {x({1, 1, 3}), none(), none(), list({1, 1, 5})}, {attribute_text("mode", "cubic")}});
  all.push_back(
      {"Upsample", {x({1, 1, 2, 2}), reals({4}, {1, 1, 2, 2})}, {attribute_text("mode", "nearest")}, {true}, 9});
  all.push_back({"Einsum", {x({2, 3}), x({3, 2})}, {attribute_text("equation", "ij,jk->ki")}});
  all.push_back({"GridSample", {x({1, 1, 3, 3}), x({1, 2, 2, 2}, -0.7, 0.7)}, {attribute_text("mode", "linear")}});
  all.push_back({"GridSample", {x({1, 1, 3, 3}), x({1, 2, 1, 2}, -0.7, 0.7)}, {attribute_text("mode", "cubic")}});
  all.push_back({"AffineGrid", {x({1, 2, 3}), list({1, 1, 2, 3})}});
  all.push_back({"CausalConvWithState", {x({1, 2, 3}), x({2, 1, 2}), x({2})}, {}, {true, true}, 27});
  all.push_back({"LinearAttention",
                 {x({1, 2, 2}), x({1, 2, 2}), x({1, 2, 1})},
                 {attribute("q_num_heads", 1), attribute("kv_num_heads", 1), attribute_text("update_rule", "linear")},
                 {true, true},
                 27});
  all.push_back({"DFT", {x({1, 4, 1})}, {}, {true}, 19});
  all.push_back({"STFT", {x({1, 6, 1}), number(2), reals({4}, {0.5, 1, 1, 0.5})}});
  const auto gates = [&](const char* op, std::int64_t n, std::vector<bool> reals) {
    all.push_back({op,
                   {x({2, 1, 2}), x({1, 2 * n, 2}), x({1, 2 * n, 2}), x({1, 4 * n})},
                   {attribute("hidden_size", 2)},
                   std::move(reals)});
  };
  gates("RNN", 1, {true, true});
  gates("GRU", 3, {true, true});
  gates("LSTM", 4, {true, true, true});
}

inline void put_regions(std::vector<operator_model>& all) {
  all.push_back({"Det", {x({2, 2, 2})}});
  all.push_back({"RoiAlign",
                 {x({1, 1, 4, 4}), reals({1, 4}, {0.3, 0.2, 2.9, 3.1}), list({0})},
                 {attribute("output_height", 2), attribute("output_width", 2), attribute("sampling_ratio", 2)}});
  all.push_back(
      {"MaxRoiPool", {x({1, 1, 4, 4}), reals({1, 5}, {0, 0, 0, 3, 3})}, {attribute_list("pooled_shape", {2, 2})}});
  all.push_back({"DeformConv",
                 {x({1, 1, 3, 3}), x({1, 1, 2, 2}), x({1, 8, 2, 2}, -0.4, 0.4)},
                 {attribute_list("pads", {0, 0, 0, 0})}});
  operator_model flex{"", {x({1, 2, 2, 3}), x({1, 1, 3, 3}), x({1, 1, 3, 2})}};
  flex.after = {node("FlexAttention", {"x0", "x1", "x2"}, {"y0"},
                     {attribute_graph("score_mod", body({node("Tanh", {"s"}, {"t"})}, {"s"}, {"t"}))})
                    .text(7, "ai.onnx.preview")};
  all.push_back(flex);
  const char* const constant = "its results are no function of elements";
  const char* const random = "its results are drawn";
  all.push_back({"MelWeightMatrix",
                 {number(4), number(16), number(8000), reals({}, {20}), reals({}, {4000})},
                 {},
                 {true},
                 22,
                 {},
                 {},
                 constant});
  all.push_back({"TfIdfVectorizer",
                 {list({1, 2, 3, 1})},
                 {attribute_text("mode", "TF"), attribute("min_gram_length", 1), attribute("max_gram_length", 2),
                  attribute("max_skip_count", 1), attribute_list("ngram_counts", {0, 2}),
                  attribute_list("ngram_indexes", {2, 0, 1}), attribute_list("pool_int64s", {1, 3, 1, 2})},
                 {true},
                 22,
                 {},
                 {},
                 "its inputs are integers"});
  for (const char* op : {"RandomNormal", "RandomUniform"})
    all.push_back({op, {}, {attribute_list("shape", {2, 3}), attribute_float("seed", 3)}, {true}, 22, {}, {}, random});
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"})
    all.push_back({op, {x({2, 3})}, {attribute_float("seed", 3)}, {true}, 22, {}, {}, random});
  all.push_back({"Bernoulli", {x({2, 3}, 0, 1)}, {attribute_float("seed", 3)}, {true}, 22, {}, {}, random});
  all.push_back({"Multinomial",
                 {x({2, 3})},
                 {attribute("sample_size", 4), attribute_float("seed", 3)},
                 {false},
                 22,
                 {},
                 {},
                 random});
}

inline void put_quantised(std::vector<operator_model>& all) {
  const char* const rounds = "its inputs or results are integers";
  const auto byte = [](std::vector<std::int64_t> e, std::vector<std::int64_t> v) {
    return integers(std::move(e), std::move(v), u8);
  };
  all.push_back({"DequantizeLinear", {integers({2, 2}, {1, -2, 3, 4}, i8), x({2}, 0.5, 1.5)}});
  all.push_back({"QuantizeLinear", {x({2, 3}), reals({}, {0.1}), byte({}, {3})}, {}, {false}, 22, {}, {}, rounds});
  all.push_back({"DynamicQuantizeLinear", {x({2, 3})}, {}, {false, true, false}, 22, {}, {}, rounds});
  all.push_back(
      {"MatMulInteger", {byte({2, 2}, {1, 2, 3, 4}), byte({2, 2}, {5, 6, 7, 8})}, {}, {false}, 22, {}, {}, rounds});
  all.push_back(
      {"ConvInteger", {byte({1, 1, 3}, {1, 2, 3}), byte({1, 1, 2}, {5, 6})}, {}, {false}, 22, {}, {}, rounds});
  all.push_back({"QLinearMatMul",
                 {byte({2, 2}, {1, 2, 3, 4}), reals({}, {0.1}), byte({}, {1}), byte({2, 2}, {5, 6, 7, 8}),
                  reals({}, {0.2}), byte({}, {2}), reals({}, {0.3}), byte({}, {3})},
                 {},
                 {false},
                 22,
                 {},
                 {},
                 rounds});
  all.push_back({"QLinearConv",
                 {byte({1, 1, 3}, {1, 2, 3}), reals({}, {0.1}), byte({}, {1}), byte({1, 1, 2}, {5, 6}),
                  reals({}, {0.2}), byte({}, {2}), reals({}, {0.3}), byte({}, {3})},
                 {},
                 {false},
                 22,
                 {},
                 {},
                 rounds});
}

inline void put_control(std::vector<operator_model>& all) {
  const message squared = node("Mul", {"a", "a"}, {"b"});
  {
    operator_model m{"If", {integers({}, {1}, b8)}};
    m.in = {integers({}, {1}, b8)};
    m.attributes = {attribute_graph("then_branch", body({node("Mul", {"x9", "x9"}, {"b"})}, {}, {"b"})),
                    attribute_graph("else_branch", body({node("Add", {"x9", "x9"}, {"b"})}, {}, {"b"}))};
    m.in.resize(10);
    m.in[9] = x({2, 3});
    m.op = "";
    m.after = {node("If", {"x0"}, {"y0"}, m.attributes)};
    all.push_back(m);
  }
  const message step =
      body({node("Identity", {"on"}, {"go"}), node("Mul", {"a", "f"}, {"b"}), node("Identity", {"b"}, {"out"})},
           {"k", "on", "a"}, {"go", "b", "out"});
  {
    operator_model m{"", {number(3), integers({}, {1}, b8), x({2}), x({2})}, {}, {true, true}};
    m.before = {node("Sin", {"x3"}, {"f"})};
    m.after = {node("Loop", {"x0", "x1", "x2"}, {"y0", "y1"}, {attribute_graph("body", step)})};
    all.push_back(m);
  }
  const message scanned = body({node("Mul", {"a", "v"}, {"b"}), node("Sin", {"b"}, {"out"})}, {"a", "v"}, {"b", "out"});
  all.push_back(
      {"Scan", {x({2}), x({3, 2})}, {attribute("num_scan_inputs", 1), attribute_graph("body", scanned)}, {true, true}});
  const auto chain = [&](std::vector<operand> in, std::vector<message> nodes) {
    operator_model m{"", std::move(in)};
    m.after = std::move(nodes);
    all.push_back(m);
  };
  const message joined = node("ConcatFromSequence", {"t"}, {"y0"}, {attribute("axis", 0)});
  chain({x({2, 3}), x({1, 3}), number(1)},
        {node("SequenceConstruct", {"x0", "x1"}, {"s"}), node("SequenceInsert", {"s", "x1", "x2"}, {"t"}), joined});
  chain({x({4, 3}), number(2), number(0)},
        {node("SplitToSequence", {"x0", "x1"}, {"s"}), node("SequenceErase", {"s", "x2"}, {"t"}), joined});
  chain({x({2, 3}), number(0)}, {node("SequenceEmpty", {}, {"s"}), node("SequenceInsert", {"s", "x0"}, {"t"}),
                                 node("SequenceAt", {"t", "x1"}, {"y0"}), node("SequenceLength", {"t"}, {"n"})});
  chain({x({2, 3})},
        {node("SequenceConstruct", {"x0"}, {"s"}),
         node("SequenceMap", {"s"}, {"t"}, {attribute_graph("body", body({squared}, {"a"}, {"b"}))}), joined});
  chain({x({2, 3})}, {node("Optional", {"x0"}, {"o"}), node("OptionalHasElement", {"o"}, {"h"}),
                      node("OptionalGetElement", {"o"}, {"y0"})});
}

/// Models of com.microsoft's operators.
inline void put_microsoft(std::vector<operator_model>& all) {
  using attributes = std::vector<message>;
  const auto put = [&](const char* op, std::vector<operand> in, attributes a = {}, std::vector<bool> reals = {true},
                       const char* no_gradient = nullptr) {
    all.push_back({op, std::move(in), std::move(a), std::move(reals), 20, {}, {}, no_gradient, "com.microsoft"});
  };
  const auto heads = [](std::int64_t n) { return attribute("num_heads", n); };
  const operand rows = x({1, 2, 4}), scale = x({4}, 0.5, 1.5), shift = x({4});
  put("BiasAdd", {rows, shift, rows});
  for (const char* op : {"BiasGelu", "FastGelu", "BiasSplitGelu"}) put(op, {rows, shift});
  for (const char* op : {"Gelu", "QuickGelu"}) put(op, {rows});
  put("SimplifiedLayerNormalization", {rows, scale});
  put("SkipLayerNormalization", {rows, rows, scale, shift, shift}, {}, {true, true, true, true});
  put("SkipSimplifiedLayerNormalization", {rows, rows, scale});
  put("EmbedLayerNormalization",
      {integers({1, 2}, {2, 0}, i32), integers({1, 2}, {1, 0}, i32), x({3, 4}), x({2, 4}), x({2, 4}), scale, shift,
       integers({1, 2}, {1, 0}, i32)},
      {}, {true, false});
  for (const char* op : {"FusedMatMul", "TransposeMatMul"})
    put(op, {x({3, 2}), x({2, 3})}, {attribute("transA", 1), attribute("transB", 1), attribute_float("alpha", 0.5f)});
  put("FusedGemm", {x({2, 3}), x({3, 2}), x({2})}, {attribute_text("activation", "Tanh")});
  put("FusedConv", {x({1, 2, 4}), x({2, 2, 2}), x({2}), x({1, 2, 3})}, {attribute_text("activation", "Sigmoid")});
  put("GroupNorm", {x({1, 3, 4}), scale, shift}, {attribute("groups", 2), attribute("activation", 1)});
  put("NhwcConv", {x({1, 4, 2}), x({3, 2, 2}), x({3})});
  put("Attention", {rows, x({4, 12}), x({12}), integers({1, 3}, {1, 0, 1}, i32), x({2, 1, 2, 1, 2})},
      {heads(2), attribute("unidirectional", 1)}, {true, true});
  put("MultiHeadAttention", {rows, x({1, 3, 4}), x({1, 3, 4}), x({12}), none(), x({1, 2, 2, 3})}, {heads(2)});
  put("GroupQueryAttention",
      {x({1, 2, 8}), x({1, 2, 4}), x({1, 2, 4}), x({1, 1, 1, 4}), x({1, 1, 1, 4}), integers({1}, {2}, i32),
       integers({1}, {3}, i32), x({4, 2}), x({4, 2})},
      {heads(2), attribute("kv_num_heads", 1), attribute("do_rotary", 1), attribute_float("softcap", 2)},
      {true, true, true});
  put("RotaryEmbedding", {x({1, 2, 8}), list({1}), x({4, 2}), x({4, 2})});
  const auto byte = [](std::vector<std::int64_t> e, std::vector<std::int64_t> v) {
    return integers(std::move(e), std::move(v), u8);
  };
  const operand packed = byte({2, 2, 4}, {18, 52, 86, 120, 4, 66, 7, 33, 99, 1, 2, 3, 101, 35, 71, 9});
  put("MatMulNBits", {x({2, 16}), packed, x({4}, 0.2, 0.6)},
      {attribute("N", 2), attribute("K", 16), attribute("bits", 4), attribute("block_size", 8)});
  put("GatherBlockQuantized", {byte({2, 4}, {18, 52, 86, 120, 4, 66, 7, 33}), list({1, 0, 1}), x({2, 1})},
      {attribute("bits", 4), attribute("block_size", 16), attribute("quantize_axis", 1)});
}
/// Models of com.microsoft's operators of 8-bit values.
inline void put_microsoft_bytes(std::vector<operator_model>& all) {
  const auto put = [&](const char* op, std::vector<operand> in, std::vector<message> a = {}, bool real = false) {
    all.push_back(
        {op, std::move(in), std::move(a), {real}, 20, {}, {}, "its inputs or results are integers", "com.microsoft"});
  };
  const auto byte = [](std::vector<std::int64_t> e, std::vector<std::int64_t> v) {
    return integers(std::move(e), std::move(v), u8);
  };
  const operand a = byte({2, 2}, {1, 200, 33, 47}), s = reals({}, {0.1}), z = byte({}, {9});
  for (const char* op : {"QLinearAdd", "QLinearMul"}) put(op, {a, s, z, a, s, z, s, z});
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"}) put(op, {a, s, z, s, z});
  put("QLinearConcat", {s, z, a, s, z, a, s, z}, {attribute("axis", 1)});
  put("QLinearWhere", {integers({2, 2}, {1, 0, 0, 1}, b8), a, s, z, a, s, z, s, z});
  const operand image = byte({1, 1, 3}, {4, 9, 220});
  put("QLinearGlobalAveragePool", {image, s, z, s, z});
  put("QLinearAveragePool", {image, s, z, s, z}, {attribute_list("kernel_shape", {2})});
  put("QLinearConv", {byte({1, 3, 1}, {4, 9, 220}), s, z, byte({1, 1, 2}, {5, 6}), s, z, s, z},
      {attribute("channels_last", 1)});
  put("QGemm", {a, s, z, a, s, z, integers({2}, {40, -3}, i32), s, z}, {attribute("transB", 1)});
  put("MatMulIntegerToFloat", {a, a, s, s, z, z}, {}, true);
  put("DynamicQuantizeMatMul", {reals({1, 2}, {0.5, -1}), a, s, z}, {}, true);
  put("QAttention",
      {byte({1, 2, 2}, {1, 200, 33, 47}), byte({2, 6}, {1, 2, 3, 4, 5, 6, 9, 8, 7, 6, 5, 4}),
       reals({6}, {0, 1, 2, 3, 4, 5}), s, s},
      {attribute("num_heads", 1)}, true);
  put("QuantizeLinear", {reals({2}, {0.5, -1}), s, z});
  put("DequantizeLinear", {a, s, z}, {}, true);
}

/// Models of ai.onnx.ml's operators, whose results are f32 or labels.
inline void put_columns_of_tables(std::vector<operator_model>& all) {
  const auto put = [&](const char* op, std::vector<operand> in, std::vector<message> a,
                       std::vector<bool> reals = {false}, const char* why = "its results are f32 or labels") {
    all.push_back({op, std::move(in), std::move(a), std::move(reals), 20, {}, {}, why, "ai.onnx.ml"});
  };
  const operand rows = x({3, 2});
  const message split = attribute_floats("nodes_values", {0.25f, 0, 0}),
                yes = attribute_list("nodes_truenodeids", {1, 0, 0}),
                no = attribute_list("nodes_falsenodeids", {2, 0, 0}),
                column = attribute_list("nodes_featureids", {1, 0, 0}),
                tree = attribute_list("nodes_treeids", {0, 0, 0}), id = attribute_list("nodes_nodeids", {0, 1, 2}),
                how = attribute_texts("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"});
  const auto leaves = [](const std::string& of) {
    return std::vector<message>{attribute_list(of + "_treeids", {0, 0}), attribute_list(of + "_nodeids", {1, 2}),
                                attribute_list(of + "_ids", {0, 0}), attribute_floats(of + "_weights", {-1, 2})};
  };
  std::vector<message> regressor{split, yes, no, column, tree, id, how}, classifier = regressor;
  for (const auto& m : leaves("target")) regressor.push_back(m);
  for (const auto& m : leaves("class")) classifier.push_back(m);
  const message labels = attribute_list("classlabels_int64s", {4, 7}),
                ints = attribute_list("classlabels_ints", {4, 7});
  classifier.push_back(labels);
  put("TreeEnsembleRegressor", {rows}, regressor);
  put("TreeEnsembleClassifier", {rows}, classifier, {false, false});
  const auto tensor_of = [](const char* name, const operand& o) {
    return attribute_tensor(name, constant_tensor("", o));
  };
  put("TreeEnsemble", {rows},
      {attribute_list("tree_roots", {0}), tensor_of("nodes_modes", integers({1}, {0}, u8)),
       attribute_list("nodes_featureids", {1}), tensor_of("nodes_splits", reals({1}, {0.25})),
       attribute_list("nodes_truenodeids", {0}), attribute_list("nodes_trueleafs", {1}),
       attribute_list("nodes_falsenodeids", {1}), attribute_list("nodes_falseleafs", {1}),
       attribute_list("leaf_targetids", {0, 0}), tensor_of("leaf_weights", reals({2}, {-1, 2}))});
  const message w = attribute_floats("coefficients", {0.5f, -2}), kernel = attribute_text("kernel_type", "RBF"),
                by = attribute_floats("kernel_params", {0.5f, 0, 3}), rho = attribute_floats("rho", {0.25f}),
                vectors = attribute_floats("support_vectors", {1, 0, 0.5f, -1});
  put("LinearRegressor", {rows}, {w});
  put("LinearClassifier", {rows}, {w, attribute_floats("intercepts", {0.5f}), ints}, {false, false});
  put("SVMRegressor", {rows}, {kernel, by, vectors, w, rho, attribute("n_supports", 2)});
  put("SVMClassifier", {rows}, {kernel, by, vectors, w, rho, attribute_list("vectors_per_class", {1, 1}), ints},
      {false, false});
  put("Scaler", {rows}, {attribute_floats("offset", {1, 2}), attribute_floats("scale", {3, 4})});
  put("Normalizer", {rows}, {attribute_text("norm", "L2")});
  put("Binarizer", {rows}, {});
  put("FeatureVectorizer", {rows, rows}, {attribute_list("inputdimensions", {2, 2})});
  put("OneHotEncoder", {list({2, 0})}, {attribute_list("cats_int64s", {0, 2})});
  put("LabelEncoder", {list({2, 0})},
      {attribute_list("keys_int64s", {0, 2}), attribute_floats("values_floats", {1, 2})});
  put("CategoryMapper", {list({2, 0})},
      {attribute_list("cats_int64s", {0, 2}), attribute_texts("cats_strings", {"a", "b"})});
  put("Imputer", {rows}, {attribute_floats("imputed_value_floats", {1}), attribute_float("replaced_value_float", 0)},
      {true}, nullptr);
  put("ArrayFeatureExtractor", {rows, list({1, 0, 1})}, {}, {true}, nullptr);
  put("ZipMap", {rows}, {attribute_list("classlabels_int64s", {4, 7})}, {true}, nullptr);
}

/// Models of all operators; some have several. One that is written as nodes around tells its operators by `operators_of`.
inline const std::vector<operator_model>& operator_models() {
  static const std::vector<operator_model> all = [] {
    std::vector<operator_model> list_of_all;
    put_elementwise(list_of_all);
    put_shapes(list_of_all);
    put_reductions(list_of_all);
    put_gathers(list_of_all);
    put_networks(list_of_all);
    put_windows(list_of_all);
    put_regions(list_of_all);
    put_quantised(list_of_all);
    put_control(list_of_all);
    put_microsoft(list_of_all);
    put_microsoft_bytes(list_of_all);
    put_columns_of_tables(list_of_all);
    return list_of_all;
  }();
  return all;
}

}  // namespace onnx_test
