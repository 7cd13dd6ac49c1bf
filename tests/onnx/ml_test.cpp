// ai.onnx.ml's operators: against results that ONNX Runtime 1.30 recorded, and trees against walks.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../paths.hpp"
#include "ml_cases.hpp"

using namespace sinter;
using namespace onnx_test;

namespace {

void check_case(const recorded_case& c, const std::vector<filled>& want, bool interpreted, bool open) {
  const std::string file = c.model(open);
  const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
  const auto y = m(c.arguments(&m));
  CAPTURE(c.name);
  CAPTURE(interpreted);
  REQUIRE(y.size() == want.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    const auto got = elements_of(y[k]);
    INFO("result " << k);
    const io::array a = y[k].to_array();
    CHECK(std::vector<std::int64_t>(a.extents.begin(), a.extents.end()) == want[k].extents);
    CHECK(m.outputs()[k].is_text == (want[k].type == onnx_test::text));
    if (want[k].type == onnx_test::text) {
      REQUIRE(got.size() == want[k].texts.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(m.texts()[static_cast<std::size_t>(got[i])] == want[k].texts[i]);
      continue;
    }
    CHECK(a.type == dtype_of_type(want[k].type));
    REQUIRE(got.size() == want[k].count());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(got[i]) && std::isnan(want[k].elements[i])) continue;
      const double far = std::fabs(got[i] - want[k].elements[i]) / std::fmax(1, std::fabs(want[k].elements[i]));
      worst = std::fmax(worst, std::isnan(far) ? 1e9 : far);
    }
    CHECK(worst <= c.tolerance);
  }
}

}  // namespace

TEST_CASE("ai.onnx.ml's operators give ONNX Runtime's results") {
  const auto& all = ml_cases();
  if (const char* path = std::getenv("SINTER_RECORD"))
    return write_cases(path, all), write_cases(path, two_class_cases());
  const recorded want = read_recorded(test_paths::data + "/onnx/ml_recorded.txt");
  for (const recorded_case& c : all) {
    const auto it = want.find(c.name);
    CAPTURE(c.name);
    CHECK(it != want.end());
    if (it == want.end()) continue;
    CHECK_NOTHROW(check_case(c, it->second, true, false));
    CHECK_NOTHROW(check_case(c, it->second, false, true));
  }
}

TEST_CASE("trees of two classes give ONNX Runtime's labels and scores") {
  const recorded want = read_recorded(test_paths::data + "/onnx/ml_recorded.txt");
  CHECK(two_class_cases().size() > 150);
  for (const recorded_case& c : two_class_cases()) {
    CAPTURE(c.name);
    const auto it = want.find(c.name);
    REQUIRE(it != want.end());
    CHECK_NOTHROW(check_case(c, it->second, true, false));
    if (c.name.ends_with("_NONE")) CHECK_NOTHROW(check_case(c, it->second, false, true));
  }
}

TEST_CASE("labels of two classes are the list's, whatever their numbers") {
  for (const bool one : {false, true}) {
    recorded_case c{"", "TreeEnsembleClassifier", columns_domain, {given("x", {2, 2}, {-1, -1, 0.5, 0.5})}};
    c.attributes = three_leaves(one ? "0" : "both", {0.75f, -0.6f, 0.1f}, false);
    c.attributes.push_back(attribute_list("classlabels_int64s", {4, 6}));
    c.results = {i64, onnx_test::f32};
    c.version = 3;
    const std::string file = c.model();
    const auto y = onnx::load(bytes_of(file), on(true))(c.arguments());
    CHECK(elements_of(y[0]) == (one ? std::vector<double>{6, 4} : std::vector<double>{4, 6}));
  }
}

namespace {

/// A walk of a grown forest for one row, in f64: the sums of its targets.
std::vector<double> walked(const grown& g, const float* x, std::int64_t targets) {
  std::vector<double> out(static_cast<std::size_t>(targets), 0.0);
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> place;
  for (std::size_t k = 0; k < g.ids.size(); ++k) place[{g.trees[k], g.ids[k]}] = k;
  for (std::int64_t t = 0; t <= g.trees.back(); ++t) {
    std::size_t at = place.at({t, 0});
    while (g.modes[at] != "LEAF") {
      const float v = x[g.columns[at]];
      const bool is = g.modes[at] == "BRANCH_LEQ" ? v <= g.splits[at] : v < g.splits[at];
      at = place.at({t, is ? g.yes[at] : g.no[at]});
    }
    for (std::size_t k = 0; k < g.leaf_ids.size(); ++k)
      if (g.leaf_trees[k] == t && g.leaf_ids[k] == g.ids[at])
        out[static_cast<std::size_t>(g.leaf_targets[k])] += static_cast<double>(g.weights[k]);
  }
  return out;
}
recorded_case one_tree(std::vector<std::int64_t> yes, std::vector<std::int64_t> no, std::int64_t column = 0) {
  const std::size_t n = yes.size();
  std::vector<std::int64_t> ids, zeros(n, 0), columns(n, column);
  for (std::size_t k = 0; k < n; ++k) ids.push_back(static_cast<std::int64_t>(k));
  std::vector<std::string> how(n, "BRANCH_LEQ");
  for (std::size_t k = 0; k < n; ++k)
    if (yes[k] < 0) how[k] = "LEAF";
  return {"",
          "TreeEnsembleRegressor",
          columns_domain,
          {reals("x", {3, 2}, 1)},
          {attribute("n_targets", 1), attribute_list("nodes_treeids", zeros), attribute_list("nodes_nodeids", ids),
           attribute_list("nodes_featureids", columns), attribute_list("nodes_truenodeids", yes),
           attribute_list("nodes_falsenodeids", no), attribute_floats("nodes_values", std::vector<float>(n, 0.5f)),
           attribute_texts("nodes_modes", how), attribute_list("target_treeids", {0}),
           attribute_list("target_nodeids", {static_cast<std::int64_t>(n) - 1}), attribute_list("target_ids", {0}),
           attribute_floats("target_weights", {1})}};
}
std::string error_of(const recorded_case& c) {
  const std::string file = c.model();
  return message_of([&] {
    const onnx::model m = onnx::load(bytes_of(file), on(true));
    m(c.arguments(&m));
  });
}

}  // namespace

TEST_CASE("a forest over many rows walks as each row does") {
  const grown g = grow(11, 30, 8, 7, 3, false, {"BRANCH_LEQ", "BRANCH_LT"});
  for (const std::int64_t rows : {0, 1, 333}) {
    recorded_case c{"",
                    "TreeEnsembleRegressor",
                    columns_domain,
                    {reals("x", {rows, 7}, 1)},
                    g.attributes("target"),
                    {onnx_test::f32}};
    c.attributes.pop_back();
    c.attributes.push_back(attribute_floats("target_weights", g.weights));
    c.attributes.push_back(attribute("n_targets", 3));
    const std::string file = c.model(true);
    const onnx::model m = onnx::load(bytes_of(file));
    const auto got = elements_of(m(c.arguments())[0]);
    REQUIRE(got.size() == static_cast<std::size_t>(3 * rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<float> x;
      for (std::size_t k = 0; k < 7; ++k)
        x.push_back(static_cast<float>(c.in[0].elements[static_cast<std::size_t>(r) * 7 + k]));
      const auto want = walked(g, x.data(), 3);
      for (std::size_t k = 0; k < 3; ++k)
        CHECK(got[static_cast<std::size_t>(3 * r) + k] == doctest::Approx(want[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a machine of 70 classes counts the votes of all pairs") {
  constexpr std::int64_t classes = 70, columns = 3, rows = 5, pairs = classes * (classes - 1) / 2;
  std::vector<std::int64_t> labels, per_class;
  std::vector<std::int64_t> first{0};
  for (std::int64_t k = 0; k < classes; ++k) {
    labels.push_back(1000 + k);
    per_class.push_back(1 + k % 3);
    first.push_back(first.back() + per_class.back());
  }
  const std::int64_t count = first.back();
  const filled x = reals("x", {rows, columns}, 1), vectors = reals("", {count, columns}, 2),
               w = reals("", {classes - 1, count}, 3, 2), rho = reals("", {pairs}, 4, 0.5);
  const recorded_case c{"",
                        "SVMClassifier",
                        columns_domain,
                        {x},
                        {attribute_text("kernel_type", "LINEAR"), attribute_list("vectors_per_class", per_class),
                         attribute_numbers("support_vectors", vectors), attribute_numbers("coefficients", w),
                         attribute_numbers("rho", rho), attribute_list("classlabels_ints", labels)},
                        {onnx_test::i64, onnx_test::f32}};
  const std::string file = c.model();
  const auto y = onnx::load(bytes_of(file))(c.arguments());
  const auto label = elements_of(y[0]), scores = elements_of(y[1]);
  REQUIRE(scores.size() == static_cast<std::size_t>(rows * pairs));
  const auto at = [](const filled& a, std::int64_t row, std::int64_t width, std::int64_t k) {
    return a.elements[static_cast<std::size_t>(row * width + k)];
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> k(static_cast<std::size_t>(count), 0);
    for (std::int64_t v = 0; v < count; ++v)
      for (std::int64_t d = 0; d < columns; ++d)
        k[static_cast<std::size_t>(v)] += at(x, r, columns, d) * at(vectors, v, columns, d);
    std::vector<int> votes(static_cast<std::size_t>(classes), 0);
    std::int64_t pair = 0;
    double worst = 0, nearest = 1;
    for (std::int64_t i = 0; i < classes; ++i)
      for (std::int64_t j = i + 1; j < classes; ++j, ++pair) {
        double sum = at(rho, 0, 0, pair);
        for (std::int64_t v = first[static_cast<std::size_t>(i)]; v < first[static_cast<std::size_t>(i) + 1]; ++v)
          sum += at(w, j - 1, count, v) * k[static_cast<std::size_t>(v)];
        for (std::int64_t v = first[static_cast<std::size_t>(j)]; v < first[static_cast<std::size_t>(j) + 1]; ++v)
          sum += at(w, i, count, v) * k[static_cast<std::size_t>(v)];
        ++votes[static_cast<std::size_t>(sum > 0 ? i : j)];
        worst = std::fmax(worst, std::fabs(sum - scores[static_cast<std::size_t>(r * pairs + pair)]));
        nearest = std::fmin(nearest, std::fabs(sum));
      }
    CHECK(worst < 1e-4);
    const auto most = std::max_element(votes.begin(), votes.end()) - votes.begin();
    if (nearest > 1e-4) CHECK(label[static_cast<std::size_t>(r)] == static_cast<double>(1000 + most));
  }
}

TEST_CASE("integers of a map keep their dtype") {
  for (const int type : {onnx_test::i32, onnx_test::i64}) {
    const recorded_case c{"",
                          "LabelEncoder",
                          columns_domain,
                          {given("x", {4}, {3, 1, 9, 3}, onnx_test::i64)},
                          {attribute_tensor_of("keys_tensor", given("", {2}, {1, 3}, onnx_test::i32)),
                           attribute_tensor_of("values_tensor", given("", {2}, {10, -30}, type)),
                           attribute_tensor_of("default_tensor", given("", {1}, {7}, type))},
                          {type},
                          0,
                          4};
    const std::string file = c.model();
    const auto y = onnx::load(bytes_of(file))(c.arguments());
    CHECK(y[0].to_array().type == dtype_of_type(type));
    CHECK(elements_of(y[0]) == std::vector<double>{-30, 10, 7, -30});
  }
}

TEST_CASE("a function's attributes give texts, too") {
  const auto refers = [](const char* name, const char* to) {
    return message().text(1, name).text(21, to).number(20, 8);
  };
  message map = message().text(1, "a").text(2, "b").text(4, "LabelEncoder").text(7, columns_domain);
  map.part(5, refers("keys_strings", "words")).part(5, refers("values_strings", "others"));
  const message local = message()
                            .text(1, "swap")
                            .text(10, "local")
                            .text(4, "a")
                            .text(5, "b")
                            .text(6, "words")
                            .part(11, attribute_texts("others", {"blue", "red"}))
                            .part(7, map)
                            .part(9, message().text(1, columns_domain).number(2, 1));
  onnx_test::graph g;
  g.inputs.push_back(value("x", onnx_test::text, {"3"}));
  g.outputs.push_back(value("y", onnx_test::text, {"3"}));
  g.nodes.push_back(onnx_test::node("swap", {"x"}, {"y"}, {attribute_texts("words", {"yes", "no"})}).text(7, "local"));
  const std::string file = g.model() + message()
                                           .part(25, local)
                                           .part(8, message().text(1, "local").number(2, 1))
                                           .part(8, message().text(1, columns_domain).number(2, 1))
                                           .bytes();
  const onnx::model m = onnx::load(bytes_of(file));
  const auto places = m.places_of_texts({"no", "yes", "no"});
  const auto y = m({tensor_of_elements(given("x", {3}, {places.begin(), places.end()}, onnx_test::i64))});
  std::vector<std::string> got;
  for (const double k : elements_of(y[0])) got.push_back(m.texts()[static_cast<std::size_t>(k)]);
  CHECK(got == std::vector<std::string>{"red", "blue", "red"});
}

TEST_CASE("nothing is a member of an empty set") {
  for (const bool listed : {false, true}) {
    recorded_case c{
        "",
        "TreeEnsemble",
        columns_domain,
        {reals("x", {4, 2}, 1)},
        {attribute("n_targets", 1), attribute("aggregate_function", 1), attribute("post_transform", 0),
         attribute_list("tree_roots", {0}), attribute_tensor_of("nodes_modes", given("", {1}, {6}, onnx_test::u8)),
         attribute_list("nodes_featureids", {0}), attribute_tensor_of("nodes_splits", given("", {1}, {0})),
         attribute_list("nodes_truenodeids", {0}), attribute_list("nodes_trueleafs", {1}),
         attribute_list("nodes_falsenodeids", {1}), attribute_list("nodes_falseleafs", {1}),
         attribute_list("leaf_targetids", {0, 0}), attribute_tensor_of("leaf_weights", given("", {2}, {2, 3}))},
        {onnx_test::f32},
        2e-5,
        5};
    if (listed) c.attributes.push_back(attribute_tensor_of("membership_values", given("", {1}, {std::nan("")})));
    const std::string file = c.model();
    const onnx::model m = onnx::load(bytes_of(file));
    for (const double y : elements_of(m(c.arguments())[0])) CHECK(y == 3);
  }
}

TEST_CASE("damaged trees, maps and text are refused in words") {
  CHECK(error_of(one_tree({1, -1, -1}, {2, -1, -1})).empty());
  CHECK(contains(error_of(one_tree({1, 0}, {1, 0})), "its trees have no root"));
  CHECK(contains(error_of(one_tree({1, 1, -1}, {2, 2, -1})), "have cycles, or are more than 256 deep"));
  CHECK(contains(error_of(one_tree({1, -1, -1}, {9, -1, -1})), "its trees have no node 9"));
  CHECK(contains(error_of(one_tree({1, -1, -1}, {2, -1, -1}, 2)), "its trees test column 2 of 2"));
  recorded_case many = one_tree({1, -1, -1}, {2, -1, -1});
  many.attributes[0] = attribute("n_targets", std::int64_t{1} << 40);
  CHECK(contains(error_of(many), "its trees give 1099511627776 targets"));
  CHECK(contains(error_of({"",
                           "LabelEncoder",
                           columns_domain,
                           {given("x", {2}, {1, 2})},
                           {attribute_texts("keys_strings", {"a"}), attribute_list("values_int64s", {1})},
                           {i64},
                           0,
                           2}),
                 "its keys are text, and its input is not"));
  CHECK(contains(
      error_of(
          {"", "LinearRegressor", columns_domain, {reals("x", {2, 3}, 1)}, {attribute_floats("coefficients", {1, 2})}}),
      "its coefficients are not 1 rows of 3"));
  // A vector for one class, and a table of votes of more than 2^26 numbers.
  const std::int64_t classes = 513;
  std::vector<std::int64_t> of_class(static_cast<std::size_t>(classes)), labels = of_class;
  of_class[0] = 1;
  CHECK(contains(error_of({"",
                           "SVMClassifier",
                           columns_domain,
                           {reals("x", {2, 3}, 1)},
                           {attribute_text("kernel_type", "LINEAR"), attribute_list("vectors_per_class", of_class),
                            attribute_numbers("support_vectors", reals("", {1, 3}, 2)),
                            attribute_numbers("coefficients", reals("", {classes - 1, 1}, 3)),
                            attribute_numbers("rho", reals("", {classes * (classes - 1) / 2}, 4)),
                            attribute_list("classlabels_ints", labels)},
                           {i64, onnx_test::f32}}),
                 "pairs times classes and pairs times vectors are at most 2^26"));
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::text, {"n"})};
  g.outputs = {value("y", i64, {"n"})};
  g.nodes = {node("Identity", {"x"}, {"t"}),
             node("LabelEncoder", {"t"}, {"y"},
                  {attribute_texts("keys_strings", {"b", "a"}), attribute_list("values_int64s", {5, 6})})
                 .text(7, columns_domain)};
  const std::string moved = g.model();
  const onnx::model m = onnx::load(bytes_of(moved), on(true));
  CHECK(m.inputs()[0].text() == "x: text as i64 (n)");
  const auto at = m.places_of_texts({"a", "z", "b"});
  CHECK(at[1] == -1);
  CHECK(elements_of(m({sinter::tensor<std::int64_t, 1>{at[0], at[1], at[2]}})[0]) == std::vector<double>{6, -1, 5});
  g.nodes[0] = node("Neg", {"x"}, {"t"});
  const std::string changed = g.model();
  CHECK(contains(message_of([&] { onnx::load(bytes_of(changed), on(true))({sinter::tensor<std::int64_t, 1>{0}}); }),
                 "its input is text, which operators of ai.onnx.ml map to numbers"));
}
