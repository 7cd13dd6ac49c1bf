// run/library.hpp: the shared libraries of the process, by an address in them.
#pragma once

#include <dlfcn.h>

#include "../base/config.hpp"

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

}  // namespace sinter::engine::run
