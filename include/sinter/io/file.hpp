// io/file.hpp: files as mapped bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array.hpp"

namespace sinter::io {

/// Sets the greatest number of bytes that readers of files take from a pipe; 0 removes the limit. The default is the
/// environment variable SINTER_PIPE_LIMIT, such as 500M or 2G, else a quarter of the machine's memory.
SINTER_API void set_pipe_limit(std::uint64_t bytes);

namespace detail {

/// A block of bytes in memory.
SINTER_API storage kept_bytes(std::vector<std::byte> bytes);

/// A file's bytes, mapped. Pages are read when touched, and writes to them stay in this process. The file must not be
/// truncated meanwhile; this library's writers replace files and leave mapped ones intact. The path comes from the user: a
/// pipe is read to its end. system_error for unreadable files, and for devices, whose data need not end. A pipe beyond the
/// limit, or without a writer, is a system_error, too.
SINTER_API storage map_file(const char* op, const std::string& path, location at);
/// The same for a path that a file names. system_error also for a pipe, which is not read.
SINTER_API storage map_regular_file(const char* op, const std::string& path, location at);

/// Lets pages within a part of a mapped file leave memory. They are read again when touched, and writes to them are lost. Has
/// no effect on other blocks, and on memory outside of the file.
SINTER_API void leave_memory(const storage& file, std::span<const std::byte> part);

/// Writes a file of these bytes, one piece after the other: all of it or nothing. system_error if that fails.
SINTER_API void write_file(const char* op, const std::string& path, std::span<const std::string_view> pieces,
                           location at);

/// The digest of these bytes, one piece after the other, as 16 hexadecimal digits.
SINTER_API std::string digest_text(std::span<const std::string_view> pieces);

/// Makes saves into the folder of a path wait for each other, in this and other processes: of files that belong together, no
/// two saves mix. Without locks in the file system it does nothing.
class folder_lock {
 public:
  /// system_error if another save holds the lock for so many seconds.
  SINTER_API folder_lock(const char* op, const std::string& path, location at, int seconds = 60);
  SINTER_API ~folder_lock();
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

 private:
  int folder_ = -1;
};

/// Removes the files `prefix` + 16 hexadecimal digits + `suffix`, except `kept`. Those that cannot be removed stay.
SINTER_API void remove_others(const std::string& prefix, std::string_view suffix, const std::string& kept);

/// The absolute path with all links resolved; empty if the file does not exist.
SINTER_API std::string real_path(const std::string& path);

/// The folder of a path.
inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Whether a file is below a folder; both must be real paths.
inline bool is_below(const std::string& path, const std::string& folder) {
  return folder == "/" ||
         (!folder.empty() && path.size() > folder.size() && path[folder.size()] == '/' && path.starts_with(folder));
}

inline std::span<const std::byte> bytes_of(const storage& s) {
  return {static_cast<const std::byte*>(s.data()), s.bytes()};
}

}  // namespace detail
}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "file_rules.hpp"
#endif
