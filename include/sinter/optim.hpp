// optim.hpp: optimizers over trees of parameters, in namespace sinter::optim. Beside sinter.hpp, which does not include it.
#pragma once

#include "optim/chain.hpp"
#include "optim/optimizers.hpp"
#include "optim/schedule.hpp"
