// front/trees/tree_rules.hpp: the errors for trees that differ, and paths; compiled once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tree_map.hpp"

namespace sinter::detail {

/// The text of g++ ends with "::name)}]", the text of clang++ with ".name}]"; a plain name is its own text.
SINTER_API std::string field_of(const char* text) {
  const std::string_view all = text;
  const std::size_t end = all.find_last_not_of(")}]") + 1;
  const std::size_t before = end == 0 ? std::string_view::npos : all.find_last_of(":.", end - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return std::string(all.substr(begin, end - begin));
}

SINTER_API std::string step_text(const char* name, std::size_t index) {
  return name ? "." + field_of(name) : "[" + std::to_string(index) + "]";
}

inline std::string text_of(const tree_place& at) {
  if (!at.up) return "";
  if (at.key) return text_of(*at.up) + "[\"" + *at.key + "\"]";
  return text_of(*at.up) + step_text(at.name, at.index);
}

SINTER_API std::string path_of(const tree_place& at) {
  if (!at.up) return "";
  const std::string up = path_of(*at.up);
  const std::string step = at.key ? *at.key : at.name ? field_of(at.name) : std::to_string(at.index);
  return up.empty() ? step : up + "." + step;
}

inline std::string differ_at(const tree_place& at) {
  const std::string place = text_of(at);
  return "the trees differ" + (place.empty() ? "" : " at " + place) + ": the first has a ";
}

[[noreturn]] SINTER_API void fail_structure(const char* op, const tree_place& at, const char* what, std::size_t first,
                                            std::size_t other, location where) {
  fail(op, differ_at(at) + what + std::to_string(first) + ", another a " + what + std::to_string(other), where);
}

[[noreturn]] SINTER_API void fail_keys(const char* op, const tree_place& at, const std::string& first,
                                       const std::string& other, location where) {
  fail(op, differ_at(at) + "std::map with a key \"" + first + "\", where another has \"" + other + "\"", where);
}

SINTER_API void flat_tree::add(const void* leaf, const void* kind) {
  leaves_.push_back(leaf);
  kinds_.push_back(kind);
}

SINTER_API void flat_tree::length(const tree_place& at, const char* what, std::size_t n) {
  if (like_ && like_->lengths_[lengths_.size()] != n)
    fail_structure(op_, at, what, like_->lengths_[lengths_.size()], n, where_);
  lengths_.push_back(n);
}

SINTER_API void flat_tree::key(const tree_place& at, const std::string& k) {
  if (like_ && *like_->keys_[keys_.size()] != k) fail_keys(op_, at, *like_->keys_[keys_.size()], k, where_);
  keys_.push_back(&k);
}

}  // namespace sinter::detail
