// optim.hpp: optimizers over trees of parameters, in namespace sinter::optim. Included beside sinter.hpp, which does not
// include it.
#pragma once

#include "optim/chain.hpp"
#include "optim/lbfgs.hpp"
#include "optim/leaves.hpp"
#include "optim/master.hpp"
#include "optim/muon.hpp"
#include "optim/optimizers.hpp"
#include "optim/schedule.hpp"
#include "optim/train_step.hpp"
#include "optim/wolfe.hpp"
#include "optim/wrappers.hpp"
