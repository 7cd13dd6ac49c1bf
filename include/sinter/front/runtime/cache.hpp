// front/runtime/cache.hpp: the compiled kernels on disk, and taking them to other machines.
#pragma once

#include <cstddef>
#include <string>

#include "../../engine/engine.hpp"

namespace sinter {

/// Writes every kernel that the compiled functions and eager programs of this process have in use to one file, which is
/// whole or not there. Returns their number. user_error when there is none; system_error when the file cannot be written, the
/// path is a link, a pipe or a device, or a kernel has left its cache folder meanwhile.
inline std::size_t save_cache(const std::string& path, location at = location::current()) {
  return engine::save_cache(path, at);
}

/// Makes the kernels that save_cache() wrote known to this process: what would be compiled is taken from them, also where
/// there is no compiler. Returns how many this machine can use. The file holds machine code: load only what you trust.
/// user_error when it is damaged, of another version of sinter, or from a machine with another instruction set or other
/// GPUs; system_error when it cannot be read. The path may be a pipe, which gives no more than SINTER_PIPE_LIMIT.
inline std::size_t load_cache(const std::string& path, location at = location::current()) {
  return engine::load_cache(path, at);
}

/// Removes the kernels of a cache folder, of the usual one by default, and returns their number. Loaded ones go on
/// working. What else is in the folder stays.
inline std::size_t clear_cache(const std::string& folder = "") { return engine::clear_cache(folder); }

/// What is in a cache folder, by default in the usual one.
inline cache_contents cache_info(const std::string& folder = "") { return engine::cache_info(folder); }

/// How far compilations are, for a thread that shows it while another one waits: `data::progress_bar(p.wanted).show(p.made)`.
inline compile_counts compile_progress() { return engine::compile_progress(); }

}  // namespace sinter
