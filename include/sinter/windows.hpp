// windows.hpp: convolutions, pools, unfold and fold, interpolation: functions of each element's neighbours.
#pragma once

#include "windows/conv.hpp"
#include "windows/pool.hpp"
#include "windows/resize.hpp"
