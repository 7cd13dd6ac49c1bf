// ir/find_attention.hpp: finds attention in a graph as users write it: softmax of scores, times values.
#pragma once

#include <optional>

#include "attention_site.hpp"

namespace sinter::ir {

/// What find_attention finds at a product, or why there is none.
struct attention_finding {
  std::optional<attention_site> site;
  const char* why = "";
  node_id at = no_node;  ///< the node that is not as expected
};

namespace detail {

/// Walks up from the product of weights and values.
class attention_finder {
 public:
  attention_finder(const graph& g, node_id mix) : g_(g), mix_(mix), reads_(g.size(), 0) {}

  attention_finding run() {
    attention_site site;
    const char* why = values(site);
    if (!why) why = weights(site);
    if (!why) why = numerators(site);
    if (!why) why = products(site);
    if (!why) why = operands(site);
    if (!why) why = readers(site);
    if (why) return {std::nullopt, why, at_};
    return {std::move(site), "", mix_};
  }

 private:
  static constexpr int max_depth = 64;

  const node& of(node_id id) const { return g_[id]; }
  const char* refuse(node_id id, const char* why) {
    at_ = id;
    return why;
  }
  static bool is_mark(const node& n) { return n.code == op::identity && !n.attr.ints.empty(); }
  bool is_number(node_id id) const { return of(id).code == op::constant; }
  bool is_number(node_id id, double x) const {
    const node& n = of(id);
    return n.code == op::constant && (is_float(n.type) ? n.attr.literal.f == x : n.attr.literal.i == x);
  }
  /// A number, perhaps repeated.
  bool is_uniform(node_id id, double x) const {
    while (of(id).code == op::broadcast || of(id).code == op::reshape || of(id).code == op::cast) id = of(id).in[0];
    return is_number(id, x);
  }
  bool keeps_last(const node& n) const {
    const shape& from = of(n.in[0]).extents;
    return !from.empty() && !n.extents.empty() && from.back() == n.extents.back();
  }
  /// The node below casts between floats, copies, and reshapes that keep the last axis.
  node_id below(node_id id) const {
    for (;;) {
      const node& n = of(id);
      const bool skips = (n.code == op::identity && !is_mark(n)) ||
                         (n.code == op::cast && is_float(n.type) && is_float(of(n.in[0]).type)) ||
                         (n.code == op::reshape && keeps_last(n)) ||
                         (n.code == op::broadcast && n.extents == of(n.in[0]).extents);
      if (!skips) return id;
      id = n.in[0];
    }
  }
  /// The node below everything that repeats or renames the values of rows.
  node_id below_row(node_id id) const {
    for (;;) {
      const node& n = of(id);
      const bool skips = (n.code == op::identity && !is_mark(n)) || n.code == op::stop_gradient ||
                         n.code == op::reshape || n.code == op::broadcast ||
                         (n.code == op::cast && is_float(n.type) && is_float(of(n.in[0]).type));
      if (!skips) return id;
      id = n.in[0];
    }
  }
  /// Whether the elements of a row are equal.
  bool is_row(node_id id, int depth = 16) const {
    const node& n = of(id);
    if (n.code == op::constant) return true;
    if (n.extents.empty()) return true;
    if (n.extents.back().is(1)) return true;
    if (n.code == op::broadcast) return of(n.in[0]).extents.back().is(1) || is_row(n.in[0], depth - 1);
    if (depth == 0 || is_mark(n)) return false;
    if (n.code == op::reshape) return keeps_last(n) && is_row(n.in[0], depth - 1);
    if (!is_pointwise(n.code)) return false;
    return std::all_of(n.in.begin(), n.in.end(), [&](node_id in) { return is_row(in, depth - 1); });
  }
  /// Whether a value of elements leads to a power.
  bool leads_to_exp(node_id id, int depth = 16) const {
    const node& n = of(id);
    if (n.code == op::exp || n.code == op::exp2) return !is_row(id);
    if (depth == 0 || !(is_pointwise(n.code) || n.code == op::reshape)) return false;
    return std::any_of(n.in.begin(), n.in.end(), [&](node_id in) { return leads_to_exp(in, depth - 1); });
  }

  const char* values(attention_site& site) {
    const node& n = of(mix_);
    if (n.code != op::dot || n.attr.ints[1] != 1) return refuse(mix_, "it is no product over one axis");
    const auto nb = static_cast<std::size_t>(n.attr.ints[0]);
    if (of(n.in[1]).extents.size() != nb + 2)
      return refuse(n.in[1], "the values have other axes than keys and features");
    if (!is_float(n.type)) return refuse(mix_, "the product is not of floating numbers");
    site.v = n.in[1];
    return nullptr;
  }

  /// The sum by which a divisor divides; no_node if it is none. Notes whether it is guarded.
  node_id sum_of(node_id row) {
    node_id id = below_row(row);
    if (of(id).code == op::select) {
      const node& n = of(id);
      const node& test = of(below_row(n.in[0]));
      const bool zero = test.code == op::eq && is_uniform(test.in[1], 0);
      const bool some = (test.code == op::gt || test.code == op::ne) && is_uniform(test.in[1], 0);
      const node_id kept = zero ? n.in[2] : n.in[1], other = zero ? n.in[1] : n.in[2];
      if ((!zero && !some) || below_row(test.in[0]) != below_row(kept) || !is_uniform(other, 1)) return no_node;
      sum_guarded_ = true;
      id = below_row(kept);
    }
    const node& n = of(id);
    if (n.code != op::reduce || n.attr.combiner != op::add || n.attr.ints.size() != 1 ||
        n.attr.ints[0] != static_cast<std::int64_t>(of(n.in[0]).extents.size()) - 1)
      return no_node;
    return below(n.in[0]);
  }
  /// The sum whose reciprocal is a factor of rows.
  node_id sum_below(node_id row) {
    const node& n = of(below_row(row));
    return n.code == op::div && is_uniform(n.in[0], 1) ? sum_of(n.in[1]) : no_node;
  }

  /// Takes one factor of the weights off; no_node where none is as expected.
  node_id factor(node_id id, attention_site& site) {
    using how = attention_factor::how;
    const node& n = of(id);
    if (n.code == op::mul) {
      for (const std::size_t k : {0, 1}) {
        const node_id kept = n.in[k], by = n.in[1 - k];
        if (!leads_to_exp(kept)) continue;
        if (summed_ == no_node && is_row(by) && !is_uniform_number(by)) {
          summed_ = sum_below(by);
          return summed_ == no_node ? no_node : kept;
        }
        if (leads_to_exp(by)) return no_node;
        site.factors.insert(site.factors.begin(), {how::times, by});
        return kept;
      }
      return no_node;
    }
    if (n.code == op::div && leads_to_exp(n.in[0])) {
      if (summed_ == no_node && is_row(n.in[1]) && !is_uniform_number(n.in[1])) {
        summed_ = sum_of(n.in[1]);
        return summed_ == no_node ? no_node : n.in[0];
      }
      if (leads_to_exp(n.in[1])) return no_node;
      site.factors.insert(site.factors.begin(), {how::over, n.in[1]});
      return n.in[0];
    }
    if (n.code == op::select)
      for (const std::size_t k : {1, 2})
        if (leads_to_exp(n.in[k]) && is_uniform(n.in[3 - k], 0)) {
          site.factors.insert(site.factors.begin(), {k == 1 ? how::where : how::where_not, n.in[0]});
          return n.in[k];
        }
    return no_node;
  }
  bool is_uniform_number(node_id id) const {
    while (of(id).code == op::broadcast || of(id).code == op::reshape || of(id).code == op::cast) id = of(id).in[0];
    return is_number(id) || of(id).code == op::input;
  }

  /// From the product's operand to the numerators, which are what the divisor sums.
  const char* weights(attention_site& site) {
    node_id id = of(mix_).in[0];
    for (int steps = 0; steps < max_depth; ++steps) {
      id = below(id);
      if (id == summed_) {
        exp_ = id;
        return nullptr;
      }
      if (of(id).code == op::exp && summed_ == no_node) return log_softmax(id);
      if (of(id).code == op::exp) return refuse(id, "the divisor is not the sum of the numerators");
      const node_id next = factor(id, site);
      if (next == no_node) return refuse(id, "the weights are no softmax");
      id = next;
    }
    return refuse(id, "the weights are no softmax");
  }
  /// exp(x - log Σ exp(x)), with any value of rows subtracted from both.
  const char* log_softmax(node_id id) {
    const node& e = of(id);
    node_id x = below(e.in[0]);
    const node& n = of(x);
    if (n.code != op::sub || !is_row(n.in[1])) return refuse(id, "the weights are not divided by their sum");
    node_id row = below_row(n.in[1]);
    if (of(row).code == op::add)  // logsumexp adds the maximum again
      row = of(below_row(of(row).in[0])).code == op::log ? below_row(of(row).in[0]) : below_row(of(row).in[1]);
    if (of(row).code != op::log) return refuse(row, "the weights are not divided by their sum");
    const node_id sum = sum_of(of(row).in[0]);
    if (sum == no_node || of(sum).code != op::exp) return refuse(row, "the divisor is not the sum of the numerators");
    const node_id left = unshifted(below(n.in[0])), right = unshifted(below(of(sum).in[0]));
    if (left != right) return refuse(row, "the divisor is not the sum of the numerators");
    exp_ = sum;
    return nullptr;
  }
  /// x of x - a value of rows.
  node_id unshifted(node_id id) const {
    const node& n = of(id);
    return n.code == op::sub && is_row(n.in[1]) && !is_uniform_number(n.in[1]) ? below(n.in[0]) : id;
  }

  /// From the numerators to the scores.
  const char* numerators(attention_site& site) {
    node_id id = exp_;
    if (of(id).code == op::select && is_uniform(of(id).in[2], 0)) {
      site.allowed = of(id).in[0];
      id = of(id).in[1];
      id = below(id);
    }
    if (of(id).code != op::exp) return refuse(id, "the weights are not powers of e");
    const dtype t = of(id).type;
    if (is_narrow(t)) return refuse(id, "the softmax is of 16 bits; cast its scores with cast<float>(x)");
    id = of(id).in[0];
    id = below(id);
    bool top_guarded = true;
    if (of(id).code == op::sub && is_row(of(id).in[1])) {
      const node& top = of(below_row(of(id).in[1]));
      top_guarded = top.code == op::constant ||
                    (top.code == op::select && (is_uniform(top.in[1], 0) || is_uniform(top.in[2], 0)));
      id = of(id).in[0];
      id = below(id);
    }
    site.guarded = sum_guarded_ && top_guarded;
    const node& n = of(id);
    const double lowest = -std::numeric_limits<double>::infinity();
    if (site.allowed == no_node && n.code == op::select && is_uniform(n.in[2], lowest)) {
      site.allowed = n.in[0];
      id = n.in[1];
    }
    site.score = id;
    return nullptr;
  }

  bool has_score_extents(node_id id) const {
    const shape &a = of(id).extents, &b = of(site_score_).extents;
    return !a.empty() && !b.empty() && a.back() == b.back() && product(a) == product(b);
  }

  /// Finds the one product of which the scores are made, place by place.
  const char* products(attention_site& site) {
    site_score_ = site.score;
    series<node_id> stack{site.score}, found, leaves;
    sorted_set<node_id> seen;
    while (!stack.empty()) {
      const node_id id = stack.back();
      stack.pop_back();
      if (!seen.insert(id).second) continue;
      const node& n = of(id);
      if (n.code == op::dot && has_score_extents(id)) {
        found.push_back(id);
      } else if (is_pointwise(n.code) || n.code == op::reshape || n.code == op::broadcast || n.code == op::permute) {
        if (n.code == op::permute && has_score_extents(id)) leaves.push_back(id);
        for (auto in : n.in) stack.push_back(in);
      } else {
        leaves.push_back(id);
      }
    }
    if (found.empty()) return refuse(site.score, "the scores are made of no product of queries and keys");
    if (found.size() > 1) return refuse(found[1], "the scores are made of two products");
    site.products = found[0];
    mark_from(site.products);
    for (auto id : leaves)
      if (reads_[id]) return refuse(id, "a score depends on more than the product at its own place");
    for (auto id : seen)
      if (reads_[id] && is_mark(of(id))) return refuse(id, "a derivative is taken by a score");
    if (site.allowed != no_node && reads_[site.allowed]) return nullptr;
    for (const auto& f : site.factors)
      if (reads_[f.by]) return refuse(f.by, "a factor of the weights depends on the scores");
    return nullptr;
  }
  /// Marks what depends on the products.
  void mark_from(node_id products) {
    reads_[products] = 1;
    for (node_id id = products + 1; id < g_.size(); ++id)
      for (auto in : of(id).in) reads_[id] = reads_[id] || reads_[in];
  }

  const char* operands(attention_site& site) {
    const node &n = of(site.products), &mix = of(mix_);
    const auto nb = static_cast<std::size_t>(n.attr.ints[0]);
    if (n.attr.ints[1] != 1 || of(n.in[1]).extents.size() != nb + 2)
      return refuse(site.products, "queries and keys are not multiplied over one axis of features");
    site.q = n.in[0];
    site.k = n.in[1];
    site.turned = true;
    site.batch = nb;
    const shape &k = of(site.k).extents, &v = of(site.v).extents;
    if (of(site.v).type != n.type) return refuse(site.v, "queries and values have different dtypes");
    if (!(v[v.size() - 2] == k.back())) return refuse(site.v, "keys and values have different numbers of places");
    const auto vb = static_cast<std::size_t>(mix.attr.ints[0]);
    const dim keys = product(shape(k.begin(), k.begin() + static_cast<std::ptrdiff_t>(nb)));
    const dim values = product(shape(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(vb)));
    if (!(keys == values)) return refuse(site.v, "keys and values have different batches");
    if (reads_[site.v] || reads_[site.q] || reads_[site.k]) return refuse(site.v, "the values depend on the scores");
    return nullptr;
  }

  /// Refuses what others read between the products and the result.
  const char* readers(const attention_site& site) {
    series<char> between(g_.size(), 0);  // leads to the result, and depends on the products
    between[mix_] = 1;
    for (node_id id = mix_ + 1; id-- > site.products;)
      if (between[id])
        for (auto in : of(id).in) between[in] = between[in] || reads_[in];
    between[mix_] = 0;
    for (auto id : g_.live())
      for (auto in : of(id).in)
        if (between[in] && !between[id] && id != mix_)
          return refuse(
              in,
              "another node reads what lies between the products and the result, as a gradient without kernels does");
    for (auto id : g_.outputs)
      if (between[id]) return refuse(id, "the function returns what lies between the products and the result");
    return nullptr;
  }

  const graph& g_;
  node_id mix_, exp_ = no_node, summed_ = no_node, at_ = no_node, site_score_ = no_node;
  bool sum_guarded_ = false;
  series<char> reads_;
};

/// Whether the rows of a product are computed by a power, as a softmax is.
inline bool follows_power(const graph& g, node_id from) {
  constexpr std::size_t most = 64;
  series<node_id> seen{from};
  for (std::size_t i = 0; i < seen.size() && i < most; ++i) {
    const node& n = g[seen[i]];
    if (n.code == op::exp || n.code == op::exp2) return true;
    if (!is_pointwise(n.code) && n.code != op::reshape && n.code != op::broadcast) continue;
    for (auto in : n.in)
      if (!std::count(seen.begin(), seen.end(), in)) seen.push_back(in);
  }
  return false;
}

}  // namespace detail

/// The products that could end attention: their rows are computed by a power.
inline series<node_id> ends_of_attention(const graph& g) {
  series<node_id> out;
  for (auto id : g.live())
    if (g[id].code == op::dot && detail::follows_power(g, g[id].in[0])) out.push_back(id);
  return out;
}

/// The attention whose last product is the node `mix`, as a user wrote it. Its weights are a softmax of scores along their last axis. The
/// scores are made of one product of queries and keys, place by place. Nobody else reads the nodes between. The graph does not change.
inline attention_finding find_attention(const graph& g, node_id mix) { return detail::attention_finder(g, mix).run(); }

/// The op for a found attention, with the extents of its last product.
inline value push_found(graph& g, const attention_site& site, node_id mix) {
  const value made = push_attention(g, site, g[mix].where);
  return made ? reshape(made, g[mix].extents) : made;
}

}  // namespace sinter::ir
