// front/compile/explain.hpp: explain(fn)(args...): a call that tells what became of the function.
#pragma once

#include <type_traits>
#include <utility>

#include "compile.hpp"

namespace sinter {

namespace detail {

/// The compiled function itself, or what compile() makes of another one.
template <class F>
auto as_compiled(F&& fn, const options& how, location where) {
  if constexpr (is_compiled<std::decay_t<F>>) return std::decay_t<F>(fn);
  else return compile(std::forward<F>(fn), how, where);
}

}  // namespace detail

/// explain(fn)(args...) calls fn(args...), leaves the result, and says what became of fn: its specialisations with what
/// each was made for, their guards, kernels and what kept neighbours apart, and its graph breaks. Arguments are not donated;
/// kernels that are made in the background are waited for. `how` is for a function that is not compiled yet.
// clang-format off
template <class F>
auto explain(F&& fn, const options& how = {}, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::use_of_compiled(detail::as_compiled(std::forward<F>(fn), how, where),
                                 [](const auto& f, const auto&... args) {
                                   static_cast<void>(f(args...));
                                   f.wait_ready();
                                   return f.explain();
                                 });
}

}  // namespace sinter
