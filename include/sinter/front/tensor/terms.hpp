// front/tensor/terms.hpp: an expression as the engine reads it: a table of operations and operands per type, and their offsets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "expr.hpp"

namespace sinter::detail {

/// An operand, or an operation followed by its operands.
struct term {
  enum kind : std::uint8_t { operation, tensor, index, literal, fixed, weak } is = operation;
  ir::op code{};
  dtype type{};
  std::int8_t rank = 0, arity = 0;
  std::uint32_t offset = 0;  ///< in the expression, of an operand, a literal's value or an operation's location
  void (*read)(const void* operand, operand_facts& out) = nullptr;  ///< null for operations and literals
};

/// An expression and its terms; the expression must outlive it.
struct expression_view {
  const term* terms;
  int count;
  const void* expression;

  const void* place(int i) const { return static_cast<const char*>(expression) + terms[i].offset; }
};

template <class E>
inline constexpr int term_count = 1;
template <ir::op Op, class T, dims Shape, class... Operands>
inline constexpr int term_count<expr<Op, T, Shape, Operands...>> = (term_count<Operands> + ... + 1);

template <class T, dims Shape>
void read_operand(const sinter::tensor<T, Shape>& x, operand_facts& out) {
  access::read(x, out);
}
template <class T, dims Shape>
void read_operand(const index_leaf<T, Shape>& x, operand_facts& out) {
  out.extents = x.extents.data();
  out.axis = x.axis;
}
template <class T>
void read_operand(const weak<T>& x, operand_facts& out) {
  out.data = const_cast<T*>(&x.value);
  out.traced = &x.traced;
  out.type = x.type;
}

/// The offsets of an expression's operands.
template <class E, int Arity = ir::row(E::code).arity>
constexpr std::array<std::uint32_t, 3> operand_offsets() {
  using pack = decltype(E::operands);
  constexpr auto first = static_cast<std::uint32_t>(offsetof(E, operands));
  std::array<std::uint32_t, 3> at{first, first, first};
  if constexpr (Arity > 1) at[1] += static_cast<std::uint32_t>(offsetof(pack, second));
  if constexpr (Arity > 2) at[2] += static_cast<std::uint32_t>(offsetof(pack, third));
  return at;
}

/// Appends the terms of an E at `offset`.
template <class E>
constexpr void put_terms(term*& to, std::uint32_t offset) {
  term& t = *to++;
  t.type = dtype_of<typename E::value_type>;
  t.rank = static_cast<std::int8_t>(E::rank);
  t.offset = offset;
  if constexpr (is_literal<E> && !is_weak<E>) {
    t.is = is_fixed<E> ? term::fixed : term::literal;
  } else {
    t.is = is_weak<E> ? term::weak : is_index_leaf<E> ? term::index : term::tensor;
    t.read = [](const void* operand, operand_facts& out) { read_operand(*static_cast<const E*>(operand), out); };
  }
}
template <class E>
requires is_expr<E>
constexpr void put_terms(term*& to, std::uint32_t offset) {
  [&]<ir::op Op, class T, dims Shape, class... Operands>(const expr<Op, T, Shape, Operands...>*) {
    *to++ = {term::operation,
             Op,
             dtype_of<T>,
             static_cast<std::int8_t>(Shape.rank),
             sizeof...(Operands),
             offset + static_cast<std::uint32_t>(offsetof(E, where)),
             nullptr};
    constexpr auto at = operand_offsets<E>();
    int k = 0;
    (put_terms<Operands>(to, offset + at[static_cast<std::size_t>(k++)]), ...);
  }
  (static_cast<const E*>(nullptr));
}
template <class E>
inline constexpr auto terms_of = [] {
  std::array<term, static_cast<std::size_t>(term_count<E>)> all{};
  term* to = all.data();
  put_terms<E>(to, 0);
  return all;
}();

template <class E>
expression_view terms(const E& e) {
  return {terms_of<E>.data(), term_count<E>, &e};
}

/// The extents of the result. user_error when operands do not broadcast; `at` replaces a missing location of an operation.
/// (term_rules.hpp)
SINTER_API void extents_of(expression_view e, dim* out, location at);

template <class E>
index_array<E::rank> extents_of(const E& e, location at) {
  if constexpr (is_literal<E>) {
    return {};
  } else if constexpr (!is_expr<E>) {
    return e.shape();
  } else {
    index_array<E::rank> out;
    extents_of(terms(e), out.data(), at);
    return out;
  }
}

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "term_rules.hpp"
#endif
