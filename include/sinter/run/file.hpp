// run/file.hpp: files and folders as the other headers of this room need them; no exceptions, errno tells why.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "../base/config.hpp"
#include "../base/error.hpp"

namespace sinter::engine::run::detail {

/// The value of an environment variable; empty when unset.
inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// Owns a file descriptor.
class file_handle {
 public:
  explicit file_handle(int fd = -1) noexcept : fd_(fd) {}
  file_handle(file_handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  file_handle& operator=(file_handle other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~file_handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

/// Holds back SIGXFSZ on this thread: a file size limit is then an error of write() and not the end of the program.
class no_size_signal {
 public:
  no_size_signal() {
    sigset_t pending;
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
    was_pending_ = ::sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  }
  no_size_signal(const no_size_signal&) = delete;
  no_size_signal& operator=(const no_size_signal&) = delete;
  ~no_size_signal() {
    const int saved = errno;
    const timespec now{};
    if (!was_pending_) ::sigtimedwait(&only_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }

 private:
  sigset_t only_{}, before_{};
  bool was_pending_ = false;
};

SINTER_API bool write_all(int fd, std::string_view bytes) {
  const no_size_signal quiet;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Reads what the file holds, at most `limit` bytes of it.
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

/// The file's first `limit` bytes; empty when it cannot be read.
inline std::string read_file(const std::string& path, std::size_t limit = std::string::npos) {
  std::string out;
  const file_handle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || !read_all(fd.get(), out, limit)) out.clear();
  return out;
}

inline bool write_file(const std::string& path, std::string_view bytes) {
  const file_handle fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return fd && write_all(fd.get(), bytes);
}

/// Owned by this user, and nobody else may write to it.
inline bool is_private(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

inline std::string temporary_folder() {
  const std::string chosen = environment("TMPDIR");
  return chosen.empty() ? "/tmp" : chosen;
}

/// True where there is hardly room for a compiler's temporary files.
SINTER_API bool is_full(const std::string& folder) {
  struct statvfs room {};
  return ::statvfs(folder.c_str(), &room) == 0 && std::uint64_t{room.f_bavail} * room.f_frsize < (256 << 10);
}

/// A private folder for temporary files; gone with its files at the end of the scope. Throws system_error.
class scratch_folder {
 public:
  scratch_folder() : path_(temporary_folder() + "/sinter-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr)
      throw system_error("no temporary folder can be made in " + temporary_folder() + ": " + std::strerror(errno) +
                         "; set TMPDIR to a folder that can be written");
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    if (DIR* const listing = ::opendir(path_.c_str())) {
      while (const dirent* const entry = ::readdir(listing)) ::unlinkat(::dirfd(listing), entry->d_name, 0);
      ::closedir(listing);
    }
    ::rmdir(path_.c_str());
  }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace sinter::engine::run::detail
