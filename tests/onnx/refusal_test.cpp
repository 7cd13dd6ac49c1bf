// What operators of models from files refuse while they are traced, each with its reason; attention through graphs, mel filters.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <string>
#include <vector>

#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_float;
using onnx_test::attribute_graph;
using onnx_test::attribute_list;
using onnx_test::attribute_text;
using onnx_test::bytes_of;
using onnx_test::node;
using onnx_test::value;

namespace {

using numbers = std::vector<float>;
using whole = std::vector<std::int64_t>;

options reference() {
  options how;
  how.backend = "reference";
  return how;
}

struct refusal {
  const char* words;
  onnx_test::message op;
  std::vector<onnx_test::message> constants;
  int opset = 22;
};

/// The error of a model of one node, whose input x is (1, 2, 4, 4).
std::string error_of(const refusal& r) {
  onnx_test::graph g;
  g.initializers = r.constants;
  g.inputs = {value("x", onnx_test::f32, {"1", "2", "4", "4"})};
  g.outputs = {value("y", onnx_test::f32, {})};
  g.nodes = {r.op};
  const std::string file = g.model(r.opset);
  try {
    onnx::load(bytes_of(file), reference())({ones<float>(1, 2, 4, 4)});
  } catch (const user_error& e) {
    return e.what();
  }
  return "no error";
}

onnx_test::graph adding() {
  onnx_test::graph b;
  b.inputs = {value("s", onnx_test::f32, {"4"}), value("a", onnx_test::f32, {"4"})};
  b.outputs = {value("s2", onnx_test::f32, {"4"})};
  b.nodes = {node("Add", {"s", "a"}, {"s2"})};
  return b;
}
onnx_test::message f32s(const char* name, std::vector<std::int64_t> extents, numbers v) {
  return onnx_test::tensor(name, std::move(extents), v);
}
onnx_test::message i64s(const char* name, std::vector<std::int64_t> extents, whole v) {
  return onnx_test::tensor(name, std::move(extents), v);
}
onnx_test::message grams(std::vector<onnx_test::message> a) {
  a.push_back(attribute_list("ngram_counts", {0}));
  a.push_back(attribute("max_gram_length", 1));
  return node("TfIdfVectorizer", {"k"}, {"y"}, a);
}

}  // namespace

TEST_CASE("operators refuse what they do not do, with the reason") {
  const auto one_roi = f32s("rois", {1, 4}, {0, 0, 2, 2}), which = i64s("which", {1}, {0});
  onnx_test::message yes;
  yes.number(2, onnx_test::b8).text(8, "yes").text(9, std::string(1, '\1'));
  const std::vector<refusal> all{
      {"(RoiAlign): of another image than (N, C, H, W), or without bins",
       node("RoiAlign", {"x", "rois", "which"}, {"y"}, {attribute("output_height", 0)}),
       {one_roi, which}},
      {"(RoiAlign): a region asks for more than 4096 samples of a bin along an axis",
       node("RoiAlign", {"x", "rois", "which"}, {"y"}),
       {f32s("rois", {1, 4}, {0, 0, 1e6f, 2}), which}},
      {"(MaxRoiPool): of another image than (N, C, H, W), or without bins",
       node("MaxRoiPool", {"x", "rois"}, {"y"}, {attribute_list("pooled_shape", {2})}),
       {f32s("rois", {1, 5}, {0, 0, 0, 2, 2})}},
      {"(DeformConv): of another image than (N, C, H, W)",
       node("DeformConv", {"w", "w", "w"}, {"y"}),
       {f32s("w", {1, 1, 2}, {1, 1})}},
      {"(DeformConv): its groups have to be 1 or more",
       node("DeformConv", {"x", "w", "x"}, {"y"}, {attribute("offset_group", 0)}),
       {f32s("w", {1, 2, 1, 1}, {1, 1})}},
      {"(Dropout): its ratio is not in [0, 1)",
       node("Dropout", {"x", "ratio", "yes"}, {"y"}),
       {f32s("ratio", {}, {1.5f}), yes}},
      {"(Multinomial): of another rank than 2, or without samples", node("Multinomial", {"x"}, {"y"}), {}},
      {"(Det): of (1, 2, 4, 3), which is no square matrix",
       node("Det", {"m"}, {"y"}),
       {f32s("m", {1, 2, 4, 3}, numbers(24, 1.f))}},
      {"(TfIdfVectorizer): of texts, which no tensor holds",
       grams({onnx_test::attribute_texts("pool_strings", {"a"}), attribute_list("ngram_indexes", {0})}),
       {i64s("k", {2}, {1, 2})}},
      {"(TfIdfVectorizer): its ngram_indexes are not one for each n-gram",
       grams({attribute_list("pool_int64s", {1, 2}), attribute_list("ngram_indexes", {0})}),
       {i64s("k", {2}, {1, 2})}},
      {"(TfIdfVectorizer): of another rank than 1 and 2",
       grams({attribute_list("pool_int64s", {1}), attribute_list("ngram_indexes", {0})}),
       {i64s("k", {1, 1, 2}, {1, 2})}},
      {"(MelWeightMatrix): its numbers of bins and elements have to be positive",
       node("MelWeightMatrix", {"zero", "two", "two", "low", "low"}, {"y"}),
       {i64s("zero", {}, {0}), i64s("two", {}, {2}), f32s("low", {}, {0})}},
      {"(Scan): backwards over sequences of several lengths",
       node("Scan", {"lengths", "s", "a"}, {"y"},
            {attribute("num_scan_inputs", 1), attribute_list("directions", {1}),
             attribute_graph("body", adding().body())}),
       {i64s("lengths", {1}, {1}), f32s("s", {1, 4}, numbers(4, 0.f)), f32s("a", {1, 2, 4}, numbers(8, 1.f))},
       8},
      {"(Scan): its number of scanned inputs is not one of its inputs",
       node("Scan", {"x"}, {"y"}, {attribute("num_scan_inputs", 2), attribute_graph("body", adding().body())}),
       {}},
      {"(Scan): it lacks its body", node("Scan", {"x"}, {"y"}, {attribute("num_scan_inputs", 1)}), {}},
      {"(If): it lacks its then_branch", node("If", {"yes"}, {"y"}), {yes}},
      {"(Loop): its body gives fewer values than it carries",
       node("Loop", {"n", "", "x", "x"}, {"y"}, {attribute_graph("body", adding().body())}),
       {i64s("n", {}, {9})}},
      {"the carried value 0 is f32 (4) before and f32 (1, 4) after a step",
       node("Scan", {"s", "a"}, {"y"},
            {attribute("num_scan_inputs", 1), attribute_graph("body",
                                                              [] {
                                                                onnx_test::graph b = adding();
                                                                b.initializers = {i64s("first", {1}, {0})};
                                                                b.nodes = {node("Add", {"s", "a"}, {"t"}),
                                                                           node("Unsqueeze", {"t", "first"}, {"u"}),
                                                                           node("Loop", {"", "", "u"}, {"s2"}, {})};
                                                                b.nodes.back() = node("Identity", {"u"}, {"s2"});
                                                                return b.body();
                                                              }())}),
       {f32s("s", {4}, numbers(4, 0.f)), f32s("a", {5000, 4}, numbers(20000, 1.f))}},
  };
  for (const refusal& r : all) {
    const std::string said = error_of(r);
    INFO(said);
    CHECK_MESSAGE(said.find(r.words) != std::string::npos, r.words);
  }
}

TEST_CASE("loops within loops step by step are bounded") {
  onnx_test::graph inner, outer;
  inner.initializers = {f32s("one", {1}, {1})};
  inner.inputs = {value("k", onnx_test::i64, {}), value("on", onnx_test::b8, {}), value("v", onnx_test::f32, {"n"})};
  inner.outputs = {value("on2", onnx_test::b8, {}), value("v2", onnx_test::f32, {"m"})};
  inner.nodes = {node("Identity", {"on"}, {"on2"}), node("Concat", {"v", "one"}, {"v2"}, {attribute("axis", 0)})};
  outer.inputs = {value("j", onnx_test::i64, {}), value("go", onnx_test::b8, {}), value("u", onnx_test::f32, {"n"})};
  outer.outputs = {value("go2", onnx_test::b8, {}), value("u2", onnx_test::f32, {"m"})};
  outer.nodes = {node("Identity", {"go"}, {"go2"}),
                 node("Loop", {"many", "", "u"}, {"u2"}, {attribute_graph("body", inner.body())})};
  const refusal r{"its loops are of more than 500,000 nodes step by step",
                  node("Loop", {"many", "", "start"}, {"y"}, {attribute_graph("body", outer.body())}),
                  {i64s("many", {}, {4000}), f32s("start", {1}, {1})}};
  const std::string said = error_of(r);
  INFO(said);
  CHECK(said.find(r.words) != std::string::npos);
}

TEST_CASE("attention goes through graphs of its node, with heads that share keys") {
  onnx_test::graph g, scores, weights;
  scores.initializers = {f32s("cap", {}, {2})};
  scores.inputs = {value("s", onnx_test::f32, {"B", "H", "L", "S"})};
  scores.outputs = {value("s2", onnx_test::f32, {"B", "H", "L", "S"})};
  scores.nodes = {node("Div", {"s", "cap"}, {"a"}), node("Tanh", {"a"}, {"b"}), node("Mul", {"b", "cap"}, {"s2"})};
  weights.initializers = {f32s("half", {}, {0.5f})};
  weights.inputs = {value("p", onnx_test::f32, {"B", "H", "L", "S"})};
  weights.outputs = {value("p2", onnx_test::f32, {"B", "H", "L", "S"})};
  weights.nodes = {node("Mul", {"p", "half"}, {"p2"})};
  g.inputs = {value("q", onnx_test::f32, {"2", "4", "3", "5"}), value("k", onnx_test::f32, {"2", "2", "6", "5"}),
              value("v", onnx_test::f32, {"2", "2", "6", "7"})};
  g.outputs = {value("y", onnx_test::f32, {"2", "4", "3", "7"})};
  auto n = node("FlexAttention", {"q", "k", "v"}, {"y"},
                {attribute_graph("score_mod", scores.body()), attribute_graph("prob_mod", weights.body())});
  n.text(7, "ai.onnx.preview");
  g.nodes = {n};
  const std::string file = g.model(26);
  const tensor<float, 4> q = normal<float>(make_key(1), 2, 4, 3, 5), k = normal<float>(make_key(2), 2, 2, 6, 5),
                         v = normal<float>(make_key(3), 2, 2, 6, 7);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), interpreted ? reference() : options());
    const auto y = m({q, k, v})[0].as<tensor<float, 4>>();
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 4; ++h)
        for (int i = 0; i < 3; ++i) {
          double p[6], sum = 0;
          for (int j = 0; j < 6; ++j) {
            double s = 0;
            for (int e = 0; e < 5; ++e)
              s += static_cast<double>(q(b, h, i, e)) * static_cast<double>(k(b, h / 2, j, e));
            sum += p[j] = std::exp(2 * std::tanh(s / std::sqrt(5.0) / 2));
          }
          for (int e = 0; e < 7; ++e) {
            double want = 0;
            for (int j = 0; j < 6; ++j) want += 0.5 * p[j] / sum * static_cast<double>(v(b, h / 2, j, e));
            CHECK(static_cast<double>(y(b, h, i, e)) == doctest::Approx(want).epsilon(1e-4));
          }
        }
  }
}

TEST_CASE("mel filters are triangles") {
  onnx_test::graph g;
  g.initializers = {i64s("bins", {}, {8}), i64s("length", {}, {16}), i64s("rate", {}, {8192}), f32s("low", {}, {0}),
                    f32s("high", {}, {4096})};
  g.outputs = {value("y", onnx_test::f32, {"9", "8"})};
  g.nodes = {node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"y"})};
  const std::string file = g.model();
  const auto y = onnx::load(bytes_of(file), reference())(onnx::tensor_list{})[0].as<tensor<float, 2>>();
  // The edges are at rows 0 0 0 1 1 2 3 4 5 6.
  const int row_of[] = {0, 0, 1, 1, 2, 3, 4, 5};
  for (int r = 0; r < 9; ++r)
    for (int b = 0; b < 8; ++b) CHECK(y(r, b) == (r == row_of[b] ? 1.f : 0.f));
}
