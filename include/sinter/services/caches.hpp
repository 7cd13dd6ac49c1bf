// services/caches.hpp: the caches of compiled kernels, for front/.
#pragma once

#include <string>
#include <utility>

#include "../engine/engine.hpp"
#include "../run/build/save_bundle.hpp"
#include "../run/cuda/program/nvrtc.hpp"
#include "../run/progress.hpp"

namespace sinter::engine {

SINTER_API std::size_t save_cache(const std::string& path, location at) {
  return run::save_bundle(path, "save_cache", at);
}

SINTER_API std::size_t load_cache(const std::string& path, location at) {
  series<std::string> targets = run::cuda::targets();
  targets.push_back(run::host_target());
  return run::read_bundle(path, targets, "load_cache", at);
}

SINTER_API std::size_t clear_cache(const std::string& folder) {
  const run::cache_folder_scope there(folder);
  return run::disk_cache().clear();
}

SINTER_API cache_contents cache_info(const std::string& folder) {
  const run::cache_folder_scope there(folder);
  const run::disk_cache cache;
  const auto now = cache.contents();
  return {cache.path(), now.kernels, now.bytes, run::cache_limit()};
}

SINTER_API compile_counts compile_progress() {
  const std::size_t made = run::progress::all_made();  // read first, so that it does not exceed the other count
  return {run::progress::all_wanted(), made};
}

}  // namespace sinter::engine
