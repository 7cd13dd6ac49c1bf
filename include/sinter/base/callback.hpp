// base/callback.hpp: std::function, std::invoke and std::make_shared at a lower compile time.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "config.hpp"
#include "location.hpp"

namespace sinter {

namespace detail {

/// Shared ownership of x, which destroy(x) releases.
SINTER_API std::shared_ptr<void> shared(void* x, void (*destroy)(void*));

/// std::make_shared with little code for each T.
template <class T>
std::shared_ptr<void> on_heap(T&& x) {
  using kept = std::remove_cvref_t<T>;
  return shared(new kept(std::forward<T>(x)), [](void* p) { delete static_cast<kept*>(p); });
}

/// std::make_shared of a T that is not derived from enable_shared_from_this.
template <class T, class... Args>
std::shared_ptr<T> make_on_heap(Args&&... args) {
  using kept = std::remove_const_t<T>;
  std::shared_ptr<void> x =
      shared(new kept(std::forward<Args>(args)...), [](void* p) { delete static_cast<kept*>(p); });
  return {std::move(x), static_cast<T*>(x.get())};
}

template <class Signature>
class callback;

/// A type-erased function object. Copies share it, and call it as const.
template <class R, class... A>
class callback<R(A...)> {
 public:
  callback() = default;
  template <class F>
  callback(F f)
      : call_([](const void* x, A... a) -> R { return (*static_cast<const F*>(x))(std::forward<A>(a)...); }),
        function_(on_heap(std::move(f))) {}

  explicit operator bool() const { return call_ != nullptr; }
  R operator()(A... a) const { return call_(function_.get(), std::forward<A>(a)...); }
  /// An address in the library of the function; null without a function.
  const void* code() const { return reinterpret_cast<const void*>(call_); }

 private:
  R (*call_)(const void* f, A... a) = nullptr;
  std::shared_ptr<const void> function_;
};

template <class F, class X, class... Args>
constexpr decltype(auto) invoke_member(F f, X&& x, Args&&... args) {
  if constexpr (std::is_member_object_pointer_v<F>) return (std::forward<X>(x).*f);
  else return (std::forward<X>(x).*f)(std::forward<Args>(args)...);
}

/// f(args...) on behalf of the line `where`, which errors name if an argument does not fit its parameter. f may be a pointer
/// to a member of the first argument.
template <class F, class... Args>
constexpr decltype(auto) invoke(location where, F&& f, Args&&... args) {
  if (!std::is_constant_evaluated()) last_call = where;
  if constexpr (std::is_member_pointer_v<std::remove_cvref_t<F>>) return invoke_member(f, std::forward<Args>(args)...);
  else return std::forward<F>(f)(std::forward<Args>(args)...);
}

/// x as a T on behalf of the line `where`, which errors name if it does not fit.
template <class T, class X>
constexpr T convert(location where, X&& x) {
  if (!std::is_constant_evaluated()) last_call = where;
  return static_cast<T>(std::forward<X>(x));
}

}  // namespace detail

namespace engine {
using sinter::detail::make_on_heap;
}
}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
