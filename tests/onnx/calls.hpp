// What tests of models from files share: options, what a call says, numbers.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/sinter.hpp>

namespace onnx_test {

inline sinter::options on(bool interpreted) {
  sinter::options how;
  if (interpreted) how.backend = "reference";
  return how;
}

/// What f throws; "" where it ends.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const sinter::error& e) {
    return e.what();
  }
  return "";
}
inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Numbers between -size and size that look like no pattern.
inline std::vector<float> some(std::size_t n, double seed, double size = 1) {
  std::vector<float> out;
  for (std::size_t k = 0; k < n; ++k)
    out.push_back(static_cast<float>(size * std::sin(seed + 12.9898 * static_cast<double>(k))));
  return out;
}

}  // namespace onnx_test
