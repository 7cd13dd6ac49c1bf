// onnx/svm_rows.hpp: ai.onnx.ml's support vector machines: kernels with all support vectors at once, votes of pairs of classes.
#pragma once

#include <algorithm>

#include "tree_rows.hpp"

namespace sinter::onnx::rows {

/// The kernel of each row of x (rows, columns) with each support vector, (rows, vectors).
inline node kernel_values(call& c, const node& x, const node& vectors) {
  const auto* a = c.attribute("kernel_params");
  const std::vector<float> by = a ? a->floats : std::vector<float>();
  const auto parameter = [&](std::size_t k) { return k < by.size() ? static_cast<double>(by[k]) : 0.0; };
  const std::string kind = c.s("kernel_type", "LINEAR");
  if (kind == "RBF") {
    const node apart = minus(unsqueezed(x, {1}), unsqueezed(vectors, {0}));
    return ir::exp(reduced(op::add, apart * apart, {2}, false) * -parameter(0));
  }
  const node dots = product(x, transposed(vectors));
  if (kind == "LINEAR") return dots;
  const node inner = dots * parameter(0) + parameter(1);
  if (kind == "POLY") return ir::pow(inner, parameter(2));
  if (kind != "SIGMOID") c.refuse("its kernel_type is '" + kind + "'");
  return tanh_of(inner);
}
inline node support_vectors(call& c, std::int64_t count, const node& x) {
  const dim columns = size_of_axis(x, 1);
  const node v = row_of_floats(c, "support_vectors", x.type());
  if (count < 1 || product_of(extents_of(v)) != columns * count)
    c.refuse("its support_vectors are not " + std::to_string(count) + " rows of " + columns.text());
  return reshape_to(v, {dim(count), columns});
}
/// A machine without support vectors is linear, whatever its kernel_type says: x by rows of coefficients, plus the first rho.
inline node linear_machine(call& c, const node& x, std::int64_t outputs) {
  const node w = row_of_floats(c, "coefficients", x.type());
  const dim columns = size_of_axis(x, 1);
  const auto* rho = c.attribute("rho");
  if (outputs < 1 || product_of(extents_of(w)) != columns * outputs)
    c.refuse("its coefficients are not " + std::to_string(outputs) + " rows of " + columns.text());
  if (!rho || rho->floats.empty()) c.refuse("its rho are not given");
  return product(x, transposed(reshape_to(w, {dim(outputs), columns}))) + static_cast<double>(rho->floats[0]);
}
inline void svm_regressor(call& c) {
  const node x = rows_of_columns(c);
  const std::int64_t count = c.i("n_supports", 0);
  node y;
  if (count > 0) {
    const node w = row_of_floats(c, "coefficients", x.type());
    y = product(kernel_values(c, x, support_vectors(c, count, x)), reshape_to(w, {dim(count), dim(1)}));
    y = plus(y, row_of_floats(c, "rho", x.type()));
  } else {
    y = linear_machine(c, x, 1);
  }
  if (c.i("one_class", 0) != 0)
    return c.give(choose(ir::gt(y, 0.0), constant(dtype::f32, 1), constant(dtype::f32, -1)));
  c.give(to_type(transformed_scores(c, y, c.s("post_transform", "NONE")), dtype::f32));
}

/// The decisions of pairs of classes, in the order (0, 1), (0, 2), …: a column each.
struct pairwise {
  std::vector<std::int64_t> per_class;
  node decisions;  ///< (rows, pairs)

  std::size_t classes() const { return per_class.size(); }
  std::size_t pairs() const { return classes() * (classes() - 1) / 2; }
  node decision(std::size_t pair) const { return sliced(decisions, 1, static_cast<std::int64_t>(pair), 1); }
  /// Votes for each class, (rows, classes): of each pair, for its first class or for its second.
  node votes(call& c) const {
    std::vector<double> first(pairs() * classes(), 0), second = first;
    std::size_t next = 0;
    for (std::size_t i = 0; i < classes(); ++i)
      for (std::size_t j = i + 1; j < classes(); ++j, ++next) {
        first[next * classes() + i] = 1;
        second[next * classes() + j] = 1;
      }
    const extents table{dim(static_cast<std::int64_t>(pairs())), dim(static_cast<std::int64_t>(classes()))};
    const node won = to_type(ir::gt(decisions, 0.0), dtype::f32);
    return plus(product(won, reshape_to(list_of_floats(first).as_node(c), table)),
                product(1.0 - won, reshape_to(list_of_floats(second).as_node(c), table)));
  }
};
/// A row of weights for each pair of classes: of the vectors of its two classes, and 0 for others.
inline std::vector<double> weights_of_pairs(const std::vector<float>& w, const std::vector<std::int64_t>& per_class,
                                            std::int64_t count) {
  std::vector<double> out;
  std::int64_t first_i = 0;
  const auto classes = static_cast<std::int64_t>(per_class.size());
  for (std::int64_t i = 0; i < classes; first_i += per_class[static_cast<std::size_t>(i++)]) {
    std::int64_t first_j = first_i + per_class[static_cast<std::size_t>(i)];
    for (std::int64_t j = i + 1; j < classes; first_j += per_class[static_cast<std::size_t>(j++)]) {
      const std::size_t row = out.size();
      out.resize(row + static_cast<std::size_t>(count), 0);
      const auto put = [&](std::int64_t from, std::int64_t n, std::int64_t by) {
        for (std::int64_t k = from; k < from + n; ++k)
          out[row + static_cast<std::size_t>(k)] = static_cast<double>(w[static_cast<std::size_t>(by * count + k)]);
      };
      put(first_i, per_class[static_cast<std::size_t>(i)], j - 1);
      put(first_j, per_class[static_cast<std::size_t>(j)], i);
    }
  }
  return out;
}
inline pairwise pairs_of(call& c, const node& x) {
  pairwise p;
  p.per_class = c.list("vectors_per_class");
  std::int64_t count = 0;
  for (const auto n : p.per_class) {
    if (n < 0 || n > 1 << 24) c.refuse("its vectors_per_class are no counts");
    count += n;
  }
  const auto classes = static_cast<std::int64_t>(p.classes());
  const auto *w = c.attribute("coefficients"), *rho = c.attribute("rho");
  const std::string which = "its coefficients or rho are not those of " + std::to_string(classes) + " classes";
  if (classes < 2 || classes > 1 << 12 || !w || !rho) c.refuse(which);
  const std::int64_t pairs = classes * (classes - 1) / 2;
  if (static_cast<std::int64_t>(w->floats.size()) != count * (classes - 1) ||
      static_cast<std::int64_t>(rho->floats.size()) != pairs)
    c.refuse(which);
  constexpr std::int64_t most = std::int64_t{1} << 26;
  // A table of votes has a number for each pair and each class.
  if (std::max(count, classes) > most / pairs)
    c.refuse("it has " + std::to_string(classes) + " classes, " + std::to_string(pairs) + " pairs of them and " +
             std::to_string(count) + " vectors; pairs times classes and pairs times vectors are at most 2^26");
  const node k = kernel_values(c, x, support_vectors(c, count, x));
  const node by =
      reshape_to(list_of_floats(weights_of_pairs(w->floats, p.per_class, count)).as_node(c), {dim(pairs), dim(count)});
  const node shifts = list_of_floats({rho->floats.begin(), rho->floats.end()}).as_node(c);
  p.decisions = plus(product(k, transposed(to_type(by, k.type()))), to_type(shifts, k.type()));
  return p;
}
/// Probabilities of classes from those of pairs: p with the least Σ (r_ji p_i - r_ij p_j)² and the sum 1. Wu, Lin, Weng (2004),
/// their second method, solved by elimination.
inline node coupled(const std::vector<std::vector<node>>& r) {
  const std::size_t n = r.size();
  std::vector<std::vector<node>> q(n, std::vector<node>(n));
  std::vector<node> y(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j) q[i][j] = 1.0 - times(r[j][i], r[i][j]);
      else
        for (std::size_t k = 0; k < n; ++k)
          if (k != i) q[i][i] = q[i][i] ? plus(q[i][i], times(r[k][i], r[k][i])) : times(r[k][i], r[k][i]) + 1.0;
    }
  for (std::size_t i = 0; i < n; ++i) y[i] = constant(q[0][0].type(), 1, extents_of(q[0][0]));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = i + 1; k < n; ++k) {
      const node by = over(q[k][i], q[i][i]);
      for (std::size_t j = i; j < n; ++j) q[k][j] = minus(q[k][j], times(by, q[i][j]));
      y[k] = minus(y[k], times(by, y[i]));
    }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) y[i] = minus(y[i], times(q[i][j], y[j]));
    y[i] = over(y[i], q[i][i]);
  }
  const node all = joined(y, 1);
  return over(all, reduced(op::add, all, {1}, true));
}
inline node probabilities(call& c, const pairwise& p) {
  const auto *a = c.attribute("prob_a"), *b = c.attribute("prob_b");
  const std::size_t n = p.classes();
  if (!b || a->floats.size() != p.pairs() || b->floats.size() != p.pairs())
    c.refuse("its prob_a and prob_b are not one for each pair of classes");
  if (n > 16) c.refuse("it has probabilities of " + std::to_string(n) + " classes; 16 are supported");
  std::vector<std::vector<node>> r(n, std::vector<node>(n));
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j, ++next) {
      const node s = to_type(p.decision(next), dtype::f64) * static_cast<double>(a->floats[next]) +
                     static_cast<double>(b->floats[next]);
      r[i][j] = clipped(sigmoid_of(-s), 1e-7, 1 - 1e-7);
      r[j][i] = 1.0 - r[i][j];
    }
  return to_type(n == 2 ? joined({r[0][1], r[1][0]}, 1) : coupled(r), dtype::f32);
}
inline void svm_classifier(call& c) {
  const listed labels = labels_of(c);
  const node x = rows_of_columns(c);
  const std::string how = c.s("post_transform", "NONE");
  const auto per_class =
      c.has_attribute("vectors_per_class") ? c.list("vectors_per_class") : std::vector<std::int64_t>();
  if (std::all_of(per_class.begin(), per_class.end(), [](std::int64_t n) { return n == 0; })) {
    const node scores = linear_machine(c, x, static_cast<std::int64_t>(labels.count()));
    give_labels(c, labels, place_of_largest(scores));
    return c.give(1, to_type(transformed_scores(c, scores, how), dtype::f32));
  }
  const pairwise p = pairs_of(c, x);
  if (p.classes() != labels.count()) c.refuse("its labels are not one for each class");
  give_labels(c, labels, place_of_largest(p.votes(c)));
  if (const auto* a = c.attribute("prob_a"); a && !a->floats.empty())
    return c.give(1, transformed_scores(c, probabilities(c, p), how));
  const node scores = p.classes() == 2 ? both_scores(c, p.decisions, how, false) : p.decisions;
  c.give(1, to_type(p.classes() == 2 ? scores : transformed_scores(c, scores, how), dtype::f32));
}

inline const row vector_machines[] = {
    {"SVMClassifier", "ai.onnx.ml", 1, svm_classifier, "products or distances, votes"},
    {"SVMRegressor", "ai.onnx.ml", 1, svm_regressor, "products or distances"},
};

}  // namespace sinter::onnx::rows
