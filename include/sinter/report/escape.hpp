// report/escape.hpp: makes external text safe for HTML, SVG, JSON and file names.
#pragma once

#include <string>
#include <string_view>

#include "../base/config.hpp"

namespace sinter::engine::reporting {

namespace detail {

/// The bytes of the UTF-8 character at s[at]; 0 if there is none, or XML and JSON do not allow it.
inline std::size_t character(std::string_view s, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const unsigned a = byte(at), b = byte(at + 1);
  if (a < 0x80) return a >= 0x20 && a != 0x7f ? 1 : a == '\n' || a == '\t' ? 1 : 0;
  const std::size_t n = a >= 0xc2 && a < 0xe0 ? 2 : a >= 0xe0 && a < 0xf0 ? 3 : a >= 0xf0 && a < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const bool overlong = (a == 0xe0 && b < 0xa0) || (a == 0xf0 && b < 0x90);
  const bool beyond =
      (a == 0xed && b >= 0xa0) || (a == 0xf4 && b >= 0x90) || (a == 0xef && b == 0xbf && byte(at + 2) >= 0xbe);
  return overlong || beyond ? 0 : n;
}

}  // namespace detail

/// Escaped for HTML or XML text, or a quoted attribute's value. Invalid UTF-8 and control characters become U+FFFD.
SINTER_API std::string escaped(std::string_view s) {
  std::string out;
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t n = detail::character(s, at);
    if (s[at] == '&') out += "&amp;";
    else if (s[at] == '<') out += "&lt;";
    else if (s[at] == '>') out += "&gt;";
    else if (s[at] == '"') out += "&quot;";
    else if (s[at] == '\'') out += "&#39;";
    else if (n == 0) out += "\xef\xbf\xbd";
    else out += s.substr(at, n);
    at += n == 0 ? 1 : n;
  }
  return out;
}

/// A JSON string, including the quotes.
SINTER_API std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t n = detail::character(s, at);
    if (s[at] == '"' || s[at] == '\\') (out += '\\') += s[at];
    else if (s[at] == '\n') out += "\\n";
    else if (s[at] == '\t') out += "\\t";
    else if (n == 0) out += "\\ufffd";
    else out += s.substr(at, n);
    at += n == 0 ? 1 : n;
  }
  return out + '"';
}

/// A part of a file name: letters, digits, '-' and '_', at most 48.
inline std::string file_name(std::string_view s) {
  std::string out(s.substr(0, 48));
  for (char& c : out)
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-')) c = '_';
  return out;
}

}  // namespace sinter::engine::reporting
