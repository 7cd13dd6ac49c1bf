// front/axis_numbers.hpp: functions called with an axis as a number: a short error that says how an axis is written.
#pragma once

#include <concepts>

#include "expr.hpp"

namespace sinter {

// The rank of a result follows from its type, so axes are types.
#define SINTER_AXIS_NUMBER(NAME, INSTEAD)                                      \
  template <tensor_like X, std::integral Axis, class... Rest>                  \
  X NAME(const X& x, Axis, const Rest&...) {                                   \
    static_assert(!sizeof(X), "sinter: [" #NAME "] axes are types: " INSTEAD); \
    return x;                                                                  \
  }
SINTER_AXIS_NUMBER(var, "var(x, axis<0>), var(x, axis<0>, keepdims, ddof)")
SINTER_AXIS_NUMBER(std, "std(x, axis<0>), std(x, axis<0>, keepdims, ddof)")
SINTER_AXIS_NUMBER(norm, "norm(x, axis<0>)")
SINTER_AXIS_NUMBER(argmax, "argmax(x, axis<0>)")
SINTER_AXIS_NUMBER(argmin, "argmin(x, axis<0>)")
SINTER_AXIS_NUMBER(softmax, "softmax(x, axis<0>)")
SINTER_AXIS_NUMBER(log_softmax, "log_softmax(x, axis<0>)")
SINTER_AXIS_NUMBER(cumsum, "cumsum(x, axis<0>)")
SINTER_AXIS_NUMBER(cumprod, "cumprod(x, axis<0>)")
SINTER_AXIS_NUMBER(cummax, "cummax(x, axis<0>)")
SINTER_AXIS_NUMBER(cummin, "cummin(x, axis<0>)")
SINTER_AXIS_NUMBER(flip, "flip(x, axis<0>)")
SINTER_AXIS_NUMBER(expand_dims, "expand_dims(x, axis<0>)")
SINTER_AXIS_NUMBER(squeeze, "squeeze(x, axis<0>)")
SINTER_AXIS_NUMBER(transpose, "transpose<0, 1>(x)")
SINTER_AXIS_NUMBER(permute, "permute<1, 0, 2>(x)")
SINTER_AXIS_NUMBER(slice, "slice<0>(x, first, last, step)")
#undef SINTER_AXIS_NUMBER

template <int Ord, tensor_like X, std::integral Axis, class... Rest>
X norm(const X& x, Axis, const Rest&...) {
  static_assert(!sizeof(X), "sinter: [norm] axes are types: norm<1>(x, axis<0>)");
  return x;
}

// Behind a second tensor.
#define SINTER_AXIS_NUMBER(NAME, INSTEAD)                                      \
  template <tensor_like X, tensor_like Y, std::integral Axis>                  \
  X NAME(const X& x, const Y&, Axis) {                                         \
    static_assert(!sizeof(X), "sinter: [" #NAME "] axes are types: " INSTEAD); \
    return x;                                                                  \
  }
SINTER_AXIS_NUMBER(concat, "concat(x, y, axis<0>)")
SINTER_AXIS_NUMBER(stack, "stack(x, y, axis<0>)")
SINTER_AXIS_NUMBER(take, "take(x, index, axis<0>)")
SINTER_AXIS_NUMBER(take_along_axis, "take_along_axis(x, index, axis<0>)")
#undef SINTER_AXIS_NUMBER

}  // namespace sinter
