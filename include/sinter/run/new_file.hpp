// run/new_file.hpp: writes files completely, or not at all.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "../base/text.hpp"
#include "descriptor.hpp"

namespace sinter::engine::run::detail {

/// The prefix of temporary names of files that are being written, where they need one. Other files do not have such names.
inline constexpr std::string_view temporary_name = ".sinter.tmp.";

/// A temporary name that is unpredictable for other users, and for processes with the same number in another container.
inline std::string random_name() {
  std::uint64_t bits[2] = {};
  if (::getrandom(bits, sizeof bits, 0) != sizeof bits) {
    bits[0] = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    bits[1] = reinterpret_cast<std::uintptr_t>(&bits) ^ static_cast<std::uint64_t>(::getpid());
  }
  return std::string(temporary_name) + text::hex(bits[0]) + text::hex(bits[1]);
}

/// The file name of a path.
inline std::string name_in_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The folder of a path, to name files there.
inline file_handle folder_of_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  return file_handle(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// Reads the umask; umask() itself would briefly change it for all threads. False if it is unknown.
inline bool read_umask(mode_t& mask) {
  char text[4096];
  const file_handle fd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const ssize_t bytes = fd ? ::read(fd.get(), text, sizeof text) : 0;
  std::string_view all(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  constexpr std::string_view row = "\nUmask:\t";
  const std::size_t at = all.find(row);
  if (at == std::string_view::npos) return false;
  all.remove_prefix(at + row.size());
  return std::from_chars(all.data(), all.data() + all.size(), mask, 8).ec == std::errc();
}

/// Removes a file that is not locked and has been unchanged for a minute: a leftover of a killed process. Files of other
/// users, and other kinds of files, stay.
inline void remove_leftover(int folder, const std::string& name) {
  constexpr std::time_t youth = 60;
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
  const file_handle fd(::openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(fd.get(), &info) != 0) return;
  const std::time_t age = std::time(nullptr) - info.st_mtim.tv_sec;
  // A time ahead of the clock is unreliable; the lock decides.
  const bool old = age >= youth || age <= -youth;
  if (old && info.st_uid == ::geteuid() && is_named(folder, name, fd.get())) ::unlinkat(folder, name.c_str(), 0);
}

/// Removes the temporary files in a folder that killed processes have left.
inline void sweep_temporaries(int folder) {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = again >= 0 ? ::fdopendir(again) : nullptr;
  if (!listing) {
    if (again >= 0) ::close(again);
    return;
  }
  while (const dirent* const entry = ::readdir(listing))
    if (std::string_view(entry->d_name).starts_with(temporary_name)) remove_leftover(folder, entry->d_name);
  ::closedir(listing);
}

/// Sweeps the folder of each path once a minute.
inline void sweep_now_and_then(int folder, const std::string& path) {
  using clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static auto& swept = *new std::map<std::string, clock::time_point>;  // threads may outlive statics
  const auto now = clock::now();
  {
    const std::lock_guard lock(mutex);
    if (swept.size() > 1000) swept.clear();
    const auto [at, first] = swept.try_emplace(path, now);
    if (!first && now - at->second < std::chrono::minutes(1)) return;
    at->second = now;
  }
  sweep_temporaries(folder);
}

/// A file that is written before it gets its name. It has no name if the file system supports that, otherwise a random one,
/// chosen again if it is taken. It is locked while open, so that it is not swept. The file with its later name stays until
/// then, and after a failure. False results leave the reason in errno.
class new_file {
 public:
  new_file() = default;
  /// In an open folder. The umask is applied to `mode`.
  new_file(file_handle folder, mode_t mode) : folder_(std::move(folder)) {
    if (folder_ && !open_without_name(mode)) open_with_name(mode);
  }
  new_file(new_file&& other) noexcept
      : folder_(std::move(other.folder_)),
        file_(std::move(other.file_)),
        beside_(std::exchange(other.beside_, std::string())) {}
  new_file& operator=(new_file other) noexcept {
    std::swap(folder_, other.folder_);
    std::swap(file_, other.file_);
    std::swap(beside_, other.beside_);
    return *this;
  }
  ~new_file() {
    if (!beside_.empty()) ::unlinkat(folder_.get(), beside_.c_str(), 0);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  int get() const noexcept { return file_.get(); }
  int folder() const noexcept { return folder_.get(); }
  /// Empty for a file without a name.
  const std::string& temporary() const noexcept { return beside_; }

  /// Sets the permissions of another file's mode. Not every file system has modes.
  void set_mode(mode_t mode) { static_cast<void>(::fchmod(file_.get(), mode & 0777)); }

  /// Gives the file an unused name. False also if files cannot have a name beside a temporary one.
  bool claim(const std::string& name) {
    if (!beside_.empty()) return ::linkat(folder_.get(), beside_.c_str(), folder_.get(), name.c_str(), 0) == 0;
    return ::linkat(AT_FDCWD, own_path().c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }

  /// Gives the file a name, and replaces the file with that name; more names may follow. False as in claim().
  bool also(const std::string& name) {
    if (claim(name)) return true;
    if (errno != EEXIST) return false;
    std::string second = random_name();
    while (!claim(second)) {
      if (errno != EEXIST) return false;
      second = random_name();
    }
    if (::renameat(folder_.get(), second.c_str(), folder_.get(), name.c_str()) == 0) return true;
    const int why = errno;
    ::unlinkat(folder_.get(), second.c_str(), 0);
    errno = why;
    return false;
  }

  /// Gives the file its last name, and replaces the file with that name. With `durable`, it is then on the disk.
  bool finish(const std::string& name, bool durable = false) {
    if (durable && ::fsync(file_.get()) != 0) return false;
    if (beside_.empty()) {
      if (also(name)) return !durable || sync_folder(folder_.get());
      if (!copy_with_name() || (durable && ::fsync(file_.get()) != 0)) return false;
    }
    // A network file system reports failed writes when a descriptor is closed.
    file_handle copy(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    if (copy && !copy.close()) return false;
    if (::renameat(folder_.get(), beside_.c_str(), folder_.get(), name.c_str()) != 0) return false;
    beside_.clear();
    return !durable || sync_folder(folder_.get());
  }

  /// Makes the names in a folder durable.
  static bool sync_folder(int folder) {
    const file_handle readable(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems cannot synchronise folders.
    return !readable || ::fsync(readable.get()) == 0 || errno == EINVAL || errno == ENOTSUP;
  }

 private:
  std::string own_path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

  bool open_without_name(mode_t mode) {
    file_ = file_handle(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
    // The file gets its name through /proc.
    const bool good = file_ && ::access(own_path().c_str(), F_OK) == 0 && keeps_umask(mode);
    if (good) ::flock(file_.get(), LOCK_EX | LOCK_NB);
    else file_ = file_handle();
    return good;
  }

  /// Kernels before 6.0 forget the umask for files without a name.
  bool keeps_umask(mode_t mode) const {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0) return false;
    if ((info.st_mode & 0777) != mode || (mode & 0077) == 0) return true;
    mode_t mask = 0;
    return read_umask(mask) && ((mask & mode) == 0 || ::fchmod(file_.get(), mode & ~mask) == 0);
  }

  void open_with_name(mode_t mode) {
    // With wrong clocks another process may sweep between the calls, so it is made again until it is locked.
    for (int attempt = 0; attempt < 256; ++attempt) {
      const std::string name = random_name();
      file_handle fd(::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
      if (!fd && errno == EEXIST) continue;
      if (!fd) return;
      const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
      if (!locked && errno == EWOULDBLOCK) continue;
      // Where locks do not work, no process removes it.
      if (locked && !is_named(folder_.get(), name, fd.get())) continue;
      beside_ = name;
      file_ = std::move(fd);
      return;
    }
  }

  /// Copies a file without a name, which may not get one because links are forbidden, to a file with a name.
  bool copy_with_name() {
    const file_handle whole = std::move(file_);
    struct stat info {};
    std::string piece(std::size_t{1} << 20, '\0');
    open_with_name(0600);
    if (!file_ || ::fstat(whole.get(), &info) != 0) return false;
    set_mode(info.st_mode);
    for (off_t at = 0;;) {
      const ssize_t got = ::pread(whole.get(), piece.data(), piece.size(), at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return got == 0;
      if (!write_all(file_.get(), std::string_view(piece).substr(0, static_cast<std::size_t>(got)))) return false;
      at += got;
    }
  }

  file_handle folder_, file_;
  std::string beside_;
};

/// Writes `bytes` in place of the file at `path`, and keeps its mode. False, with errno, on failure.
inline bool replace_file(const std::string& path, std::string_view bytes, bool durable = false) {
  const std::string name = name_in_folder(path);
  new_file file(folder_of_path(path), 0666);
  struct stat old {};
  if (file && ::fstatat(file.folder(), name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode))
    file.set_mode(old.st_mode);
  return file && write_all(file.get(), bytes) && file.finish(name, durable);
}

}  // namespace sinter::engine::run::detail
