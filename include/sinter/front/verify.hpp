// front/verify.hpp: verify(fn)(args...) and minimize(fn)(args...): is what kernels compute right, and if not, which op is wrong.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "../verify.hpp"
#include "compile.hpp"
#include "explain.hpp"

namespace sinter {

namespace detail {

/// use(traced graph, arguments, options, device) for fn traced on args with all extents fixed.
template <class F, class Use>
auto with_trace(const F& fn, const options& how, location where, const Use& use) {
  return [fn, how, where, use](const auto&... args) {
    return [&]<class... T>(const T&... settled) {
      F traced_function = fn;
      flat_arguments<T...> flat(how.name, where, settled...);
      const device on = flat.where(how);
      const engine::traced traced = trace_call(traced_function, on, where, {}, settled...);
      return use(traced.graph, flat.tensors(), how, on);
    }(settle_tree(args)...);
  };
}

}  // namespace detail

/// verify(fn)(args...) traces fn for these arguments, compiles it, and runs it kernel by kernel beside the reference: what each kernel
/// stores is compared with the reference's result from the same operands, within what rounding explains. The first op that differs is named with its
/// line, the index and both values. Slow; the function's results are not returned.
template <class F>
auto verify(F&& fn, const options& how = {}, location where = location::current()) {
  return detail::with_trace(std::decay_t<F>(std::forward<F>(fn)), how, where,
                            [](const auto&... x) { return engine::verify(x...); });
}
/// Of a compiled function, with its options.
template <class F>
auto verify(const compiled<F>& fn, location where = location::current()) {
  return detail::with_trace(fn, fn.how(), where, [](const auto&... x) { return engine::verify(x...); });
}

/// minimize(fn)(args...): where verify(fn)(args...) fails, or fn does not compile, the smallest part of it that fails in the same way, and a
/// program that shows it: save reproduction.source as a .cpp.
template <class F>
auto minimize(F&& fn, const options& how = {}, location where = location::current()) {
  return detail::with_trace(std::decay_t<F>(std::forward<F>(fn)), how, where,
                            [](const auto&... x) { return engine::minimize(x...); });
}
template <class F>
auto minimize(const compiled<F>& fn, location where = location::current()) {
  return detail::with_trace(fn, fn.how(), where, [](const auto&... x) { return engine::minimize(x...); });
}

}  // namespace sinter
