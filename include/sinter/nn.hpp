// nn.hpp: parts of networks and of their training, in namespace sinter::nn: layers, initialisers, losses. Include it beside
// sinter.hpp. It includes windows.hpp.
#pragma once

#include "nn/attention.hpp"
#include "nn/conv.hpp"
#include "nn/dropout.hpp"
#include "nn/init.hpp"
#include "nn/layers.hpp"
#include "nn/losses.hpp"
#include "nn/norms.hpp"
#include "nn/recurrent.hpp"
#include "nn/state.hpp"
#include "nn/summary.hpp"
#include "nn/values.hpp"
#include "windows.hpp"
