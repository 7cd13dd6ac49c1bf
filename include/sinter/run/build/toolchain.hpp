// run/build/toolchain.hpp: the interface to all compilers of kernel texts; the modules in use; texts that failed.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../../base/callback.hpp"
#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../file.hpp"
#include "../host/process.hpp"
#include "shared_text.hpp"

namespace sinter::engine::run {

using clock = std::chrono::steady_clock;

/// The source of a kernel's code, and the time it took.
struct origin {
  const char* tier = "memory";  ///< "memory", "disk", "bundle" (or another rank) or "compiled"
  double milliseconds = 0;
  clock::time_point began;
};

/// The host compiler is missing, failed, was killed, hung or produced nothing.
class compile_error : public system_error {
 public:
  compile_error(const std::string& message, outcome how, std::string source_path, std::string cause)
      : system_error(message), how_(how), source_path_(std::move(source_path)), cause_(std::move(cause)) {}
  outcome how() const noexcept { return how_; }
  /// The path of the saved kernel text; empty if no compiler was run.
  const std::string& source_path() const noexcept { return source_path_; }
  /// The compiler's problem, independent of the kernel.
  const std::string& cause() const noexcept { return cause_; }

 private:
  outcome how_;
  std::string source_path_, cause_;
};

/// Makes an image of a kernel's text, and loads it. Images are kept on disk, and loaded modules in memory, for all users.
class toolchain {
 public:
  virtual ~toolchain() = default;
  /// All facts that decide the image's bytes, as text.
  virtual std::string key(std::string_view source) const = 0;
  /// The lines of a portable key (bundle.hpp) between its first line and the text: the target, then flags.
  virtual std::string portable() const = 0;
  /// The version of the compiler, and of the driver that loads its images: ranks share kernels where it is equal. Empty if
  /// there is none.
  virtual std::string compiler() const = 0;
  /// Loaded modules are shared among equal keys of one domain only.
  virtual std::string domain() const = 0;
  /// Throws compile_error if waiting for `compile` would be in vain.
  virtual void check() const {}
  /// The image of a kernel's text, with entries named as in unit.hpp. Throws compile_error.
  virtual std::string compile(const std::string& source) const = 0;
  /// The image of an unchanged text; empty on any failure.
  virtual std::string try_compile(const std::string& text) const = 0;
  /// Loads an image. Throws system_error if it is invalid.
  virtual std::shared_ptr<const void> load(std::string_view image) const = 0;
};

namespace detail {

/// The modules in use in this process, by key; each key's text is kept once. `building` is held by the thread that builds the
/// kernel.
struct live_entry {
  live_entry(std::string domain_of_key, std::string_view key_text) : domain(std::move(domain_of_key)), key(key_text) {}
  const std::string domain;
  const shared_text key;
  std::mutex building;
  std::mutex mutex;
  std::weak_ptr<const void> code;
  std::string portable_head;  ///< the part of its key in bundles before the source, once it is loaded
  std::string folder;         ///< the cache folder that has its image; empty if none has
  std::string_view image;     ///< else the image, in a bundle or in `kept`
  std::shared_ptr<const std::string> kept;

  std::shared_ptr<const void> get() {
    const std::lock_guard guard(mutex);
    return code.lock();
  }
  /// Keeps the first published module, and returns the module for all users.
  std::shared_ptr<const void> publish(std::shared_ptr<const void> loaded) {
    const std::lock_guard guard(mutex);
    if (auto earlier = code.lock()) return earlier;
    code = loaded;
    return loaded;
  }
  /// Records the place of the image, for bundles.
  void note(const std::string& head, const std::string& in_folder, std::string_view in_memory = {},
            std::shared_ptr<const std::string> owner = nullptr) {
    const std::lock_guard guard(mutex);
    portable_head = head;
    folder = in_folder;
    image = in_memory;
    kept = std::move(owner);
  }
  /// The key in bundles, with a head such as `portable_head`.
  std::string portable(const std::string& head) const {
    const std::string whole = key.str();
    return head + whole.substr(whole.find("\nsource\n"));
  }
};

class live_table {
 public:
  std::shared_ptr<live_entry> at(std::string domain, std::string_view key) {
    const std::lock_guard guard(mutex_);
    if (auto known = find_locked(domain, key)) return known;
    if (entries_.size() > prune_at_) prune();
    auto fresh = make_on_heap<live_entry>(std::move(domain), key);
    entries_.emplace(std::hash<std::string_view>()(key), fresh);
    return fresh;
  }

  /// Null if the kernel was never requested.
  std::shared_ptr<live_entry> find(const std::string& domain, std::string_view key) {
    const std::lock_guard guard(mutex_);
    return find_locked(domain, key);
  }

  /// The entries of the modules in use.
  series<std::shared_ptr<live_entry>> all() {
    series<std::shared_ptr<live_entry>> out;
    const std::lock_guard guard(mutex_);
    for (const auto& [hash, entry] : entries_)
      if (entry->get()) out.push_back(entry);
    return out;
  }

 private:
  std::shared_ptr<live_entry> find_locked(const std::string& domain, std::string_view key) const {
    const auto same = entries_.equal_range(std::hash<std::string_view>()(key));
    for (auto it = same.first; it != same.second; ++it)
      if (it->second->key == key && it->second->domain == domain) return it->second;
    return nullptr;
  }
  void prune() {
    erase_if(entries_, [](const auto& item) { return item.second.use_count() == 1 && item.second->code.expired(); });
    prune_at_ = std::max<std::size_t>(256, 2 * entries_.size());
  }
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::shared_ptr<live_entry>> entries_;
  std::size_t prune_at_ = 256;
};

// Never destroyed: kernels may be built while static objects are destroyed.
SINTER_API live_table& live_modules() {
  static live_table* const instance = new live_table;
  return *instance;
}

/// Saves a kernel that did not compile, with `log` beside it if there is one, and returns the path; the same text keeps its
/// path.
SINTER_API std::string save_source(const std::string& source, const std::string& suffix, const std::string& log = "") {
  static std::mutex mutex;
  static auto& saved = *new std::unordered_map<std::string, std::string>;  // threads may outlive statics
  const std::lock_guard guard(mutex);
  auto& path = saved[source];
  if (!path.empty() && read_file(path) == source) return path;
  path = temporary_folder() + "/sinter-kernel-XXXXXX" + suffix;
  const file_handle fd(::mkostemps(path.data(), static_cast<int>(suffix.size()), O_CLOEXEC));
  if (!fd || !write_all(fd.get(), source)) path = "";
  else if (!log.empty()) write_file(path + ".log", log);
  return path;
}

inline std::string first_lines(const std::string& text, int count) {
  std::size_t at = 0;
  for (int i = 0; i < count && at != std::string::npos; ++i) at = text.find('\n', at == 0 ? 0 : at + 1);
  return at == std::string::npos ? text : text.substr(0, at) + "\n...";
}

}  // namespace detail
}  // namespace sinter::engine::run
