// models/stored.hpp: linear maps whose weights are kept as floats or as blocks of small integers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "../nn.hpp"

namespace sinter::models {

/// The weights of one output and of one block share a scale.
inline constexpr std::int64_t block_size = 32;

/// Weights (outputs, inputs) as integers of `bits` bits, 4 or 8, in blocks of 32 along the inputs. The weight of an integer q is
/// (q - 2^(bits - 1)) · scale. The low four bits of a block's bytes are its first 16 weights, the high bits the others. A last block
/// that is not full ends with weights 0.
struct blocks {
  tensor<std::uint8_t, 3> words;  ///< (outputs, blocks, 32 · bits / 8)
  tensor<bf16, 2> scales;         ///< (outputs, blocks)
  std::int64_t inputs = 0, bits = 4;
};

namespace detail {

/// Quantises rows of floats. `words` and `scales` have room for blocks(inputs) blocks of each row. The largest weight of a block
/// becomes ±7 or ±127. A weight that is not finite makes the scale NaN.
SINTER_API void pack_rows(std::span<const float> rows, std::int64_t inputs, std::int64_t bits, std::uint8_t* words,
                          bf16* scales);

/// The weights of some outputs as floats: (outputs, inputs).
template <class T>
tensor<T, 2> unpacked(const tensor<std::uint8_t, 3>& words, const tensor<bf16, 2>& scales, std::int64_t inputs,
                      std::int64_t bits, location at) {
  const dim outputs = words.size(0, at), count = words.size(1, at);
  const std::int64_t parts = 8 / bits;
  const tensor<std::uint8_t, 2> shift = expand_dims<1>(
      arange<std::uint8_t>(parts, sinter::detail::same_device(words, at), at) * static_cast<std::uint8_t>(bits % 8));
  const tensor<std::uint8_t, 4> apart =
      bit_and(shr(expand_dims<2>(words), shift, at), static_cast<std::uint8_t>(bits == 8 ? 255 : 15), at);
  const tensor<bf16, 4> by = reshape(scales, std::array<dim, 4>{outputs, count, 1, 1}, at);
  const tensor<T, 4> all = (cast<T>(apart) - T(bits == 8 ? 128 : 8)) * cast<T>(by);
  return slice<1>(tensor<T, 2>(reshape(all, std::array<dim, 2>{outputs, count * block_size}, at)), 0, inputs);
}

/// x (rows, inputs) by the weights as sums in one loop that reads the integers: for few rows, which use each weight once.
template <class T>
tensor<T, 2> sums_of_blocks(const tensor<T, 2>& x, const blocks& w, location at) {
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const dim rows = x.size(0, at), outputs = w.words.size(0, at), count = w.words.size(1, at);
  const std::int64_t parts = 8 / w.bits, bytes = block_size / parts;
  const dim missing = count * block_size - w.inputs;
  tensor<W, 2> whole = cast<W>(x, at);
  if (missing != 0)
    whole = concat<1>(
        whole, tensor<W, 2>(zeros<W>(std::array<dim, 2>{rows, missing}, sinter::detail::same_device(whole, at), at)));
  const tensor<W, 5> apart = reshape(whole, std::array<dim, 5>{rows, 1, count, parts, bytes}, at);
  const tensor<std::uint8_t, 4> words = expand_dims<0>(w.words);
  const std::uint8_t mask = w.bits == 8 ? 255 : 15;
  tensor<W, 4> sum;
  for (std::int64_t p = 0; p < parts; ++p) {
    const tensor<W, 4> by = reshape(slice<3>(apart, p, p + 1), std::array<dim, 4>{rows, 1, count, bytes}, at);
    const tensor<W, 4> weight = cast<W>(bit_and(shr(words, static_cast<std::uint8_t>(w.bits * p % 8), at), mask, at)) -
                                W(w.bits == 8 ? 128 : 8);
    const tensor<W, 4> term = by * weight;
    sum = p == 0 ? term : tensor<W, 4>(sum + term);
  }
  const tensor<W, 4> scale = reshape(cast<W>(w.scales), std::array<dim, 4>{1, outputs, count, 1}, at);
  return cast<T>(sinter::sum(sum * scale, axis<2, 3>));
}

/// A few outputs' weights at a time.
struct block_tiles {
  tensor<std::uint8_t, 4> words;
  tensor<bf16, 3> scales;
};
/// x (rows, inputs) by the weights, so many outputs at a time. Only their weights are floats in memory, which a cache holds.
template <class T>
tensor<T, 2> tiled_product(const tensor<T, 2>& x, const blocks& w, location at) {
  const dim outputs = w.words.size(0, at), count = w.words.size(1, at), rows = x.size(0, at);
  constexpr std::int64_t floats = std::int64_t{1} << 18;
  const std::int64_t tile = std::max<std::int64_t>(16, floats / std::max<std::int64_t>(w.inputs, 1));
  const auto product = [&](const tensor<std::uint8_t, 3>& words, const tensor<bf16, 2>& scales) -> tensor<T, 2> {
    return matmul(x, transpose(unpacked<T>(words, scales, w.inputs, w.bits, at)), at);
  };
  const std::int64_t known = std::int64_t(outputs), tiles = known / tile, whole = tiles * tile;
  if (tiles < 2) return product(w.words, w.scales);
  const block_tiles xs{
      reshape(slice<0>(w.words, 0, whole), std::array<dim, 4>{tiles, tile, count, w.words.size(2, at)}, at),
      reshape(slice<0>(w.scales, 0, whole), std::array<dim, 3>{tiles, tile, count}, at)};
  const tensor<std::int64_t, 0> none = std::int64_t{0};
  const auto ys =
      scan(
          [&](const tensor<std::int64_t, 0>& same, const std::pair<tensor<std::uint8_t, 3>, tensor<bf16, 2>>& one) {
            return std::pair{same, product(one.first, one.second)};
          },
          none, std::pair{xs.words, xs.scales}, at)
          .second;
  const tensor<T, 2> most = reshape(tensor<T, 3>(swapaxes<0, 1>(ys)), std::array<dim, 2>{rows, whole}, at);
  if (whole == known) return most;
  return concat<1>(most, product(slice<0>(w.words, whole, known), slice<0>(w.scales, whole, known)));
}

}  // namespace detail

/// x · weight + bias along the last axis, as nn::linear computes it. The weights are floats, or blocks of integers that the product
/// reads.
template <class T>
struct stored_linear {
  std::optional<tensor<T, 2>> weight;  ///< (in, out); without it there are blocks
  std::optional<blocks> packed;
  std::optional<tensor<T, 1>> bias;

  /// Maps x (…, in) to (…, out). user_error for another extent.
  template <tensor_like X>
  tensor<T, X::rank> operator()(const X& x, location here = location::current()) const {
    const location at = here.in("models::stored_linear");
    if (weight) return nn::detail::with_bias(matmul(x, *weight, at), bias, at);
    const blocks& stored = kept(at);
    constexpr int r = X::rank;
    static_assert(r >= 1, "sinter: [models::stored_linear] x has a last axis of inputs");
    std::array<dim, static_cast<std::size_t>(r)> to;
    dim rows = 1;
    for (int i = 0; i < r; ++i) to[static_cast<std::size_t>(i)] = x.size(i, at);
    for (int i = 0; i + 1 < r; ++i) rows = rows * to[static_cast<std::size_t>(i)];
    if (to[r - 1] != stored.inputs)
      fail("models::stored_linear",
           "x has " + std::to_string(std::int64_t(to[r - 1])) + " features, the map takes " +
               std::to_string(stored.inputs),
           at);
    const tensor<T, 2> flat = reshape(x, std::array<dim, 2>{rows, stored.inputs}, at);
    to[r - 1] = stored.words.size(0, at);
    // Few rows use a weight too rarely to pay for a product's panels. Where rows are open, this is a guard.
    const tensor<T, 2> y =
        rows <= 4 ? detail::sums_of_blocks<T>(flat, stored, at) : detail::tiled_product<T>(flat, stored, at);
    return nn::detail::with_bias(tensor<T, r>(reshape(y, to, at)), bias, at);
  }

  /// The blocks of a map without float weights. user_error if there are none.
  const blocks& kept(location at) const {
    if (!packed) fail("models::stored_linear", "the map has neither a weight nor blocks; load it", at);
    return *packed;
  }
};

/// The number of a map's outputs.
template <class T>
dim map_outputs(const stored_linear<T>& map, location at) {
  return map.weight ? map.weight->size(1, at) : map.kept(at).words.size(0, at);
}
/// The device of a map's weights.
template <class T>
sinter::detail::target map_device(const stored_linear<T>& map, location at) {
  return map.weight ? sinter::detail::same_device(*map.weight, at)
                    : sinter::detail::same_device(map.kept(at).words, at);
}

namespace detail {
/// The elements of a map, and whether its weights may be blocks.
template <class Map>
struct map_traits;
template <class T>
struct map_traits<nn::linear<T>> {
  using type = T;
  static constexpr bool stored = false;
};
template <class T>
struct map_traits<stored_linear<T>> {
  using type = T;
  static constexpr bool stored = true;
};
}  // namespace detail

}  // namespace sinter::models

#if !defined(SINTER_COMPILED)
#include "stored_rules.hpp"
#endif
