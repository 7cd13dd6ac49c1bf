// front/tensor/operators.hpp: the operators of tensors and expressions; each records the user's line.
#pragma once

#include <type_traits>

#include "../../base/dtype.hpp"
#include "../../base/extent.hpp"
#include "../../base/location.hpp"
#include "../../ir/op.hpp"

namespace sinter {

/// A tensor, or a lazy expression of tensors.
template <class E>
concept tensor_like = requires {
  typename std::remove_cvref_t<E>::tensor_like_tag;
};

namespace detail {

/// A number that belongs to a formula and does not depend on any argument.
struct formula_number {
  double value;
  template <class T>
  explicit constexpr operator T() const {
    return static_cast<T>(value);
  }
};

}  // namespace detail

/// A C++ number or an extent; beside a tensor it takes the tensor's dtype.
template <class A>
concept scalar_like = std::is_arithmetic_v<A> || is_narrow_float<A> || std::is_same_v<A, dim> ||
    std::is_same_v<A, detail::formula_number>;

/// An operand of a pointwise function.
template <class A>
concept operand_like = tensor_like<A> || scalar_like<A>;

template <class T>
class number;  // number.hpp

namespace detail {

template <class A>
inline constexpr bool is_number = false;
template <class T>
inline constexpr bool is_number<number<T>> = true;

/// An operand and the place where it was written; the conversion's default argument is the place of the operator's caller.
template <class E>
struct here {
  const E& value;
  location at;
  constexpr here(const E& e, location where = location::current()) : value(e), at(where) {}
};

template <class E>
struct target_here {
  E& value;
  location at;
  constexpr target_here(E& e, location where = location::current()) : value(e), at(where) {}
};

/// The lazy expression of a pointwise op; R names the result of a cast. (expr.hpp)
template <ir::op Op, class R = void, class... Args>
constexpr auto make(location at, const Args&... args);

/// Like `make`, for operators that take bool tensors only. (expr.hpp)
template <ir::op Op, class... Args>
constexpr auto make_logical(location at, const Args&... args);

/// Returns false after a compile-time error where `a OP b` does not exist, or its result does not fit a. (expr.hpp)
template <ir::op Op, class E, class B>
constexpr bool keeps_shape();

// These are not concepts: if one operand rule were more constrained, `x == 1` would match `1 == x` reversed.
template <class A>
inline constexpr bool is_scalar_operand = scalar_like<A>;
template <class A>
inline constexpr bool is_operand = operand_like<A>;

#define SINTER_BINARY(SYMBOL, MAKE)                                                               \
  template <class B>                                                                              \
  requires is_operand<B>                                                                          \
  friend constexpr auto operator SYMBOL(here<E> a, const B& b) { return MAKE(a.at, a.value, b); } \
  template <class A>                                                                              \
  requires is_scalar_operand<A>                                                                   \
  friend constexpr auto operator SYMBOL(A a, here<E> b) { return MAKE(b.at, a, b.value); }
// The constraint of the second `!` excludes types that merely convert to bool, for which C++'s own `!` holds.
#define SINTER_OPERATORS(SPACE)                                                                         \
  namespace SPACE {                                                                                     \
  template <class E>                                                                                    \
  struct operators {                                                                                    \
    SINTER_BINARY(+, make<ir::op::add>)                                                                 \
    SINTER_BINARY(-, make<ir::op::sub>)                                                                 \
    SINTER_BINARY(*, make<ir::op::mul>)                                                                 \
    SINTER_BINARY(/, make<ir::op::div>)                                                                 \
    SINTER_BINARY(%, make<ir::op::fmod>)                                                                \
    SINTER_BINARY(<, make<ir::op::lt>)                                                                  \
    SINTER_BINARY(<=, make<ir::op::le>)                                                                 \
    SINTER_BINARY(>, make<ir::op::gt>)                                                                  \
    SINTER_BINARY(>=, make<ir::op::ge>)                                                                 \
    SINTER_BINARY(==, make<ir::op::eq>)                                                                 \
    SINTER_BINARY(!=, make<ir::op::ne>)                                                                 \
    SINTER_BINARY(&, make<ir::op::bit_and>)                                                             \
    SINTER_BINARY(|, make<ir::op::bit_or>)                                                              \
    SINTER_BINARY(^, make<ir::op::bit_xor>)                                                             \
    SINTER_BINARY(<<, make<ir::op::shl>)                                                                \
    SINTER_BINARY(>>, make<ir::op::shr>)                                                                \
    SINTER_BINARY(&&, make_logical<ir::op::bit_and>)                                                    \
    SINTER_BINARY(||, make_logical<ir::op::bit_or>)                                                     \
    friend constexpr auto operator-(here<E> a) { return make<ir::op::neg>(a.at, a.value); }             \
    friend constexpr auto operator~(here<E> a) { return make<ir::op::bit_not>(a.at, a.value); }         \
    friend constexpr auto operator!(here<E> a) { return make_logical<ir::op::bit_not>(a.at, a.value); } \
    friend constexpr auto operator!(const E& a) requires std::is_constructible_v<bool, const E&> {      \
      return make_logical<ir::op::bit_not>(location{}, a);                                              \
    }                                                                                                   \
    friend constexpr const E& operator+(const E& a) { return a; }                                       \
  };                                                                                                    \
  }
// A compiler compares a new friend with all friends of its name in the namespace, so types are spread over several.
SINTER_OPERATORS(part_0)
SINTER_OPERATORS(part_1)
SINTER_OPERATORS(part_2)
SINTER_OPERATORS(part_3)
SINTER_OPERATORS(part_4)
SINTER_OPERATORS(part_5)
SINTER_OPERATORS(part_6)
SINTER_OPERATORS(part_7)
#undef SINTER_OPERATORS
#undef SINTER_BINARY

template <class E, int Part>
struct operators_in;
#define SINTER_X(PART) \
  template <class E>   \
  struct operators_in<E, PART> : part_##PART::operators<E> {};
SINTER_X(0)
SINTER_X(1)
SINTER_X(2)
SINTER_X(3)
SINTER_X(4)
SINTER_X(5)
SINTER_X(6)
SINTER_X(7)
#undef SINTER_X

/// The base of all types with operators; `Part` is any number that types differ in. The friends' first parameter is not deduced, so it
/// converts to `here`.
template <class E, int Part = 0>
using operators = operators_in<E, Part & 7>;

/// Compound assignment rebinds the handle: `a += b` is `a = a + b`. Other handles of a's storage keep their values.
template <class E>
struct assignment_operators {
#define SINTER_X(SYMBOL, OP)                                                                              \
  template <operand_like B>                                                                               \
  friend E& operator SYMBOL(target_here<E> a, const B& b) {                                               \
    if constexpr (keeps_shape<ir::op::OP, E, B>()) a.value = E(make<ir::op::OP>(a.at, a.value, b), a.at); \
    return a.value;                                                                                       \
  }
  SINTER_X(+=, add)
  SINTER_X(-=, sub)
  SINTER_X(*=, mul)
  SINTER_X(/=, div)
  SINTER_X(%=, fmod)
  SINTER_X(&=, bit_and)
  SINTER_X(|=, bit_or)
  SINTER_X(^=, bit_xor)
  SINTER_X(<<=, shl)
  SINTER_X(>>=, shr)
#undef SINTER_X
};

}  // namespace detail

namespace detail {
/// The types with compound assignment: named tensors, and numbers.
template <class A, class E = std::remove_cvref_t<A>>
inline constexpr bool is_assignable = is_number<E> ||
                                      (std::is_base_of_v<assignment_operators<E>, E> && std::is_same_v<A, E&>);
}  // namespace detail

// The compiler's error quotes a comment. An assignment to a temporary would be lost.
// clang-format off
#define SINTER_X(SYMBOL)             \
  template <class A, operand_like B> \
  requires(tensor_like<A> && !detail::is_assignable<A>) void operator SYMBOL(A&&, const B&) = delete;
SINTER_X(+=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(-=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(*=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(/=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(%=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(&=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(|=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(^=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(<<=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
SINTER_X(>>=)  // into a view nothing is written: x = where(...) or concat(...); an expression kept by auto is none to assign to: tensor<T, rank> in place of auto
#undef SINTER_X
// clang-format on

// `a == b` of two tensors also matches itself reversed, and an exact match decides. Errors name the stage point's line.
template <tensor_like A, tensor_like B>
requires(!detail::is_number<A>) constexpr auto operator==(const A& a, const B& b) {
  return detail::make<ir::op::eq>({}, a, b);
}
template <tensor_like A, tensor_like B>
requires(!detail::is_number<A>) constexpr auto operator!=(const A& a, const B& b) {
  return detail::make<ir::op::ne>({}, a, b);
}

}  // namespace sinter
