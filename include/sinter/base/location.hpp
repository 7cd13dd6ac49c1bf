// base/location.hpp: a place in the user's source: std::source_location, also for clang 14.
#pragma once

namespace sinter {

/// A file and line of the user's program. Default arguments capture it, so it names the caller.
struct location {
  const char* file = "";
  int line = 0;
  const char* op = nullptr;  ///< the function that errors name, in place of the op inside it that fails

  static constexpr location current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  /// The place inside a function made of ops. In nested functions, the outermost is the user's call.
  constexpr location in(const char* name) const { return {file, line, op ? op : name}; }
};

namespace detail {

/// The line for which base/callback.hpp last called a function of the user on this thread. Conversions of arguments inside
/// that header report this line.
inline constinit thread_local location last_call;

/// Stands for an omitted argument: a defaulted location cannot follow a pack of arguments.
struct absent {};
template <class T>
inline constexpr bool is_absent = false;
template <>
inline constexpr bool is_absent<absent> = true;

}  // namespace detail
}  // namespace sinter
