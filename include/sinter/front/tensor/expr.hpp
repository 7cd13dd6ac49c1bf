// front/tensor/expr.hpp: lazy pointwise expressions. They own their operands, so a function may return one safely.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../shapes/names.hpp"
#include "tensor.hpp"

namespace sinter {

namespace detail {

/// The operands of an expression. It is an aggregate, because a tuple would instantiate its functions for each expression.
template <class First, class... More>
struct operand_pack;
template <class First>
struct operand_pack<First> {
  First first;
};
template <class First, class Second>
struct operand_pack<First, Second> {
  First first;
  Second second;
};
template <class First, class Second, class Third>
struct operand_pack<First, Second, Third> {
  First first;
  Second second;
  Third third;
};

/// A C++ number inside an expression.
template <class T>
struct literal {
  using value_type = T;
  static constexpr int rank = 0;
  static constexpr dims static_shape{};
  T value;
};

/// A number inside an expression. It is a literal, or a rank-0 node of dtype `type` while it is an argument of a trace.
/// A reader of its value in a trace calls specialise first.
template <class T>
struct weak {
  using value_type = T;
  static constexpr int rank = 0;
  static constexpr dims static_shape{};
  T value;
  trace_handle traced;
  dtype type = dtype_of<T>;
};

/// A literal that does not depend on the trace's floating arguments: an integer in C++, or a constant of a formula.
template <class T>
struct fixed : literal<T> {};

template <class E>
inline constexpr bool is_fixed = false;
template <class T>
inline constexpr bool is_fixed<fixed<T>> = true;

template <class E>
inline constexpr bool is_weak = false;
template <class T>
inline constexpr bool is_weak<weak<T>> = true;

template <class E>
inline constexpr bool is_literal = is_weak<E> || is_fixed<E>;
template <class T>
inline constexpr bool is_literal<literal<T>> = true;

/// The extents of a tensor, a literal or an expression, checked. (terms.hpp)
template <class E>
index_array<E::rank> extents_of(const E& e, location at);

/// The depth of nested operations.
template <class E>
inline constexpr int depth_of = 0;

/// The dtypes of an expression's operands and result, and the first fault among them.
template <ir::op Op, class R, class... Operands>
struct signature {
  static constexpr ir::dtype_rule rule = ir::row(Op).rule;
  static constexpr dtype operand[sizeof...(Operands)] = {dtype_of<typename Operands::value_type>...};
  static constexpr dtype target = [] {
    if constexpr (std::is_void_v<R>) return operand[0];
    else return dtype_of<R>;
  }();
  static constexpr const char* problem = [] {
    dtype result{};
    return ir::apply(rule, operand, sizeof...(Operands), target, result);
  }();
  static constexpr bool same_dtype = [] {
    for (int i = rule == ir::dtype_rule::selection ? 2 : 1; i < int(sizeof...(Operands)); ++i)
      if (operand[i] != operand[rule == ir::dtype_rule::selection ? 1 : 0]) return false;
    return true;
  }();
  static constexpr dims shape = broadcast(Operands::static_shape...);
};

}  // namespace detail

/// `Op` applied to operands held by value: tensors, expressions and literals. T is the result's dtype, Shape its static shape.
/// Converting the expression to a tensor, or using it in a structural op, evaluates it.
template <ir::op Op, class T, dims Shape, class... Operands>
class expr : public detail::operators<expr<Op, T, Shape, Operands...>,
                                      int(Op) + 3 * Shape.rank + 5 * (detail::depth_of<Operands> + ...)> {
 public:
  using value_type = T;
  using tensor_like_tag = void;
  static constexpr int rank = Shape.rank;
  static constexpr dims static_shape = Shape;
  static constexpr ir::op code = Op;

  constexpr expr(location at, const Operands&... operand) : operands{operand...}, where(at) {}

  // The compiler's error quotes the second line.
  // clang-format off
  template <class E>
  expr& operator=(const E&) = delete;  // auto holds an expression, which is computed where it becomes a tensor: write tensor<T, rank> in place of auto
  // clang-format on

  /// The extents of the result. user_error when the operands do not broadcast.
  index_array<rank> shape(location at = location::current()) const { return detail::extents_of(*this, at); }
  dim size(int axis, location at = location::current()) const { return size_at(shape(at), axis, at); }
  dim numel(location at = location::current()) const { return detail::product(shape(at)); }

  /// The values as a tensor.
  tensor<T, Shape> eval(location at = location::current()) const { return tensor<T, Shape>(*this, at); }
  T item(location at = location::current()) const { return eval(at).item(at); }
  explicit operator bool() const requires(rank == 0 && std::is_same_v<T, bool>) {
    return static_cast<bool>(eval(where));
  }
  std::vector<T> to_vector(location at = location::current()) const { return eval(at).to_vector(at); }

  detail::operand_pack<Operands...> operands;
  location where;

 private:
  static dim size_at(const index_array<rank>& extents, int axis, location at) {
    const int i = detail::normalize_axis(axis, rank);
    if (i < 0) detail::fail_axis("size", axis, rank, at);
    return detail::read_at(extents[static_cast<std::size_t>(i)], at);
  }
};

namespace detail {

template <class E>
inline constexpr bool is_expr = false;
template <ir::op Op, class T, dims Shape, class... Operands>
inline constexpr bool is_expr<expr<Op, T, Shape, Operands...>> = true;

template <ir::op Op, class T, dims Shape, class... Operands>
inline constexpr int depth_of<expr<Op, T, Shape, Operands...>> = 1 + std::max({depth_of<Operands>...});

/// The greatest depth of operations; compilers nest at most 900 templates.
inline constexpr int max_depth = 100;

/// The index along an axis, or the row-major position for axis -1: the front end's form of the op iota.
template <class T, dims Shape>
class index_leaf : public operators<index_leaf<T, Shape>> {
 public:
  using value_type = T;
  using tensor_like_tag = void;
  static constexpr int rank = Shape.rank;
  static constexpr dims static_shape = Shape;

  index_leaf(const index_array<rank>& e, int a) : extents(e), axis(a) {}
  const index_array<rank>& shape() const { return extents; }

  index_array<rank> extents;
  int axis;
};

template <class E>
inline constexpr bool is_index_leaf = false;
template <class T, dims Shape>
inline constexpr bool is_index_leaf<index_leaf<T, Shape>> = true;

/// The place of the operand that gives scalars their element type: the first tensor, or else the first number.
template <bool Selection, class... Args>
constexpr std::size_t scalar_target() {
  constexpr bool tensors[] = {(tensor_like<Args> && !is_number<Args>)...}, numbers[] = {is_number<Args>...};
  for (std::size_t i = Selection; i < sizeof...(Args); ++i)
    if (tensors[i]) return i;
  for (std::size_t i = Selection; i < sizeof...(Args); ++i)
    if (numbers[i]) return i;
  return sizeof...(Args) - 1;
}

template <class E>
struct value_type_of {
  using type = E;
};
template <tensor_like E>
struct value_type_of<E> {
  using type = typename E::value_type;
};

/// A size as a value. (evaluate.hpp)
template <class T>
tensor<T, dims{}> size_value(dim n, location at);

/// The type of an argument inside an expression.
template <class T, class Arg>
struct operand_of_argument {
  using type = std::conditional_t<tensor_like<Arg>, Arg, literal<T>>;
};
template <class T, class Arg>
requires(std::is_integral_v<Arg> || std::is_same_v<Arg, formula_number>) struct operand_of_argument<T, Arg> {
  using type = fixed<T>;
};
template <class T>
struct operand_of_argument<T, dim> {
  using type = tensor<T, dims{}>;
};
template <class T, class U>
struct operand_of_argument<T, number<U>> {
  using type = weak<std::conditional_t<std::is_same_v<U, bool>, bool, T>>;
};
template <class T, class Arg>
using operand = typename operand_of_argument<T, Arg>::type;

/// user_error for an integer that T cannot hold.
template <ir::op Op, class T, class Arg>
constexpr decltype(auto) as_operand(const Arg& x, location at) {
  if constexpr (is_number<Arg>) {
    return x.template as<typename operand<T, Arg>::value_type>();
  } else if constexpr (tensor_like<Arg>) {
    return (x);
  } else if constexpr (std::is_same_v<Arg, dim>) {
    return size_value<T>(x, at);
  } else {
    check_number<T>(ir::name(Op), x, "cast the tensor with cast<T>(x)", at);
    if constexpr (is_fixed<operand<T, Arg>>) return fixed<T>{{static_cast<T>(x)}};
    else return literal<T>{static_cast<T>(x)};
  }
}

template <class T, class Arg>
inline constexpr bool scalar_fits =
    is_number<Arg> ? is_float(dtype_of<T>) || std::is_same_v<Arg, number<T>> || std::is_same_v<Arg, number<bool>>
                   : tensor_like<Arg> || std::is_same_v<T, Arg> ||
                         (is_float(dtype_of<T>) && !std::is_same_v<T, bool>) ||
                         (extent_like<Arg> && (is_integer(dtype_of<T>) || std::is_same_v<Arg, bool>));

/// The fault that an op of this rule reports for a dtype it does not take.
constexpr fault refusal(ir::dtype_rule rule) {
  using enum ir::dtype_rule;
  switch (rule) {
    case arithmetic:
      return fault::numbers;
    case integer:
      return fault::integer;
    case bits:
      return fault::bits;
    case selection:
      return fault::condition;
    case random:
      return fault::words;
    default:
      return fault::floating;
  }
}

/// The fault of op `Op` with `Operands`.
template <ir::op Op, class R, class... Operands>
constexpr fault operands_fault() {
  using s = signature<Op, R, Operands...>;
  if (!s::same_dtype) return fault::dtypes;
  if (s::problem) return refusal(s::rule);
  return s::shape.rank < 0 ? fault::extents : fault::none;
}

/// The type that gives its dtype to the C++ numbers among the arguments.
template <ir::op Op, class... Args>
using target_of =
    typename value_type_of<std::tuple_element_t<scalar_target<ir::row(Op).rule == ir::dtype_rule::selection, Args...>(),
                                                std::tuple<Args...>>>::type;

/// Returns false after a compile-time error where the function Name, which applies Op, does not take Args.
template <class Name, ir::op Op, class R, class... Args>
constexpr bool accepts() {
  using T = target_of<Op, Args...>;
  if constexpr (!(scalar_fits<T, Args> && ...)) {
    return Name::template refuse<fault::scalar>();
  } else {
    constexpr fault found = operands_fault<Op, R, operand<T, Args>...>();
    if constexpr (found == fault::none) return true;
    else return Name::template refuse<found>();
  }
}

template <ir::op Op, class E, class B>
constexpr bool keeps_shape() {
  if constexpr (!accepts<name_of<Op>, Op, void, E, B>()) return false;
  else if constexpr (fits(E::static_shape, signature<Op, void, E, operand<typename E::value_type, B>>::shape))
    return true;
  else return name_of<Op>::template refuse<fault::assigned>();
}

/// Returns false after a compile-time error unless Tensors have one floating dtype and broadcast; the error names the function Name.
template <class Name, class... Tensors>
constexpr bool takes_floats() {
  constexpr fault found = operands_fault<ir::op::exp, void, Tensors...>();
  if constexpr (found == fault::none) return true;
  else return Name::template refuse<found>();
}

template <ir::op Op, class R, class T>
constexpr auto result_type() {
  using enum ir::dtype_rule;
  constexpr auto rule = ir::row(Op).rule;
  if constexpr (ir::names_type(rule)) return std::type_identity<R>{};
  else if constexpr (rule == comparison || rule == test) return std::type_identity<bool>{};
  else return std::type_identity<T>{};
}

template <ir::op Op, class R, class... Args>
constexpr auto make(location at, const Args&... args) {
  static_assert(sizeof...(Args) == ir::row(Op).arity, "sinter: wrong number of operands");
  constexpr bool shallow = std::max({depth_of<Args>...}) < max_depth;
  static_assert(shallow,
                "sinter: more than 100 operations in one expression; keep parts of it in tensors: tensor<float, 1> "
                "part = a + b;");
  if constexpr (!shallow || !accepts<name_of<Op>, Op, R, Args...>()) {
    return std::get<0>(std::tie(args...));
  } else {
    using T = target_of<Op, Args...>;
    using result = typename decltype(result_type<Op, R, T>())::type;
    return expr<Op, result, signature<Op, R, operand<T, Args>...>::shape, operand<T, Args>...>(
        at, as_operand<Op, T>(args, at)...);
  }
}

template <ir::op Op, class... Args>
constexpr auto make_logical(location at, const Args&... args) {
  constexpr bool logical = (std::is_same_v<typename value_type_of<Args>::type, bool> && ...);
  static_assert(logical, "sinter: && || ! take bool tensors; compare first, or use & | ~ on integers");
  if constexpr (logical) return make<Op>(at, args...);
  else return std::get<0>(std::tie(args...));
}

}  // namespace detail

}  // namespace sinter
