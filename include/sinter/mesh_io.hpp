// mesh_io.hpp: checkpoints of trees that the ranks of a mesh hold in parts.
#pragma once

#include "mesh_io/checkpoints.hpp"
