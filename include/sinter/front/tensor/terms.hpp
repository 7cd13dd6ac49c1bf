// front/tensor/terms.hpp: an expression as the engine reads it: a table of operations and operands per type, and their places.
#pragma once

#include <array>
#include <cstdint>

#include "expr.hpp"

namespace sinter::detail {

/// An operand, or an operation followed by its operands.
struct term {
  enum kind : std::uint8_t { operation, tensor, index, literal, fixed, weak } is = operation;
  ir::op code{};
  dtype type{};
  std::int8_t rank = 0, arity = 0;
  void (*read)(const void* operand, operand_facts& out) = nullptr;  ///< null for operations and literals
};

/// The terms of an expression and their places: the address of an operand or a literal's value, or an operation's location.
struct expression_view {
  const term* terms;
  const void* const* at;
  int count;
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

/// Appends the terms of type E.
template <class E>
constexpr void put_terms(term*& to) {
  term& t = *to++;
  t.type = dtype_of<typename E::value_type>;
  t.rank = static_cast<std::int8_t>(E::rank);
  if constexpr (is_literal<E> && !is_weak<E>) {
    t.is = is_fixed<E> ? term::fixed : term::literal;
  } else {
    t.is = is_weak<E> ? term::weak : is_index_leaf<E> ? term::index : term::tensor;
    t.read = [](const void* operand, operand_facts& out) { read_operand(*static_cast<const E*>(operand), out); };
  }
}
template <class E>
requires is_expr<E>
constexpr void put_terms(term*& to) {
  [&]<ir::op Op, class T, dims Shape, class... Operands>(const expr<Op, T, Shape, Operands...>*) {
    *to++ = {term::operation, Op, dtype_of<T>, static_cast<std::int8_t>(Shape.rank), sizeof...(Operands), nullptr};
    (put_terms<Operands>(to), ...);
  }
  (static_cast<const E*>(nullptr));
}
template <class E>
inline constexpr auto terms_of = [] {
  std::array<term, static_cast<std::size_t>(term_count<E>)> all{};
  term* to = all.data();
  put_terms<E>(to);
  return all;
}();

/// Appends the places of the terms of `e`.
template <class E>
void put_places(const E& e, const void**& to) {
  if constexpr (is_expr<E>) {
    constexpr int arity = ir::row(E::code).arity;
    *to++ = &e.where;
    put_places(e.operands.first, to);
    if constexpr (arity > 1) put_places(e.operands.second, to);
    if constexpr (arity > 2) put_places(e.operands.third, to);
  } else if constexpr (is_literal<E> && !is_weak<E>) {
    *to++ = &e.value;
  } else {
    *to++ = &e;
  }
}

/// The view of an expression, which must outlive it.
template <class E>
class terms {
 public:
  explicit terms(const E& e) {
    const void** to = at_;
    put_places(e, to);
  }
  terms(const terms&) = delete;
  operator expression_view() const { return {terms_of<E>.data(), at_, term_count<E>}; }

 private:
  const void* at_[term_count<E>];
};

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
