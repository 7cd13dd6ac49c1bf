// ir/reference_pointwise.hpp: rows of ops.def over arrays of doubles and 64-bit integers, and rounding to a dtype.
#pragma once

#include <array>

#include "literal_array.hpp"
#include "op.hpp"
#include "vocabulary.hpp"

namespace sinter::ir::detail {

using arrays = std::array<const literal_array*, 3>;

/// The elements as the interpreter stores T: doubles in f, other types in i.
template <class T>
const auto* column(const literal_array& x) {
  if constexpr (std::is_same_v<T, double>) return x.f.data();
  else return x.i.data();
}
template <class T>
auto* column(literal_array& x) {
  if constexpr (std::is_same_v<T, double>) return x.f.data();
  else return x.i.data();
}

/// f(double*) or f(int64*): the elements of `x`.
template <class Array, class F>
void with_elements(Array& x, F&& f) {
  if (is_float(x.type)) f(x.f.data());
  else f(x.i.data());
}

/// Calls f with the type in which a dtype is computed: double, int64, uint64 or bool.
template <class F>
void with_computed(dtype t, F&& f) {
  if (is_float(t)) f(std::type_identity<double>{});
  else if (is_bool(t)) f(std::type_identity<bool>{});
  else if (is_unsigned(t)) f(std::type_identity<std::uint64_t>{});
  else f(std::type_identity<std::int64_t>{});
}

template <class T>
constexpr bool takes(dtype_rule rule) {
  constexpr bool floating = std::is_same_v<T, double>, boolean = std::is_same_v<T, bool>;
  switch (rule) {
    case dtype_rule::arithmetic:
      return !boolean;
    case dtype_rule::floating:
    case dtype_rule::test:
      return floating;
    case dtype_rule::integer:
      return !floating && !boolean;
    case dtype_rule::bits:
      return !floating;
    case dtype_rule::random:
      return std::is_same_v<T, std::uint64_t>;
    case dtype_rule::conversion:
    case dtype_rule::same_size:
      return false;
    default:
      return true;
  }
}

/// Row `code` on scalars computed in T; a bool result is 0 or 1. A single switch, which compiles quickly.
template <class T>
T pointwise_scalar(op code, T a, T b, T c) {
  switch (code) {
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc)                                                    \
  case op::name:                                                                                                  \
    if constexpr (takes<T>(dtype_rule::rule)) return static_cast<T>(vocabulary::apply_row<op::name, T>(a, b, c)); \
    break;
#include "ops.def"
    default:
      break;
  }
  throw internal_error("internal error: no pointwise evaluation of " + std::string(name(code)));
}

inline std::size_t size_of(const literal_array& x) { return is_float(x.type) ? x.f.size() : x.i.size(); }

/// A cast converts straight to the element type, so that it saturates and rounds once.
inline void cast_array(const literal_array& in, literal_array& out) {
  with_computed(in.type, [&](auto computed) {
    using A = typename decltype(computed)::type;
    const auto* a = column<A>(in);
    for (std::size_t i = 0; i < size_of(out); ++i)
      visit_dtype(out.type, [&](auto target) {
        using R = typename decltype(target)::type;
        const R r = vocabulary::convert<R>(static_cast<A>(a[i]));
        if constexpr (is_float(dtype_of<R>)) out.f[i] = vocabulary::convert<double>(r);
        else out.i[i] = vocabulary::convert<std::int64_t>(r);
      });
  });
}

/// The elements' bits, read as another dtype.
inline void bit_cast_array(const literal_array& in, literal_array& out) {
  visit_dtype(in.type, [&](auto source) {
    visit_dtype(out.type, [&](auto target) {
      using A = typename decltype(source)::type;
      using R = typename decltype(target)::type;
      if constexpr (sizeof(A) == sizeof(R) && has_own_bits(dtype_of<A>) && has_own_bits(dtype_of<R>)) {
        const auto* a = column<std::conditional_t<is_float(dtype_of<A>), double, std::int64_t>>(in);
        auto* to = column<std::conditional_t<is_float(dtype_of<R>), double, std::int64_t>>(out);
        for (std::size_t i = 0; i < size_of(out); ++i)
          to[i] = static_cast<std::remove_pointer_t<decltype(to)>>(std::bit_cast<R>(static_cast<A>(a[i])));
      }
    });
  });
}

/// out[i] = f(the operands' elements as T), if the row has `Rule` and `Arity`; `out` may be an operand.
template <dtype_rule Rule, int Arity, class T, class F>
void each_element(const arrays& in, literal_array& out, F f) {
  using E = std::conditional_t<std::is_same_v<T, double>, double, std::int64_t>;
  const auto* a = column<std::conditional_t<Rule == dtype_rule::selection, std::int64_t, E>>(*in[0]);
  const E *b = column<E>(*in[Arity > 1 ? 1 : 0]), *c = column<E>(*in[Arity > 2 ? 2 : 0]);
  auto* to = column<std::conditional_t<Rule == dtype_rule::comparison || Rule == dtype_rule::test, bool, T>>(out);
  for (std::size_t i = 0, n = size_of(out); i < n; ++i)
    to[i] = static_cast<std::remove_pointer_t<decltype(to)>>(
        f(static_cast<T>(a[i]), static_cast<T>(b[i]), static_cast<T>(c[i])));
}

/// Evaluates a pointwise op before rounding, with a loop for each row; `out` has its dtype and size, and may be an operand.
inline void pointwise(op code, const arrays& in, literal_array& out) {
  const auto& r = row(code);
  if (r.rule == dtype_rule::conversion) return cast_array(*in[0], out);
  if (r.rule == dtype_rule::same_size) return bit_cast_array(*in[0], out);
  with_computed(in[r.rule == dtype_rule::selection ? 1 : 0]->type, [&](auto computed) {
    using T = typename decltype(computed)::type;
    switch (code) {
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc)                                 \
  case op::name:                                                                               \
    if constexpr (takes<T>(dtype_rule::rule))                                                  \
      return each_element<dtype_rule::rule, arity, T>(                                         \
          in, out, [](T a, T b, T c) { return vocabulary::apply_row<op::name, T>(a, b, c); }); \
    break;
#include "ops.def"
      default:
        break;
    }
    throw internal_error("internal error: no pointwise evaluation of " + std::string(name(code)));
  });
}

/// Rounds elements to their dtype: floats to nearest even, integers by wrapping, bool to 0 or 1.
inline void round_elements(literal_array& x) {
  visit_dtype(x.type, [&](auto element) {
    using T = typename decltype(element)::type;
    if constexpr (std::is_same_v<T, double> || sizeof(T) == 8) return;
    else if constexpr (std::is_floating_point_v<T> || vocabulary::is_half<T>)
      for (auto& v : x.f) v = static_cast<double>(static_cast<float>(vocabulary::convert<T>(v)));
    else
      for (auto& v : x.i) v = static_cast<std::int64_t>(vocabulary::convert<T>(v));
  });
}

}  // namespace sinter::ir::detail
