// Cases of ai.onnx.ml's operators, as scikit-learn exports them: random trees, all kernels, both kinds of labels.
#pragma once

#include "recorded_cases.hpp"

namespace onnx_test {

inline const std::string columns_domain = "ai.onnx.ml";
using ml_cases_list = std::vector<recorded_case>;
using attribute_list_of = std::vector<message>;

inline message attribute_numbers(const std::string& name, const filled& x) {
  return attribute_floats(name, {x.elements.begin(), x.elements.end()});
}
inline message attribute_tensor_of(const std::string& name, const filled& x) {
  return message().text(1, name).part(5, tensor_of(x)).number(20, 4);
}

/// Lists of a forest's nodes and leaves, grown by draws.
struct grown {
  std::vector<std::int64_t> trees, ids, columns, yes, no, missing, leaf_trees, leaf_ids, leaf_targets;
  std::vector<float> splits, weights;
  std::vector<std::string> modes;
  std::uint64_t state;

  std::uint64_t draw(std::uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  }
  float real() { return static_cast<float>(draw(2001)) / 1000 - 1; }
  /// A node with what is below it; its number in the tree.
  std::int64_t node(std::int64_t tree, std::int64_t& next, int depth, std::int64_t width,
                    const std::vector<std::string>& how, const std::vector<std::int64_t>& targets, bool positive) {
    const std::int64_t id = next++;
    const std::size_t at = ids.size();
    trees.push_back(tree);
    ids.push_back(id);
    const bool is_leaf = depth == 0 || (depth < 4 && draw(4) == 0);
    columns.push_back(is_leaf ? 0 : static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(width))));
    splits.push_back(is_leaf ? 0 : real());
    missing.push_back(static_cast<std::int64_t>(draw(2)));
    modes.push_back(is_leaf ? "LEAF" : how[draw(how.size())]);
    yes.push_back(0);
    no.push_back(0);
    if (is_leaf) {
      for (const auto t : targets) {
        leaf_trees.push_back(tree);
        leaf_ids.push_back(id);
        leaf_targets.push_back(t);
        weights.push_back(positive ? std::fabs(real()) / 4 : real());
      }
      return id;
    }
    yes[at] = node(tree, next, depth - 1, width, how, targets, positive);
    no[at] = node(tree, next, depth - 1, width, how, targets, positive);
    return id;
  }
  attribute_list_of attributes(const std::string& of) const {
    return {attribute_list("nodes_treeids", trees),      attribute_list("nodes_nodeids", ids),
            attribute_list("nodes_featureids", columns), attribute_list("nodes_truenodeids", yes),
            attribute_list("nodes_falsenodeids", no),    attribute_floats("nodes_values", splits),
            attribute_texts("nodes_modes", modes),       attribute_list("nodes_missing_value_tracks_true", missing),
            attribute_list(of + "_treeids", leaf_trees), attribute_list(of + "_nodeids", leaf_ids),
            attribute_list(of + "_ids", leaf_targets),   attribute_floats(of + "_weights", weights)};
  }
};
/// `each`: a tree gives the targets of its turn only, as gradient boosting does; else all.
inline grown grow(std::uint64_t seed, std::int64_t count, int depth, std::int64_t width, std::int64_t targets,
                  bool each, const std::vector<std::string>& how = {"BRANCH_LEQ"}, bool positive = false) {
  grown g;
  g.state = seed;
  for (std::int64_t t = 0; t < count; ++t) {
    std::vector<std::int64_t> own;
    for (std::int64_t k = 0; k < targets; ++k)
      if (!each || k == t % targets) own.push_back(k);
    std::int64_t next = 0;
    g.node(t, next, depth, width, how, own, positive);
  }
  return g;
}

inline void put_columns(ml_cases_list& all) {
  const filled x = reals("x", {5, 3}, 1);
  const auto put = [&](const char* name, const char* op, std::vector<filled> in, attribute_list_of a, int type = f32,
                       int version = 1) {
    all.push_back({name, op, columns_domain, std::move(in), std::move(a), {type}, 2e-5, version});
  };
  put("scaler", "Scaler", {x}, {attribute_floats("offset", {0.5f, -1, 2}), attribute_floats("scale", {2, 0.25f, -3})});
  put("scaler_one", "Scaler", {whole("x", {5, 3}, 1, -9, 9, i64)},
      {attribute_floats("offset", {0.5f}), attribute_floats("scale", {2})});
  filled zeros = x;
  for (std::size_t k = 3; k < 6; ++k) zeros.elements[k] = 0;
  for (const char* norm : {"MAX", "L1", "L2"})
    put((std::string("normalizer_") + norm).c_str(), "Normalizer", {zeros}, {attribute_text("norm", norm)});
  put("binarizer", "Binarizer", {x}, {attribute_float("threshold", 0.2f)});
  filled holes = x;
  holes.elements[1] = holes.elements[5] = std::nan("");
  put("imputer_nan", "Imputer", {holes},
      {attribute_floats("imputed_value_floats", {7, 8, 9}), attribute_float("replaced_value_float", std::nanf(""))});
  put("imputer_int", "Imputer", {whole("x", {5, 3}, 1, 0, 2, i64)},
      {attribute_list("imputed_value_int64s", {77}), attribute("replaced_value_int64", 1)}, i64);
  put("extractor", "ArrayFeatureExtractor", {x, given("i", {2}, {2, 0}, i64)}, {});
  put("extractor_row", "ArrayFeatureExtractor", {reals("x", {4}, 1), given("i", {1, 3}, {2, 0, 2}, i64)}, {});
  put("vectorizer", "FeatureVectorizer", {x, reals("z", {5, 2}, 2)}, {attribute_list("inputdimensions", {3, 2})});
  put("one_hot", "OneHotEncoder", {whole("x", {2, 3}, 1, 0, 4, i64)}, {attribute_list("cats_int64s", {3, 0, 1})});
  const std::vector<std::string> words{"b", "unseen", "a", "c", "b", "a"};
  put("one_hot_text", "OneHotEncoder", {texts("x", {2, 3}, words)}, {attribute_texts("cats_strings", {"c", "a", "b"})});
  put("encode_text", "LabelEncoder", {texts("x", {2, 3}, words)},
      {attribute_texts("keys_strings", {"b", "c", "a"}), attribute_list("values_int64s", {30, 10, 20}),
       attribute("default_int64", -7)},
      i64, 2);
  put("encode_reals", "LabelEncoder", {texts("x", {6}, words)},
      {attribute_texts("keys_strings", {"b", "c"}), attribute_floats("values_floats", {0.5f, 2.5f}),
       attribute_float("default_float", 9)},
      f32, 2);
  put("decode_text", "LabelEncoder", {whole("x", {2, 3}, 1, 0, 3, i64)},
      {attribute_list("keys_int64s", {2, 0, 1}), attribute_texts("values_strings", {"two", "zero", "one"}),
       attribute_text("default_string", "other")},
      text, 2);
  put("recode_text", "LabelEncoder", {texts("x", {6}, words)},
      {attribute_texts("keys_strings", {"b", "a"}), attribute_texts("values_strings", {"B", "A"}),
       attribute_text("default_string", "?")},
      text, 2);
  filled mixed = given("x", {4}, {1.5, std::nan(""), -2, 7});
  put("encode_nan", "LabelEncoder", {mixed},
      {attribute_floats("keys_floats", {std::nanf(""), 1.5f}), attribute_list("values_int64s", {4, 5}),
       attribute("default_int64", 6)},
      i64, 4);
  put("encode_tensors", "LabelEncoder", {whole("x", {4}, 1, 0, 3, i64)},
      {attribute_tensor_of("keys_tensor", given("", {2}, {1, 3}, i64)),
       attribute_tensor_of("values_tensor", given("", {2}, {0.5, -1})),
       attribute_tensor_of("default_tensor", given("", {1}, {42}))},
      f32, 4);
  put("category", "CategoryMapper", {texts("x", {6}, words)},
      {attribute_texts("cats_strings", {"a", "b"}), attribute_list("cats_int64s", {11, 12}),
       attribute("default_int64", 13)},
      i64);
  put("category_back", "CategoryMapper", {whole("x", {4}, 1, 10, 13, i64)},
      {attribute_texts("cats_strings", {"a", "b"}), attribute_list("cats_int64s", {11, 12}),
       attribute_text("default_string", "none")},
      text);
}

inline void put_linear(ml_cases_list& all) {
  const filled x = reals("x", {7, 3}, 1);
  const auto put = [&](const std::string& name, const char* op, attribute_list_of a, std::vector<int> results) {
    all.push_back({name, op, columns_domain, {x}, std::move(a), std::move(results)});
  };
  const auto w = [](std::int64_t rows) { return attribute_numbers("coefficients", reals("", {rows, 3}, 2, 2)); };
  put("linear", "LinearRegressor", {w(2), attribute("targets", 2), attribute_floats("intercepts", {0.5f, -1})}, {f32});
  put("linear_softmax", "LinearRegressor", {w(3), attribute("targets", 3), attribute_text("post_transform", "SOFTMAX")},
      {f32});
  for (const char* how : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"}) {
    const message post = attribute_text("post_transform", how);
    put(std::string("classes_") + how, "LinearClassifier",
        {w(3), attribute_floats("intercepts", {0.1f, 0.2f, -0.3f}), attribute_list("classlabels_ints", {5, 7, 9}),
         post},
        {i64, f32});
    put(std::string("classes2_") + how, "LinearClassifier",
        {w(2), attribute_floats("intercepts", {0.1f, 0.2f}), attribute_texts("classlabels_strings", {"no", "yes"}),
         post},
        {text, f32});
  }
  for (const char* how : {"NONE", "LOGISTIC"})
    put(std::string("classes1_") + how, "LinearClassifier",
        {w(1), attribute_floats("intercepts", {0.1f}), attribute_texts("classlabels_strings", {"no", "yes"}),
         attribute_text("post_transform", how)},
        {text, f32});
}

inline void put_trees(ml_cases_list& all) {
  const filled x = reals("x", {9, 4}, 1);
  filled holes = x;
  for (std::size_t k = 0; k < holes.count(); k += 5) holes.elements[k] = std::nan("");
  const std::vector<std::string> every{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  const auto put = [&](const std::string& name, const char* op, const filled& in, attribute_list_of a,
                       const attribute_list_of& more, std::vector<int> results) {
    a.insert(a.end(), more.begin(), more.end());
    all.push_back({name, op, columns_domain, {in}, std::move(a), std::move(results), 2e-5, 3});
  };
  for (const char* how : {"SUM", "AVERAGE", "MIN", "MAX"}) {
    put(std::string("trees_") + how, "TreeEnsembleRegressor", x, grow(1, 5, 4, 4, 1, false).attributes("target"),
        {attribute("n_targets", 1), attribute_text("aggregate_function", how), attribute_floats("base_values", {0.5f})},
        {f32});
    put(std::string("trees2_") + how, "TreeEnsembleRegressor", holes,
        grow(2, 4, 5, 4, 2, false, every).attributes("target"),
        {attribute("n_targets", 2), attribute_text("aggregate_function", how),
         attribute_floats("base_values", {0.5f, -1})},
        {f32});
  }
  put("trees_turns", "TreeEnsembleRegressor", x, grow(3, 7, 3, 4, 3, true).attributes("target"),
      {attribute("n_targets", 3)}, {f32});
  put("trees_leaf", "TreeEnsembleRegressor", x, grow(3, 2, 0, 4, 1, false).attributes("target"),
      {attribute("n_targets", 1)}, {f32});
  put("trees_logistic", "TreeEnsembleRegressor", x, grow(4, 3, 3, 4, 2, false).attributes("target"),
      {attribute("n_targets", 2), attribute_text("post_transform", "LOGISTIC")}, {f32});
  const auto labels = [](std::int64_t n) {
    return n == 2 ? attribute_texts("classlabels_strings", {"no", "yes"})
                  : attribute_list("classlabels_int64s", {4, 6, 8});
  };
  for (const char* how : {"NONE", "SOFTMAX", "LOGISTIC"}) {
    const message post = attribute_text("post_transform", how);
    const std::string end = std::string("_") + how;
    put("forest3" + end, "TreeEnsembleClassifier", x,
        grow(5, 4, 4, 4, 3, false, {"BRANCH_LEQ"}, true).attributes("class"), {labels(3), post}, {i64, f32});
    put("boosted3" + end, "TreeEnsembleClassifier", x, grow(6, 6, 3, 4, 3, true).attributes("class"),
        {labels(3), post, attribute_floats("base_values", {0.1f, -0.2f, 0.3f})}, {i64, f32});
    put("forest2" + end, "TreeEnsembleClassifier", x,
        grow(7, 4, 4, 4, 2, false, {"BRANCH_LEQ"}, true).attributes("class"), {labels(2), post}, {text, f32});
    put("boosted2" + end, "TreeEnsembleClassifier", x, grow(8, 4, 3, 4, 1, false).attributes("class"),
        {labels(2), post}, {text, f32});
    put("boosted2_base" + end, "TreeEnsembleClassifier", x, grow(8, 4, 3, 4, 1, false).attributes("class"),
        {labels(2), post, attribute_floats("base_values", {0.3f})}, {text, f32});
    put("positive2" + end, "TreeEnsembleClassifier", x,
        grow(9, 4, 3, 4, 1, false, {"BRANCH_LT"}, true).attributes("class"), {labels(2), post}, {text, f32});
  }
}

/// Two trees of three leaves each, which share weights between the classes as `kind` says: "0" and "1": one class; "both": in each
/// leaf; "turns": a class for each tree. With `hole`, the last leaves have no share.
inline attribute_list_of three_leaves(const std::string& kind, const std::vector<float>& w, bool hole) {
  grown g;
  for (const std::int64_t t : {0, 1}) {
    g.trees.insert(g.trees.end(), 5, t);
    for (const std::int64_t k : {0, 1, 2, 3, 4}) g.ids.push_back(k), g.columns.push_back(t), g.missing.push_back(0);
    g.splits.insert(g.splits.end(), {0, 0, 1, 0, 0});
    g.modes.insert(g.modes.end(), {"BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"});
    g.yes.insert(g.yes.end(), {1, 0, 3, 0, 0});
    g.no.insert(g.no.end(), {2, 0, 4, 0, 0});
    const std::int64_t leaves[] = {1, 3, 4};
    for (std::size_t k = 0; k + (hole ? 1 : 0) < 3; ++k)
      for (const std::int64_t target : {0, 1}) {
        if (kind == "turns" ? target != t : kind != "both" && target != kind[0] - '0') continue;
        const float share = target == 1 && kind == "both" ? 0.4f - w[k] : w[k];
        g.leaf_trees.push_back(t);
        g.leaf_ids.push_back(leaves[k]);
        g.leaf_targets.push_back(target);
        g.weights.push_back(t == 0 ? share : share / 2);
      }
  }
  return g.attributes("class");
}
/// Classifiers of two classes in all forms. Where ONNX Runtime leaves scores unwritten there is no case.
inline const ml_cases_list& two_class_cases() {
  static const ml_cases_list list = [] {
    ml_cases_list all;
    const filled x = given("x", {9, 2}, {-1, -1, -1, 0.5, -1, 2, 0.5, -1, 0.5, 0.5, 0.5, 2, 2, -1, 2, 0.5, 2, 2});
    const std::pair<const char*, std::vector<float>> weights[] = {{"mixed", {0.75f, -0.6f, 0.1f}},
                                                                  {"positive", {0.45f, 0.1f, 0.02f}}};
    for (const std::string how : {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"})
      for (const std::string kind : {"0", "1", "both", "turns"})
        for (const auto& [sign, w] : weights)
          for (const bool hole : {false, true})
            for (const std::size_t base : {0, 1, 2}) {
              const bool single = kind == "0" || kind == "1";
              if (hole && base == 1 && !single) continue;
              // Of PROBIT one whose scores are between 0 and 1.
              const bool probit = how == "PROBIT";
              if (probit && (kind != "both" || hole || base != 0 || std::string(sign) == "mixed")) continue;
              attribute_list_of a = three_leaves(kind, probit ? std::vector<float>{0.3f, 0.1f, 0.02f} : w, hole);
              const bool words = (base + (hole ? 1 : 0)) % 2 == 0;
              a.push_back(words ? attribute_texts("classlabels_strings", {"no", "yes"})
                                : attribute_list("classlabels_int64s", {0, 1}));
              a.push_back(attribute_text("post_transform", how));
              if (base != 0)
                a.push_back(attribute_floats("base_values",
                                             base == 1 ? std::vector<float>{0.3f} : std::vector<float>{0.3f, -0.2f}));
              all.push_back({"two_" + kind + "_" + sign + (hole ? "_hole_" : "_") + std::to_string(base) + "_" + how,
                             "TreeEnsembleClassifier",
                             columns_domain,
                             {x},
                             std::move(a),
                             {words ? text : i64, f32},
                             probit ? 4e-3 : 2e-5,
                             3});
            }
    return all;
  }();
  return list;
}

/// TreeEnsemble of op-set 5: three nodes, one of which tests for membership, and four leaves.
inline void put_places(ml_cases_list& all) {
  for (const std::int64_t how : {0, 1, 2, 3})
    all.push_back(
        {"places_" + std::to_string(how),
         "TreeEnsemble",
         columns_domain,
         {given("x", {5, 2}, {1.2, 3, -0.12, 1.66, 4.14, 1.77, 0.5, 4, 12, 12})},
         {attribute("n_targets", 2), attribute("aggregate_function", how), attribute("post_transform", 0),
          attribute_list("tree_roots", {0, 2}), attribute_tensor_of("nodes_modes", given("", {3}, {0, 6, 3}, u8)),
          attribute_list("nodes_featureids", {0, 1, 1}),
          attribute_tensor_of("nodes_splits", given("", {3}, {3.14, 0, 2})),
          attribute_list("nodes_truenodeids", {0, 1, 3}), attribute_list("nodes_trueleafs", {1, 1, 1}),
          attribute_list("nodes_falsenodeids", {1, 2, 0}), attribute_list("nodes_falseleafs", {0, 1, 1}),
          attribute_tensor_of("membership_values", given("", {4}, {1.77, 12, 7, std::nan("")})),
          attribute_list("leaf_targetids", {0, 1, 0, 1}),
          attribute_tensor_of("leaf_weights", given("", {4}, {5.23, 12.12, -12.23, 7.21}))},
         {f32},
         2e-5,
         5});
}

inline void put_machines(ml_cases_list& all) {
  const filled x = reals("x", {6, 3}, 1);
  const auto put = [&](const std::string& name, const char* op, attribute_list_of a, std::vector<int> results) {
    all.push_back({name, op, columns_domain, {x}, std::move(a), std::move(results), 1e-4});
  };
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    const message kernel = attribute_text("kernel_type", kind), by = attribute_floats("kernel_params", {0.4f, 0.3f, 3});
    const std::string end = std::string("_") + kind;
    const attribute_list_of regressor{kernel,
                                      by,
                                      attribute("n_supports", 4),
                                      attribute_numbers("support_vectors", reals("", {4, 3}, 2)),
                                      attribute_numbers("coefficients", reals("", {4}, 3, 2)),
                                      attribute_floats("rho", {0.2f})};
    put("machine" + end, "SVMRegressor", regressor, {f32});
    attribute_list_of one = regressor;
    one.push_back(attribute("one_class", 1));
    put("machine_one" + end, "SVMRegressor", one, {f32});
    const attribute_list_of three{kernel,
                                  by,
                                  attribute_list("vectors_per_class", {2, 1, 3}),
                                  attribute_numbers("support_vectors", reals("", {6, 3}, 2)),
                                  attribute_numbers("coefficients", reals("", {2, 6}, 3, 2)),
                                  attribute_floats("rho", {0.2f, -0.1f, 0.3f}),
                                  attribute_list("classlabels_ints", {3, 5, 7})};
    put("votes" + end, "SVMClassifier", three, {i64, f32});
    attribute_list_of likely = three;
    likely.push_back(attribute_floats("prob_a", {-1.5f, -2, -0.7f}));
    likely.push_back(attribute_floats("prob_b", {0.1f, -0.2f, 0.3f}));
    put("likely" + end, "SVMClassifier", likely, {i64, f32});
    all.back().tolerance = 3e-3;
    const attribute_list_of two{kernel,
                                by,
                                attribute_list("vectors_per_class", {2, 3}),
                                attribute_numbers("support_vectors", reals("", {5, 3}, 2)),
                                attribute_numbers("coefficients", reals("", {5}, 3, 2)),
                                attribute_floats("rho", {0.2f}),
                                attribute_texts("classlabels_strings", {"no", "yes"})};
    put("votes2" + end, "SVMClassifier", two, {text, f32});
    attribute_list_of likely2 = two;
    likely2.push_back(attribute_floats("prob_a", {-1.5f}));
    likely2.push_back(attribute_floats("prob_b", {0.1f}));
    put("likely2" + end, "SVMClassifier", likely2, {text, f32});
    all.back().tolerance = 3e-3;
  }
  // Without vectors a machine is linear, whatever its kernel is called, and has one rho.
  put("machine_plain_RBF", "SVMRegressor",
      {attribute_text("kernel_type", "RBF"), attribute("n_supports", 0),
       attribute_floats("kernel_params", {0.4f, 0, 3}), attribute_floats("coefficients", {1, -2, 0.5f}),
       attribute_floats("rho", {0.2f})},
      {f32});
  for (const char* kind : {"LINEAR", "RBF"})
    put(std::string("classes_plain_") + kind, "SVMClassifier",
        {attribute_text("kernel_type", kind), attribute_floats("kernel_params", {0.4f, 0.3f, 3}),
         attribute_numbers("coefficients", reals("", {3, 3}, 3, 2)), attribute_floats("rho", {0.2f, -0.7f, 0.9f}),
         attribute_list("classlabels_ints", {3, 5, 7})},
        {i64, f32});
  put("machine_plain", "SVMRegressor",
      {attribute_text("kernel_type", "LINEAR"), attribute("n_supports", 0),
       attribute_floats("kernel_params", {0, 0, 3}), attribute_floats("coefficients", {1, -2, 0.5f}),
       attribute_floats("rho", {0.2f})},
      {f32});
}

inline const ml_cases_list& ml_cases() {
  static const ml_cases_list all = [] {
    ml_cases_list list;
    put_columns(list);
    put_linear(list);
    put_trees(list);
    put_places(list);
    put_machines(list);
    return list;
  }();
  return all;
}

}  // namespace onnx_test
