// complex.hpp: complex numbers: tensors of std::complex<float> and std::complex<double>, stored as two tensors of parts.
#pragma once

#include "complex/factories.hpp"
#include "complex/functions.hpp"
#include "complex/join.hpp"
#include "complex/movement.hpp"
#include "complex/print.hpp"
#include "complex/products.hpp"
#include "complex/tensor.hpp"
