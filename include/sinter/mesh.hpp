// mesh.hpp: more than one device: meshes of ranks, placed tensors, collectives, shard_map and simulate.
#pragma once

#include "mesh/auto_shard.hpp"
#include "mesh/collectives.hpp"
#include "mesh/functions.hpp"
#include "mesh/mesh.hpp"
#include "mesh/parallel.hpp"
#include "mesh/pipeline.hpp"
#include "mesh/placed.hpp"
#include "mesh/random.hpp"
#include "mesh/row_shards.hpp"
#include "mesh/shard_map.hpp"
