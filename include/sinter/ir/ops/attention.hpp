// ir/ops/attention.hpp: attention (q, k, v, captured…): ints = {result, nb, ng, guarded}, step = the sealed part. q is (B…, M…, D), k (B…, N, D)
// and v (B…, N, E), nb = |B|; the first ng axes of M share the keys of a head. With s = q kᵀ in f32 (f64 for f64), the part gives, for
// (s, captured…), (score, allowed, factor) of s's extents (B…, M…, N). Where not allowed a score is -inf. Result 0 is
// Σ factor · exp(score) · v / Σ exp(score), result 1 log Σ exp(score). Where guarded, a row that sees nothing gives 0, otherwise NaN.
#pragma once

#include "dot.hpp"
#include "permute.hpp"

namespace sinter::ir::ops {

/// The attributes and operands of attention and attention_back. `in` may be nodes of another graph than the node.
struct attention_operands {
  std::size_t result, batch, groups;
  bool guarded;
  std::shared_ptr<const opaque> step;
  value q, k, v;
  series<value> captured;

  attention_operands(const attributes& attr, const series<value>& in, std::size_t after = 0)
      : result(static_cast<std::size_t>(attr.ints[0])),
        batch(static_cast<std::size_t>(attr.ints[1])),
        groups(static_cast<std::size_t>(attr.ints[2])),
        guarded(attr.ints[3] != 0),
        step(attr.step),
        q(in[0]),
        k(in[1]),
        v(in[2]),
        captured(in.begin() + 3, in.end() - static_cast<std::ptrdiff_t>(after)) {}
};

/// The dtype of scores and of their sums.
constexpr dtype wide_type(dtype t) { return t == dtype::f64 ? dtype::f64 : dtype::f32; }

/// (B…, M…, N) of q and k.
inline shape score_extents(const shape& q, const shape& k) {
  shape to(q.begin(), q.end() - 1);
  to.push_back(k[k.size() - 2]);
  return to;
}

/// Attention as products and a softmax: the value of the op, of its gradient and of every other derivative.
class attention_composition {
 public:
  explicit attention_composition(attention_operands of) : o_(std::move(of)), type_(wide_type(o_.q.type())) {
    const auto nb = static_cast<std::int64_t>(o_.batch);
    keys_ = permute(o_.k, moved_axes(nb + 2, nb + 1, nb + 2, nb));
    products_ = product(o_.q, keys_);
    s_ = cast(products_, type_);
    const auto made = outputs_of(o_.step->parts[0], {s_});
    score_ = made[0];
    if (!is_constant(o_.step->parts[0], 1, 1)) allowed_ = made[1];
    if (!is_constant(o_.step->parts[0], 2, 1)) factor_ = made[2];
    const value seen = allowed_ ? select(allowed_, score_, lowest) : score_;
    const value top = stop_gradient(along(seen, op::maximum));
    top_ = o_.guarded ? select(eq(top, lowest), 0.0, top) : top;
    e_ = exp(seen - broadcast(top_, seen.extents()));
    sum_ = along(e_, op::add);
    divisor_ = o_.guarded ? select(eq(sum_, 0.0), 1.0, sum_) : sum_;
    share_ = 1.0 / divisor_;
    weights_ = e_ * broadcast(share_, e_.extents());
    out_ = product(cast(factor_ ? weights_ * factor_ : weights_, o_.v.type()), o_.v);
  }

  /// The weighted sum of v.
  value output() const { return out_; }
  /// log Σ exp(score), a row each.
  value log_sum() const {
    const value all = top_ + log(sum_);
    return reshape(all, part(all.extents(), 0, all.extents().size() - 1));
  }
  value result() const { return o_.result == 0 ? output() : log_sum(); }

  /// The cotangent of an operand, q, k, v or a captured one, for the output's cotangent.
  value cotangent(std::size_t k, const value& ct) const {
    graph& g = out_.owner();
    const site mix{g, out_.id()}, scores{g, products_.id()};
    if (k == 2) return reshape(dot_op::vjp(mix, 1, ct), o_.v.extents());
    const value back = cast(dot_op::vjp(mix, 0, ct), type_);
    const value to_weights = factor_ ? back * factor_ : back;
    const value to_share = reduced(to_weights * e_);
    const value through = -to_share * share_ / divisor_;
    const value to_sum = o_.guarded ? select(eq(sum_, 0.0), 0.0, through) : through;
    const value to_e = to_weights * broadcast(share_, e_.extents()) + broadcast(to_sum, e_.extents());
    const value to_seen = to_e * e_;
    const value to_score = allowed_ ? select(allowed_, to_seen, 0.0) : to_seen;
    const value to_factor = factor_ ? back * weights_ : back.like(0.0);
    const auto pulled = outputs_of(o_.step->parts[1], {s_, to_score, to_factor});
    if (k > 2) return pulled[k - 2];
    const value to_products = cast(pulled[0], products_.type());
    if (k == 0) return dot_op::vjp(scores, 0, to_products);
    const auto nb = static_cast<std::int64_t>(o_.batch);
    return permute(reshape(dot_op::vjp(scores, 1, to_products), keys_.extents()),
                   moved_axes(nb + 2, nb + 1, nb + 2, nb));
  }

 private:
  static constexpr double lowest = -std::numeric_limits<double>::infinity();

  /// (B…, M…, K) · (B…, K, N). Without a batch M are rows of one product.
  value product(const value& a, const value& b) const {
    const auto nb = static_cast<std::ptrdiff_t>(o_.batch);
    if (!ir::product(shape(b.extents().begin(), b.extents().begin() + nb)).is(1)) return dot(a, b, nb, 1);
    return dot(a, reshape(b, shape(b.extents().begin() + nb, b.extents().end())), 0, 1);
  }
  /// A row's total, with an extent of 1.
  static value along(const value& x, op combiner) {
    shape kept = x.extents();
    kept.back() = 1;
    return reshape(reduce(x, combiner, {x.rank() - 1}), std::move(kept));
  }
  static value reduced(const value& x) { return along(x, op::add); }

  /// The outputs of a part for s, the captured operands, and what follows s in `around`.
  series<value> outputs_of(const graph& of, std::initializer_list<value> around) const {
    series<node_id> in{around.begin()->id()};
    for (const value& c : o_.captured) in.push_back(c.id());
    for (const value* v = around.begin() + 1; v != around.end(); ++v) in.push_back(v->id());
    series<value> out;
    for (auto id : splice(o_.q.owner(), of, in)) out.push_back({o_.q.owner(), id, o_.q.where()});
    return out;
  }
  static bool is_constant(const graph& of, std::size_t output, std::int64_t x) {
    const node& n = of[of.outputs[output]];
    return n.code == op::constant && n.attr.ints.empty() &&
           (is_float(n.type) ? n.attr.literal.f == static_cast<double>(x) : n.attr.literal.i == x);
  }

  attention_operands o_;
  dtype type_;
  value keys_, products_, s_, score_, allowed_, factor_, top_, e_, sum_, divisor_, share_, weights_, out_;
};

/// The composition of a node with these attributes and operands; `backward`: of attention_back.
inline value composed_attention(bool backward, const attributes& attr, const series<value>& in) {
  const attention_operands o(attr, in, backward ? 3 : 0);
  const attention_composition made(o);
  return backward ? made.cotangent(o.result, in.back()) : made.result();
}

/// What attention and attention_back have in common: q, k, v and the first part.
struct attention_inference {
  const inference& f;
  std::size_t captured;

  explicit attention_inference(const inference& of, std::size_t after, std::size_t parts) : f(of), captured(0) {
    const node& n = f.n;
    if (n.in.size() < 3 + after || n.attr.ints.size() != 4 || !n.attr.dims.empty() || !n.attr.step ||
        n.attr.step->kind != opaque_kind::part || n.attr.step->parts.size() != parts)
      f.malformed();
    captured = n.in.size() - 3 - after;
  }

  std::size_t batch() const { return static_cast<std::size_t>(f.n.attr.ints[1]); }

  void operands() const {
    const shape &q = f.extents(0), &k = f.extents(1), &v = f.extents(2);
    const dtype t = f.operand(0).type;
    if (!is_float(t)) f.refuse({"takes a floating dtype; q is ", t});
    for (std::size_t i = 1; i < 3; ++i)
      if (f.operand(i).type != t)
        f.refuse({"q is ", t, ", ", i == 1 ? "k" : "v", " is ", f.operand(i).type, "; cast one with cast<T>(x)"});
    const auto nb = f.n.attr.ints[1], ng = f.n.attr.ints[2];
    if (nb < 0 || ng < 0 || q.size() < static_cast<std::size_t>(nb + ng) + 1 || f.n.attr.ints[0] < 0) f.malformed();
    const auto end = static_cast<std::ptrdiff_t>(nb);
    const bool fits = k.size() == batch() + 2 && v.size() == batch() + 2 &&
                      std::equal(k.begin(), k.begin() + end, q.begin()) &&
                      std::equal(k.begin(), k.begin() + end + 1, v.begin()) && k.back() == q.back();
    if (!fits)
      f.refuse({"q is ", q, ", k is ", k, ", v is ", v, "; they are (batch, queries, features), (batch, keys, ",
                "features) and (batch, keys, values)"});
    if (k[batch()].is(0)) f.refuse({"attends to no key: k is ", k, "; test the extent before"});
  }

  /// Checks an input of a part.
  void takes(const graph& part, std::size_t k, dtype type, const shape& extents) const {
    const node& input = part[part.inputs[k]];
    if (input.type != type || !(input.extents == extents)) f.malformed();
  }
  void gives(const graph& part, std::size_t k, dtype type, const shape& extents) const {
    const node& output = part[part.outputs[k]];
    if (output.type != type || !(output.extents == extents)) f.malformed();
  }
  shape scores() const { return score_extents(f.extents(0), f.extents(1)); }
  dtype type() const { return wide_type(f.operand(0).type); }

  void first_part() const {
    const graph& p = f.n.attr.step->parts[0];
    if (p.inputs.size() != 1 + captured || p.outputs.size() != 3) f.malformed();
    takes(p, 0, type(), scores());
    for (std::size_t i = 0; i < captured; ++i) takes(p, 1 + i, f.operand(3 + i).type, f.extents(3 + i));
    gives(p, 0, type(), scores());
    gives(p, 1, dtype::b8, scores());
    gives(p, 2, type(), scores());
  }
};

/// Attributes in the text of both ops.
struct with_attention_text {
  static std::string text(const node& n) {
    const auto& ints = n.attr.ints;
    return " result=" + std::to_string(ints.at(0)) + " batch=" + std::to_string(ints.at(1)) +
           " groups=" + std::to_string(ints.at(2)) + (ints.at(3) ? " guarded" : "");
  }
  /// The parts follow on lines of their own.
  static void read(words& w, node& n) {
    for (const char* key : {"result", "batch", "groups"}) n.attr.ints.push_back(w.integer(key));
    n.attr.ints.push_back(w.takes_word("guarded"));
  }
};

/// Evaluates the composition, with the sizes of the call.
inline void evaluate_composed(const evaluation& e, literal_array& out) {
  attributes attr = e.n.attr;
  const auto sized = [&](const dim& d) { return dim(d.evaluate(e.sizes)); };
  if (auto step = with_sizes(*attr.step, sized)) attr.step = std::move(step);
  graph g;
  series<value> in;
  series<literal_array> arrays;
  for (const literal_array* x : e.in) {
    shape extents;
    for (auto n : x->extents) extents.push_back(n);
    in.push_back({g, g.add_input(x->type, std::move(extents), e.n.where), e.n.where});
    arrays.push_back(*x);
  }
  g.outputs = {composed_attention(e.n.code == op::attention_back, attr, in).id()};
  out = evaluate(g, {arrays.data(), arrays.size()})[0];
}

/// Walks compose both ops before they ask for derivatives or lanes.
struct composed_by_walks {
  [[noreturn]] static void unasked() {
    throw internal_error("internal error: a walk asks the record of attention for what its composition has");
  }
  static void reference(const evaluation& e, literal_array& out) { evaluate_composed(e, out); }
  static value jvp(const site&, const tangents&) { unasked(); }
  static value vjp(const site&, std::size_t, const value&) { unasked(); }
  static value batch(const lane_site&) { unasked(); }
  /// Of each of the products, one after the other.
  static roundings rounding(const evaluation& e, const literal_array&) {
    const auto &q = e.in[0]->extents, &k = e.in[1]->extents;
    const double terms = static_cast<double>(q.back()) + static_cast<double>(k[k.size() - 2]);
    return {std::max(terms, 1.0), false, false};
  }
};

struct attention_op : composed_by_walks, with_attention_text {
  static void infer(inference& f) {
    const attention_inference a(f, 0, 1);
    a.operands();
    a.first_part();
    const shape &q = f.extents(0), &v = f.extents(2);
    const auto result = f.n.attr.ints[0];
    if (result > 1) f.malformed();
    f.n.extents.assign(q.begin(), q.end() - 1);
    if (result == 0) f.n.extents.push_back(v.back());
    else f.n.type = a.type();
  }
};

}  // namespace sinter::ir::ops
