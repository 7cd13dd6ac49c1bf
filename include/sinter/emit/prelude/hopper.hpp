// emit/prelude/hopper.hpp: the part of the CUDA prelude in which groups of four warps multiply matrices that lie in shared memory.
// Follows prelude_cuda_matrices. A text with these words is compiled for sm_90a.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// blocked_place<W, S, L>(line, e) is the place of element e of a line. The tile has L lines, and is cut into blocks of W bytes a line. A
/// block lies as swizzled_place<W, S> says.
inline constexpr std::string_view prelude_cuda_blocks = R"prelude(
namespace sx {
template <int W, int S, int L> SX unsigned blocked_place(unsigned line, unsigned e) {
  constexpr unsigned each = W / S;
  return e / each * (L * each) + swizzled_place<W, S>(line, e % each);
}
}  // namespace sx
)prelude";

/// matrix_at<W>(tile, bytes, across, down) describes a matrix in blocks of W = 32, 64 or 128 bytes a line. It begins `bytes` behind
/// `tile`, and its eighth line `down` bytes further. If its lines run along m or n, the next block begins `across` bytes further
/// ("PTX ISA", "Matrix Descriptor Format", "Strides").
/// wgmma_bf16<X, Y>(c, x, y), wgmma_f16: a group's c += x y of 64 by N by 16, with N/2 sums in each thread. x and y are described; X and Y
/// are 1 where lines run along m or n. The overload takes a warp's part of x from registers, as mma_bf16 does ("PTX ISA",
/// wgmma.mma_async). begin_products() comes before the first product that reads registers written meanwhile, and after pin() of these.
/// commit_products() ends a group of products, and await_products<N>() waits for all but the last N groups. pin() then tells the compiler
/// that registers have changed.
/// share_copies(): products read what this thread wrote to shared memory, once a barrier is passed ("PTX ISA", fence.proxy.async).
inline constexpr std::string_view prelude_cuda_hopper = R"prelude(
namespace sx {
#if defined(__CUDACC_RTC__)
template <int W> SX unsigned long long matrix_at(const void* tile, int bytes, int across, int down) {
  static_assert(W == 32 || W == 64 || W == 128);
  const unsigned at = (unsigned)__cvta_generic_to_shared(tile) + bytes;
  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(across >> 4) << 16 |
         (unsigned long long)(down >> 4) << 32 | (W == 128 ? 1ull : W == 64 ? 2ull : 3ull) << 62;
}
#define SX_T10(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define SX_C10(t) "+f"(c[t##0]), "+f"(c[t##1]), "+f"(c[t##2]), "+f"(c[t##3]), "+f"(c[t##4]), "+f"(c[t##5]), \
                  "+f"(c[t##6]), "+f"(c[t##7]), "+f"(c[t##8]), "+f"(c[t##9])
#define SX_PRODUCT(name, type, sums, n, texts, operands, x, y, turned_x, turned_y)                                     \
  template <int X, int Y> SX void name(float (&c)[sums], unsigned long long a, unsigned long long b) {                 \
    asm volatile("{.reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type    \
                 " {" texts "}, %" x ", %" y ", p, 1, 1, %" turned_x ", %" turned_y ";}"                               \
                 : operands : "l"(a), "l"(b), "n"(X), "n"(Y));                                                         \
  }
#define SX_PRODUCT_4(name, type, sums, n, texts, operands, x, y, turned)                                               \
  template <int X, int Y> SX void name(float (&c)[sums], const unsigned (&a)[4], unsigned long long b) {               \
    asm volatile("{.reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type    \
                 " {" texts "}, {" x "}, %" y ", p, 1, 1, %" turned ";}"                                               \
                 : operands : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Y));                             \
  }
#define SX_T16 SX_T10() "%10, %11, %12, %13, %14, %15"
#define SX_C16 SX_C10(), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
#define SX_T32 SX_T10() SX_T10(1) SX_T10(2) "%30, %31"
#define SX_C32 SX_C10(), SX_C10(1), SX_C10(2), "+f"(c[30]), "+f"(c[31])
#define SX_T64 SX_T10() SX_T10(1) SX_T10(2) SX_T10(3) SX_T10(4) SX_T10(5) "%60, %61, %62, %63"
#define SX_C64 SX_C10(), SX_C10(1), SX_C10(2), SX_C10(3), SX_C10(4), SX_C10(5), "+f"(c[60]), "+f"(c[61]), \
               "+f"(c[62]), "+f"(c[63])
#define SX_T128 SX_T10() SX_T10(1) SX_T10(2) SX_T10(3) SX_T10(4) SX_T10(5) SX_T10(6) SX_T10(7) SX_T10(8) SX_T10(9) \
                SX_T10(10) SX_T10(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define SX_C128 SX_C10(), SX_C10(1), SX_C10(2), SX_C10(3), SX_C10(4), SX_C10(5), SX_C10(6), SX_C10(7), SX_C10(8), \
                SX_C10(9), SX_C10(10), SX_C10(11), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]),         \
                "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127])
#define SX_PRODUCTS(name, type)                                                                                       \
  SX_PRODUCT(name, type, 16, "32", SX_T16, SX_C16, "16", "17", "18", "19")                                           \
  SX_PRODUCT(name, type, 32, "64", SX_T32, SX_C32, "32", "33", "34", "35")                                           \
  SX_PRODUCT(name, type, 64, "128", SX_T64, SX_C64, "64", "65", "66", "67")                                          \
  SX_PRODUCT(name, type, 128, "256", SX_T128, SX_C128, "128", "129", "130", "131")                                   \
  SX_PRODUCT_4(name, type, 16, "32", SX_T16, SX_C16, "%16, %17, %18, %19", "20", "21")                                 \
  SX_PRODUCT_4(name, type, 32, "64", SX_T32, SX_C32, "%32, %33, %34, %35", "36", "37")                                 \
  SX_PRODUCT_4(name, type, 64, "128", SX_T64, SX_C64, "%64, %65, %66, %67", "68", "69")                                \
  SX_PRODUCT_4(name, type, 128, "256", SX_T128, SX_C128, "%128, %129, %130, %131", "132", "133")
SX_PRODUCTS(wgmma_bf16, "bf16")
SX_PRODUCTS(wgmma_f16, "f16")
SX void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SX void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> SX void await_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
SX void share_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int F, int R> SX void pin(float (&c)[F][R]) {
#pragma unroll
  for (int f = 0; f < F; ++f)
#pragma unroll
    for (int r = 0; r < R; ++r) asm volatile("" : "+f"(c[f][r]) :: "memory");
}
template <int F, int R> SX void pin(unsigned (&x)[F][R]) {
#pragma unroll
  for (int f = 0; f < F; ++f)
#pragma unroll
    for (int r = 0; r < R; ++r) asm volatile("" : "+r"(x[f][r]) :: "memory");
}
#endif
}  // namespace sx
)prelude";

}  // namespace sinter::engine::emit
