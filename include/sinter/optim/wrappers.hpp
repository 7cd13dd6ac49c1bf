// optim/wrappers.hpp: wrappers of optimizers: running averages, gradients of several batches, scaled losses.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

/// A running average of parameters, for evaluation: decay · average + (1 - decay) · p.
class ema {
 public:
  explicit ema(double decay, location at = location::current()) : decay_(decay) {
    detail::check_share("optim::ema", "the decay", decay, at);
  }
  /// The average before the first step: a copy of p.
  template <class P>
  P init(const P& p, location at = location::current()) const {
    return detail::map_floats(
        "optim::ema", at, [&](const auto& x) { return add(x, zeros_like(x, at), at); }, p);
  }
  template <class P>
  P update(const P& average, const P& p, location at = location::current()) const {
    const auto mix = [&](const auto& a, const auto& x) { return decay_ * a + (1 - decay_) * x; };
    return detail::map_floats("optim::ema", at, mix, average, p);
  }

 private:
  double decay_;
};

template <class P, class S>
struct accumulated {
  tensor<std::int64_t, 0> count;  ///< batches since the last step
  P sum;
  S inner;
};

/// An optimizer that steps at every n-th call, by the mean of n gradients; before that the parameters stay.
template <class Optimizer>
class accumulate {
 public:
  accumulate(std::int64_t n, Optimizer of, location at = location::current()) : n_(n), of_(std::move(of)) {
    if (n < 1) fail("optim::accumulate", "the number of batches must be 1 or more; it is " + std::to_string(n), at);
  }

  template <class P>
  auto init(const P& p, location at = location::current()) const {
    auto inner = of_.init(p, at);
    return accumulated<P, decltype(inner)>{detail::first_step(p, at), tree_zeros_like(p, at), std::move(inner)};
  }
  SINTER_UPDATE_CALLS("optim::accumulate")
  template <class P, detail::gradients_of<P> G, class S>
  std::pair<P, accumulated<P, S>> update(const P& p, const G& g, const accumulated<P, S>& s,
                                         location at = location::current()) const {
    const P sum = add(s.sum, g, at);
    const auto count = detail::after(s.count, at);
    const tensor<bool, 0> full = sinter::detail::settle(ge(count, n_, at), at);
    auto [q, left, inner] = cond(
        detail::predicate(full, at),
        [&](const P& x, const P& by, const S& state) {
          auto [moved, next] = of_.update(x, by, state, at);
          return std::tuple<P, P, S>{std::move(moved), tree_zeros_like(by, at), std::move(next)};
        },
        [](const P& x, const P& by, const S& state) {
          return std::tuple<P, P, S>{x, by, state};
        },
        p, sum, s.inner);
    const tensor<std::int64_t, 0> none = sinter::detail::settle(where(full, 0, count, at), at);
    return {std::move(q), {none, std::move(left), std::move(inner)}};
  }

  /// sum + g / n: a batch of a loop that counts by itself. It reads neither parameters' moments nor a count, and a compiled
  /// function that donates the sums writes them in place.
  template <class P, detail::gradients_of<P> G>
  P add(const P& sum, const G& g, location at = location::current()) const {
    const double part = 1 / static_cast<double>(n_);
    const auto more = [&](const auto& a, const auto& by) { return a + part * by; };
    return detail::map_floats("optim::accumulate", at, more, sum, g);
  }
  /// The n-th batch of such a loop: the step by s.sum + g / n, and a state whose sums are 0.
  template <class P, detail::gradients_of<P> G, class S>
  std::pair<P, accumulated<P, S>> finish(const P& p, const G& g, const accumulated<P, S>& s,
                                         location at = location::current()) const {
    auto [moved, inner] = of_.update(p, add(s.sum, g, at), s.inner, at);
    return {std::move(moved), {detail::first_step(p, at), tree_zeros_like(s.sum, at), std::move(inner)}};
  }

 private:
  std::int64_t n_;
  Optimizer of_;
};

template <class S>
struct scaled_state {
  tensor<float, 0> scale;
  tensor<std::int64_t, 0> good;  ///< finite steps since the scale changed
  S inner;
};

namespace detail {
/// Whether elements are finite; integers always are.
struct finite_leaf {
  template <tensor_like X>
  auto operator()(const X& x) const {
    if constexpr (is_float_leaf<X>) return isfinite(x);
    else return true;
  }
};
}  // namespace detail

struct scale_options {
  double first = 32768, growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};

/// Loss scaling for training in f16 (Micikevicius et al., 2018): the loss is multiplied by a scale, and gradients are divided
/// by it. A step with infinite or NaN gradients changes only the scale, which shrinks. After `interval` finite steps the
/// scale grows. Keep the parameters in f32 and compute with autocast<f16>: gradients in f16 would lose small values when
/// divided.
template <class Optimizer>
class scale_loss {
 public:
  explicit scale_loss(Optimizer of, scale_options how = {}, location at = location::current())
      : of_(std::move(of)), how_(how) {
    if (!(how.first > 0 && how.growth >= 1 && how.backoff > 0 && how.backoff < 1))
      fail("optim::scale_loss", "needs first > 0, growth >= 1 and backoff in (0, 1)", at);
    if (how.interval < 1)
      fail("optim::scale_loss", "the interval must be 1 or more; it is " + std::to_string(how.interval), at);
  }

  template <class P>
  auto init(const P& p, location at = location::current()) const {
    auto inner = of_.init(p, at);
    const auto step = detail::first_step(p, at);
    const auto scale = full_like(detail::scalar(sinter::detail::settle(cast<float>(step, at), at)),
                                 static_cast<float>(how_.first), at);
    return scaled_state<decltype(inner)>{scale, step, std::move(inner)};
  }
  /// The loss to differentiate, in f32.
  template <tensor_like L, class S>
  detail::scalar scaled(const L& loss, const scaled_state<S>& s, location at = location::current()) const {
    return sinter::detail::settle(mul(cast<float>(loss, at), s.scale, at), at);
  }
  /// A step by gradients of the scaled loss.
  SINTER_UPDATE_CALLS("optim::scale_loss")
  template <class P, detail::gradients_of<P> G, class S>
  std::pair<P, scaled_state<S>> update(const P& p, const G& g, const scaled_state<S>& s,
                                       location at = location::current()) const {
    const detail::scalar back = sinter::detail::settle(1.f / s.scale, at);
    const G plain = tree_scale(back, g, at);
    const tensor<bool, 0> fine = sinter::detail::on_all_ranks(g, tree_all(detail::finite_leaf{}, g), at);
    auto [moved, inner] = of_.update(p, plain, s.inner, at);
    const auto good = detail::after(s.good, at);
    const tensor<bool, 0> grows = sinter::detail::settle(ge(good, how_.interval, at), at);
    const detail::scalar more =
        sinter::detail::settle(where(grows, s.scale * static_cast<float>(how_.growth), s.scale, at), at);
    const detail::scalar scale =
        sinter::detail::settle(where(fine, more, s.scale * static_cast<float>(how_.backoff), at), at);
    const tensor<std::int64_t, 0> count =
        sinter::detail::settle(where(bit_and(fine, bit_not(grows, at), at), good, 0, at), at);
    return {chosen(fine, moved, p, at), {scale, count, chosen(fine, inner, s.inner, at)}};
  }

 private:
  /// x if the step is taken, else y.
  template <class X>
  static X chosen(const tensor<bool, 0>& taken, const X& x, const X& y, location at) {
    return detail::map_tree(
        "optim::scale_loss", at,
        [&]<class A>(const A& a, const A& b) {
          if constexpr (tensor_like<A>) return A(sinter::detail::settle(where(taken, a, b, at), at));
          else return a;
        },
        x, y);
  }

  Optimizer of_;
  scale_options how_;
};

}  // namespace sinter::optim
