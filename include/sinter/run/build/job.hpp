// run/build/job.hpp: a kernel to build: where its image is looked for, and kept.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "../host/compiler.hpp"
#include "bundle.hpp"
#include "cache.hpp"
#include "toolchain.hpp"

namespace sinter::engine::run {
namespace detail {

/// The images that one call has loaded: kernels compiled together share an image.
struct loaded_images {
  std::unordered_map<const live_entry*, std::shared_ptr<const void>> of_others;  ///< images loaded for other kernels
  std::unordered_map<const char*, std::shared_ptr<const void>> of_bundles;       ///< by their address in the bundle
};

/// One distinct kernel to build.
struct job {
  const shared_text* source = nullptr;
  std::shared_ptr<live_entry> entry;
  std::shared_ptr<const void> code;
  bool from_cache = false;
  double milliseconds = 0;
  const char* tier = "memory";
  clock::time_point began;

  origin from() const { return {tier, milliseconds, began}; }

  std::string key() const { return entry->key.str(); }
  static std::string portable_head(const toolchain& with) { return "sinter " SINTER_VERSION "\n" + with.portable(); }

  /// Looks in memory, then on disk, then in bundles; true when found.
  bool look_up(const disk_cache& cache, const toolchain& with, loaded_images& known) {
    from_cache = true;
    tier = "memory";
    code = entry->get();
    if (code) return true;
    const std::string head = portable_head(with);
    tier = "disk";
    if (read(cache, with, known)) return entry->note(head, cache.path()), true;
    tier = "bundle";
    const std::string_view image = bundle_table::get().find(entry->portable(head));
    if (image.empty()) return false;
    auto& loaded = known.of_bundles[image.data()];
    if (!loaded) loaded = try_load(image, with);
    if (loaded) entry->note(head, "", image);
    return publish(loaded);
  }

  bool read(const disk_cache& cache, const toolchain& with, loaded_images& known) {
    if (const auto at = known.of_others.find(entry.get()); at != known.of_others.end()) return publish(at->second);
    const std::string mine = key();
    series<std::string> others;
    const std::string image = cache.find(mine, &others);
    if (image.empty()) return false;
    const auto loaded = try_load(image, with);
    if (!loaded) return cache.discard(mine), false;
    for (const std::string& key : others)
      if (const auto other = live_modules().find(with.domain(), key)) known.of_others.emplace(other.get(), loaded);
    return publish(loaded);
  }

  bool publish(std::shared_ptr<const void> loaded) {
    if (loaded) code = entry->publish(std::move(loaded));
    return code != nullptr;
  }

  /// Null, after a warning, if it cannot be loaded. momentary_error passes through.
  static std::shared_ptr<const void> try_load(std::string_view image, const toolchain& with) {
    try {
      return with.load(image);
    } catch (const sinter::detail::momentary_error&) {
      throw;
    } catch (const system_error& e) {
      logs::warn_once(std::string(e.what()) + "; it is compiled again");
      return nullptr;
    }
  }

  /// Compiles the kernel unless another thread or process has meanwhile done so.
  void make(const disk_cache& cache, const toolchain& with) {
    const std::lock_guard in_process(entry->building);
    const auto across_processes = cache.acquire(key(), compile_limit());
    loaded_images known;
    if (!look_up(cache, with, known)) make_alone(cache, with);
  }

  void make_alone(const disk_cache& cache, const toolchain& with) {
    job* const me = this;
    take({&me, 1}, with.compile(source->str()), cache, with);
  }

  /// Takes the compiler's image of several kernels.
  static void take(std::span<job* const> jobs, std::string made, const disk_cache& cache, const toolchain& with) {
    const auto image = make_on_heap<const std::string>(std::move(made));
    keep(jobs, image, with.load(*image), true, cache, with);
  }
  /// Keeps a loaded image of several kernels, which the compiler made here or on another rank.
  static void keep(std::span<job* const> jobs, const std::shared_ptr<const std::string>& image,
                   const std::shared_ptr<const void>& loaded, bool made_here, const disk_cache& cache,
                   const toolchain& with) {
    series<std::string> keys;
    for (const job* j : jobs) keys.push_back(j->key());
    const bool stored = cache.store(keys, *image);
    for (job* const j : jobs) {
      j->from_cache = !made_here;
      j->tier = made_here ? "compiled" : "bundle";
      j->publish(loaded);
      if (stored) j->entry->note(portable_head(with), cache.path());
      else j->entry->note(portable_head(with), "", *image, image);
    }
  }
};

}  // namespace detail
}  // namespace sinter::engine::run
