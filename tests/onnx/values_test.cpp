// Sequences and optionals as inputs and results of models, and in files beside them.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::on;
using onnx_test::value;

namespace {

/// s with x behind it, and all of s in one.
std::string appending() {
  onnx_test::graph g;
  g.inputs = {onnx_test::value_of(4, "s", onnx_test::f32), value("x", onnx_test::f32, {"n"})};
  g.outputs = {onnx_test::value_of(4, "t", onnx_test::f32), value("all", onnx_test::f32, {"m"})};
  g.nodes = {node("SequenceInsert", {"s", "x"}, {"t"}),
             node("ConcatFromSequence", {"t"}, {"all"}, {attribute("axis", 0)})};
  return g.model();
}
/// Whether there is a value, and it or x.
std::string optional_model() {
  onnx_test::graph g;
  g.inputs = {onnx_test::value_of(9, "o", onnx_test::f32)};
  g.outputs = {value("has", onnx_test::b8, {})};
  g.nodes = {node("OptionalHasElement", {"o"}, {"has"})};
  return g.model();
}

}  // namespace

TEST_CASE("a model takes and gives sequences, of any length") {
  const std::string file = appending();
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    CHECK(m.inputs()[0].text() == "s: sequence of f32");
    CHECK(!m.inputs()[0].is_tensor());
    const tensor<float, 1> x{7, 8};
    CHECK(m.run({onnx::value({x, dynamic_tensor(x)}), x})[0].elements().size() == 3);
    for (int twice = 0; twice < 2; ++twice)
      for (const int n : {0, 1, 3}) {
        onnx::value_list s;
        for (int k = 0; k < n; ++k) s.emplace_back(tensor<float, 1>{static_cast<float>(k), 0.5f});
        const auto y = m.run({onnx::value(s), x});
        REQUIRE(y.size() == 2);
        REQUIRE(y[0].is_sequence());
        CHECK(y[0].elements().size() == static_cast<std::size_t>(n) + 1);
        CHECK(y[0].elements().back().tensor().as<tensor<float, 1>>()(1) == 8);
        CHECK(y[1].tensor().as<tensor<float, 1>>().size(0) == 2 * n + 2);
        if (n == 3) CHECK(y[0].text() == "[f32 (2,), f32 (2,), f32 (2,), f32 (2,)]");
      }
  }
}

TEST_CASE("an optional is a value or nothing") {
  const std::string file = optional_model();
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    CHECK(m.inputs()[0].text() == "o: optional of f32");
    CHECK(m.run({tensor<float, 1>{1, 2}})[0].tensor().as<tensor<bool, 0>>().item());
    CHECK(!m.run({onnx::value()})[0].tensor().as<tensor<bool, 0>>().item());
    CHECK(onnx::value().text() == "nothing");
  }
}

TEST_CASE("values of another kind are refused with what to call") {
  const std::string file = appending(), other = optional_model();
  const onnx::model m = onnx::load(bytes_of(file), on(true)), o = onnx::load(bytes_of(other), on(true));
  const tensor<float, 1> x{7, 8};
  CHECK(contains(
      message_of([&] {
        m({x, x});
      }),
      "the input s: sequence of f32 is given f32 (2,); sequences and optionals are given to run() as onnx::value"));
  CHECK(contains(message_of([&] {
                   m.run({onnx::value(onnx::value_list{tensor<double, 1>{1.0}}), x});
                 }),
                 "the input s: sequence of f32 is given [f64 (1,)]"));
  CHECK(
      contains(message_of([&] { o.run({tensor<double, 1>{1.0}}); }), "the input o: optional of f32 is given f64 (1,)"));
  CHECK(contains(message_of([&] { onnx::value(x).elements(); }), "it is f32 (2,) and no sequence"));
  CHECK(contains(message_of([&] { onnx::value().tensor(); }), "it is nothing and no tensor"));
  auto step = compile([&](const tensor<float, 1>& a) { return m({a, a})[0].as<tensor<float, 1>>(); });
  CHECK(contains(message_of([&] { step(x); }), "the input s: sequence of f32 is given f32 (2,)"));
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2"})};
  g.outputs = {onnx_test::value_of(4, "t", onnx_test::f32)};
  g.nodes = {node("SequenceConstruct", {"x", "x"}, {"t"})};
  const std::string gives = g.model();
  const onnx::model pair = onnx::load(bytes_of(gives), on(true));
  CHECK(contains(message_of([&] { pair({x}); }),
                 "the result t: sequence of f32 is no tensor; call the model by run(), which gives onnx::value"));
  CHECK(pair.run({x})[0].elements().size() == 2);
}

TEST_CASE("files beside a model hold sequences and optionals") {
  const scratch_folder folder;
  const auto write = [&](const char* name, const onnx_test::message& m) {
    const std::string path = folder.path + "/" + name;
    std::ofstream(path, std::ios::binary) << m.bytes();
    return path;
  };
  const auto a = onnx_test::tensor("", {2}, std::vector<float>{1, 2}),
             b = onnx_test::tensor("", {1}, std::vector<float>{3});
  const std::string file = appending(), other = optional_model();
  const onnx::model m = onnx::load(bytes_of(file), on(true)), o = onnx::load(bytes_of(other), on(true));
  const std::string list = write("list", onnx_test::message().number(2, 1).part(3, a).part(3, b));
  const auto s = onnx::read_value(list, m.inputs()[0]);
  CHECK(s.text() == "[f32 (2,), f32 (1,)]");
  CHECK(m.run({s, tensor<float, 1>{4}})[1].tensor().as<tensor<float, 1>>().to_vector() ==
        std::vector<float>{1, 2, 3, 4});
  const std::string some = write("some", onnx_test::message().number(2, 1).part(3, a)),
                    none = write("none", onnx_test::message().text(1, "o"));
  CHECK(onnx::read_value(some, o.inputs()[0]).text() == "f32 (2,)");
  CHECK(!onnx::read_value(none, o.inputs()[0]).has_value());
  const std::string two = write("two", onnx_test::message().part(3, a).part(3, b)),
                    sparse = write("sparse", onnx_test::message().part(4, a));
  CHECK(contains(message_of([&] { onnx::read_value(two, o.inputs()[0]); }), "an optional holds more than one value"));
  CHECK(contains(message_of([&] { onnx::read_value(sparse, m.inputs()[0]); }),
                 "sparse tensors or maps, which are not read"));
}
