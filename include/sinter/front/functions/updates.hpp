// front/functions/updates.hpp: what optimizers compute for one tensor, behind the seam.
#pragma once

#include "../evaluate/handle.hpp"

namespace sinter::detail {

/// beta · mean + (1 - beta) · by, or with by² in place of by. Narrow floats are computed in f32. (update_rules.hpp)
SINTER_API handle moved_mean(const handle& mean, const handle& by, double beta, bool squared, location at);

/// by + rate · x in the type in which x is computed; by itself for a rate of 0. (update_rules.hpp)
SINTER_API handle decayed_by(const handle& by, const handle& x, double rate, location at);

/// x - rate · by; `rate` has rank 0. (update_rules.hpp)
SINTER_API handle descended(const handle& x, const handle& rate, const handle& by, location at);

/// Numbers of rank 0 of one step.
struct adam_factors {
  handle kept, rate, size, power;
  double eps;
};
/// x · kept - rate · m · size / (√(v · power) + eps). (update_rules.hpp)
SINTER_API handle adam_step(const handle& x, const handle& m, const handle& v, const adam_factors& by, location at);

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "update_rules.hpp"
#endif
