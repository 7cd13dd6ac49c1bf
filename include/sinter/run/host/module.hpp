// run/host/module.hpp: a loaded shared object; unloaded after its last user.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "../../base/callback.hpp"
#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../file.hpp"

namespace sinter::engine::run {

/// The signature of every emitted kernel.
using kernel_function = void(void* const* buffers, char* scratch, const long* sizes);

class module {
 public:
  explicit module(void* handle) : handle_(handle) {}
  module(const module&) = delete;
  module& operator=(const module&) = delete;
  ~module() { ::dlclose(handle_); }

  /// The address of a symbol, or null.
  void* find(const char* name) const { return ::dlsym(handle_, name); }

  /// The address of a symbol as a pointer to `Function`. Throws system_error if it is missing.
  template <class Function>
  Function* symbol(const std::string& name) const {
    void* const address = find(name.c_str());
    if (address == nullptr) throw system_error("a compiled kernel lacks its entry point '" + name + "'");
    return reinterpret_cast<Function*>(address);
  }

 private:
  void* handle_;
};

namespace detail {

/// "/proc/self/fd/N" in a spelling that is unique in this process, because the loader identifies libraries by name. The
/// file's inode number distinguishes it from libraries loaded by another engine in the process, such as in a plug-in. Empty
/// without a number.
SINTER_API std::string unique_fd_path(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return "";
  std::string path = "/proc/self/fd/";
  for (std::uint64_t bits = info.st_ino; bits != 0; bits >>= 1) path += bits & 1 ? "./" : "/";
  return path + std::to_string(fd);
}

/// A kernel may be unloaded, but not the OpenMP runtime loaded with it, whose threads continue.
SINTER_API void pin_openmp() {
  static std::atomic<bool> pinned{false};
  if (pinned.load(std::memory_order_relaxed)) return;
  if (::dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr) pinned = true;
}

inline void* load_memory_file(std::string_view image) {
  const file_handle fd(::memfd_create("sinter-kernel", MFD_CLOEXEC));
  if (!fd || !write_all(fd.get(), image)) return nullptr;
  const std::string path = unique_fd_path(fd.get());
  return path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

inline void* load_temporary_file(std::string_view image, std::string& why) {
  const scratch_folder folder;
  static std::atomic<unsigned> counter{0};
  const std::string path =
      folder.path() + "/kernel-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".so";
  {
    const file_handle fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
    if (!fd || !write_all(fd.get(), image)) {
      why = path + ": " + why_unwritten(errno, "set TMPDIR to a folder with free space");
      return nullptr;
    }
  }
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    if (const char* text = ::dlerror()) why = text;
  return handle;
}

}  // namespace detail

/// Loads the bytes of a shared object, through an anonymous file or, if that is forbidden, a private temporary file. Throws
/// system_error with the loader's message.
SINTER_API std::shared_ptr<const module> load(std::string_view image) {
  void* handle = detail::load_memory_file(image);
  std::string why;
  if (handle == nullptr) handle = detail::load_temporary_file(image, why);
  if (handle == nullptr) throw system_error("a compiled kernel could not be loaded: " + why);
  detail::pin_openmp();
  try {
    return make_on_heap<const module>(handle);
  } catch (...) {
    ::dlclose(handle);
    throw;
  }
}

}  // namespace sinter::engine::run
