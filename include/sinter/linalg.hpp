// linalg.hpp: linear algebra on the last two axes: solve, cholesky, lu, qr, eigh, svd, and functions made of them.
#pragma once

#include "linalg/complex.hpp"
#include "linalg/matrices.hpp"
