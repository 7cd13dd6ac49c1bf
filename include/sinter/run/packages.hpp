// run/packages.hpp: the folders where Python and npm keep packages, which may hold libraries.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "../base/config.hpp"
#include "../base/series.hpp"
#include "file.hpp"

namespace sinter::engine::run {

namespace detail {

/// The folder's entries that begin with `prefix`, in descending order.
inline series<std::string> entries(const std::string& folder, std::string_view prefix) {
  series<std::string> out;
  if (DIR* const listing = ::opendir(folder.c_str())) {
    while (const dirent* const entry = ::readdir(listing))
      if (std::string_view(entry->d_name).starts_with(prefix)) out.push_back(folder + "/" + entry->d_name);
    ::closedir(listing);
  }
  std::sort(out.rbegin(), out.rend());
  return out;
}

inline series<std::string> split_path(const std::string& list) {
  series<std::string> out;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    if (end > at) out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace detail

/// Folders of Python's packages: PYTHONPATH, $VIRTUAL_ENV, and the interpreters in PATH.
SINTER_API series<std::string> python_folders() {
  series<std::string> out = detail::split_path(detail::environment("PYTHONPATH"));
  series<std::string> pythons;
  if (auto active = detail::environment("VIRTUAL_ENV"); !active.empty()) pythons.push_back(std::move(active));
  for (const auto& bin : detail::split_path(detail::environment("PATH"))) pythons.push_back(bin + "/..");
  for (const auto& python : pythons)
    for (const auto& version : detail::entries(python + "/lib", "python3"))
      for (const char* folder : {"/site-packages", "/dist-packages"}) out.push_back(version + folder);
  return out;
}

/// Folders of npm's packages: NODE_PATH, then those that are installed for all, beside the programs in PATH.
SINTER_API series<std::string> npm_folders() {
  series<std::string> out = detail::split_path(detail::environment("NODE_PATH"));
  for (const auto& bin : detail::split_path(detail::environment("PATH"))) out.push_back(bin + "/../lib/node_modules");
  return out;
}

}  // namespace sinter::engine::run
