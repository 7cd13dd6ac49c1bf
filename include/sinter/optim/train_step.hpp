// optim/train_step.hpp: a step of training as one function.
#pragma once

#include <tuple>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

/// A step of training, to be compiled: `compile(optim::train_step(opt, loss), {.donate = {0, 1}})`. A call `step(p, state, …)`
/// returns {loss(p, …), the next parameters, the next state}. `loss` is a function as value_and_grad takes it.
template <class Optimizer, class Loss>
class train_step {
 public:
  explicit train_step(Optimizer of, Loss loss, location at = location::current())
      : of_(std::move(of)), loss_(std::move(loss)), at_(at) {}

  template <class P, class S, class... Arguments>
  auto operator()(const P& p, const S& state, const Arguments&... arguments) const {
    auto [value, g] = value_and_grad(loss_, at_)(p, arguments...);
    auto [q, next] = of_.update(p, g, state, at_);
    return std::tuple{std::move(value), std::move(q), std::move(next)};
  }

 private:
  Optimizer of_;
  Loss loss_;
  location at_;
};

}  // namespace sinter::optim
