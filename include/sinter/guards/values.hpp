// guards/values.hpp: numbers for values of hashable classes, by which guards compare them.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "../base/series.hpp"
#include "../engine/engine.hpp"

namespace sinter::engine {
namespace detail {

/// Numbers of recently used values. They are never reused: a forgotten value gets a new number, which costs a specialisation
/// but is never another value's.
class value_numbers {
 public:
  std::uint64_t of(const value_class& type, std::size_t hash, const void* value) {
    table gone;  // freed without the lock, because the values are the user's
    const std::lock_guard lock(mutex_);
    if (const entry* e = find(young_, type, hash, value)) return e->number;
    if (young_.size() >= most) gone = std::exchange(old_, std::exchange(young_, {}));
    const entry* known = find(old_, type, hash, value);
    if (!known) keep_loaded(&type);
    return young_.emplace(hash, known ? *known : entry{&type, type.copy(value), next_++})->second.number;
  }

  static constexpr std::size_t most = 2048;  ///< twice as many are kept

 private:
  struct entry {
    const value_class* type = nullptr;
    std::shared_ptr<const void> value;
    std::uint64_t number = 0;
  };
  using table = std::unordered_multimap<std::size_t, entry>;

  static const entry* find(const table& in, const value_class& type, std::size_t hash, const void* value) {
    const auto [first, last] = in.equal_range(hash);
    for (auto e = first; e != last; ++e)
      if (e->second.type == &type && type.equal(e->second.value.get(), value)) return &e->second;
    return nullptr;
  }

  std::mutex mutex_;
  table young_, old_;
  std::uint64_t next_ = 0;
};

}  // namespace detail

SINTER_API std::uint64_t value_number(const value_class& type, std::size_t hash, const void* value) {
  static auto& all = *new detail::value_numbers;
  return all.of(type, hash, value);
}

}  // namespace sinter::engine
