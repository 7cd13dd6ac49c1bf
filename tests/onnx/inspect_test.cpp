// What a loaded model tells and takes beside calls: values by name, metadata, places of nodes, the user's operators, lanes.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

#include "recorded_cases.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_float;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::elements_of;
using onnx_test::message;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::on;
using onnx_test::value;

namespace {

/// y = relu(x w) + x, with an axis of 1 or an open one.
onnx_test::graph layers(const std::string& rows) {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {rows, "3"})};
  g.initializers = {onnx_test::tensor("w", {3, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, -9})};
  g.nodes = {node("MatMul", {"x", "w"}, {"h"}), node("Relu", {"h"}, {"r"}), node("Add", {"r", "x"}, {"y"})};
  g.outputs = {value("y", onnx_test::f32, {rows, "3"})};
  return g;
}
const tensor<float, 2> two{{1, -2, 0.5f}, {0, 1, 3}};

}  // namespace

TEST_CASE("values by name are further results") {
  const std::string file = layers("n").model();
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    CHECK(m.value_names() == std::vector<std::string>{"x", "w", "h", "r", "y"});
    const onnx::model more = m.with_outputs({"h", "w", "x", "r"});
    CHECK(more.outputs().size() == 5);
    CHECK(more.outputs()[3].text() == "x: f32 (n, 3)");
    const auto y = more({two}), plain = m({two});
    CHECK(plain.size() == 1);
    CHECK(elements_of(y[0]) == elements_of(plain[0]));
    CHECK(elements_of(y[1]) == elements_of(matmul(two, m.weights().at("w").as<tensor<float, 2>>())));
    CHECK(y[2].text() == "f32 (3, 3)");
    CHECK(elements_of(y[3]) == elements_of(two));
    CHECK(elements_of(y[4]) == elements_of(relu(y[1].as<tensor<float, 2>>())));
    CHECK(elements_of(more({{"x", two}}).at("h")) == elements_of(y[1]));
    CHECK(contains(message_of([&] { m.with_outputs({"z"}); }), "the graph has no value 'z'; value_names() lists"));
    CHECK(more.with_outputs({"r"}).outputs().size() == 6);
  }
}

TEST_CASE("a model tells where it comes from") {
  const auto property = [](const char* key, const char* v) { return message().text(1, key).text(2, v); };
  const std::string file = layers("n").model(19) + message()
                                                       .text(2, "trainer")
                                                       .text(3, "2.1")
                                                       .text(4, "org.example")
                                                       .number(5, 7)
                                                       .text(6, "three layers")
                                                       .part(8, message().text(1, "com.microsoft").number(2, 1))
                                                       .part(14, property("names", "{0: 'cat'}"))
                                                       .part(14, property("licence", "MIT"))
                                                       .bytes();
  const onnx::metadata d = onnx::load(bytes_of(file)).describe();
  CHECK(d.producer == "trainer");
  CHECK(d.producer_version == "2.1");
  CHECK(d.domain == "org.example");
  CHECK(d.description == "three layers");
  CHECK(d.version == 7);
  CHECK(d.ir_version == 9);
  CHECK(d.opsets == std::map<std::string, std::int64_t>{{"", 19}, {"com.microsoft", 1}});
  CHECK(d.properties == std::map<std::string, std::string>{{"names", "{0: 'cat'}"}, {"licence", "MIT"}});
  const std::string plain = layers("n").model();
  CHECK(onnx::load(bytes_of(plain)).describe().producer.empty());
}

TEST_CASE("kernels name the nodes that they compute") {
  onnx_test::graph g = layers("n");
  g.nodes[1] = node("Cos", {"h"}, {"r"});
  const std::string file = g.model();
  const onnx::model m = onnx::load(bytes_of(file));
  constexpr int line = __LINE__ + 1;
  m({two});
  const std::string told = m.explain().text();
  for (const char* of : {"dot at node 'MatMul_of_h' (MatMul) at ", "cos at node 'Cos_of_r' (Cos) at ",
                         "add at node 'Add_of_y' (Add) at "}) {
    INFO(of);
    CHECK(contains(told, of));
  }
  CHECK(contains(told, "inspect_test.cpp:" + std::to_string(line)));
  g.nodes[2] = node("Concat", {"r", "w"}, {"y"}, {attribute("axis", 1)});
  const std::string wrong = g.model();
  const std::string said = message_of([&] { onnx::load(bytes_of(wrong))({two}); });
  CHECK(said.rfind("sinter: [onnx] node 'Concat_of_y' (Concat): ", 0) == 0);
  CHECK(said.find("Concat_of_y", 40) == said.npos);
}

TEST_CASE("operators of the user's code") {
  onnx_test::graph g = layers("n");
  g.nodes[1] = message()
                   .text(1, "h")
                   .text(1, "")
                   .text(2, "r")
                   .text(2, "size")
                   .text(3, "mine")
                   .text(4, "Shifted")
                   .text(7, "example.org")
                   .part(5, attribute("times", 3))
                   .part(5, attribute_float("by", 0.5f));
  g.outputs.push_back(value("size", onnx_test::f32, {}));
  const std::string file = g.model();
  CHECK(contains(message_of([&] { onnx::load(bytes_of(file)); }), "example.org.Shifted (node 'mine')"));
  onnx::register_operator("example.org", "Shifted", [](const onnx::operator_call& c) -> onnx::tensor_list {
    if (c.inputs[1].defined()) return {};
    const auto x = c.inputs[0].as<tensor<float, 2>>();
    return {
        x * static_cast<float>(c.i("times", 1)) + static_cast<float>(c.f("by", 0)) + static_cast<float>(c.i("none", 1)),
        sum(x)};
  });
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const auto y = m({two});
    const tensor<float, 2> h = matmul(two, m.weights().at("w").as<tensor<float, 2>>());
    CHECK(elements_of(y[0]) == elements_of(tensor<float, 2>(h * 3.f + 1.5f + two)));
    CHECK(elements_of(y[1])[0] == doctest::Approx(sum(h).item()));
    const auto loss = [&](const dynamic_tensor& x) { return sum(m({x})[0].as<tensor<float, 2>>()); };
    CHECK(elements_of(grad(loss)(dynamic_tensor(two))).size() == 6);
  }
  const auto nothing = [](const onnx::operator_call&) -> onnx::tensor_list { return {}; };
  CHECK(contains(message_of([&] { onnx::register_operator("example.org", "Shifted", nothing); }),
                 "there is an operator example.org.Shifted already"));
  CHECK(contains(message_of([&] { onnx::register_operator("ai.onnx", "Relu", nothing); }),
                 "there is an operator Relu already"));
  CHECK(contains(message_of([&] { onnx::register_operator("example.org", "Empty", {}); }),
                 "the function of Empty is empty"));
  onnx::register_operator("example.org", "Nothing", nothing);
  g.nodes[1] = node("Nothing", {"h"}, {"r"}).text(7, "example.org");
  g.outputs.pop_back();
  const std::string empty = g.model();
  CHECK(contains(message_of([&] { onnx::load(bytes_of(empty))({two}); }), "its function gives 0 results of 1"));
}

TEST_CASE("a model of one row runs over many") {
  const std::string one = layers("1").model(), open = layers("n").model();
  const onnx::model whole = onnx::load(bytes_of(open));
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(one), on(interpreted));
    CHECK(!message_of([&] { m({two}); }).empty());
    const onnx::batched f(m);
    for (const int n : {1, 2, 5, 0}) {
      tensor<float, 2> x = zeros<float>(n, 3);
      if (n > 0) x = reshape(sin(arange<float>(3 * n)), n, 3);
      const auto y = f({x});
      CHECK(y[0].text() == "f32 (" + std::to_string(n) + ", 3)");
      const auto want = elements_of(whole({x})[0]), got = elements_of(y[0]);
      REQUIRE(got.size() == want.size());
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]));
    }
    CHECK(contains(message_of([&] { f({two, two}); }), "the model takes 1 inputs and is given 2"));
  }
  CHECK(contains(message_of([&] { onnx::batched f(whole); }), "no input has a leading axis of 1: x: f32 (n, 3)"));
}
