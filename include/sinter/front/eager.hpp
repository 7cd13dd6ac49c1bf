// front/eager.hpp: a pointwise expression as one fused loop without temporaries.
#pragma once

#include "../engine.hpp"
#include "vector_loop.hpp"

namespace sinter::detail {

/// Uninitialised row-major memory. user_error when the extents are negative or too large.
template <class T, dims Shape>
tensor<T, Shape> empty(const char* op, const index_array<Shape.rank>& extents, location at) {
  const std::int64_t n = checked_numel(op, to_dims(extents), sizeof(T), at);
  storage memory = engine::allocate(static_cast<std::size_t>(n) * sizeof(T));
  T* data = static_cast<T*>(memory.data());
  return access::make<T, Shape>(std::move(memory), data, extents, row_major(extents));
}

/// Writes elements [begin, end) of one row; out points at the first of them.
template <class E, class T, int N>
void fill_row(const E& e, const row<N>& r, std::int64_t begin, std::int64_t end, T* out) {
  if constexpr (vectorizable<E>) {
    using R = std::conditional_t<std::is_same_v<T, bool>, bool, lane_type<E>>;
    constexpr int width = vector_row<E>::width;
    vector_row<E> v;
    if (end - begin >= width && v.prepare(r)) {
      auto* to = reinterpret_cast<R*>(out);
      const auto step = [&](std::int64_t i) { vector_at<lane_type<E>, 0>(e, v.r, i).store(to + (i - begin)); };
      std::int64_t i = begin;
      for (; i + width <= end; i += width) step(i);
      // The last vector overlaps the one before.
      if (i < end) step(end - width);
      return;
    }
  }
  for (std::int64_t i = begin; i < end; ++i) *out++ = static_cast<T>(value_at<0>(e, r, i));
}

/// Evaluates `e` into new storage.
template <class E>
auto eager_evaluate(const E& e, location at) {
  using T = typename E::value_type;
  constexpr int count = leaf_count<E>;
  const auto extents = extents_of(e, at);
  auto result = empty<T, E::static_shape>("tensor", extents, at);
  leaf leaves[count > 0 ? count : 1];
  leaf* end_of_leaves = leaves;
  bind_leaves(e, E::rank, end_of_leaves, at);
  const std::int64_t total = product(extents);
  if (total == 0) return result;
  space s;
  for (int i = 0; i < E::rank; ++i) s.extent[i] = extents[static_cast<std::size_t>(i)];
  s.rank = collapse(s.extent, 0, E::rank, leaves, count);
  const int outer = s.rank > 0 ? s.rank - 1 : 0;
  const std::int64_t inner = s.rank > 0 ? s.extent[outer] : 1;
  T* out = access::data(result);

  parallel(total, total, [&, out](std::int64_t begin, std::int64_t end) {
    walker<count> w(s.extent, 0, outer, leaves, begin / inner);
    for (std::int64_t at_ = begin; at_ < end; w.next()) {
      row<count> r;
      for (int k = 0; k < count; ++k) {
        r.data[k] = leaves[k].data ? leaves[k].data + w.offset(k) : nullptr;
        r.base[k] = leaves[k].base + w.offset(k);
        r.step[k] = s.rank > 0 ? leaves[k].stride[outer] : 0;
      }
      const std::int64_t first = at_ % inner, n = std::min(inner - first, end - at_);
      fill_row(e, r, first, first + n, out + at_);
      at_ += n;
    }
  });
  return result;
}

}  // namespace sinter::detail
