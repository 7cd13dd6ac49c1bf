// io/file.hpp: files as mapped bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "array.hpp"

namespace sinter::io {

/// Readers of all files take no more than so many bytes from a pipe; 0 is no limit. Without a call it is what the environment variable
/// SINTER_PIPE_LIMIT says, 500M or 2G, else a quarter of the machine's memory.
SINTER_API void set_pipe_limit(std::uint64_t bytes);

namespace detail {

/// A block of bytes that are here already.
SINTER_API storage kept_bytes(std::vector<std::byte> bytes);

/// A file's bytes, mapped: pages are read when they are touched, and what is written to them stays in this process. A file must not
/// be cut short meanwhile: what this library writes replaces files, and leaves mapped ones as they were. The user gave the path: of a pipe
/// it is what comes until its end. system_error for what cannot be read, a pipe that gives more than the limit or has no writer, and
/// devices, whose data need not end.
SINTER_API storage map_file(const char* op, const std::string& path, location at);
/// The same of a path that a file names. system_error also for a pipe, of which nothing is read.
SINTER_API storage map_regular_file(const char* op, const std::string& path, location at);

/// Lets pages that lie within a part of a mapped file leave memory: they are read from it when they are touched again, and what was
/// written to them is lost. Nothing for other blocks, and for what is no part of the file.
SINTER_API void leave_memory(const storage& file, std::span<const std::byte> part);

/// The absolute path that no link is part of; empty where there is no such file.
SINTER_API std::string real_path(const std::string& path);

/// What a path is in.
inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Whether a file is below a folder, wherever links lead; both are real paths.
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
