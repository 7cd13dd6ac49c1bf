// io.hpp: files, and arrays of other libraries, in namespace sinter::io. Included beside sinter.hpp, which does not include it.
#pragma once

#include "io/checkpoints.hpp"
#include "io/dlpack.hpp"
#include "io/graphs.hpp"
#include "io/npy.hpp"
#include "io/trees.hpp"
#include "io/views.hpp"
