// optim/lbfgs.hpp: L-BFGS: steps by curvature, which it estimates from the last gradients.
#pragma once

#include <string>
#include <tuple>
#include <utility>

#include "leaves.hpp"
#include "wolfe.hpp"

namespace sinter::optim {

/// The last differences of parameters and of gradients, newest last, and the inverses of their products. Missing entries are 0. Products
/// are f64, whose range holds products of f32.
template <class T>
struct lbfgs_state {
  tensor<std::int64_t, 0> step;
  tensor<T, 1> point, gradient;
  tensor<T, 2> moves, turns;
  tensor<double, 1> weights;
  tensor<double, 0> scale;  ///< initial curvature, where no differences say more
};

struct lbfgs_options {
  schedule rate = 1;
  int history = 10;
  wolfe_options wolfe = {};  ///< line search of step()
};

namespace detail {

/// A loss of the raveled parameters: its value and gradient.
template <class T>
using value_and_slope = sinter::detail::callback<std::pair<tensor<T, 0>, tensor<T, 1>>(const tensor<T, 1>&)>;
/// The next parameters and state.
template <class T>
using lbfgs_next = std::pair<tensor<T, 1>, lbfgs_state<T>>;

/// A step from x, with the gradient g, by the rate.
template <class T>
lbfgs_next<T> lbfgs_moved(const lbfgs_options& how, const lbfgs_state<T>& s, const tensor<T, 1>& x,
                          const tensor<T, 1>& g, location at);
/// A step from x, with the loss's value and gradient g, by a search along the direction.
template <class T>
lbfgs_next<T> lbfgs_searched(const lbfgs_options& how, const lbfgs_state<T>& s, const tensor<T, 1>& x,
                             const tensor<T, 0>& value, const tensor<T, 1>& g, const value_and_slope<T>& loss,
                             location at);

// What the compiled optimizers instantiate. BEFORE is `extern` or nothing.
#define SINTER_LBFGS(BEFORE, T)                                                                                        \
  BEFORE template lbfgs_next<T> lbfgs_moved<T>(const lbfgs_options&, const lbfgs_state<T>&, const tensor<T, 1>&,       \
                                               const tensor<T, 1>&, location);                                         \
  BEFORE template lbfgs_next<T> lbfgs_searched<T>(const lbfgs_options&, const lbfgs_state<T>&, const tensor<T, 1>&,    \
                                                  const tensor<T, 0>&, const tensor<T, 1>&, const value_and_slope<T>&, \
                                                  location);
#if defined(SINTER_COMPILED)
SINTER_LBFGS(extern, float)
SINTER_LBFGS(extern, double)
#endif

}  // namespace detail

/// p - rate · H g with the inverse Hessian H of the last steps (Nocedal, 1980), as PyTorch's LBFGS. The first step is
/// shortened to min(1, 1 / |g|₁). Differences whose product is at most 1e-10 are dropped. For trees of one dtype, f32 or f64,
/// and gradients of the full problem, without batches.
class lbfgs {
 public:
  explicit lbfgs(lbfgs_options how = {}, location at = location::current()) : how_(std::move(how)) {
    if (how_.history < 1)
      fail("optim::lbfgs", "the history must be 1 or more; it is " + std::to_string(how_.history), at);
  }

  template <class P>
  auto init(const P& p, location at = location::current()) const {
    const auto x = ravel(p, at).first;
    using T = typename std::remove_cvref_t<decltype(x)>::value_type;
    constexpr bool whole = is_plain_float<T>;
    static_assert(whole, "sinter: [optim::lbfgs] takes parameters of f32 or f64; cast them with cast_tree<float>(p)");
    const detail::target on = detail::same_device(x, at);
    const std::array<dim, 2> rows{how_.history, x.size(0, at)};
    const tensor<T, 1> none = zeros_like(x, at);
    return lbfgs_state<T>{detail::first_step(p, at),
                          none,
                          none,
                          zeros<T>(rows, on, at),
                          zeros<T>(rows, on, at),
                          zeros<double>(std::array<dim, 1>{how_.history}, on, at),
                          ones<double>(on, at)};
  }

  SINTER_UPDATE_CALLS("optim::lbfgs")
  template <class P, detail::gradients_of<P> G, class T>
  std::pair<P, lbfgs_state<T>> update(const P& p, const G& g, const lbfgs_state<T>& s,
                                      location at = location::current()) const {
    detail::each_together(
        "optim::lbfgs", at,
        [&]<class A, class B>(const A& a, const B& b) {
          if constexpr (detail::is_float_leaf<A>) detail::check_pair_of_leaves("optim::lbfgs", a, b, at);
        },
        p, g);
    const auto [x, back] = ravel(p, at);
    const tensor<T, 1> by = ravel(g, at).first;
    auto [to, next] = detail::lbfgs_moved(how_, s, x, by, at);
    return {back(to), std::move(next)};
  }

  /// A step whose length meets the strong Wolfe conditions, as PyTorch's LBFGS with line_search_fn="strong_wolfe" and
  /// max_iter=1. Returns loss(p) at p, the next parameters and the next state. `loss` returns a tensor<T, 0>. The search
  /// evaluates it in a loop, which is part of the graph in a compiled function. .rate is the first length. If the direction
  /// does not descend, p stays.
  template <class F, class P, class T>
  std::tuple<tensor<T, 0>, P, lbfgs_state<T>> step(const F& loss, const P& p, const lbfgs_state<T>& s,
                                                   location here = location::current()) const {
    const location at = here.in("optim::lbfgs");
    const auto [x, back] = ravel(p, at);
    const auto evaluated = [&, back = back](const tensor<T, 1>& y) {
      auto [value, g] = value_and_grad(loss)(back(y));
      return std::pair{tensor<T, 0>(value), tensor<T, 1>(ravel(g, at).first)};
    };
    const auto [value, by] = evaluated(x);
    auto [to, next] = detail::lbfgs_searched<T>(
        how_, s, x, value, by, [&](const tensor<T, 1>& y) { return evaluated(y); }, at);
    return {value, back(to), std::move(next)};
  }

 private:
  lbfgs_options how_;
};

}  // namespace sinter::optim

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "lbfgs_rules.hpp"
#endif
