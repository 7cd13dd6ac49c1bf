// optim/wolfe.hpp: options of a line search by the strong Wolfe conditions; lbfgs_rules.hpp has the search.
#pragma once

namespace sinter::optim {

struct wolfe_options {
  double decrease = 1e-4;  ///< the value falls by at least this fraction of the first slope
  double curvature = 0.9;  ///< the last slope is at most this fraction of the first
  int evaluations = 25;    ///< the greatest number of evaluations of the function
};

}  // namespace sinter::optim
