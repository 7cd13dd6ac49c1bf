// ir/literal_array.hpp: a tensor's elements as the reference interpreter sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "../base/dtype.hpp"

namespace sinter::ir {

/// A dense tensor in row-major order: doubles for floating dtypes, int64 bits for the others.
struct literal_array {
  dtype type = dtype::f32;
  std::vector<std::int64_t> extents;
  std::vector<double> f;
  std::vector<std::int64_t> i;
};

}  // namespace sinter::ir
