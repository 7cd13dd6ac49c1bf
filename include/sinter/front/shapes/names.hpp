// front/shapes/names.hpp: the functions under their users' names, each with its compile-time errors.
#pragma once

#include <cstddef>
#include <utility>

#include "../../base/config.hpp"
#include "../../ir/op.hpp"

namespace sinter::detail {

/// The result of a wrong call. It causes no further error where it is assigned, printed, used in arithmetic or taken apart as
/// a pair.
template <auto...>
struct wrong_call {
  template <class T>
  operator T() const;
  template <std::size_t>
  wrong_call get() const;
  template <class Stream>
  friend Stream& operator<<(Stream& s, const wrong_call&) {
    return s;
  }
#define SINTER_WRONG_OPERATOR(SYMBOL)                      \
  template <class T>                                       \
  friend wrong_call operator SYMBOL(wrong_call, const T&); \
  template <class T>                                       \
  friend wrong_call operator SYMBOL(const T&, wrong_call); \
  friend wrong_call operator SYMBOL(wrong_call, wrong_call) { return {}; }
  SINTER_WRONG_OPERATOR(+)
  SINTER_WRONG_OPERATOR(-)
  SINTER_WRONG_OPERATOR(*)
  SINTER_WRONG_OPERATOR(/)
#undef SINTER_WRONG_OPERATOR
};

/// The faults of a call that are found at compile time.
enum class fault {
  none,
  axis,
  axis_twice,
  rank,
  dtypes,
  numbers,
  floating,
  integer,
  bits,
  condition,
  words,
  scalar,
  extents,
  assigned,
  index,
  mask,
  updates,
  indices,
  max_axes,
  part
};

/// NAME::refuse<F>() is a compile-time error, and returns false. Name, made dependent on T: clang++ checks code that does not
/// depend on template parameters at its definition.
template <class Name, class... T>
struct depending {
  using type = Name;
};
template <class Name, fault F, class... T>
constexpr bool refuse_for() {
  return depending<Name, T...>::type::template refuse<F>();
}

#define SINTER_MASK_IS_NO_INDEX                                                                  \
  "a bool tensor is a mask, and no index: compress(x, mask) takes the elements where it holds, " \
  "of flatten(x) and flatten(mask) where it has several axes; where(mask, x, y) chooses in place"

namespace named {

#define SINTER_POINTWISE(NAME, ...)                                                                                  \
  struct NAME {                                                                                                      \
    static constexpr const char* text = #NAME;                                                                       \
    template <fault F>                                                                                               \
    static constexpr bool refuse() {                                                                                 \
      static_assert(F != fault::axis, "sinter: [" #NAME "] an axis is out of range for the tensor's rank");          \
      static_assert(F != fault::axis_twice, "sinter: [" #NAME "] an axis is given twice");                           \
      static_assert(F != fault::rank, "sinter: [" #NAME "] needs an axis; the tensor has rank 0");                   \
      static_assert(F != fault::dtypes,                                                                              \
                    "sinter: [" #NAME "] the operands have different dtypes; cast one of them with cast<T>(x)");     \
      static_assert(F != fault::numbers, "sinter: [" #NAME "] takes numbers, not bool; cast with cast<T>(x)");       \
      static_assert(F != fault::floating, "sinter: [" #NAME "] takes a floating dtype; cast with cast<float>(x)");   \
      static_assert(F != fault::integer, "sinter: [" #NAME "] takes an integer dtype; cast with cast<T>(x)");        \
      static_assert(F != fault::bits, "sinter: [" #NAME "] takes integers or bool");                                 \
      static_assert(F != fault::condition,                                                                           \
                    "sinter: [" #NAME "] the condition must be bool; compare, for example x != 0");                  \
      static_assert(F != fault::words, "sinter: [" #NAME "] takes u64 operands");                                    \
      static_assert(F != fault::scalar,                                                                              \
                    "sinter: [" #NAME                                                                                \
                    "] a C++ number does not fit the tensor's dtype; cast the tensor with cast<T>(x)");              \
      static_assert(F != fault::extents, "sinter: [" #NAME "] the static extents do not broadcast");                 \
      static_assert(F != fault::assigned,                                                                            \
                    "sinter: [" #NAME "] the result has another rank or static shape than the tensor on the left");  \
      static_assert(F != fault::index,                                                                               \
                    "sinter: [" #NAME "] the index is neither i32 nor i64; cast it with cast<std::int64_t>(index)"); \
      static_assert(F != fault::mask, "sinter: [" #NAME "] " SINTER_MASK_IS_NO_INDEX);                               \
      static_assert(F != fault::updates,                                                                             \
                    "sinter: [" #NAME "] the updates' shape does not follow from base and index");                   \
      static_assert(F != fault::indices,                                                                             \
                    "sinter: [" #NAME "] gives more indices than four, or than the tensor has axes");                \
      static_assert(F != fault::max_axes, "sinter: [" #NAME "] the result would have more than 12 axes");            \
      static_assert(F != fault::part, "sinter: [" #NAME "] the value has more axes than the part of the tensor");    \
      return false;                                                                                                  \
    }                                                                                                                \
  };

// clang-format off
// Functions that are not rows of ops.def; then the rows.
SINTER_POINTWISE(where) SINTER_POINTWISE(clamp) SINTER_POINTWISE(relu) SINTER_POINTWISE(gelu)
SINTER_POINTWISE(gelu_tanh) SINTER_POINTWISE(silu) SINTER_POINTWISE(softplus) SINTER_POINTWISE(softsign)
SINTER_POINTWISE(elu) SINTER_POINTWISE(leaky_relu) SINTER_POINTWISE(hardswish) SINTER_POINTWISE(mish)
SINTER_POINTWISE(sum) SINTER_POINTWISE(prod) SINTER_POINTWISE(max) SINTER_POINTWISE(min) SINTER_POINTWISE(any)
SINTER_POINTWISE(all) SINTER_POINTWISE(mean) SINTER_POINTWISE(var) SINTER_POINTWISE(std) SINTER_POINTWISE(logsumexp)
SINTER_POINTWISE(stddev) SINTER_POINTWISE(norm) SINTER_POINTWISE(argmax) SINTER_POINTWISE(argmin) SINTER_POINTWISE(cumsum)
SINTER_POINTWISE(cumprod) SINTER_POINTWISE(cummax) SINTER_POINTWISE(cummin) SINTER_POINTWISE(permute)
SINTER_POINTWISE(transpose) SINTER_POINTWISE(expand_dims) SINTER_POINTWISE(squeeze) SINTER_POINTWISE(slice)
SINTER_POINTWISE(flip) SINTER_POINTWISE(concat) SINTER_POINTWISE(stack) SINTER_POINTWISE(split) SINTER_POINTWISE(take)
SINTER_POINTWISE(take_along_axis) SINTER_POINTWISE(one_hot) SINTER_POINTWISE(scatter_add) SINTER_POINTWISE(softmax)
SINTER_POINTWISE(scatter_set) SINTER_POINTWISE(scatter_mul) SINTER_POINTWISE(scatter_min) SINTER_POINTWISE(scatter_max)
SINTER_POINTWISE(gather_nd) SINTER_POINTWISE(at) SINTER_POINTWISE(dynamic_slice) SINTER_POINTWISE(dynamic_update_slice)
SINTER_POINTWISE(compress)
SINTER_POINTWISE(log_softmax) SINTER_POINTWISE(layer_norm) SINTER_POINTWISE(rms_norm) SINTER_POINTWISE(cross_entropy)
SINTER_POINTWISE(mse_loss) SINTER_POINTWISE(sort) SINTER_POINTWISE(argsort) SINTER_POINTWISE(topk)
SINTER_POINTWISE(searchsorted) SINTER_POINTWISE(unique) SINTER_POINTWISE(nonzero) SINTER_POINTWISE(median)
SINTER_POINTWISE(quantile) SINTER_POINTWISE(percentile) SINTER_POINTWISE(histogram) SINTER_POINTWISE(bincount)
SINTER_POINTWISE(segment_sum) SINTER_POINTWISE(segment_mean) SINTER_POINTWISE(segment_max)
SINTER_POINTWISE(segment_min) SINTER_POINTWISE(segment_prod) SINTER_POINTWISE(beta)
SINTER_POINTWISE(square) SINTER_POINTWISE(reciprocal) SINTER_POINTWISE(logaddexp) SINTER_POINTWISE(log_sigmoid) SINTER_POINTWISE(selu) SINTER_POINTWISE(relu6) SINTER_POINTWISE(sinc) SINTER_POINTWISE(trigamma)
SINTER_POINTWISE(popcount) SINTER_POINTWISE(isclose) SINTER_POINTWISE(nan_to_num) SINTER_POINTWISE(glu) SINTER_POINTWISE(logcumsumexp) SINTER_POINTWISE(nansum) SINTER_POINTWISE(nanprod) SINTER_POINTWISE(nanmax) SINTER_POINTWISE(nanmin) SINTER_POINTWISE(nanmean) SINTER_POINTWISE(nanvar) SINTER_POINTWISE(nanstd) SINTER_POINTWISE(roll) SINTER_POINTWISE(repeat) SINTER_POINTWISE(diagonal) SINTER_POINTWISE(moveaxis) SINTER_POINTWISE(diff) SINTER_POINTWISE(rot90) SINTER_POINTWISE(cov) SINTER_POINTWISE(corrcoef)
#include "../../ir/ops.def"
// clang-format on

}  // namespace named

template <ir::op>
struct name_of;
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) \
  template <>                                                  \
  struct name_of<ir::op::name> : named::name {};
#include "../../ir/ops.def"

}  // namespace sinter::detail

template <auto... Numbers>
struct std::tuple_size<sinter::detail::wrong_call<Numbers...>> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I, auto... Numbers>
struct std::tuple_element<I, sinter::detail::wrong_call<Numbers...>> {
  using type = sinter::detail::wrong_call<Numbers...>;
};
