// run/library.hpp: the shared libraries of the process, by an address in them.
#pragma once

#include <dlfcn.h>

#include <link.h>

#include <string>

#include "../base/config.hpp"
#include "file.hpp"

namespace sinter::engine::run {

/// Where the library, or the program, that an address lies in begins; null for memory that is none's.
inline const void* library_of(const void* address) {
  Dl_info in{};
  return ::dladdr(address, &in) != 0 ? in.dli_fbase : nullptr;
}

/// From now on closing the library that the address lies in does not unload it. Nothing happens for the program itself.
SINTER_API void keep_loaded(const void* address) {
  Dl_info in{};
  if (!address || ::dladdr(address, &in) == 0 || !in.dli_fname || !*in.dli_fname) return;
  // One more handle, which nobody closes.
  if (!::dlopen(in.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) ::dlerror();
}

/// The stamp of the file that the code at an address was loaded from; empty where that is not known.
SINTER_API std::string stamp_of(const void* address) {
  Dl_info in{};
  void* map = nullptr;
  if (::dladdr1(address, &in, &map, RTLD_DL_LINKMAP) == 0) return "";
  const char* const name = map ? static_cast<const link_map*>(map)->l_name : "";
  const std::string stamp = detail::file_stamp(name && *name ? name : "/proc/self/exe");
  return stamp == "absent" ? "" : stamp;
}

}  // namespace sinter::engine::run
