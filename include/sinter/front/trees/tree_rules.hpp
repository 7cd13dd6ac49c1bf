// front/trees/tree_rules.hpp: what is said of trees that differ; compiled once.
#pragma once

#include <string>

#include "tree_map.hpp"

namespace sinter::detail {

inline std::string text_of(const tree_place& at) {
  if (!at.up) return "";
  return text_of(*at.up) + (at.name ? "." + std::string(at.name) : "[" + std::to_string(at.index) + "]");
}

[[noreturn]] SINTER_API void fail_structure(const char* op, const tree_place& at, const char* what, std::size_t first,
                                            std::size_t other, location where) {
  const std::string place = text_of(at);
  fail(op,
       "the trees differ" + (place.empty() ? "" : " at " + place) + ": the first has a " + what +
           std::to_string(first) + ", another a " + what + std::to_string(other),
       where);
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

}  // namespace sinter::detail
