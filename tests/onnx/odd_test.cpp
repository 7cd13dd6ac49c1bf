// Models as exporters and people have written them: old operators, names of all kinds, what is left out, what stands twice.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <string>
#include <vector>

#include "operator_models.hpp"

#include "calls.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_float;
using onnx_test::attribute_graph;
using onnx_test::attribute_list;
using onnx_test::attribute_text;
using onnx_test::attribute_texts;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::value;
using floats = std::vector<float>;

namespace {

onnx_test::graph graph_of(std::vector<message> nodes, std::vector<message> in, std::vector<message> out) {
  onnx_test::graph g;
  g.nodes = std::move(nodes);
  g.inputs = std::move(in);
  g.outputs = std::move(out);
  return g;
}
onnx::model loaded(const onnx_test::graph& g, int opset = 20) {
  options how;
  how.backend = "reference";
  return onnx::load(bytes_of(g.model(opset)), how);
}
floats numbers(const dynamic_tensor& x) {
  const io::array a = x.to_array();
  REQUIRE(a.type == dtype::f32);
  floats out(static_cast<std::size_t>(a.numel()));
  if (!out.empty()) std::memcpy(out.data(), a.data, 4 * out.size());
  return out;
}
message floats_named(const std::string& name, std::vector<std::int64_t> extents, const floats& v) {
  return onnx_test::tensor(name, std::move(extents), v);
}
message integers_named(const std::string& name, std::vector<std::int64_t> extents, const std::vector<std::int64_t>& v) {
  return onnx_test::tensor(name, std::move(extents), v);
}
message untyped(const std::string& name) { return message().text(1, name); }
/// The first result of a model of one operator on x, of a version.
floats one(const message& n, const tensor<float, 2>& x, int opset, std::vector<message> constants = {}) {
  auto g = graph_of({n}, {value("x", onnx_test::f32, {"A", "B"})}, {untyped("y")});
  g.initializers = std::move(constants);
  return numbers(loaded(g, opset)({x})[0]);
}

const tensor<float, 2> x{{1, -2, 3}, {4, 5, -6}};

}  // namespace

TEST_CASE("initialisers that are inputs, too, are given by the file, or by name") {
  auto g = graph_of({node("Mul", {"x", "w"}, {"y"})},
                    {value("x", onnx_test::f32, {"2", "3"}), value("w", onnx_test::f32, {"3"})},
                    {value("y", onnx_test::f32, {"2", "3"})});
  g.initializers = {floats_named("w", {3}, {1, 10, 100})};
  const onnx::model m = loaded(g, 7);
  CHECK(m.inputs().size() == 1);
  CHECK(numbers(m({x})[0]) == floats{1, -20, 300, 4, 50, -600});
  const tensor<float, 1> other{2, 2, 2};
  CHECK(numbers(m(onnx::tensor_map{{"w", other}}, {x})[0]) == floats{2, -4, 6, 8, 10, -12});
  CHECK(numbers(m(onnx::tensor_map{{"x", x}, {"w", other}}).at("y")) == floats{2, -4, 6, 8, 10, -12});
  CHECK(contains(message_of([&] { m(onnx::tensor_map{{"x", x}, {"v", other}}); }), "'v'"));
}

TEST_CASE("names of nodes are empty or alike; names of values hold anything") {
  const std::string odd = "a/b:0\"; $(touch x) \n*/ #if \xff\xc3", wide(3000, 'w');
  message unnamed = message().text(1, odd).text(2, wide).text(4, "Neg");
  auto g = graph_of({unnamed, message().text(1, wide).text(2, "y").text(3, "same").text(4, "Neg"),
                     message().text(1, "y").text(2, "z").text(3, "same").text(4, "Abs")},
                    {value(odd, onnx_test::f32, {"2", "3"})}, {untyped("z"), untyped("y"), untyped("y")});
  for (const char* backend : {"reference", "auto"}) {
    options how;
    how.backend = backend;
    const onnx::model m = onnx::load(bytes_of(g.model(20)), how);
    const auto y = m({x});
    REQUIRE(y.size() == 3);
    CHECK(numbers(y[0]) == floats{1, 2, 3, 4, 5, 6});
    CHECK(numbers(y[1]) == numbers(y[2]));
    CHECK(m(onnx::tensor_map{{odd, x}}).count("z") == 1);
  }
}

TEST_CASE("two nodes that give one name are an error that says it") {
  const auto g = graph_of({node("Neg", {"x"}, {"y"}), node("Abs", {"x"}, {"y"})},
                          {value("x", onnx_test::f32, {"2", "3"})}, {untyped("y")});
  CHECK(contains(message_of([&] { loaded(g)({x}); }), "'y' is given twice"));
}

TEST_CASE("results that no node makes: inputs, initialisers, constants") {
  auto g = graph_of({node("Constant", {}, {"c"}, {attribute_float("value_float", 2.5f)})},
                    {value("x", onnx_test::f32, {"2", "3"})}, {untyped("x"), untyped("w"), untyped("c")});
  g.initializers = {floats_named("w", {2}, {7, 8})};
  const auto y = loaded(g)({x});
  CHECK(numbers(y[0]) == floats{1, -2, 3, 4, 5, -6});
  CHECK(numbers(y[1]) == floats{7, 8});
  CHECK(y[2].rank() == 0);
  CHECK(numbers(y[2]) == floats{2.5f});
}

TEST_CASE("optional inputs and results are left out, at the end and between others") {
  auto g = graph_of(
      {node("Clip", {"x", "", "top"}, {"c"}), node("Split", {"c", "parts"}, {"a", "b"}, {attribute("axis", 1)}),
       node("Dropout", {"b"}, {"d", ""}),
       message().text(1, "d").text(1, "k").text(2, "").text(2, "at").text(4, "TopK")},
      {value("x", onnx_test::f32, {"2", "3"}), value("unused", onnx_test::f32, {"9"})}, {untyped("d"), untyped("at")});
  g.initializers = {floats_named("top", {}, {2}), integers_named("parts", {2}, {1, 2}), integers_named("k", {1}, {1})};
  const auto y = loaded(g)({x, zeros<float>(9)});
  CHECK(numbers(y[0]) == floats{-2, 2, 2, -6});
  CHECK(y[1].text() == "i64 (2, 1)");
  // The recurrent ones give their last states without all the others.
  auto r = graph_of({message().text(1, "s").text(1, "w").text(1, "r").text(2, "").text(2, "h").text(4, "RNN").part(
                        5, attribute("hidden_size", 1))},
                    {value("s", onnx_test::f32, {"2", "1", "1"})}, {untyped("h")});
  r.initializers = {floats_named("w", {1, 1, 1}, {1}), floats_named("r", {1, 1, 1}, {0})};
  CHECK(numbers(loaded(r)({tensor<float, 3>{{{0.f}}, {{0.5f}}}})[0])[0] == doctest::Approx(std::tanh(0.5)));
}

TEST_CASE("scalars and extents of 0 pass through") {
  auto s = graph_of({node("Exp", {"x"}, {"e"}), node("Mul", {"e", "x"}, {"y"})}, {value("x", onnx_test::f32, {})},
                    {value("y", onnx_test::f32, {})});
  CHECK(numbers(loaded(s)({tensor<float, 0>(2.f)})[0])[0] == doctest::Approx(2 * std::exp(2.)));
  auto z = graph_of({node("MatMul", {"x", "w"}, {"h"}), node("Softmax", {"h"}, {"p"}), node("ReduceSum", {"p"}, {"s"}),
                     node("Concat", {"x", "x"}, {"c"}, {attribute("axis", 0)}), node("Transpose", {"c"}, {"t"})},
                    {value("x", onnx_test::f32, {"N", "3"})}, {untyped("p"), untyped("s"), untyped("t")});
  z.initializers = {floats_named("w", {3, 2}, {1, 2, 3, 4, 5, 6})};
  for (const char* backend : {"reference", "auto"}) {
    options how;
    how.backend = backend;
    const onnx::model m = onnx::load(bytes_of(z.model(20)), how);
    const auto y = m({zeros<float>(0, 3)});
    CHECK(y[0].text() == "f32 (0, 2)");
    CHECK(numbers(y[1]) == floats{0});
    CHECK(y[2].text() == "f32 (3, 0)");
    CHECK(m({x})[0].text() == "f32 (2, 2)");
  }
}

TEST_CASE("weights that several nodes share are one") {
  auto g =
      graph_of({node("MatMul", {"x", "w"}, {"h"}), node("MatMul", {"h", "w"}, {"k"}), node("Add", {"k", "w"}, {"y"})},
               {value("x", onnx_test::f32, {"3", "3"})}, {untyped("y")});
  g.initializers = {floats_named("w", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 2})};
  const onnx::model m = loaded(g);
  CHECK(m.weights().size() == 1);
  CHECK(numbers(m({eye<float>(3)})[0]) == floats{2, 0, 0, 0, 2, 0, 0, 0, 6});
}

TEST_CASE("broadcasting of operators before version 7 is along an axis") {
  const std::vector<message> by_row{floats_named("b", {2}, {10, 100})}, by_column{floats_named("b", {3}, {1, 2, 3})};
  const auto both = [](std::int64_t axis) {
    return std::vector<message>{attribute("broadcast", 1), attribute("axis", axis)};
  };
  CHECK(one(node("Add", {"x", "b"}, {"y"}, both(0)), x, 6, by_row) == floats{11, 8, 13, 104, 105, 94});
  CHECK(one(node("Sub", {"x", "b"}, {"y"}, both(1)), x, 6, by_column) == floats{0, -4, 0, 3, 3, -9});
  CHECK(one(node("Mul", {"x", "b"}, {"y"}, {attribute("broadcast", 1)}), x, 1, by_column) ==
        floats{1, -4, 9, 4, 10, -18});
  CHECK(one(node("Div", {"x", "b"}, {"y"}, both(-2)), x, 6, by_row) == floats{0.1f, -0.2f, 0.3f, 0.04f, 0.05f, -0.06f});
  CHECK(one(node("Pow", {"x", "b"}, {"y"}, both(1)), x, 1, by_column) == floats{1, 4, 27, 4, 25, -216});
  CHECK(one(node("PRelu", {"x", "b"}, {"y"}), x, 6, {floats_named("b", {3}, {1, 2, 3})}) ==
        floats{1, -4, 3, 4, 5, -18});
}

TEST_CASE("attributes of old versions that are inputs of new ones") {
  CHECK(one(node("Reshape", {"x"}, {"y"}, {attribute_list("shape", {3, -1})}), x, 1) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Clip", {"x"}, {"y"}, {attribute_float("min", -1), attribute_float("max", 3)}), x, 6) ==
        floats{1, -1, 3, 3, 3, -1});
  CHECK(one(node("Clip", {"x"}, {"y"}), x, 6) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Slice", {"x"}, {"y"},
                 {attribute_list("starts", {1}), attribute_list("ends", {1000}), attribute_list("axes", {1})}),
            x, 1) == floats{-2, 3, 5, -6});
  CHECK(one(node("Pad", {"x"}, {"y"}, {attribute_list("pads", {0, 1, 0, 0}), attribute_float("value", 9)}), x, 2) ==
        floats{9, 1, -2, 3, 9, 4, 5, -6});
  CHECK(one(node("Pad", {"x"}, {"y"}, {attribute_list("paddings", {0, 1, 0, 0})}), x, 1) ==
        floats{0, 1, -2, 3, 0, 4, 5, -6});
  CHECK(one(node("TopK", {"x"}, {"y", "at"}, {attribute("k", 1)}), x, 1) == floats{3, 5});
  CHECK(one(node("ReduceSum", {"x"}, {"y"}, {attribute_list("axes", {1}), attribute("keepdims", 0)}), x, 11) ==
        floats{2, 3});
  CHECK(one(node("Squeeze", {"x"}, {"y"}), tensor<float, 2>{{1, 2}}, 1) == floats{1, 2});
  CHECK(one(node("Unsqueeze", {"x"}, {"y"}, {attribute_list("axes", {0, 3})}), x, 11) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Softmax", {"x"}, {"y"}), tensor<float, 2>{{0, 0}}, 1) == floats{0.5f, 0.5f});
  CHECK(one(node("Concat", {"x", "x"}, {"y"}), tensor<float, 2>{{1, 2}}, 1) == floats{1, 2, 1, 2});
  CHECK(one(node("Split", {"x"}, {"y", "z"}, {attribute_list("split", {1, 1})}), x, 2) == floats{1, -2, 3});
  CHECK(one(node("Cast", {"x"}, {"y"}, {attribute_text("to", "FLOAT")}), x, 1) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Tile", {"x", "n", "axis"}, {"y"}), tensor<float, 2>{{1, 2}}, 1,
            {integers_named("n", {1}, {2}), integers_named("axis", {1}, {1})}) == floats{1, 2, 1, 2});
  CHECK(one(node("Gemm", {"x", "w", "b"}, {"y"}, {attribute("broadcast", 1)}), x, 6,
            {floats_named("w", {3, 1}, {1, 1, 1}), floats_named("b", {1}, {0.5f})}) == floats{2.5f, 3.5f});
  CHECK(one(node("Dropout", {"x"}, {"y", "mask"}, {attribute("is_test", 1), attribute_float("ratio", 0.4f)}), x, 1) ==
        floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Max", {"x"}, {"y"}), x, 6) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Hardmax", {"x"}, {"y"}), x, 1) == floats{0, 0, 1, 0, 1, 0});
  auto up = graph_of(
      {node("Upsample", {"x"}, {"y"}, {attribute_float("height_scale", 1), attribute_float("width_scale", 2)})},
      {value("x", onnx_test::f32, {"1", "1", "1", "2"})}, {untyped("y")});
  CHECK(numbers(loaded(up, 1)({tensor<float, 4>{{{{1, 2}}}}})[0]) == floats{1, 1, 2, 2});
  auto norm = graph_of({node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"},
                             {attribute("is_test", 1), attribute_list("consumed_inputs", {0, 0, 0, 1, 1}),
                              attribute_float("epsilon", 0)})},
                       {value("x", onnx_test::f32, {"1", "1", "2"})}, {untyped("y")});
  norm.initializers = {floats_named("s", {1}, {2}), floats_named("b", {1}, {1}), floats_named("m", {1}, {3}),
                       floats_named("v", {1}, {4})};
  CHECK(numbers(loaded(norm, 5)({tensor<float, 3>{{{3, 5}}}})[0]) == floats{1, 3});
}

TEST_CASE("shape arithmetic as exporters of TensorFlow write it, in int32") {
  auto g = graph_of(
      {node("Shape", {"in:0"}, {"s64"}), node("Cast", {"s64"}, {"s"}, {attribute("to", onnx_test::i32)}),
       node("Slice", {"s", "zero", "one", "zero"}, {"n"}), node("Squeeze", {"n", "axis"}, {"n0"}),
       node("Unsqueeze", {"n0", "axis"}, {"n1"}), node("Mul", {"n1", "two"}, {"twice"}),
       node("Div", {"twice", "two"}, {"again"}), node("Concat", {"again", "rest"}, {"to32"}, {attribute("axis", 0)}),
       node("Cast", {"to32"}, {"to"}, {attribute("to", onnx_test::i64)}),
       node("Reshape", {"in:0", "to"}, {"Identity:0"})},
      {value("in:0", onnx_test::f32, {"unk__1", "3"})}, {value("Identity:0", onnx_test::f32, {"unk__2", "3", "1"})});
  const auto i32s = [](const std::string& name, std::vector<std::int64_t> v) {
    return onnx_test::constant_tensor(name,
                                      onnx_test::integers({static_cast<std::int64_t>(v.size())}, v, onnx_test::i32));
  };
  g.initializers = {i32s("zero", {0}), i32s("one", {1}), i32s("two", {2}), i32s("rest", {3, 1}),
                    integers_named("axis", {1}, {0})};
  const onnx::model m = loaded(g, 13);
  for (const std::int64_t n : {1, 4, 7})
    CHECK(m({zeros<float>(n, 3)})[0].text() == "f32 (" + std::to_string(n) + ", 3, 1)");
  CHECK(m.specialisations() <= 2);
}

TEST_CASE("domains are written out, versions are missing, inputs have no extents") {
  onnx_test::graph g = graph_of(
      {message().text(1, "x").text(2, "y").text(4, "Relu").text(7, "ai.onnx")},
      {message().text(1, "x").part(2, message().part(1, message().number(1, onnx_test::f32)))}, {untyped("y")});
  std::string file = g.model();
  const onnx::model m = loaded(g);
  CHECK(numbers(m({x})[0]) == floats{1, 0, 3, 4, 5, 0});
  CHECK(numbers(m({tensor<float, 1>{-1, 1}})[0]) == floats{0, 1});
  CHECK(m.inputs()[0].text() == "x: f32");
  const auto tail = message().part(8, message().number(2, 20)).bytes();
  file.resize(file.size() - tail.size());
  CHECK(numbers(onnx::load(bytes_of(file), {.backend = "reference"})({x})[0]) == floats{1, 0, 3, 4, 5, 0});
}

TEST_CASE("indices out of range: gathers clamp them to their axis, scatters drop them") {
  const auto at = [](const char* name, std::vector<std::int64_t> e, std::vector<std::int64_t> v) {
    return integers_named(name, std::move(e), std::move(v));
  };
  const auto updates = floats_named("u", {2, 2}, {10, 20, 30, 40});
  CHECK(one(node("Gather", {"x", "i"}, {"y"}, {attribute("axis", 1)}), x, 20, {at("i", {3}, {7, -9, -1})}) ==
        floats{3, 1, 3, -6, 4, -6});
  CHECK(one(node("GatherElements", {"x", "i"}, {"y"}, {attribute("axis", 1)}), x, 20, {at("i", {2, 1}, {5, -7})}) ==
        floats{3, 4});
  CHECK(one(node("GatherND", {"x", "i"}, {"y"}), x, 20, {at("i", {3, 2}, {0, 9, -8, 1, 1, -1})}) == floats{3, -2, -6});
  CHECK(one(node("ScatterElements", {"x", "i", "u"}, {"y"}, {attribute("axis", 1)}), x, 20,
            {at("i", {2, 2}, {0, 5, -8, -1}), updates}) == floats{10, -2, 3, 4, 5, 40});
  CHECK(one(node("ScatterElements", {"x", "i", "u"}, {"y"}, {attribute("axis", 1)}), x, 20,
            {at("i", {1, 2}, {2, 3}), floats_named("u", {1, 2}, {10, 20})}) == floats{1, -2, 10, 4, 5, -6});
  CHECK(one(node("ScatterND", {"x", "i", "u"}, {"y"}), x, 20,
            {at("i", {3, 2}, {0, 3, 1, -1, -3, 0}), floats_named("u", {3}, {10, 20, 30})}) ==
        floats{1, -2, 3, 4, 5, 20});
}

TEST_CASE("operators of other domains are named where they are refused") {
  auto g = graph_of({message()
                         .text(1, "x")
                         .text(2, "label")
                         .text(2, "p")
                         .text(3, "Words")
                         .text(4, "DictVectorizer")
                         .text(7, "ai.onnx.ml"),
                     message().text(1, "p").text(2, "m").text(4, "CastMap").text(7, "ai.onnx.ml")},
                    {value("x", onnx_test::f32, {"N", "4"})}, {untyped("label"), untyped("m")});
  const std::string said = message_of([&] { loaded(g); });
  CHECK(contains(said, "2 nodes have no operator here: ai.onnx.ml.DictVectorizer (node 'Words'), ai.onnx.ml.CastMap"));
}

TEST_CASE("flags, halves and bytes in the fields of other numbers") {
  const auto in_ints = [](const std::string& name, int type, std::vector<std::int64_t> v) {
    message t = message().number(1, v.size()).number(2, static_cast<std::uint64_t>(type)).text(8, name);
    for (auto i : v) t.number(5, static_cast<std::uint64_t>(i));
    return t;
  };
  auto g = graph_of({node("Where", {"flags", "x", "h32"}, {"y"}),
                     node("Cast", {"halves"}, {"h32"}, {attribute("to", onnx_test::f32)}),
                     node("Cast", {"bytes"}, {"b"}, {attribute("to", onnx_test::f32)})},
                    {value("x", onnx_test::f32, {"2"})}, {untyped("y"), untyped("b")});
  std::swap(g.nodes[0], g.nodes[1]);
  g.initializers = {in_ints("flags", 9, {0, 1}), in_ints("halves", 10, {0x3c00, 0xc000}), in_ints("bytes", 3, {-1, 5})};
  const auto y = loaded(g)({tensor<float, 1>{7, 8}});
  CHECK(numbers(y[0]) == floats{1, 8});
  CHECK(numbers(y[1]) == floats{-1, 5});
}

TEST_CASE("nodes stand before those that make what they read") {
  onnx_test::graph yes, no;
  yes.nodes = {node("Neg", {"t"}, {"u"}), node("Mul", {"h", "h"}, {"t"})};
  yes.outputs = {untyped("u")};
  no.nodes = {node("Identity", {"h"}, {"v"})};
  no.outputs = {untyped("v")};
  auto g = graph_of({node("Add", {"k", "w"}, {"y"}),
                     node("If", {"on"}, {"k"},
                          {attribute_graph("then_branch", yes.body()), attribute_graph("else_branch", no.body())}),
                     node("Abs", {"x"}, {"h"}), node("Constant", {}, {"w"}, {attribute_float("value_float", 0.5f)})},
                    {value("x", onnx_test::f32, {"A", "B"}), value("on", onnx_test::b8, {})}, {untyped("y")});
  const onnx::model m = loaded(g);
  CHECK(numbers(m({x, tensor<bool, 0>(true)})[0]) == floats{-0.5f, -3.5f, -8.5f, -15.5f, -24.5f, -35.5f});
  CHECK(numbers(m({x, tensor<bool, 0>(false)})[0]) == floats{1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f});
  const auto circle = graph_of({node("Add", {"x", "b"}, {"a"}), node("Neg", {"a"}, {"b"})},
                               {value("x", onnx_test::f32, {"2", "3"})}, {untyped("b")});
  CHECK(contains(message_of([&] { loaded(circle)({x}); }), "its input 'b' is made by no node before it"));
}

TEST_CASE("sparse tensors are dense ones with their zeros") {
  const auto sparse = [](const message& values, const message& places, std::vector<std::int64_t> extents) {
    message s = message().part(1, values).part(2, places);
    for (auto e : extents) s.number(3, static_cast<std::uint64_t>(e));
    return s;
  };
  const auto with = [&](const message& s) {
    const message g = message()
                          .part(1, node("Add", {"x", "w"}, {"y"}))
                          .part(15, s)
                          .part(11, value("x", onnx_test::f32, {"2", "3"}))
                          .part(12, untyped("y"));
    return message().number(1, 9).part(7, g).part(8, message().number(2, 20)).bytes();
  };
  const auto run = [&](const std::string& file) {
    options how;
    how.backend = "reference";
    return numbers(onnx::load(bytes_of(file), how)({x})[0]);
  };
  const auto values = floats_named("w", {2}, {10, 20});
  CHECK(run(with(sparse(values, integers_named("", {2}, {1, 5}), {2, 3}))) == floats{1, 8, 3, 4, 5, 14});
  CHECK(run(with(sparse(values, integers_named("", {2, 2}, {0, 2, 1, 0}), {2, 3}))) == floats{1, -2, 13, 24, 5, -6});
  CHECK(run(with(sparse(floats_named("w", {0}, {}), integers_named("", {0}, {}), {2, 3}))) ==
        floats{1, -2, 3, 4, 5, -6});
  const auto error = [&](const message& s) { return message_of([&] { run(with(s)); }); };
  CHECK(contains(error(sparse(values, integers_named("", {2}, {1, 6}), {2, 3})), "an element at 6 of an axis of 6"));
  CHECK(contains(error(sparse(values, integers_named("", {2, 2}, {0, 2, -1, 0}), {2, 3})), "an element at -1"));
  CHECK(contains(error(sparse(values, integers_named("", {2, 3}, {0, 1, 2, 0, 1, 2}), {2, 3})),
                 "other places than one for each"));
  CHECK(contains(error(sparse(values, integers_named("", {2}, {1, 2}), {1 << 20, 1 << 19})),
                 "'w' is too large beside its 2 elements; make it dense"));
  // Those of a file together, too: 40 MiB each.
  const auto large = [&](const char* name) {
    return sparse(floats_named(name, {1}, {1}), integers_named("", {1}, {5}), {10 << 20});
  };
  const message both = message()
                           .part(1, node("Add", {"a", "b"}, {"y"}))
                           .part(15, large("a"))
                           .part(15, large("b"))
                           .part(12, untyped("y"));
  const std::string two = message().number(1, 9).part(7, both).part(8, message().number(2, 20)).bytes();
  CHECK(contains(message_of([&] { onnx::load(bytes_of(two))(onnx::tensor_list{}); }),
                 "'b' is too large beside its 1 elements"));
  const message s = sparse(floats_named("", {1}, {7}), integers_named("", {1}, {2}), {3});
  auto g = graph_of({node("Constant", {}, {"c"}, {message().text(1, "sparse_value").part(22, s).number(20, 11)})}, {},
                    {untyped("c")});
  CHECK(numbers(loaded(g)(onnx::tensor_list{})[0]) == floats{0, 0, 7});
}

TEST_CASE("inputs and results of no type are tensors") {
  const auto g = graph_of({node("Neg", {"x"}, {"y"})}, {untyped("x")}, {untyped("y")});
  const onnx::model m = loaded(g);
  CHECK(m.inputs()[0].text() == "x: tensor");
  CHECK(m.outputs()[0].is_tensor());
  CHECK(numbers(m({x})[0]) == floats{-1, 2, -3, -4, -5, 6});
  CHECK(m({tensor<std::int32_t, 1>{3, 4}})[0].text() == "i32 (2,)");
}

TEST_CASE("attributes of old versions in files of new ones") {
  CHECK(one(node("Reshape", {"x"}, {"y"}, {attribute_list("shape", {3, -1})}), x, 19) == floats{1, -2, 3, 4, 5, -6});
  CHECK(one(node("Slice", {"x"}, {"y"}, {attribute_list("starts", {0, 1}), attribute_list("ends", {1, 9})}), x, 13) ==
        floats{-2, 3});
  CHECK(one(node("TopK", {"x"}, {"y", "at"}, {attribute("k", 1)}), x, 11) == floats{3, 5});
  CHECK(one(node("Pad", {"x"}, {"y"}, {attribute_list("pads", {0, 1, -1, 0})}), x, 13) == floats{0, 1, -2, 3});
  CHECK(one(node("Clip", {"x"}, {"y"}, {attribute_float("max", 3)}), x, 13) == floats{1, -2, 3, 3, 3, -6});
  CHECK(one(node("Add", {"x", "b"}, {"y"}, {attribute("broadcast", 1), attribute("axis", 0)}), x, 13,
            {floats_named("b", {2}, {10, 100})}) == floats{11, 8, 13, 104, 105, 94});
  CHECK(one(node("Tile", {"x", "n"}, {"y"}), x, 1, {integers_named("n", {2}, {1, 2})}) ==
        floats{1, -2, 3, 1, -2, 3, 4, 5, -6, 4, 5, -6});
  CHECK(one(node("Squeeze", {"r", "none"}, {"y"}), x, 13,
            {floats_named("r", {1, 2, 1}, {3, 4}), integers_named("none", {0}, {})}) == floats{3, 4});
}

TEST_CASE("BatchNormalization of one axis, of places, with all its old results") {
  const auto normalised = [](std::vector<std::int64_t> extents, const message& in, std::vector<message> attributes,
                             int opset, std::vector<std::string> out = {"y"}) {
    std::vector<message> outputs;
    for (const auto& o : out) outputs.push_back(untyped(o));
    auto g =
        graph_of({node("BatchNormalization", {"x", "s", "b", "m", "v"}, out, std::move(attributes))}, {in}, outputs);
    const auto n = extents.empty() ? 1 : extents[0] * (extents.size() > 1 ? extents[1] : 1);
    const auto of = [&](float first) {
      floats f;
      for (std::int64_t k = 0; k < n; ++k) f.push_back(first + static_cast<float>(k));
      return f;
    };
    g.initializers = {floats_named("s", extents, of(2)), floats_named("b", extents, of(0)),
                      floats_named("m", extents, of(1)), floats_named("v", extents, floats(of(0).size(), 4.f))};
    return loaded(g, opset);
  };
  const auto near = [](const floats& a, const floats& b) {
    bool same = a.size() == b.size();
    for (std::size_t k = 0; same && k < a.size(); ++k) same = std::fabs(a[k] - b[k]) < 1e-4f;
    return same;
  };
  const auto flat = normalised({1}, value("x", onnx_test::f32, {"N"}), {}, 15);
  CHECK(near(numbers(flat({tensor<float, 1>{1, 3, 5}})[0]), {0, 2, 4}));
  const auto places = normalised({3}, value("x", onnx_test::f32, {"A", "B"}), {attribute("spatial", 0)}, 7);
  CHECK(near(numbers(places({x})[0]), {0, -5, 2, 3, 5.5f, -16}));
  const auto trained = normalised({3}, value("x", onnx_test::f32, {"A", "B"}), {attribute_float("momentum", 0.5f)}, 7,
                                  {"y", "mean", "var", "m2", "v2"});
  const auto y = trained({x});
  REQUIRE(y.size() == 5);
  CHECK(near(numbers(y[1]), {1.75f, 1.75f, 0.75f}));
  CHECK(near(numbers(y[3]), {2.5f, 1.5f, -1.5f}));
  CHECK(near(numbers(y[4]), {2.25f, 12.25f, 20.25f}));
}

TEST_CASE("operators that normalise keep the digits of f32 beside a large mean, and their squares in range") {
  constexpr std::int64_t rows = 6, n = 140;
  const auto of = [](bool open, const message& what, const floats& at, std::vector<message> constants, int opset) {
    const auto as = [&](std::int64_t e, const char* name) { return open ? std::string(name) : std::to_string(e); };
    auto g = graph_of({what}, {value("x", onnx_test::f32, {as(rows, "A"), "2", as(n / 2, "B")})}, {untyped("y")});
    g.initializers = std::move(constants);
    tensor<float, 3> x = zeros<float>(rows, 2, n / 2);
    std::copy(at.begin(), at.end(), x.data());
    return std::pair{g.model(opset), x};
  };
  const auto check = [&](const message& what, const floats& at, std::vector<message> constants, int opset,
                         double tolerance, const std::vector<double>& want) {
    for (const bool interpreted : {false, true})
      for (const bool open : {false, true}) {
        const auto [text, x] = of(open, what, at, constants, opset);
        const floats y = numbers(onnx::load(bytes_of(text), onnx_test::on(interpreted))({x})[0]);
        REQUIRE(y.size() == want.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i)
          wrong +=
              !(std::fabs(static_cast<double>(y[i]) - want[i]) <= tolerance * std::fabs(want[i]) + tolerance * 1e-3);
        INFO("interpreted ", interpreted, ", open ", open, ": ", y[0], " for ", want[0]);
        CHECK(wrong == 0);
      }
  };
  /// (x - mean) / sqrt(variance + eps) of what has the same group.
  const auto normalised = [](const floats& x, auto group, double eps) {
    std::vector<double> y(x.begin(), x.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      double count = 0, mean = 0, square = 0;
      for (std::size_t j = 0; j < x.size(); ++j)
        if (group(j) == group(i)) count += 1, mean += static_cast<double>(x[j]);
      mean /= count;
      for (std::size_t j = 0; j < x.size(); ++j)
        if (group(j) == group(i)) square += std::pow(static_cast<double>(x[j]) - mean, 2);
      y[i] = (static_cast<double>(x[i]) - mean) / std::sqrt(square / count + eps);
    }
    return y;
  };
  const auto by_item = [](std::size_t i) { return i / n; };
  const auto by_place = [](std::size_t i) { return i / (n / 2); };
  const auto by_channel = [](std::size_t i) { return i / (n / 2) % 2; };
  const std::vector<message> two{floats_named("w", {2}, {1, 1}), floats_named("b", {2}, {0, 0})};
  const std::vector<message> ones{floats_named("w", {n / 2}, floats(n / 2, 1))};
  floats near(rows * n), wide(rows * n), tiny(rows * n);
  for (std::size_t i = 0; i < near.size(); ++i) {
    near[i] = static_cast<float>(10000 + 0.01 * static_cast<double>(i % 7));
    wide[i] = static_cast<float>(static_cast<double>(i * 7 % 16) - 7.25) * 1e25f;
    tiny[i] = wide[i] * 1e-25f * 1e-25f;
  }
  for (const auto* x : {&near, &wide}) {
    check(node("LayerNormalization", {"x", "w"}, {"y"}), *x, ones, 17, 1e-5, normalised(*x, by_place, 1e-5));
    check(node("InstanceNormalization", {"x", "w", "b"}, {"y"}), *x, two, 17, 1e-5, normalised(*x, by_place, 1e-5));
    check(node("GroupNormalization", {"x", "w", "b"}, {"y"}, {attribute("num_groups", 1)}), *x, two, 21, 1e-5,
          normalised(*x, by_item, 1e-5));
  }
  auto constants = two;
  constants.push_back(floats_named("m", {2}, {10000.03125f, 10000}));
  constants.push_back(floats_named("v", {2}, {0.0004f, 0.0003f}));
  check(node("BatchNormalization", {"x", "w", "b", "m", "v"}, {"y"}, {attribute("training_mode", 1)}), near, constants,
        15, 1e-5, normalised(near, by_channel, 1e-5));
  std::vector<double> want;
  for (std::size_t i = 0; i < near.size(); ++i)
    want.push_back((static_cast<double>(near[i]) - (by_channel(i) ? 10000. : 10000.03125)) /
                   std::sqrt((by_channel(i) ? 0.0003 : 0.0004) + 1e-5));
  check(node("BatchNormalization", {"x", "w", "b", "m", "v"}, {"y"}), near, constants, 15, 1e-5, want);
  for (const auto* x : {&wide, &tiny}) {
    std::vector<double> norm(rows * 2), unit(x->begin(), x->end()), rms = unit;
    for (std::size_t i = 0; i < x->size(); ++i)
      norm[by_place(i)] += static_cast<double>((*x)[i]) * static_cast<double>((*x)[i]);
    for (double& v : norm) v = std::sqrt(v);
    for (std::size_t i = 0; i < x->size(); ++i) unit[i] /= norm[by_place(i)], rms[i] = unit[i] * std::sqrt(n / 2.);
    check(node("LpNormalization", {"x"}, {"y"}), *x, {}, 17, 1e-5, unit);
    check(node("RMSNormalization", {"x", "w"}, {"y"}, {attribute_float("epsilon", 0)}), *x, ones, 23, 1e-5, rms);
    check(node("ReduceL2", {"x"}, {"y"}, {attribute_list("axes", {2}), attribute("keepdims", 0)}), *x, {}, 13, 1e-5,
          norm);
  }
}

TEST_CASE("what runtimes take beside the definition") {
  CHECK(one(node("Resize", {"x", "", "", "sizes"}, {"y"},
                 {attribute_text("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                  attribute_text("nearest_mode", "floor")}),
            x, 11, {integers_named("sizes", {2}, {2, 6})}) == floats{1, 1, -2, -2, 3, 3, 4, 4, 5, 5, -6, -6});
  auto g = graph_of(
      {node("RNN", {"s", "w", "r"}, {"y"}, {attribute("hidden_size", 1), attribute_texts("activations", {"rElu"})})},
      {value("s", onnx_test::f32, {"2", "1", "1"})}, {untyped("y")});
  g.initializers = {floats_named("w", {1, 1, 1}, {2}), floats_named("r", {1, 1, 1}, {0})};
  CHECK(numbers(loaded(g)({tensor<float, 3>{{{-1.f}}, {{0.5f}}}})[0]) == floats{0, 1});
  auto shrunk = graph_of({node("Shrink", {"k"}, {"s"}, {attribute_float("bias", 1.5f), attribute_float("lambd", 1.5f)}),
                          node("Cast", {"s"}, {"y"}, {attribute("to", onnx_test::f32)})},
                         {}, {untyped("y")});
  shrunk.initializers = {integers_named("k", {5}, {-3, -1, 0, 2, 4})};
  CHECK(numbers(loaded(shrunk)(onnx::tensor_list{})[0]) == floats{-1, 0, 0, 0, 2});
  auto groups = graph_of({node("GroupNormalization", {"x", "s", "b"}, {"y"}, {attribute("num_groups", 1)})},
                         {value("x", onnx_test::f32, {"1", "2", "1"})}, {untyped("y")});
  groups.initializers = {floats_named("s", {2}, {2, 3}), floats_named("b", {2}, {0, 1})};
  const floats y = numbers(loaded(groups, 18)({tensor<float, 3>{{{1.f}, {3.f}}}})[0]);
  CHECK(y[0] == doctest::Approx(-2).epsilon(1e-4));
  CHECK(y[1] == doctest::Approx(4).epsilon(1e-4));
  CHECK(one(node("SimplifiedLayerNormalization", {"x", "s"}, {"y"}, {attribute_float("epsilon", 0)}), {{2, 2, 2}}, 1,
            {floats_named("s", {3}, {1, 2, 3})}) == floats{1, 2, 3});
  auto mvn = graph_of({node("MeanVarianceNormalization", {"x"}, {"y"})}, {value("x", onnx_test::f32, {"1", "1", "2"})},
                      {untyped("y")});
  CHECK(numbers(loaded(mvn, 13)({tensor<float, 3>{{{1.f, 3.f}}}})[0])[1] == doctest::Approx(1));
}

TEST_CASE("MatMulInteger of vectors, with zero points of one element") {
  using onnx_test::integers;
  auto g = graph_of(
      {node("MatMulInteger", {"v", "m", "one", "two"}, {"a"}), node("MatMulInteger", {"m", "v", "one", "two"}, {"b"}),
       node("Cast", {"a"}, {"p"}, {attribute("to", onnx_test::f32)}),
       node("Cast", {"b"}, {"q"}, {attribute("to", onnx_test::f32)})},
      {}, {untyped("p"), untyped("q")});
  g.initializers = {onnx_test::constant_tensor("v", integers({2}, {3, 4}, onnx_test::u8)),
                    onnx_test::constant_tensor("m", integers({2, 2}, {1, 2, 3, 4}, onnx_test::u8)),
                    onnx_test::constant_tensor("one", integers({1}, {1}, onnx_test::u8)),
                    onnx_test::constant_tensor("two", integers({1}, {2}, onnx_test::u8))};
  const auto y = loaded(g)(onnx::tensor_list{});
  CHECK(numbers(y[0]) == floats{1, 6});
  CHECK(numbers(y[1]) == floats{2, 8});
}

TEST_CASE("a mask of integers is added to the scores of attention") {
  auto g = graph_of({node("Attention", {"q", "q", "q", "mask"}, {"y"})},
                    {value("q", onnx_test::f32, {"1", "1", "2", "1"})}, {untyped("y")});
  g.initializers = {integers_named("mask", {2, 2}, {0, -100, -100, 0})};
  const floats y = numbers(loaded(g, 23)({tensor<float, 4>{{{{1.f}, {2.f}}}}})[0]);
  CHECK(y[0] == doctest::Approx(1));
  CHECK(y[1] == doctest::Approx(2));
}

TEST_CASE("factors of recurrent activations are one for each, or for each that takes one; clipped are gates") {
  const auto lstm = [](std::vector<message> attributes) {
    attributes.push_back(attribute("hidden_size", 1));
    auto g = graph_of({node("LSTM", {"s", "w", "r"}, {"y"}, std::move(attributes))},
                      {value("s", onnx_test::f32, {"2", "1", "1"})}, {untyped("y")});
    g.initializers = {floats_named("w", {1, 4, 1}, {1, 1, 1, 1}), floats_named("r", {1, 4, 1}, {0, 0, 0, 0})};
    return numbers(loaded(g)({tensor<float, 3>{{{2.f}}, {{2.f}}}})[0]);
  };
  const auto named = attribute_texts("activations", {"Relu", "LeakyRelu", "Elu"});
  // i = o = f = 2, the candidate 2, so that cells are 4 and 12; negative ones are not met.
  CHECK(lstm({named}) == floats{8, 24});
  CHECK(lstm({named, attribute_float("clip", 1)}) == floats{1, 2});
  const auto affine = attribute_texts("activations", {"Relu", "Affine", "Affine"});
  const floats two = lstm({affine, onnx_test::attribute_floats("activation_alpha", {3, 5}),
                           onnx_test::attribute_floats("activation_beta", {1, 7})});
  CHECK(two[0] == 2 * (5 * 2 * 7 + 7));
  const floats three = lstm({affine, onnx_test::attribute_floats("activation_alpha", {0, 3, 5}),
                             onnx_test::attribute_floats("activation_beta", {0, 1, 7})});
  CHECK(three == two);
  CHECK(lstm({affine})[0] == 8);  // x * 1 + 0
}

TEST_CASE("recurrent operators of halves are computed in f32") {
  const std::int64_t steps = 600;
  auto g =
      graph_of({node("Cast", {"x"}, {"s"}, {attribute("to", 10)}), node("Cast", {"w32"}, {"w"}, {attribute("to", 10)}),
                node("Cast", {"r32"}, {"r"}, {attribute("to", 10)}),
                node("RNN", {"s", "w", "r"}, {"y", "h"},
                     {attribute("hidden_size", 1), attribute_texts("activations", {"Affine"})}),
                node("Cast", {"h"}, {"z"}, {attribute("to", onnx_test::f32)})},
               {value("x", onnx_test::f32, {"T", "1", "1"})}, {untyped("h"), untyped("z")});
  g.initializers = {floats_named("w32", {1, 1, 1}, {1}), floats_named("r32", {1, 1, 1}, {1})};
  // In halves steps of 1 / 1024 from 4 on are lost.
  const auto y = loaded(g)({concat(full<float>(4.f, 1, 1, 1), full<float>(1.f / 1024, steps, 1, 1), axis<0>)});
  CHECK(y[0].text() == "f16 (1, 1, 1)");
  CHECK(numbers(y[1])[0] == doctest::Approx(4 + 600.0 / 1024).epsilon(1e-3));
}

TEST_CASE("Resize before version 11, and of integers") {
  const auto resized = [](int opset, std::vector<float> scales) {
    return one(node("Resize", {"x", "scales"}, {"y"}), {{0, 1, 2, 3, 4, 5}}, opset,
               {floats_named("scales", {2}, scales)});
  };
  CHECK(resized(10, {1, 0.6f}) == floats{0, 2, 4});
  CHECK(resized(10, {1, 1.5f}) == floats{0, 0, 1, 2, 2, 3, 4, 4, 5});
  auto g = graph_of(
      {node("Cast", {"x"}, {"k"}, {attribute("to", onnx_test::i32)}),
       node("Resize", {"k", "", "scales"}, {"l"},
            {attribute_text("mode", "linear"), attribute_text("coordinate_transformation_mode", "asymmetric")}),
       node("Cast", {"l"}, {"y"}, {attribute("to", onnx_test::f32)})},
      {value("x", onnx_test::f32, {"A", "B"})}, {untyped("y")});
  g.initializers = {floats_named("scales", {2}, {1, 4})};
  CHECK(numbers(loaded(g)({tensor<float, 2>{{0, 3}}})[0]) == floats{0, 0, 1, 2, 3, 3, 3, 3});
}

TEST_CASE("masks of Dropout before version 10 are of its dtype; equal elements have no variance") {
  const auto g =
      graph_of({node("Dropout", {"x"}, {"y", "mask"})}, {value("x", onnx_test::f32, {"A", "B"})}, {untyped("mask")});
  CHECK(loaded(g, 7)({x})[0].text() == "f32 (2, 3)");
  CHECK(loaded(g, 10)({x})[0].text() == "bool (2, 3)");
  CHECK(one(node("MeanVarianceNormalization", {"x"}, {"y"}, {attribute_list("axes", {1})}), {{0.1f, 0.1f, 0.1f}}, 13) ==
        floats{0, 0, 0});
}

TEST_CASE("a mean over windows that a count rounded up takes beyond the end is of what is there") {
  const auto pooled = [](std::vector<message> attributes) {
    attributes.push_back(attribute_list("kernel_shape", {3}));
    attributes.push_back(attribute_list("strides", {3}));
    attributes.push_back(attribute("ceil_mode", 1));
    attributes.push_back(attribute("count_include_pad", 1));
    auto g = graph_of({node("AveragePool", {"x"}, {"y"}, std::move(attributes))},
                      {value("x", onnx_test::f32, {"1", "1", "8"})}, {untyped("y")});
    return numbers(loaded(g, 22)({ones<float>(1, 1, 8)})[0]);
  };
  CHECK(pooled({}) == floats{1, 1, 1});
  CHECK(pooled({attribute_list("pads", {0, 1})}) == floats{1, 1, 2.f / 3});
  CHECK(pooled({attribute_list("pads", {2, 2})}) == floats{1.f / 3, 1, 1, 1.f / 3});
  CHECK(pooled({attribute_text("auto_pad", "SAME_UPPER")}) == floats{1, 1, 2.f / 3});
}

TEST_CASE("experiments of the first versions") {
  CHECK(one(node("Affine", {"x"}, {"y"}, {attribute_float("alpha", 2), attribute_float("beta", 1)}), x, 8) ==
        floats{3, -3, 7, 9, 11, -11});
  CHECK(one(node("Scale", {"x"}, {"y"}, {attribute_float("scale", 2)}), x, 8) == floats{2, -4, 6, 8, 10, -12});
  CHECK(one(node("ScaledTanh", {"x"}, {"y"}, {attribute_float("alpha", 2), attribute_float("beta", 0.5f)}), x, 8)[0] ==
        doctest::Approx(2 * std::tanh(0.5)));
  CHECK(one(node("ParametricSoftplus", {"x"}, {"y"}, {attribute_float("alpha", 2), attribute_float("beta", 0.5f)}), x,
            8)[0] == doctest::Approx(2 * std::log(1 + std::exp(0.5))));
  const auto of_image = [](const message& n) {
    return numbers(loaded(graph_of({n}, {value("x", onnx_test::f32, {"1", "1", "3", "3"})}, {untyped("y")}),
                          8)({tensor<float, 4>{{{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}}})[0]);
  };
  CHECK(of_image(node("Crop", {"x"}, {"y"}, {attribute_list("border", {1, 0, 0, 2})})) == floats{2, 3});
  CHECK(of_image(node("Crop", {"x"}, {"y"},
                      {attribute_list("border", {1, 0, 0, 0}), attribute_list("scale", {2, 1})})) == floats{2, 5});
  CHECK(of_image(node("ImageScaler", {"x"}, {"y"},
                      {attribute_float("scale", 2), onnx_test::attribute_floats("bias", {1})}))[8] == 19);
  CHECK(contains(message_of([&] { of_image(node("Crop", {"x"}, {"y"})); }), "with 0 borders"));
  CHECK(contains(message_of([&] {
                   of_image(node("ImageScaler", {"x"}, {"y"}, {onnx_test::attribute_floats("bias", {1, 2})}));
                 }),
                 "its bias is not one number for each channel"));
}

TEST_CASE("transforms of frames of an open signal are compiled once") {
  auto g = graph_of({node("STFT", {"x", "step", "", "length"}, {"y"})}, {value("x", onnx_test::f32, {"B", "T", "1"})},
                    {untyped("y")});
  g.initializers = {integers_named("step", {}, {4}), integers_named("length", {}, {8})};
  const onnx::model m = onnx::load(bytes_of(g.model(17)));
  for (const std::int64_t n : {16, 24, 32, 41}) {
    const auto y = m({ones<float>(1, n, 1)})[0];
    CHECK(y.text() == "f32 (1, " + std::to_string((n - 8) / 4 + 1) + ", 5, 2)");
    CHECK(numbers(y)[0] == 8);
  }
  CHECK(m.specialisations() <= 2);
}

TEST_CASE("text that nothing reads is no reason to refuse a model") {
  const message words = message().number(1, 2).number(2, 8).text(6, "a").text(6, "b").text(8, "words");
  const message inner_words = message().number(1, 1).number(2, 8).text(6, "a").text(8, "inner");
  onnx_test::graph body;
  body.initializers = {inner_words};
  body.nodes = {node("Neg", {"x"}, {"z"})};
  body.outputs = {untyped("z")};
  auto g = graph_of({node("Constant", {}, {"said"}, {message().text(1, "value_string").text(4, "s").number(20, 3)}),
                     node("Constant", {}, {"list"}, {attribute_texts("value_strings", {"s", "t"})}),
                     node("Constant", {}, {"one"}, {onnx_test::attribute_tensor("value", words)}),
                     node("Identity", {"words"}, {"same"}),
                     node("If", {"yes"}, {"y"},
                          {attribute_graph("then_branch", body.body()), attribute_graph("else_branch", body.body())})},
                    {value("x", onnx_test::f32, {"2", "3"}), value("yes", onnx_test::b8, {})}, {untyped("y")});
  g.initializers = {words};
  for (const char* backend : {"reference", "auto"}) {
    options how;
    how.backend = backend;
    const onnx::model m = onnx::load(bytes_of(g.model(20)), how);
    CHECK(numbers(m({x, tensor<bool, 0>(true)})[0]) == floats{-1, 2, -3, -4, -5, 6});
    CHECK(m.weights().empty());
  }
  const auto says = [&](const message& n, const char* wanted) {
    auto h =
        graph_of({node("Constant", {}, {"said"}, {message().text(1, "value_string").text(4, "s").number(20, 3)}), n},
                 {value("x", onnx_test::f32, {"2", "3"})}, {untyped("y")});
    h.initializers = {words};
    CHECK(contains(message_of([&] { loaded(h)({x}); }), wanted));
  };
  says(node("Shape", {"words"}, {"y"}), "the tensor 'words' is of string, which no tensor holds");
  says(node("Identity", {"words"}, {"y"}), "the tensor 'words' is of string, which no tensor holds");
  says(node("Add", {"x", "words"}, {"y"}), "the tensor 'words' is of string, which no tensor holds");
  says(node("Gather", {"x", "said"}, {"y"}), "the constant 'said' is text, which no tensor holds");
  says(node("Reshape", {"x", "said"}, {"y"}), "the constant 'said' is text, which no tensor holds");
}

TEST_CASE("DynamicQuantizeLinear of zeros has scale 1") {
  const auto g = graph_of({node("DynamicQuantizeLinear", {"x"}, {"q", "scale", "zero"}),
                           node("DequantizeLinear", {"q", "scale", "zero"}, {"y"})},
                          {value("x", onnx_test::f32, {"n", "m"})},
                          {untyped("scale"), untyped("y"), untyped("zero"), untyped("q")});
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(g.model(20)), onnx_test::on(interpreted));
    for (const float v : {0.f, -0.f}) {
      const auto y = m({tensor<float, 2>{{v, v, v}, {v, v, v}}});
      CHECK(numbers(y[0]) == floats{1});
      CHECK(numbers(y[1]) == floats{0, 0, 0, 0, 0, 0});
      CHECK(y[2].as<tensor<std::uint8_t, 0>>().item() == 0);
    }
    CHECK(numbers(m({tensor<float, 2>{{-255, 0}}})[0]) == floats{1});
    CHECK(numbers(m({tensor<float, 2>{{-51, 0}}})[0]) == floats{0.2f});
  }
}
