// emit/prelude/mma.hpp: the part of the CUDA prelude in which the lanes of a warp multiply matrices: their fragments, how these come
// from shared memory, and the powers that weigh them. Follows prelude_cuda_core.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// mma_bf16(c, a, b), mma_f16, mma_tf32, mma_s8: a warp's c += a b of 16 by 8 by 16, 16, 8 and 32. plan/schedule/intrinsics.hpp says
/// which lane holds which element ("PTX ISA", mma.m16n8k16, m16n8k8, m16n8k32). Sums are f32, of mma_s8 i32. mma_tf32 takes numbers
/// that tf32() has rounded.
inline constexpr std::string_view prelude_cuda_mma = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
#define SX_MMA(name, T, f, shape)                                                                                      \
  SX void name(T (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {                                            \
    asm("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                   \
        : "+" f(c[0]), "+" f(c[1]), "+" f(c[2]), "+" f(c[3])                                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                           \
  }
SX_MMA(mma_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
SX_MMA(mma_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
SX_MMA(mma_tf32, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
SX_MMA(mma_s8, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")
#undef SX_MMA
#endif
}  // namespace sx
)prelude";

/// load_matrices<T>(r, line, bytes) reads four matrices of 8 lines of 16 bytes from shared memory. Lane l gives line l%8 of matrix l/8.
/// The line lies `bytes` behind `line`. The lane gets bytes 4 (l%4) and on of line l/4 of each matrix. With T, elements have 2 bytes, and lanes get those of the transposed
/// matrices ("PTX ISA", ldmatrix). The overload reads two registers of each of two fragments.
/// swizzled_place<W, S>(line, e) is the place of element e in a line of W bytes, of elements of S bytes. The number of its 16-byte chunk is
/// xor-ed with swizzled<W>(line). So 8 lines of a matrix, and 8 chunks of a line, lie in different banks.
inline constexpr std::string_view prelude_cuda_matrices = R"prelude(
namespace sx {
template <int W> SX unsigned swizzled(unsigned line) {
  constexpr unsigned chunks = W / 16 < 8 ? W / 16 : 8;
  return line / (8 / chunks) & (chunks - 1);
}
template <int W, int S> SX unsigned swizzled_place(unsigned line, unsigned e) {
  constexpr unsigned each = 16 / S;
  return line * (W / S) + ((e / each) ^ swizzled<W>(line)) * each + e % each;
}
#if defined(__CUDACC_RTC__)
template <bool T> SX void load_matrices(unsigned (&r)[4], const void* line, int bytes = 0) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(line) + bytes;
  if constexpr (T)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
#endif
template <bool T> SX void load_matrices(unsigned (&r)[2], unsigned (&s)[2], const void* line, int bytes = 0) {
  unsigned all[4];
  load_matrices<T>(all, line, bytes);
  r[0] = all[0], r[1] = all[1], s[0] = all[2], s[1] = all[3];
}
// Elements H * N to H * N + N - 1 of an array.
template <int N, int H, class T, int M> SX T (&part_of(T (&x)[M]))[N] { return *reinterpret_cast<T (*)[N]>(x + H * N); }
// An element of a register that holds several, and the register with element i replaced.
template <class M> SX auto element(unsigned r, int i) {
  union { unsigned w; M m[4 / sizeof(M)]; } u;
  u.w = r;
  return decode(u.m[i]);
}
template <class M, class T> SX void put_element(unsigned& r, int i, T x) {
  union { unsigned w; M m[4 / sizeof(M)]; } u;
  u.w = r;
  u.m[i] = encode<M>(x);
  r = u.w;
}
}  // namespace sx
)prelude";

/// copy_part<B>(to, offset, from, bytes) copies the first `bytes` of B = 4, 8 or 16 bytes from memory to shared memory. Its target lies
/// `offset` bytes behind `to`. It writes zeros behind them; with 0 it reads nothing. The thread goes on ("PTX ISA", cp.async). Groups are those of prelude_cuda_copy.
inline constexpr std::string_view prelude_cuda_copy_part = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
template <int B> SX void copy_part(void* to, int offset, const void* from, int bytes) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to) + offset;
  if constexpr (B == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(at), "l"(from), "n"(B), "r"(bytes) : "memory");
}
#endif
}  // namespace sx
)prelude";

/// least(a, b), most(a, b); floor_quotient(a, b) for b > 0: the bounds of loops. opaque(n) is n, unknown to the compiler.
inline constexpr std::string_view prelude_cuda_bounds = R"prelude(
namespace sx {
SX_T T least(T a, T b) { return a < b ? a : b; }
SX_T T most(T a, T b) { return a > b ? a : b; }
SX_T T opaque(T n) {
  asm volatile("" : "+r"(n));
  return n;
}
SX_T T floor_quotient(T a, T b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
}  // namespace sx
)prelude";

/// exp2_near(x): 2 to the power of x with a relative error of at most 2^-22; subnormal numbers count as 0 ("PTX ISA", ex2.approx.ftz).
/// fused(a, b, c): a * b + c, rounded once. max_or_nan(a, b): NaN if one is. packed<M>(a, b): two elements of 16 bits in a register.
inline constexpr std::string_view prelude_cuda_powers = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
SX float exp2_near(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
SX float max_or_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
SX float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
template <class M> SX unsigned packed(float a, float b) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  if constexpr (same<M, t_bf16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return narrow(a, M()).bits | (unsigned)narrow(b, M()).bits << 16;
#endif
}
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
