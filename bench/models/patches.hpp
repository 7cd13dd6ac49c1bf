// bench/models/patches.hpp: images (batch, height, width, channels) as sequences of patches.
#pragma once

#include "layers.hpp"

namespace models {

using images = tensor<float, 4>;

/// Each square of `side` pixels as a row: (batch, patches, side · side · channels).
inline sequence to_patches(const images& x, int side) {
  const dim down = x.size(1) / side, across = x.size(2) / side;
  const auto squares = permute(reshape(x, x.size(0), down, side, across, side, x.size(3)), axis<0, 1, 3, 2, 4, 5>);
  return reshape(squares, x.size(0), down * across, -1);
}

}  // namespace models
