// plan/schedule/intrinsics.hpp: the matrix intrinsics of all targets: their shapes, and which lane holds which element.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "../loops/tree.hpp"

namespace sinter::engine::plan::schedules {

/// The place of an element in the registers of a warp, or of a thread: bit b of the register's number, or of the lane's, adds
/// row << 8 | column.
struct fragment {
  std::span<const std::uint16_t> registers, lanes;

  int count() const { return 1 << registers.size(); }
  int width() const { return 1 << lanes.size(); }
  /// row << 8 | column of an element.
  int element(int lane, int reg) const {
    int at = 0;
    for (std::size_t b = 0; b < lanes.size(); ++b) at += lane >> b & 1 ? lanes[b] : 0;
    for (std::size_t b = 0; b < registers.size(); ++b) at += reg >> b & 1 ? registers[b] : 0;
    return at;
  }
};

/// Whether the registers of one operand are those of another as they lie.
inline bool same(const fragment& a, const fragment& b) {
  const auto equal = [](auto x, auto y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  return equal(a.registers, b.registers) && equal(a.lanes, b.lanes);
}

/// Whether sums, taken several side by side, are a left operand as they lie: each lane has its elements of both, and further sums
/// are the operand's last registers.
inline bool chains(const fragment& sums, const fragment& left, int columns) {
  const std::size_t n = sums.registers.size();
  if (!same({sums.registers, sums.lanes}, {left.registers.first(std::min(n, left.registers.size())), left.lanes}))
    return false;
  for (std::size_t b = n; b < left.registers.size(); ++b, columns *= 2)
    if (left.registers[b] != columns) return false;
  return true;
}

/// Who multiplies: a thread, a warp, or a group of four warps. Each warp of a group has `m` rows, and these follow each other.
enum class scope : std::uint8_t { thread, warp, group };
inline constexpr int warps_of_group = 4;

/// sum(m, n) += x(m, k) · y(k, n). A group reads y from shared memory, and x from there or from registers.
struct intrinsic {
  const char* word;
  dtype x, y, sum;
  int m, n, k;
  scope who;
  fragment fx, fy, fs;
  loops::layout y_as;  ///< the layout of y in memory
  const char* needs;   ///< the capability of a target that has it
  int most = 2;        ///< how many of n, a power of two, a statement has side by side
};

namespace detail {

inline constexpr std::uint16_t row(int n) { return static_cast<std::uint16_t>(n << 8); }
inline constexpr std::uint16_t column(int n) { return static_cast<std::uint16_t>(n); }

// PTX ISA 8.5, "Matrix Fragments for mma.m16n8k16", ".m16n8k8" and ".m16n8k32": a lane is groupID · 4 + threadID_in_group.
inline constexpr std::uint16_t lanes_of_sum[] = {column(2), column(4), row(1), row(2), row(4)};
inline constexpr std::uint16_t registers_of_sum[] = {column(1), row(8)};
inline constexpr std::uint16_t x16_registers[] = {column(1), row(8), column(8)};
inline constexpr std::uint16_t y16_registers[] = {row(1), row(8)},
                               y16_lanes[] = {row(2), row(4), column(1), column(2), column(4)};
inline constexpr std::uint16_t x32_registers[] = {row(8), column(4)},
                               x32_lanes[] = {column(1), column(2), row(1), row(2), row(4)};
inline constexpr std::uint16_t y32_registers[] = {row(4)},
                               y32_lanes[] = {row(1), row(2), column(1), column(2), column(4)};
inline constexpr std::uint16_t x8_registers[] = {column(1), column(2), row(8), column(16)},
                               x8_lanes[] = {column(4), column(8), row(1), row(2), row(4)};
inline constexpr std::uint16_t y8_registers[] = {row(1), row(2), row(16)},
                               y8_lanes[] = {row(4), row(8), column(1), column(2), column(4)};

// A register of a CPU is a vector; lanes are its elements.
inline constexpr std::uint16_t rows_of_4[] = {row(1), row(2)}, rows_of_8[] = {row(1), row(2), row(4)};
inline constexpr std::uint16_t lanes_of_8[] = {column(1), column(2), column(4)},
                               lanes_of_16[] = {column(1), column(2), column(4), column(8)};
inline constexpr std::uint16_t sums_avx2[] = {column(8), row(1), row(2)};
inline constexpr std::uint16_t sums_avx512[] = {column(16), row(1), row(2), row(4)};
inline constexpr std::uint16_t second_8[] = {column(8)}, second_16[] = {column(16)};
inline constexpr std::uint16_t pair_columns[] = {column(1), row(1), row(2), row(4)}, pair_rows[] = {row(1), column(16)};
// A row of an AMX tile is 64 bytes; a lane is an element of it.
inline constexpr std::uint16_t rows_of_16[] = {row(1), row(2), row(4), row(8)};
inline constexpr std::uint16_t lanes_of_32[] = {column(1), column(2), column(4), column(8), column(16)};
inline constexpr std::uint16_t vnni_rows[] = {row(2), row(4), row(8), row(16)},
                               vnni_lanes[] = {row(1), column(1), column(2), column(4), column(8)};

inline constexpr intrinsic table[] = {
    {"avx2_f32",
     dtype::f32,
     dtype::f32,
     dtype::f32,
     4,
     16,
     1,
     scope::thread,
     {rows_of_4, {}},
     {second_8, lanes_of_8},
     {sums_avx2, lanes_of_8},
     loops::layout::rows,
     "avx2"},
    {"avx512_f32",
     dtype::f32,
     dtype::f32,
     dtype::f32,
     8,
     32,
     1,
     scope::thread,
     {rows_of_8, {}},
     {second_16, lanes_of_16},
     {sums_avx512, lanes_of_16},
     loops::layout::rows,
     "avx512f"},
    {"avx512_bf16",
     dtype::bf16,
     dtype::bf16,
     dtype::f32,
     8,
     32,
     2,
     scope::thread,
     {pair_columns, {}},
     {pair_rows, lanes_of_16},
     {sums_avx512, lanes_of_16},
     loops::layout::vnni,
     "avx512_bf16"},
    {"amx_bf16",
     dtype::bf16,
     dtype::bf16,
     dtype::f32,
     16,
     16,
     32,
     scope::thread,
     {rows_of_16, lanes_of_32},
     {vnni_rows, vnni_lanes},
     {rows_of_16, lanes_of_16},
     loops::layout::vnni,
     "amx_bf16"},
    {"mma_bf16",
     dtype::bf16,
     dtype::bf16,
     dtype::f32,
     16,
     8,
     16,
     scope::warp,
     {x16_registers, lanes_of_sum},
     {y16_registers, y16_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "sm_80"},
    {"mma_f16",
     dtype::f16,
     dtype::f16,
     dtype::f32,
     16,
     8,
     16,
     scope::warp,
     {x16_registers, lanes_of_sum},
     {y16_registers, y16_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "sm_80"},
    {"mma_tf32",
     dtype::f32,
     dtype::f32,
     dtype::f32,
     16,
     8,
     8,
     scope::warp,
     {x32_registers, x32_lanes},
     {y32_registers, y32_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "tf32"},
    {"mma_s8",
     dtype::i8,
     dtype::i8,
     dtype::i32,
     16,
     8,
     32,
     scope::warp,
     {x8_registers, x8_lanes},
     {y8_registers, y8_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "sm_80"},
    // "Register Fragments and Shared Memory Matrix Layouts", wgmma.mma_async.m64nNk16: a warp's part is that of mma.m16n8k16.
    {"wgmma_bf16",
     dtype::bf16,
     dtype::bf16,
     dtype::f32,
     16,
     8,
     16,
     scope::group,
     {x16_registers, lanes_of_sum},
     {y16_registers, y16_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "sm_90a",
     32},
    {"wgmma_f16",
     dtype::f16,
     dtype::f16,
     dtype::f32,
     16,
     8,
     16,
     scope::group,
     {x16_registers, lanes_of_sum},
     {y16_registers, y16_lanes},
     {registers_of_sum, lanes_of_sum},
     loops::layout::rows,
     "sm_90a",
     32},
};

}  // namespace detail

/// The table; a row's number is its place.
inline std::span<const intrinsic> intrinsics() { return detail::table; }

/// The number of the row `word`; -1 if there is none.
inline int row_of(std::string_view word) {
  const auto all = intrinsics();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (word == all[i].word) return static_cast<int>(i);
  return -1;
}

/// The fragment of operand 0, 1 (x, y) or 2 (sum).
constexpr const fragment& operand_of(const intrinsic& i, int operand) {
  return operand == 0 ? i.fx : operand == 1 ? i.fy : i.fs;
}

namespace detail {

/// For each row of the table and each operand: the registers' bits, then those of the blocks side by side.
inline constexpr std::size_t max_bits = 8, max_doublings = 6;
constexpr int columns_of(const intrinsic& i, int operand) { return operand == 0 ? i.k : i.n; }
inline constexpr auto bits_of_blocks = [] {
  std::array<std::array<std::array<std::uint16_t, max_bits>, 3>, std::size(table)> out{};
  for (std::size_t r = 0; r < out.size(); ++r)
    for (int operand : {0, 1, 2}) {
      auto& bits = out[r][static_cast<std::size_t>(operand)];
      std::size_t n = 0;
      for (auto adds : operand_of(table[r], operand).registers) bits[n++] = adds;
      for (int blocks = 1; blocks < table[r].most && n < max_bits && columns_of(table[r], operand) * blocks < 256;
           blocks *= 2)
        bits[n++] = column(columns_of(table[r], operand) * blocks);
    }
  return out;
}();
inline constexpr auto blocks = [] {
  std::array<std::array<std::array<fragment, max_doublings>, 3>, std::size(table)> out{};
  for (std::size_t r = 0; r < out.size(); ++r)
    for (int operand : {0, 1, 2})
      for (std::size_t d = 0; d < max_doublings; ++d) {
        const fragment& one = operand_of(table[r], operand);
        const auto o = static_cast<std::size_t>(operand);
        if (one.registers.size() + d <= max_bits)
          out[r][o][d] = {{bits_of_blocks[r][o].data(), one.registers.size() + d}, one.lanes};
      }
  return out;
}();

}  // namespace detail

/// The number of an operand's blocks in `columns`: 1, or a power of two up to `most`; 0: neither. The columns of the left operand, 0, are
/// terms.
inline int blocks_of(const intrinsic& i, int operand, std::int64_t columns) {
  for (int n = 1; n <= i.most; n *= 2)
    if (columns == static_cast<std::int64_t>(n) * detail::columns_of(i, operand)) return n;
  return 0;
}
/// The fragment of `n` blocks of an operand side by side: the registers of each follow those of the one before.
inline const fragment& fragment_of_blocks(int row, int operand, int n) {
  std::size_t doublings = 0;
  while (1 << doublings < n) ++doublings;
  return detail::blocks[static_cast<std::size_t>(row)][static_cast<std::size_t>(operand)][doublings];
}

}  // namespace sinter::engine::plan::schedules
