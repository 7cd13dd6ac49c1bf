// front/evaluate/formula_loop.hpp: the elements of a formula, block by block: one loop an operation over elements in the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../eager/fill.hpp"

namespace sinter::detail {

/// What a formula's expression begins with.
struct formula_head {
  const term* terms = nullptr;
  int count = 0;
};

/// out = one operation of n elements of each operand.
using block_function = void (*)(const void* const* in, std::int64_t n, void* out);

template <ir::op Op, class R, class... A>
void run_block(const void* const* in, std::int64_t n, void* out) {
  using E = expr<Op, R, dims{dyn}, tensor<A, dims{dyn}>...>;
  static const E e(location{}, tensor<A, dims{dyn}>()...);
  int i = 0;
  const cursor at[] = {{static_cast<const char*>(in[i++]), 0, std::int64_t(sizeof(A))}...};
  fill_row<E>(&e, at, 0, n, out);
}

#define SINTER_FORMULA_NUMBERS(X) X(add) X(sub) X(mul) X(div) X(maximum) X(minimum)
#define SINTER_FORMULA_COMPARISONS(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define SINTER_FORMULA_FLOATS(X) X(neg) X(exp) X(log) X(expm1) X(sqrt) X(rsqrt) X(abs) X(stop_gradient)
#define SINTER_FORMULA_TESTS(X) X(isnan) X(isinf) X(isfinite)

/// The loop of an operation on operands of type T, or null.
template <class T>
block_function block_of(ir::op code) {
  using enum ir::op;
  switch (code) {
#define SINTER_X(OP) \
  case OP:           \
    return &run_block<OP, T, T, T>;
    SINTER_FORMULA_NUMBERS(SINTER_X)
#undef SINTER_X
#define SINTER_X(OP) \
  case OP:           \
    return &run_block<OP, bool, T, T>;
    SINTER_FORMULA_COMPARISONS(SINTER_X)
#undef SINTER_X
    case select:
      return &run_block<select, T, bool, T, T>;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) switch (code) {
#define SINTER_X(OP) \
  case OP:           \
    return &run_block<OP, T, T>;
      SINTER_FORMULA_FLOATS(SINTER_X)
#undef SINTER_X
#define SINTER_X(OP) \
  case OP:           \
    return &run_block<OP, bool, T>;
      SINTER_FORMULA_TESTS(SINTER_X)
#undef SINTER_X
      default:
        break;
    }
  return nullptr;
}
inline block_function block_of_bools(ir::op code) {
  using enum ir::op;
  if (code == bit_and) return &run_block<bit_and, bool, bool, bool>;
  if (code == bit_or) return &run_block<bit_or, bool, bool, bool>;
  return code == bit_not ? &run_block<bit_not, bool, bool> : nullptr;
}

/// The loop of a cast that begins or ends with f32, f64 or i64, or null.
inline block_function block_of_cast(dtype from, dtype to) {
  return visit_dtype(from, [&](auto source) {
    return visit_dtype(to, [](auto target) -> block_function {
      using A = typename decltype(source)::type;
      using R = typename decltype(target)::type;
      constexpr auto common = []<class T>(T*) {
        return std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>;
      };
      if constexpr (common(static_cast<A*>(nullptr)) || common(static_cast<R*>(nullptr)))
        return &run_block<ir::op::cast, R, A>;
      else return nullptr;
    });
  });
}

/// The loop of an operation of a formula. An internal error for one that no formula uses.
inline block_function block_of(ir::op code, dtype operand, dtype result) {
  const block_function f = code == ir::op::cast    ? block_of_cast(operand, result)
                           : operand == dtype::f32 ? block_of<float>(code)
                           : operand == dtype::f64 ? block_of<double>(code)
                           : operand == dtype::i32 ? block_of<std::int32_t>(code)
                           : operand == dtype::i64 ? block_of<std::int64_t>(code)
                           : operand == dtype::b8  ? block_of_bools(code)
                                                   : nullptr;
  ensure(f != nullptr, "an operation of a formula has a loop");
  return f;
}

/// n elements of a leaf, side by side.
inline const void* gathered(const cursor& from, std::int64_t first, std::int64_t n, std::int64_t bytes, std::byte* to) {
  const char* at = from.data + first * from.step;
  if (from.step == bytes) return at;
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * bytes, at + i * from.step, static_cast<std::size_t>(bytes));
  return to;
}

inline constexpr std::int64_t formula_block = 256;

/// Elements [first, first + n) of a formula's terms, in order.
class formula_reader {
 public:
  formula_reader(const void* expression, const cursor* leaves, std::byte* space, std::int64_t first, std::int64_t n)
      : head_(*static_cast<const formula_head*>(expression)),
        base_(static_cast<const char*>(expression)),
        leaves_(leaves),
        space_(space),
        first_(first),
        n_(n) {}

  /// The elements of the next term. An operation's are written to `to`, if given.
  const void* next(void* to = nullptr) {
    const int own = term_++;
    const term& t = head_.terms[own];
    const auto bytes = static_cast<std::int64_t>(size_of(t.type));
    std::byte* const room = space_ + own * formula_block * 8;
    if (t.is == term::index) return counted(t.type, leaves_[leaf_++], room);
    if (t.is == term::tensor) return gathered(leaves_[leaf_++], first_, n_, bytes, room);
    if (t.is != term::operation) return gathered({base_ + t.offset, 0, 0}, 0, n_, bytes, room);
    const int condition = ir::row(t.code).rule == ir::dtype_rule::selection ? 1 : 0;
    const void* in[3];
    dtype operand{};
    for (int k = 0; k < t.arity; ++k) {
      if (k == condition) operand = head_.terms[term_].type;
      in[k] = next();
    }
    void* const out = to ? to : room;
    block_of(t.code, operand, t.type)(in, n_, out);
    return out;
  }

 private:
  const void* counted(dtype type, const cursor& from, std::byte* to) const {
    ensure(type == dtype::i32 || type == dtype::i64, "the positions of a formula are i32 or i64");
    for (std::int64_t i = 0; i < n_; ++i) {
      const std::int64_t at = from.base + (first_ + i) * from.step;
      if (type == dtype::i64) reinterpret_cast<std::int64_t*>(to)[i] = at;
      else reinterpret_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(at);
    }
    return to;
  }

  const formula_head head_;
  const char* base_;
  const cursor* leaves_;
  std::byte* space_;
  std::int64_t first_, n_;
  int term_ = 0, leaf_ = 0;
};

/// fill_row of a formula.
inline void fill_formula(const void* expression, const cursor* at, std::int64_t begin, std::int64_t end, void* to) {
  const formula_head& head = *static_cast<const formula_head*>(expression);
  const auto size = static_cast<std::int64_t>(size_of(head.terms->type));
  local_list<std::byte, 16 * formula_block * 8> space(static_cast<std::size_t>(head.count * formula_block * 8));
  auto* out = static_cast<std::byte*>(to);
  for (std::int64_t i = begin; i < end; i += formula_block, out += formula_block * size) {
    const std::int64_t n = std::min(formula_block, end - i);
    const void* const values = formula_reader(expression, at, space.data(), i, n).next(out);
    if (values != out) std::memcpy(out, values, static_cast<std::size_t>(n * size));
  }
}

}  // namespace sinter::detail
