// base/location.hpp: a place in the user's source; std::source_location that clang 14 has too.
#pragma once

namespace sinter {

/// A file and line of the user's program. Captured by default arguments, so it names the caller.
struct location {
  const char* file = "";
  int line = 0;

  static constexpr location current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace sinter
