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

/// The line for which base/callback.hpp last called a function of the user on this thread. What converts an argument to the
/// parameter's type is written there and meant here.
inline constinit thread_local location last_call;

/// In the place of an argument that was not given: a defaulted location cannot follow a pack of arguments.
struct absent {};
template <class T>
inline constexpr bool is_absent = false;
template <>
inline constexpr bool is_absent<absent> = true;

}  // namespace detail
}  // namespace sinter
