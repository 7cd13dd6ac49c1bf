// optim/leaves.hpp: the common parts of optimizers: updates leaf by leaf, masks by path, steps.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "schedule.hpp"

namespace sinter::optim {

/// Selects parameters by a function of the path, "blocks.0.up.weight", or of path and rank. By default it selects all.
class mask {
 public:
  mask() = default;
  template <class F>
  requires std::is_invocable_r_v<bool, const F&, const std::string&> mask(F f)
      : of_([f = std::move(f)](const std::string& path, int) { return f(path); }) {}
  template <class F>
  requires std::is_invocable_r_v<bool, const F&, const std::string&, int> mask(F f) : of_(std::move(f)) {}

  explicit operator bool() const { return static_cast<bool>(of_); }
  bool operator()(const std::string& path, int rank) const { return !of_ || of_(path, rank); }

 private:
  std::function<bool(const std::string&, int)> of_;
};

/// Selects parameters of two or more axes: weights, but not biases and scales of norms.
inline bool matrices(const std::string&, int rank) { return rank >= 2; }

/// The state of an optimizer without state.
struct stateless {};

namespace detail {

/// Whether `m` selects each tensor of a tree, in order; empty if it selects all.
template <class P>
std::vector<bool> chosen_leaves(const mask& m, const P& p) {
  std::vector<bool> out;
  if (m)
    tree_for_each_with_path(
        [&]<class X>(const std::string& path, const X&) {
          if constexpr (tensor_like<X>) out.push_back(m(path, X::rank));
        },
        p);
  return out;
}

/// Counts the tensors that a tree_map visits, in the order of chosen_leaves.
class leaf_counter {
 public:
  explicit leaf_counter(std::vector<bool> chosen) : chosen_(std::move(chosen)) {}
  /// `x` for a selected tensor, else 0.
  double next(double x) const { return chosen_.empty() || chosen_[at_++] ? x : 0; }

 private:
  std::vector<bool> chosen_;
  mutable std::size_t at_ = 0;
};

template <class A, class B>
struct fits_gradient {
  static constexpr bool value = !is_float_leaf<A> || (is_float_leaf<B> && A::rank == B::rank);
};

/// A tree that can be the gradients of parameters P.
template <class G, class P>
concept gradients_of = std::is_same_v<G, P> || trees_match<fits_gradient, P, G>();

// As a member: the error of calls of update that do not fit the optimizer.
#define SINTER_UPDATE_CALLS(NAME)                                                                                     \
  template <class... A>                                                                                               \
  SINTER_WRONG_CALL("[" NAME                                                                                          \
                    "] is called as update(p, g, state): g has the structure and ranks of p (of what value_and_grad " \
                    "gives it is the second), the state is what init(p) or the last update gave")                     \
  sinter::detail::wrong_call<>                                                                                        \
  update(const A&...) const {                                                                                         \
    return {};                                                                                                        \
  }

/// The tree of f(wide leaf…) over floating tensors, rounded once to the dtype of the first tree; other leaves are those of
/// the first.
template <class F, class P, class... Trees>
auto map_floats(const char* op, location at, const F& f, const P& p, const Trees&... trees) {
  return map_tree(
      op, at,
      [&]<class X, class... Y>(const X& x, const Y&... y) {
        if constexpr (is_float_leaf<X>) {
          using W = wider_type<typename X::value_type>;
          (check_pair_of_leaves(op, x, y, at), ...);
          return fitted<X>(as_type<typename X::value_type>(f(as_type<W>(x, at), as_type<W>(y, at)...), at), at);
        } else {
          return x;
        }
      },
      p, trees...);
}

/// The tree of f(leaf…), on handles, over floating tensors; other leaves are those of the first.
template <class F, class P, class... Trees>
auto map_handles(const char* op, location at, const F& f, const P& p, const Trees&... trees) {
  return map_tree(
      op, at,
      [&]<class X, class... Y>(const X& x, const Y&... y) {
        if constexpr (is_float_leaf<X>) {
          (check_pair_of_leaves(op, x, y, at), ...);
          return typed<typename X::value_type, X::static_shape>(f(untyped(x, at), untyped(y, at)...), at);
        } else {
          return x;
        }
      },
      p, trees...);
}

/// by + rate · x.
template <class By, class X>
auto decayed(const By& by, const X& x, double rate, location at) {
  const auto y = sinter::detail::evaluate(by, at);
  using result = std::remove_cvref_t<decltype(y)>;
  return rate == 0 ? result(y) : result(sinter::detail::evaluate(add(y, mul(x, rate, at), at), at));
}

/// A rank-0 factor for tensors like x.
template <class X>
auto beside(const scalar& a, const X&, location at) {
  using W = typename X::value_type;
  if constexpr (std::is_same_v<W, float>) return a;
  else return sinter::detail::evaluate(sinter::cast<W>(a, at), at);
}

/// A step counter of 0, on the device of the first tensor of a tree.
template <class P>
tensor<std::int64_t, 0> first_step(const P& p, location at) {
  target where;
  bool found = false;
  for_each_leaf(p, [&]<class X>(const X& x) {
    if constexpr (tensor_like<X>) {
      if (!found) where = same_device(x, at);
      found = true;
    }
  });
  return zeros<std::int64_t>(where, at);
}

template <class Step>
Step after(const Step& step, location at) {
  return sinter::detail::evaluate(add(step, 1, at), at);
}

/// 1 / (1 - beta^step), without cancellation.
template <class Step>
scalar correction(double beta, const Step& step, location at) {
  const float slope = beta > 0 ? static_cast<float>(std::log(beta)) : -100.f;
  return sinter::detail::evaluate(div(-1, expm1(mul(cast<float>(step, at), slope, at), at), at), at);
}

// What the compiled optimizers instantiate. BEFORE is `extern` or nothing.
#define SINTER_STEPS(BEFORE)                                                               \
  BEFORE template tensor<std::int64_t, 0> after(const tensor<std::int64_t, 0>&, location); \
  BEFORE template scalar correction(double, const tensor<std::int64_t, 0>&, location);
#if defined(SINTER_COMPILED)
SINTER_STEPS(extern)
#endif

inline void check_share(const char* op, const char* what, double x, location at) {
  if (!(x >= 0 && x < 1)) fail(op, std::string(what) + " must be in [0, 1); it is " + text::number(x), at);
}
inline void check_least(const char* op, const char* what, double x, location at) {
  if (!(x >= 0)) fail(op, std::string(what) + " must be 0 or more; it is " + text::number(x), at);
}

}  // namespace detail

}  // namespace sinter::optim
