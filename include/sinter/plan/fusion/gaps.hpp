// plan/fusion/gaps.hpp: calls of a matrix library that go on into the gaps between padded rows.
#pragma once

#include "../lowering/library_product.hpp"

namespace sinter::engine::plan {

/// The gaps of a padded array: `rows` pieces of `bytes` bytes, `pitch` bytes apart, the first one at `from`.
struct row_gaps {
  int buffer = -1;
  std::int64_t from = 0, pitch = 0, bytes = 0, rows = 0;
};

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

  /// The gaps of an array, whose strides are padded.
  row_gaps of(int buffer) const {
    const auto id = static_cast<std::size_t>(buffer);
    const ir::node& v = g_[static_cast<node_id>(id)];
    const auto size = static_cast<std::int64_t>(size_of(v.type));
    const std::size_t rank = v.extents.size();
    row_gaps gaps;
    gaps.buffer = buffer;
    gaps.from = *v.extents[rank - 1].number() * size;
    gaps.pitch = *strides_[id][rank - 2].number() * size;
    gaps.bytes = gaps.pitch - gaps.from;
    gaps.rows = 1;
    for (std::size_t d = 0; d + 1 < rank; ++d) gaps.rows *= *v.extents[d].number();
    return gaps;
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
