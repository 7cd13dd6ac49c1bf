// base/extent.hpp: an extent as a C++ value: a number, or while a function is traced a symbolic size of its calls.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "config.hpp"
#include "location.hpp"

namespace sinter {

struct dim;

namespace detail {

enum class size_op : std::uint8_t { add, sub, mul, div, mod };
enum class size_relation : std::uint8_t { equal, less, less_equal };

/// The arithmetic of a trace's symbolic sizes.
class size_arithmetic {
 public:
  virtual ~size_arithmetic() = default;
  virtual dim combine(size_op what, dim a, dim b) = 0;
  /// Whether the relation holds in the traced call. The trace becomes valid only for calls with the same answer.
  virtual bool compare(size_relation what, dim a, dim b) = 0;
  /// The size in the traced call. The trace becomes valid only for calls of that size.
  virtual std::int64_t fix(dim a) = 0;
  /// The size in the traced call, without any consequence for other calls.
  virtual std::int64_t present(dim a) const = 0;
  /// The same size, read at a line of the program.
  virtual dim read_at(dim a, location where) = 0;
  virtual std::string text(dim a) = 0;
};

/// The size arithmetic of the innermost trace on this thread, or null.
SINTER_API size_arithmetic*& current_sizes();

SINTER_API dim combine_sizes(size_op what, dim a, dim b);
SINTER_API bool compare_sizes(size_relation what, dim a, dim b);
SINTER_API std::int64_t fixed_size(dim a);
SINTER_API std::int64_t present_size(dim a);
SINTER_API dim size_read_at(dim a, location where);

[[noreturn]] SINTER_API void fail_zero_divisor(std::int64_t a);
[[noreturn]] SINTER_API void fail_size_overflow(std::int64_t a, const char* by, std::int64_t b);

/// The four highest bits of a symbolic size's mark.
inline constexpr std::int64_t symbolic_bits = -6;

#define SINTER_X(SYMBOL, NAME)                                               \
  constexpr std::int64_t NAME##_numbers(std::int64_t a, std::int64_t b) {    \
    std::int64_t r = 0;                                                      \
    const bool over = __builtin_##NAME##_overflow(a, b, &r);                 \
    if (over || r >> 60 == symbolic_bits) fail_size_overflow(a, #SYMBOL, b); \
    return r;                                                                \
  }
SINTER_X(+, add)
SINTER_X(-, sub)
SINTER_X(*, mul)
#undef SINTER_X
// A processor traps at a division by 0, and at a quotient that does not fit.
constexpr std::int64_t div_numbers(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_zero_divisor(a);
  return b == -1 ? static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)) : a / b;
}
constexpr std::int64_t mod_numbers(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_zero_divisor(a);
  return b == -1 ? 0 : a % b;
}

}  // namespace detail

/// An extent. Outside a trace it is a number. Inside a trace it may be symbolic, and arithmetic keeps it symbolic. A
/// comparison is decided by the known facts about sizes if possible. Otherwise it gets the traced call's answer, and becomes
/// a guard. Converting a symbolic extent to an integer specialises the trace to that number.
struct dim {
  /// The number, or the mark of a symbolic size. Marks are the numbers from first_mark on that share its four highest bits;
  /// no extents and no limits of types are there.
  std::int64_t bits = 0;
  static constexpr std::int64_t first_mark = detail::symbolic_bits * (std::int64_t{1} << 60);

  constexpr dim() = default;
  template <std::integral I>
  constexpr dim(I n) : bits(static_cast<std::int64_t>(n)) {}

  constexpr bool is_symbolic() const { return bits >> 60 == first_mark >> 60; }
  constexpr operator std::int64_t() const { return is_symbolic() ? detail::fixed_size(*this) : bits; }
  /// "64", or "s0*4" for a symbolic size.
  SINTER_API std::string text() const;

#define SINTER_X(SYMBOL, NAME)                                                                         \
  friend constexpr dim operator SYMBOL(dim a, dim b) {                                                 \
    if (a.is_symbolic() || b.is_symbolic()) return detail::combine_sizes(detail::size_op::NAME, a, b); \
    return dim(detail::NAME##_numbers(a.bits, b.bits));                                                \
  }                                                                                                    \
  template <std::integral I>                                                                           \
  friend constexpr dim operator SYMBOL(dim a, I b) {                                                   \
    return a SYMBOL dim(b);                                                                            \
  }                                                                                                    \
  template <std::integral I>                                                                           \
  friend constexpr dim operator SYMBOL(I a, dim b) {                                                   \
    return dim(a) SYMBOL b;                                                                            \
  }                                                                                                    \
  constexpr dim& operator SYMBOL##=(dim b) { return *this = *this SYMBOL b; }
  SINTER_X(+, add)
  SINTER_X(-, sub)
  SINTER_X(*, mul)
  SINTER_X(/, div)
  SINTER_X(%, mod)
#undef SINTER_X
  constexpr dim operator-() const { return dim(0) - *this; }
  constexpr dim& operator++() { return *this += 1; }
  constexpr dim& operator--() { return *this -= 1; }
  constexpr dim operator++(int) {
    const dim before = *this;
    ++*this;
    return before;
  }
  constexpr dim operator--(int) {
    const dim before = *this;
    --*this;
    return before;
  }

#define SINTER_X(SYMBOL, NAME, A, B, NEGATION)                                                                        \
  friend constexpr bool operator SYMBOL(const dim& a, const dim& b) {                                                 \
    if (a.is_symbolic() || b.is_symbolic()) return NEGATION detail::compare_sizes(detail::size_relation::NAME, A, B); \
    return a.bits SYMBOL b.bits;                                                                                      \
  }                                                                                                                   \
  template <std::integral I>                                                                                          \
  friend constexpr bool operator SYMBOL(dim a, I b) {                                                                 \
    return a SYMBOL dim(b);                                                                                           \
  }                                                                                                                   \
  template <std::integral I>                                                                                          \
  friend constexpr bool operator SYMBOL(I a, dim b) {                                                                 \
    return dim(a) SYMBOL b;                                                                                           \
  }
  SINTER_X(==, equal, a, b, )
  SINTER_X(!=, equal, a, b, !)
  SINTER_X(<, less, a, b, )
  SINTER_X(<=, less_equal, a, b, )
  SINTER_X(>, less, b, a, )
  SINTER_X(>=, less_equal, b, a, )
#undef SINTER_X
};

static_assert(sizeof(dim) == sizeof(std::int64_t));

namespace detail {
/// An extent that the program reads at a line.
inline dim read_at(dim e, location where) { return e.is_symbolic() ? size_read_at(e, where) : e; }

/// An array of extents that are numbers, as integers.
inline const std::int64_t* as_numbers(const dim* extents) { return reinterpret_cast<const std::int64_t*>(extents); }
}  // namespace detail

/// A C++ integer or an extent.
template <class I>
concept extent_like = std::integral<I> || std::same_as<I, dim>;

}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "dims.hpp"
#endif
