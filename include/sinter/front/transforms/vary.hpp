// front/transforms/vary.hpp: the common part of derivatives: arguments that vary, and trees of tangents.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../compile/integers.hpp"
#include "../trees/stacked.hpp"
#include "call_alone.hpp"

namespace sinter::detail {

/// A tensor that derivatives flow through.
template <class T>
inline constexpr bool differentiable = false;
template <class T, dims Shape>
inline constexpr bool differentiable<tensor<T, Shape>> = is_float(dtype_of<T>);
/// A dynamic_tensor is differentiable if its run-time dtype is floating.
template <>
inline constexpr bool differentiable<dynamic_tensor> = true;

template <class T>
constexpr bool any_differentiable();

template <class... T>
constexpr bool any_differentiable(type_list<T...>) {
  return (... || any_differentiable<T>());
}

template <class T>
constexpr bool any_differentiable() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused) return true;
  else if constexpr (b == branch::tensor || b == branch::scalar) return differentiable<T>;
  else if constexpr (has_elements(b)) return any_differentiable<element_in<T>>();
  else return any_differentiable(children_of<T>{});
}

/// The indexes of the arguments that vary, by default the first's.
template <int... Index>
using varying =
    std::conditional_t<sizeof...(Index) == 0, std::integer_sequence<int, 0>, std::integer_sequence<int, Index...>>;

template <int... Index>
constexpr bool varies(std::integer_sequence<int, Index...>, std::size_t argument) {
  return (... || (static_cast<std::size_t>(Index) == argument));
}
/// Whether all these arguments exist, and each is named once.
template <int... Index>
constexpr bool exist(std::integer_sequence<int, Index...>, int arguments) {
  constexpr int all[] = {Index...};
  for (std::size_t i = 0; i < sizeof...(Index); ++i) {
    if (all[i] < 0 || all[i] >= arguments) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (all[i] == all[j]) return false;
  }
  return true;
}

/// An argument as the function takes it. A number stays a number, unless it varies; then it is a tensor of rank 0.
template <bool Varies, class T>
auto passed(T&& x) {
  using value = std::remove_cvref_t<T>;
  if constexpr (Varies && is_floating_scalar<value>) return tensor<value, dims{}>(x);
  else if constexpr (!Varies && is_number<value>) return value(x);
  else return settle_tree(std::forward<T>(x));
}
/// The dtypes in F of the varying numbers among a call's arguments.
template <class Indexes, class F, class... Args>
class numbers_in {
  using inner = typename function_within<F>::type;
  template <std::size_t I>
  using given = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<Args...>>>;
  template <class T>
  static constexpr bool is_whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  template <std::size_t I>
  static constexpr bool is_one = varies(Indexes{}, I) &&
                                 (is_floating_scalar<given<I>> || is_number<given<I>> || is_whole<given<I>>);

  /// Whether F takes T as argument At.
  template <class T, std::size_t At, std::size_t... I>
  static constexpr bool takes(std::index_sequence<I...>) {
    return is_viable<inner,
                     std::conditional_t<I == At, T, std::conditional_t<is_one<I>, any_scalar_tensor, given<I>>>...>();
  }
  template <class T, std::size_t At>
  static constexpr bool takes() {
    return takes<T, At>(std::index_sequence_for<Args...>{});
  }
  /// Whether F takes argument At as a tensor of the number's own dtype, or not as a tensor.
  template <std::size_t At>
  static constexpr bool as_it_is() {
    using x = given<At>;
    if constexpr (is_whole<x>) return takes<any_integer, At>() || !takes<any_scalar_tensor, At>();
    else if constexpr (is_number<x>) return takes<tensor<typename x::value_type, dims{}>, At>();
    else return takes<tensor<x, dims{}>, At>();
  }
  template <std::size_t At, class T, class... More>
  static constexpr auto first_of() {
    if constexpr (takes<tensor<T, dims{}>, At>()) return std::type_identity<T>{};
    else if constexpr (sizeof...(More) > 0) return first_of<At, More...>();
    else return std::type_identity<void>{};
  }

 public:
  /// The dtype of argument At, if it differs from the number's own; else void.
  template <std::size_t At>
  static constexpr auto other() {
    if constexpr (!is_one<At>) return std::type_identity<void>{};
    else if constexpr (!fixed_function<inner> && std::is_final_v<inner>) return std::type_identity<void>{};
    else if constexpr (as_it_is<At>()) return std::type_identity<void>{};
    else return first_of<At, double, float, bf16, f16>();
  }
};
template <class Indexes, class F, std::size_t At, class... Args>
using other_dtype_t = typename decltype(numbers_in<Indexes, F, Args...>::template other<At>())::type;

/// Whether F takes some varying number as a tensor of another dtype.
template <class Indexes, class F, class... Args>
constexpr bool takes_other_numbers() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (... || !std::is_void_v<other_dtype_t<Indexes, F, I, Args...>>);
  }
  (std::index_sequence_for<Args...>{});
}
/// A number as a tensor of dtype E; unchanged if E is void.
template <class E, class T>
decltype(auto) as_other_dtype(T&& x, location at) {
  if constexpr (std::is_void_v<E>) return static_cast<T&&>(x);
  else if constexpr (is_number<std::remove_cvref_t<T>>) return evaluate(sinter::cast<E>(x, at), at);
  else return tensor<E, dims{}>(static_cast<E>(static_cast<double>(x)));
}
/// use(arguments...), with such numbers as tensors of those dtypes.
template <class Indexes, class F, class Use, class... Args>
decltype(auto) with_other_numbers(location at, const Use& use, Args&&... args) {
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return use(as_other_dtype<other_dtype_t<Indexes, F, I, Args...>>(static_cast<Args&&>(args), at)...);
  }
  (std::index_sequence_for<Args...>{});
}

template <class Indexes, class Places, class... Args>
struct passed_types;
template <class Indexes, std::size_t... I, class... Args>
struct passed_types<Indexes, std::index_sequence<I...>, Args...> {
  using type = type_list<decltype(passed<varies(Indexes{}, I)>(std::declval<Args>()))...>;
};

/// Whether F is a derivative's function, whose `fault_of` finds the fault of a call.
template <class F>
inline constexpr bool has_own_faults = false;

/// The checks of a call of F before it is compiled.
template <class Indexes, class F, class... Args>
class transformed {
  template <class... T>
  static constexpr bool has_floats(type_list<T...>) {
    return [&]<int... Index>(std::integer_sequence<int, Index...>) {
      return (... && any_differentiable<std::tuple_element_t<static_cast<std::size_t>(Index), std::tuple<T...>>>());
    }
    (Indexes{});
  }
  template <class... T>
  static constexpr bool is_of_numbers(type_list<T...>) {
    constexpr bool numbers =
        (... || (is_floating_scalar<std::remove_cvref_t<Args>> || is_number<std::remove_cvref_t<Args>>));
    if constexpr (!numbers) return false;
    else if constexpr (takes_arguments<F&, T...>()) return false;
    else return std::is_invocable_v<F&, Args...>;
  }
  template <class... T>
  static constexpr bool is_right(type_list<T...>) {
    return told_to_take<F&, T...>();
  }
  template <class... T>
  static constexpr bool is_taken(type_list<T...>) {
    return std::is_invocable_v<F&, T...>;
  }
  template <class... T>
  static constexpr bool gives(type_list<T...>) {
    return !std::is_void_v<std::invoke_result_t<F&, T...>>;
  }
  using given = typename passed_types<Indexes, std::index_sequence_for<Args...>, Args...>::type;

  static constexpr bool right_if_asked() {
    if constexpr (exists && varies_smoothly && !of_numbers && !has_own_faults<F>) return is_right(given{});
    else return true;
  }
  static constexpr bool taken_if_asked() {
    if constexpr (exists && varies_smoothly && !of_numbers) return is_taken(given{});
    else return false;
  }
  static constexpr bool gives_if_asked() {
    if constexpr (taken) return gives(given{});
    else return true;
  }
  static constexpr bool varies_if_asked() {
    if constexpr (exists) return has_floats(given{});
    else return true;
  }

 public:
  static constexpr bool exists = exist(Indexes{}, static_cast<int>(sizeof...(Args)));
  static constexpr bool varies_smoothly = varies_if_asked();
  static constexpr bool of_numbers = is_of_numbers(given{});
  static constexpr bool right = right_if_asked();
  static constexpr bool taken = taken_if_asked();
  static constexpr bool returns = gives_if_asked();
  static constexpr bool compiles = taken && returns;
  /// The result type of F, if F compiles.
  template <class... T>
  static auto result_of(type_list<T...>) -> std::type_identity<std::remove_cvref_t<std::invoke_result_t<F&, T...>>>;
  static auto result() {
    if constexpr (compiles) return decltype(result_of(given{})){};
    else return std::type_identity<void>{};
  }
  static constexpr transform_fault fault = !exists            ? transform_fault::index
                                           : !varies_smoothly ? transform_fault::integers
                                           : of_numbers       ? transform_fault::numbers
                                           : !right           ? transform_fault::arguments
                                           : !returns         ? transform_fault::no_result
                                                              : transform_fault::none;
};

/// The fault of a call of a derivative's function; none if it takes its numbers as tensors of another dtype.
template <class Indexes, class F, class... Args>
constexpr transform_fault fault_of_call() {
  if constexpr (takes_other_numbers<Indexes, F, Args...>()) return transform_fault::none;
  else if constexpr (transformed<Indexes, F, Args...>::fault != transform_fault::none)
    return transformed<Indexes, F, Args...>::fault;
  else if constexpr (has_own_faults<F>) {
    // A varying number is reported as the caller wrote it.
    constexpr transform_fault passed_on = []<class... T>(type_list<T...>) {
      return F::template fault_of<T...>;
    }(typename passed_types<Indexes, std::index_sequence_for<Args...>, Args...>::type{});
    if constexpr (passed_on == transform_fault::none) return transform_fault::none;
    else return F::template fault_of<Args...> != transform_fault::none ? F::template fault_of<Args...> : passed_on;
  } else {
    return transform_fault::none;
  }
}

// The right calls of a derivative's function, as members; `checked` computes them.
#define SINTER_RIGHT_TRANSFORMS                                                                \
  template <class... Args>                                                                     \
  auto operator()(Args&&... args) const {                                                      \
    if constexpr (transformed<Indexes, F, Args...>::compiles)                                  \
      return checked(std::index_sequence_for<Args...>{}, std::forward<Args>(args)...);         \
    else return wrong_call<>{};                                                                \
  }                                                                                            \
  template <class... Args>                                                                     \
  requires(takes_other_numbers<Indexes, F, Args...>()) auto operator()(Args&&... args) const { \
    return with_other_numbers<Indexes, F>(where_, *this, std::forward<Args>(args)...);         \
  }

// The wrong calls. Loss and pair are also faults of a gradient that is differentiated.
#define SINTER_WRONG_TRANSFORMS(NAME, WHERE, RESULT)                                                                \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, index, "the function has no such argument, or one is named twice")            \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, integers, "the argument holds no floating tensor")                            \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, numbers,                                                                      \
                         "a number that is differentiated by arrives as a tensor of rank 0: let the function take " \
                         "and return tensor<double, 0>, or auto")                                                   \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, arguments,                                                                    \
                         "the function does not take these arguments: their number, a dtype or a rank differs")     \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, no_result, "the function must return " RESULT "; it returns nothing")         \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, loss, "the function must return a rank-0 floating tensor; use sum or mean")   \
  operator()(Args&&...) const { return {}; }                                                                        \
  SINTER_WRONG_TRANSFORM(NAME, WHERE, pair, "with has_aux the function must return two results: (value, more)")     \
  operator()(Args&&...) const { return {}; }

/// The type of a gradient by a T. (mesh/placed.hpp)
template <class T>
struct gradient_type {
  using type = T;
};
template <class... T>
struct gradient_type<std::tuple<T...>> {
  using type = std::tuple<typename gradient_type<T>::type...>;
};
template <class A, class B>
struct gradient_type<std::pair<A, B>> {
  using type = std::pair<typename gradient_type<A>::type, typename gradient_type<B>::type>;
};
template <class T, class Allocator>
struct gradient_type<std::vector<T, Allocator>> {
  using type = std::vector<typename gradient_type<T>::type>;
};

/// Whether a tree has a part whose gradient has another type.
template <class T>
constexpr bool has_other_gradients();
struct other_gradients {
  template <class T>
  static constexpr bool of() {
    if constexpr (!std::is_same_v<typename gradient_type<T>::type, T>) return true;
    else if constexpr (branch_of<T>() == branch::structure) return any_part<other_gradients>(children_of<T>{});
    else return false;
  }
};
template <class T>
constexpr bool has_other_gradients() {
  return any_part<other_gradients, T>();
}

/// Calls under a trace. Marks make the leaves of varying arguments distinct from all other nodes of the graph. So captures of
/// the function are constant to this derivative, even if they are the same tensors.
template <class Indexes, class... Args>
class marked_call {
 public:
  marked_call(const char* op, location where, const Args&... args)
      : op_(op), where_(where), tracer_(engine::current()), args_(args...), uncut_(whole()) {}

  /// f of the marked arguments.
  template <class F>
  auto run(F& f) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::tuple<Args...> in{marked<I>(std::get<I>(args_))...};  // braces: in order
      return std::apply([&](auto&... x) { return detail::invoke(where_, f, std::move(x)...); }, in);
    }
    (std::index_sequence_for<Args...>{});
  }

  const std::shared_ptr<engine::tracer>& tracer() const { return tracer_; }
  /// The nodes of the varying leaves, in the order of Indexes.
  series<ir::node_id> marks() const {
    series<ir::node_id> all;
    each([&](auto i) { all.insert(all.end(), marks_[i].begin(), marks_[i].end()); });
    return all;
  }
  /// Trees like the varying arguments: one tree, or a tuple of trees.
  template <class Tree>
  auto trees(const Tree& tree) const {
    return trees_of(Indexes{}, tree);
  }
  template <class F>
  void each(const F& f) const {
    each_of(Indexes{}, f);
  }
  template <std::size_t I>
  const auto& argument() const {
    return std::get<I>(args_);
  }

 private:
  int* whole() const { return tracer_->call ? &tracer_->call->whole : nullptr; }

  template <std::size_t I, class T>
  T marked(const T& x) {
    if constexpr (!varies(Indexes{}, I)) return x;
    else
      return map_tree(
          op_, where_,
          [&]<class X>(const X& leaf) {
            if constexpr (is_dynamic<X>) {
              if (!is_float(leaf.type())) return leaf;
              marks_[I].push_back(tracer_->graph.mark(leaf.node(where_)));
              return X::of_node(marks_[I].back());
            } else if constexpr (differentiable<X>) {
              marks_[I].push_back(tracer_->graph.mark(push(*tracer_, leaf, where_)));
              return access::traced<typename X::value_type, X::static_shape>(tracer_, marks_[I].back(), leaf.shape());
            } else {
              return leaf;
            }
          },
          x);
  }
  template <int... Index, class F>
  void each_of(std::integer_sequence<int, Index...>, const F& f) const {
    (f(std::integral_constant<std::size_t, static_cast<std::size_t>(Index)>{}), ...);
  }
  template <int... Index, class Tree>
  auto trees_of(std::integer_sequence<int, Index...>, const Tree& tree) const {
    if constexpr (sizeof...(Index) == 1) return tree(std::get<static_cast<std::size_t>(Index)...>(args_));
    else return std::tuple{tree(std::get<static_cast<std::size_t>(Index)>(args_))...};
  }

  const char* op_;
  location where_;
  std::shared_ptr<engine::tracer> tracer_;
  std::tuple<const Args&...> args_;
  std::array<series<ir::node_id>, sizeof...(Args)> marks_;
  engine::counted_scope uncut_;
};

/// The tree with the given nodes in place of its floating tensors, in order, and zeros in place of other tensors.
template <class T>
T derivative_tree(const char* op, location where, const std::shared_ptr<engine::tracer>& t, const T& like,
                  const ir::node_id*& next) {
  return map_tree(
      op, where,
      [&]<class X>(const X& x) {
        if constexpr (is_dynamic<X>) return is_float(x.type()) ? X::of_node(*next++) : X::zeros_like(x, where);
        else if constexpr (differentiable<X>)
          return access::traced<typename X::value_type, X::static_shape>(t, *next++, x.shape());
        else return filled<typename X::value_type, X::static_shape>(op, {}, x.shape(), {}, where);
      },
      like);
}

/// Appends the nodes of the floating tensors.
template <class T>
void push_floating(engine::tracer& t, const T& tree, series<ir::node_id>& to, location where) {
  for_each_leaf(tree, [&]<class X>(const X& x) {
    if constexpr (is_dynamic<std::remove_const_t<X>>) {
      if (is_float(x.type())) to.push_back(x.node(where));
    } else if constexpr (differentiable<std::remove_const_t<X>>) to.push_back(push(t, x, where));
  });
}

/// The tree with tensors that have extents but no elements.
template <class T>
T shaped(const T& tree) {
  if constexpr (facts_of<T>.tensors == 0) return tree;
  else
    return map_tree(
        "trace", {},
        []<class X>(const X& x) -> X {
          if constexpr (is_dynamic<X>) return x.shaped();
          else return access::make<typename X::value_type, X::static_shape>({}, nullptr, x.shape(), {});
        },
        tree);
}

template <class A, class B>
struct fits_tangent {
  static constexpr bool value =
      !differentiable<A> ||
      (dtype_of<typename A::value_type> == dtype_of<typename B::value_type> && A::rank == B::rank);
};

/// Whether B can be the tangents of A: one structure, and floating tensors of the same dtypes and ranks.
template <class A, class B>
constexpr bool fits_tree() {
  return trees_match<fits_tangent, A, B>();
}

/// A tangent for a tree like `Like`: C++ numbers become tensors of its dtype.
template <class Like, class T>
auto passed_tangent(T&& x) {
  using value = std::remove_cvref_t<T>;
  if constexpr (any_tensor<Like> && scalar_like<value>) {
    if constexpr (Like::rank == 0 && is_float(dtype_of<typename Like::value_type>))
      return tensor<typename Like::value_type, dims{}>(static_cast<typename Like::value_type>(x));
    else return value(x);
  } else {
    return settle_tree(std::forward<T>(x));
  }
}

[[noreturn]] inline void fail_tangent(const char* op, const char* what, const dims& like, const dims& given,
                                      location where) {
  fail(op,
       std::string(what) + " has a tensor of shape " + text::shape(given) + " where there is one of shape " +
           text::shape(like) + "; they have to be equal",
       where);
}

/// Appends the nodes of the tangents, or cotangents, of `like`.
template <class A, class B>
void push_tangents(engine::tracer& t, const char* op, const char* what, const A& like, const B& given,
                   series<ir::node_id>& to, location where) {
  static_cast<void>(map_tree(
      op, where,
      [&]<class X, class Y>(const X& x, const Y& y) {
        if constexpr (is_dynamic<X>) {
          if (!is_float(x.type())) return x;
          if (x.shape() != y.shape() || x.type() != y.type()) fail_tangent(op, what, x.shape(), y.shape(), where);
          to.push_back(y.node(where));
        } else if constexpr (differentiable<X>) {
          if (to_dims(x.shape()) != to_dims(y.shape()))
            fail_tangent(op, what, to_dims(x.shape()), to_dims(y.shape()), where);
          to.push_back(push(t, y, where));
        }
        return x;
      },
      like, given));
}

}  // namespace sinter::detail
