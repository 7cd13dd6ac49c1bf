// Training what a file holds: parameters() by roles, calls with any of them, and 200 steps of a ResNet, a ViT and a GRU.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "operator_models.hpp"

#include "calls.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_graph;
using onnx_test::attribute_list;
using onnx_test::attribute_tensor;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::some;
using onnx_test::value;

namespace {

using floats = std::vector<float>;
using whole = std::vector<std::int64_t>;
using names = std::set<std::string>;

std::size_t count(const whole& e) {
  std::size_t n = 1;
  for (const auto x : e) n *= static_cast<std::size_t>(x);
  return n;
}
message zeros_and(const std::string& name, const whole& e, float other) {
  floats v(count(e), 0.f);
  for (std::size_t k = 1; k < v.size(); k += 2) v[k] = other;
  return onnx_test::tensor(name, e, v);
}

/// A graph under way: nodes in order, weights that look like no pattern.
struct builder {
  onnx_test::graph g;
  double seed = 1;

  void weight(const std::string& name, const whole& e, double size, float middle = 0) {
    floats v = some(count(e), seed += 1, size);
    for (float& x : v) x += middle;
    g.initializers.push_back(onnx_test::tensor(name, e, v));
  }
  void integers(const std::string& name, const whole& v) {
    g.initializers.push_back(onnx_test::tensor(name, {static_cast<std::int64_t>(v.size())}, v));
  }
  std::string put(const std::string& op, std::vector<std::string> in, const std::string& out,
                  const std::vector<message>& attributes = {}) {
    g.nodes.push_back(node(op, in, {out}, attributes));
    return out;
  }
  std::string conv(const std::string& x, const std::string& name, std::int64_t from, std::int64_t to, std::int64_t size,
                   std::int64_t stride) {
    weight(name + ".weight", {to, from, size, size}, 1.0 / std::sqrt(static_cast<double>(from * size * size)));
    const std::int64_t pad = size / 2;
    return put("Conv", {x, name + ".weight"}, name,
               {attribute_list("strides", {stride, stride}), attribute_list("pads", {pad, pad, pad, pad})});
  }
  std::string norm(const std::string& x, const std::string& name, std::int64_t channels) {
    weight(name + ".weight", {channels}, 0.1, 1);
    weight(name + ".bias", {channels}, 0.1);
    weight(name + ".running_mean", {channels}, 0.05);
    weight(name + ".running_var", {channels}, 0.15, 0.25f);
    return put("BatchNormalization",
               {x, name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"}, name);
  }
  std::string linear(const std::string& x, const std::string& name, std::int64_t from, std::int64_t to) {
    weight(name + ".weight", {from, to}, 1.0 / std::sqrt(static_cast<double>(from)));
    weight(name + ".bias", {to}, 0.1);
    return put("Add", {name + ".bias", put("MatMul", {x, name + ".weight"}, name + ".product")}, name);
  }
  std::string layer_norm(const std::string& x, const std::string& name, std::int64_t size) {
    weight(name + ".weight", {size}, 0.1, 1);
    weight(name + ".bias", {size}, 0.1);
    return put("LayerNormalization", {x, name + ".weight", name + ".bias"}, name);
  }
  void head(const std::string& x, std::int64_t size) {
    weight("fc.weight", {4, size}, 1.0 / std::sqrt(static_cast<double>(size)));
    weight("fc.bias", {4}, 0.1);
    put("Gemm", {x, "fc.weight", "fc.bias"}, "y", {attribute("transB", 1)});
    g.outputs = {value("y", onnx_test::f32, {"N", "4"})};
  }
  names floating() const {
    names out;
    for (const auto& [name, x] : onnx::load(bytes_of(g.model())).weights()) out.insert(name);
    return out;
  }
};

std::string resnet_block(builder& b, const std::string& x, const std::string& name, std::int64_t from,
                         std::int64_t to) {
  const std::int64_t stride = from == to ? 1 : 2;
  std::string y = b.norm(b.conv(x, name + ".conv1", from, to, 3, stride), name + ".bn1", to);
  y = b.put("Relu", {y}, name + ".relu");
  y = b.norm(b.conv(y, name + ".conv2", to, to, 3, 1), name + ".bn2", to);
  std::string way = x;
  if (from != to) way = b.norm(b.conv(x, name + ".down", from, to, 1, stride), name + ".down_bn", to);
  return b.put("Relu", {b.put("Add", {y, way}, name + ".sum")}, name + ".out");
}
builder resnet() {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"N", "3", "8", "8"})};
  std::string y = b.put("Relu", {b.norm(b.conv("x", "conv1", 3, 6, 3, 1), "bn1", 6)}, "relu1");
  y = resnet_block(b, resnet_block(b, y, "layer1", 6, 6), "layer2", 6, 8);
  y = b.put("Flatten", {b.put("GlobalAveragePool", {y}, "pool")}, "flat");
  b.head(y, 8);
  return b;
}

/// Five tokens of size 12 in two heads, of which the last one is masked; the output projection is the constant of a node.
std::string attention(builder& b, const std::string& x) {
  std::vector<std::string> parts;
  for (const char* name : {"q", "k", "v"}) {
    const std::string y = b.put("Reshape", {b.linear(x, name, 12, 12), "heads"}, std::string(name) + ".heads");
    parts.push_back(b.put("Transpose", {y}, std::string(name) + ".turned",
                          {attribute_list("perm", name[0] == 'k' ? whole{0, 2, 3, 1} : whole{0, 2, 1, 3})}));
  }
  std::string s = b.put("Mul", {b.put("MatMul", {parts[0], parts[1]}, "scores"), "scale"}, "scaled");
  s = b.put("Add", {b.put("Add", {s, "relative"}, "placed"), "mask"}, "masked");
  s = b.put("MatMul", {b.put("Softmax", {s}, "weights"), parts[2]}, "read");
  s = b.put("Reshape", {b.put("Transpose", {s}, "read.turned", {attribute_list("perm", {0, 2, 1, 3})}), "rows"},
            "rows.out");
  b.g.nodes.push_back(node("Constant", {}, {"out.weight"},
                           {attribute_tensor("value", onnx_test::tensor("", {12, 12}, some(144, 77, 0.3)))}));
  return b.put("MatMul", {s, "out.weight"}, "out");
}
builder vit() {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"N", "3", "8", "8"})};
  b.integers("heads", {0, 5, 2, 6});
  b.integers("rows", {0, 5, 12});
  b.integers("patches", {0, 12, 4});
  b.integers("first", {0});
  b.integers("one_row", {1, 12});
  b.g.initializers.push_back(onnx_test::tensor("zero", {}, whole{0}));
  b.g.initializers.push_back(onnx_test::tensor("scale", {}, floats{0.4f}));
  b.g.initializers.push_back(zeros_and("mask", {1, 1, 1, 5}, -1e9f));
  b.weight("relative", {2, 5, 5}, 0.2);
  b.weight("cls", {1, 1, 12}, 0.3);
  b.weight("pos", {1, 5, 12}, 0.3);
  b.weight("patch.weight", {12, 3, 4, 4}, 0.15);
  b.weight("patch.bias", {12}, 0.1);
  std::string y = b.put("Conv", {"x", "patch.weight", "patch.bias"}, "patch", {attribute_list("strides", {4, 4})});
  y = b.put("Transpose", {b.put("Reshape", {y, "patches"}, "flat")}, "tokens", {attribute_list("perm", {0, 2, 1})});
  b.put("Gather", {b.put("Shape", {"x"}, "shape"), "first"}, "n");
  b.put("Expand", {"cls", b.put("Concat", {"n", "one_row"}, "cls.shape", {attribute("axis", 0)})}, "cls.all");
  y = b.put("Add", {b.put("Concat", {"cls.all", y}, "all", {attribute("axis", 1)}), "pos"}, "placed.all");
  y = b.put("Add", {y, attention(b, b.layer_norm(y, "ln1", 12))}, "sum1");
  const std::string h = b.put("Gelu", {b.linear(b.layer_norm(y, "ln2", 12), "up", 12, 20)}, "gelu");
  y = b.layer_norm(b.put("Add", {y, b.linear(h, "down", 20, 12)}, "sum2"), "ln3", 12);
  b.head(b.put("Gather", {y, "zero"}, "cls.out", {attribute("axis", 1)}), 12);
  return b;
}
builder gru() {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"T", "N", "3"})};
  b.integers("axis", {0});
  b.weight("w", {1, 24, 3}, 0.5);
  b.weight("r", {1, 24, 8}, 0.35);
  b.weight("b", {1, 48}, 0.1);
  b.g.nodes.push_back(node("GRU", {"x", "w", "r", "b"}, {"states", "last"}, {attribute("hidden_size", 8)}));
  b.head(b.put("Squeeze", {"last", "axis"}, "h"), 8);
  return b;
}

/// 200 steps of the recipe of docs/onnx.md on a file: the losses before each and after the last, then that of a call of the model.
template <int Rank>
std::vector<double> fine_tuned(const onnx::model& m, const tensor<float, Rank>& x, double rate) {
  onnx::tensor_map w = m.parameters();
  const tensor<float, 2> t = from_span(some(24, 9), 6, 4);
  auto loss = [&](const onnx::tensor_map& now, const tensor<float, Rank>& in, const tensor<float, 2>& want) {
    return mean(square(m(now, {in})[0].template as<tensor<float, 2>>() - want));
  };
  auto step = compile([&](const onnx::tensor_map& now, const tensor<float, 0>& rate_of, const tensor<float, Rank>& in,
                          const tensor<float, 2>& want) {
    auto [l, g] = value_and_grad(loss)(now, in, want);
    return std::tuple{
        l, tree_map([&](const dynamic_tensor& p, const dynamic_tensor& d) { return p - rate_of * d; }, now, g)};
  });
  std::vector<double> out;
  for (int k = 0; k <= 200; ++k) {
    auto [l, next] = step(w, tensor<float, 0>(static_cast<float>(rate)), x, t);
    out.push_back(static_cast<double>(l.item()));
    if (k < 200) w = next;
  }
  // A call of the model takes the trained weights in place of the file's.
  out.push_back(static_cast<double>(mean(square(m(w, {x})[0].template as<tensor<float, 2>>() - t)).item()));
  return out;
}
template <int Rank>
void check_training(const builder& b, const names& kept_back, const names& constants, const tensor<float, Rank>& x,
                    double rate) {
  const scratch_folder folder;
  const std::string path = folder.path + "/model.onnx";
  std::ofstream(path, std::ios::binary) << b.g.model();
  const onnx::model m = onnx::load(path);
  names want = constants, got;
  for (const std::string& name : b.floating())
    if (!kept_back.count(name)) want.insert(name);
  for (const auto& [name, p] : m.parameters()) got.insert(name);
  CHECK(got == want);
  const auto losses = fine_tuned<Rank>(m, x, rate);
  for (const double l : losses) REQUIRE(std::isfinite(l));
  INFO(losses.front() << " to " << losses.back());
  CHECK(losses[50] < losses[0]);
  CHECK(losses.back() < 0.3 * losses.front());
  CHECK(losses.back() == doctest::Approx(losses[200]).epsilon(1e-4));
}

names parameters_of(const std::string& file) {
  names out;
  for (const auto& [name, x] : onnx::load(bytes_of(file)).parameters()) out.insert(name);
  return out;
}

}  // namespace

TEST_CASE("a ResNet from a file is fine-tuned, and its running statistics stay") {
  const builder b = resnet();
  names statistics;
  for (const std::string& name : b.floating())
    if (contains(name, "running")) statistics.insert(name);
  CHECK(statistics.size() == 12);
  check_training<4>(b, statistics, {}, from_span(some(6 * 3 * 64, 4), 6, 3, 8, 8), 0.005);
}

TEST_CASE("a ViT from a file is fine-tuned, and its mask and scale stay") {
  check_training<4>(vit(), {"mask", "scale"}, {"out.weight"}, from_span(some(6 * 3 * 64, 4), 6, 3, 8, 8), 0.01);
}

TEST_CASE("a GRU from a file is fine-tuned") {
  check_training<3>(gru(), {}, {}, from_span(some(5 * 6 * 3, 4), 5, 6, 3), 0.2);
}

TEST_CASE("parameters are told by the operands that read them, moved, in graphs within and in functions") {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"N", "4"}), value("on", onnx_test::b8, {})};
  for (const char* name :
       {"stat", "var", "shared", "gamma", "beta", "w", "branch", "added", "passed", "square", "deep", "unread"})
    b.weight(name, {4}, 0.1, 0.5f);
  b.weight("table", {4, 4}, 0.3);
  b.g.initializers.push_back(onnx_test::tensor("number", {}, floats{2}));
  b.g.initializers.push_back(onnx_test::tensor("epsilon", {1}, floats{0.1f}));
  b.g.initializers.push_back(zeros_and("keep", {1, 4}, 1));
  b.g.initializers.push_back(zeros_and("hide", {4}, -std::numeric_limits<float>::infinity()));
  b.g.initializers.push_back(onnx_test::tensor("gate", {1, 4}, floats{1, 1, 1, 1}));
  b.g.initializers.push_back(zeros_and("channels", {4}, 1));
  b.g.initializers.push_back(onnx_test::tensor("point", {}, whole{0}));
  b.integers("row", {1, 4});
  b.integers("flat", {4});
  b.integers("starts", {0});
  // A statistic behind a move; a tensor that is a bias here and a mean there.
  b.put("Reshape", {b.put("Identity", {"stat"}, "stat2"), "flat"}, "stat3");
  std::string y = b.put("BatchNormalization", {"x", "gamma", "beta", "stat3", "var"}, "bn");
  y = b.put("BatchNormalization", {b.put("Add", {y, "shared"}, "biased"), "gamma", "beta", "shared", "var"}, "bn2");
  // A normalisation that is written out.
  y = b.put("Div", {y, b.put("Sqrt", {b.put("Add", {"square", "epsilon"}, "square2")}, "deviation")}, "written");
  // Masks, and weights in the same places.
  y = b.put("Mul", {b.put("Mul", {y, "keep"}, "kept"), "gate"}, "gated");
  y = b.put("Mul", {y, "channels"}, "scaled");
  y = b.put("Softmax", {b.put("Add", {b.put("Add", {y, "added"}, "scored"), "hide"}, "hidden")}, "soft");
  y = b.put("Mul", {y, "number"}, "doubled");
  y = b.put("MatMul", {y, "table"}, "product");
  // A branch reads names around it.
  const message yes = onnx_test::body({node("Mul", {"product", "branch"}, {"b1"})}, {}, {"b1"}),
                no = onnx_test::body({node("BatchNormalization", {"product", "gamma", "beta", "deep", "var"}, {"b2"})},
                                     {}, {"b2"});
  b.g.nodes.push_back(
      node("If", {"on"}, {"branched"}, {attribute_graph("then_branch", yes), attribute_graph("else_branch", no)}));
  // Constants of nodes: weights of products, turned, and what is none.
  const auto constant = [&](const char* name, const whole& e) {
    b.g.nodes.push_back(
        node("Constant", {}, {name}, {attribute_tensor("value", onnx_test::tensor("", e, some(count(e), 3, 0.3)))}));
  };
  constant("turned", {4, 4});
  constant("bias", {4});
  constant("added_bias", {4});
  constant("slope", {4});
  y = b.put("Gemm", {"branched", b.put("Transpose", {"turned"}, "turned2"), "bias"}, "gemm");
  y = b.put("Add", {b.put("MatMul", {y, "table"}, "again"), "added_bias"}, "again2");
  y = b.put("PRelu", {b.put("Add", {y, "w"}, "sum"), "slope"}, "bent");
  // A function whose body takes a mean.
  b.g.nodes.push_back(node("Centre", {"bent", "passed", "gamma"}, {"y"}).text(7, "local"));
  b.g.outputs = {value("y", onnx_test::f32, {"N", "4"})};
  const message fn = message()
                         .text(1, "Centre")
                         .text(4, "a")
                         .text(4, "m")
                         .text(4, "s")
                         .text(5, "r")
                         .part(7, node("Abs", {"m"}, {"v"}))
                         .part(7, node("BatchNormalization", {"a", "s", "s", "m", "v"}, {"r"}))
                         .part(9, message().number(2, 20))
                         .text(10, "local");
  const std::string file = b.g.model() + message().part(25, fn).bytes();
  CHECK(parameters_of(file) == names{"gamma", "beta", "w", "branch", "added", "unread", "channels", "table", "gate",
                                     "turned", "bias", "added_bias"});
  const onnx::model m = onnx::load(bytes_of(file));
  CHECK(m.weights().count("stat") == 1);
  CHECK(m.weights().count("turned") == 0);
}

TEST_CASE("scales, zero points, bounds and options are no parameters") {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"1", "1", "4"})};
  for (const char* name : {"scale", "back", "w"}) b.weight(name, {4}, 0.1, 0.5f);
  b.g.initializers.push_back(onnx_test::tensor("sizes", {3}, floats{1, 1, 2}));
  b.g.initializers.push_back(onnx_test::tensor("fill", {1}, floats{0.5f}));
  b.integers("pads", {0, 0, 1, 0, 0, 1});
  std::string y = b.put("QuantizeLinear", {b.put("Mul", {"x", "w"}, "scaled"), "scale"}, "q", {attribute("axis", 2)});
  y = b.put("DequantizeLinear", {y, "back"}, "d", {attribute("axis", 2)});
  y = b.put("Pad", {b.put("Resize", {y, "", "sizes"}, "large"), "pads", "fill"}, "y");
  b.g.outputs = {value("y", onnx_test::f32, {"1", "1", "10"})};
  CHECK(parameters_of(b.g.model()) == names{"w"});
}

TEST_CASE("calls take any subset of the weights, and refuse names and extents that the file has not") {
  builder b;
  b.g.inputs = {value("x", onnx_test::f32, {"N", "2"})};
  b.g.initializers.push_back(onnx_test::tensor("w", {2, 2}, floats{1, 2, 3, 4}));
  b.g.nodes.push_back(
      node("Constant", {}, {"bias"}, {attribute_tensor("value", onnx_test::tensor("", {2}, floats{10, 20}))}));
  b.put("Add", {b.put("MatMul", {"x", "w"}, "p"), "bias"}, "y");
  b.g.outputs = {value("y", onnx_test::f32, {"N", "2"})};
  const tensor<float, 2> x{{1, 1}}, w{{1, 0}, {0, 1}};
  const tensor<float, 1> bias{-1, -2};
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(b.g.model()), onnx_test::on(interpreted));
    const auto y = [&](const onnx::tensor_map& some_of) {
      return m(some_of, {x})[0].as<tensor<float, 2>>().to_vector();
    };
    CHECK(m.parameters().size() == 2);
    CHECK(y({}) == floats{14, 26});
    CHECK(y({{"w", w}}) == floats{11, 21});
    CHECK(y({{"bias", bias}}) == floats{3, 4});
    CHECK(y({{"bias", bias}, {"w", w}}) == floats{0, -1});
    CHECK(y(m.parameters()) == floats{14, 26});
    CHECK(contains(message_of([&] { y({{"v", w}}); }), "the weight 'v' is given, which the model does not have"));
    CHECK(contains(message_of([&] {
                     y({{"w", bias}});
                   }),
                   "the weight 'w' is given as f32 (2,) and is f32 (2, 2) in the file"));
    CHECK(contains(message_of([&] {
                     y({{"bias", tensor<double, 1>{1, 2}}});
                   }),
                   "is given as f64 (2,) and is f32 (2) in"));
  }
}
