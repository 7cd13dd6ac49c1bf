// run/build/cache.hpp: the disk cache of compiled kernels: private, verified, atomic; each kernel is built once across
// processes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "../../base/text.hpp"
#include "../digest.hpp"
#include "../file.hpp"
#include "../host/compiler.hpp"
#include "../host/isa.hpp"
#include "../library.hpp"
#include "../ranks.hpp"
#include "cache_files.hpp"

namespace sinter::engine::run {

/// The digest of a regular file's contents; false if it cannot be read.
SINTER_API bool digest_of_file(const std::string& path, digest& out) {
  const detail::file_handle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  std::string piece(std::size_t{1} << 20, '\0');
  for (digest all;;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return out = all, true;
    all = digest_of(std::string_view(piece).substr(0, static_cast<std::size_t>(got)), all);
  }
}

/// Identifies the build of the code at an address: by the module's build-id, else by its file's contents. Empty if neither is
/// known. It may read the whole file, so it is called once per process.
SINTER_API std::string build_of(const void* address) {
  if (const std::string id = build_id_of(address); !id.empty()) return "build-id " + id;
  const std::string file = file_of(address);
  digest d;
  return !file.empty() && digest_of_file(file, d) ? "file " + text::hex(d.first) + text::hex(d.second) : "";
}

/// The text without its #line directives, which do not affect the code.
SINTER_API std::string without_places(std::string_view source) {
  constexpr std::string_view directive = "#line ";
  std::string out;
  out.reserve(source.size());
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size() - 1) + 1;
    if (!source.starts_with(directive)) out.append(source.substr(0, end));
    source.remove_prefix(end);
  }
  return out;
}

/// All facts that decide a kernel's bytes, as text.
SINTER_API std::string key_text(const host_compiler& with, std::string_view source) {
  std::string key = "sinter " SINTER_VERSION "\ncompiler " + with.identity + "\nisa " + instruction_set() + "\nflags";
  for (const auto& flag : compile_flags(with)) key.append(" ").append(flag);
  return key.append("\nsource\n").append(without_places(source));
}

/// The prefixes of keys that are not kernels': of plans (jit/saved_program.hpp), and of choices (choices.hpp).
inline constexpr std::string_view plan_key = "plan\n", choice_key = "choice\n";

namespace detail {

/// Appends a text, preceded by its length.
inline void put(std::string& out, std::string_view text) {
  const std::uint64_t n = text.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n).append(text);
}

/// Takes a text off the front; false when there is none.
inline bool take(std::string_view& from, std::string_view& text) {
  std::uint64_t n = 0;
  if (from.size() < sizeof n) return false;
  std::memcpy(&n, from.data(), sizeof n);
  from.remove_prefix(sizeof n);
  if (n > from.size()) return false;
  text = from.substr(0, n);
  from.remove_prefix(n);
  return true;
}

/// An entry is this header, the keys of kernels that were compiled together, each preceded by its length, and the shared
/// object. The file has a name for each key.
struct entry_header {
  char magic[8] = {'s', 'i', 'n', 't', 'e', 'r', 'K', '\n'};
  std::uint64_t format = 3;  ///< of the file, and of the names in its image (unit.hpp)
  std::uint64_t keys_bytes = 0, image_bytes = 0;
  digest check;  ///< of the keys followed by the image
};
static_assert(sizeof(entry_header) == 48);

SINTER_API std::string pack_entry(std::span<const std::string> keys, std::string_view image) {
  std::string all;
  for (const std::string& key : keys) put(all, key);
  entry_header header;
  header.keys_bytes = all.size();
  header.image_bytes = image.size();
  header.check = digest_of(image, digest_of(all));
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  return out.append(all).append(image);
}

/// The error for an entry of another version of sinter, which is harmless.
inline constexpr char other_format[] = "has another format";

/// The error of an entry that must have this key, or null. `others` receives its other keys; `entry` is reduced to the image.
SINTER_API const char* unpack_entry(std::string& entry, std::string_view key, series<std::string>* others = nullptr) {
  const entry_header expected;
  entry_header header;
  std::string_view rest = entry, one;
  if (rest.size() < sizeof header) return "is truncated";
  std::memcpy(&header, rest.data(), sizeof header);
  rest.remove_prefix(sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) return "is not a kernel";
  if (header.format != expected.format) return other_format;
  if (rest.size() < header.keys_bytes) return "is truncated";
  const std::string_view all = rest.substr(0, header.keys_bytes);
  rest.remove_prefix(all.size());
  if (header.image_bytes == 0 || rest.size() != header.image_bytes) return "is truncated";
  if (!(header.check == digest_of(rest, digest_of(all)))) return "is damaged";
  bool mine = false;
  for (std::string_view keys = all; !keys.empty();) {
    if (!take(keys, one)) return "is damaged";
    mine = mine || one == key;
    if (others && one != key) others->push_back(std::string(one));
  }
  if (!mine) return "is for another kernel";
  entry.erase(0, sizeof header + all.size());
  return nullptr;
}

/// The folder of this thread's caches; empty for the environment's.
SINTER_API std::string& chosen_folder() {
  static thread_local std::string folder;
  return folder;
}

/// The path of the cache: this thread's choice, $SINTER_CACHE_DIR, $XDG_CACHE_HOME/sinter, $HOME/.cache/sinter or
/// /tmp/sinter-<uid>.
inline std::string cache_path() {
  if (!chosen_folder().empty()) return chosen_folder();
  if (auto chosen = environment("SINTER_CACHE_DIR"); !chosen.empty()) return chosen;
  if (auto base = environment("XDG_CACHE_HOME"); base.starts_with('/')) return base + "/sinter";
  if (auto home = environment("HOME"); home.starts_with('/')) return home + "/.cache/sinter";
  return "/tmp/sinter-" + std::to_string(::geteuid());
}

/// Makes a private folder, and its parents. False, with errno, if the folder itself could not be made.
inline bool make_folders(const std::string& path) {
  int made = -1;
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    made = ::mkdir(path.substr(0, at).c_str(), 0700);
    if (at != std::string::npos) ++at;
  }
  return made == 0 || errno == EEXIST;
}

}  // namespace detail

/// Sets the folder of this thread's caches until the end of the scope; an empty `folder` changes nothing.
class cache_folder_scope {
 public:
  explicit cache_folder_scope(std::string folder)
      : before_(folder.empty() ? detail::chosen_folder() : std::exchange(detail::chosen_folder(), std::move(folder))) {}
  ~cache_folder_scope() { detail::chosen_folder() = std::move(before_); }
  cache_folder_scope(const cache_folder_scope&) = delete;
  cache_folder_scope& operator=(const cache_folder_scope&) = delete;

 private:
  std::string before_;
};

/// An opened cache folder. If the folder cannot be used, every look-up misses and nothing is stored.
class disk_cache {
 public:
  /// Opens the environment's folder, and makes it if absent. Warns once if it cannot be used.
  disk_cache() : path_(detail::cache_path()) {
    folder_ = open_folder();
    if (!folder_ && errno == ENOENT && detail::make_folders(path_)) folder_ = open_folder();
    struct stat info {};
    if (!folder_) {
      warn("cannot be used: " + std::string(std::strerror(errno)));
    } else if (::fstat(folder_.get(), &info) != 0 || !detail::is_private(info)) {
      warn(info.st_uid != ::geteuid() ? "is not used: it belongs to another user"
                                      : "is not used: others may write to it; run chmod go-w on it");
      folder_ = detail::file_handle();
    }
  }

  explicit operator bool() const noexcept { return static_cast<bool>(folder_); }
  const std::string& path() const noexcept { return path_; }

  /// File name of the entry for a key.
  static std::string entry_name(std::string_view key) {
    const digest d = digest_of(key);
    const char* const end = key.starts_with(plan_key) ? ".plan" : key.starts_with(choice_key) ? ".choice" : ".kernel";
    return text::hex(d.first) + text::hex(d.second) + end;
  }

  /// The shared object stored for exactly this key, or "", and its other keys. An entry that is damaged or not private is
  /// never used, and is removed if it belongs to this user.
  std::string find(const std::string& key, series<std::string>* others = nullptr) const {
    if (!folder_) return "";
    const std::string name = entry_name(key);
    const detail::file_handle fd(::openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && errno == ENOENT) return "";
    struct stat info {};
    std::string entry, why;
    if (!fd) why = std::string("cannot be opened: ") + std::strerror(errno);
    else if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) why = "is not a file";
    else if (info.st_uid != ::geteuid()) why = "belongs to another user";
    else if (!detail::is_private(info)) why = "can be written by others";
    else if (!detail::read_all(fd.get(), entry)) why = std::string("cannot be read: ") + std::strerror(errno);
    else if (const char* const wrong = detail::unpack_entry(entry, key, others)) why = wrong;
    if (why.empty()) {
      // Sets the time of last use; if that fails, kernels are removed in the order of their creation.
      ::futimens(fd.get(), nullptr);
      return entry;
    }
    const std::string told = "cache entry " + path_ + "/" + name + " " + why +
                             (key.starts_with(plan_key)     ? "; it is planned again"
                              : key.starts_with(choice_key) ? "; it is measured again"
                                                            : "; the kernel is compiled again");
    if (why == detail::other_format) logs::to("cache", [&] { return told; });
    else logs::warn_once(told);
    if (fd && info.st_uid == ::geteuid()) ::unlinkat(folder_.get(), name.c_str(), 0);
    return "";
  }

  /// Stores the shared object of keys completely, or not at all. A full or read-only folder gives a warning, and false. The
  /// least recently used kernels are removed when the folder exceeds its limit.
  bool store(std::span<const std::string> keys, std::string_view image) const {
    if (!folder_) return false;
    const std::string entry = detail::pack_entry(keys, image);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      detail::new_file file(detail::file_handle(::fcntl(folder_.get(), F_DUPFD_CLOEXEC, 0)), 0600);
      if (!file || !detail::write_all(file.get(), entry)) return warn(unwritten(errno)), false;
      // If files cannot have a second name, each key has a copy.
      while (k + 1 < keys.size() && file.also(entry_name(keys[k]))) ++k;
      const std::string name = entry_name(keys[k]);
      if (!file.finish(name)) return warn(unwritten(errno)), false;
      detail::keep_below(folder_.get(), path_, cache_limit(), name, entry.size());
    }
    return true;
  }
  bool store(const std::string& key, std::string_view image) const { return store({&key, 1}, image); }

  /// Removes every kernel, and leftovers of processes that ended at least a minute ago. Returns the number of kernels.
  std::size_t clear() const { return folder_ ? detail::sweep(folder_.get(), 0, "").removed : 0; }

  /// The contents of the folder.
  detail::folder_contents contents() const {
    return folder_ ? detail::sweep(folder_.get(), ~std::uint64_t{0}, "") : detail::folder_contents{};
  }

  /// Removes the entry for a key.
  void discard(const std::string& key) const {
    if (folder_) ::unlinkat(folder_.get(), entry_name(key).c_str(), 0);
  }

  /// Held by the process that compiles a key; other processes wait for it.
  class lock {
   public:
    lock(int folder, std::string name, detail::file_handle held)
        : folder_(folder), name_(std::move(name)), held_(std::move(held)) {}
    lock(lock&&) = default;
    // Unlinked while held: a waiter on the old file sees that it is gone, and takes a new one.
    ~lock() {
      if (held_) ::unlinkat(folder_, name_.c_str(), 0);
    }

   private:
    int folder_;
    std::string name_;
    detail::file_handle held_;
  };

  /// A lock on a key, or nothing while another process holds it. Where locks do not work the lock is empty, and the caller
  /// continues. The cache must outlive it.
  std::optional<lock> try_acquire(const std::string& key) const {
    const std::string name = entry_name(key) + ".lock";
    while (folder_) {
      detail::file_handle fd(::openat(folder_.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) break;
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        if (detail::is_named(folder_.get(), name, fd.get())) return lock{folder_.get(), name, std::move(fd)};
        continue;
      }
      if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
      break;
    }
    return lock{-1, name, detail::file_handle()};
  }

  /// Waits until no other process compiles this key, at most for `limit`; then continues without a lock. So it does once the
  /// mesh has failed: the other process may be a rank that is stopped.
  lock acquire(const std::string& key, std::chrono::duration<double> limit) const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(8))) {
      if (auto held = try_acquire(key)) return std::move(*held);
      if (std::chrono::steady_clock::now() >= deadline || world().has_failed()) return {-1, "", detail::file_handle()};
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  detail::file_handle open_folder() const {
    return detail::file_handle(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  static std::string unwritten(int error) {
    return std::string("cannot be written: ") + std::strerror(error) +
           (error == EFBIG ? ", the process's limit on the size of files (ulimit -f)" : "");
  }
  void warn(const std::string& what) const {
    logs::warn_once("kernel cache " + path_ + " " + what + "; kernels are compiled anew by each process" +
                    " (SINTER_CACHE_DIR names another folder)");
  }

  std::string path_;
  detail::file_handle folder_;
};

}  // namespace sinter::engine::run
