// front/eager/gemm.hpp: the eager matrix product: packed panels, a register-blocked tile, any strides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "../../base/dtype.hpp"
#include "../../loops/simd.hpp"

namespace sinter::detail::gemm {

/// The type of sums of products of T. It is unsigned for integers, whose products wrap.
template <class T>
using accumulator =
    std::conditional_t<is_narrow_float<T>, float,
                       std::conditional_t<std::is_floating_point_v<T>, T,
                                          std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>>;

/// A matrix in memory; strides in elements, of either sign, 0 for a broadcast axis.
template <class T>
struct matrix {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride;

  T& at(std::int64_t i, std::int64_t j) const { return data[i * row_stride + j * col_stride]; }
  matrix transposed() const { return {data, cols, rows, col_stride, row_stride}; }
};

inline constexpr int tile_rows = 6;

// c (6 rows, two vectors wide) += a (packed by columns) · b (packed by rows). The body is a macro because a function keeps
// only its own instruction set: vectors compiled for another one would be split before inlining. It uses vector extensions,
// not xsimd, because the instruction set is chosen at run time, not by the user's flags.
#define SINTER_TILE_ROW(R)       \
  const vec a##R = vec{} + a[R]; \
  x##R += a##R * b0;             \
  y##R += a##R * b1;
#define SINTER_TILE_STORE(R)                                                                    \
  {                                                                                             \
    Acc* const to = c + R * stride;                                                             \
    *reinterpret_cast<loose*>(to) = *reinterpret_cast<const loose*>(to) + x##R;                 \
    *reinterpret_cast<loose*>(to + lanes) = *reinterpret_cast<const loose*>(to + lanes) + y##R; \
  }
#define SINTER_GEMM_TILE(NAME, TARGET, BYTES)                                                                \
  template <class Acc, class Set = simd::instruction_set>                                                    \
  TARGET void NAME(std::int64_t depth, const Acc* a, const Acc* b, Acc* c, std::int64_t stride) {            \
    SINTER_FUSED                                                                                             \
    typedef Acc vec __attribute__((vector_size(BYTES)));                                                     \
    typedef Acc loose __attribute__((vector_size(BYTES), aligned(sizeof(Acc)), may_alias));                  \
    constexpr int lanes = BYTES / static_cast<int>(sizeof(Acc));                                             \
    vec x0{}, x1{}, x2{}, x3{}, x4{}, x5{}, y0{}, y1{}, y2{}, y3{}, y4{}, y5{};                              \
    for (; depth > 0; --depth, a += tile_rows, b += 2 * lanes) {                                             \
      const vec b0 = *reinterpret_cast<const loose*>(b), b1 = *reinterpret_cast<const loose*>(b + lanes);    \
      SINTER_TILE_ROW(0)                                                                                     \
      SINTER_TILE_ROW(1) SINTER_TILE_ROW(2) SINTER_TILE_ROW(3) SINTER_TILE_ROW(4) SINTER_TILE_ROW(5)         \
    }                                                                                                        \
    SINTER_TILE_STORE(0)                                                                                     \
    SINTER_TILE_STORE(1) SINTER_TILE_STORE(2) SINTER_TILE_STORE(3) SINTER_TILE_STORE(4) SINTER_TILE_STORE(5) \
  }

// Products and sums of tiles are fused, also under base/floats_begin.hpp, which forbids it elsewhere.
#if defined(__clang__)
#define SINTER_FUSED _Pragma("clang fp contract(fast)")
#else
#define SINTER_FUSED
#endif
#if defined(SINTER_FLOATS_PUSHED)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif
SINTER_GEMM_TILE(tile_16, , 16)
#if defined(__x86_64__)
SINTER_GEMM_TILE(tile_32, __attribute__((target("avx2,fma"))), 32)
SINTER_GEMM_TILE(tile_64, __attribute__((target("avx512f,avx512dq"))), 64)
#endif
#if defined(SINTER_FLOATS_PUSHED)
#pragma GCC pop_options
#endif
#undef SINTER_FUSED
#undef SINTER_GEMM_TILE
#undef SINTER_TILE_ROW
#undef SINTER_TILE_STORE

/// The widest tile that this machine supports.
template <class Acc, class Set = simd::instruction_set>
struct tile {
  int cols = 32 / static_cast<int>(sizeof(Acc));
  void (*run)(std::int64_t, const Acc*, const Acc*, Acc*, std::int64_t) = tile_16<Acc>;

  static const tile& best() {
    static const tile chosen = [] {
      tile t;
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        t = {128 / static_cast<int>(sizeof(Acc)), tile_64<Acc>};
      } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        t = {64 / static_cast<int>(sizeof(Acc)), tile_32<Acc>};
      }
#endif
      return t;
    }();
    return chosen;
  }
};

struct aligned_delete {
  void operator()(void* p) const noexcept { ::operator delete (p, std::align_val_t{64}); }
};
template <class Acc>
std::unique_ptr<Acc[], aligned_delete> scratch(std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(Acc);
  return std::unique_ptr<Acc[], aligned_delete>(static_cast<Acc*>(::operator new (bytes, std::align_val_t{64})));
}

constexpr std::int64_t panels(std::int64_t n, std::int64_t width) { return (n + width - 1) / width; }

/// Packs columns [from, from + depth) of the rows [first, first + width), column after column; rows past the end are 0.
template <class Acc, class T, class Set = simd::instruction_set>
void pack(const matrix<const T>& m, std::int64_t first, std::int64_t width, std::int64_t from, std::int64_t depth,
          Acc* to) {
  const std::int64_t valid = std::min(width, m.rows - first);
  const T* base = m.data + first * m.row_stride + from * m.col_stride;
  for (std::int64_t k = 0; k < depth; ++k, base += m.col_stride, to += width) {
    if (m.row_stride == 1) {
      for (std::int64_t r = 0; r < valid; ++r) to[r] = static_cast<Acc>(base[r]);
    } else {
      for (std::int64_t r = 0; r < valid; ++r) to[r] = static_cast<Acc>(base[r * m.row_stride]);
    }
    for (std::int64_t r = valid; r < width; ++r) to[r] = Acc{};
  }
}

inline constexpr std::int64_t depth_block = 256, row_block = 16 * tile_rows, col_block = 4096;

/// c += the tiles of packed a (rows × depth) and packed b (depth × cols).
template <class Acc, class Set = simd::instruction_set>
void multiply_packed(const Acc* a, const Acc* b, const matrix<Acc>& c, std::int64_t depth) {
  const auto& kernel = tile<Acc>::best();
  const std::int64_t group = 4 * kernel.cols;  // columns per task: a few b panels against one block of rows
  const std::int64_t row_tasks = panels(c.rows, row_block), col_tasks = panels(c.cols, group);
  const bool large = c.rows * c.cols * depth > 1 << 19;
  (void)large;
#pragma omp parallel for schedule(dynamic) collapse(2) if (large)
  for (std::int64_t rt = 0; rt < row_tasks; ++rt) {
    for (std::int64_t ct = 0; ct < col_tasks; ++ct) {
      alignas(64) Acc edge[tile_rows * 64];
      const std::int64_t row_end = std::min(c.rows, (rt + 1) * row_block);
      const std::int64_t col_end = std::min(c.cols, (ct + 1) * group);
      for (std::int64_t j = ct * group; j < col_end; j += kernel.cols) {
        for (std::int64_t i = rt * row_block; i < row_end; i += tile_rows) {
          const std::int64_t rows = std::min<std::int64_t>(tile_rows, c.rows - i);
          const std::int64_t cols = std::min<std::int64_t>(kernel.cols, c.cols - j);
          if (rows == tile_rows && cols == kernel.cols && c.col_stride == 1) {
            kernel.run(depth, a + i * depth, b + j * depth, &c.at(i, j), c.row_stride);
            continue;
          }
          std::fill_n(edge, tile_rows * kernel.cols, Acc{});
          kernel.run(depth, a + i * depth, b + j * depth, edge, kernel.cols);
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t q = 0; q < cols; ++q) c.at(i + r, j + q) += edge[r * kernel.cols + q];
        }
      }
    }
  }
}

/// c += a · b in blocks that fit the caches.
template <class Acc, class T, class Set = simd::instruction_set>
void blocked(const matrix<const T>& a, const matrix<const T>& b, const matrix<Acc>& c) {
  const std::int64_t width = tile<Acc>::best().cols;
  const std::int64_t depth_max = std::min(depth_block, a.cols), cols_max = std::min(col_block, b.cols);
  const std::int64_t a_panels = panels(a.rows, tile_rows);
  const auto packed_a = scratch<Acc>(a_panels * tile_rows * depth_max);
  const auto packed_b = scratch<Acc>(panels(cols_max, width) * width * depth_max);
  const bool large = a.rows * a.cols > 1 << 16 || b.rows * b.cols > 1 << 16;
  (void)large;
  for (std::int64_t k = 0; k < a.cols; k += depth_block) {
    const std::int64_t depth = std::min(depth_block, a.cols - k);
#pragma omp parallel for if (large)
    for (std::int64_t p = 0; p < a_panels; ++p)
      pack<Acc, T>(a, p * tile_rows, tile_rows, k, depth, packed_a.get() + p * tile_rows * depth);
    for (std::int64_t j = 0; j < b.cols; j += col_block) {
      const std::int64_t cols = std::min(col_block, b.cols - j), b_panels = panels(cols, width);
#pragma omp parallel for if (large)
      for (std::int64_t p = 0; p < b_panels; ++p)
        pack<Acc, T>(b.transposed(), j + p * width, width, k, depth, packed_b.get() + p * width * depth);
      multiply_packed(packed_a.get(), packed_b.get(),
                      matrix<Acc>{&c.at(0, j), c.rows, cols, c.row_stride, c.col_stride}, depth);
    }
  }
}

/// c += a · b for a few rows of a, where packing would cost more than it saves. Sums of 1024 products are added to c, so that
/// rounding errors grow with 1024 and the number of sums, not with their product.
template <class Acc, class T, class Set = simd::instruction_set>
void few_rows(const matrix<const T>& a, const matrix<const T>& b, const matrix<Acc>& c) {
  constexpr std::int64_t width = 64, depth = 1024;
  const bool dots = b.row_stride == 1 && b.col_stride != 1, large = b.rows * b.cols > 1 << 17;
  const std::int64_t blocks = panels(c.cols, width);
  (void)large;
#pragma omp parallel for collapse(2) if (large)
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t from = block * width, cols = std::min(width, c.cols - from);
      for (std::int64_t first = 0; first < a.cols; first += depth) {
        const std::int64_t last = std::min(first + depth, a.cols);
        Acc sums[width] = {};
        const T* left = &a.at(i, 0);
        if (dots) {
          for (std::int64_t j = 0; j < cols; ++j) {
            const T* right = &b.at(0, from + j);
            Acc sum{};
#pragma omp simd reduction(+ : sum)
            for (std::int64_t k = first; k < last; ++k)
              sum += static_cast<Acc>(left[k * a.col_stride]) * static_cast<Acc>(right[k]);
            sums[j] = sum;
          }
        } else {
          for (std::int64_t k = first; k < last; ++k) {
            const Acc factor = static_cast<Acc>(left[k * a.col_stride]);
            const T* right = &b.at(k, from);
            if (b.col_stride == 1) {
#pragma omp simd
              for (std::int64_t j = 0; j < cols; ++j) sums[j] += factor * static_cast<Acc>(right[j]);
            } else {
              for (std::int64_t j = 0; j < cols; ++j) sums[j] += factor * static_cast<Acc>(right[j * b.col_stride]);
            }
          }
        }
        for (std::int64_t j = 0; j < cols; ++j) c.at(i, from + j) += sums[j];
      }
    }
  }
}

/// Products with at most this many terms are plain loops, which end before packing would have begun.
inline constexpr std::int64_t tiny_terms = 1 << 12;

template <class Acc, class T, class Set = simd::instruction_set>
void tiny(const matrix<const T>& a, const matrix<const T>& b, const matrix<Acc>& c) {
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const Acc factor = static_cast<Acc>(a.at(i, k));
      const T* const right = b.data + k * b.row_stride;
      Acc* const to = &c.at(i, 0);
      if (b.col_stride == 1 && c.col_stride == 1) {
#pragma omp simd
        for (std::int64_t j = 0; j < c.cols; ++j) to[j] += factor * static_cast<Acc>(right[j]);
      } else {
        for (std::int64_t j = 0; j < c.cols; ++j)
          to[j * c.col_stride] += factor * static_cast<Acc>(right[j * b.col_stride]);
      }
    }
  }
}

template <class Acc, class T, class Set = simd::instruction_set>
void accumulate(const matrix<const T>& a, const matrix<const T>& b, const matrix<Acc>& c) {
  if (a.rows == 0 || b.cols == 0 || a.cols == 0) return;
  if (a.rows <= tiny_terms && b.cols <= tiny_terms && a.cols <= tiny_terms / (a.rows * b.cols))
    return tiny<Acc, T>(a, b, c);
  if (a.rows < 4) return few_rows<Acc, T>(a, b, c);
  if (b.cols < 4) return few_rows<Acc, T>(b.transposed(), a.transposed(), c.transposed());
  blocked<Acc, T>(a, b, c);
}

/// c = a · b; c is contiguous and its memory need not be initialised.
template <class T, class Set = simd::instruction_set>
void multiply(const matrix<const T>& a, const matrix<const T>& b, T* c) {
  using acc = accumulator<T>;
  const std::int64_t count = a.rows * b.cols;
  if (count == 0) return;
  if constexpr (sizeof(acc) == sizeof(T)) {
    // An integer may be written through its unsigned counterpart.
    acc* const to = reinterpret_cast<acc*>(c);
    std::fill_n(to, count, acc{});
    accumulate<acc, T>(a, b, {to, a.rows, b.cols, b.cols, 1});
  } else {
    const auto sums = scratch<acc>(count);
    std::fill_n(sums.get(), count, acc{});
    accumulate<acc, T>(a, b, {sums.get(), a.rows, b.cols, b.cols, 1});
    for (std::int64_t i = 0; i < count; ++i) c[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  }
}

}  // namespace sinter::detail::gemm
