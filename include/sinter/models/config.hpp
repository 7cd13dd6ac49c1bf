// models/config.hpp: the scalars of a JSON text by their paths, as configurations of models have them.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../io/checkpoints.hpp"
#include "../io/json.hpp"

namespace sinter::models::detail {

/// Numbers, texts and flags by path, as text: {"a": {"b": [1, "x"]}} has a.b.0 and a.b.1. What is null is not there.
using scalars = std::map<std::string, std::string>;

/// Events of the parser. A path names an object's key or an array's place.
struct scalar_events {
  scalars found;
  std::string wrong;
  struct level {
    std::size_t length;  ///< of the path outside
    std::size_t next;    ///< the place in an array
    bool array;
  };
  std::vector<level> levels;
  std::string path;

  bool put(std::string text) {
    if (!levels.empty() && levels.back().array) place();
    found[path] = std::move(text);
    return true;
  }
  void place() {
    path.resize(levels.back().length);
    path += (path.empty() ? "" : ".") + std::to_string(levels.back().next++);
  }
  bool open(bool array) {
    if (levels.size() == 16) return no("is nested deeper than 16");
    if (!levels.empty() && levels.back().array) place();
    levels.push_back({path.size(), 0, array});
    return true;
  }
  bool close() {
    path.resize(levels.back().length);
    levels.pop_back();
    return true;
  }
  bool no(std::string what) {
    wrong = std::move(what);
    return false;
  }

  bool null() {
    if (!levels.empty() && levels.back().array) place();
    return true;
  }
  bool boolean(bool x) { return put(x ? "true" : "false"); }
  bool number_integer(std::int64_t x) { return put(std::to_string(x)); }
  bool number_unsigned(std::uint64_t x) { return put(std::to_string(x)); }
  bool number_float(double, const std::string& text) { return put(text); }
  bool string(std::string& x) { return put(x); }
  bool binary(nlohmann::json::binary_t&) { return no("has binary data"); }
  bool start_object(std::size_t) { return open(false); }
  bool key(std::string& x) {
    path.resize(levels.back().length);
    path += (path.empty() ? "" : ".") + x;
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(true); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t place, const std::string&, const nlohmann::json::exception&) {
    return no("is damaged at byte " + std::to_string(place));
  }
};

/// The scalars of a file of JSON. system_error when it cannot be read, or is damaged.
inline scalars read_scalars(const char* op, const std::string& path, location at) {
  const storage whole = io::detail::map_file(op, path, at);
  const auto text = reinterpret_cast<const char*>(io::detail::bytes_of(whole).data());
  scalar_events events;
  if (whole.bytes() == 0) events.wrong = "is empty";
  else nlohmann::json::sax_parse(text, text + whole.bytes(), &events);
  if (!events.wrong.empty()) io::detail::fail_file(op, path, events.wrong, at);
  return events.found;
}

}  // namespace sinter::models::detail
