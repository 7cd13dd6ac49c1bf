// front/runtime/cache.hpp: the compiled kernels on disk, and how to take them to other machines.
#pragma once

#include <cstddef>
#include <string>

#include "../../engine/engine.hpp"

namespace sinter {

/// Writes every kernel in use by this process's compiled functions and eager programs to one file. The file is complete, or
/// does not exist. Returns the number of kernels; user_error when there are none. system_error if the file cannot be written, or a
/// kernel has meanwhile left its cache folder. A link, a pipe or a device as the path is a system_error, too.
inline std::size_t save_cache(const std::string& path, location at = location::current()) {
  return engine::save_cache(path, at);
}

/// Makes the kernels of a save_cache() file known to this process, which takes them instead of compiling, even without a
/// compiler. Returns the number that this machine can use. The file holds machine code: load trusted files only. user_error
/// when it is damaged, of another version of sinter, or from a machine with another instruction set or other GPUs.
/// system_error when it cannot be read. The path may be a pipe, of which at most SINTER_PIPE_LIMIT bytes are read.
inline std::size_t load_cache(const std::string& path, location at = location::current()) {
  return engine::load_cache(path, at);
}

/// Removes the kernels of a cache folder, the default folder unless given, and returns their number. Loaded kernels keep
/// working. Other files in the folder stay.
inline std::size_t clear_cache(const std::string& folder = "") { return engine::clear_cache(folder); }

/// The contents of a cache folder, the default folder unless given.
inline cache_contents cache_info(const std::string& folder = "") { return engine::cache_info(folder); }

/// The progress of compilations, for display by another thread: `data::progress_bar(p.wanted).show(p.made)`.
inline compile_counts compile_progress() { return engine::compile_progress(); }

}  // namespace sinter
