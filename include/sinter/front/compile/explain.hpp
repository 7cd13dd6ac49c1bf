// front/compile/explain.hpp: explain(fn)(args...): a call that reports how the function was compiled.
#pragma once

#include <type_traits>
#include <utility>

#include "compile.hpp"

namespace sinter {

namespace detail {

/// The compiled function itself; compile() of any other function.
template <class F>
auto as_compiled(F&& fn, const options& how, location where) {
  if constexpr (is_compiled<std::decay_t<F>>) return std::decay_t<F>(fn);
  else return compile(std::forward<F>(fn), how, where);
}

}  // namespace detail

/// explain(fn)(args...) calls fn(args...), drops the result, and reports on fn: its specialisations and their arguments,
/// guards and kernels, the reasons that kept neighbours apart, and its graph breaks. Arguments are not donated. Kernels that
/// are compiled in the background are waited for. `how` applies to a function that is not compiled yet.
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
