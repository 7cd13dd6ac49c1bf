// onnx/head_rows.hpp: com.microsoft's attention: of packed projections, of many heads, of groups with a cache; rotary positions.
#pragma once

#include "../ir/attention_site.hpp"
#include "fused_rows.hpp"

namespace sinter::onnx::rows {

/// Scores before a softmax, and the places that it sees. Without `allowed` it sees all.
struct seen_scores {
  node score, allowed;
};

/// softmax(score) · v, for what `f` makes of the products of q (batch, heads, rows, size) and k (batch, groups, keys, size). Rows
/// that see nothing give 0. `f` takes and gives (batch, heads, rows, keys).
template <class F>
node attended(const node& q, const node& k, const node& v, const F& f) {
  const extents eq = extents_of(q), ek = extents_of(k), ev = extents_of(v);
  if (eq.size() != 4 || ek.size() != 4 || ev.size() != 4 || ek[1] < 1 || eq[1] % ek[1] != 0 || eq[3] != ek[3])
    wire::fail_file("its queries are " + text_of(eq) + ", its keys " + text_of(ek) + ", its values " + text_of(ev));
  const extents to{eq[0], eq[1], eq[2], ev[3]};
  if (always_equal(ek[2], 0)) return constant(q.type(), 0, to);
  const bool grouped = !always_equal(eq[1], ek[1]);
  const node queries = grouped ? reshape_to(q, {ek[0], ek[1], eq[1] / ek[1], eq[2], eq[3]}) : q;
  const node products = ir::dot(queries, permuted(k, {0, 1, 3, 2}), 2, 1);
  const extents whole{eq[0], eq[1], eq[2], ek[2]};
  const seen_scores s = f(wide(reshape_to(products, whole)));
  ir::attention_site site;
  site.q = queries.id();
  site.k = k.id();
  site.v = v.id();
  site.products = products.id();
  site.score = broadcast_to(s.score, whole).id();
  if (s.allowed) site.allowed = broadcast_to(s.allowed, whole).id();
  site.batch = 2;
  site.groups = grouped ? 1 : 0;
  const node made = ir::push_attention(engine::current()->graph, site, place_of_nodes());
  if (made) return reshape_to(made, to);
  const double lowest = -std::numeric_limits<double>::infinity();
  const node seen = s.allowed ? choose(s.allowed, s.score, constant(s.score.type(), lowest)) : s.score;
  node weights = softmax_of(seen, 3);
  if (s.allowed) weights = choose(s.allowed, weights, constant(weights.type(), 0));
  const extents all = extents_of(queries);
  extents apart(all.begin(), all.end() - 1);
  apart.push_back(ek[2]);
  return reshape_to(to_type(ir::dot(reshape_to(weights, apart), wide(v), 2, 1), q.type()), to);
}

/// Queries, keys and values as (batch, heads, rows, size).
struct projected {
  node q, k, v;
};
/// The attributes of an attention, and its masks.
struct attention_form {
  double scale = 0, filter = -10000;
  bool causal = false;
  item mask;  ///< of keys: lengths, starts behind them, or ones where a key is seen
  item bias;  ///< added to the scores

  explicit attention_form(call& c)
      : scale(c.f("scale", 0)), filter(c.f("mask_filter_value", -10000)), causal(c.i("unidirectional", 0) != 0) {}
  double scale_for(call& c, dim size) const {
    if (scale != 0) return scale;
    if (size.is_symbolic()) c.refuse("its heads have an open size, and its scale is not given");
    return 1 / std::sqrt(static_cast<double>(size.bits));
  }
};

/// What a mask adds to the scores (batch, heads, rows, keys): 0 where a key is seen.
inline node mask_terms(call& c, const item& given, const extents& e, dim past, double filter, dtype type) {
  const node m = c.im.value(given);
  const extents em = extents_of(m);
  const node at = iota(dtype::i64, {dim(1), dim(1), dim(1), e[3]}, 3);
  const auto ends = [&](dim first) {
    return reshape_to(to_type(sliced(m, 0, first, e[0]), dtype::i64), {e[0], dim(1), dim(1), dim(1)});
  };
  node seen;
  if (em.size() == 1 && em[0] == e[0]) {
    seen = pointwise(op::lt, at, ends(0));
  } else if (em.size() == 1 && em[0] == e[0] * 2) {
    seen = pointwise(op::bit_and, pointwise(op::lt, at, ends(0)), pointwise(op::ge, at, ends(e[0])));
  } else if (em.size() == 2) {
    seen = ir::gt(reshape_to(m, {em[0], dim(1), dim(1), em[1]}), 0.0);
  } else if (em.size() == 3) {
    seen = ir::gt(unsqueezed(m, {1}), 0.0);
  } else if (em.size() == 4) {
    seen = ir::gt(sliced(sliced(m, 2, past, e[2]), 3, 0, e[3]), 0.0);
  } else {
    c.refuse("its mask " + text_of(em) + " is no mask of scores " + text_of(e));
  }
  return choose(seen, constant(type, 0), constant(type, filter));
}
/// Attention of one form. The first `past` keys precede the queries.
inline node attended_in_form(call& c, const projected& p, dim past, const attention_form& form) {
  const double scale = form.scale_for(c, size_of_axis(p.q, 3));
  return attended(p.q, p.k, p.v, [&](const node& products) {
    const extents e = extents_of(products);
    seen_scores s{products * scale, {}};
    if (form.mask.present()) s.score = plus(s.score, mask_terms(c, form.mask, e, past, form.filter, products.type()));
    if (form.bias.present()) s.score = plus(s.score, wide(c.im.value(form.bias)));
    if (form.causal) {
      const extents plane{dim(1), dim(1), e[2], e[3]};
      const node row = plus(iota(dtype::i64, plane, 2), size_node(past, dtype::i64));
      s.allowed = pointwise(op::le, iota(dtype::i64, plane, 3), row);
    }
    return s;
  });
}

/// The heads of x · weights + bias, as columns q, k and v.
inline projected split_heads(call& c, const node& all, const std::vector<std::int64_t>& given) {
  const dim heads = c.i("num_heads", 0), width = size_of_axis(all, 2);
  if (heads < 1) c.refuse("its num_heads are not given");
  extents sizes{width / 3, width / 3, width / 3};
  if (given.size() == 3) sizes = extents{dim(given[0]), dim(given[1]), dim(given[2])};
  if (sizes[0] + sizes[1] + sizes[2] != width || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1)
    c.refuse("its " + width.text() + " columns are not those of q, k and v");
  const auto part = [&](dim first, dim count) { return heads_of(sliced(all, 2, first, count), heads); };
  return {part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
}
/// Attention of projections (batch, rows, q + k + v), after the keys and values of `past` (2, batch, heads, rows, size).
inline void give_packed_attention(call& c, const node& columns, const item& mask, const item& past, const item& bias) {
  if (c.i("do_rotary", 0) != 0) c.refuse("it turns queries by positions; export it with RotaryEmbedding nodes");
  if (c.i("past_present_share_buffer", 0) != 0)
    c.refuse("its past and present share one buffer; export it without past_present_share_buffer");
  projected p = split_heads(c, columns, c.list("qkv_hidden_sizes"));
  dim before = 0;
  if (past.present()) {
    const node both = c.im.value(past);
    if (both.rank() != 5 || size_of_axis(both, 0) != 2) c.refuse("its past is " + text_of(extents_of(both)));
    const auto old = [&](dim which) {
      extents e = extents_of(both);
      e.erase(e.begin());
      return reshape_to(sliced(both, 0, which, 1), e);
    };
    before = size_of_axis(both, 3);
    p.k = joined({old(0), p.k}, 2);
    p.v = joined({old(1), p.v}, 2);
  }
  attention_form form(c);
  form.mask = mask;
  form.bias = bias;
  c.give(0, without_heads(attended_in_form(c, p, before, form)));
  if (c.wants(1)) c.give(1, joined({unsqueezed(p.k, {0}), unsqueezed(p.v, {0})}, 0));
}
inline item optional_input(call& c, std::size_t k) { return c.has(k) ? c.given(k) : item(); }
inline void packed_attention(call& c) {
  if (c.has(6)) c.refuse("its past_sequence_length is that of a buffer that past and present share");
  node columns = product(c.x(0), c.x(1));
  if (c.has(2)) columns = plus(columns, c.x(2));
  give_packed_attention(c, columns, optional_input(c, 3), optional_input(c, 4), optional_input(c, 5));
}

/// Columns of one of `count` projections that lie side by side in (batch, rows, heads, count, size).
inline node unpacked_columns(const node& x, dim which, dim count) {
  const extents e = extents_of(x);
  if (e.size() != 5 || e[3] != count) wire::fail_file("its packed columns are " + text_of(e));
  return reshape_to(sliced(x, 3, which, 1), {e[0], e[1], e[2] * e[4]});
}
/// The queries, keys and values of MultiHeadAttention, which may be packed, and its bias.
inline projected heads_of_call(call& c) {
  const dim heads = c.i("num_heads", 0);
  if (heads < 1) c.refuse("its num_heads are not given");
  node q = c.x(0), k, v;
  if (q.rank() == 5) {
    const node all = q;
    q = unpacked_columns(all, 0, 3);
    k = unpacked_columns(all, 1, 3);
    v = unpacked_columns(all, 2, 3);
  } else if (c.rank(1) == 5) {
    k = unpacked_columns(c.x(1), 0, 2);
    v = unpacked_columns(c.x(1), 1, 2);
  } else {
    k = c.x(1);
    v = c.x(2);
  }
  if (c.has(3)) {
    const dim width = size_of_axis(q, 2), keys = k.rank() == 3 ? size_of_axis(k, 2) : width;
    const node b = c.x(3);
    q = plus(q, sliced(b, 0, 0, width));
    if (k.rank() == 3) k = plus(k, sliced(b, 0, width, keys));
    if (v.rank() == 3) v = plus(v, sliced(b, 0, width + keys, size_of_axis(v, 2)));
  }
  const auto split = [&](const node& x) { return x.rank() == 3 ? heads_of(x, heads) : x; };
  return {split(q), split(k), split(v)};
}
inline void multi_head_attention(call& c) {
  if (c.has(8) || c.has(9)) c.refuse("its cache is shared by beams; export it with past and present keys");
  if (c.wants(3)) c.refuse("its result 3 is the products, which no kernel stores; leave it out");
  projected p = heads_of_call(c);
  dim past = 0;
  if (c.has(6)) {
    past = size_of_axis(c.x(6), 2);
    p.k = joined({c.x(6), p.k}, 2);
    p.v = joined({c.x(7), p.v}, 2);
  }
  attention_form form(c);
  form.mask = optional_input(c, 4);
  form.bias = optional_input(c, 5);
  c.give(0, without_heads(attended_in_form(c, p, past, form)));
  if (c.wants(1)) c.give(1, p.k);
  if (c.wants(2)) c.give(2, p.v);
}

/// Rotary positions of x (batch, rows, heads · size) or (batch, heads, rows, size).
inline void rotary_at(call& c) {
  if (c.i("is_packed_batching", 0) != 0) c.refuse("its rows are packed; export it with is_packed_batching = 0");
  node x = c.x(0);
  const node co = c.x(2), si = c.x(3);
  const bool rows3 = x.rank() == 3;
  if (rows3) {
    const std::int64_t given = c.i("num_heads", 0);
    x = heads_of(x, given ? dim(given) : size_of_axis(x, 2) / (size_of_axis(co, 1) * 2));
  }
  node at = to_type(c.x(1), dtype::i64);
  const dim rows = size_of_axis(x, 2);
  if (at.rank() == 1) at = unsqueezed(plus(iota(dtype::i64, {rows}, 0), at), {0});
  const node y = turned_by(x, taken(co, at, 0), taken(si, at, 0), c.i("interleaved", 0) != 0);
  c.give(rows3 ? without_heads(y) : y);
}

/// The call of a GroupQueryAttention: its queries, and the keys and values of its rows.
class grouped_call {
 public:
  explicit grouped_call(call& c) : c_(c), heads_(c.i("num_heads", 0)), groups_(c.i("kv_num_heads", 0)) {
    if (heads_ < 1 || groups_ < 1) c.refuse("its num_heads and kv_num_heads are not given");
    for (const std::size_t k : {12, 13})
      if (c.has(k)) c.refuse("its cache is quantised; export it with a floating one");
    if (c.wants(3)) c.refuse("its result 3 is the products, which no kernel stores; leave it out");
    total_ = c.sizes(6)[0];
    p_ = columns();
    rows_ = size_of_axis(p_.q, 2);
    before();
  }
  void run() {
    if (c_.i("do_rotary", 0) != 0) turn();
    p_.k = cached(3, p_.k);
    p_.v = cached(4, p_.v);
    c_.give(1, p_.k);
    c_.give(2, p_.v);
    c_.give(0, without_heads(attended_rows()));
  }

 private:
  projected columns() const {
    const node q = c_.x(0);
    if (c_.has(1)) return {heads_of(q, heads_), heads_of(c_.x(1), groups_), heads_of(c_.x(2), groups_)};
    const dim size = size_of_axis(q, 2) / (heads_ + groups_ * 2), width = heads_ * size, more = groups_ * size;
    return {heads_of(sliced(q, 2, 0, width), heads_), heads_of(sliced(q, 2, width, more), groups_),
            heads_of(sliced(q, 2, width + more, more), groups_)};
  }
  /// The number of keys before the rows of each lane, (batch, 1, 1, 1). A first prompt may be padded behind its end.
  void before() {
    const dim batch = size_of_axis(p_.q, 0);
    const node last = reshape_to(to_type(c_.x(5), dtype::i64), {batch, dim(1), dim(1), dim(1)});
    const node count = minus(plus(last, integer(1)), size_node(rows_, dtype::i64));
    before_ = pointwise(op::maximum, count, integer(0));
  }
  /// The position of each row, (batch, rows).
  node positions() const {
    const dim batch = size_of_axis(p_.q, 0);
    if (c_.has(9)) return to_type(c_.x(9), dtype::i64);
    return plus(iota(dtype::i64, {batch, rows_}, 1), reshape_to(before_, {batch, dim(1)}));
  }
  void turn() {
    const node at = positions(), co = taken(c_.x(7), at, 0), si = taken(c_.x(8), at, 0);
    const bool interleaved = c_.i("rotary_interleaved", 0) != 0;
    p_.q = turned_by(p_.q, co, si, interleaved);
    p_.k = turned_by(p_.k, co, si, interleaved);
  }
  /// The old keys or values with the new rows behind those of each lane. It has room for the longest lane.
  node cached(std::size_t past, const node& fresh) const {
    if (!c_.has(past)) return fresh;
    node old = c_.x(past);
    const dim room = size_of_axis(old, 2);
    if (old.rank() != 4) c_.refuse("its past is " + text_of(extents_of(old)));
    if (room < total_) old = padded(old, extents(4, dim(0)), {dim(0), dim(0), total_ - room, dim(0)}, 0);
    const extents e = extents_of(fresh);
    const node at = broadcast_to(plus(iota(dtype::i64, {dim(1), dim(1), e[2], dim(1)}, 2), before_), e);
    return ir::scatter(old, at, fresh, op::identity, 2);
  }
  node attended_rows() const {
    const double cap = c_.f("softcap", 0);
    attention_form form(c_);
    const double scale = form.scale_for(c_, size_of_axis(p_.q, 3));
    const bool extra = c_.has(11) || c_.i("smooth_softmax", 0) != 0;
    const dim keys = size_of_axis(p_.k, 2);
    // A further key of zeros carries the sink's score; its value adds nothing.
    const auto longer = [&](const node& x) {
      return extra ? padded(x, extents(4, dim(0)), {dim(0), dim(0), dim(1), dim(0)}, 0) : x;
    };
    return attended(p_.q, longer(p_.k), longer(p_.v), [&](const node& products) {
      seen_scores s{products * scale, {}};
      const extents e = extents_of(products), plane{dim(1), dim(1), e[2], e[3]};
      if (cap > 0) s.score = tanh_of(s.score / cap) * cap;
      if (c_.has(10)) s.score = plus(s.score, bias_of(keys, e[3]));
      const node at = iota(dtype::i64, plane, 3), row = plus(iota(dtype::i64, plane, 2), before_);
      s.allowed = pointwise(op::le, at, row);
      if (const std::int64_t window = c_.i("local_window_size", -1); window > 0)
        s.allowed = pointwise(op::bit_and, s.allowed, pointwise(op::gt, at, minus(row, integer(window))));
      if (!extra) return s;
      const node is_sink = pointwise(op::eq, at, size_node(keys, dtype::i64));
      const node sink = c_.has(11) ? reshape_to(to_type(c_.x(11), s.score.type()), {dim(1), heads_, dim(1), dim(1)})
                                   : constant(s.score.type(), 0);
      s.score = choose(is_sink, sink, s.score);
      s.allowed = pointwise(op::bit_or, s.allowed, is_sink);
      return s;
    });
  }
  /// The bias of the scores, with zeros for keys that it lacks.
  node bias_of(dim keys, dim width) const {
    const node b = wide(c_.x(10));
    const dim has = size_of_axis(b, 3);
    const node all = always_equal(has, keys) || has >= keys ? sliced(b, 3, 0, keys) : b;
    const dim more = width - size_of_axis(all, 3);
    return always_equal(more, 0) ? all : padded(all, extents(4, dim(0)), {dim(0), dim(0), dim(0), more}, 0);
  }

  call& c_;
  dim heads_, groups_, rows_, total_;
  projected p_;
  node before_;
};
inline void group_query_attention(call& c) { grouped_call(c).run(); }

inline const row heads[] = {
    {"Attention", "com.microsoft", 1, packed_attention, "matmul, attention"},
    {"GroupQueryAttention", "com.microsoft", 1, group_query_attention, "rotary, scatter, attention"},
    {"MultiHeadAttention", "com.microsoft", 1, multi_head_attention, "concat, attention"},
    {"RotaryEmbedding", "com.microsoft", 1, rotary_at, "take, rotary"},
};

}  // namespace sinter::onnx::rows
