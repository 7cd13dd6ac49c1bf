#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sinter/run/build/build.hpp>

#include <chrono>
#include <ctime>
#include <random>
#include <thread>

#include "../../unnamed_files.hpp"
#include "../support.hpp"

using namespace sinter;
using support::contains, support::folder, support::variable;

namespace {

/// A private cache folder with a limit.
struct limited {
  explicit limited(const std::string& limit) : bound("SINTER_CACHE_LIMIT", limit) {}
  folder root;
  variable cache{"SINTER_CACHE_DIR", root.at("cache")};
  variable bound;
};

std::string key_of(int i) { return "key " + std::to_string(i); }

/// 60,000 bytes that differ by key.
std::string image_of(int i) {
  std::string out(60'000, static_cast<char>('a' + i % 26));
  return out += key_of(i);
}

/// Sets the time of last use of an entry, in seconds from now.
void date(const engine::run::disk_cache& cache, int i, long seconds) {
  const timespec at{std::time(nullptr) + seconds, 0};
  const timespec both[] = {at, at};
  const std::string path = cache.path() + "/" + engine::run::disk_cache::entry_name(key_of(i));
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both, 0) == 0);
}

bool has(const engine::run::disk_cache& cache, int i) {
  return support::fs::exists(cache.path() + "/" + engine::run::disk_cache::entry_name(key_of(i)));
}

}  // namespace

TEST_CASE("beyond its limit a folder loses what was not used for longest") {
  const limited box("640K");  // ten entries of 60 KiB on the disk
  const engine::run::disk_cache cache;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(cache.store(key_of(i), image_of(i)));
    date(cache, i, -1000 + i);
  }
  REQUIRE(support::files(cache.path()).size() == 10);
  // The oldest two are used.
  CHECK(cache.find(key_of(0)) == image_of(0));
  CHECK(cache.find(key_of(1)) == image_of(1));
  for (int i = 10; i < 14; ++i) REQUIRE(cache.store(key_of(i), image_of(i)));
  for (int i : {0, 1, 10, 11, 12, 13}) CHECK(has(cache, i));
  for (int i : {2, 3, 4, 5}) CHECK_FALSE(has(cache, i));
  const auto now = cache.contents();
  CHECK(now.bytes <= 640 << 10);
  CHECK(now.kernels >= 9);
  CHECK(now.kernels == support::files(cache.path()).size());
}

TEST_CASE("kernels that were compiled together count once and leave together") {
  const limited box("640K");
  const engine::run::disk_cache cache;
  const auto store = [&](int first) {
    const std::vector<std::string> keys = {key_of(first), key_of(first + 1), key_of(first + 2)};
    REQUIRE(cache.store(keys, image_of(first)));
  };
  for (int i = 0; i < 30; i += 3) {
    store(i);
    date(cache, i, -1000 + i);
  }
  CHECK(cache.contents().kernels == 30);
  CHECK(cache.contents().bytes <= 640 << 10);
  CHECK(cache.find(key_of(1)) == image_of(0));
  store(30);
  store(33);
  for (int i : {0, 1, 2, 30, 31, 32, 33, 34, 35}) CHECK(has(cache, i));
  for (int i : {3, 4, 5, 6, 7, 8}) CHECK_FALSE(has(cache, i));
  CHECK(cache.contents().kernels == support::files(cache.path()).size());
  CHECK(cache.clear() == 30);
  CHECK(support::files(cache.path()).empty());
}

TEST_CASE("what was stored just now stays, however large, and what others keep in the folder") {
  const limited box("1K");
  const engine::run::disk_cache cache;
  const std::string foreign = cache.path() + "/notes.txt", similar = cache.path() + "/0123.kernel";
  support::write(foreign, std::string(100'000, 'x'));
  support::write(similar, "x");
  for (int i = 0; i < 3; ++i) {
    REQUIRE(cache.store(key_of(i), image_of(i)));
    CHECK(cache.find(key_of(i)) == image_of(i));
    CHECK(support::files(cache.path()).size() == 3);
  }
  CHECK(cache.clear() == 1);
  CHECK(support::files(cache.path()).size() == 2);
  CHECK(support::fs::exists(foreign));
  CHECK(support::fs::exists(similar));
}

TEST_CASE("the limit is read from the environment; nonsense is told") {
  const auto limit = [](const char* text) {
    const variable bound("SINTER_CACHE_LIMIT", text);
    return engine::run::cache_limit();
  };
  CHECK(limit(nullptr) == std::uint64_t{1} << 30);
  CHECK(limit("700") == 700);
  CHECK(limit("3K") == 3 << 10);
  CHECK(limit("5M") == 5 << 20);
  CHECK(limit("2G") == std::uint64_t{2} << 30);
  CHECK(limit("0") == ~std::uint64_t{0});
  for (const char* wrong : {"x", "-1", "5X", "5MB", "99999999999999999999", "99999999999999G"}) {
    const auto r = support::in_child([&] { return limit(wrong) == std::uint64_t{1} << 30 ? 0 : 1; });
    CHECK(r.status == 0);
    CHECK(contains(r.error_text, "SINTER_CACHE_LIMIT=" + std::string(wrong) + " is not a number of bytes"));
  }
}

TEST_CASE("clocks that were set wrong break neither look-ups, nor locks, nor the order in which kernels leave") {
  constexpr long year = 365 * 86'400;
  const limited box("640K");
  const engine::run::disk_cache cache;
  for (int i = 0; i < 10; ++i) REQUIRE(cache.store(key_of(i), image_of(i)));
  // 0 to 4 were written when the clock was a year ahead, 5 to 8 when it stood at 1970.
  for (int i = 0; i < 5; ++i) date(cache, i, year + i);
  for (int i = 5; i < 9; ++i) date(cache, i, -std::time(nullptr) + i);
  for (int i : {0, 5}) CHECK(cache.find(key_of(i)) == image_of(i));
  for (int i = 10; i < 14; ++i) REQUIRE(cache.store(key_of(i), image_of(i)));
  // What came from the future and was not used since is the first to leave; used ones stay whenever they were written.
  for (int i : {1, 2, 3, 4}) CHECK_FALSE(has(cache, i));
  for (int i : {0, 5, 9, 10, 11, 12, 13}) CHECK(has(cache, i));

  for (const long away : {-10 * year, 10 * year}) {
    const std::string name = engine::run::disk_cache::entry_name("locked") + ".lock";
    const std::string path = cache.path() + "/" + name;
    support::write(path, "");
    const timespec at{std::time(nullptr) + away, 0}, both[] = {at, at};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both, 0) == 0);
    const auto start = std::chrono::steady_clock::now();
    { const auto taken = cache.acquire("locked", std::chrono::seconds(30)); }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    CHECK_FALSE(support::fs::exists(path));
  }
}

TEST_CASE("processes killed while they write leave nothing that is loaded, and what they leave is cleaned up") {
  const limited box("64M");
  std::mt19937 random(7);
  int kills_in_writing = 0;
  for (int round = 0; round < 40; ++round) {
    no_unnamed_files = round % 2 == 1;
    const pid_t child = ::fork();
    if (child == 0) {
      const engine::run::disk_cache cache;
      for (int i = 0;; i = (i + 1) % 8) {
        const auto lock = cache.acquire(key_of(i), std::chrono::seconds(5));
        cache.store(key_of(i), image_of(i));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 8000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const engine::run::disk_cache cache;
    for (const auto& path : support::files(cache.path())) kills_in_writing += !path.ends_with(".kernel");
    // Nothing damaged is there, so nothing is removed for it.
    const std::size_t before = support::files(cache.path(), ".kernel").size();
    for (int i = 0; i < 8; ++i) {
      const std::string image = cache.find(key_of(i));
      CHECK((image.empty() || image == image_of(i)));
    }
    CHECK(support::files(cache.path(), ".kernel").size() == before);
    // The locks of the dead hold nobody up.
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 8; ++i) const auto taken = cache.acquire(key_of(i), std::chrono::seconds(30));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    for (const auto& path : support::files(cache.path()))
      if (!path.ends_with(".kernel")) CHECK(unnamed_files::date(path, -61));
    CHECK(cache.contents().kernels == before);
    CHECK(support::files(cache.path()).size() == before);
  }
  CHECK(kills_in_writing > 0);
  no_unnamed_files = false;
}

TEST_CASE("what a living process is writing is not cleaned up") {
  const limited box("64M");
  const engine::run::disk_cache cache;
  const auto age = [&](long seconds) {
    for (const auto& path : support::files(cache.path())) CHECK(unnamed_files::date(path, seconds));
  };
  {
    no_unnamed_files = true;
    const engine::run::detail::new_file held(engine::run::detail::folder_of_path(cache.path() + "/x"), 0600);
    no_unnamed_files = false;
    const auto lock = cache.acquire("key", std::chrono::seconds(5));
    age(-3600);
    CHECK(cache.contents().kernels == 0);
    CHECK(support::files(cache.path()).size() == 2);
  }
  CHECK(support::files(cache.path()).empty());
  // What nobody holds may be a file that somebody is about to lock, where it is young.
  for (const std::string& name :
       {engine::run::disk_cache::entry_name("key") + ".lock", std::string(engine::run::detail::temporary_name) + "x"})
    support::write(cache.path() + "/" + name, "x");
  CHECK(cache.contents().kernels == 0);
  CHECK(support::files(cache.path()).size() == 2);
  age(-61);
  CHECK(cache.contents().kernels == 0);
  CHECK(support::files(cache.path()).empty());
}

TEST_CASE("a disk that fills up in the middle of a write keeps what was whole") {
  const folder root;
  const variable chosen("SINTER_CACHE_DIR", root.at("cache"));
  support::fs::create_directory(root.at("cache"));
  const auto r = support::in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", root.at("cache").c_str(), "tmpfs", 0, "size=200k,mode=0700") != 0)
      return 77;
    const engine::run::disk_cache cache;
    int stored = 0;
    for (int i = 0; i < 6; ++i) stored += cache.store(key_of(i), image_of(i));
    if (stored != 3) return 1;
    for (int i = 0; i < 6; ++i)
      if (cache.find(key_of(i)) != (i < 3 ? image_of(i) : "")) return 2;
    if (support::files(cache.path()).size() != 3) return 3;
    // Room again: it goes on.
    cache.clear();
    return cache.store(key_of(5), image_of(5)) && cache.find(key_of(5)) == image_of(5) ? 0 : 4;
  });
  if (r.status == 77) {
    MESSAGE("no right to mount a small file system: not tested");
    return;
  }
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "cannot be written: No space left on device"));
}

TEST_CASE("8 processes store, look up, evict and clear in one folder: an image is right or absent") {
  const limited box("300K");
  std::vector<pid_t> children;
  for (unsigned c = 0; c < 8; ++c) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::mt19937 random(c);
      const engine::run::disk_cache cache;
      int status = 0;
      for (int step = 0; step < 300 && status == 0; ++step) {
        const int i = static_cast<int>(random() % 12);
        if (random() % 50 == 0) cache.clear();
        const auto lock = cache.acquire(key_of(i), std::chrono::seconds(60));
        const std::string image = cache.find(key_of(i));
        if (image.empty()) cache.store(key_of(i), image_of(i));
        else if (image != image_of(i)) status = 1;
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int raw = 0;
    ::waitpid(child, &raw, 0);
    CHECK(support::status_of(raw) == 0);
  }
  const engine::run::disk_cache cache;
  CHECK(cache.contents().bytes <= 400 << 10);
}
