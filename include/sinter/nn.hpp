// nn.hpp: what networks are made of and trained with, in namespace sinter::nn: layers, initialisers, losses. Beside sinter.hpp. It has windows.hpp, too.
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
