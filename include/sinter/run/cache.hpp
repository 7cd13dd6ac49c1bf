// run/cache.hpp: the disk cache of compiled kernels; private, verified, atomic, each built once across processes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "../base/log.hpp"
#include "../base/text.hpp"
#include "file.hpp"
#include "host_compiler.hpp"

namespace sinter::run {

/// 128 bits out of two unrelated hashes.
struct digest {
  std::uint64_t first = 0, second = 0;
  bool operator==(const digest&) const = default;
};

SINTER_API digest digest_of(std::string_view bytes, digest seed = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull}) {
  std::uint64_t h = seed.second ^ bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    h = (std::rotl(h, 29) ^ word) * 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
  }
  return {text::hash(bytes, seed.first), h};
}

/// The instruction set as `-march=native` sees it, in text.
SINTER_API const std::string& instruction_set() {
  static const std::string found = [] {
    std::string out;
#if defined(__x86_64__) || defined(__i386__)
    const auto leaf = [&out](unsigned number, unsigned sub, bool with_ebx) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (!__get_cpuid_count(number, sub, &a, &b, &c, &d)) return 0u;
      for (const unsigned word : {a, with_ebx ? b : 0u, c, d}) out += text::hex(word).substr(8) + " ";
      return c;
    };
    leaf(0, 0, true);
    // ebx of leaf 1 numbers the core.
    const unsigned features = leaf(1, 0, false);
    leaf(7, 0, true);
    leaf(7, 1, true);
    leaf(0x80000001u, 0, true);
    if (features >> 27 & 1) {
      unsigned low = 0, high = 0;
      __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      out += text::hex(low);
    }
#elif defined(__linux__)
    out = text::hex(::getauxval(AT_HWCAP)) + " " + text::hex(::getauxval(AT_HWCAP2));
#endif
    return out;
  }();
  return found;
}

/// The text without its #line directives, which name places but decide no instruction.
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

/// Everything that decides a kernel's bytes, as text.
SINTER_API std::string key_text(const host_compiler& with, std::string_view source) {
  std::string key = "sinter " SINTER_VERSION "\ncompiler " + with.identity + "\nisa " + instruction_set() + "\nflags";
  for (const auto& flag : compile_flags(with)) key.append(" ").append(flag);
  return key.append("\nsource\n").append(without_places(source));
}

namespace detail {

/// An entry is this header, the key's text and the shared object, and nothing after it.
struct entry_header {
  char magic[8] = {'s', 'i', 'n', 't', 'e', 'r', 'K', '\n'};
  std::uint64_t format = 1;
  std::uint64_t key_bytes = 0, image_bytes = 0;
  digest check;  ///< of the key's text followed by the image
};
static_assert(sizeof(entry_header) == 48);

SINTER_API std::string pack_entry(std::string_view key, std::string_view image) {
  entry_header header;
  header.key_bytes = key.size();
  header.image_bytes = image.size();
  header.check = digest_of(image, digest_of(key));
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  return out.append(key).append(image);
}

/// The image of an entry for exactly this key. When there is none `why` says what is wrong with the entry.
SINTER_API std::string unpack_entry(std::string_view entry, std::string_view key, std::string& why) {
  const entry_header expected;
  entry_header header;
  if (entry.size() < sizeof header) return why = "is truncated", "";
  std::memcpy(&header, entry.data(), sizeof header);
  entry.remove_prefix(sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) return why = "is not a kernel", "";
  if (header.format != expected.format) return why = "has another format", "";
  if (header.key_bytes != key.size() || entry.substr(0, key.size()) != key) return why = "is for another kernel", "";
  entry.remove_prefix(key.size());
  if (header.image_bytes == 0 || entry.size() != header.image_bytes) return why = "is truncated", "";
  if (!(header.check == digest_of(entry, digest_of(key)))) return why = "is damaged", "";
  return std::string(entry);
}

/// Where the cache is: $SINTER_CACHE_DIR, $XDG_CACHE_HOME/sinter, $HOME/.cache/sinter or /tmp/sinter-<uid>.
inline std::string cache_path() {
  if (auto chosen = environment("SINTER_CACHE_DIR"); !chosen.empty()) return chosen;
  if (auto base = environment("XDG_CACHE_HOME"); base.starts_with('/')) return base + "/sinter";
  if (auto home = environment("HOME"); home.starts_with('/')) return home + "/.cache/sinter";
  return "/tmp/sinter-" + std::to_string(::geteuid());
}

/// Makes a folder and those above it, private. False, with errno, when the folder itself could not be made.
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

/// An opened cache folder. With a folder that cannot be used every look-up misses and nothing is stored.
class disk_cache {
 public:
  /// Opens the folder that the environment names, making it when absent. Warns once when it cannot be used.
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
    return text::hex(d.first) + text::hex(d.second) + ".kernel";
  }

  /// The shared object stored for exactly this key, or "". An entry that is damaged or not private is never used, and
  /// removed when it is this user's.
  std::string find(const std::string& key) const {
    if (!folder_) return "";
    const std::string name = entry_name(key);
    const detail::file_handle fd(::openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && errno == ENOENT) return "";
    struct stat info {};
    std::string entry, image, why;
    if (!fd) why = std::string("cannot be opened: ") + std::strerror(errno);
    else if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) why = "is not a file";
    else if (info.st_uid != ::geteuid()) why = "belongs to another user";
    else if (!detail::is_private(info)) why = "can be written by others";
    else if (!detail::read_all(fd.get(), entry)) why = std::string("cannot be read: ") + std::strerror(errno);
    else image = detail::unpack_entry(entry, key, why);
    if (!image.empty()) return image;
    logs::warn_once("cache entry " + path_ + "/" + name + " " + why + "; the kernel is compiled again");
    if (fd && info.st_uid == ::geteuid()) ::unlinkat(folder_.get(), name.c_str(), 0);
    return "";
  }

  /// Stores a shared object: under a temporary name first, then renamed. A full or read-only folder is a warning.
  void store(const std::string& key, std::string_view image) const {
    if (!folder_) return;
    static std::atomic<unsigned> counter{0};
    const std::string name = entry_name(key);
    const std::string temporary = name + "." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
    int problem = 0;
    {
      const detail::file_handle fd(
          ::openat(folder_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) return warn(std::string("cannot be written: ") + std::strerror(errno));
      if (!detail::write_all(fd.get(), detail::pack_entry(key, image))) problem = errno;
    }
    if (problem == 0 && ::renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) == 0) return;
    if (problem == 0) problem = errno;
    ::unlinkat(folder_.get(), temporary.c_str(), 0);
    warn(std::string("cannot be written: ") + std::strerror(problem));
  }

  /// Removes the entry for a key.
  void discard(const std::string& key) const {
    if (folder_) ::unlinkat(folder_.get(), entry_name(key).c_str(), 0);
  }

  /// Held by the process that compiles a key; others wait for it.
  class lock {
   public:
    lock(int folder, std::string name, detail::file_handle held)
        : folder_(folder), name_(std::move(name)), held_(std::move(held)) {}
    lock(lock&&) = default;
    // Unlinked while held: whoever waits on the old file sees that it is gone and takes a new one.
    ~lock() {
      if (held_) ::unlinkat(folder_, name_.c_str(), 0);
    }

   private:
    int folder_;
    std::string name_;
    detail::file_handle held_;
  };

  /// Waits until no other process compiles this key, no longer than `limit`; then, or where locks do not work, the
  /// returned lock holds nothing and the caller goes on all the same. The cache must outlive the lock.
  lock acquire(const std::string& key, std::chrono::duration<double> limit) const {
    const std::string name = entry_name(key) + ".lock";
    if (!folder_) return {-1, name, detail::file_handle()};
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (auto pause = std::chrono::milliseconds(1);;) {
      detail::file_handle fd(::openat(folder_.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) return {-1, name, detail::file_handle()};
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        struct stat held {
        }, named{};
        if (::fstat(fd.get(), &held) == 0 && ::fstatat(folder_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev)
          return {folder_.get(), name, std::move(fd)};
        continue;
      }
      if (errno != EWOULDBLOCK && errno != EINTR) return {-1, name, detail::file_handle()};
      if (std::chrono::steady_clock::now() >= deadline) return {-1, name, detail::file_handle()};
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(8));
    }
  }

 private:
  detail::file_handle open_folder() const {
    return detail::file_handle(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void warn(const std::string& what) const {
    logs::warn_once("kernel cache " + path_ + " " + what + "; kernels are compiled anew by each process" +
                    " (SINTER_CACHE_DIR names another folder)");
  }

  std::string path_;
  detail::file_handle folder_;
};

}  // namespace sinter::run
