// optim/train_step.hpp: a step of training as one function.
#pragma once

#include <tuple>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

/// A step of training, to be compiled: `compile(optim::train_step(opt, loss), {.donate = {0, 1}})`. A call `step(p, state, …)`
/// returns {loss(p, …), the next parameters, the next state}. `loss` is a function as value_and_grad takes it, and with
/// `train_step(opt, loss, has_aux)` one that returns {the loss, more}.
template <class Optimizer, class Loss, class... Aux>
class train_step {
 public:
  explicit train_step(Optimizer of, Loss loss, Aux... aux, location at = location::current())
      : of_(std::move(of)), loss_(std::move(loss)), aux_(aux...), at_(at) {}

  template <class P, class S, class... Arguments>
  auto operator()(const P& p, const S& state, const Arguments&... arguments) const {
    const auto derived = [&](Aux... aux) { return value_and_grad(loss_, aux..., at_)(p, arguments...); };
    auto [value, g] = std::apply(derived, aux_);
    auto [q, next] = of_.update(p, g, state, at_);
    return std::tuple{std::move(value), std::move(q), std::move(next)};
  }

 private:
  Optimizer of_;
  Loss loss_;
  std::tuple<Aux...> aux_;
  location at_;
};
template <class Optimizer, class Loss>
train_step(Optimizer, Loss) -> train_step<Optimizer, Loss>;
template <class Optimizer, class Loss>
train_step(Optimizer, Loss, location) -> train_step<Optimizer, Loss>;
template <class Optimizer, class Loss>
train_step(Optimizer, Loss, has_aux_t) -> train_step<Optimizer, Loss, has_aux_t>;

}  // namespace sinter::optim
