// tests/emulator/elements.hpp: elements of arrays by the codes of cuBLASLt and cuDNN: 0 f32, 1 f64, 2 f16, any other bf16.
#pragma once

#include <sinter/base/float16.hpp>

#include <cstdint>

namespace emulator {

inline double read(const void* p, int type, std::int64_t i) {
  switch (type) {
    case 0:
      return static_cast<const float*>(p)[i];
    case 1:
      return static_cast<const double*>(p)[i];
    case 2:
      return static_cast<double>(static_cast<float>(static_cast<const sinter::f16*>(p)[i]));
    default:
      return static_cast<double>(static_cast<float>(static_cast<const sinter::bf16*>(p)[i]));
  }
}
inline void write(void* p, int type, std::int64_t i, double x) {
  switch (type) {
    case 0:
      static_cast<float*>(p)[i] = static_cast<float>(x);
      break;
    case 1:
      static_cast<double*>(p)[i] = x;
      break;
    case 2:
      static_cast<sinter::f16*>(p)[i] = sinter::f16(static_cast<float>(x));
      break;
    default:
      static_cast<sinter::bf16*>(p)[i] = sinter::bf16(static_cast<float>(x));
      break;
  }
}

}  // namespace emulator
