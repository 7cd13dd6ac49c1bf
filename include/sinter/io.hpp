// io.hpp: files and other libraries' arrays, in namespace sinter::io. Beside sinter.hpp, which does not include it.
#pragma once

#include "io/checkpoints.hpp"
#include "io/dlpack.hpp"
#include "io/npy.hpp"
#include "io/trees.hpp"
#include "io/views.hpp"
