// io/json.hpp: reads JSON files event by event, by nlohmann's parser, which no user's translation unit includes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#define SINTER_HAS_JSON 1
#else
#define SINTER_HAS_JSON 0
#endif

namespace sinter::io::detail {

/// Events of a JSON parser. Each is an error unless it is overridden.
class json_events {
 public:
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;

  bool null() { return no("null"); }
  bool boolean(bool) { return no("true or false"); }
  bool number_integer(number_integer_t) { return no("a negative number"); }
  bool number_float(number_float_t, const string_t&) { return no("a fraction"); }
  template <class Bytes>
  bool binary(Bytes&) {
    return no("binary data");
  }
  template <class Error>
  bool parse_error(std::size_t place, const std::string&, const Error&) {
    if (wrong.empty()) wrong = "its JSON is damaged at byte " + std::to_string(place);
    return false;
  }

  std::string wrong;

 protected:
  bool no(const std::string& what) {
    if (wrong.empty()) wrong = "its JSON has " + what + " where it should not";
    return false;
  }
};

/// Sends the events of a text to `events`. Returns "", or the error.
template <class Events>
std::string parse_json(std::string_view text, Events& events) {
#if SINTER_HAS_JSON
  return nlohmann::json::sax_parse(text.begin(), text.end(), &events) ? "" : events.wrong;
#else
  static_cast<void>(text);
  static_cast<void>(events);
  return "cannot be read: sinter was compiled without nlohmann-json (Debian: nlohmann-json3-dev)";
#endif
}

}  // namespace sinter::io::detail
