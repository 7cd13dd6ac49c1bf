// linalg.cpp: the functions of <sinter/linalg.hpp> for f32 and f64 as one translation unit, beside engine.cpp. For programs whose
// other units define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "linalg/handle_rules.hpp"

namespace sinter::linalg::handles {
SINTER_LINALG_INSTANCES(, float)
SINTER_LINALG_INSTANCES(, double)
}  // namespace sinter::linalg::handles
