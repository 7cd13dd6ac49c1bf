// front/trees/takes.hpp: whether a function of the user takes arguments, told apart from a function that does not compile.
#pragma once

#include <concepts>
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

template <class F, class... Args>
void call_of_user(F&& f, Args&&... args) {
  static_cast<void>(std::forward<F>(f)(std::forward<Args>(args)...));
}

/// The same, but what is neither taken nor refused (it is ambiguous, or private) is the compiler's error here.
template <class F, class... Args>
constexpr bool told_to_take() {
  constexpr bool right = takes_arguments<F, Args...>();
  if constexpr (right && !std::is_invocable_v<F, Args...> && !refuses<1, F, Args...>())
    static_cast<void>(&call_of_user<F, Args...>);
  return right;
}

}  // namespace sinter::detail
