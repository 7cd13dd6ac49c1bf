// run/build/shared_text.hpp: texts of kernels; their common parts, from the prelude, are in memory once.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../../base/config.hpp"
#include "../../base/series.hpp"

namespace sinter::engine::run {

/// Splits a text into parts that other texts are likely to share: each namespace of the prelude, and the parts between.
inline series<std::string_view> parts_of(std::string_view text) {
  constexpr std::string_view opens = "\nnamespace sx {", closes = "}  // namespace sx\n";
  series<std::string_view> out;
  while (!text.empty()) {
    const std::size_t first = text.find(opens), last = text.find(closes);
    std::size_t end = text.size();
    if (first != std::string_view::npos) end = first + 1;
    if (last != std::string_view::npos) end = std::min(end, last + closes.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

namespace detail {

/// Parts that are in use, by hash.
class part_table {
 public:
  std::shared_ptr<const std::string> at(std::string_view part) {
    const std::size_t hash = std::hash<std::string_view>()(part);
    const std::lock_guard guard(mutex_);
    const auto same = parts_.equal_range(hash);
    for (auto it = same.first; it != same.second; ++it)
      if (auto kept = it->second.lock(); kept && *kept == part) return kept;
    if (parts_.size() > prune_at_) {
      erase_if(parts_, [](const auto& item) { return item.second.expired(); });
      prune_at_ = std::max<std::size_t>(256, 2 * parts_.size());
    }
    auto fresh = std::make_shared<const std::string>(part);
    parts_.emplace(hash, fresh);
    return fresh;
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<const std::string>> parts_;
  std::size_t prune_at_ = 256;
};

// Never destroyed: kernels may be built while static objects are destroyed.
SINTER_API part_table& known_parts() {
  static part_table* const instance = new part_table;
  return *instance;
}

}  // namespace detail

class shared_text {
 public:
  shared_text() = default;
  explicit shared_text(std::string_view text) : size_(text.size()) {
    for (const std::string_view part : parts_of(text)) parts_.push_back(detail::known_parts().at(part));
  }

  std::size_t size() const { return size_; }
  const series<std::shared_ptr<const std::string>>& parts() const { return parts_; }
  std::string str() const {
    std::string out;
    out.reserve(size_);
    for (const auto& part : parts_) out += *part;
    return out;
  }
  bool operator==(std::string_view text) const {
    if (text.size() != size_) return false;
    for (const auto& part : parts_) {
      if (text.substr(0, part->size()) != *part) return false;
      text.remove_prefix(part->size());
    }
    return true;
  }

 private:
  series<std::shared_ptr<const std::string>> parts_;
  std::size_t size_ = 0;
};

}  // namespace sinter::engine::run
