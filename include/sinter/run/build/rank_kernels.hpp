// run/build/rank_kernels.hpp: kernels that one rank compiles, and the others receive as a bundle.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../base/config.hpp"
#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "../ranks.hpp"
#include "bundle.hpp"
#include "cache.hpp"
#include "job.hpp"
#include "toolchain.hpp"
#include "unit.hpp"

namespace sinter::engine::run::detail {

/// The image of a kernel in use, under its entry's lock; empty if it has left its cache folder. `others` receives the keys of
/// the kernels that share it on disk.
SINTER_API std::string image_of(const live_entry& entry, series<std::string>* others = nullptr) {
  if (!entry.image.empty()) return std::string(entry.image);
  const cache_folder_scope there(entry.folder);
  return disk_cache().find(entry.key.str(), others);
}

/// The order of kernels, by all that decides their code: version, instructions or SM, flags, compiler, driver, and text. Null
/// where ranks share none.
SINTER_API std::unique_ptr<kernel_order> order_of(std::span<job* const> jobs, const toolchain& with) {
  if (world().size() == 1) return nullptr;
  const std::string compiler = with.compiler(), head = job::portable_head(with);
  if (compiler.empty()) return nullptr;
  std::vector<std::string> texts;
  for (const job* const j : jobs) texts.push_back(compiler + "\n" + j->entry->portable(head));
  return world().order_kernels(texts);
}

/// A kernel's image, the keys of the kernels that share it on disk, and its address in memory.
struct found_image {
  std::string bytes;
  series<std::string> others;
  const char* memory = nullptr;

  explicit found_image(live_entry& entry) {
    const std::lock_guard guard(entry.mutex);
    memory = entry.image.data();
    bytes = image_of(entry, &others);
  }
  bool has(live_entry& entry) const {
    if (std::find(others.begin(), others.end(), entry.key.str()) != others.end()) return true;
    const std::lock_guard guard(entry.mutex);
    return memory && entry.image.data() == memory;
  }
};

/// Gives the other ranks this rank's kernels, in bundles of bounded size. An image that is larger is left out, so that they
/// compile it.
SINTER_API void give_kernels(kernel_order& order, std::span<job* const> jobs) {
  constexpr std::size_t around = 64, most = kernel_order::max_bytes - 4096;  // bytes beside images
  series<char> done(jobs.size(), 0);
  series<portable_kernel> kernels;
  std::vector<std::size_t> which;
  std::size_t bytes = 0;
  const auto send = [&] {
    if (!which.empty()) order.give(which, pack_bundle({kernels.data(), kernels.size()}));
    kernels.clear();
    which.clear();
    bytes = 0;
  };
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    if (!order.is_mine(k) || done[k]) continue;
    found_image image(*jobs[k]->entry);
    if (image.bytes.empty() || image.bytes.size() + around > most) continue;
    if (bytes + image.bytes.size() + around > most) send();
    bytes += image.bytes.size();
    for (std::size_t m = k; m < jobs.size(); ++m) {
      if (!order.is_mine(m) || done[m] || (m != k && !image.has(*jobs[m]->entry))) continue;
      done[m] = 1;
      kernels.push_back({std::string(order.name(m)), std::exchange(image.bytes, {})});
      which.push_back(m);
      bytes += around;
    }
  }
  send();
}

/// Takes the kernels that other ranks make; returns those that do not come.
SINTER_API series<job*> take_kernels(kernel_order& order, std::span<job* const> jobs, const disk_cache& cache,
                                     const toolchain& with) {
  const auto start = clock::now();
  const auto bundles = order.take();
  std::unordered_map<std::string_view, std::string_view> images;  // by name
  for (const auto& b : bundles) {
    std::string why;
    for (const kernel_view& k : unpack_bundle(*b, why)) images.emplace(k.key, k.image);
    if (!why.empty()) logs::warn_once("kernels that another rank has sent are damaged; this rank compiles them itself");
  }
  loaded_images known;
  series<job*> rest;
  std::map<std::string_view, series<job*>> of;  // by image
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    job& j = *jobs[k];
    if (order.is_mine(k)) continue;
    j.milliseconds += std::chrono::duration<double, std::milli>(clock::now() - start).count();
    // Ranks of one host may share the folder.
    if (j.look_up(cache, with, known)) continue;
    const auto at = images.find(order.name(k));
    if (at != images.end() && has_entries(at->second, j.source->str())) of[at->second].push_back(&j);
    else rest.push_back(&j);
  }
  for (auto& [image, same] : of) {
    const auto loaded = job::try_load(image, with);
    if (loaded)
      job::keep({same.data(), same.size()}, make_on_heap<const std::string>(image), loaded, false, cache, with);
    else rest.insert(rest.end(), same.begin(), same.end());
  }
  return rest;
}

}  // namespace sinter::engine::run::detail
