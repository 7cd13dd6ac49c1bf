// nn/attention.hpp: attention layers with their projections, and the transformer block.
#pragma once

#include <utility>

#include "dropout.hpp"
#include "norms.hpp"

namespace sinter::nn {

struct attention_options {
  std::int64_t heads = 1;
  std::int64_t key_heads = 0;   ///< heads of keys and values, a divisor of `heads`; 0: each head has its own
  std::int64_t head_width = 0;  ///< 0: the width divided by the heads
  bool bias = true;
  initializer weight = torch_uniform();
};

namespace detail {

/// The numbers of heads, and their width.
struct head_plan {
  std::int64_t heads, key_heads, width;
};
inline head_plan plan_heads(const char* op, std::int64_t width, const attention_options& how, location at) {
  check_size(op, "the width", width, at);
  check_size(op, "the number of heads", how.heads, at);
  const std::int64_t keys = how.key_heads == 0 ? how.heads : how.key_heads;
  if (keys < 1 || how.heads % keys != 0)
    fail(op, std::to_string(how.heads) + " heads are no multiple of " + std::to_string(keys) + " key heads", at);
  if (how.head_width == 0 && width % how.heads != 0)
    fail(op,
         std::to_string(how.heads) + " heads do not divide the width, " + std::to_string(width) +
             "; give heads that do, or .head_width",
         at);
  return {how.heads, keys, how.head_width == 0 ? width / how.heads : how.head_width};
}

/// `count` heads from column `first` on: (…, places, columns) to (…, count, places, width).
template <class X>
auto heads_of(const X& x, const dim& first, std::int64_t count, const dim& width, location at) {
  constexpr int r = X::rank;
  using T = typename X::value_type;
  const tensor<T, r> part = sinter::slice(x, axis<-1>, first, first + width * dim(count), 1, at);
  const tensor<T, r + 1> apart = reshape(part, extents_with<r + 1>(part.shape(), std::array<dim, 2>{count, width}), at);
  return tensor<T, r + 1>(swapaxes<-3, -2>(apart, at));
}

/// (…, heads, places, width) to (…, places, heads · width).
template <class X>
auto joined_heads(const X& x, location at) {
  constexpr int r = X::rank;
  using T = typename X::value_type;
  const tensor<T, r> placed = sinter::detail::evaluate(swapaxes<-3, -2>(x, at), at);
  const auto all = placed.shape();
  std::array<dim, r - 1> to;
  for (std::size_t i = 0; i + 2 < r; ++i) to[i] = all[i];
  to[r - 2] = all[r - 2] * all[r - 1];
  return tensor<T, r - 1>(reshape(placed, to, at));
}

template <class X>
constexpr bool is_sequence() {
  constexpr bool right = X::rank >= 2 && is_float(dtype_of<typename X::value_type>);
  static_assert(right, "sinter: [nn] attention takes (…, places, features) of a floating dtype");
  return right;
}

}  // namespace detail

/// The number of a map's outputs.
template <class T>
dim map_outputs(const linear<T>& map, location at) {
  return map.weight.size(1, at);
}
/// The device of a map's weights.
template <class T>
sinter::detail::target map_device(const linear<T>& map, location at) {
  return sinter::detail::same_device(map.weight, at);
}

/// No encoding of places.
struct unplaced {
  template <class X>
  const X& operator()(const X& x, location) const {
    return x;
  }
  template <class X, class First>
  const X& operator()(const X& x, const First&, location) const {
    return x;
  }
};
/// Rotates queries and keys by their places (Su et al., 2021), as sinter::rotary does: self_attention<float, rotary>.
struct rotary {
  constant base = 10000;
  bool interleaved = false;

  template <class X>
  X operator()(const X& x, location at) const {
    return sinter::rotary(x, rotary_options{base, interleaved}, at);
  }
  /// The tensor `first` is the first place.
  template <class X, class First>
  X operator()(const X& x, const First& first, location at) const {
    const auto along = arange<std::int64_t>(x.size(X::rank - 2, at), sinter::detail::same_device(x, at), at);
    return sinter::rotary(x, sinter::detail::evaluate(add(along, first, at), at), rotary_options{base, interleaved},
                          at);
  }
};

/// Attention among the places of one sequence (Vaswani et al., 2017), with projections before and after it. `Map`: the type of the
/// projections, which `map_outputs` and `map_device` describe.
template <class T, class Places = unplaced, class Map = linear<T>>
struct self_attention {
  Map qkv;  ///< columns of queries, then of keys, then of values, head by head
  Map out;
  std::int64_t heads = 1, key_heads = 1;
  Places places;  ///< encodes places in queries and keys, (…, heads, places, width)

  SINTER_LAYER_INIT("nn::self_attention", "key, width", key, std::int64_t)
  static self_attention init(const key& k, std::int64_t width, const attention_options& how = {},
                             location at = location::current()) {
    const auto plan = detail::plan_heads("nn::self_attention", width, how, at);
    const linear_options columns{how.bias, how.weight};
    const auto [first, second] = split(k, at);
    return {Map::init(first, width, (plan.heads + 2 * plan.key_heads) * plan.width, columns, at),
            Map::init(second, plan.heads * plan.width, width, columns, at), plan.heads, plan.key_heads, Places{}};
  }

  SINTER_LAYER_CALLS("nn::self_attention",
                     "layer(x), x a tensor (batch, places, width), with options of attention behind it")
  /// Maps x (…, places, width) to the same shape. Options of `attention` follow x: causal, sliding<W>, masked(m), scored(f).
  template <tensor_like X, class A = sinter::detail::no_option, class B = sinter::detail::no_option,
            class C = sinter::detail::no_option>
  auto operator()(const X& x, const A& a = {}, const B& b = {}, const C& c = {},
                  location here = location::current()) const {
    const location at = here.in("nn::self_attention");
    if constexpr (detail::is_sequence<X>()) {
      const tensor<T, X::rank> y = qkv(x, at);
      const dim width = y.size(X::rank - 1, at) / dim(heads + 2 * key_heads);
      const auto part = [&](std::int64_t first, std::int64_t count) {
        return detail::heads_of(y, width * dim(first), count, width, at);
      };
      const auto q = places(part(0, heads), at);
      const auto keys = places(part(heads, key_heads), at);
      const auto mixed = sinter::attention(q, keys, part(heads + key_heads, key_heads), a, b, c, {}, {}, at);
      return tensor<T, X::rank>(out(detail::joined_heads(mixed, at), at));
    } else {
      return x;
    }
  }

  /// An empty cache for the keys and values of up to `capacity` places of each sequence in the batch.
  attention_cache<T, 4> cache(const dim& batch, const dim& capacity, location at = location::current()) const {
    const dim width = map_outputs(qkv, at) / dim(heads + 2 * key_heads);
    return make_attention_cache<T>({batch, dim(key_heads), capacity, width}, dim(-1), map_device(qkv, at), at);
  }
  /// Treats x as the places after the cached places, and attends to both. Returns the result and the longer cache:
  /// `auto [y, next] = mix(x, cache, causal)`. The cache needs room for x.
  template <tensor_like X, int Rank, class A = sinter::detail::no_option, class B = sinter::detail::no_option,
            class C = sinter::detail::no_option>
  std::pair<tensor<T, X::rank>, attention_cache<T, Rank>> operator()(const X& x, const attention_cache<T, Rank>& before,
                                                                     const A& a = {}, const B& b = {}, const C& c = {},
                                                                     location here = location::current()) const {
    const location at = here.in("nn::self_attention");
    constexpr bool right = Rank == X::rank + 1;
    static_assert(right, "sinter: [nn::self_attention] a cache has one axis more than x: (…, heads, places, features)");
    if constexpr (right && detail::is_sequence<X>()) {
      const tensor<T, X::rank> y = qkv(x, at);
      const dim width = y.size(X::rank - 1, at) / dim(heads + 2 * key_heads);
      const auto part = [&](std::int64_t first, std::int64_t count) {
        return detail::heads_of(y, width * dim(first), count, width, at);
      };
      const auto q = places(part(0, heads), before.length, at);
      const auto keys = places(part(heads, key_heads), before.length, at);
      auto all = append(before, keys, part(heads + key_heads, key_heads), at);
      const auto mixed = sinter::attention(q, all, a, b, c, {}, {}, at);
      return {tensor<T, X::rank>(out(detail::joined_heads(mixed, at), at)), std::move(all)};
    } else {
      return {tensor<T, X::rank>(x), before};
    }
  }
};

/// Attention of the places of one sequence to the places of another.
template <class T>
struct cross_attention {
  linear<T> query;
  linear<T> kv;  ///< columns of keys, then of values, head by head
  linear<T> out;
  std::int64_t heads = 1, key_heads = 1;

  SINTER_LAYER_INIT("nn::cross_attention", "key, width, context", key, std::int64_t, std::int64_t)
  /// For x with `width` features and a context with `context` features.
  static cross_attention init(const key& k, std::int64_t width, std::int64_t context, const attention_options& how = {},
                              location at = location::current()) {
    const auto plan = detail::plan_heads("nn::cross_attention", width, how, at);
    const linear_options columns{how.bias, how.weight};
    const auto [first, second, third] = split<3>(k, at);
    return {linear<T>::init(first, width, plan.heads * plan.width, columns, at),
            linear<T>::init(second, context, 2 * plan.key_heads * plan.width, columns, at),
            linear<T>::init(third, plan.heads * plan.width, width, columns, at), plan.heads, plan.key_heads};
  }

  SINTER_LAYER_CALLS("nn::cross_attention",
                     "layer(x, context), both tensors (batch, places, width), with options of attention behind them")
  /// Maps x (…, places, width) and a context (…, others, features) to (…, places, width).
  template <tensor_like X, tensor_like Y, class A = sinter::detail::no_option, class B = sinter::detail::no_option,
            class C = sinter::detail::no_option>
  auto operator()(const X& x, const Y& context, const A& a = {}, const B& b = {}, const C& c = {},
                  location here = location::current()) const {
    const location at = here.in("nn::cross_attention");
    if constexpr (detail::is_sequence<X>() && detail::is_sequence<Y>()) {
      const tensor<T, X::rank> q = query(x, at);
      const tensor<T, Y::rank> y = kv(context, at);
      const dim width = q.size(X::rank - 1, at) / dim(heads);
      const auto keys = detail::heads_of(y, 0, key_heads, width, at);
      const auto values = detail::heads_of(y, width * dim(key_heads), key_heads, width, at);
      const auto mixed = sinter::attention(detail::heads_of(q, 0, heads, width, at), keys, values, a, b, c, {}, {}, at);
      return tensor<T, X::rank>(out(detail::joined_heads(mixed, at), at));
    } else {
      return x;
    }
  }
};

struct transformer_options {
  attention_options attention = {};
  std::int64_t hidden = 0;  ///< width between the two linear maps; 0: four times the width
};

/// x + attention(norm(x)), then x + down(gelu(up(norm(x)))).
template <class T>
struct transformer_block {
  layer_norm<T> n1, n2;
  self_attention<T> mix;
  linear<T> up, down;

  SINTER_LAYER_INIT("nn::transformer_block", "key, width", key, std::int64_t)
  static transformer_block init(const key& k, std::int64_t width, const transformer_options& how = {},
                                location at = location::current()) {
    const std::int64_t hidden = how.hidden == 0 ? 4 * width : how.hidden;
    const linear_options columns{how.attention.bias, how.attention.weight};
    const auto [first, second, third] = split<3>(k, at);
    return {layer_norm<T>::init(width, {}, at), layer_norm<T>::init(width, {}, at),
            self_attention<T>::init(first, width, how.attention, at),
            linear<T>::init(second, width, hidden, columns, at), linear<T>::init(third, hidden, width, columns, at)};
  }

  SINTER_LAYER_CALLS(
      "nn::transformer_block",
      "block(x) or block(x, dropout), x a tensor (batch, places, width), with options of attention behind them")
  /// Applies dropout to both branches. Options of attention follow.
  template <tensor_like X, class A = sinter::detail::no_option, class B = sinter::detail::no_option>
  auto operator()(const X& x, dropout& drop, const A& a = {}, const B& b = {},
                  location here = location::current()) const {
    const location at = here.in("nn::transformer_block");
    using result = tensor<T, X::rank>;
    const result given = sinter::detail::evaluate(x, at);
    const result h = sinter::detail::evaluate(add(given, drop(mix(n1(given, at), a, b, {}, at), at), at), at);
    const auto wide = sinter::gelu(up(n2(h, at), at), at);
    return result(sinter::detail::evaluate(add(h, drop(down(wide, at), at), at), at));
  }
  template <tensor_like X, class A = sinter::detail::no_option, class B = sinter::detail::no_option>
  requires(!std::is_same_v<A, dropout>) auto operator()(const X& x, const A& a = {}, const B& b = {},
                                                        location at = location::current()) const {
    dropout none;
    return (*this)(x, none, a, b, at);
  }
};

}  // namespace sinter::nn
