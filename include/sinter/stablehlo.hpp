// stablehlo.hpp: functions as StableHLO modules, for JAX, XLA and IREE.
#pragma once

#include "stablehlo/export.hpp"
