// io/file_rules.hpp: what file.hpp declares; files that are there whole or not at all.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "file.hpp"

namespace sinter::io::detail {

[[noreturn]] inline void fail_errno(const char* op, const std::string& path, const char* what, location at) {
  const int error = errno;
  fail_file(op, path, std::string(what) + ": " + std::strerror(error), at);
}

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// False when what was written did not arrive.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

SINTER_API storage kept_bytes(std::vector<std::byte> bytes) {
  struct owner : sinter::detail::block {
    std::vector<std::byte> all;
  };
  auto* const b = new owner;
  b->all = std::move(bytes);
  b->data = b->all.data();
  b->bytes = b->all.size();
  b->release = [](sinter::detail::block* x) noexcept { delete static_cast<owner*>(x); };
  return storage(b);
}

/// What a pipe or a device gives until it ends.
inline storage read_stream(const char* op, const std::string& path, int fd, location at) {
  std::vector<std::byte> all;
  for (;;) {
    const std::size_t have = all.size();
    all.resize(have + (std::size_t{1} << 16));
    const ssize_t got = ::read(fd, all.data() + have, all.size() - have);
    if (got < 0 && errno == EINTR) {
      all.resize(have);
      continue;
    }
    if (got < 0) fail_errno(op, path, "cannot be read", at);
    all.resize(have + static_cast<std::size_t>(got));
    if (got == 0) break;
  }
  return kept_bytes(std::move(all));
}

inline void unmap(sinter::detail::block* x) noexcept {
  if (x->bytes > 0) ::munmap(x->data, x->bytes);
  delete x;
}

SINTER_API storage map_file(const char* op, const std::string& path, location at) {
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_errno(op, path, "cannot be opened", at);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) fail_errno(op, path, "cannot be read", at);
  if (S_ISDIR(facts.st_mode)) fail_file(op, path, "is a folder, not a file", at);
  if (!S_ISREG(facts.st_mode)) return read_stream(op, path, file.get(), at);
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  void* data = nullptr;
  if (bytes > 0) {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
    if (data == MAP_FAILED) fail_errno(op, path, "cannot be mapped", at);
  }
  auto* const b = new sinter::detail::block;
  b->data = data;
  b->bytes = bytes;
  b->release = unmap;
  return storage(b);
}

SINTER_API void leave_memory(const storage& file, std::span<const std::byte> part) {
  if (!file || file.get()->release != &unmap) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const whole = static_cast<std::byte*>(file.data());
  if (part.data() < whole || part.data() + part.size() > whole + file.bytes()) return;
  const auto first = (static_cast<std::size_t>(part.data() - whole) + page - 1) / page * page;
  const auto last = static_cast<std::size_t>(part.data() + part.size() - whole) / page * page;
  if (first < last) ::madvise(whole + first, last - first, MADV_DONTNEED);
}

SINTER_API std::string real_path(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  std::string text = real ? real : "";
  std::free(real);
  return text;
}

/// Makes the names in a folder durable.
inline void sync_folder(const char* op, const std::string& path, location at) {
  const descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems have no folders to be synchronised.
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_errno(op, path, "cannot be made durable", at);
}

/// Writes a file beside the one that it becomes with finish(); until then, and when something fails, that one is as it was.
/// `durable`: finish() returns when it is on the disk. Devices and pipes are written as they are.
class file_writer {
 public:
  file_writer(const char* op, const std::string& path, bool durable, location at)
      : op_(op), path_(path), durable_(durable), at_(at), file_(open()) {}
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;
  ~file_writer() {
    if (!beside_.empty()) ::unlink(beside_.c_str());
  }

  void write(const void* data, std::size_t bytes) {
    const char* p = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = ::write(file_.get(), p, std::min(bytes, std::size_t{1} << 30));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_errno(op_, path_, "cannot be written", at_);
      p += done;
      bytes -= static_cast<std::size_t>(done);
      written_ += static_cast<std::size_t>(done);
    }
  }
  void write(const std::string& text) { write(text.data(), text.size()); }
  std::size_t written() const { return written_; }

  void finish() {
    if (durable_ && !beside_.empty() && ::fsync(file_.get()) != 0) fail_errno(op_, path_, "cannot be written", at_);
    if (!file_.close()) fail_errno(op_, path_, "cannot be written", at_);
    if (beside_.empty()) return;
    if (::rename(beside_.c_str(), path_.c_str()) != 0) fail_errno(op_, path_, "cannot be replaced", at_);
    beside_.clear();
    if (durable_) sync_folder(op_, folder_of(path_), at_);
  }

 private:
  int open() {
    struct stat facts {};
    const bool there = ::stat(path_.c_str(), &facts) == 0;
    if (there && S_ISDIR(facts.st_mode)) fail_file(op_, path_, "is a folder, not a file", at_);
    if (there && !S_ISREG(facts.st_mode)) {
      const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) fail_errno(op_, path_, "cannot be written", at_);
      return fd;
    }
    // What a link leads to is replaced, not the link.
    if (const std::string real = there ? real_path(path_) : ""; !real.empty()) path_ = real;
    static std::atomic<unsigned> count{0};
    beside_ = path_ + ".tmp" + std::to_string(::getpid()) + "_" + std::to_string(count++);
    const int fd = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
      beside_.clear();
      fail_errno(op_, path_, "cannot be written", at_);
    }
    // Not every file system has modes.
    if (there && ::fchmod(fd, facts.st_mode & 07777) != 0) errno = 0;
    return fd;
  }

  const char* op_;
  std::string path_, beside_;
  bool durable_;
  location at_;
  std::size_t written_ = 0;
  descriptor file_;
};

}  // namespace sinter::io::detail
