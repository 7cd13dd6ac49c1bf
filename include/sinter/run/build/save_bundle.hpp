// run/build/save_bundle.hpp: writes the kernels in use by this process to a bundle.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "build.hpp"
#include "bundle.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// Writes the kernels in use by this process to one file, and returns their number. Throws user_error if there are none,
/// system_error if the file cannot be written or a kernel's image has meanwhile left its cache folder.
SINTER_API std::size_t save_bundle(const std::string& path, const char* op, location where) {
  std::map<std::string, series<std::string>> keys_of;  // images, each once
  std::size_t all = 0, gone = 0;
  for (const auto& entry : detail::live_modules().all()) {
    const std::lock_guard guard(entry->mutex);
    if (entry->portable_head.empty()) continue;
    ++all;
    std::string image = detail::image_of(*entry);
    if (image.empty()) ++gone;
    else keys_of[std::move(image)].push_back(entry->portable(entry->portable_head));
  }
  if (gone != 0)
    throw system_error("[" + std::string(op) + "] " + std::to_string(gone) + " of " + std::to_string(all) +
                       " kernels have left the cache folder; raise SINTER_CACHE_LIMIT, or save before clear_cache()");
  if (all == 0) fail(op, "no kernel is in use yet; call the compiled functions first", where);
  series<portable_kernel> kernels;
  std::set<std::string> known;  // one of each, if several GPUs run the same
  for (auto& [image, keys] : keys_of) {
    std::sort(keys.begin(), keys.end());
    bool first = true;
    for (std::string& key : keys) {
      if (!known.insert(key).second) continue;
      kernels.push_back({std::move(key), first ? image : ""});
      first = false;
    }
  }
  write_bundle(path, kernels, op);
  return kernels.size();
}

}  // namespace sinter::engine::run
