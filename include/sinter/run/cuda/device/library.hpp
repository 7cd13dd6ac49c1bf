// run/cuda/device/library.hpp: finds and opens NVIDIA's libraries; none is linked, and none is opened before its first use.
#pragma once

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "../../../base/config.hpp"
#include "../../../base/series.hpp"
#include "../../background.hpp"
#include "../../file.hpp"

namespace sinter::engine::run::cuda {

/// The names of one of NVIDIA's libraries.
struct library_names {
  const char* override_variable;  ///< names the only file to open
  series<std::string> files;      ///< in order of preference
  series<std::string> wheels;     ///< folders of site-packages/nvidia that hold it
};

/// An opened library; if `handle` is null, `problem` lists the attempts.
struct library {
  void* handle = nullptr;
  std::string path;
  std::string problem;
};

namespace detail {

using run::detail::environment;

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

/// Folders of installed CUDA toolkits, then of Python's packages: $VIRTUAL_ENV, PYTHONPATH, and the interpreters in PATH.
SINTER_API series<std::string> library_folders(const library_names& names) {
  series<std::string> out;
  series<std::string> prefixes;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto prefix = environment(variable); !prefix.empty()) prefixes.push_back(std::move(prefix));
  prefixes.push_back("/usr/local/cuda");
  for (auto& versioned : entries("/usr/local", "cuda-")) prefixes.push_back(std::move(versioned));
  for (const auto& prefix : prefixes)
    for (const char* folder : {"/lib64", "/lib"}) out.push_back(prefix + folder);

  series<std::string> packages = split_path(environment("PYTHONPATH"));
  series<std::string> pythons;
  if (auto active = environment("VIRTUAL_ENV"); !active.empty()) pythons.push_back(std::move(active));
  for (const auto& bin : split_path(environment("PATH"))) pythons.push_back(bin + "/..");
  for (const auto& python : pythons)
    for (const auto& version : entries(python + "/lib", "python3"))
      for (const char* folder : {"/site-packages", "/dist-packages"}) packages.push_back(version + folder);
  for (const auto& package : packages)
    for (const auto& wheel : names.wheels) out.push_back(package + "/nvidia/" + wheel + "/lib");
  return out;
}

inline bool try_open(library& found, const std::string& path) {
  found.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found.handle != nullptr) {
    background::end_first();
    found.path = path;
    return true;
  }
  const char* const words = ::dlerror();
  // Among failures, those with a reason other than absence are reported.
  if (words != nullptr && std::string_view(words).find("No such file") == std::string_view::npos) found.problem = words;
  return false;
}

}  // namespace detail

/// Opens the file that the override names, or the first file found.
SINTER_API library open_library(const library_names& names) {
  library found;
  if (const auto chosen = detail::environment(names.override_variable); !chosen.empty()) {
    if (!detail::try_open(found, chosen))
      found.problem = std::string(names.override_variable) + "=" + chosen + " cannot be opened" +
                      (found.problem.empty() ? "" : ": " + found.problem);
    return found;
  }
  for (const auto& file : names.files)
    if (detail::try_open(found, file)) return found;
  for (const auto& folder : detail::library_folders(names))
    for (const auto& file : names.files)
      if (::access((folder + "/" + file).c_str(), R_OK) == 0 && detail::try_open(found, folder + "/" + file))
        return found;
  if (found.problem.empty()) found.problem = names.files.front() + " was not found";
  return found;
}

}  // namespace sinter::engine::run::cuda
