// front/trees/takes.hpp: whether a function of the user takes arguments, told apart from a function that does not compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sinter::detail {

struct refused {};

/// The last resort of overload resolution: anything that F has for the arguments is preferred.
struct refuses_all {
  refused operator()(...) const;
};

template <class F>
struct or_refused : F, refuses_all {
  using F::operator();
  using refuses_all::operator();
};

template <class F>
struct has_call : F, refuses_all {};

/// Whether F has operator() several times or as a template. Of one alone it is known what it takes; where F has none, that of
/// refuses_all is the only one.
template <class F>
concept callable_class = std::is_class_v<F> && !std::is_final_v<F> && !requires {
  &F::operator();
}
&&!requires { &has_call<F>::operator(); };

/// Whether F has nothing that takes the arguments. It is asked several times: clang++ forgets a function once its body had an error.
template <int Time, class F, class... Args>
constexpr bool refuses() {
  using function = std::remove_cvref_t<F>;
  if constexpr (callable_class<function> && sizeof...(Args) > 0)
    return requires(or_refused<function> & f, Args && ... args) {
      { f(std::forward<Args>(args)...) } -> std::same_as<refused>;
    };
  else return !std::is_invocable_v<F, Args...>;
}

/// False where F has nothing that takes the arguments. True of a function that does but whose body has an error: the compiler
/// has told that error, and another one would be false. Asked before is_invocable is.
template <class F, class... Args>
constexpr bool takes_arguments() {
#if defined(__clang__)
  constexpr bool refused = refuses<0, F, Args...>();
  return !refused || std::is_invocable_v<F, Args...>;
#else
  if constexpr (std::is_invocable_v<F, Args...>) return true;
  else return !refuses<0, F, Args...>();
#endif
}

/// A function with one call operator that is no template, or a pointer: its parameters do not depend on arguments.
template <class F>
concept fixed_function = !std::is_class_v<F> || requires {
  &F::operator();
};

/// F with a call operator that takes anything, better than F's where it is called on what is not const, and worse in each
/// argument: a call is ambiguous where F takes the arguments, and nothing of F's body is instantiated.
template <class F>
struct rivalled : F {
  using F::operator();
  void operator()(...);
};

/// Whether F, called as const, takes A. Its body is not compiled for them.
template <class F, class... A>
constexpr bool is_viable() {
  if constexpr (fixed_function<F>) return std::is_invocable_v<F&, A...>;
  else return !requires {
      std::declval<rivalled<F>&>()(std::declval<A>()...);
    };
}

/// Converts to what T does.
template <class T>
struct converts_as {
  template <class U>
  requires(std::is_convertible_v<T, U>) operator U() const;
};
struct converts_to_all {
  template <class U>
  operator U() const;
};

/// The first of the arguments Given whose parameter is of a type that it does not convert to, where F is overloaded or a template;
/// -1 where there is none.
template <class F, class... Given>
constexpr int first_unfit() {
  int found = -1;
  if constexpr (callable_class<F>) {
    const auto fits = []<class... Probe>(std::type_identity<Probe>...) { return is_viable<F, Probe...>(); };
    const auto unfit = [&]<std::size_t At, std::size_t... I>(std::integral_constant<std::size_t, At>,
                                                             std::index_sequence<I...>) {
      return fits(std::type_identity<std::conditional_t<I == At, converts_to_all, Given>>{}...) &&
             !fits(std::type_identity<std::conditional_t<I == At, converts_as<Given>, Given>>{}...);
    };
    [&]<std::size_t... At>(std::index_sequence<At...> all) {
      static_cast<void>((... || (unfit(std::integral_constant<std::size_t, At>{}, all) && (found = int{At}, true))));
    }
    (std::index_sequence_for<Given...>{});
  }
  return found;
}

template <class F, class... Args>
void call_of_user(F&& f, Args&&... args) {
  static_cast<void>(std::forward<F>(f)(std::forward<Args>(args)...));
}

/// The same, but what is neither taken nor refused (it is ambiguous, or private) is the compiler's error here.
template <class F, class... Args>
constexpr bool told_to_take() {
  constexpr bool right = takes_arguments<F, Args...>();
  if constexpr (right && !std::is_invocable_v<F, Args...> && !refuses<1, F, Args...>()) {
    if constexpr (first_unfit<std::remove_cvref_t<F>, Args...>() >= 0) return false;
    else static_cast<void>(&call_of_user<F, Args...>);
  }
  return right;
}

}  // namespace sinter::detail
