// base/location.hpp: a place in the user's source; std::source_location that clang 14 has too.
#pragma once

namespace sinter {

/// A file and line of the user's program. Captured by default arguments, so it names the caller.
struct location {
  const char* file = "";
  int line = 0;
  const char* op = nullptr;  ///< what errors name in place of the op that fails: the function that is made of it

  static constexpr location current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  /// The place inside a function that is made of ops; of nested ones the outermost is what the user called.
  constexpr location in(const char* name) const { return {file, line, op ? op : name}; }
};

namespace detail {

/// Who last called a function of the user on this thread: a file of sinter's, for a line of the user's. What converts an
/// argument to the parameter's type is written in the one and meant in the other.
struct calling {
  const char* from = "";
  location where;
};
inline constinit thread_local calling last_call;

}  // namespace detail
}  // namespace sinter
