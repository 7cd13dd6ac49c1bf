// ir/dim.hpp: an extent or index coefficient: a number, or a polynomial over size symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../base/config.hpp"
#include "../base/error.hpp"
#include "../base/series.hpp"

namespace sinter::ir {

namespace detail {
struct polynomial;
}

/// Exact integer arithmetic on extents. Equal dims are equal for every binding of the symbols; unequal ones may still
/// agree for some. Polynomials are interned for the life of the process, so that a dim copies and compares as two words.
class dim {
 public:
  constexpr dim() = default;
  constexpr dim(std::int64_t n) : number_(n) {}

  /// The size symbol s<index>, assumed to be at least 2.
  SINTER_API static dim symbol(int index);

  constexpr bool is_number() const { return symbolic_ == nullptr; }
  constexpr bool is(std::int64_t n) const { return is_number() && number_ == n; }
  constexpr std::optional<std::int64_t> number() const { return is_number() ? std::optional(number_) : std::nullopt; }
  const detail::polynomial* symbolic() const { return symbolic_; }
  static dim of(const detail::polynomial* interned) {
    dim d;
    d.symbolic_ = interned;
    return d;
  }

  friend dim operator+(const dim& a, const dim& b) {
    std::int64_t sum = 0;
    const bool fits = a.is_number() && b.is_number() && !__builtin_add_overflow(a.number_, b.number_, &sum);
    return fits ? dim(sum) : add(a, b);
  }
  friend dim operator*(const dim& a, const dim& b) {
    std::int64_t product = 0;
    const bool fits = a.is_number() && b.is_number() && !__builtin_mul_overflow(a.number_, b.number_, &product);
    return fits ? dim(product) : multiply(a, b);
  }
  friend dim operator-(const dim& a, const dim& b) { return a + b * dim(-1); }
  dim& operator+=(const dim& b) { return *this = *this + b; }
  dim& operator*=(const dim& b) { return *this = *this * b; }
  constexpr bool operator==(const dim&) const = default;

  /// The exact quotient, if polynomial division leaves no remainder; otherwise nothing.
  SINTER_API std::optional<dim> divided_by(const dim& d) const;

  /// floor(a / b), for b > 0; a ≥ 0 unless b is a number. Nested quotients are merged, and ceilings by 2 disappear.
  SINTER_API friend dim floor_div(const dim& a, const dim& b);

  /// A number below the value for no binding. It follows from the signs of the terms, with each symbol at least 2, and
  /// quotients by numbers replaced by their dividends.
  std::int64_t lower_bound() const { return is_number() ? number_ : bound(1); }
  std::int64_t upper_bound() const { return is_number() ? number_ : bound(-1); }

  /// The value under `sizes`, indexed by symbol.
  std::int64_t evaluate(std::span<const std::int64_t> sizes) const { return is_number() ? number_ : value(sizes); }

  /// The C spelling, which is also printed: "64", "s0*64 + 1".
  SINTER_API std::string text() const;

 private:
  SINTER_API static dim add(const dim& a, const dim& b);
  SINTER_API static dim multiply(const dim& a, const dim& b);
  SINTER_API std::int64_t bound(int side) const;
  SINTER_API std::int64_t value(std::span<const std::int64_t> sizes) const;

  std::int64_t number_ = 0;
  const detail::polynomial* symbolic_ = nullptr;
};

}  // namespace sinter::ir

template <>
inline constexpr std::size_t sinter::held_within<sinter::ir::dim> = 2;

namespace sinter::ir {

SINTER_API dim floor_div(const dim& a, const dim& b);

/// Whether d is 0 for every binding; quotients by numbers can hide it: (n + 2)/3 + (n + 1)/3 + n/3 - n.
SINTER_API bool is_always_zero(const dim& d);

/// Whether the value depends on the symbol s<index>.
SINTER_API bool depends_on(const dim& d, int symbol);
/// d with s<index> replaced.
SINTER_API dim substituted(const dim& d, int symbol, const dim& value);

/// d as coefficient·s<symbol> + rest, if the rest of d does not depend on the symbol.
struct linear_form {
  std::int64_t coefficient = 0;
  dim rest;
};
SINTER_API std::optional<linear_form> linear_in(const dim& d, int symbol);

/// The least and the largest value for s<i> from 2 to most[i]; ±2^62 stand for no bound.
struct size_range {
  std::int64_t least = 0, most = 0;
};
SINTER_API size_range range_of(const dim& d, std::span<const std::int64_t> most);

/// "(3, s0*4)".
SINTER_API std::string text_of(std::span<const dim> extents);

SINTER_API dim product(std::span<const dim> extents);

}  // namespace sinter::ir

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "../base/engine_begin.hpp"
#include "../base/engine_end.hpp"
#include "polynomial.hpp"
#endif
