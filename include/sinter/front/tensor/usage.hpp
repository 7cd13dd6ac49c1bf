// front/tensor/usage.hpp: short compile errors that show the right call of a function called in a wrong way.
#pragma once

#include <initializer_list>

#include "expr.hpp"

namespace sinter {

namespace detail {

/// Any argument, by a conversion. Overload resolution prefers all other callable functions, also those of other libraries.
struct anything {
  constexpr anything() = default;
  template <class T>
  constexpr anything(const T&) {}
  template <class T>
  constexpr anything(std::initializer_list<T>) {}
};

}  // namespace detail

// Axes are types, because the rank of a result depends on them. `auto` puts this error before the errors it causes.
#define SINTER_USAGE(NAME, CALLS, ...)                                                                         \
  template <auto... Numbers>                                                                                   \
  requires(true __VA_OPT__(&&__VA_ARGS__)) constexpr auto NAME(detail::anything, detail::anything = {},        \
                                                               detail::anything = {}, detail::anything = {},   \
                                                               detail::anything = {}, detail::anything = {}) { \
    static_assert(!sizeof(detail::wrong_call<Numbers...>), "sinter: [" #NAME "] is called as " CALLS);         \
    return detail::wrong_call<>{};                                                                             \
  }                                                                                                            \
  template <class Type, auto... Numbers>                                                                       \
  requires(true __VA_OPT__(&&__VA_ARGS__)) constexpr auto NAME(detail::anything a, detail::anything = {},      \
                                                               detail::anything = {}, detail::anything = {},   \
                                                               detail::anything = {}, detail::anything = {}) { \
    return NAME<Numbers...>(a);                                                                                \
  }

#define SINTER_POINTWISE(NAME, ARITY, RULE, VALUE, DA, DB, DC) SINTER_USAGE_##ARITY(NAME, RULE)
#define SINTER_USAGE_1(NAME, RULE)                                                   \
  SINTER_USAGE(NAME, #NAME "(x), x a tensor", !ir::names_type(ir::dtype_rule::RULE)) \
  SINTER_USAGE(NAME, #NAME "<float>(x), x a tensor", ir::names_type(ir::dtype_rule::RULE))
#define SINTER_USAGE_2(NAME, RULE) SINTER_USAGE(NAME, #NAME "(x, y), at least one of them a tensor, the other a number")
#define SINTER_USAGE_3(NAME, RULE) \
  SINTER_USAGE(NAME, #NAME "(x, y, z), at least one of them a tensor, the others numbers")
#include "../../ir/ops.def"
#undef SINTER_USAGE_1
#undef SINTER_USAGE_2
#undef SINTER_USAGE_3

SINTER_USAGE(relu, "relu(x), x a tensor")
SINTER_USAGE(gelu, "gelu(x), x a tensor")
SINTER_USAGE(gelu_tanh, "gelu_tanh(x), x a tensor")
SINTER_USAGE(silu, "silu(x), x a tensor")
SINTER_USAGE(softplus, "softplus(x), x a tensor")
SINTER_USAGE(softsign, "softsign(x), x a tensor")
SINTER_USAGE(hardswish, "hardswish(x), x a tensor")
SINTER_USAGE(mish, "mish(x), x a tensor")
SINTER_USAGE(flatten, "flatten(x), x a tensor")
SINTER_USAGE(elu, "elu(x, alpha), x a tensor")
SINTER_USAGE(leaky_relu, "leaky_relu(x, slope), x a tensor")
SINTER_USAGE(where, "where(condition, x, y), the condition a tensor of bool")
SINTER_USAGE(clamp, "clamp(x, low, high), x a tensor")
SINTER_USAGE(sum, "sum(x), sum(x, axis<0>) or sum(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(prod, "prod(x), prod(x, axis<0>) or prod(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(max, "max(x), max(x, axis<0>) or max(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(min, "min(x), min(x, axis<0>) or min(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(any, "any(x), any(x, axis<0>) or any(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(all, "all(x), all(x, axis<0>) or all(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(mean, "mean(x), mean(x, axis<0>) or mean(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(logsumexp, "logsumexp(x), logsumexp(x, axis<0>) or logsumexp(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(argmax, "argmax(x), argmax(x, axis<0>) or argmax(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(argmin, "argmin(x), argmin(x, axis<0>) or argmin(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(var, "var(x, axis<0>) or var(x, axis<0>, keepdims, ddof); axes are types")
SINTER_USAGE(std, "std(x, axis<0>) or std(x, axis<0>, keepdims, ddof); axes are types")
SINTER_USAGE(norm, "norm(x, axis<0>) or norm<1>(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(softmax, "softmax(x) or softmax(x, axis<0>); axes are types")
SINTER_USAGE(log_softmax, "log_softmax(x) or log_softmax(x, axis<0>); axes are types")
SINTER_USAGE(cumsum, "cumsum(x) or cumsum(x, axis<0>); axes are types")
SINTER_USAGE(cumprod, "cumprod(x) or cumprod(x, axis<0>); axes are types")
SINTER_USAGE(cummax, "cummax(x) or cummax(x, axis<0>); axes are types")
SINTER_USAGE(cummin, "cummin(x) or cummin(x, axis<0>); axes are types")
SINTER_USAGE(flip, "flip(x) or flip(x, axis<0>); axes are types")
SINTER_USAGE(expand_dims, "expand_dims(x, axis<0>); axes are types")
SINTER_USAGE(squeeze, "squeeze(x, axis<0>); axes are types")
SINTER_USAGE(transpose, "transpose(x) or transpose<0, 1>(x); axes are types")
SINTER_USAGE(permute, "permute<1, 0, 2>(x); axes are types")
SINTER_USAGE(slice, "slice<0>(x, first, last, step); axes are types")
SINTER_USAGE(concat, "concat(x, y, axis<0>) or concat<0>(vector); axes are types")
SINTER_USAGE(stack, "stack(x, y, axis<0>) or stack<0>(vector); axes are types")
SINTER_USAGE(split, "split(x, sections, axis<0>), split<0, 3>(x) or split(key); axes are types")
SINTER_USAGE(reshape, "reshape(x, 3, 4) or reshape<dims{3, 4}>(x)")
SINTER_USAGE(broadcast_to, "broadcast_to(x, 3, 4) or broadcast_to<dims{3, 4}>(x)")
SINTER_USAGE(pad, "pad(x, {{before, after}, ...}), with a pair for each axis, or pad(x, {...}, value)")
SINTER_USAGE(tile, "tile(x, {2, 3}), with a number for each axis")
SINTER_USAGE(tril, "tril(x) or tril(x, k)")
SINTER_USAGE(triu, "triu(x) or triu(x, k)")
SINTER_USAGE(take, "take(x, index, axis<0>), the index a tensor; axes are types")
SINTER_USAGE(take_along_axis, "take_along_axis(x, index, axis<0>), the index a tensor; axes are types")
SINTER_USAGE(scatter_add, "scatter_add(x, index, updates, axis<0>), all of them tensors; axes are types")
SINTER_USAGE(one_hot, "one_hot(index, classes) or one_hot<float, 10>(index), the index a tensor")
SINTER_USAGE(matmul, "matmul(x, y), both of them tensors")
SINTER_USAGE(einsum, "einsum<\"ij,jk->ik\">(x, y): the labels are a template argument")
SINTER_USAGE(layer_norm, "layer_norm(x) or layer_norm(x, gamma, beta), with a number behind them for eps")
SINTER_USAGE(rms_norm, "rms_norm(x) or rms_norm(x, gamma), with a number behind them for eps")
SINTER_USAGE(cross_entropy, "cross_entropy(logits, labels), both of them tensors")
SINTER_USAGE(mse_loss, "mse_loss(x, y), both of them tensors")
SINTER_USAGE(log_sigmoid, "log_sigmoid(x), x a tensor")
SINTER_USAGE(selu, "selu(x), x a tensor")
SINTER_USAGE(relu6, "relu6(x), x a tensor")
SINTER_USAGE(square, "square(x), x a tensor")
SINTER_USAGE(reciprocal, "reciprocal(x), x a tensor")
SINTER_USAGE(trigamma, "trigamma(x), x a tensor")
SINTER_USAGE(sinc, "sinc(x), x a tensor")
SINTER_USAGE(popcount, "popcount(x), x a tensor of integers")
SINTER_USAGE(nan_to_num, "nan_to_num(x, nan, posinf, neginf), x a tensor")
SINTER_USAGE(logaddexp, "logaddexp(x, y), at least one of them a tensor, the other a number")
SINTER_USAGE(isclose, "isclose(x, y, rtol, atol), at least one of x and y a tensor, the other a number")
SINTER_USAGE(allclose, "allclose(x, y, rtol, atol), at least one of x and y a tensor, the other a number")
SINTER_USAGE(nansum, "nansum(x), nansum(x, axis<0>) or nansum(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(nanprod, "nanprod(x), nanprod(x, axis<0>) or nanprod(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(nanmax, "nanmax(x), nanmax(x, axis<0>) or nanmax(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(nanmin, "nanmin(x), nanmin(x, axis<0>) or nanmin(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(nanmean, "nanmean(x), nanmean(x, axis<0>) or nanmean(x, axis<0>, keepdims); axes are types")
SINTER_USAGE(nanvar, "nanvar(x, axis<0>) or nanvar(x, axis<0>, keepdims, ddof); axes are types")
SINTER_USAGE(nanstd, "nanstd(x, axis<0>) or nanstd(x, axis<0>, keepdims, ddof); axes are types")
SINTER_USAGE(glu, "glu(x) or glu(x, axis<0>); axes are types")
SINTER_USAGE(logcumsumexp, "logcumsumexp(x) or logcumsumexp(x, axis<0>); axes are types")
SINTER_USAGE(roll, "roll(x, shift) or roll(x, shift, axis<0>); axes are types")
SINTER_USAGE(repeat, "repeat(x, times) or repeat(x, times, axis<0>); axes are types")
SINTER_USAGE(diagonal, "diagonal(x, k) or diagonal<-2, -1>(x, k); axes are types")
SINTER_USAGE(trace_of, "trace_of(x, k) or trace_of<-2, -1>(x, k); axes are types")
SINTER_USAGE(diag, "diag(x, k), x a vector or a matrix")
SINTER_USAGE(outer, "outer(x, y), both of them tensors")
SINTER_USAGE(kron, "kron(x, y), both of them tensors")
SINTER_USAGE(meshgrid, "meshgrid(x, y) or meshgrid<indexing::ij>(x, y, z), two to four vectors")
SINTER_USAGE(moveaxis, "moveaxis(x, axis<0>, axis<-1>); axes are types")
SINTER_USAGE(swapaxes, "swapaxes<0, 1>(x); axes are types")
SINTER_USAGE(diff, "diff(x, times) or diff(x, times, axis<0>); axes are types")
SINTER_USAGE(rot90, "rot90(x) or rot90<-1, 0, 1>(x); quarters and axes are types")
SINTER_USAGE(block_diag, "block_diag(x, y, z), one to six matrices")
SINTER_USAGE(cov, "cov(x, ddof), x a matrix whose rows are variables, or a vector")
SINTER_USAGE(corrcoef, "corrcoef(x), x a matrix whose rows are variables, or a vector")
SINTER_USAGE(bernoulli, "bernoulli(key, p, 3, 4): a key, the probability, then the extents")
SINTER_USAGE(from_span, "from_span(vector) or from_span(vector, 3, 4)")
#undef SINTER_USAGE

}  // namespace sinter
