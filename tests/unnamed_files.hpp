// tests/unnamed_files.hpp: a system on which files may have to have names while they are written, and what killed writers leave there.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

/// While true no folder has files without a name.
inline bool no_unnamed_files = false;

// The one that the library calls.
extern "C" __attribute__((weak)) int openat(int folder, const char* name, int how, ...) {
  std::va_list more;
  va_start(more, how);
  const auto mode = static_cast<mode_t>(how & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0);
  va_end(more);
  if (no_unnamed_files && (how & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_openat, folder, name, how, mode));
}

namespace unnamed_files {

/// The names in a folder, links that lead nowhere among them.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& f : std::filesystem::directory_iterator(folder)) out.push_back(f.path().filename().string());
  return out;
}

/// Sets the time of a file, in seconds from now.
inline bool date(const std::string& path, long seconds) {
  const timespec at{std::time(nullptr) + seconds, 0};
  const timespec both[] = {at, at};
  return ::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace unnamed_files
