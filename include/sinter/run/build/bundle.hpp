// run/build/bundle.hpp: compiled kernels in one file, for other machines of the same kind.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../../base/callback.hpp"
#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../file.hpp"
#include "../given_file.hpp"
#include "../new_file.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// A kernel in a bundle. `key` has all facts that decide the code's behaviour and target, but not its compiler: a line for
/// the version, one for the target, and more. The image is empty if it is the previous kernel's.
struct portable_kernel {
  std::string key;
  std::string image;
};

namespace detail {

/// A bundle is this header, followed by the number of bytes that it states: texts, each preceded by its length. The texts are
/// the version that wrote it, then each kernel's key and image; the image is empty if it is the previous kernel's.
struct bundle_header {
  char magic[8] = {'s', 'i', 'n', 't', 'e', 'r', 'B', '\n'};
  std::uint64_t format = 3;  ///< of the file, and of the names in its images (unit.hpp)
  std::uint64_t bytes = 0;
  digest check;  ///< of the bytes
};
static_assert(sizeof(bundle_header) == 40);

/// The second line of a portable key.
inline std::string_view target_of_key(std::string_view key) {
  key.remove_prefix(std::min(key.find('\n'), key.size() - 1) + 1);
  return key.substr(0, key.find('\n'));
}

SINTER_API std::string pack_bundle(std::span<const portable_kernel> kernels) {
  std::string body;
  put(body, SINTER_VERSION);
  for (const auto& k : kernels) {
    put(body, k.key);
    put(body, k.image);
  }
  bundle_header header;
  header.bytes = body.size();
  header.check = digest_of(body);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

struct kernel_view {
  std::string_view key, image;
};

/// The kernels of a bundle, or nothing, with the error and a remedy in `why`.
SINTER_API series<kernel_view> unpack_bundle(std::string_view file, std::string& why) {
  const bundle_header expected;
  bundle_header header;
  series<kernel_view> out;
  if (file.size() < sizeof header || std::memcmp(file.data(), expected.magic, sizeof expected.magic) != 0)
    return why = "is not a bundle of kernels; give a file that save_cache() wrote", out;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.format != expected.format)
    return why = "has format " + std::to_string(header.format) + " and this version of sinter knows format " +
                 std::to_string(expected.format) + "; save it again with this version",
           out;
  file.remove_prefix(sizeof header);
  if (file.size() != header.bytes || !(digest_of(file) == header.check))
    return why =
               file.size() < header.bytes ? "is truncated; copy or save it again" : "is damaged; copy or save it again",
           out;
  std::string_view version, image;
  kernel_view k;
  bool whole = take(file, version);
  if (whole && version != SINTER_VERSION)
    return why = "was written by sinter " + std::string(version) +
                 " and this is " SINTER_VERSION "; save it again with this version",
           out;
  while (whole && !file.empty()) {
    whole = take(file, k.key) && take(file, image) && !k.key.empty();
    if (!image.empty()) k.image = image;
    whole = whole && !k.image.empty();
    if (whole) out.push_back(k);
  }
  if (!whole || out.empty()) {
    why = "is damaged; copy or save it again";
    out.clear();
  }
  return out;
}

/// The kernels of all bundles loaded by this process, kept until its end.
class bundle_table {
 public:
  // Never destroyed: kernels may be built while static objects are destroyed.
  static bundle_table& get() {
    static bundle_table* const instance = new bundle_table;
    return *instance;
  }

  void add(std::shared_ptr<const std::string> file, std::span<const kernel_view> kernels) {
    const std::lock_guard lock(mutex_);
    files_.push_back(std::move(file));
    for (const auto& k : kernels) images_.insert_or_assign(std::string(k.key), k.image);
  }

  /// The image of a key; empty if there is none.
  std::string_view find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = images_.find(key);
    return at == images_.end() ? std::string_view() : at->second;
  }

 private:
  std::mutex mutex_;
  series<std::shared_ptr<const std::string>> files_;
  std::unordered_map<std::string, std::string_view> images_;
};

}  // namespace detail

/// Writes a file completely, or not at all. Throws system_error, also if the path is not a regular file.
SINTER_API void write_bundle(const std::string& path, std::span<const portable_kernel> kernels, const char* op) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    throw system_error("[" + std::string(op) + "] " + path + " cannot be written: it is " +
                       detail::name_of_kind(there.st_mode) +
                       ", which a file would take the place of; give the path of a file, or of none");
  if (detail::replace_file(path, detail::pack_bundle(kernels), true)) return;
  throw system_error(
      "[" + std::string(op) + "] " + path + " cannot be written: " +
      detail::why_unwritten(errno, "give a path in a folder that exists, may be written to and has room"));
}

/// Makes a bundle's kernels for one of these targets known to this process, and returns their number. user_error if the file
/// is not a complete bundle of this version, holds kernels for another processor, or none for these targets. system_error if
/// it cannot be read, and for a pipe beyond the limit.
SINTER_API std::size_t read_bundle(const std::string& path, std::span<const std::string> targets, const char* op,
                                   location where) {
  auto file = make_on_heap<std::string>();
  std::string why;
  struct stat info {};
  const detail::file_handle fd = detail::open_given(path, true, info, why);
  const bool known = S_ISREG(info.st_mode) && info.st_size > 0;
  if (S_ISDIR(info.st_mode)) why = std::string("cannot be read: ") + std::strerror(EISDIR);
  else if (fd && !known) why = detail::read_stream(fd.get(), info, *file);
  else if (why.empty() && !(fd && detail::read_all(fd.get(), *file)))
    why = std::string("cannot be read: ") + std::strerror(errno);
  if (!why.empty()) throw system_error("[" + std::string(op) + "] " + path + " " + why);
  const series<detail::kernel_view> kernels = detail::unpack_bundle(*file, why);
  if (!why.empty()) fail(op, path + " " + why, where);
  series<detail::kernel_view> usable;
  std::string foreign;
  for (const auto& k : kernels) {
    const std::string target(detail::target_of_key(k.key));
    if (std::find(targets.begin(), targets.end(), target) != targets.end()) usable.push_back(k);
    else if (foreign.empty() || target.starts_with("cpu")) foreign = target;
  }
  const bool other_cpu = foreign.starts_with("cpu");
  if (other_cpu || usable.empty())
    fail(op,
         path + " was saved on a machine with " +
             (other_cpu ? "another instruction set" : "a GPU that this one lacks (" + foreign + ")") +
             "; save it on a machine like this one",
         where);
  detail::bundle_table::get().add(std::move(file), usable);
  return usable.size();
}

}  // namespace sinter::engine::run
