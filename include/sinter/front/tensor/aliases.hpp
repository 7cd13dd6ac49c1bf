// front/tensor/aliases.hpp: short names of tensors with open extents, by dtype and rank: f32_2 is tensor<float, 2>.
#pragma once

#include "tensor.hpp"

namespace sinter {

#define SINTER_X(NAME, T)        \
  using NAME##_0 = tensor<T, 0>; \
  using NAME##_1 = tensor<T, 1>; \
  using NAME##_2 = tensor<T, 2>; \
  using NAME##_3 = tensor<T, 3>; \
  using NAME##_4 = tensor<T, 4>;
SINTER_X(bf16, bf16)
SINTER_X(f16, f16)
SINTER_X(f32, float)
SINTER_X(f64, double)
SINTER_X(i32, std::int32_t)
SINTER_X(i64, std::int64_t)
SINTER_X(u8, std::uint8_t)
SINTER_X(bool, bool)
#undef SINTER_X

}  // namespace sinter
