// base/error.hpp: the two kinds of error, and the one way to raise each.
#pragma once

#include <stdexcept>
#include <string>

#include "location.hpp"

namespace sinter {

/// Base of everything sinter throws.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A mistake in the calling program; the message names the op, the shapes, the place and the remedy.
class user_error : public error {
 public:
  using error::error;
};

/// A broken invariant of sinter itself.
class internal_error : public error {
 public:
  using error::error;
};

/// Something outside both: no compiler, a full disk, a damaged file.
class system_error : public error {
 public:
  using error::error;
};

namespace detail {
inline std::string located(const std::string& message, location at) {
  if (at.line == 0) return message;
  return message + " (at " + at.file + ":" + std::to_string(at.line) + ")";
}
}  // namespace detail

/// Throws user_error "[op] message (at file:line)".
[[noreturn]] inline void fail(const std::string& op, const std::string& message, location at = {}) {
  throw user_error(detail::located("[" + op + "] " + message, at));
}

/// Throws internal_error unless `holds`.
inline void ensure(bool holds, const char* what, location at = location::current()) {
  if (!holds) throw internal_error(detail::located(std::string("internal error: ") + what, at));
}

}  // namespace sinter
