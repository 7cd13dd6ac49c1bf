// run/build/choices.hpp: which way to compute a kernel was measured to be the fastest: in memory, and on disk for other processes.
#pragma once

#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "../../base/series.hpp"
#include "../../base/sorted.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// A way to compute something, and the microseconds that it took.
struct timed_way {
  std::string name;
  double microseconds = 0;
};
/// The ways that were measured, the chosen one first.
using measured_ways = series<timed_way>;

namespace detail {

inline std::string pack_choice(const measured_ways& ways) {
  std::string out;
  for (const timed_way& w : ways) {
    put(out, w.name);
    out.append(reinterpret_cast<const char*>(&w.microseconds), sizeof w.microseconds);
  }
  return out;
}
/// Empty for other bytes than those of a choice.
inline measured_ways unpack_choice(std::string_view bytes) {
  measured_ways out;
  while (!bytes.empty()) {
    std::string_view name;
    timed_way w;
    if (!take(bytes, name) || bytes.size() < sizeof w.microseconds) return {};
    w.name = std::string(name);
    std::memcpy(&w.microseconds, bytes.data(), sizeof w.microseconds);
    bytes.remove_prefix(sizeof w.microseconds);
    out.push_back(std::move(w));
  }
  return out;
}

}  // namespace detail

/// The choices of this process, and those of the thread's cache folder. Keys begin with `choice_key`. Thread-safe.
class choice_table {
 public:
  static choice_table& get() {
    static auto& all = *new choice_table;  // threads may outlive statics
    return all;
  }
  measured_ways find(const std::string& key) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(key); at != known_.end()) return at->second;
    }
    measured_ways found = detail::unpack_choice(disk_cache().find(key));
    if (!found.empty()) remember(key, found);
    return found;
  }
  void store(const std::string& key, const measured_ways& ways) {
    remember(key, ways);
    disk_cache().store(key, detail::pack_choice(ways));
  }

 private:
  void remember(const std::string& key, const measured_ways& ways) {
    const std::lock_guard lock(mutex_);
    known_[key] = ways;
  }
  std::mutex mutex_;
  sorted_map<std::string, measured_ways> known_;
};

}  // namespace sinter::engine::run
