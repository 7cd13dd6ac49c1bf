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
    lbfgs_state<T> next = remembered(s, x, by, at);
    return {back(moved(x, neg(reach(by, s, at), at), direction(next, by, at), at)), std::move(next)};
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
    lbfgs_state<T> next = remembered(s, x, by, at);
    const tensor<double, 1> along = settled(neg(direction(next, by, at), at), at);
    const tensor<double, 0> first = cast<double>(value, at), none = zeros_like(first, at);
    const detail::wolfe_point<T> start{none, first, dot(by, along, at), by};
    const auto end = detail::strong_wolfe(
        start, along, reach(by, s, at),
        [&, x = x](const tensor<double, 0>& t) { return evaluated(moved(x, t, along, at)); }, how_.wolfe, at);
    return {value, back(moved(x, end.at, along, at)), std::move(next)};
  }

 private:
  /// The length of a step, or the first length of a search.
  template <class T>
  tensor<double, 0> reach(const tensor<T, 1>& g, const lbfgs_state<T>& s, location at) const {
    const detail::scalar rate = how_.rate(s.step, at);
    const auto length = total(abs(cast<double>(g, at), at), at);
    const tensor<double, 0> first = settled(minimum(1 / maximum(length, 1e-30, at), 1, at), at);
    return settled(cast<double>(detail::beside(rate, g, at), at) * where(eq(s.step, 0, at), first, 1, at), at);
  }
  template <class T, class By>
  static tensor<T, 1> moved(const tensor<T, 1>& x, const By& by, const tensor<double, 1>& along, location at) {
    return settled(x + cast<T>(mul(by, along, at), at), at);
  }
  template <class E>
  static auto settled(const E& e, location at) {
    return sinter::detail::settle(e, at);
  }
  template <class X>
  static auto total(const X& x, location at) {
    return detail::sum_over<op_shapes::all_axes(1), false>(x, at);
  }
  template <class A, class B>
  static auto dot(const A& a, const B& b, location at) {
    return settled(total(mul(cast<double>(a, at), cast<double>(b, at), at), at), at);
  }

  /// All rows except the first.
  template <class X>
  static X rest(const X& x, location at) {
    return sinter::slice(x, axis<0>, 1, to_end, 1, at);
  }
  /// The rows after the first, followed by `row`, where `kept` holds.
  template <class T>
  static tensor<T, 2> appended(const tensor<T, 2>& rows, const tensor<T, 1>& row, const tensor<bool, 0>& kept,
                               location at) {
    const tensor<T, 2> after = detail::concat_all<0>(at, rest(rows, at), tensor<T, 2>(expand_dims(row, axis<0>, at)));
    return settled(where(kept, after, rows, at), at);
  }

  template <class T>
  lbfgs_state<T> remembered(const lbfgs_state<T>& s, const tensor<T, 1>& x, const tensor<T, 1>& g, location at) const {
    if (x.size(0, at) != s.point.size(0, at))
      fail("optim::lbfgs",
           "the parameters are " + x.size(0, at).text() + " numbers, the state is of " + s.point.size(0, at).text() +
               "; make one of these parameters with init",
           at);
    const tensor<T, 1> move = settled(sub(x, s.point, at), at), turn = settled(sub(g, s.gradient, at), at);
    const tensor<double, 0> product = dot(move, turn, at);
    const tensor<bool, 0> kept = settled(bit_and(gt(s.step, 0, at), gt(product, 1e-10, at), at), at);
    const tensor<double, 0> safe = settled(where(kept, product, 1, at), at);
    const tensor<double, 1> weight = reshape(settled(div(1, safe, at), at), std::array<dim, 1>{1}, at);
    const tensor<double, 1> weights = detail::concat_all<0>(at, rest(s.weights, at), weight);
    return {detail::after(s.step, at),
            x,
            g,
            appended(s.moves, move, kept, at),
            appended(s.turns, turn, kept, at),
            settled(where(kept, weights, s.weights, at), at),
            settled(where(kept, div(safe, where(kept, dot(turn, turn, at), 1, at), at), s.scale, at), at)};
  }

  template <class T>
  tensor<double, 1> direction(const lbfgs_state<T>& s, const tensor<T, 1>& g, location at) const {
    const auto m = static_cast<std::size_t>(how_.history);
    const auto row = [&](const tensor<T, 2>& rows, std::size_t i) {
      const dim first = static_cast<std::int64_t>(i);
      return cast<double>(tensor<T, 1>(squeeze(sinter::slice(rows, axis<0>, first, first + 1, 1, at), axis<0>, at)),
                          at);
    };
    const auto weight = [&](std::size_t i) {
      const dim first = static_cast<std::int64_t>(i);
      return tensor<double, 0>(squeeze(sinter::slice(s.weights, axis<0>, first, first + 1, 1, at), axis<0>, at));
    };
    std::vector<tensor<double, 0>> parts(m);
    tensor<double, 1> q = cast<double>(g, at);
    for (std::size_t i = m; i-- > 0;) {
      parts[i] = settled(mul(weight(i), dot(row(s.moves, i), q, at), at), at);
      q = settled(q - parts[i] * row(s.turns, i), at);
    }
    q = settled(mul(q, s.scale, at), at);
    for (std::size_t i = 0; i < m; ++i) {
      const tensor<double, 0> other = settled(mul(weight(i), dot(row(s.turns, i), q, at), at), at);
      q = settled(q + (parts[i] - other) * row(s.moves, i), at);
    }
    return q;
  }

  lbfgs_options how_;
};

}  // namespace sinter::optim
