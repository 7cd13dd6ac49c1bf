// tests/dispatch/support.hpp: the arguments of calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/sinter.hpp>

namespace support {

using vec = sinter::tensor<float, 1>;
using floats = std::vector<float>;

inline vec ones(std::int64_t n) { return sinter::full<float>(1.f, n); }

struct settings {
  vec w;
  float rate = 0;
};

/// How messages name a field of a plain struct.
inline std::string field(const char* name) { return "." + std::string(name); }

}  // namespace support
