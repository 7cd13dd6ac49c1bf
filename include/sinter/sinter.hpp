// sinter.hpp: the one header.
#pragma once

#include "front/evaluate.hpp"
#include "front/pointwise.hpp"
#include "engine.hpp"
