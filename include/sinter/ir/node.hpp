// ir/node.hpp: the record of one operation.
#pragma once

#include <cstdint>
#include <memory>

#include "../base/location.hpp"
#include "../base/series.hpp"
#include "dim.hpp"
#include "op.hpp"

namespace sinter::ir {

using node_id = std::uint32_t;
inline constexpr node_id no_node = ~node_id{0};

using shape = series<dim>;

struct opaque;

/// A literal in the widest type of its kind.
struct scalar {
  double f = 0;        ///< the value of a floating literal
  std::int64_t i = 0;  ///< the value of any other; the bits of a u64

  /// The result of a cast: truncates, saturates at the ends of the range, and gives 0 for NaN.
  static scalar of(dtype t, double x) {
    if (is_float(t)) return {x, 0};
    if (is_bool(t)) return {0, x != 0};
    const bool is_signed = !is_unsigned(t);
    const int bits = static_cast<int>(size_of(t)) * 8 - is_signed;
    const double end = bits == 64 ? 0x1p64 : static_cast<double>(std::uint64_t{1} << bits);
    const std::uint64_t last = ~std::uint64_t{0} >> (64 - bits);
    if (x >= end) return {0, static_cast<std::int64_t>(last)};
    if (is_signed && x < -end) return {0, -1 - static_cast<std::int64_t>(last)};
    if (x != x || (!is_signed && x < 0)) return {0, 0};
    return {0, is_signed ? static_cast<std::int64_t>(x) : static_cast<std::int64_t>(static_cast<std::uint64_t>(x))};
  }
  bool operator==(const scalar&) const = default;
};

/// The identity of a combiner. For maximum and minimum it is the value that every other value replaces.
constexpr scalar combiner_identity(op combiner, dtype t) {
  const bool low = combiner == op::maximum;
  switch (combiner) {
    case op::mul:
      return {1.0, 1};
    case op::bit_and:
      return {0, is_bool(t) ? 1 : -1};
    case op::maximum:
    case op::minimum: {
      if (t == dtype::f8_e4m3) return {low ? -448.0 : 448.0, 0};  // it has no infinity
      if (is_float(t)) return {low ? -__builtin_inf() : __builtin_inf(), 0};
      if (is_bool(t)) return {0, !low};
      const int bits = static_cast<int>(size_of(t)) * 8;
      if (is_unsigned(t)) return {0, low ? 0 : static_cast<std::int64_t>(~0ull >> (64 - bits))};
      const auto most = static_cast<std::int64_t>(~0ull >> (65 - bits));
      return {0, low ? -most - 1 : most};
    }
    default:
      return {};
  }
}

/// The attributes of an op besides its operands; ops/NAME.hpp lists the fields that each op reads.
struct attributes {
  dtype type = dtype::f32;  ///< input, constant, iota, cast: the dtype of the result
  /// reduce: add mul maximum minimum bit_or bit_and; scan: add mul maximum minimum; arg_reduce: maximum minimum
  op combiner = op::add;
  series<std::int64_t> ints;           ///< axes, a permutation, steps, counts; for a constant apart its source
  series<dim> dims;                    ///< the result's extents, or starts
  scalar literal{};                    ///< constant, pad: the value
  std::shared_ptr<const opaque> step;  ///< opaque: the step; immutable

  bool operator==(const attributes&) const = default;
};

struct node {
  op code = op::input;
  series<node_id> in;
  attributes attr;
  dtype type = dtype::f32;  ///< inferred by graph::push
  shape extents;            ///< inferred by graph::push
  location where;
};

}  // namespace sinter::ir
