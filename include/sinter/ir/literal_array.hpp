// ir/literal_array.hpp: a tensor's elements as the reference interpreter sees them.
#pragma once

#include <cstdint>

#include "../base/dtype.hpp"
#include "../base/series.hpp"

namespace sinter::ir {

/// A dense tensor in row-major order: doubles for floating dtypes, int64 bits for the others.
struct literal_array {
  dtype type = dtype::f32;
  series<std::int64_t> extents;
  series<double> f;
  series<std::int64_t> i;
};

}  // namespace sinter::ir
