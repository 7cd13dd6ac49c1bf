// front/trees/takes.hpp: whether a user's function takes arguments, as distinct from a function that does not compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sinter::detail {

struct refused {};

/// The last choice of overload resolution: every operator of F that takes the arguments is preferred.
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

/// Whether F has several operator()s, or a template. The parameters of a single operator() are known. If F has none, the
/// operator of refuses_all is the only one.
template <class F>
concept callable_class = std::is_class_v<F> && !std::is_final_v<F> && !requires {
  &F::operator();
}
&&!requires { &has_call<F>::operator(); };

/// Whether F does not take the arguments. `Time` repeats the question, because clang++ forgets a function after an error in
/// its body.
template <int Time, class F, class... Args>
constexpr bool refuses() {
  using function = std::remove_cvref_t<F>;
  if constexpr (callable_class<function> && sizeof...(Args) > 0)
    return requires(or_refused<function> & f, Args && ... args) {
      { f(std::forward<Args>(args)...) } -> std::same_as<refused>;
    };
  else return !std::is_invocable_v<F, Args...>;
}

/// False if F does not take the arguments. True if it does, even if its body has an error: the compiler has reported that
/// error, and a second report would be false. Must be asked before is_invocable.
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

/// A pointer to a function, or a class with a single operator() that is not a template: its parameters are fixed.
template <class F>
concept fixed_function = !std::is_class_v<F> || requires {
  &F::operator();
};

/// F with a rival call operator that takes any arguments. The rival is better in the object, which is not const, and worse in
/// each argument. So a call is ambiguous if F takes the arguments, and F's body is not instantiated.
template <class F>
struct rivalled : F {
  using F::operator();
  void operator()(...);
};

/// Whether F, called as const, takes A. F's body is not compiled.
template <class F, class... A>
constexpr bool is_viable() {
  if constexpr (fixed_function<F>) return std::is_invocable_v<F&, A...>;
  else return !requires {
      std::declval<rivalled<F>&>()(std::declval<A>()...);
    };
}

/// Converts to the types that T converts to.
template <class T>
struct converts_as {
  template <class U>
  requires(std::is_convertible_v<T, U>) operator U() const;
};
struct converts_to_all {
  template <class U>
  operator U() const;
};

/// The first argument of Given that does not convert to its parameter's type, for an F that is overloaded or a template. -1
/// if there is none.
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

/// Like takes_arguments. A call that is neither taken nor refused (ambiguous, or private) is the compiler's error here.
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
