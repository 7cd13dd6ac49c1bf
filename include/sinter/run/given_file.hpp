// run/given_file.hpp: files to read, for any kind of path: never waits forever, and never reads without an end.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "../base/log.hpp"
#include "descriptor.hpp"

namespace sinter::engine::run::detail {

/// The program's setting in place of $SINTER_PIPE_LIMIT; 0 without one.
inline std::atomic<std::uint64_t> chosen_pipe_limit{0};

/// The greatest number of bytes read from a pipe: $SINTER_PIPE_LIMIT, a number with K, M or G, where 0 means no limit. The
/// default is a quarter of the machine's memory.
inline std::uint64_t pipe_limit() {
  if (const std::uint64_t chosen = chosen_pipe_limit.load(std::memory_order_relaxed)) return chosen;
  const std::string text = environment("SINTER_PIPE_LIMIT");
  std::uint64_t bytes = 0;
  if (!text.empty() && read_size(text, bytes)) return bytes == 0 ? ~std::uint64_t{0} : bytes;
  if (!text.empty())
    logs::warn_once("SINTER_PIPE_LIMIT=" + text +
                    " is not a number of bytes such as 500M or 2G; using a quarter of the machine's memory");
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<std::uint64_t>(pages) / 4 * static_cast<std::uint64_t>(size)
                               : std::uint64_t{1} << 30;
}

/// Opens a file for reading, without waiting. With `pipes`, the user gave the path, which may be a pipe; a path from a file
/// must be a regular file. On failure the handle is empty, and `why` has the reason, or errno if `why` is empty.
inline file_handle open_given(const std::string& path, bool pipes, struct stat& facts, std::string& why) {
  file_handle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd || ::fstat(fd.get(), &facts) != 0) return file_handle();
  constexpr dev_t null_device = 1 << 8 | 3;
  if (S_ISDIR(facts.st_mode)) why = "is a folder, not a file";
  else if (!S_ISREG(facts.st_mode) && !pipes)
    why = std::string("is ") + name_of_kind(facts.st_mode) + "; what a file or a folder names must be a regular file";
  else if (S_ISCHR(facts.st_mode) && facts.st_rdev != null_device)
    why = "is a device, whose data may have no end; give a file or a pipe";
  else return fd;
  return file_handle();
}

/// Appends the contents of an open file that cannot be mapped. Returns the error, or "". Gives up on a pipe without a writer
/// after five seconds.
template <class Bytes>
std::string read_stream(int fd, const struct stat& facts, Bytes& all) {
  constexpr std::size_t piece = std::size_t{1} << 16;
  const std::uint64_t limit = pipe_limit();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  bool begun = !S_ISFIFO(facts.st_mode);  // an end counts only after data
  for (;;) {
    const std::size_t have = all.size();
    try {
      all.resize(have + piece);
    } catch (const std::bad_alloc&) {
      return "does not fit into memory";
    }
    const ssize_t got = ::read(fd, all.data() + have, piece);
    const int error = errno;
    all.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    pollfd wait{fd, POLLIN, 0};
    if (got > 0) {
      begun = true;
      if (all.size() > limit)
        return "gives more than " + std::to_string(limit) +
               " bytes, the limit of what is read from a pipe; read a file, or set SINTER_PIPE_LIMIT or "
               "io::set_pipe_limit";
    } else if (got == 0) {
      if (begun) return "";
      if (std::chrono::steady_clock::now() >= deadline) return "is a pipe to which no process writes; start that one";
      if (::poll(&wait, 1, 10) > 0) begun = (wait.revents & POLLHUP) != 0;
    } else if (error == EAGAIN && !S_ISREG(facts.st_mode)) {
      begun = true;
      ::poll(&wait, 1, -1);
    } else if (error != EINTR) {
      return std::string("cannot be read: ") + std::strerror(error);
    }
  }
}

}  // namespace sinter::engine::run::detail
