// run/file.hpp: files and folders for the other headers of this room; no exceptions, errno has the reason.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "../base/config.hpp"
#include "../base/error.hpp"
#include "descriptor.hpp"

namespace sinter::engine::run::detail {

/// Reads the contents of a file, at most `limit` bytes.
SINTER_API bool read_all(int fd, std::string& out, std::size_t limit = std::string::npos) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  out.resize(std::min(static_cast<std::size_t>(info.st_size), limit));
  std::size_t at = 0;
  while (at < out.size()) {
    const ssize_t n = ::read(fd, out.data() + at, out.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  out.resize(at);
  return true;
}

/// A regular file's first `limit` bytes; empty when it cannot be read.
inline std::string read_file(const std::string& path, std::size_t limit = std::string::npos) {
  std::string out;
  const file_handle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  const bool good = fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && read_all(fd.get(), out, limit);
  if (!good) out.clear();
  return out;
}

inline bool write_file(const std::string& path, std::string_view bytes) {
  const file_handle fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return fd && write_all(fd.get(), bytes);
}

/// Whether the file belongs to this user, and other users cannot write to it.
inline bool is_private(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

inline std::string temporary_folder() {
  const std::string chosen = environment("TMPDIR");
  return chosen.empty() ? "/tmp" : chosen;
}

/// Size and modification time of a file: equal while it is unchanged.
inline std::string file_stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "absent";
  return std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

/// True if there is too little room for a compiler's temporary files.
SINTER_API bool is_full(const std::string& folder) {
  struct statvfs room {};
  return ::statvfs(folder.c_str(), &room) == 0 && std::uint64_t{room.f_bavail} * room.f_frsize < (256 << 10);
}

/// The text of errno for a file that cannot be written, with a remedy: `remedy`, or another one if the process has a limit on
/// file sizes.
inline std::string why_unwritten(int error, const std::string& remedy) {
  return std::strerror(error) +
         ("; " + (error == EFBIG ? "raise the process's limit on the size of files (ulimit -f)" : remedy));
}

/// Why a program may be unable to write temporary files into a folder, with a remedy; empty if unknown. `said` is the
/// program's output, `signal` the signal that ended it.
SINTER_API std::string why_no_files(const std::string& folder, std::string_view said, int signal) {
  const auto says = [&](const char* words) { return said.find(words) != std::string_view::npos; };
  constexpr rlim_t enough = 1 << 20;
  rlimit size{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY;
  const bool met = signal == SIGXFSZ || says("File size limit exceeded") || says("File too large");
  if (met || (limited && size.rlim_cur < enough))
    return "temporary files may not be as large as a compiler's" +
           (limited ? ": the process's limit is " + std::to_string(size.rlim_cur) + " bytes" : std::string()) +
           "; raise it (ulimit -f)";
  if (is_full(folder) || says("No space left on device") || says("Disk quota exceeded"))
    return "there is no room for temporary files below " + temporary_folder() +
           "; set TMPDIR to a folder with free space";
  return "";
}

/// The prefix of scratch folders' names, which mkdtemp completes. No other entries of a temporary folder have such names.
inline constexpr std::string_view scratch_name = "sinter.scratch.";

inline file_handle open_folder(int at, const char* name) {
  return file_handle(::openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Removes an open folder with its files.
inline void remove_folder(int fd, int at, const char* name) {
  const int again = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = again >= 0 ? ::fdopendir(again) : nullptr;
  if (listing) {
    while (const dirent* const entry = ::readdir(listing)) ::unlinkat(fd, entry->d_name, 0);
    ::closedir(listing);
  } else if (again >= 0) {
    ::close(again);
  }
  ::unlinkat(at, name, AT_REMOVEDIR);
}

/// Removes scratch folders below `folder` that killed processes of this user left; no process locks them.
SINTER_API void sweep_scratch(const std::string& folder) {
  DIR* const listing = ::opendir(folder.c_str());
  if (!listing) return;
  const int at = ::dirfd(listing);
  while (const dirent* const entry = ::readdir(listing)) {
    if (!std::string_view(entry->d_name).starts_with(scratch_name)) continue;
    const file_handle fd = open_folder(at, entry->d_name);
    struct stat info {};
    // Locked until it is removed: a process that has just made the folder meets the lock, and makes another.
    if (fd && ::fstat(fd.get(), &info) == 0 && is_private(info) && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 &&
        is_named(at, entry->d_name, fd.get()))
      remove_folder(fd.get(), at, entry->d_name);
  }
  ::closedir(listing);
}

/// Sweeps each folder once.
SINTER_API void sweep_scratch_once(const std::string& folder) {
  static std::mutex mutex;
  static auto& swept = *new std::set<std::string>;  // threads may outlive statics
  {
    const std::lock_guard lock(mutex);
    if (!swept.insert(folder).second) return;
  }
  sweep_scratch(folder);
}

/// A private folder for temporary files, removed with its files at the end of the scope. It is locked meanwhile, so that a
/// later process can remove folders of killed processes. Throws system_error.
class scratch_folder {
 public:
  scratch_folder() {
    const std::string below = temporary_folder();
    sweep_scratch_once(below);
    // Another process may sweep between the calls, even repeatedly, so it is made again until it is locked.
    for (int attempt = 0; attempt < 256; ++attempt) {
      path_ = below + "/" + std::string(scratch_name) + "XXXXXX";
      if (::mkdtemp(path_.data()) == nullptr)
        throw system_error("no temporary folder can be made in " + below + ": " +
                           why_unwritten(errno, "set TMPDIR to a folder that can be written and has free space"));
      held_ = open_folder(AT_FDCWD, path_.c_str());
      const bool locked = held_ && ::flock(held_.get(), LOCK_EX | LOCK_NB) == 0;
      if (!locked && (errno == EWOULDBLOCK || errno == ENOENT)) continue;
      // Where locks do not work, no process removes it.
      if (held_ ? is_named(AT_FDCWD, path_, held_.get()) : ::access(path_.c_str(), F_OK) == 0) return;
    }
    throw system_error("no temporary folder can be made in " + below + ": each is removed as soon as it is there");
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    if (!held_) held_ = open_folder(AT_FDCWD, path_.c_str());  // there were too many open files at that time
    remove_folder(held_.get(), AT_FDCWD, path_.c_str());
  }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  file_handle held_;
};

}  // namespace sinter::engine::run::detail
