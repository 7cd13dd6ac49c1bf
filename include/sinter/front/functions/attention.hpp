// front/functions/attention.hpp: attention as products, masks and a softmax; its caches, its options, and rotary encoding of places.
#pragma once

#include <cmath>

#include "factories.hpp"
#include "indexing.hpp"
#include "join.hpp"
#include "matmul.hpp"
#include "nn.hpp"
#include "places.hpp"
#include "pointwise.hpp"

namespace sinter {

namespace detail {

struct causal_t {};
template <std::int64_t Width>
struct sliding_t {
  static_assert(Width > 0, "sinter: [attention] sliding<W> takes a width of at least 1");
};
template <class F>
struct scored_t {
  F f;
};
template <class M>
struct masked_t {
  M mask;
};
struct scaled_t {
  double by;
};
struct no_option {};

/// The option of a type; -1: not an option.
template <class O>
inline constexpr int attention_option = -1;
template <>
inline constexpr int attention_option<no_option> = 0;
template <>
inline constexpr int attention_option<causal_t> = 1;
template <std::int64_t W>
inline constexpr int attention_option<sliding_t<W>> = 2;
template <class F>
inline constexpr int attention_option<scored_t<F>> = 3;
template <class M>
inline constexpr int attention_option<masked_t<M>> = 4;
template <>
inline constexpr int attention_option<scaled_t> = 5;

}  // namespace detail

/// attention: a query sees the keys up to its own place. The last query is at the place of the last key.
inline constexpr detail::causal_t causal{};
/// attention: a query sees W keys, up to its own place; without `causal` it also sees the W - 1 keys after it.
template <std::int64_t W>
inline constexpr detail::sliding_t<W> sliding{};
/// attention: replaces each score by f(score, batch, head, i, j). The arguments are tensors that broadcast against one another:
/// the scores, and the numbers of the batch, of the query's head, and of the places of query and key.
template <class F>
constexpr auto scored(F f) {
  return detail::scored_t<F>{std::move(f)};
}
/// attention: only keys with a true mask count. The mask is a bool tensor that broadcasts to
/// (…, heads, queries, keys), or a function f(batch, head, i, j) of `scored`'s numbers.
template <class M>
constexpr auto masked(M mask) {
  return detail::masked_t<M>{std::move(mask)};
}
/// attention: multiplies scores by this number instead of 1 / sqrt(extent of a query).
constexpr auto scaled(double by) { return detail::scaled_t{by}; }

namespace detail {

/// A mask is a function, or a bool tensor with at most the axes of the scores.
template <class O, int Rank>
inline constexpr bool is_mask = true;
template <tensor_like M, int Rank>
inline constexpr bool is_mask<masked_t<M>, Rank> = std::is_same_v<element_of<M>, bool>&& M::rank <= Rank;

template <int Rank, class... O>
constexpr bool check_options() {
  constexpr int which[] = {attention_option<O>...};
  constexpr bool known = ((attention_option<O> >= 0) && ...);
  static_assert(known,
                "sinter: [attention] after q, k, v come causal, sliding<W>, scored(f), masked(f or a bool tensor) and "
                "scaled(number)");
  constexpr bool once = [&] {
    for (std::size_t i = 0; i < std::size(which); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (which[i] > 0 && which[i] == which[j]) return false;
    return true;
  }();
  static_assert(once, "sinter: [attention] an option is given twice");
  constexpr bool masks = (is_mask<O, Rank> && ...);
  static_assert(
      masks,
      "sinter: [attention] a mask is a function, or a bool tensor that broadcasts to (…, heads, queries, keys); "
      "compare, for example bias > -1");
  return known && once && masks;
}

/// Whether static extents show that two axes differ.
constexpr bool differ(const dims& a, int i, const dims& b, int j) { return a[i] != dyn && b[j] != dyn && a[i] != b[j]; }

template <class Q, class K, class V>
constexpr bool check_attention() {
  constexpr bool ranks = Q::rank == K::rank && K::rank == V::rank && Q::rank >= 2;
  static_assert(ranks,
                "sinter: [attention] q, k and v have one rank, at least 2: (…, heads, places, features); without heads "
                "(places, features)");
  constexpr bool types = std::is_same_v<element_of<Q>, element_of<K>> && std::is_same_v<element_of<K>, element_of<V>>;
  static_assert(types, "sinter: [attention] q, k and v have different dtypes; cast one with cast<T>(x)");
  constexpr bool floats = is_float(dtype_of<element_of<Q>>);
  static_assert(floats, "sinter: [attention] takes a floating dtype; cast with cast<float>(x)");
  if constexpr (ranks && types && floats) {
    constexpr int r = Q::rank;
    constexpr dims q = Q::static_shape, k = K::static_shape, v = V::static_shape;
    constexpr bool features = !differ(q, r - 1, k, r - 1);
    static_assert(features, "sinter: [attention] q and k have different static extents of features");
    constexpr bool places = !differ(k, r - 2, v, r - 2);
    static_assert(places, "sinter: [attention] k and v have different static numbers of places");
    constexpr bool heads = [&] {
      if (r < 3) return true;
      const dim a = q[r - 3], b = k[r - 3];
      return !differ(k, r - 3, v, r - 3) && (a == dyn || b == dyn || (b != 0 && a % b == 0) || a == b);
    }();
    static_assert(heads,
                  "sinter: [attention] k and v have one static number of heads, of which that of q is a multiple");
    return features && places && heads;
  } else {
    return false;
  }
}

/// user_error for run-time extents that do not fit.
inline void check_attention(const dims& q, const dims& k, const dims& v, location at) {
  const auto refuse = [&](const char* why) {
    fail("attention", std::string(why) + ": q is " + text::shape(q) + ", k " + text::shape(k) + ", v " + text::shape(v),
         at);
  };
  const int r = q.rank;
  if (q[r - 1] != k[r - 1]) refuse("q and k have different extents of features");
  if (k[r - 2] != v[r - 2]) refuse("k and v have different numbers of places");
  for (int i = 0; i < r - 2; ++i)
    if (k[i] != v[i]) refuse("k and v have different leading extents");
  for (int i = 0; i < r - 3; ++i)
    if (q[i] != k[i]) refuse("q and k have different leading extents");
  if (r > 2 && (k[r - 3] == 0 ? q[r - 3] != 0 : q[r - 3] % k[r - 3] != 0))
    refuse("the heads of q are no multiple of those of k");
}

/// One attention: its extents, and the places of its scores.
template <int Rank>
struct attention_places {
  using index = index_leaf<std::int64_t, dims(Rank)>;
  dims q, k;

  dim queries() const { return q[Rank - 2]; }
  dim keys() const { return k[Rank - 2]; }
  /// Extents with k's heads; the queries of all heads that share a key head lie along one axis.
  dims grouped(dim last) const {
    dims to = q;
    to[Rank - 1] = last;
    if constexpr (Rank > 2) {
      to[Rank - 3] = k[Rank - 3];
      to[Rank - 2] = (k[Rank - 3] == 0 ? dim(0) : q[Rank - 3] / k[Rank - 3]) * q[Rank - 2];
    }
    return to;
  }
  dims scores() const {
    dims to = q;
    to[Rank - 1] = keys();
    return to;
  }
  index along(int axis) const {
    index_array<Rank> extents;
    extents.fill(1);
    const auto a = static_cast<std::size_t>(axis);
    extents[a] = axis == Rank - 1 ? keys() : q[axis];
    return index(extents, axis);
  }
  /// Row-major numbers of the axes before the heads.
  index batch() const {
    index_array<Rank> extents;
    extents.fill(1);
    dims to(Rank);
    for (int i = 0; i < Rank; ++i) {
      to[i] = i < Rank - 3 ? q[i] : dim(1);
      extents[static_cast<std::size_t>(i)] = to[i];
    }
    return index(extents, -1);
  }
};

/// The first option of a kind, or no_option.
template <int Which, class... O>
const auto& option_of(const O&... options) {
  static constexpr no_option none{};
  const auto pick = [](const auto& self, const auto& first, const auto&... more) -> const auto& {
    if constexpr (attention_option<std::remove_cvref_t<decltype(first)>> == Which) return first;
    else if constexpr (sizeof...(more) > 0) return self(self, more...);
    else return none;
  };
  if constexpr (sizeof...(O) == 0) return none;
  else return pick(pick, options...);
}

template <class O>
inline constexpr bool is_given = !std::is_same_v<O, no_option>;

/// Both conditions; either may be absent.
template <class A, class B>
auto both(const A& a, const B& b, location at) {
  if constexpr (!is_given<A>) return b;
  else if constexpr (!is_given<B>) return a;
  else return bit_and(a, b, at);
}

/// The keys that each query sees, as a bool expression, or no_option. `place` is a query's place among the keys.
template <class Causal, class Sliding, class Masked, class Place, int Rank>
auto attention_mask(const Causal&, const Sliding&, const Masked& masked, const attention_places<Rank>& p,
                    const Place& place, location at) {
  const auto key = p.along(Rank - 1);
  const auto before = [&] {
    if constexpr (is_given<Causal>) return le(key, place, at);
    else return no_option{};
  }();
  const auto near = [&]<class S>(const S&) {
    if constexpr (is_given<S>) {
      constexpr std::int64_t width = []<std::int64_t W>(sliding_t<W>) { return W; }(S{});
      const auto behind = lt(sub(place, key, at), width, at);
      if constexpr (is_given<Causal>) return behind;
      else return both(behind, lt(sub(key, place, at), width, at), at);
    } else {
      return no_option{};
    }
  };
  const auto chosen = [&] {
    if constexpr (!is_given<Masked>) {
      return no_option{};
    } else if constexpr (tensor_like<decltype(masked.mask)>) {
      return masked.mask;
    } else {
      return masked.mask(p.batch(), p.along(Rank > 2 ? Rank - 3 : Rank - 2), place, key);
    }
  };
  return both(both(before, near(Sliding{}), at), chosen(), at);
}

/// The softmax of scores where the mask holds; no_option: of all.
template <class S, class Mask>
auto masked_softmax(const S& s, const Mask& mask, location at) {
  const handle scores = untyped(s, at);
  if constexpr (is_given<Mask>) {
    const handle seen = untyped(mask, at);
    return typed<element_of<S>, S::static_shape>(softmax_of_seen(scores, &seen, at), at);
  } else {
    return typed<element_of<S>, S::static_shape>(softmax_of_seen(scores, nullptr, at), at);
  }
}

/// user_error for an operand that does not broadcast to the scores.
template <class X>
void check_scores(const char* what, const X& x, const dims& scores, location at) {
  if constexpr (is_given<X>) {
    const dims d = to_dims(extents_of(x, at));
    if (op_shapes::broadcast_to(d, scores).error)
      fail("attention",
           std::string(what) + " is " + text::shape(d) + ", which does not broadcast to the scores, " +
               text::shape(scores),
           at);
  }
}

/// The attention as one op of the trace; a handle without a tracer where a score depends on more than its own place.
template <class Q, class K, class V, class Products, class Score, class Mask>
handle attention_node(const Q& q, const K& k, const V& v, const Products& products, const Score& score,
                      const Mask& mask, bool guarded, location at) {
  const handle of[] = {untyped(q, at), untyped(k, at), untyped(v, at), untyped(products, at), untyped(score, at)};
  if constexpr (is_given<Mask>) {
    const handle seen = untyped(mask, at);
    return traced_attention({&of[0], &of[1], &of[2], &of[3], &of[4], &seen, guarded, at});
  } else {
    return traced_attention({&of[0], &of[1], &of[2], &of[3], &of[4], nullptr, guarded, at});
  }
}

/// `length`: the number of keys, a rank-0 tensor; no_option: all.
template <class Q, class K, class V, class Length, class... O>
auto attention_of(const Q& q, const K& k, const V& v, const Length& length, location at, const O&... options) {
  constexpr int r = Q::rank;
  using T = element_of<Q>;
  const attention_places<r> p{to_dims(extents_of(q, at)), to_dims(extents_of(k, at))};
  const dims values = to_dims(extents_of(v, at));
  check_attention(p.q, p.k, values, at);
  constexpr dims shape = [] {
    dims to = Q::static_shape;
    to[r - 1] = V::static_shape[r - 1];
    return to;
  }();
  dims to = p.q;
  to[r - 1] = values[r - 1];
  if (p.keys() == 0) {
    index_array<r> extents;
    std::copy(to.begin(), to.end(), extents.begin());
    return filled<T, shape>("attention", T(0), extents, same_device(q, at), at);
  }
  const auto products = matmul(reshape_to<Q, dims(r)>(q, p.grouped(p.q[r - 1]), at), sinter::transpose(k, at), at);
  const auto& scale = option_of<5>(options...);
  const auto factor = [&] {
    if constexpr (is_given<std::remove_cvref_t<decltype(scale)>>) return scale.by;
    else return p.q[r - 1] == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(std::int64_t(p.q[r - 1])));
  }();
  const auto plain = reshape_to<decltype(products), dims(r)>(products, p.scores(), at);
  const auto scores = detail::evaluate(mul(wide(plain, at), formula_number{factor}, at), at);
  const auto place = [&] {
    if constexpr (is_given<Length>) return add(p.along(r - 2), sub(length, p.queries(), at), at);
    else return add(p.along(r - 2), p.keys() - p.queries(), at);
  }();
  const auto changed = [&]<class F>(const F& score) {
    if constexpr (!is_given<F>) return scores;
    else {
      const auto given = score.f(scores, p.batch(), p.along(r > 2 ? r - 3 : r - 2), place, p.along(r - 1));
      check_scores("what `scored` gives", given, p.scores(), at);
      return detail::evaluate(cast<element_of<std::remove_cvref_t<decltype(scores)>>>(given, at), at);
    }
  };
  const auto known = [&] {
    if constexpr (is_given<Length>) return lt(p.along(r - 1), length, at);
    else return no_option{};
  }();
  const auto seen =
      attention_mask(option_of<1>(options...), option_of<2>(options...), option_of<4>(options...), p, place, at);
  const auto mask = both(known, seen, at);
  check_scores("the mask", mask, p.scores(), at);
  constexpr bool plainly = !is_given<std::remove_cvref_t<decltype(mask)>> &&
                           !is_given<std::remove_cvref_t<decltype(option_of<3>(options...))>>;
  if (tracing())
    if (const auto y = attention_node(q, k, v, wide(plain, at), changed(option_of<3>(options...)), mask, !plainly, at);
        y.tracer)
      return typed<T, shape>(y, at);
  const auto weights = [&] {
    if constexpr (plainly) return narrow<T>(softmax_over<-1>(scores, at), at);
    else return narrow<T>(masked_softmax(changed(option_of<3>(options...)), mask, at), at);
  }();
  const auto result = matmul(reshape_to<decltype(weights), dims(r)>(weights, p.grouped(p.keys()), at), v, at);
  return reshape_to<decltype(result), shape>(result, to, at);
}

}  // namespace detail

/// softmax(q kᵀ / sqrt(features)) v (Vaswani et al., 2017). Extents: q (…, heads, queries, features), k (…, key heads, keys,
/// features), v (…, key heads, keys, values); the result has (…, heads, queries, values). Queries of heads / key heads
/// successive heads share keys (Ainslie et al., 2023). Rank 2 has no heads. Options follow in any order: `causal`, `sliding<W>`,
/// `scored(f)`, `masked(f or tensor)`, `scaled(number)`. A query that sees no key gets 0. One floating dtype; scores of f16 and
/// bf16 are normalised in f32. user_error for extents that do not fit.
template <tensor_like Q, tensor_like K, tensor_like V, class A = detail::no_option, class B = detail::no_option,
          class C = detail::no_option, class D = detail::no_option, class E = detail::no_option>
auto attention(const Q& q, const K& k, const V& v, const A& a = {}, const B& b = {}, const C& c = {}, const D& d = {},
               const E& e = {}, location where = location::current()) {
  if constexpr (detail::check_attention<Q, K, V>() && detail::check_options<Q::rank, A, B, C, D, E>()) {
    const location at = where.in("attention");
    return detail::attention_of(q, k, v, detail::no_option{}, at, a, b, c, d, e);
  } else {
    return q;
  }
}

/// Keys and values of the `length` places seen so far, in tensors (…, heads, capacity, features) with room for more. A cache is a
/// tree: it passes through compiled functions, and append writes into it if it is donated.
template <element T, int Rank = 4>
struct attention_cache {
  tensor<T, Rank> k, v;
  tensor<std::int64_t, 0> length;
};

/// An empty cache of these extents, with places on the last axis but one: make_attention_cache<float>({batch, heads, capacity,
/// features}). `values`: the extent of v's last axis, by default k's. user_error for a negative extent.
template <element T, std::size_t R>
requires(R >= 2) attention_cache<T, int(R)> make_attention_cache(const dim (&extents)[R], dim values = -1,
                                                                 detail::target where = {},
                                                                 location here = location::current()) {
  const location at = here.in("make_attention_cache");
  constexpr dims shape(static_cast<int>(R));
  index_array<int(R)> k, v;
  std::copy(std::begin(extents), std::end(extents), k.begin());
  v = k;
  if (!(values == -1)) v[R - 1] = values;
  const auto blank = [&](const index_array<int(R)>& e) {
    return detail::filled<T, shape>("make_attention_cache", T(0), e, where, at, true);
  };
  return {blank(k), blank(v), detail::filled<std::int64_t, dims(0)>("make_attention_cache", 0, {}, where, at, true)};
}

namespace detail {

template <class T, int Rank, class X>
constexpr bool fits_cache() {
  constexpr bool fits = X::rank == Rank && std::is_same_v<element_of<X>, T>;
  static_assert(fits, "sinter: [append] k and v have the rank and the dtype of the cache");
  return fits;
}

/// `all` with x written at the places from `length` on.
template <class T, int Rank, class X>
tensor<T, Rank> appended(const tensor<T, Rank>& all, const X& x, const tensor<std::int64_t, 0>& length,
                         const char* name, location at) {
  const dims have = to_dims(extents_of(all, at)), more = to_dims(extents_of(x, at));
  for (int i = 0; i < Rank; ++i)
    if (i == Rank - 2 ? more[i] > have[i] : more[i] != have[i])
      fail("append",
           std::string(name) + " of " + text::shape(more) + " does not fit a cache of " + text::shape(have) +
               ": extents but that of places are equal, and places no more than there is room for",
           at);
  const auto zero = filled<std::int64_t, dims(0)>("append", 0, {}, same_device(all, at), at, true);
  std::vector<handle> starts(static_cast<std::size_t>(Rank), untyped(zero, at));
  starts[static_cast<std::size_t>(Rank - 2)] = untyped(length, at);
  const auto begin = typed<std::int64_t, dims(1)>(views::stack(starts, 0, at), at);
  return dynamic_update_slice(all, x, begin, at);
}

}  // namespace detail

/// The cache with keys and values of further places, k and v (…, heads, places, features). user_error for other extents, and
/// eagerly without enough room. A trace does not know the length: without enough room the new places replace the last ones, and
/// the length becomes the capacity. Compare the two before the call.
template <element T, int Rank, tensor_like K, tensor_like V>
attention_cache<T, Rank> append(const attention_cache<T, Rank>& cache, const K& k, const V& v,
                                location here = location::current()) {
  if constexpr (detail::fits_cache<T, Rank, K>() && detail::fits_cache<T, Rank, V>()) {
    const location at = here.in("append");
    const dim places = detail::extents_of(k, at)[std::size_t(Rank - 2)];
    if (places != detail::extents_of(v, at)[std::size_t(Rank - 2)])
      fail("append", "k and v have different numbers of places", at);
    const dim capacity = detail::extents_of(cache.k, at)[std::size_t(Rank - 2)];
    if (!detail::tracing()) {
      const std::int64_t before = cache.length.item(at);
      if (before + places > capacity)
        fail("append",
             "the cache has " + std::to_string(before) + " places of " + capacity.text() + ", and no room for " +
                 places.text() + " more; make a larger one with make_attention_cache",
             at);
    }
    auto next = detail::appended<T, Rank>(cache.k, detail::evaluate(k, at), cache.length, "k", at);
    auto values = detail::appended<T, Rank>(cache.v, detail::evaluate(v, at), cache.length, "v", at);
    return {std::move(next), std::move(values),
            detail::evaluate(minimum(add(cache.length, places, at), capacity, at), at)};
  } else {
    return cache;
  }
}

/// attention of queries, the last of which is at the cache's last place. Places beyond `length` are not seen.
template <tensor_like Q, element T, int Rank, class A = detail::no_option, class B = detail::no_option,
          class C = detail::no_option, class D = detail::no_option, class E = detail::no_option>
auto attention(const Q& q, const attention_cache<T, Rank>& cache, const A& a = {}, const B& b = {}, const C& c = {},
               const D& d = {}, const E& e = {}, location where = location::current()) {
  using kept = tensor<T, Rank>;
  if constexpr (detail::check_attention<Q, kept, kept>() && detail::check_options<Q::rank, A, B, C, D, E>()) {
    const location at = where.in("attention");
    return detail::attention_of(q, cache.k, cache.v, cache.length, at, a, b, c, d, e);
  } else {
    return q;
  }
}

struct rotary_options {
  double base = 10000;
  bool interleaved = false;  ///< pairs are neighbours; otherwise the first half pairs with the second
};

namespace detail {

template <class X, class P>
constexpr bool check_rotary() {
  constexpr bool ranks = X::rank >= 2 && P::rank < X::rank;
  static_assert(ranks, "sinter: [rotary] x is (…, places, features), positions have fewer axes");
  constexpr bool floats = is_float(dtype_of<element_of<X>>);
  static_assert(floats, "sinter: [rotary] takes a floating dtype; cast with cast<float>(x)");
  constexpr bool places = is_integer(dtype_of<element_of<P>>);
  static_assert(places, "sinter: [rotary] positions are integers");
  return ranks && floats && places;
}

template <class X, class P>
auto turned(const X& x, const P& positions, const rotary_options& how, location at) {
  constexpr int r = X::rank;
  using T = typename X::value_type;
  const auto wider = evaluate(wide(x, at), at);
  using W = typename std::remove_cvref_t<decltype(wider)>::value_type;
  const dim features = wider.size(r - 1, at), half = features / 2;
  if (features % 2 != 0)
    fail("rotary", "the last axis has " + std::to_string(std::int64_t(features)) + " features; pairs of them turn", at);
  const dims places = to_dims(extents_of(positions, at));
  if (const dims rows = op_shapes::part(to_dims(wider.shape()), 0, r - 1); op_shapes::broadcast_to(places, rows).error)
    fail("rotary",
         "positions are " + text::shape(places) + ", x is " + text::shape(to_dims(wider.shape())) +
             "; they broadcast to its extents but the last",
         at);
  const double step = features == 0 ? 0.0 : -2.0 * std::log(how.base) / static_cast<double>(std::int64_t(features));
  const index_leaf<std::int64_t, dims{dyn}> pair({half}, 0);
  // In f32 an angle of many turns would be off by as many roundings.
  const auto rate = evaluate(exp(mul(sinter::cast<double>(pair, at), formula_number{step}, at), at), at);
  const auto angle =
      evaluate(mul(sinter::cast<double>(sinter::expand_dims<-1>(evaluate(positions, at), at), at), rate, at), at);
  const auto c = evaluate(sinter::cast<W>(cos(angle, at), at), at);
  const auto s = evaluate(sinter::cast<W>(sin(angle, at), at), at);
  const auto part = [&](bool second) {
    return how.interleaved ? tensor<W, r>(sinter::slice<-1>(wider, second ? 1 : 0, to_end, 2, at))
                           : tensor<W, r>(second ? sinter::slice<-1>(wider, half, to_end, 1, at)
                                                 : sinter::slice<-1>(wider, 0, half, 1, at));
  };
  const auto first = part(false), second = part(true);
  const tensor<W, r> a = evaluate(sub(mul(first, c, at), mul(second, s, at), at), at);
  const tensor<W, r> b = evaluate(add(mul(second, c, at), mul(first, s, at), at), at);
  constexpr dims shape = X::static_shape;
  const dims to = to_dims(wider.shape());
  const auto joined = [&] {
    if (!how.interleaved) return tensor<W, r>(concat_all<-1>(at, a, b));
    const tensor<W, r + 1> pairs = stack_all<-1>(at, a, b);
    return tensor<W, r>(reshape_to<tensor<W, r + 1>, dims(r)>(pairs, to, at));
  }();
  return narrow<T>(reshape_to<tensor<W, r>, shape>(joined, to, at), at);
}

}  // namespace detail

/// Rotates pairs of features by their place · base^(-2i / features) (Su et al., 2021): x (…, places, features). Positions are
/// integers that broadcast to x's extents without the last. Floating dtypes; angles are in f64. user_error for an odd number of
/// features, and for positions of other extents.
template <tensor_like X, tensor_like P>
auto rotary(const X& x, const P& positions, const rotary_options& how = {}, location where = location::current()) {
  if constexpr (detail::check_rotary<X, P>()) return detail::turned(x, positions, how, where.in("rotary"));
  else return x;
}
/// Rotates pairs of features by the places 0, 1, … of x, as rotary(x, positions) does.
template <tensor_like X>
auto rotary(const X& x, const rotary_options& how = {}, location where = location::current()) {
  using places = detail::index_leaf<std::int64_t, dims{dyn}>;
  if constexpr (detail::check_rotary<X, places>())
    return rotary(x, places({detail::extents_of(x, where)[X::rank - 2]}, 0), how, where);
  else return x;
}

/// For `scored`: subtracts each head's slope times the distance from key to query (Press et al., 2022).
inline auto alibi(std::int64_t heads) {
  std::int64_t even = 1;
  while (even * 2 <= heads) even *= 2;
  const double first = -8.0 / static_cast<double>(even), other = first / 2;
  return scored([=](const auto& score, const auto&, const auto& head, const auto& i, const auto& j) {
    using T = typename std::remove_cvref_t<decltype(score)>::value_type;
    const auto h = cast<T>(head);
    const auto power = where(head < even, (h + T(1)) * T(first), ((h - T(even)) * T(2) + T(1)) * T(other));
    return score + exp2(power) * cast<T>(j - i);
  });
}

}  // namespace sinter
