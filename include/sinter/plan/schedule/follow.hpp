// plan/schedule/follow.hpp: a product on tensor cores whose blocks make whole rows, and a kernel on these rows, in one launch.
#pragma once

#include <optional>

#include "product.hpp"
#include "walk.hpp"

namespace sinter::engine::plan {

/// A block's part of both kernels: the same rows of each.
struct row_epilogue {
  tensor_shape product;
  persistent_rows rows;  ///< without sums along the rows, only its row
  bool sums = false;
};

/// True when a kernel reads the product's only stored values at the same places, and nowhere else.
inline bool reads_as_written(const kernel& product, const kernel& k) {
  const access& to = product.stores[0].at;
  const int id = product.buffers[static_cast<std::size_t>(to.buffer)].id;
  const auto is_result = [&](const access& a) { return k.buffers[static_cast<std::size_t>(a.buffer)].id == id; };
  const auto reads = [&](const auto& i) { return i.kind == kind::load && is_result(i.at); };
  return std::any_of(k.body.begin(), k.body.end(), reads) &&
         std::all_of(k.body.begin(), k.body.end(), [&](const auto& i) { return !reads(i) || i.at.at == to.at; }) &&
         std::none_of(k.stores.begin(), k.stores.end(), [&](const auto& s) { return is_result(s.at); });
}

/// The launch in which blocks make rows of a narrow product, and then run the second kernel on them. Nothing if it needs rows
/// of other blocks.
SINTER_API std::optional<row_epilogue> follow_of(const kernel& product, const kernel& k, const target& t) {
  const bool reduces = std::any_of(k.body.begin(), k.body.end(), is_reduction);
  if (!product.is_product() || product.axes.size() != 2 || k.axes.size() != 2 ||
      product.axes[0].extent != k.axes[0].extent || !on_tensor_cores(product, t))
    return {};
  if (product.products[0].batch != 0 || product.products[0].m != 1 || product.stores.size() != 1) return {};
  if (k.is_opaque() || k.is_product() || k.stands_alone() || !reduces || k.axes[1].role != role::inner ||
      k.axes[0].role == role::inner || !reads_as_written(product, k))
    return {};
  const bool sums = k.mask(role::row) != 0;
  if (sums && only_columns(k)) return {};
  row_epilogue s{tensor_of(product, t), {}, sums};
  if (s.product.blocks != ceil_div(product.axes[0].extent, s.product.m)) return {};
  if (sums) s.rows = walk_of(k, t);
  else s.rows.row = rows_of(k, t);
  row_shape& r = s.rows.row;
  if (!r.held || !r.most || s.rows.staged > 0) return {};
  r.rows = s.product.m;
  r.group = tensor_shape::threads / r.rows;
  r.vectors = static_cast<int>(std::max<std::int64_t>(round_up(*r.most, r.group), 1));
  s.rows.walkers = s.product.blocks;
  s.rows.ahead = false;
  return s;
}

}  // namespace sinter::engine::plan
