// front/functions/update_rules.hpp: optimizers' updates of one tensor; compiled once.
#pragma once

#include "../evaluate/formula.hpp"
#include "updates.hpp"

namespace sinter::detail {

/// The dtype in which numbers of `type` are computed.
inline dtype wide_type(dtype type) { return is_narrow(type) ? dtype::f32 : type; }
inline formula as_wide(const handle& x, dtype type) { return x.type == type ? formula(x) : cast_to(type, x); }
/// A number of rank 0 beside tensors that are computed in `type`.
inline formula beside(const handle& number, dtype type, location at) { return as_wide(number, type).value(at); }

SINTER_API handle moved_mean(const handle& mean, const handle& by, double beta, bool squared, location at) {
  const dtype type = wide_type(mean.type);
  const formula m = as_wide(mean, type), x = as_wide(by, type);
  return narrowed(mean.type, squared ? beta * m + (1 - beta) * x * x : beta * m + (1 - beta) * x, at);
}

SINTER_API handle decayed_by(const handle& by, const handle& x, double rate, location at) {
  const dtype type = wide_type(x.type);
  const formula own = as_wide(by, type);
  return rate == 0 ? own.value(at) : (own + as_wide(x, type) * rate).value(at);
}

SINTER_API handle descended(const handle& x, const handle& rate, const handle& by, location at) {
  const dtype type = wide_type(x.type);
  return narrowed(x.type, as_wide(x, type) - beside(rate, type, at) * as_wide(by, type), at);
}

SINTER_API handle adam_step(const handle& x, const handle& m, const handle& v, const adam_factors& by, location at) {
  const dtype type = wide_type(x.type);
  const formula size = beside(by.size, type, at), power = beside(by.power, type, at), kept = beside(by.kept, type, at),
                rate = beside(by.rate, type, at);
  const formula along = as_wide(m, type) * size / (apply(ir::op::sqrt, as_wide(v, type) * power) + by.eps);
  return narrowed(x.type, as_wide(x, type) * kept - rate * along, at);
}

}  // namespace sinter::detail
