// ir/op.hpp: the primitive operations and the facts about them that every stage shares.
#pragma once

#include <cstdint>

#include "../base/dtype.hpp"

namespace sinter::ir {

enum class op : std::uint8_t {
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) name,
#include "ops.def"
#define SINTER_STRUCTURAL(name, view) name,
#include "ops.def"
};

inline constexpr int pointwise_count = static_cast<int>(op::input);

constexpr bool is_pointwise(op o) { return static_cast<int>(o) < pointwise_count; }

/// The operand and result dtypes of a pointwise op.
enum class dtype_rule : std::uint8_t {
  arithmetic,  ///< equal operands, any dtype except bool; the same dtype
  floating,    ///< equal floating operands; the same dtype
  integer,     ///< equal integer operands; the same dtype
  bits,        ///< equal integer or bool operands; the same dtype
  comparison,  ///< equal operands; bool
  test,        ///< a floating operand; bool
  selection,   ///< bool, then two equal operands; their dtype
  conversion,  ///< any dtype; the node's target dtype
  same_size,   ///< f32, f64 or an integer dtype; the node's target dtype, which is one of these and of equal size
  any,         ///< any dtype; the same
  random,      ///< u64; u64
};

struct pointwise_row {
  const char* name;
  int arity;
  dtype_rule rule;
  const char* value;
};

inline constexpr pointwise_row pointwise_rows[] = {
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) {#name, arity, dtype_rule::rule, #value},
#include "ops.def"
};

constexpr const pointwise_row& row(op o) { return pointwise_rows[static_cast<int>(o)]; }

struct structural_row {
  const char* name;
  bool view;
};

inline constexpr structural_row structural_rows[] = {
#define SINTER_STRUCTURAL(name, view) {#name, view},
#include "ops.def"
};

constexpr const structural_row& structural(op o) { return structural_rows[static_cast<int>(o) - pointwise_count]; }

constexpr const char* name(op o) { return is_pointwise(o) ? row(o).name : structural(o).name; }

/// True for ops that only rename coordinates: they cost nothing if their input is in memory.
constexpr bool is_view(op o) { return !is_pointwise(o) && structural(o).view; }

/// True for ops over an axis of a mesh; `as` and axis_index among them.
constexpr bool is_collective(op o) { return o >= op::all_reduce && o <= op::as; }

/// True for ops that cost much more than a load.
constexpr bool is_expensive(op o) {
  return is_pointwise(o) &&
         (row(o).rule == dtype_rule::floating || row(o).rule == dtype_rule::random || o == op::pow || o == op::fmod);
}

/// True for rules whose result has the node's target dtype.
constexpr bool names_type(dtype_rule r) { return r == dtype_rule::conversion || r == dtype_rule::same_size; }

/// Whether numbers of a dtype are computed in their memory representation.
constexpr bool has_own_bits(dtype t) { return !is_bool(t) && !is_narrow(t); }

/// The error of operand dtypes under a rule, or nullptr; `result` receives the result's dtype. `target` is the target dtype
/// of a conversion.
constexpr const char* apply(dtype_rule rule, const dtype* in, int arity, dtype target, dtype& result) {
  const int first = rule == dtype_rule::selection ? 1 : 0;
  for (int i = first + 1; i < arity; ++i)
    if (in[i] != in[first]) return "operands have different dtypes; cast one with cast<T>(x)";
  const dtype t = in[first];
  result = t;
  switch (rule) {
    case dtype_rule::arithmetic:
      return is_bool(t) ? "takes numbers, not bool; cast with cast<T>(x)" : nullptr;
    case dtype_rule::floating:
      return is_float(t) ? nullptr : "takes a floating dtype; cast with cast<float>(x)";
    case dtype_rule::integer:
      return is_integer(t) ? nullptr : "takes an integer dtype";
    case dtype_rule::bits:
      return is_float(t) ? "takes integers or bool" : nullptr;
    case dtype_rule::comparison:
      result = dtype::b8;
      return nullptr;
    case dtype_rule::test:
      result = dtype::b8;
      return is_float(t) ? nullptr : "takes a floating dtype; cast with cast<float>(x)";
    case dtype_rule::selection:
      return is_bool(in[0]) ? nullptr : "takes a bool condition";
    case dtype_rule::conversion:
      result = target;
      return nullptr;
    case dtype_rule::same_size:
      result = target;
      return has_own_bits(t) && has_own_bits(target) && size_of(t) == size_of(target)
                 ? nullptr
                 : "takes f32, f64 or integers, and gives such of the same size";
    case dtype_rule::any:
      return nullptr;
    case dtype_rule::random:
      return t == dtype::u64 ? nullptr : "takes u64 operands";
  }
  return "unknown rule";
}

/// Ops for integer quotients and remainders.
inline constexpr op quotient = op::div, remainder = op::fmod;

}  // namespace sinter::ir
