// run/cuda/device/library.hpp: finds and opens NVIDIA's libraries; none is linked, and none is opened before its first use.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "../../../base/config.hpp"
#include "../../../base/series.hpp"
#include "../../background.hpp"
#include "../../file.hpp"
#include "../../packages.hpp"

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

using run::detail::entries;
using run::detail::environment;

/// Folders of installed CUDA toolkits, then of Python's packages.
SINTER_API series<std::string> library_folders(const library_names& names) {
  series<std::string> out;
  series<std::string> prefixes;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto prefix = environment(variable); !prefix.empty()) prefixes.push_back(std::move(prefix));
  prefixes.push_back("/usr/local/cuda");
  for (auto& versioned : entries("/usr/local", "cuda-")) prefixes.push_back(std::move(versioned));
  for (const auto& prefix : prefixes)
    for (const char* folder : {"/lib64", "/lib"}) out.push_back(prefix + folder);

  for (const auto& package : python_folders())
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
