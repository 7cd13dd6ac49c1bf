// formats.hpp: numbers of few bits: 8-bit floats that saturate, packed integers, products with scales.
#pragma once

#include "formats/packed.hpp"
#include "formats/scaled.hpp"
