// models/config_rules.hpp: reads a configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../io/file.hpp"
#include "../io/json.hpp"
#include "config.hpp"

namespace sinter::models::detail {

/// Events of the parser. A path has the keys of objects and the indexes of arrays.
class scalar_events : public io::detail::json_events {
 public:
  scalars found;

  bool null() {
    if (!levels_.empty() && levels_.back().array) place();
    return true;
  }
  bool boolean(bool x) { return put(x ? "true" : "false"); }
  bool number_integer(number_integer_t x) { return put(std::to_string(x)); }
  bool number_unsigned(number_unsigned_t x) { return put(std::to_string(x)); }
  bool number_float(number_float_t, const string_t& text) { return put(text); }
  bool string(string_t& x) { return put(x); }
  bool start_object(std::size_t) { return open(false); }
  bool key(string_t& x) {
    path_.resize(levels_.back().length);
    path_ += (path_.empty() ? "" : ".") + x;
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(true); }
  bool end_array() { return close(); }

 private:
  struct level {
    std::size_t length;  ///< of the outer path
    std::size_t next;    ///< the index in an array
    bool array;
  };
  bool put(std::string text) {
    if (!levels_.empty() && levels_.back().array) place();
    found[path_] = std::move(text);
    return true;
  }
  void place() {
    path_.resize(levels_.back().length);
    path_ += (path_.empty() ? "" : ".") + std::to_string(levels_.back().next++);
  }
  bool open(bool array) {
    if (levels_.size() == 16) return no("more than 16 levels");
    if (!levels_.empty() && levels_.back().array) place();
    levels_.push_back({path_.size(), 0, array});
    return true;
  }
  bool close() {
    path_.resize(levels_.back().length);
    levels_.pop_back();
    return true;
  }

  std::vector<level> levels_;
  std::string path_;
};

SINTER_API scalars read_scalars(const char* op, const std::string& path, location at) {
  const storage whole = io::detail::map_regular_file(op, path, at);
  const auto text = io::detail::bytes_of(whole);
  scalar_events events;
  const std::string wrong =
      text.empty() ? "is empty"
                   : io::detail::parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, events);
  if (!wrong.empty()) io::detail::fail_file(op, path, wrong, at);
  return events.found;
}

}  // namespace sinter::models::detail
