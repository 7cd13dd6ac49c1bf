// base/error.hpp: the kinds of errors, for mistakes of the caller and for broken invariants.
#pragma once

#include <stdexcept>
#include <string>

#include "config.hpp"
#include "location.hpp"

namespace sinter {

/// The base class of all exceptions of sinter.
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

/// A failure outside of both, such as a missing compiler, a full disk or a damaged file.
class system_error : public error {
 public:
  using error::error;
};

namespace detail {
/// A failure that is not the kernel's: no memory at the moment, or a GPU that this process cannot use.
class momentary_error : public system_error {
 public:
  using system_error::system_error;
};
}  // namespace detail

/// Throws user_error "[op] message (at file:line)"; at.op precedes op. (define.hpp)
[[noreturn]] SINTER_API void fail(const std::string& op, const std::string& message, location at = {});
[[noreturn]] SINTER_API void fail(const char* op, const char* message, location at = {});

namespace detail {
/// "message (at file:line)".
SINTER_API std::string located(const std::string& message, location at);
[[noreturn]] SINTER_API void fail_ensure(const char* what, location at);
}  // namespace detail

/// Throws internal_error unless `holds`.
inline void ensure(bool holds, const char* what, location at = location::current()) {
  if (!holds) detail::fail_ensure(what, at);
}

}  // namespace sinter

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
