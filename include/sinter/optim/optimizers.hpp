// optim/optimizers.hpp: SGD, Adam, AdamW, Lion, RMSProp, Adagrad.
#pragma once

#include <optional>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

// An optimizer has init(p) and update(p, g, state). init returns the state of parameters p, a tree of tensors only. update
// returns the next parameters and the next state. Both work on trees of floating tensors; integers and configuration stay.
// f16 and bf16 are computed in f32 and rounded once. Nothing changes in place: for that, donate p and the state to a compiled
// step.

template <class P>
struct sgd_state {
  tensor<std::int64_t, 0> step;
  std::optional<P> velocity;  ///< only with momentum
};

struct sgd_options {
  schedule rate = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  ///< times p, added to the gradient
  mask decay = {};          ///< selects the parameters that decay
};

/// v = momentum · v + g; p - rate · v, or with Nesterov's rule p - rate · (g + momentum · v).
class sgd {
 public:
  explicit sgd(sgd_options how = {}, location at = location::current()) : how_(std::move(how)) {
    detail::check_share("optim::sgd", "the momentum", how_.momentum, at);
    detail::check_least("optim::sgd", "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  sgd_state<P> init(const P& p, location at = location::current()) const {
    sgd_state<P> s{detail::first_step(p, at), std::nullopt};
    if (how_.momentum != 0) s.velocity = tree_zeros_like(p, at);
    return s;
  }

  SINTER_UPDATE_CALLS("optim::sgd")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, sgd_state<P>> update(const P& p, const G& g, const sgd_state<P>& s,
                                    location at = location::current()) const {
    const char* op = "optim::sgd";
    const detail::scalar rate = how_.rate(s.step, at);
    const double mu = how_.momentum, weight = how_.weight_decay;
    const auto flags = detail::chosen_leaves(how_.decay, p);
    sgd_state<P> next{detail::after(s.step, at), std::nullopt};
    if (!s.velocity) {
      using detail::handle;
      const detail::leaf_counter decays(flags);
      const handle by_rate = detail::untyped(rate, at);
      const auto step = [&](const handle& x, const handle& by) {
        return detail::descended(x, by_rate, detail::decayed_by(by, x, decays.next(weight), at), at);
      };
      return {detail::map_handles(op, at, step, p, g), std::move(next)};
    }
    const detail::leaf_counter first(flags), second(flags);
    next.velocity = detail::map_floats(
        op, at,
        [&](const auto& v, const auto& by, const auto& x) {
          return mu * v + detail::decayed(by, x, first.next(weight), at);
        },
        *s.velocity, g, p);
    const auto step = [&](const auto& x, const auto& v, const auto& by) {
      const auto along = detail::evaluate(v, at);
      using tensor_type = std::remove_cvref_t<decltype(along)>;
      const double w = second.next(weight);
      const tensor_type to = how_.nesterov ? tensor_type(mu * along + detail::decayed(by, x, w, at)) : along;
      return x - detail::beside(rate, x, at) * to;
    };
    return {detail::map_floats(op, at, step, p, *next.velocity, g), std::move(next)};
  }

 private:
  sgd_options how_;
};

template <class P>
struct adam_state {
  tensor<std::int64_t, 0> step;
  P first, second;  ///< running means of gradients and of their squares
};

struct adam_options {
  schedule rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  mask decay = {};  ///< selects the parameters that decay
};

/// p - rate · m̂ / (√v̂ + eps) with unbiased running means m̂ and v̂ (Kingma and Ba, 2015). Weight decay is added to the
/// gradient; in adamw it is subtracted from the parameters directly.
template <bool Decoupled>
class adam_of {
 public:
  explicit adam_of(adam_options how = {}, location at = location::current()) : how_(std::move(how)) {
    detail::check_share(name, "beta1", how_.beta1, at);
    detail::check_share(name, "beta2", how_.beta2, at);
    detail::check_least(name, "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  adam_state<P> init(const P& p, location at = location::current()) const {
    return {detail::first_step(p, at), tree_zeros_like(p, at), tree_zeros_like(p, at)};
  }

  SINTER_UPDATE_CALLS("optim::adam")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, adam_state<P>> update(const P& p, const G& g, const adam_state<P>& s,
                                     location at = location::current()) const {
    const double b1 = how_.beta1, b2 = how_.beta2, weight = how_.weight_decay;
    const detail::scalar rate = how_.rate(s.step, at);
    adam_state<P> next{detail::after(s.step, at), {}, {}};
    const detail::scalar size = detail::correction(b1, next.step, at), power = detail::correction(b2, next.step, at);
    using detail::handle;
    const auto flags = detail::chosen_leaves(how_.decay, p);
    const detail::leaf_counter of_first(flags), of_second(flags), of_step(flags);
    if constexpr (Decoupled) {
      const auto first = [&](const handle& m, const handle& by) { return detail::moved_mean(m, by, b1, false, at); };
      const auto second = [&](const handle& v, const handle& by) { return detail::moved_mean(v, by, b2, true, at); };
      next.first = detail::map_handles(name, at, first, s.first, g);
      next.second = detail::map_handles(name, at, second, s.second, g);
    } else {
      const auto first = [&](const handle& m, const handle& by, const handle& x) {
        return detail::moved_mean(m, detail::decayed_by(by, x, of_first.next(weight), at), b1, false, at);
      };
      const auto second = [&](const handle& v, const handle& by, const handle& x) {
        return detail::moved_mean(v, detail::decayed_by(by, x, of_second.next(weight), at), b2, true, at);
      };
      next.first = detail::map_handles(name, at, first, s.first, g, p);
      next.second = detail::map_handles(name, at, second, s.second, g, p);
    }
    const detail::scalar whole = full_like(rate, 1.f, at),
                         rest = Decoupled && weight != 0 ? detail::scalar(1.f - rate * weight) : whole;
    detail::adam_factors by{
        {}, detail::untyped(rate, at), detail::untyped(size, at), detail::untyped(power, at), how_.eps};
    const handle changed = detail::untyped(rest, at), unchanged = detail::untyped(whole, at);
    const auto step = [&](const handle& x, const handle& m, const handle& v) {
      by.kept = Decoupled && of_step.next(1) != 0 ? changed : unchanged;
      return detail::adam_step(x, m, v, by, at);
    };
    P moved = detail::map_handles(name, at, step, p, next.first, next.second);
    return {std::move(moved), std::move(next)};
  }

 private:
  static constexpr const char* name = Decoupled ? "optim::adamw" : "optim::adam";
  adam_options how_;
};

/// Adam, with weight decay added to the gradient.
class adam : public adam_of<false> {
  using adam_of<false>::adam_of;
};
/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): optim::adamw({.rate = 3e-4, .weight_decay = 0.1}).
class adamw : public adam_of<true> {
  using adam_of<true>::adam_of;
};

template <class P>
struct lion_state {
  tensor<std::int64_t, 0> step;
  P momentum;
};

struct lion_options {
  schedule rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
  mask decay = {};
};

/// p - rate · (sign(beta1 · m + (1 - beta1) · g) + weight_decay · p), then m = beta2 · m + (1 - beta2) · g (Chen et al., 2023).
class lion {
 public:
  explicit lion(lion_options how = {}, location at = location::current()) : how_(std::move(how)) {
    detail::check_share("optim::lion", "beta1", how_.beta1, at);
    detail::check_share("optim::lion", "beta2", how_.beta2, at);
    detail::check_least("optim::lion", "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  lion_state<P> init(const P& p, location at = location::current()) const {
    return {detail::first_step(p, at), tree_zeros_like(p, at)};
  }
  SINTER_UPDATE_CALLS("optim::lion")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, lion_state<P>> update(const P& p, const G& g, const lion_state<P>& s,
                                     location at = location::current()) const {
    const double b1 = how_.beta1, b2 = how_.beta2;
    const detail::scalar rate = how_.rate(s.step, at);
    const detail::leaf_counter decays(detail::chosen_leaves(how_.decay, p));
    const auto step = [&](const auto& x, const auto& by, const auto& m) {
      const auto along = sign(b1 * m + (1 - b1) * by);
      return x - detail::beside(rate, x, at) * detail::decayed(along, x, decays.next(how_.weight_decay), at);
    };
    const auto later = [&](const auto& m, const auto& by) { return b2 * m + (1 - b2) * by; };
    return {detail::map_floats("optim::lion", at, step, p, g, s.momentum),
            {detail::after(s.step, at), detail::map_floats("optim::lion", at, later, s.momentum, g)}};
  }

 private:
  lion_options how_;
};

template <class P>
struct rmsprop_state {
  tensor<std::int64_t, 0> step;
  P square;
  std::optional<P> velocity;  ///< only with momentum
};

struct rmsprop_options {
  schedule rate = 1e-2;
  double alpha = 0.99, eps = 1e-8, momentum = 0;
  double weight_decay = 0;  ///< times p, added to the gradient
  mask decay = {};
};

/// s = alpha · s + (1 - alpha) · g²; p - rate · g / (√s + eps). With momentum p - rate · v, where v = momentum · v + g / (√s
/// + eps) (Hinton, 2012).
class rmsprop {
 public:
  explicit rmsprop(rmsprop_options how = {}, location at = location::current()) : how_(std::move(how)) {
    detail::check_share("optim::rmsprop", "alpha", how_.alpha, at);
    detail::check_share("optim::rmsprop", "the momentum", how_.momentum, at);
    detail::check_least("optim::rmsprop", "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  rmsprop_state<P> init(const P& p, location at = location::current()) const {
    rmsprop_state<P> s{detail::first_step(p, at), tree_zeros_like(p, at), std::nullopt};
    if (how_.momentum != 0) s.velocity = tree_zeros_like(p, at);
    return s;
  }
  SINTER_UPDATE_CALLS("optim::rmsprop")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, rmsprop_state<P>> update(const P& p, const G& g, const rmsprop_state<P>& s,
                                        location at = location::current()) const {
    const char* op = "optim::rmsprop";
    const double alpha = how_.alpha, mu = how_.momentum, weight = how_.weight_decay;
    const detail::scalar rate = how_.rate(s.step, at);
    const auto flags = detail::chosen_leaves(how_.decay, p);
    const detail::leaf_counter of_square(flags), of_step(flags);
    const auto square = [&](const auto& v, const auto& by, const auto& x) {
      const auto d = detail::decayed(by, x, of_square.next(weight), at);
      return alpha * v + (1 - alpha) * d * d;
    };
    rmsprop_state<P> next{detail::after(s.step, at), detail::map_floats(op, at, square, s.square, g, p), std::nullopt};
    const auto along = [&](const auto& x, const auto& by, const auto& v) {
      return detail::decayed(by, x, of_step.next(weight), at) / (sqrt(v) + how_.eps);
    };
    if (!s.velocity) {
      const auto step = [&](const auto& x, const auto& by, const auto& v) {
        return x - detail::beside(rate, x, at) * along(x, by, v);
      };
      return {detail::map_floats(op, at, step, p, g, next.square), std::move(next)};
    }
    const auto velocity = [&](const auto& b, const auto& x, const auto& by, const auto& v) {
      return mu * b + along(x, by, v);
    };
    next.velocity = detail::map_floats(op, at, velocity, *s.velocity, p, g, next.square);
    const auto step = [&](const auto& x, const auto& b) { return x - detail::beside(rate, x, at) * b; };
    return {detail::map_floats(op, at, step, p, *next.velocity), std::move(next)};
  }

 private:
  rmsprop_options how_;
};

template <class P>
struct adagrad_state {
  tensor<std::int64_t, 0> step;
  P sum;
};

struct adagrad_options {
  schedule rate = 1e-2;
  double first = 0, eps = 1e-10;  ///< `first`: initial value of the sums
  double weight_decay = 0;        ///< times p, added to the gradient
  mask decay = {};
};

/// s = s + g²; p - rate · g / (√s + eps) (Duchi et al., 2011).
class adagrad {
 public:
  explicit adagrad(adagrad_options how = {}, location at = location::current()) : how_(std::move(how)) {
    detail::check_least("optim::adagrad", "what sums begin with", how_.first, at);
    detail::check_least("optim::adagrad", "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  adagrad_state<P> init(const P& p, location at = location::current()) const {
    return {detail::first_step(p, at),
            detail::map_floats(
                "optim::adagrad", at, [&](const auto& x) { return full_like(x, how_.first, at); }, p)};
  }
  SINTER_UPDATE_CALLS("optim::adagrad")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, adagrad_state<P>> update(const P& p, const G& g, const adagrad_state<P>& s,
                                        location at = location::current()) const {
    const double weight = how_.weight_decay;
    const detail::scalar rate = how_.rate(s.step, at);
    const auto flags = detail::chosen_leaves(how_.decay, p);
    const detail::leaf_counter of_sum(flags), of_step(flags);
    const auto sum = [&](const auto& v, const auto& by, const auto& x) {
      const auto d = detail::decayed(by, x, of_sum.next(weight), at);
      return v + d * d;
    };
    adagrad_state<P> next{detail::after(s.step, at), detail::map_floats("optim::adagrad", at, sum, s.sum, g, p)};
    const auto step = [&](const auto& x, const auto& by, const auto& v) {
      const auto d = detail::decayed(by, x, of_step.next(weight), at);
      return x - detail::beside(rate, x, at) * d / (sqrt(v) + how_.eps);
    };
    return {detail::map_floats("optim::adagrad", at, step, p, g, next.sum), std::move(next)};
  }

 private:
  adagrad_options how_;
};

}  // namespace sinter::optim
