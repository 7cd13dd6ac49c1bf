// io/checkpoint_rules.hpp: the definitions for checkpoints.hpp; compiled once.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints.hpp"
#include "file_rules.hpp"

namespace sinter::io {

namespace detail {

SINTER_API void make_folder(const char* op, const std::string& path, location at) {
  struct stat facts {};
  if (path.empty() || ::stat(path.c_str(), &facts) == 0) return;
  const std::string above = folder_of(path);
  if (above != path && above != ".") make_folder(op, above, at);
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_errno(op, path, "cannot be made", at);
  const files::file_handle folder(::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder && !files::new_file::sync_folder(folder.get())) fail_errno(op, above, "cannot be made durable", at);
}

SINTER_API std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const open = ::opendir(folder.c_str());
  if (!open) return out;
  while (const dirent* const entry = ::readdir(open)) out.emplace_back(entry->d_name);
  ::closedir(open);
  return out;
}

}  // namespace detail

SINTER_API void checkpoints::begin(std::int64_t step, location at) const {
  if (step < 0) fail("io::checkpoints", "steps are not negative; it is " + std::to_string(step), at);
  detail::make_folder("io::checkpoints", folder_, at);
}

SINTER_API std::vector<std::int64_t> checkpoints::steps() const {
  std::vector<std::int64_t> out;
  for (const std::string& name : detail::files_of(folder_))
    if (const std::int64_t step = step_of(name); step >= 0) out.push_back(step);
  std::sort(out.begin(), out.end());
  return out;
}

SINTER_API std::string checkpoints::path(std::int64_t step) const {
  const std::string digits = std::to_string(step);
  return folder_ + "/" + how_.name + "_" + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits +
         ending;
}

SINTER_API std::int64_t checkpoints::step_of(const std::string& file) const {
  const std::string before = how_.name + "_", behind = ending;
  if (!file.starts_with(before) || !file.ends_with(behind) || file.size() < before.size() + behind.size() + 12)
    return -1;
  const std::string digits = file.substr(before.size(), file.size() - before.size() - behind.size());
  if (digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoll(digits);
}

SINTER_API void checkpoints::remove_older(std::int64_t step) const {
  if (const detail::files::file_handle folder = detail::files::folder_of_path(path(step)); folder)
    detail::files::sweep_temporaries(folder.get());
  if (how_.keep <= 0) return;
  std::vector<std::int64_t> older = steps();
  older.erase(std::lower_bound(older.begin(), older.end(), step), older.end());
  for (std::size_t i = 0; i + static_cast<std::size_t>(how_.keep) <= older.size(); ++i)
    ::unlink(path(older[i]).c_str());
}

}  // namespace sinter::io
