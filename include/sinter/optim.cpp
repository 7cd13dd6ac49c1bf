// optim.cpp: the parts of <sinter/optim.hpp> that do not depend on users' types, as one translation unit, beside engine.cpp. For
// programs whose other units define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "optim/lbfgs_rules.hpp"

namespace sinter::optim {
SINTER_SCHEDULES()
}  // namespace sinter::optim
namespace sinter::optim::detail {
SINTER_STEPS()
SINTER_LBFGS(, float)
SINTER_LBFGS(, double)
}  // namespace sinter::optim::detail
