// plan/fusion/gaps.hpp: calls of a matrix library that go on into the gaps between padded rows.
#pragma once

#include "../lowering/library_product.hpp"

namespace sinter::engine::plan {

/// cuBLASLt's fast kernels want extents, not rows alone, that divide by 16 bytes. So a call takes whole padded rows as extents: of
/// columns, whose gap it fills with what nothing reads, or of terms, where the gaps of both operands have to be 0.
class gap_filler {
 public:
  /// Both are kept by reference; `strides` as fused has them.
  gap_filler(const ir::graph& g, const series<series<dim>>& strides) : g_(g), strides_(strides) {}

  /// The call with whole rows of terms, if it may have them.
  std::optional<blas_call> with_terms(const kernel& k, blas_call call) const {
    if (call.a.transpose || !call.b.transpose) return std::nullopt;
    const std::int64_t most = std::min(room(k, call.a, call.k), room(k, call.b, call.k));
    if (most <= call.k) return std::nullopt;
    call.k = most;
    return call;
  }
  /// The same of columns.
  std::optional<blas_call> with_columns(const kernel& k, blas_call call) const {
    if (call.b.transpose || call.bias >= 0) return std::nullopt;
    const std::int64_t most = std::min(room(k, call.b, call.n), room(k, call.out, call.n));
    if (most <= call.n) return std::nullopt;
    call.n = most;
    return call;
  }

 private:
  /// The elements from one stored row to the next where rows of `count` are whole rows of a padded array; else `count`.
  std::int64_t room(const kernel& k, const blas_operand& o, std::int64_t count) const {
    const auto id = static_cast<std::size_t>(k.buffers[static_cast<std::size_t>(o.buffer)].id);
    const series<dim>& strides = strides_[id];
    if (strides.size() < 2) return count;
    const ir::shape& extents = g_[static_cast<node_id>(id)].extents;
    const bool whole = extents.back().is(count) && strides[strides.size() - 2].is(o.row) && o.offset % o.row == 0;
    return whole ? o.row : count;
  }

  const ir::graph& g_;
  const series<series<dim>>& strides_;
};

}  // namespace sinter::engine::plan
