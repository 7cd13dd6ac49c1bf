// io/checkpoints.hpp: a folder of the last states of a run, to go on from.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trees.hpp"

namespace sinter::io {

struct checkpoint_options {
  int keep = 3;               ///< how many stay; 0 for all
  std::string name = "step";  ///< files are NAME_000000001000.safetensors
};

namespace detail {

/// Makes a folder and those above it.
inline void make_folder(const char* op, const std::string& path, location at) {
  struct stat facts {};
  if (path.empty() || ::stat(path.c_str(), &facts) == 0) return;
  const std::string above = folder_of(path);
  if (above != path && above != ".") make_folder(op, above, at);
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_errno(op, path, "cannot be made", at);
  sync_folder(op, above, at);
}

inline std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const open = ::opendir(folder.c_str());
  if (!open) return out;
  while (const dirent* const entry = ::readdir(open)) out.emplace_back(entry->d_name);
  ::closedir(open);
  return out;
}

}  // namespace detail

/// The last states of a run, a file each: written beside, made durable, then renamed, so that a kill or a full disk at any moment leaves
/// the states before as they were. One process writes to a folder.
class checkpoints {
 public:
  explicit checkpoints(std::string folder, checkpoint_options how = {})
      : folder_(std::move(folder)), how_(std::move(how)) {}

  /// Writes the state after a step, and removes older ones than those to be kept. system_error when that fails.
  template <class T>
  void save(std::int64_t step, const T& tree, location at = location::current()) const {
    if (step < 0) fail("io::checkpoints", "steps are not negative; it is " + std::to_string(step), at);
    detail::make_folder("io::checkpoints", folder_, at);
    io::save(path(step), tree, {.durable = true}, at.in("io::checkpoints"));
    remove_older(step);
  }

  /// The step of the last state, which `tree` becomes, or nothing where there is none: `auto start = c.resume(state);`. As load.
  template <class T>
  std::optional<std::int64_t> resume(T& tree, const load_options& how = {}, location at = location::current()) const {
    const std::vector<std::int64_t> all = steps();
    if (all.empty()) return std::nullopt;
    load(path(all.back()), tree, how, at.in("io::checkpoints"));
    return all.back();
  }

  /// The steps of states that there are, in order.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> out;
    for (const std::string& name : detail::files_of(folder_))
      if (const std::int64_t step = step_of(name); step >= 0) out.push_back(step);
    std::sort(out.begin(), out.end());
    return out;
  }
  /// The file of a step.
  std::string path(std::int64_t step) const {
    const std::string digits = std::to_string(step);
    return folder_ + "/" + how_.name + "_" + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits +
           ending;
  }

 private:
  static constexpr const char* ending = ".safetensors";

  std::int64_t step_of(const std::string& file) const {
    const std::string before = how_.name + "_", behind = ending;
    if (!file.starts_with(before) || !file.ends_with(behind) || file.size() < before.size() + behind.size() + 12)
      return -1;
    const std::string digits = file.substr(before.size(), file.size() - before.size() - behind.size());
    if (digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
    return std::stoll(digits);
  }
  void remove_older(std::int64_t step) const {
    // What a process that was killed has begun.
    for (const std::string& name : detail::files_of(folder_))
      if (const std::size_t behind = name.rfind(".tmp");
          behind != std::string::npos && step_of(name.substr(0, behind)) >= 0)
        ::unlink((folder_ + "/" + name).c_str());
    if (how_.keep <= 0) return;
    std::vector<std::int64_t> older = steps();
    older.erase(std::lower_bound(older.begin(), older.end(), step), older.end());
    for (std::size_t i = 0; i + static_cast<std::size_t>(how_.keep) <= older.size(); ++i)
      ::unlink(path(older[i]).c_str());
  }

  std::string folder_;
  checkpoint_options how_;
};

}  // namespace sinter::io
