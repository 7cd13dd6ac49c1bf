// Files that are made to harm: each is an error that says what is wrong with it, soon and without memory that the file does not have.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "operator_models.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_graph;
using onnx_test::attribute_list;
using onnx_test::bytes_of;
using onnx_test::message;
using onnx_test::node;
using onnx_test::value;

namespace {

const std::int64_t huge = std::int64_t{1} << 62;

/// What loading and tracing a file say. No model here is run.
std::string said_of(const std::string& file) {
  const auto begin = std::chrono::steady_clock::now();
  std::string said = "nothing";
  try {
    options how;
    how.backend = "reference";
    const onnx::model m = onnx::load(bytes_of(file), how);
    static_cast<void>(m.weights());
    onnx::tensor_list x;
    for (const auto& d : m.inputs()) {
      std::vector<std::int64_t> e;
      for (auto n : d.extents) e.push_back(n < 0 ? 2 : n);
      x.push_back(io::detail::make_array(d.type, e));
    }
    m(x);
  } catch (const user_error& e) {
    said = e.what();
  } catch (const system_error& e) {
    said = e.what();
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  return said;
}
void check_says(const std::string& file, const std::string& part) {
  const std::string said = said_of(file);
  INFO(said);
  CHECK(said.find(part) != std::string::npos);
}

onnx_test::graph graph_of(std::vector<message> nodes, std::vector<message> constants = {},
                          std::vector<std::string> axes = {"2", "3"}) {
  onnx_test::graph g;
  g.nodes = std::move(nodes);
  g.initializers = std::move(constants);
  g.inputs = {value("x", onnx_test::f32, axes)};
  g.outputs = {message().text(1, "y")};
  return g;
}
message integers_named(const std::string& name, const std::vector<std::int64_t>& v) {
  return onnx_test::tensor(name, {static_cast<std::int64_t>(v.size())}, v);
}

/// A model whose functions are these, and whose only node calls the first.
std::string with_functions(const std::vector<message>& functions) {
  const auto g = graph_of({message().text(1, "x").text(2, "y").text(3, "call").text(4, "f0").text(7, "local")});
  message all;
  for (const auto& f : functions) all.part(25, f);
  return g.model() + all.bytes();
}
message function(int k, const std::vector<int>& calls) {
  message f = message().text(1, "f" + std::to_string(k)).text(10, "local").text(4, "a").text(5, "b");
  std::string from = "a";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string to = i + 1 == calls.size() ? "b" : "t" + std::to_string(i);
    message n = message().text(1, from).text(2, to).text(3, "n");
    if (calls[i] < 0) n.text(4, "Neg");
    else n.text(4, "f" + std::to_string(calls[i])).text(7, "local");
    f.part(7, n);
    from = to;
  }
  return f.part(9, message().number(2, 20)).part(9, message().text(1, "local").number(2, 1));
}

}  // namespace

TEST_CASE("cycles and values that come later") {
  check_says(graph_of({node("Add", {"x", "b"}, {"a"}), node("Neg", {"a"}, {"b"}), node("Neg", {"b"}, {"y"})}).model(),
             "node 'Add_of_a' (Add): its input 'b' is made by no node before it");
  check_says(graph_of({node("Neg", {"y"}, {"y"})}).model(), "its input 'y' is made by no node before it");
  check_says(graph_of({node("Neg", {"x"}, {"z"})}).model(), "the graph's result 'y' is made by no node");
}

TEST_CASE("functions that call themselves, and one another without end") {
  check_says(with_functions({function(0, {0})}), "functions call one another more than 64 deep");
  check_says(with_functions({function(0, {1}), function(1, {0})}), "functions call one another more than 64 deep");
  // Two calls in each of forty: a trillion nodes of three kilobytes.
  std::vector<message> all;
  for (int k = 0; k < 40; ++k) all.push_back(function(k, {k + 1, k + 1}));
  all.push_back(function(40, {-1}));
  check_says(with_functions(all), "more than 500,000 nodes");
}

TEST_CASE("graphs and types within others, deep") {
  message inner = onnx_test::body({node("Neg", {"x"}, {"y"})}, {}, {"y"});
  for (int k = 0; k < 100; ++k)
    inner = onnx_test::body({node("If", {"c"}, {"y"}, {attribute_graph("then_branch", inner)})}, {}, {"y"});
  check_says(graph_of({node("If", {"c"}, {"y"}, {attribute_graph("then_branch", inner)})}).model(),
             "graphs or types are nested more than 64 deep");
  message type = message().part(1, message().number(1, onnx_test::f32));
  for (int k = 0; k < 10000; ++k) type = message().part(4, message().part(1, type));
  auto g = graph_of({node("Neg", {"x"}, {"y"})});
  g.inputs.push_back(message().text(1, "s").part(2, type));
  check_says(g.model(), "graphs or types are nested more than 64 deep");
}

TEST_CASE("extents that no tensor has") {
  const auto with = [](std::vector<std::int64_t> extents, const std::string& bytes) {
    message t;
    for (auto e : extents) t.number(1, static_cast<std::uint64_t>(e));
    t.number(2, onnx_test::f32).text(8, "w").text(9, bytes);
    return graph_of({node("Add", {"x", "w"}, {"y"})}, {t}).model();
  };
  check_says(with({huge, 8}, ""), "the tensor 'w' has extents that no tensor has");
  check_says(with({-1, 3}, ""), "the tensor 'w' has extents that no tensor has");
  check_says(with({1 << 20, 1 << 20}, "1234"), "the tensor 'w' has 4 bytes where its extents say 4398046511104");
  check_says(with(std::vector<std::int64_t>(13, 1), "1234"), "the tensor 'w' has extents that no tensor has");
  check_says(with(std::vector<std::int64_t>(65, 1), "1234"), "the tensor 'w' has more than 64 axes");
}

TEST_CASE("shapes that overflow, or hold more than there is") {
  const auto fails = [](const message& n, const std::vector<std::int64_t>& v, const std::string& part) {
    check_says(graph_of({n}, {integers_named("v", v)}).model(), part);
  };
  fails(node("Reshape", {"x", "v"}, {"y"}), {huge, huge, huge}, "is beyond what an extent may be");
  fails(node("Reshape", {"x", "v"}, {"y"}), {7}, "a reshape of (2, 3) to (7)");
  fails(node("Reshape", {"x", "v"}, {"y"}), {-1, 4}, "a reshape of (2, 3)");
  fails(node("Reshape", {"x", "v"}, {"y"}), {-1, 0, 0}, "copies axis 2, which the input lacks");
  fails(node("Expand", {"x", "v"}, {"y"}), {huge, 2, 3}, "more than 2^56 elements");
  fails(node("Expand", {"x", "v"}, {"y"}), {-4, 2, 3}, "negative extent");
  fails(node("Tile", {"x", "v"}, {"y"}), {huge, huge}, "is beyond what an extent may be");
  fails(node("Tile", {"x", "v"}, {"y"}), {std::int64_t{1} << 57, 1}, "more than 2^56 elements");
  fails(node("Tile", {"x", "v"}, {"y"}), {2, -2}, "negative extent");
  fails(node("ConstantOfShape", {"v"}, {"y"}), {huge, huge}, "is beyond what an extent may be");
  fails(node("ConstantOfShape", {"v"}, {"y"}), {-5}, "negative extent");
  fails(node("Pad", {"x", "v"}, {"y"}), {huge, huge, huge, huge}, "2^56 elements");
  fails(node("OneHot", {"v", "x", "x"}, {"y"}), {1}, "is not one number");
  fails(node("Slice", {"x", "v", "v", "v", "v"}, {"y"}), {0}, "it has a step of 0");
  const message big = node("Range", {"a", "b", "c"}, {"y"});
  const auto number = [](const std::string& name, std::int64_t v) {
    return onnx_test::constant_tensor(name, onnx_test::number(v));
  };
  check_says(graph_of({big}, {number("a", 0), number("b", 1), number("c", 0)}).model(), "its delta is 0");
  check_says(graph_of({big}, {number("a", INT64_MIN), number("b", INT64_MAX), number("c", 1)}).model(),
             "is beyond what an extent may be");
  check_says(graph_of({big}, {number("a", 0), number("b", huge), number("c", 1)}).model(), "more than 2^56 elements");
}

TEST_CASE("numbers that stand for sizes within are no numbers of a file") {
  const std::int64_t forged = -6 * (std::int64_t{1} << 60) + 3;
  check_says(graph_of({node("Flatten", {"x"}, {"y"}, {attribute("axis", forged)})}).model(),
             "which no extent, position or count is");
  check_says(graph_of({node("Transpose", {"x"}, {"y"}, {attribute_list("perm", {forged, 0})})}).model(),
             "which no extent, position or count is");
  check_says(graph_of({node("Reshape", {"x", "v"}, {"y"})}, {integers_named("v", {forged})}).model(),
             "is no extent, position or count");
}

TEST_CASE("integers of all sizes are constants") {
  const std::int64_t odd = -6 * (std::int64_t{1} << 60) + 3;
  auto g =
      graph_of({node("Mul", {"v", "x"}, {"y"}), node("Add", {"v", "one"}, {"w"}), node("Mul", {"w", "one"}, {"z"})},
               {integers_named("v", {odd, 5}), integers_named("one", {1})});
  g.inputs = {value("x", onnx_test::i64, {"2"})};
  g.outputs = {message().text(1, "y"), message().text(1, "z")};
  options how;
  how.backend = "reference";
  const auto y = onnx::load(bytes_of(g.model()), how)({tensor<std::int64_t, 1>{1, 2}});
  CHECK(y[0].as<tensor<std::int64_t, 1>>().to_vector() == std::vector<std::int64_t>{odd, 10});
  CHECK(y[1].as<tensor<std::int64_t, 1>>().to_vector() == std::vector<std::int64_t>{odd + 1, 6});
}

TEST_CASE("constants are folded where that is little work, and wait otherwise") {
  // Each is large only when it is computed: a load that folded them would take all memory.
  const auto number = [](const std::string& name, std::int64_t v) {
    return onnx_test::constant_tensor(name, onnx_test::number(v));
  };
  options how;
  how.backend = "reference";
  const std::int64_t many = std::int64_t{1} << 40;
  for (const auto& [n, v] :
       std::vector<std::pair<message, std::vector<std::int64_t>>>{{node("Expand", {"one", "v"}, {"b"}), {many, 2, 3}},
                                                                  {node("ConstantOfShape", {"v"}, {"b"}), {many, 2}},
                                                                  {node("Tile", {"two", "v"}, {"b"}), {many}},
                                                                  {node("Range", {"zero", "far", "one"}, {"b"}), {1}},
                                                                  {node("OneHot", {"two", "far", "two"}, {"b"}), {1}},
                                                                  {node("Pad", {"two", "v"}, {"b"}), {0, many}}}) {
    auto g = graph_of({n, node("Shape", {"b"}, {"y"})}, {integers_named("v", v), number("one", 1), number("zero", 0),
                                                         number("far", many), integers_named("two", {1, 0})});
    const onnx::model m = onnx::load(bytes_of(g.model()), how);
    const auto y = m({zeros<float>(2, 3)});
    CHECK(y[0].to_array().type == dtype::i64);
  }
}

TEST_CASE("inputs of ranks that an operator does not take") {
  const auto fails = [](const message& n, std::vector<message> constants = {},
                        std::vector<std::string> axes = {"2", "3"}) {
    const std::string said = said_of(graph_of({n}, std::move(constants), std::move(axes)).model());
    INFO(said, " of ", n.bytes().substr(0, 40));
    CHECK(said.find("node '") != std::string::npos);
  };
  const message w = onnx_test::tensor("w", {2, 2}, std::vector<float>{1, 2, 3, 4}),
                s = onnx_test::tensor("s", {}, std::vector<float>{1});
  fails(node("Conv", {"x", "w"}, {"y"}), {w});
  fails(node("Conv", {"x"}, {"y"}));
  fails(node("ConvTranspose", {"x", "w"}, {"y"}), {w});
  fails(node("MatMul", {"x", "s"}, {"y"}), {s});
  fails(node("MatMul", {"s", "x"}, {"y"}), {s});
  fails(node("MatMul", {"x", "w"}, {"y"}), {w});
  fails(node("Gemm", {"s", "w"}, {"y"}), {s, w});
  fails(node("Transpose", {"x"}, {"y"}, {attribute_list("perm", {0})}));
  fails(node("Transpose", {"x"}, {"y"}, {attribute_list("perm", {0, 0})}));
  fails(node("Transpose", {"x"}, {"y"}, {attribute_list("perm", {0, 7})}));
  fails(node("Concat", {}, {"y"}));
  fails(node("Concat", {"x", "w"}, {"y"}, {attribute("axis", 1)}),
        {onnx_test::tensor("w", {3, 1}, std::vector<float>{1, 2, 3})});
  fails(node("Softmax", {"x"}, {"y"}, {attribute("axis", 2)}));
  fails(node("LayerNormalization", {"x", "w"}, {"y"}), {w});
  fails(node("BatchNormalization", {"x", "x", "x", "x", "x"}, {"y"}));
  fails(node("InstanceNormalization", {"s", "s", "s"}, {"y"}), {s});
  fails(node("GroupNormalization", {"x", "w", "w"}, {"y"}, {attribute("num_groups", 0)}), {w});
  fails(node("DepthToSpace", {"x"}, {"y"}, {attribute("blocksize", 2)}));
  fails(node("SpaceToDepth", {"x"}, {"y"}, {attribute("blocksize", 0)}));
  fails(node("MaxPool", {"x"}, {"y"}, {attribute_list("kernel_shape", {2})}));
  fails(node("LpPool", {"x"}, {"y"}));
  fails(node("LSTM", {"x", "w", "w"}, {"y"}), {w});
  fails(node("GRU", {"x", "w", "w"}, {"y"}), {w});
  fails(node("Trilu", {"s"}, {"y"}), {s});
  fails(node("GatherND", {"x", "s"}, {"y"}), {onnx_test::constant_tensor("s", onnx_test::number(0))});
  fails(node("GatherND", {"x", "v"}, {"y"}), {integers_named("v", {0, 1, 2})});
  fails(node("ScatterND", {"x", "s", "x"}, {"y"}), {onnx_test::constant_tensor("s", onnx_test::number(0))});
  fails(node("Split", {"x"}, {"y", "z"}, {attribute("num_outputs", INT64_MAX)}));
  fails(node("Unsqueeze", {"x", "v"}, {"y"}), {integers_named("v", {9})});
  fails(node("Squeeze", {"x", "v"}, {"y"}), {integers_named("v", {1})});
  fails(node("Einsum", {"x"}, {"y"}, {onnx_test::attribute_text("equation", "ij->k")}));
  fails(node("Einsum", {"x"}, {"y"}, {onnx_test::attribute_text("equation", "......")}));
  fails(node("Attention", {"x", "x", "x"}, {"y"}));
  fails(node("GridSample", {"x", "x"}, {"y"}));
  fails(node("STFT", {"x", "v"}, {"y"}), {integers_named("v", {0})});
  fails(node("DFT", {"s"}, {"y"}), {s});
  fails(node("Resize", {"x", "", "", "v"}, {"y"}), {integers_named("v", {huge, 2})});
  fails(node("Cast", {"x"}, {"y"}, {attribute("to", 99)}));
  fails(node("LRN", {"x"}, {"y"}, {attribute("size", INT64_MAX)}));
  fails(node("TopK", {"x", "v"}, {"y", "z"}), {integers_named("v", {huge})});
  fails(node("Clip", {"x", "w"}, {"y"}), {onnx_test::tensor("w", {5, 1, 2}, std::vector<float>(10))});
  fails(node("NonMaxSuppression", {"x", "x", "v"}, {"y"}), {integers_named("v", {1})});
}

TEST_CASE("files beside the model are below its folder, and are as long as they are said to be") {
  const scratch_folder here;
  std::ofstream(here.path + "/w.bin", std::ios::binary) << std::string(24, '\0');
  const auto with = [&](std::vector<std::pair<std::string, std::string>> entries) {
    message t = message().number(1, 2).number(1, 3).number(2, onnx_test::f32).text(8, "w").number(14, 1);
    for (const auto& [key, text] : entries) t.part(13, message().text(1, key).text(2, text));
    std::ofstream(here.path + "/m.onnx", std::ios::binary) << graph_of({node("Add", {"x", "w"}, {"y"})}, {t}).model();
    try {
      const onnx::model m = onnx::load(here.path + "/m.onnx", {.backend = "reference"});
      m({ones<float>(2, 3)});
      return std::string("nothing");
    } catch (const error& e) {
      return std::string(e.what());
    }
  };
  const auto says = [&](std::vector<std::pair<std::string, std::string>> entries, const std::string& part) {
    const std::string said = with(std::move(entries));
    INFO(said);
    CHECK(said.find(part) != std::string::npos);
  };
  CHECK(with({{"location", "w.bin"}}) == "nothing");
  CHECK(with({{"location", "./w.bin"}, {"offset", "0"}, {"length", "24"}}) == "nothing");
  for (const std::string name : {"../w.bin", "/etc/passwd", "a/../../w.bin", "..", "w.bin/..", "a\\..\\w.bin", ""})
    says({{"location", name}}, "which is not below the model's folder");
  says({{"location", std::string("w.bin\0/x", 8)}}, "which is not below the model's folder");
  says({{"location", "none.bin"}}, "none.bin");
  says({{"location", "."}}, "");
  says({{"location", "w.bin"}, {"offset", "4"}}, "lies beyond the end of 'w.bin'");
  says({{"location", "w.bin"}, {"offset", "999999999999999999"}}, "lies beyond the end of 'w.bin'");
  says({{"location", "w.bin"}, {"length", "999999999999999999"}}, "lies beyond the end of 'w.bin'");
  says({{"location", "w.bin"}, {"length", "20"}}, "has 20 bytes where its extents say 24");
  // A link leads to what is below the folder, or to where the model itself is.
  const scratch_folder other;
  std::ofstream(other.path + "/w.bin", std::ios::binary) << std::string(24, '\0');
  std::filesystem::create_symlink(other.path + "/w.bin", here.path + "/out.bin");
  std::filesystem::create_directory_symlink(other.path, here.path + "/out");
  std::filesystem::create_symlink("w.bin", here.path + "/in.bin");
  says({{"location", "out.bin"}}, "is in the file 'out.bin', a link to '");
  says({{"location", "out/w.bin"}}, "which is not below the model's folder; put the file itself there");
  CHECK(with({{"location", "in.bin"}}) == "nothing");
  std::filesystem::remove(here.path + "/m.onnx");
  std::filesystem::create_symlink(other.path + "/m.onnx", here.path + "/m.onnx");
  CHECK(with({{"location", "out.bin"}}) == "nothing");
  says({{"location", "w.bin"}, {"offset", "-4"}}, "which is no number");
  says({{"location", "w.bin"}, {"offset", "99999999999999999999999"}}, "which is no number");
}

TEST_CASE("branches of several dtypes, and conditions that are no flags") {
  const auto branch = [](int to) {
    return onnx_test::body({node("Cast", {"x"}, {"b"}, {attribute("to", to)})}, {}, {"b"});
  };
  auto g = graph_of({node("ReduceMax", {"x"}, {"m"}, {attribute("keepdims", 0)}),
                     node("Cast", {"m"}, {"c"}, {attribute("to", onnx_test::b8)}),
                     node("If", {"c"}, {"y"},
                          {attribute_graph("then_branch", branch(onnx_test::f32)),
                           attribute_graph("else_branch", branch(onnx_test::i64))})});
  // The condition is read then: either branch may be.
  CHECK(said_of(g.model()) == "nothing");
  g.nodes[2] = node(
      "If", {"m"}, {"y"},
      {attribute_graph("then_branch", branch(onnx_test::f32)), attribute_graph("else_branch", branch(onnx_test::f32))});
  check_says(g.model(), "its condition is f32, and no flag");
  const message step =
      onnx_test::body({node("Identity", {"a"}, {"b"}), node("ReduceMax", {"a"}, {"go"}, {attribute("keepdims", 0)})},
                      {"k", "on", "a"}, {"go", "b"});
  check_says(graph_of({node("Loop", {"", "", "x"}, {"y"}, {attribute_graph("body", step)})}).model(),
             "its condition is f32, and no flag");
}

TEST_CASE("an image is not made larger than places and weights may be") {
  auto g = graph_of({node("Resize", {"x", "", "", "v"}, {"y"}, {onnx_test::attribute_text("mode", "cubic")})},
                    {integers_named("v", {1 << 20, 3})});
  check_says(g.model(), "it resizes an axis of 2 to 1048576");
}

TEST_CASE("names of a file are told without control characters, and not at any length") {
  check_says(graph_of({message().text(1, "x").text(2, "y").text(3, "a\x1b[2J\nb").text(4, "Frob")}).model(),
             "Frob (node 'a?[2J?b')");
  CHECK(said_of(graph_of({node(std::string(100000, 'f'), {"x"}, {"y"})}).model()).size() < 10000);
}

TEST_CASE("bytes that are no messages") {
  check_says("", "holds no graph");
  check_says("not a model", "");
  check_says(std::string(100, '\xff'), "more than ten bytes");
  check_says("\x3a\xff\xff\xff\xff\x0f", "cut short");
  check_says(message().part(7, message().part(1, message().text(1, "x"))).bytes(), "a node has no operator");
  check_says(message().part(7, message().part(1, message().text(4, "Neg").part(5, message().number(3, 1)))).bytes(),
             "an attribute has no name");
}
