// front/trees/fields.hpp: the fields of a struct, counted and bound at compile time.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/hana/accessors.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>

namespace sinter {

/// Describes a class with constructors as a tree: specialise it with `static constexpr auto fields(auto& self)`, which
/// returns a std::tie of the members in the tree. Or give the class a static function sinter_fields that does. Other members
/// are copied with the object, and no guard checks them. A compiled function's results have their values from the traced
/// call.
template <class T>
struct tree_of {};

namespace detail {

/// The greatest number of fields of a plain struct in a tree.
inline constexpr int max_fields = 32;

/// A struct described with BOOST_HANA_ADAPT_STRUCT or BOOST_HANA_DEFINE_STRUCT.
template <class T>
concept adapted_struct = std::is_class_v<T> && boost::hana::Struct<T>::value;

/// A class that lists its fields in a hook.
template <class T>
concept hooked_struct = std::is_class_v<T> &&(
    requires(T& x) { tree_of<T>::fields(x); } || requires(T & x) { T::sinter_fields(x); });

template <class T>
concept described_struct = adapted_struct<T> || hooked_struct<T>;

/// An aggregate, which structured bindings can take apart, without a description.
template <class T>
concept plain_struct = std::is_class_v<T> && std::is_aggregate_v<T> && !described_struct<T>;

/// The struct that describes the fields of a type.
template <class T>
struct struct_behind {
  using type = T;
};

/// Converts to the base classes of T and to no other type.
template <class T>
struct any_base_of {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const;
};

struct any_nothing {};

/// The first element of a derived aggregate is its base. A first field that accepts any initialiser proves nothing.
template <class T>
concept derived_aggregate = requires {
  T{any_base_of<T>{}};
}
&&!requires { T{any_nothing{}}; };

// clang-format off
// SINTER_FIELDS_n(F) is F(x1), …, F(xn).
#define SINTER_FIELDS_1(F) F(x1)
#define SINTER_FIELDS_2(F) SINTER_FIELDS_1(F), F(x2)
#define SINTER_FIELDS_3(F) SINTER_FIELDS_2(F), F(x3)
#define SINTER_FIELDS_4(F) SINTER_FIELDS_3(F), F(x4)
#define SINTER_FIELDS_5(F) SINTER_FIELDS_4(F), F(x5)
#define SINTER_FIELDS_6(F) SINTER_FIELDS_5(F), F(x6)
#define SINTER_FIELDS_7(F) SINTER_FIELDS_6(F), F(x7)
#define SINTER_FIELDS_8(F) SINTER_FIELDS_7(F), F(x8)
#define SINTER_FIELDS_9(F) SINTER_FIELDS_8(F), F(x9)
#define SINTER_FIELDS_10(F) SINTER_FIELDS_9(F), F(x10)
#define SINTER_FIELDS_11(F) SINTER_FIELDS_10(F), F(x11)
#define SINTER_FIELDS_12(F) SINTER_FIELDS_11(F), F(x12)
#define SINTER_FIELDS_13(F) SINTER_FIELDS_12(F), F(x13)
#define SINTER_FIELDS_14(F) SINTER_FIELDS_13(F), F(x14)
#define SINTER_FIELDS_15(F) SINTER_FIELDS_14(F), F(x15)
#define SINTER_FIELDS_16(F) SINTER_FIELDS_15(F), F(x16)
#define SINTER_FIELDS_17(F) SINTER_FIELDS_16(F), F(x17)
#define SINTER_FIELDS_18(F) SINTER_FIELDS_17(F), F(x18)
#define SINTER_FIELDS_19(F) SINTER_FIELDS_18(F), F(x19)
#define SINTER_FIELDS_20(F) SINTER_FIELDS_19(F), F(x20)
#define SINTER_FIELDS_21(F) SINTER_FIELDS_20(F), F(x21)
#define SINTER_FIELDS_22(F) SINTER_FIELDS_21(F), F(x22)
#define SINTER_FIELDS_23(F) SINTER_FIELDS_22(F), F(x23)
#define SINTER_FIELDS_24(F) SINTER_FIELDS_23(F), F(x24)
#define SINTER_FIELDS_25(F) SINTER_FIELDS_24(F), F(x25)
#define SINTER_FIELDS_26(F) SINTER_FIELDS_25(F), F(x26)
#define SINTER_FIELDS_27(F) SINTER_FIELDS_26(F), F(x27)
#define SINTER_FIELDS_28(F) SINTER_FIELDS_27(F), F(x28)
#define SINTER_FIELDS_29(F) SINTER_FIELDS_28(F), F(x29)
#define SINTER_FIELDS_30(F) SINTER_FIELDS_29(F), F(x30)
#define SINTER_FIELDS_31(F) SINTER_FIELDS_30(F), F(x31)
#define SINTER_FIELDS_32(F) SINTER_FIELDS_31(F), F(x32)
#define SINTER_FIELD_COUNTS(X) \
  X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
  X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32)
#define SINTER_BRACES(x) {}
#define SINTER_NAME(x) x
// clang-format on

/// The number of fields of a plain struct: the greatest number of empty initialisers that it accepts. An array is one field.
template <plain_struct T>
constexpr int count_fields() {
#define SINTER_X(N)                                                               \
  if constexpr (!requires { T{SINTER_FIELDS_##N(SINTER_BRACES)}; }) return N - 1; \
  else
  SINTER_FIELD_COUNTS(SINTER_X)
#undef SINTER_X
  if constexpr (requires { T{SINTER_FIELDS_32(SINTER_BRACES), {}}; }) return max_fields + 1;
  else return max_fields;
}

template <class T>
inline constexpr int field_count = count_fields<T>();

/// Whether a plain struct can be taken apart; otherwise a compile-time error gives the reason.
template <class T>
constexpr bool is_plain_tree() {
  constexpr bool defaults = requires { T{}; };
  constexpr bool derived = derived_aggregate<T>;
  constexpr bool few = field_count<T> <= max_fields;
  static_assert(defaults, "[tree] every field of a struct in a tree must have a default value");
  static_assert(!derived, "[tree] a struct in a tree has no base class; make the base a field");
  static_assert(few, "[tree] a struct in a tree has at most 32 fields; group them in nested structs");
  return defaults && !derived && few;
}

// These layers are inlined without optimisation too: they would be functions of their own for each type and visitor.
template <class T, class F>
[[gnu::always_inline]] constexpr decltype(auto) with_plain_fields(T& t, F&& f) {
  constexpr int count = field_count<std::remove_const_t<T>>;
  if constexpr (count == 0) return f();
#define SINTER_X(N)                             \
  if constexpr (count == N) {                   \
    auto& [SINTER_FIELDS_##N(SINTER_NAME)] = t; \
    return f(SINTER_FIELDS_##N(SINTER_NAME));   \
  }
  SINTER_FIELD_COUNTS(SINTER_X)
#undef SINTER_X
}

#undef SINTER_BRACES
#undef SINTER_NAME

template <class T>
inline constexpr bool are_references = false;
template <class... T>
inline constexpr bool are_references<std::tuple<T&...>> = true;

/// The fields that a class's hook returns. The hook is called on a non-const object, so that it need not be a template.
template <class U>
constexpr auto hook_fields(U& t) {
  if constexpr (requires { tree_of<U>::fields(t); }) return tree_of<U>::fields(t);
  else return U::sinter_fields(t);
}

/// Whether a hook can be used; otherwise a compile-time error gives the reason.
template <class T>
constexpr bool is_hooked_tree() {
  constexpr bool references = are_references<decltype(hook_fields(std::declval<T&>()))>;
  static_assert(references,
                "[tree] a class's sinter_fields, or fields of its sinter::tree_of, returns std::tie(self.a, self.b)");
  constexpr bool copied = std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T>;
  static_assert(copied, "[tree] a class with sinter_fields or a sinter::tree_of can be copied");
  return references && copied;
}

template <class T, class F>
[[gnu::always_inline]] constexpr decltype(auto) with_hook_fields(T& t, F&& f) {
  return std::apply(
      [&](auto&... field) -> decltype(auto) {
        if constexpr (std::is_const_v<T>) return f(std::as_const(field)...);
        else return f(field...);
      },
      hook_fields(const_cast<std::remove_const_t<T>&>(t)));
}

/// Calls f with a reference to each field of a struct, in order of declaration.
template <class T, class F>
[[gnu::always_inline]] constexpr decltype(auto) with_fields(T& t, F&& f) {
  if constexpr (adapted_struct<std::remove_const_t<T>>) {
    constexpr auto all = boost::hana::accessors<std::remove_const_t<T>>();
    return boost::hana::unpack(
        all, [&](const auto&... field) -> decltype(auto) { return f(boost::hana::second(field)(t)...); });
  } else if constexpr (hooked_struct<std::remove_const_t<T>>) {
    return with_hook_fields(t, std::forward<F>(f));
  } else {
    return with_plain_fields(t, std::forward<F>(f));
  }
}

/// Memory for a T that is never constructed.
template <class T>
union unmade {
  char none;
  T value;
  constexpr unmade() : none() {}
  constexpr ~unmade() {}
};
#if defined(__clang__)
template <class T>
inline const unmade<T> some_of{};  // not constexpr, because a std::map in T is not a literal type; never emitted
#else
template <class T>
inline constexpr unmade<T> some_of{};
#endif

/// A class, because clang++ 14 accepts the address of a field as a template argument only inside a class.
template <class P>
struct field_address {
  P of;
};
template <class P>
field_address(P) -> field_address<P>;

template <class T, std::size_t I>
constexpr auto address_of_field() {
  return with_fields(some_of<typename struct_behind<T>::type>.value,
                     [](auto&... field) { return field_address{std::get<I>(std::tuple(&field...))}; });
}
template <auto Value>
struct constant_tag {};
/// Whether the compiler knows a field's address. A bit-field has none, and a hook that is not constexpr hides it.
template <class T, std::size_t I>
inline constexpr bool has_field_address = requires {
  typename constant_tag<address_of_field<T, I>()>;
};

template <class T>
inline constexpr bool is_whole = std::is_integral_v<T> || std::is_enum_v<T>;

/// Whether a plain struct's fields, of types Field, have addresses. Only integers, flags and enums can lack one.
template <class T, class... Field, std::size_t... I>
constexpr bool are_addressed(std::index_sequence<I...>) {
  const auto addressed = []<class F, std::size_t At>(std::type_identity<F>, std::integral_constant<std::size_t, At>) {
    if constexpr (is_whole<F>) return has_field_address<T, At>;
    else return true;
  };
  return (... && addressed(std::type_identity<Field>{}, std::integral_constant<std::size_t, I>{}));
}

}  // namespace detail

}  // namespace sinter
