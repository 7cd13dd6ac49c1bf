// front/compile/verify.hpp: verify(fn)(args...) and minimize(fn)(args...): check kernels against the reference, and find a
// wrong op.
#pragma once

#include <utility>

#include "../../engine/verify.hpp"
#include "compile.hpp"
#include "explain.hpp"

namespace sinter {

/// verify(fn)(args...) traces fn for these arguments, compiles it, and runs it kernel by kernel beside the reference. Each
/// stored value is compared with the reference's result for the same operands, within rounding bounds. The first op that
/// differs is reported with its line, the index and both values. Slow; fn's results are not returned. Extents are numbers,
/// except those that are open in the specialisation of fn that would answer the call. `how` applies to a function that is not
/// compiled yet. user_error for a function that reads traced values.
// clang-format off
template <class F>
auto verify(F&& fn, const options& how = {}, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::use_of_compiled(
      detail::as_compiled(std::forward<F>(fn), how, where), [](const auto& f, const auto&... args) {
        return f.template inspect<true>([](const auto&... x) { return engine::verify(x...); }, args...);
      });
}

/// minimize(fn)(args...): if verify(fn)(args...) fails, or fn does not compile, the smallest part that fails in the same way,
/// and a program that shows it. Save reproduction.source as a .cpp. Extents are as in verify, and those that the failure
/// needs stay open in the program.
// clang-format off
template <class F>
auto minimize(F&& fn, const options& how = {}, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  return detail::use_of_compiled(
      detail::as_compiled(std::forward<F>(fn), how, where), [](const auto& f, const auto&... args) {
        return f.template inspect<true>([](const auto&... x) { return engine::minimize(x...); }, args...);
      });
}

}  // namespace sinter
