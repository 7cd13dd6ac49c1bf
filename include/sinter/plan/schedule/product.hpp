// plan/schedule/product.hpp: a matrix product over threads: tiles of the result, on tensor cores where they take its operands.
#pragma once

#include "../kernel/target.hpp"
#include "vectors.hpp"

namespace sinter::engine::plan {

/// A block makes a tile of the result of `side` by `side` elements. Each of 16 by 16 threads makes every 16th element in both
/// directions.
struct product_shape {
  static constexpr int threads = 256;
  int side = 64, depth = 16;
  dim m, n, k, batch;
  dim blocks;
};

/// The axes of a product by their part in it; those of k follow the kernel's.
struct product_axes {
  series<std::size_t> batch, m, n, k;
};

inline product_axes axes_of_product(const kernel& c) {
  const auto& p = c.products[0];
  product_axes x;
  for (std::size_t a = 0; a < c.axes.size(); ++a) {
    const int i = static_cast<int>(a);
    (i < p.batch ? x.batch : i < p.batch + p.m ? x.m : x.n).push_back(a);
  }
  for (std::size_t a = 0; a < p.k.size(); ++a) x.k.push_back(c.axes.size() + a);
  return x;
}

/// True when an operand is contiguous along the last of these axes.
inline bool runs_along(const affine& at, const series<std::size_t>& axes) {
  return !axes.empty() && at.stride[axes.back()].is(1);
}

inline product_shape product_of(const kernel& c, const target& t) {
  const auto [batch, m, n, k] = extents_of(c);
  product_shape s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.batch = batch;
  auto blocks = [&](int side) { return ceil_div(s.m, side) * ceil_div(s.n, side) * s.batch; };
  // Eight by eight sums for each thread, if every multiprocessor still has a block; f64 has fewer registers to spare.
  const bool wide = size_of(compute_type(c.products[0].type)) == 8;
  if (!wide && blocks(128).number().value_or(0) >= t.multiprocessors) s.side = 128;
  while (s.side > 16 && blocks(s.side).number().value_or(1 << 20) < t.multiprocessors) s.side /= 2;
  s.blocks = blocks(s.side);
  return s;
}

/// An operand's tile in shared memory: lines along k or along its other axis, with a few elements between lines so that a
/// warp's reads touch every bank once.
///
/// A warp's multiplication takes 8 of k; every lane has two, lane%4*2 and the next. Along the other axis a lane has every
/// eighth of a warp's rows. If lines lie along that axis, it has runs of `run` that are one read.
struct tensor_operand {
  bool along_k = false;
  int width = 1;  ///< elements of a copy
  int rows = 64;  ///< of the tile
  int parts = 1;  ///< number of warps that share them
  int line = 0;   ///< elements from a line to the next
  int elements = 0;

  int each() const { return rows / parts / 8; }  ///< number of rows of a lane
  int run() const { return along_k ? 1 : std::min(4, each()); }
};

/// A block of 8 warps makes a tile of m by n. `down` by `across` warps divide it, and `deep` warps divide the k of a stage.
struct tensor_shape {
  static constexpr int warps = 8, threads = 32 * warps;
  int m = 64, n = 64, k = 64, stages = 3;
  int down = 1, across = 1, deep = 8;
  tensor_operand a, b;
  lanes stored;  ///< elements along the last axis that a thread stores at once
  dim rows, columns, depth;
  dim blocks;

  int stage() const { return a.elements + b.elements; }
  int line() const { return n + (b.along_k ? 8 : 4); }  ///< of the result's tile
  int part() const { return m * line(); }               ///< elements of the tile for each of `deep` warps
  int shared() const { return 4 * std::max(stages * stage(), deep * part()); }
};

inline bool on_tensor_cores(const kernel& k, const target& t) {
  const auto& p = k.products[0];
  const auto plain = [&](const access& a) {
    const auto& b = k.buffers[static_cast<std::size_t>(a.buffer)];
    return b.type == dtype::f32 && !b.by_value;
  };
  const auto x = axes_of_product(k);
  return t.tf32 && p.type == dtype::f32 && plain(p.a) && plain(p.b) && !x.m.empty() && !x.n.empty() && !x.k.empty();
}

inline tensor_operand operand_of_tile(const kernel& k, const access& a, const series<std::size_t>& axes,
                                      const series<std::size_t>& k_axes, int rows, int parts, int depth) {
  const auto extent = [&](std::size_t x) {
    return x < k.axes.size() ? k.axes[x].extent : k.products[0].k[x - k.axes.size()];
  };
  tensor_operand o;
  o.rows = rows;
  o.parts = parts;
  o.along_k = runs_along(a.at, k_axes) && !runs_along(a.at, axes);
  const std::size_t last = o.along_k ? k_axes.back() : axes.back();
  if (is_vector_access(k, a, static_cast<int>(last), 4) && divides(4, extent(last))) o.width = 4;
  // Lanes read pairs of k from eight lines, or runs of two lines of each pair.
  o.line = o.along_k ? (depth + 23) / 32 * 32 + 8 : rows + 4;
  o.elements = o.line * (o.along_k ? rows : depth);
  return o;
}

inline tensor_shape tensor_of(const kernel& k, const target& t) {
  const auto of = product_of(k, t);
  const auto x = axes_of_product(k);
  tensor_shape s;
  s.rows = of.m;
  s.columns = of.n;
  s.depth = of.k;
  // Smaller tiles if the traced call's blocks leave many multiprocessors idle.
  const auto few = [&] {
    const auto tiles = [&](const series<std::size_t>& axes, std::int64_t side) {
      std::int64_t n = 1;
      for (auto a : axes) n *= k.axes[a].hint;
      return round_up(n, side);
    };
    return tiles(x.m, s.m) * tiles(x.n, s.n) * tiles(x.batch, 1) * 5 < t.multiprocessors * 3;
  };
  const bool narrow = k.fit.narrow || s.columns.number().value_or(64) <= 16;
  if (narrow) s.n = 16;
  if (few()) s.m = 32;
  if (s.n > 32 && few()) s.n = 32;
  s.blocks = ceil_div(s.rows, s.m) * of.batch;
  if (!narrow || s.columns.is(0)) s.blocks *= ceil_div(s.columns, s.n);
  // A warp's part of a stage is at least 16 by 8 by 8.
  const auto parts = [&] { return s.m / 16 * (s.n / 8) * (s.k / 8); };
  while (s.k > 8 && parts() > tensor_shape::warps && k.products[0].terms <= s.k / 2) s.k /= 2;
  // Warps with large parts of the tile read least.
  s.across = s.n / std::min(s.n, 32);
  s.deep = std::min(tensor_shape::warps / s.across, s.k / 8);
  s.down = std::min(tensor_shape::warps / s.across / s.deep, s.m / 16);
  s.across = tensor_shape::warps / s.deep / s.down;
  s.a = operand_of_tile(k, k.products[0].a, x.m, x.k, s.m, s.down, s.k);
  s.b = operand_of_tile(k, k.products[0].b, x.n, x.k, s.n, s.across, s.k);
  while (s.stages > 2 && s.shared() > t.shared_bytes) --s.stages;
  s.stored = lanes_along(k, static_cast<int>(x.n.back()), x.n.size() == 1 ? tail::lanes : tail::none, 4);
  return s;
}

}  // namespace sinter::engine::plan
