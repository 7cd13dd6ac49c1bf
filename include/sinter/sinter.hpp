// sinter.hpp: the one header.
#pragma once

#include "engine.hpp"
#include "front/autocast.hpp"
#include "front/compile.hpp"
#include "front/devices.hpp"
#include "front/einsum.hpp"
#include "front/evaluate.hpp"
#include "front/factories.hpp"
#include "front/join.hpp"
#include "front/nn.hpp"
#include "front/pointwise.hpp"
#include "front/print.hpp"
#include "front/random.hpp"
#include "front/scan.hpp"
#include "front/streams.hpp"
#include "front/trace.hpp"
#include "front/transforms.hpp"
