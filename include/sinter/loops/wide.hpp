// loops/wide.hpp: loops that are also compiled for AVX2, chosen at run time. Both versions give the same bits.
#pragma once

namespace sinter::engine {

#if defined(__x86_64__)
#define SINTER_WIDE [[gnu::target("avx2")]]
inline bool is_wide() {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide;
}
#else
#define SINTER_WIDE
inline bool is_wide() { return false; }
#endif

}  // namespace sinter::engine
