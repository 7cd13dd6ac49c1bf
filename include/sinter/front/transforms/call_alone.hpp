// front/transforms/call_alone.hpp: a transformed function outside of compile(): one call traced and run.
#pragma once

#include <utility>

#include "../compile/integers.hpp"
#include "../functions/indexing.hpp"

namespace sinter::detail {

/// The fault of a call of a transform's function.
enum class transform_fault {
  none,
  index,
  integers,
  numbers,
  arguments,
  no_result,
  loss,
  pair,
  lanes,
  entries,
  entry,
  no_lanes,
  plain_struct,
  lane_axis,
  stacked_axis,
};

// The head of a transform's wrong call, a member beside `fault_of`, which finds the fault of arguments. Compilers print each
// macro around a function's name, so the declarator follows it: SINTER_WRONG_TRANSFORM(…) operator()(Args&&...) const.
#define SINTER_WRONG_TRANSFORM(NAME, WHERE, FAULT, TEXT)                                            \
  template <class... Args>                                                                          \
  requires((WHERE) && !asks_about_integers<Args...> && fault_of<Args...> == transform_fault::FAULT) \
      SINTER_WRONG_CALL("[" NAME "] " TEXT)                                                         \
  wrong_call<>

/// f(args...) traced for this call and run, with kernels kept by structure. `name` is the transform's, for errors.
/// user_error for an index out of range.
template <class F, class... Args>
auto call_alone(const char* name, location where, const F& f, const Args&... args) {
  options how;
  how.name = name;
  flat_arguments<Args...> flat(how.name, where, args...);
  const device on = flat.where(how);
  using result_type = call_result_t<F, Args...>;
  engine::trace_target to{on, where};
  to.how = &how;
  to.arguments = flat.tensors();
  to.whole = true;
  engine::traced traced = trace_call(f, to, args...);
  engine::answer(traced, flat.tensors(), how, on);
  check_indices(traced);
  return answer_of<result_type>(traced);
}

}  // namespace sinter::detail
