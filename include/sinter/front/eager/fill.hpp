// front/eager/fill.hpp: a pointwise expression as one fused loop without temporaries.
#pragma once

#include "on_device.hpp"
#include "vector_loop.hpp"

namespace sinter::detail {

/// Uninitialised row-major memory. user_error when the extents are negative or too large.
template <class T, dims Shape>
tensor<T, Shape> empty(const char* op, const index_array<Shape.rank>& extents, location at) {
  storage memory = new_memory(op, to_dims(extents), sizeof(T), at);
  T* data = static_cast<T*>(memory.data());
  return access::make<T, Shape>(std::move(memory), data, extents, row_major_strides(extents));
}

/// Writes elements [begin, end) of one row; out points at the first of them.
template <class E, class Set = simd::instruction_set>
void fill_row(const void* expression, const cursor* at, std::int64_t begin, std::int64_t end, void* to) {
  using T = typename E::value_type;
  const E& e = *static_cast<const E*>(expression);
  if constexpr (vectorizable<E>) {
    constexpr int width = vector_row<E>::width;
    if (end - begin >= width) {
      const vector_row<E> v(at);
      if (v.ok) {
        auto* out = static_cast<stored<E, T>*>(to);
        for (std::int64_t i = begin; i < end; i += width) {
          // The last vector overlaps the one before.
          i = std::min(i, end - width);
          v(e, i).store(out + (i - begin));
        }
        return;
      }
    }
  }
  const row<leaf_count<E>> r(at);
  T* out = static_cast<T*>(to);
  for (std::int64_t i = begin; i < end; ++i) *out++ = static_cast<T>(value_at<0>(e, r, i));
}

template <class E>
inline constexpr row_stage stage_of = {terms_of<E>.data(), term_count<E>, &fill_row<E>, stage_name<E>(),
                                       &stage_signature<E>};

/// Evaluates `e` into new storage, on the device of its tensors.
template <class E>
auto eager_evaluate(const E& e, location at) {
  tensor<typename E::value_type, E::static_shape> out;
  access::point_to(out, run_rows(stage_of<E>, &e, {}, at, access::parts(out)));
  return out;
}

}  // namespace sinter::detail
