// io/file_rules.hpp: the definitions for file.hpp, and writers that leave a complete file or none.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../run/digest.hpp"
#include "../run/given_file.hpp"
#include "../run/new_file.hpp"
#include "file.hpp"

namespace sinter::io {

SINTER_API void set_pipe_limit(std::uint64_t bytes) {
  engine::run::detail::chosen_pipe_limit = bytes == 0 ? ~std::uint64_t{0} : bytes;
}

namespace detail {

namespace files = engine::run::detail;

[[noreturn]] inline void fail_errno(const char* op, const std::string& path, const char* what, location at) {
  const int error = errno;
  fail_file(op, path, std::string(what) + ": " + std::strerror(error), at);
}

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

inline void unmap(sinter::detail::block* x) noexcept {
  if (x->bytes > 0) ::munmap(x->data, x->bytes);
  delete x;
}

inline storage read_given(const char* op, const std::string& path, bool pipes, location at) {
  std::string why;
  struct stat facts {};
  const files::file_handle file = files::open_given(path, pipes, facts, why);
  if (!file && why.empty()) fail_errno(op, path, "cannot be opened", at);
  if (!why.empty()) fail_file(op, path, why, at);
  if (const auto bytes = static_cast<std::size_t>(facts.st_size); S_ISREG(facts.st_mode) && bytes > 0) {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
    if (data != MAP_FAILED) {
      auto* const b = new sinter::detail::block;
      b->data = data;
      b->bytes = bytes;
      b->release = unmap;
      return storage(b);
    }
    if (errno != ENODEV) fail_errno(op, path, "cannot be mapped", at);
  }
  // Files in /proc have no size, and some file systems cannot map files.
  std::vector<std::byte> all;
  if (why = files::read_stream(file.get(), facts, all); !why.empty()) fail_file(op, path, why, at);
  return kept_bytes(std::move(all));
}

SINTER_API storage map_file(const char* op, const std::string& path, location at) {
  return read_given(op, path, true, at);
}
SINTER_API storage map_regular_file(const char* op, const std::string& path, location at) {
  return read_given(op, path, false, at);
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

/// The target of a link at a path, link by link, if it exists. system_error for links of other users. Otherwise a user with
/// write access to the folder could choose the file to be replaced.
inline std::string without_links(const char* op, std::string path, location at) {
  for (int hops = 0; hops < 40; ++hops) {
    const files::file_handle link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    if (!link || ::fstat(link.get(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return path;
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
      fail_file(op, path, "is a link of another user, and what it leads to is not replaced; give the file's path", at);
    std::string to(4096, '\0');
    const ssize_t length = ::readlinkat(link.get(), "", to.data(), to.size());
    if (length < 0) fail_errno(op, path, "cannot be written", at);
    to.resize(static_cast<std::size_t>(length));
    path = to.starts_with('/') ? to : folder_of(path) + "/" + to;
  }
  errno = ELOOP;
  fail_errno(op, path, "cannot be written", at);
}

/// Writes a file beside its target, which finish() replaces. Until then, or after a failure, the target is unchanged. With
/// `durable`, finish() returns when the file is on the disk. Devices and pipes are written directly.
class file_writer {
 public:
  file_writer(const char* op, const std::string& path, bool durable, location at)
      : op_(op), path_(path), durable_(durable), at_(at) {
    open();
  }
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;

  void write(const void* data, std::size_t bytes) { write({static_cast<const char*>(data), bytes}); }
  void write(std::string_view bytes) {
    if (!files::write_held(stream_ ? stream_.get() : file_.get(), bytes)) failed();
    written_ += bytes.size();
  }
  std::size_t written() const { return written_; }

  void finish() {
    const bool good = stream_ ? stream_.close() : file_.finish(files::name_in_folder(path_), durable_);
    if (!good) failed();
  }

 private:
  [[noreturn]] void failed() { fail_errno(op_, path_, "cannot be written", at_); }

  void open() {
    struct stat facts {};
    const bool there = ::stat(path_.c_str(), &facts) == 0;
    if (there && S_ISDIR(facts.st_mode)) fail_file(op_, path_, "is a folder, not a file", at_);
    if (there && !S_ISREG(facts.st_mode)) return open_stream();
    if (there) path_ = without_links(op_, path_, at_);
    file_ = files::new_file(files::folder_of_path(path_), 0666);
    if (!file_) failed();
    if (there) file_.set_mode(facts.st_mode);
    files::sweep_now_and_then(file_.folder(), folder_of(path_));
  }

  /// Gives up after five seconds if no process reads the pipe.
  void open_stream() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (;;) {
      stream_ = files::file_handle(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      if (stream_) break;
      if (errno != ENXIO || std::chrono::steady_clock::now() >= deadline) failed();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (::fcntl(stream_.get(), F_SETFL, 0) != 0) failed();
  }

  const char* op_;
  std::string path_;
  bool durable_;
  location at_;
  std::size_t written_ = 0;
  sinter::detail::no_size_signal quiet_;  // a limit on file sizes is an error, not a signal
  files::file_handle stream_;
  files::new_file file_;
};

SINTER_API std::string digest_text(std::span<const std::string_view> pieces) {
  engine::run::digest d;
  for (const std::string_view piece : pieces) d = engine::run::digest_of(piece, d);
  return text::hex(d.first ^ d.second);
}

SINTER_API folder_lock::folder_lock(const char* op, const std::string& path, location at, int seconds)
    : folder_(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) return;
  constexpr timespec pause{0, 10'000'000};
  for (int k = 0; k <= seconds * 100; ++k) {
    if (::flock(folder_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
    ::nanosleep(&pause, nullptr);
  }
  ::close(folder_);
  fail_file(op, path,
            "cannot be saved: another save has locked its folder for " + std::to_string(seconds) +
                " seconds; end that process, or save into another folder",
            at);
}
SINTER_API folder_lock::~folder_lock() {
  if (folder_ >= 0) ::close(folder_);
}

SINTER_API void remove_others(const std::string& prefix, std::string_view suffix, const std::string& kept) {
  const std::size_t slash = prefix.rfind('/') + 1;  // 0 without one
  const std::string folder = prefix.substr(0, slash), start = prefix.substr(slash);
  DIR* const listing = ::opendir(folder.empty() ? "." : folder.c_str());
  if (!listing) return;
  std::vector<std::string> others;
  while (const dirent* const entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    const bool ours = name.size() == start.size() + 16 + suffix.size() && name.starts_with(start) &&
                      name.ends_with(suffix) &&
                      name.find_first_not_of("0123456789abcdef", start.size()) == start.size() + 16;
    if (ours && folder + name != kept) others.push_back(folder + name);
  }
  ::closedir(listing);
  for (const auto& path : others) ::unlink(path.c_str());
}

SINTER_API void write_file(const char* op, const std::string& path, std::span<const std::string_view> pieces,
                           location at) {
  file_writer out(op, path, false, at);
  for (const std::string_view piece : pieces) out.write(piece);
  out.finish();
}

}  // namespace detail
}  // namespace sinter::io
