// onnx/tree_rows.hpp: ai.onnx.ml's ensembles of trees: all nodes in tables, and a gather for each level of depth.
#pragma once

#include <set>

#include "ml_rows.hpp"

namespace sinter::onnx::rows {

/// Trees as tables: a row for each node of all trees. A leaf is its own child.
struct forest {
  enum how : std::int64_t { leq, lt, gte, gt, eq, neq, member, leaf };
  struct share {
    std::int64_t target;
    double weight;
  };
  std::vector<std::int64_t> mode, feature, yes, no, missing, roots;
  std::vector<double> split;
  std::vector<std::vector<double>> members;  ///< of a node that tests for membership
  std::vector<std::vector<share>> shares;    ///< what a leaf adds to targets

  std::size_t count() const { return mode.size(); }
  std::int64_t add(std::int64_t how, std::int64_t column, double at, std::int64_t missing_is_yes) {
    const auto k = static_cast<std::int64_t>(count());
    mode.push_back(how);
    feature.push_back(column);
    split.push_back(at);
    missing.push_back(missing_is_yes);
    yes.push_back(k);
    no.push_back(k);
    members.emplace_back();
    shares.emplace_back();
    return k;
  }
  /// The steps from the roots to the deepest leaf. Throws user_error for cycles, and for depths beyond `most`.
  std::int64_t depth(std::int64_t most) const {
    std::vector<std::int64_t> level = roots;
    std::int64_t steps = 0;
    for (std::vector<std::int64_t> next; !level.empty(); level = std::move(next), next.clear(), ++steps) {
      if (steps > most) wire::fail_file("its trees have cycles, or are more than " + std::to_string(most) + " deep");
      for (const auto k : level)
        if (const auto at = static_cast<std::size_t>(k); mode[at] != leaf) {
          next.push_back(yes[at]);
          next.push_back(no[at]);
        }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
    }
    return steps > 0 ? steps - 1 : 0;
  }
};
inline constexpr std::int64_t deepest_tree = 256;

inline std::int64_t mode_of_text(const std::string& text) {
  constexpr std::string_view names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  const auto it = std::find(std::begin(names), std::end(names), text);
  if (it == std::end(names) || *it == "BRANCH_MEMBER") wire::fail_file("a node of its trees is '" + text + "'");
  return it - std::begin(names);
}
/// Numbers in an attribute NAME, or in a tensor NAME_as_tensor.
inline std::vector<double> numbers_named(call& c, const std::string& name) {
  if (const auto* a = c.attribute(name + "_as_tensor"); a && a->t) return list_of_tensor(c, *a->t).floats;
  const auto* a = c.attribute(name);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : std::vector<double>();
}
inline std::int64_t checked_place(std::int64_t k, std::size_t count) {
  if (k < 0 || static_cast<std::size_t>(k) >= count)
    wire::fail_file("its trees name the place " + std::to_string(k) + " of " + std::to_string(count));
  return k;
}
/// The trees of a classifier or regressor. `of` is "class" or "target".
inline forest forest_by_names(call& c, const std::string& of) {
  const auto trees = c.list("nodes_treeids"), ids = c.list("nodes_nodeids"), columns = c.list("nodes_featureids"),
             yes = c.list("nodes_truenodeids"), no = c.list("nodes_falsenodeids"),
             missing = c.list("nodes_missing_value_tracks_true");
  const wire::list_of<double> splits = numbers_named(c, "nodes_values");
  const auto* modes = c.attribute("nodes_modes");
  const std::size_t n = ids.size();
  if (!modes || n == 0 || modes->strings.size() != n) c.refuse("its nodes_modes are not one for each node");
  forest f;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;
  for (std::size_t k = 0; k < n; ++k) {
    const auto at = f.add(mode_of_text(modes->strings[k]), columns[k], splits[k], missing.empty() ? 0 : missing[k]);
    if (!place.emplace(std::pair(trees[k], ids[k]), at).second)
      c.refuse("two nodes of a tree have the number " + std::to_string(ids[k]));
  }
  const auto find = [&](std::int64_t tree, std::int64_t id) {
    const auto it = place.find({tree, id});
    if (it == place.end()) c.refuse("its trees have no node " + std::to_string(id));
    return it->second;
  };
  std::vector<bool> is_child(n, false);
  for (std::size_t k = 0; k < n; ++k) {
    if (f.mode[k] == forest::leaf) continue;
    f.yes[k] = find(trees[k], yes[k]);
    f.no[k] = find(trees[k], no[k]);
    is_child[static_cast<std::size_t>(f.yes[k])] = is_child[static_cast<std::size_t>(f.no[k])] = true;
  }
  for (std::size_t k = 0; k < n; ++k)
    if (!is_child[k]) f.roots.push_back(static_cast<std::int64_t>(k));
  const auto to_tree = c.list(of + "_treeids"), to_node = c.list(of + "_nodeids"), target = c.list(of + "_ids");
  const wire::list_of<double> weights = numbers_named(c, of + "_weights");
  for (std::size_t k = 0; k < target.size(); ++k)
    f.shares[static_cast<std::size_t>(find(to_tree[k], to_node[k]))].push_back({target[k], weights[k]});
  return f;
}
/// The trees of TreeEnsemble. Leaves are numbered apart from nodes.
inline forest forest_by_places(call& c) {
  const auto tensor_named = [&](const char* name) {
    const auto* a = c.attribute(name);
    if (!a || !a->t) c.refuse(std::string("its ") + name + " are not given");
    return list_of_tensor(c, *a->t);
  };
  const auto columns = c.list("nodes_featureids"), yes = c.list("nodes_truenodeids"), no = c.list("nodes_falsenodeids"),
             yes_leaf = c.list("nodes_trueleafs"), no_leaf = c.list("nodes_falseleafs"), roots = c.list("tree_roots"),
             missing = c.list("nodes_missing_value_tracks_true"), targets = c.list("leaf_targetids");
  const wire::list_of<std::int64_t> modes = tensor_named("nodes_modes").ints;
  const wire::list_of<double> splits = tensor_named("nodes_splits").floats,
                              weights = tensor_named("leaf_weights").floats;
  const std::vector<double> sets =
      c.has_attribute("membership_values") ? tensor_named("membership_values").floats : std::vector<double>();
  forest f;
  auto next = sets.begin();
  for (std::size_t k = 0; k < columns.size(); ++k) {
    f.add(checked_place(modes[k], forest::leaf), columns[k], splits[k], missing.empty() ? 0 : missing[k]);
    if (modes[k] != forest::member) continue;
    for (; next != sets.end() && !std::isnan(*next); ++next) f.members.back().push_back(*next);
    if (next != sets.end()) ++next;
  }
  const std::size_t nodes = f.count();
  for (std::size_t k = 0; k < targets.size(); ++k)
    f.shares[static_cast<std::size_t>(f.add(forest::leaf, 0, 0, 0))].push_back({targets[k], weights[k]});
  const auto child = [&](std::int64_t at, std::int64_t is_leaf) {
    return is_leaf ? checked_place(at, targets.size()) + static_cast<std::int64_t>(nodes) : checked_place(at, nodes);
  };
  for (std::size_t k = 0; k < nodes; ++k) {
    f.yes[k] = child(yes[k], yes_leaf[k]);
    f.no[k] = child(no[k], no_leaf[k]);
  }
  for (const auto r : roots) f.roots.push_back(checked_place(r, nodes));
  return f;
}

/// Refuses tables that a small file would make large: rows for all nodes, as wide as the widest. `held` numbers are in the file.
inline void check_table(call& c, std::size_t rows, std::size_t width, std::size_t held, std::int64_t targets) {
  const std::size_t most = (std::size_t{1} << 20) + 64 * (rows + held);
  if (width > most / std::max<std::size_t>(rows, 1) || targets < 1 || targets > 1 << 20)
    c.refuse("its trees give " + std::to_string(targets) + " targets, up to " + std::to_string(width) + " in a node");
}
/// Walks the trees of a forest for rows x (rows, columns), all at once.
class forest_walk {
 public:
  forest_walk(call& c, const forest& f, const node& x) : c_(c), f_(f), x_(x), type_(x.type()) {
    const auto columns = size_of_axis(x, 1);
    for (std::size_t k = 0; k < f.count(); ++k)
      if (f.mode[k] != forest::leaf && (f.feature[k] < 0 || columns <= f.feature[k]))
        c.refuse("its trees test column " + std::to_string(f.feature[k]) + " of " + columns.text());
    if (f.roots.empty()) c.refuse("its trees have no root");
    mode_ = table(f.mode);
    feature_ = table(f.feature);
    yes_ = table(f.yes);
    no_ = table(f.no);
    missing_ = table(f.missing);
    split_ = to_type(list_of_floats(f.split, type_).as_node(c), type_);
    members();
  }
  /// The leaf that each row reaches in each tree, (rows, trees).
  node leaves() const {
    const auto trees = static_cast<std::int64_t>(f_.roots.size());
    const extents to{size_of_axis(x_, 0), dim(trees)};
    node at = broadcast_to(reshape_to(table(f_.roots), {dim(1), dim(trees)}), to);
    const std::int64_t depth = f_.depth(deepest_tree);
    for (std::int64_t k = 0; k < depth; ++k) at = choose(test(at), taken(yes_, at, 0), taken(no_, at, 0));
    return at;
  }

 private:
  node table(const std::vector<std::int64_t>& v) const { return list_of_ints(v).as_node(c_); }
  void members() {
    std::size_t most = 0, all_sizes = 0;
    for (const auto& m : f_.members) most = std::max(most, m.size()), all_sizes += m.size();
    if (most == 0) return;
    check_table(c_, f_.count(), most, all_sizes, 1);
    std::vector<double> all;
    for (const auto& m : f_.members)
      for (std::size_t k = 0; k < most; ++k) all.push_back(k < m.size() ? m[k] : std::nan(""));
    const extents e{dim(static_cast<std::int64_t>(f_.count())), dim(static_cast<std::int64_t>(most))};
    members_ = reshape_to(list_of_floats(all, type_).as_node(c_), e);
  }
  bool uses(std::int64_t how) const { return std::find(f_.mode.begin(), f_.mode.end(), how) != f_.mode.end(); }
  /// Whether rows go on to the child for true at these nodes.
  node test(const node& at) const {
    const node x = ir::gather(x_, taken(feature_, at, 0), 1), split = taken(split_, at, 0), how = taken(mode_, at, 0);
    node is;
    const auto put = [&](std::int64_t k, const node& v) {
      if (uses(k)) is = is ? choose(pointwise(op::eq, how, integer(k)), v, is) : v;
    };
    put(forest::leq, pointwise(op::le, x, split));
    put(forest::lt, pointwise(op::lt, x, split));
    put(forest::gte, pointwise(op::ge, x, split));
    put(forest::gt, pointwise(op::gt, x, split));
    put(forest::eq, pointwise(op::eq, x, split));
    put(forest::neq, pointwise(op::ne, x, split));
    // Of sets that are all empty there is no table: nothing is a member.
    put(forest::member,
        members_ ? reduced(op::bit_or, pointwise(op::eq, unsqueezed(x, {2}), taken(members_, at, 0)), {2}, false)
                 : pointwise(op::lt, how, integer(0)));
    if (std::all_of(f_.missing.begin(), f_.missing.end(), [](std::int64_t m) { return m == 0; })) return is;
    const node tracks = pointwise(op::ne, taken(missing_, at, 0), integer(0));
    return pointwise(op::bit_or, is, pointwise(op::bit_and, tracks, pointwise(op::isnan, x)));
  }

  call& c_;
  const forest& f_;
  node x_, mode_, feature_, yes_, no_, missing_, split_, members_;
  dtype type_;
};

/// The sums, means or extremes over the trees of what leaves add to targets, (rows, targets). A target without a share is 0.
inline node ensemble_scores(call& c, const forest& f, const node& x, std::int64_t targets, const std::string& how) {
  std::size_t most = 1;
  std::size_t shares = 0;
  bool dense = true;
  for (std::size_t k = 0; k < f.count(); ++k) {
    most = std::max(most, f.shares[k].size());
    shares += f.shares[k].size();
    for (const auto& s : f.shares[k])
      checked_place(s.target, static_cast<std::size_t>(std::max<std::int64_t>(targets, 0)));
  }
  check_table(c, f.count(), most, shares, targets);
  std::vector<std::int64_t> ids;
  std::vector<double> weights;
  for (std::size_t k = 0; k < f.count(); ++k)
    for (std::size_t s = 0; s < most; ++s) {
      const bool some = s < f.shares[k].size();
      ids.push_back(some ? f.shares[k][s].target : -1);
      weights.push_back(some ? f.shares[k][s].weight : 0);
      if (f.mode[k] == forest::leaf) dense = dense && ids.back() == static_cast<std::int64_t>(s);
    }
  dense = dense && static_cast<std::int64_t>(most) == targets;
  const extents e{dim(static_cast<std::int64_t>(f.count())), dim(static_cast<std::int64_t>(most))};
  const node at = forest_walk(c, f, x).leaves();
  const node share =
      taken(reshape_to(list_of_floats(weights, x.type()).as_node(c), e), at, 0);  // (rows, trees, shares)
  const bool extreme = how == "MIN" || how == "MAX";
  const op by = how == "MIN" ? op::minimum : how == "MAX" ? op::maximum : op::add;
  node y;
  if (dense) {
    y = reduced(by, share, {1}, false);
  } else {
    const node id = unsqueezed(taken(reshape_to(list_of_ints(ids).as_node(c), e), at, 0), {1});
    const node own = pointwise(op::eq, id, iota(dtype::i64, {dim(1), dim(targets), dim(1), dim(1)}, 1));
    const double none = how == "MIN"   ? std::numeric_limits<double>::infinity()
                        : how == "MAX" ? -std::numeric_limits<double>::infinity()
                                       : 0;
    y = reduced(by, choose(own, unsqueezed(share, {1}), constant(x.type(), none)), {2, 3}, false);
    if (extreme) y = choose(pointwise(op::isinf, y), constant(x.type(), 0), y);
  }
  return how == "AVERAGE" ? y / static_cast<double>(std::max<std::size_t>(f.roots.size(), 1)) : y;
}
inline node with_base(call& c, const node& y, std::int64_t targets) {
  const std::vector<double> base = numbers_named(c, "base_values");
  if (base.empty()) return y;
  if (base.size() != 1 && static_cast<std::int64_t>(base.size()) != targets)
    c.refuse("its base_values are not one for each of " + std::to_string(targets) + " targets");
  return plus(y, number_or_list(list_of_floats(base, y.type()).as_node(c)));
}

inline void tree_regressor(call& c) {
  const std::int64_t targets = c.i("n_targets", 1);
  const node x = rows_of_columns(c);
  const node y = with_base(
      c, ensemble_scores(c, forest_by_names(c, "target"), x, targets, c.s("aggregate_function", "SUM")), targets);
  c.give(to_type(transformed_scores(c, y, c.s("post_transform", "NONE")), dtype::f32));
}
/// Whether rows reach a leaf with a share of each class: known where all leaves have one, or none has.
struct reached_classes {
  std::vector<std::int64_t> always;  ///< of each class: 1 or 0; -1 where it depends on the row
  node some;                         ///< (rows, classes), if one depends on it

  bool known() const { return std::find(always.begin(), always.end(), -1) == always.end(); }
  /// Class k: `yes` where it is reached, else `no`; both (rows, 1) or (rows, 2).
  node either(std::int64_t k, const node& yes, const node& no) const {
    const std::int64_t is = always[static_cast<std::size_t>(k)];
    return is == 1 ? yes : is == 0 ? no : choose(sliced(some, 1, k, 1), yes, no);
  }
};
inline reached_classes classes_reached(call& c, const forest& f, const node& x, std::int64_t n) {
  std::vector<std::size_t> with(static_cast<std::size_t>(n), 0);
  std::size_t leaves = 0;
  forest ones = f;
  for (std::size_t k = 0; k < f.count(); ++k) {
    if (f.mode[k] != forest::leaf) continue;
    ++leaves;
    std::set<std::int64_t> classes;
    for (auto& s : ones.shares[k]) classes.insert(s.target), s.weight = 1;
    for (const auto target : classes) ++with[static_cast<std::size_t>(checked_place(target, with.size()))];
  }
  reached_classes out;
  for (const auto w : with) out.always.push_back(w == leaves ? 1 : w == 0 ? 0 : -1);
  if (!out.known()) out.some = ir::gt(ensemble_scores(c, ones, x, n, "SUM"), 0.0);
  return out;
}

/// Two classes as ONNX Runtime has them (onnxruntime/core/providers/cpu/ml/tree_ensemble_aggregator.h). The second is chosen by
/// its own score, or by the first's where only that one is reached. A score of one class stands for both.
inline void two_classes(call& c, const listed& labels, const node& sums, const reached_classes& reached, bool one,
                        bool positive) {
  const std::string how = c.s("post_transform", "NONE");
  const std::vector<double> base = numbers_named(c, "base_values");
  node first = sliced(sums, 1, 0, 1), second = sliced(sums, 1, 1, 1);
  const node zero = constant(sums.type(), 0, extents_of(first));
  if (base.size() > 2) c.refuse("its base_values are more than two");
  if (base.size() == 2) {
    const node both = first + base[1];
    second = reached.either(1, both, second + base[1]);
    first = reached.either(1, -both, first + base[0]);
  } else if (base.size() == 1) {
    first = first + base[0];
  }
  const node own = reached.either(0, first, zero), other = reached.either(1, second, zero);
  const bool half = one && positive;
  const node by = reached.either(1, second, own);
  give_labels(c, labels, to_type(reshape_to(ir::gt(by, half ? 0.5 : 0.0), {size_of_axis(by, 0)}), dtype::i64));
  const node two = transformed_scores(c, joined({own, other}, 1), how);
  // Without a base, or for one class, the score of the first alone is that of the second, too.
  node alone = two;
  if (how == "PROBIT") alone = joined({transformed_scores(c, own, how), zero}, 1);
  else if (one || base.empty()) alone = both_scores(c, own, how, half);
  c.give(1, to_type(base.size() == 2 ? two : reached.either(1, two, alone), dtype::f32));
}
inline void tree_classifier(call& c) {
  const listed labels = labels_of(c);
  const auto n = static_cast<std::int64_t>(labels.count());
  const forest f = forest_by_names(c, "class");
  const node x = rows_of_columns(c);
  bool one = true, positive = true;
  std::optional<std::int64_t> target;
  for (const auto& shares : f.shares)
    for (const auto& s : shares) {
      one = one && target.value_or(s.target) == s.target;
      target = s.target;
      positive = positive && s.weight >= 0;
    }
  const node sums = ensemble_scores(c, f, x, n, "SUM");
  if (n == 2) return two_classes(c, labels, sums, classes_reached(c, f, x, n), one, positive);
  const node all = with_base(c, sums, n);
  node compared = all;
  // Without a base, a class that no leaf has mentioned is not compared.
  if (n > 1 && numbers_named(c, "base_values").empty()) {
    const reached_classes reached = classes_reached(c, f, x, n);
    const node least = constant(all.type(), -std::numeric_limits<double>::infinity(), extents_of(all));
    std::vector<node> columns;
    for (std::int64_t k = 0; k < n; ++k)
      columns.push_back(reached.either(k, sliced(all, 1, k, 1), sliced(least, 1, k, 1)));
    compared = joined(columns, 1);
  }
  give_labels(c, labels, place_of_largest(compared));
  c.give(1, to_type(transformed_scores(c, all, c.s("post_transform", "NONE")), dtype::f32));
}
inline void tree_ensemble(call& c) {
  constexpr const char* by[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* after[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t targets = c.i("n_targets", 1);
  const node x = rows_of_columns(c);
  const auto how = static_cast<std::size_t>(checked_place(c.i("aggregate_function", 1), std::size(by)));
  const auto then = static_cast<std::size_t>(checked_place(c.i("post_transform", 0), std::size(after)));
  const node y = ensemble_scores(c, forest_by_places(c), x, targets, by[how]);
  c.give(to_type(transformed_scores(c, y, after[then]), c.type(0)));
}

inline const row trees[] = {
    {"TreeEnsemble", "ai.onnx.ml", 1, tree_ensemble, "a gather for each level, sums"},
    {"TreeEnsembleClassifier", "ai.onnx.ml", 1, tree_classifier, "a gather for each level, sums, argmax"},
    {"TreeEnsembleRegressor", "ai.onnx.ml", 1, tree_regressor, "a gather for each level, sums"},
};

}  // namespace sinter::onnx::rows
