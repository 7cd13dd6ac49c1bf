// run/descriptor.hpp: open files and common operations on them; no exceptions, errno has the reason.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "../base/size_signal.hpp"

namespace sinter::engine::run::detail {

/// The value of an environment variable; empty when unset.
inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// A number of bytes with the suffix K, M or G. False for other texts, and for numbers that are too large.
inline bool read_size(std::string_view text, std::uint64_t& bytes) {
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, bytes);
  const std::string_view unit(end, static_cast<std::size_t>(stop - end));
  const int shift = unit == "" ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || bytes > ~std::uint64_t{0} >> shift) return false;
  bytes <<= shift;
  return true;
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
  /// False if written data did not arrive.
  bool close() noexcept { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

/// Like write_all, for a caller that blocks SIGXFSZ.
inline bool write_held(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

inline bool write_all(int fd, std::string_view bytes) {
  const sinter::detail::no_size_signal quiet;
  return write_held(fd, bytes);
}

/// True if the name still refers to this open file.
inline bool is_named(int folder, const std::string& name, int fd) {
  struct stat held {
  }, named{};
  return ::fstat(fd, &held) == 0 && ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/// The kind of a file that is not a regular file, in words.
inline const char* name_of_kind(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISLNK(mode)  ? "a symbolic link"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

}  // namespace sinter::engine::run::detail
