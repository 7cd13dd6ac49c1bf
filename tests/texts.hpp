// tests/texts.hpp: what tests ask of messages.
#pragma once

#include <string>

#include <sinter/base/error.hpp>

namespace texts {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What the user_error says that f throws; nothing when it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const sinter::user_error& e) {
    return e.what();
  }
  return {};
}

/// What the error of any kind says that f throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const sinter::error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace texts
