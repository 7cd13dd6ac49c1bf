// plan/lowering/ops/attention.hpp: attention and its gradient as one kernel each of scores that nobody stores, and weighted sums.
#pragma once

#include <algorithm>
#include <limits>

#include "../../../ir/ops/attention_back.hpp"
#include "op.hpp"

namespace sinter::engine::plan::ops {

namespace detail {

/// An integer as an affine function of the axes; nothing if it is none.
inline std::optional<affine> affine_of(const kernel& k, int id, std::size_t rank) {
  const instruction& i = k.body[static_cast<std::size_t>(id)];
  if (i.type != dtype::i64) return std::nullopt;
  if (i.kind == kind::position && i.at.at.index < 0) return i.at.at;
  if (i.kind == kind::literal && i.axes == 0) return constant_coordinate(i.literal.i, rank);
  if (i.kind != kind::compute || (i.code != ir::op::add && i.code != ir::ops::difference_op)) return std::nullopt;
  const auto a = affine_of(k, i.args[0], rank), b = affine_of(k, i.args[1], rank);
  if (!a || !b) return std::nullopt;
  return *a + dim(i.code == ir::ops::difference_op ? -1 : 1) * *b;
}

/// A condition as ranges of positions, and the instructions that must hold besides.
struct condition_parts {
  series<range> ranges;
  series<int> others;
};
/// A comparison of two affine numbers as `at` >= 0; nothing for other instructions.
inline std::optional<affine> at_least_zero(const kernel& k, const instruction& i, std::size_t rank) {
  if (i.kind != kind::compute || i.args.size() != 2) return std::nullopt;
  const auto a = affine_of(k, i.args[0], rank), b = affine_of(k, i.args[1], rank);
  if (!a || !b) return std::nullopt;
  const auto order = ir::ops::order_of(i.code);
  if (!order) return std::nullopt;
  affine gap = order->swapped ? *a + dim(-1) * *b : *b + dim(-1) * *a;
  if (order->strict) gap.offset += dim(-1);
  return gap;
}
inline void split_condition(const kernel& k, int id, const series<dim>& axes, condition_parts& out) {
  const instruction& i = k.body[static_cast<std::size_t>(id)];
  if (i.kind == kind::compute && i.code == ir::op::bit_and && is_bool(i.type)) {
    for (int a : i.args) split_condition(k, a, axes, out);
    return;
  }
  if (auto gap = at_least_zero(k, i, axes.size())) {
    dim most = gap->offset;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (gap->stride[a].lower_bound() > 0) most += gap->stride[a] * (axes[a] - dim(1));
    if (most.is_number()) return out.ranges.push_back({std::move(*gap), std::max<std::int64_t>(*most.number() + 1, 1)});
  }
  out.others.push_back(id);
}

}  // namespace detail

/// The instructions of attention, or of a gradient, at the positions of a kernel's axes.
class attention_lowering {
 public:
  attention_lowering(lowering& l, const root& r)
      : l_(l), id_(r.value), n_(l.graph()[r.value]), type_(ir::ops::wide_type(l.graph()[n_.in[0]].type)) {
    backward_ = n_.code == ir::op::attention_back;
    by_keys_ = backward_ && n_.attr.ints[0] > 0;
    captured_ = n_.in.size() - (backward_ ? 6 : 3);
    for (const dim& e : r.extents)
      if (e.is(0)) refuse("attention of nothing");
    series<std::size_t> all(l.n());
    for (std::size_t i = 0; i < l.n(); ++i) all[i] = i;
    const auto at = l.align(r.extents, all, true);
    if (!at) refuse("attention iterates over " + ir::text_of(r.extents));
    take_coordinates(*at);
  }

  /// The axes of a root's kernel: (B…, M…, N, D, E), and of a gradient the columns of its results behind these. Gradients of keys and
  /// values have the keys before the queries.
  static ir::shape axes_of_root(const ir::graph& g, node_id id) {
    const ir::node& n = g[id];
    const bool backward = n.code == ir::op::attention_back, by_keys = backward && n.attr.ints[0] > 0;
    const ir::shape &q = g[n.in[0]].extents, &k = g[n.in[1]].extents, &v = g[n.in[2]].extents;
    const auto nb = static_cast<std::ptrdiff_t>(n.attr.ints[1]);
    ir::shape out(q.begin(), q.begin() + nb);
    if (by_keys) out.push_back(k[static_cast<std::size_t>(nb)]);
    out.insert(out.end(), q.begin() + nb, q.end() - 1);
    if (!by_keys) out.push_back(k[static_cast<std::size_t>(nb)]);
    out.push_back(q.back());
    out.push_back(v.back());
    if (backward) out.push_back(q.back());
    if (by_keys) out.push_back(v.back());
    return out;
  }

  /// Places all roots, which are results of one site.
  void run() {
    lowered_part part(n_.attr.step->parts[0], id_, l_.memory().hints);
    lowered_part back(n_.attr.step->parts[backward_ ? 1 : 0], id_, l_.memory().hints);
    make_scores(part);
    if (backward_) make_shares();
    for (const root& r : l_.roots()) {
      const auto result = l_.graph()[r.value].attr.ints[0];
      if (!backward_) forward(r, result);
      else if (result == 2) gradient_of_values(r);
      else gradient_of_products(r, back, result);
    }
    l_.code().by_recipe = true;
    l_.code().label = ir::name(n_.code);
  }

 private:
  [[noreturn]] static void refuse(std::string why) { throw refusal{std::move(why), ir::no_node}; }
  static constexpr double lowest = -std::numeric_limits<double>::infinity();

  void take_coordinates(const coordinates& at) {
    const auto nb = static_cast<std::size_t>(n_.attr.ints[1]);
    const std::size_t rows = l_.graph()[n_.in[0]].extents.size() - 1 - nb;
    std::size_t next = 0;
    const auto take = [&](coordinates& to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(at[next++]);
    };
    take(batch_, nb);
    if (by_keys_) take(keys_, 1);
    take(rows_, rows);
    if (!by_keys_) take(keys_, 1);
    take(features_, 1);
    take(values_, 1);
    if (backward_) take(columns_, 1);
    if (by_keys_) take(wide_, 1);
  }
  static coordinates joined(const coordinates& a, const coordinates& b, const coordinates& c = {}) {
    coordinates out = a;
    out.insert(out.end(), b.begin(), b.end());
    out.insert(out.end(), c.begin(), c.end());
    return out;
  }

  kernel& code() { return l_.code(); }
  int number(double x) { return shared_literal(code(), type_, ir::scalar::of(type_, x)); }
  int apply(ir::op what, series<int> args) { return compute(code(), what, type_, std::move(args)); }
  int choose(int condition, int then, int otherwise) { return apply(ir::op::select, {condition, then, otherwise}); }
  /// An operand in the type of scores.
  int operand(std::size_t k, const coordinates& at) {
    const int x = l_.value_at(n_.in[k], at);
    return code().body[static_cast<std::size_t>(x)].type == type_ ? x : converted(code(), x, type_);
  }
  /// Σ x · y over the axes of some coordinates.
  int sum_of_products(int x, int y, const coordinates& over) {
    instruction i;
    i.kind = kind::reduce;
    i.code = ir::op::add;
    i.type = type_;
    i.origin = id_;
    i.where = n_.where;
    i.args = {apply(ir::op::mul, {x, y})};
    i.over = axes_along(over);
    i.axes = code().body[static_cast<std::size_t>(i.args[0])].axes;
    for (int a : i.over) i.axes &= ~(1u << a);
    return add(code(), std::move(i));
  }
  series<int> axes_along(const coordinates& over) const {
    series<int> out;
    for (std::size_t a = 0; a < l_.n(); ++a)
      if (std::any_of(over.begin(), over.end(), [&](const affine& c) { return !c.stride[a].is(0); }))
        out.push_back(static_cast<int>(a));
    if (out.empty()) refuse("attention over one place, or of one feature, has no product");
    return out;
  }

  /// What the part's inputs are: the score's product, captured operands, and `more` behind these.
  void give_inputs(lowered_part& part, int s, series<int> more) {
    part.input = [this, s, more = std::move(more)](std::size_t k, const coordinates& at) {
      if (k >= 1 && k <= captured_) return l_.value_at(n_.in[2 + k], at);
      if (!(at == scores_)) refuse("a score depends on more than its own place");
      return k == 0 ? s : more[k - 1 - captured_];
    };
  }
  bool is_constant(std::size_t output) const {
    const ir::graph& part = n_.attr.step->parts[0];
    const ir::node& n = part[part.outputs[output]];
    return n.code == ir::op::constant && n.attr.ints.empty() &&
           (is_float(n.type) ? n.attr.literal.f == 1 : n.attr.literal.i == 1);
  }
  int output_of(lowered_part& part, const ir::graph& of, std::size_t k) {
    return l_.value_in(part, of.outputs[k], scores_);
  }

  /// The products, the scores, -inf where no key is seen, and the factors of the numerators.
  void make_scores(lowered_part& part) {
    scores_ = joined(batch_, rows_, keys_);
    for (std::size_t d = 0; d < scores_.size(); ++d)
      if (n_.attr.step->parts[0][n_.attr.step->parts[0].inputs[0]].extents[d].is(1))
        scores_[d] = constant_coordinate(0, l_.n());
    const int q = operand(0, joined(batch_, rows_, features_)), k = operand(1, joined(batch_, keys_, features_));
    s_ = by_keys_ ? sum_of_products(k, q, features_) : sum_of_products(q, k, features_);
    give_inputs(part, s_, {});
    const ir::graph& of = n_.attr.step->parts[0];
    seen_ = output_of(part, of, 0);
    if (!is_constant(1)) {
      const int allowed = output_of(part, of, 1);
      condition_parts parts;
      detail::split_condition(code(), allowed, l_.axes(), parts);
      for (int other : parts.others)
        rest_ = rest_ < 0 ? other : compute(code(), ir::op::bit_and, dtype::b8, {rest_, other});
      if (!parts.ranges.empty()) inside_ = inside(code(), n_.code, parts.ranges);
      seen_ = allowed_or(seen_, lowest);
    }
    if (!is_constant(2)) factor_ = output_of(part, of, 2);
  }
  using condition_parts = detail::condition_parts;
  /// x where a key is allowed; the ranges are outermost, since they bound loops.
  int allowed_or(int x, double otherwise) {
    if (rest_ >= 0) x = choose(rest_, x, number(otherwise));
    return inside_ >= 0 ? choose(inside_, x, number(otherwise)) : x;
  }

  void forward(const root& r, std::int64_t result) {
    if (factor_ >= 0) refuse("factors of the numerators have no kernel");
    if (total_ < 0) make_tuple();
    const bool guarded = n_.attr.ints[3] != 0;
    const int nothing = compute(code(), ir::ops::equality_op, dtype::b8, {total_, number(0)});
    if (result == 0) {
      const int by = guarded ? choose(nothing, number(1), total_) : total_;
      return put(r, apply(ir::ops::ratio_op, {sum_, by}), joined(batch_, rows_, values_));
    }
    const int log = apply(ir::op::add, {most_, apply(ir::ops::logarithm_op, {total_})});
    put(r, guarded ? log : choose(nothing, number(std::numeric_limits<double>::quiet_NaN()), log),
        joined(batch_, rows_));
  }
  /// (greatest score, Σ exp(score - greatest), Σ exp(score - greatest) · v)
  void make_tuple() {
    instruction i;
    i.kind = kind::reduce;
    i.code = ir::op::maximum;
    i.rule = merge_rule::weighted;
    i.type = type_;
    i.origin = id_;
    i.where = n_.where;
    const int v = operand(2, joined(batch_, keys_, values_));
    i.args = {seen_, number(1), v};
    i.over = axes_along(keys_);
    const auto varies = [&](int x) {
      std::uint32_t axes = code().body[static_cast<std::size_t>(x)].axes;
      for (int a : i.over) axes &= ~(1u << a);
      return axes;
    };
    const std::uint32_t row = varies(seen_), all = row | varies(v);
    i.axes = all;
    const int tuple = add(code(), std::move(i));
    most_ = part_of(tuple, 0, row);
    total_ = part_of(tuple, 1, row);
    sum_ = part_of(tuple, 2, all);
  }
  int part_of(int tuple, int number, std::uint32_t axes) {
    instruction i;
    i.kind = kind::part;
    i.type = type_;
    i.args = {tuple};
    i.index = number;
    i.axes = axes;
    return add(code(), std::move(i));
  }

  /// The share of each key.
  void make_shares() {
    const int log = operand(n_.in.size() - 2, joined(batch_, rows_));
    share_ = apply(ir::ops::power_op, {apply(ir::ops::difference_op, {seen_, log})});
    if (n_.attr.ints[3] != 0)
      share_ = choose(compute(code(), ir::ops::equality_op, dtype::b8, {seen_, number(lowest)}), number(0), share_);
  }
  /// The cotangents of scores and factors.
  void make_cotangents() {
    if (to_score_ >= 0) return;
    const std::size_t end = n_.in.size();
    const int inner = operand(end - 3, joined(batch_, rows_));
    const int dy = operand(end - 1, joined(batch_, rows_, values_)), v = operand(2, joined(batch_, keys_, values_));
    const int to_weight = by_keys_ ? sum_of_products(v, dy, values_) : sum_of_products(dy, v, values_);
    const int through = factor_ < 0 ? to_weight : apply(ir::op::mul, {to_weight, factor_});
    to_score_ = allowed_or(apply(ir::op::mul, {share_, apply(ir::ops::difference_op, {through, inner})}), 0);
    to_factor_ = apply(ir::op::mul, {share_, to_weight});
  }
  void gradient_of_values(const root& r) {
    const int weight = allowed_or(factor_ < 0 ? share_ : apply(ir::op::mul, {share_, factor_}), 0);
    const int dy = operand(n_.in.size() - 1, joined(batch_, rows_, wide_));
    put(r, sum_of_products(weight, dy, rows_), joined(batch_, keys_, wide_));
  }
  void gradient_of_products(const root& r, lowered_part& back, std::int64_t result) {
    make_cotangents();
    give_inputs(back, s_, {to_score_, to_factor_});
    const int pulled = allowed_or(output_of(back, n_.attr.step->parts[1], 0), 0);
    if (result == 0)
      return put(r, sum_of_products(pulled, operand(1, joined(batch_, keys_, columns_)), keys_),
                 joined(batch_, rows_, columns_));
    put(r, sum_of_products(pulled, operand(0, joined(batch_, rows_, columns_)), rows_),
        joined(batch_, keys_, columns_));
  }

  void put(const root& r, int value, const coordinates& at) {
    const dtype t = l_.graph()[r.target].type;
    l_.store(r, at, code().body[static_cast<std::size_t>(value)].type == t ? value : converted(code(), value, t));
  }

  lowering& l_;
  node_id id_;
  const ir::node& n_;
  dtype type_;
  bool backward_ = false, by_keys_ = false;
  std::size_t captured_ = 0;
  coordinates batch_, rows_, keys_, features_, values_, columns_, wide_, scores_;
  int s_ = -1, seen_ = -1, rest_ = -1, inside_ = -1, factor_ = -1;
  int most_ = -1, total_ = -1, sum_ = -1, share_ = -1, to_score_ = -1, to_factor_ = -1;
};

/// Both ops: results of one site share a kernel, and iterate over one space.
struct attention_site : in_memory {
  static void roots(const ir::graph& g, node_id id, series<root>& out) {
    root r = whole(g, id, id);
    r.extents = attention_lowering::axes_of_root(g, id);
    out.push_back(std::move(r));
  }
  static void place(lowering& l, const root& r) {
    if (!l.code().by_recipe) attention_lowering(l, r).run();
  }
};

struct attention_op : attention_site {};
struct attention_back_op : attention_site {};

/// Whether two nodes are results that one kernel computes: output and logarithm, or the gradients of keys and values.
inline bool share_a_kernel(const ir::node& a, const ir::node& b) {
  if (a.code != b.code || !ir::ops::is_attention(a.code) || !(a.in == b.in) || a.attr.step->text != b.attr.step->text)
    return false;
  for (std::size_t i = 1; i < a.attr.ints.size(); ++i)
    if (a.attr.ints[i] != b.attr.ints[i]) return false;
  return a.code == ir::op::attention || (a.attr.ints[0] > 0) == (b.attr.ints[0] > 0);
}

}  // namespace sinter::engine::plan::ops
