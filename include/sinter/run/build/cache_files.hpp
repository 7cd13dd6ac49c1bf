// run/build/cache_files.hpp: the files of a cache folder: temporaries, entries, and removal when it is full.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "../../base/text.hpp"
#include "../file.hpp"
#include "../new_file.hpp"

namespace sinter::engine::run {

/// The limit in bytes of a cache folder: $SINTER_CACHE_LIMIT, a number with K, M or G, where 0 means no limit; the default is
/// 1G.
SINTER_API std::uint64_t cache_limit() {
  constexpr std::uint64_t usual = std::uint64_t{1} << 30;
  const std::string text = detail::environment("SINTER_CACHE_LIMIT");
  if (text.empty()) return usual;
  std::uint64_t bytes = 0;
  if (!detail::read_size(text, bytes)) {
    logs::warn_once("SINTER_CACHE_LIMIT=" + text + " is not a number of bytes such as 500M or 2G; using 1G");
    return usual;
  }
  return bytes == 0 ? ~std::uint64_t{0} : bytes;
}

namespace detail {

enum class cache_file : std::uint8_t { none, kernel, other, leftover };

/// The kind of a file in a cache folder, by its name: 32 digits and ".kernel", ".plan" or ".choice"; with a further suffix it is a
/// lock.
SINTER_API cache_file kind_of(std::string_view name) {
  if (name.starts_with(temporary_name)) return cache_file::leftover;
  if (name.find_first_not_of("0123456789abcdef") != 32) return cache_file::none;
  name.remove_prefix(32);
  for (const std::string_view end : {".kernel", ".plan", ".choice"}) {
    if (!name.starts_with(end)) continue;
    if (name.size() == end.size()) return end == ".kernel" ? cache_file::kernel : cache_file::other;
    return name[end.size()] == '.' ? cache_file::leftover : cache_file::none;
  }
  return cache_file::none;
}

struct folder_contents {
  std::size_t kernels = 0;
  std::uint64_t bytes = 0;
  std::size_t removed = 0;
};

/// An entry of a cache folder, with all its names: one for each kernel compiled together.
struct cache_entry {
  series<std::string> names;
  std::uint64_t bytes = 0;
  std::size_t kernels = 0;
  bool dated = true;  ///< its time is not ahead of the clock
  timespec used{};
};

/// The entries of a folder, by inode. Removes leftovers of ended processes.
SINTER_API series<cache_entry> entries_of(int folder) {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = again >= 0 ? ::fdopendir(again) : nullptr;
  if (!listing) {
    if (again >= 0) ::close(again);
    return {};
  }
  const std::time_t soon = std::time(nullptr) + 60;
  std::unordered_map<ino_t, cache_entry> found;
  while (const dirent* const d = ::readdir(listing)) {
    const cache_file kind = kind_of(d->d_name);
    struct stat info {};
    if (kind == cache_file::leftover) remove_leftover(folder, d->d_name);
    const bool kept = kind == cache_file::kernel || kind == cache_file::other;
    if (!kept || ::fstatat(folder, d->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    cache_entry& e = found[info.st_ino];
    e.names.push_back(d->d_name);
    // The disk space, to which the limit applies.
    e.bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
    e.kernels += kind == cache_file::kernel;
    e.dated = info.st_mtim.tv_sec <= soon;
    e.used = info.st_mtim;
  }
  ::closedir(listing);
  series<cache_entry> out;
  for (auto& [inode, entry] : found) out.push_back(std::move(entry));
  return out;
}

/// Removes leftovers of processes that ended at least a minute ago. While the folder exceeds `limit` bytes, removes the least
/// recently used entry, except the one named `spared`. Other users' files stay. An entry whose time is ahead of the clock
/// counts as the oldest: the clock was set back, or the time is invented.
SINTER_API folder_contents sweep(int folder, std::uint64_t limit, std::string_view spared) {
  folder_contents out;
  series<cache_entry> entries = entries_of(folder);
  for (const cache_entry& e : entries) {
    out.bytes += e.bytes;
    out.kernels += e.kernels;
  }
  if (out.bytes <= limit) return out;
  std::sort(entries.begin(), entries.end(), [](const cache_entry& a, const cache_entry& b) {
    return std::tuple(a.dated, a.used.tv_sec, a.used.tv_nsec) < std::tuple(b.dated, b.used.tv_sec, b.used.tv_nsec);
  });
  for (const cache_entry& e : entries) {
    if (out.bytes <= limit) break;
    if (std::find(e.names.begin(), e.names.end(), spared) != e.names.end()) continue;
    const auto left = [&](const std::string& name) { return ::unlinkat(folder, name.c_str(), 0) == 0; };
    if (std::count_if(e.names.begin(), e.names.end(), left) == 0) continue;
    out.bytes -= e.bytes;
    out.kernels -= e.kernels;
    out.removed += e.kernels;
  }
  return out;
}

/// Sweeps a folder occasionally when this process adds `bytes`: at its first addition, and when its additions since the last
/// sweep could fill a sixteenth of the limit.
SINTER_API void keep_below(int folder, const std::string& path, std::uint64_t limit, std::string_view added,
                           std::uint64_t bytes) {
  static std::mutex mutex;
  static auto& added_to = *new series<std::pair<std::string, std::uint64_t>>;
  {
    const std::lock_guard lock(mutex);
    auto at = std::find_if(added_to.begin(), added_to.end(), [&](const auto& a) { return a.first == path; });
    const bool first = at == added_to.end();
    if (first) {
      added_to.push_back({path, 0});
      at = added_to.end() - 1;
    }
    at->second += bytes;
    if (!first && at->second < limit / 16) return;
    at->second = 0;
  }
  const folder_contents now = sweep(folder, limit, added);
  if (now.removed != 0)
    logs::to("cache", [&] {
      return std::to_string(now.removed) + " kernels left " + path + ", which holds " + std::to_string(now.bytes) +
             " bytes now";
    });
}

}  // namespace detail
}  // namespace sinter::engine::run
