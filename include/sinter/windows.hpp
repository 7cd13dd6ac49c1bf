// windows.hpp: convolutions, pools, unfold and fold, interpolation: what reads the neighbours of each element.
#pragma once

#include "windows/conv.hpp"
#include "windows/pool.hpp"
#include "windows/resize.hpp"
