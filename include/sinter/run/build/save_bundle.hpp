// run/build/save_bundle.hpp: the kernels that this process has in use -> a bundle.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "build.hpp"
#include "bundle.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// Writes the kernels that this process has in use to one file. Throws user_error when there is none, system_error when the
/// file cannot be written or a kernel's image has left its cache folder meanwhile. Returns their number.
SINTER_API std::size_t save_bundle(const std::string& path, const char* op, location where) {
  series<portable_kernel> kernels;
  std::size_t gone = 0;
  for (const auto& entry : detail::live_modules().all()) {
    const std::lock_guard guard(entry->mutex);
    if (entry->portable_head.empty()) continue;
    portable_kernel k{entry->portable(entry->portable_head), entry->image};
    if (k.image.empty()) {
      const cache_folder_scope there(entry->folder);
      k.image = disk_cache().find(entry->key.str());
    }
    if (k.image.empty()) ++gone;
    else kernels.push_back(std::move(k));
  }
  if (gone != 0)
    throw system_error("[" + std::string(op) + "] " + std::to_string(gone) + " of " +
                       std::to_string(gone + kernels.size()) +
                       " kernels have left the cache folder; raise SINTER_CACHE_LIMIT, or save before clear_cache()");
  if (kernels.empty()) fail(op, "no kernel is in use yet; call the compiled functions first", where);
  // One of each, where several GPUs run the same.
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  kernels.erase(
      std::unique(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.key == b.key; }),
      kernels.end());
  write_bundle(path, kernels, op);
  return kernels.size();
}

}  // namespace sinter::engine::run
