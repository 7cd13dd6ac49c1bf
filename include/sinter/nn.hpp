// nn.hpp: what networks are trained with, in namespace sinter::nn: losses. Beside sinter.hpp, which does not include it.
#pragma once

#include "nn/losses.hpp"
