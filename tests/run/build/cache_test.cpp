#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sinter/run/build/build.hpp>

#include <chrono>
#include <set>
#include <thread>

#include "../support.hpp"

using namespace sinter;
using support::contains, support::folder, support::kernel, support::variable;

namespace {

/// A private cache, a private folder for temporary files and a compiler that counts its runs.
struct counted {
  explicit counted(std::string before = "") : before_each(std::move(before)) {}
  std::string before_each;  ///< a shell command that the compiler runs first
  folder root;
  variable cache{"SINTER_CACHE_DIR", root.at("cache")};
  variable temporary{"TMPDIR", root.path};
  std::string log = root.at("log");
  variable compiler{"SINTER_CXX", support::counting_compiler(root, log, before_each)};

  int runs() const { return support::lines(log); }
  std::vector<std::string> entries() const { return support::files(root.at("cache")); }
};

/// The kernel's answer; the module is gone afterwards, so the next call looks on disk.
int built_answer(const std::string& source) {
  return support::answer(engine::run::build(std::vector<std::string>{source})[0]);
}

void flip(const std::string& path, std::size_t at, int bit) {
  std::string bytes = support::contents(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
  support::write(path, bytes);
}

/// Another user's id, or this user's where that cannot be had.
uid_t stranger() { return ::geteuid() == 0 ? 65534 : ::geteuid(); }

bool become(uid_t user) { return ::setgid(user) == 0 && ::setuid(user) == 0; }

}  // namespace

TEST_CASE("a kernel is compiled once; then it comes from memory, then from disk") {
  const counted box;
  const std::string source = kernel(11, "once");
  {
    const auto first = engine::run::build(std::vector<std::string>{source});
    CHECK_FALSE(first[0].from_cache);
    const auto second = engine::run::build(std::vector<std::string>{source});
    CHECK(second[0].from_cache);
    CHECK(second[0].code == first[0].code);
  }
  const auto third = engine::run::build(std::vector<std::string>{source, source});
  CHECK(third[0].from_cache);
  CHECK(third[0].code == third[1].code);
  CHECK(support::answer(third[0]) == 11);
  CHECK(box.runs() == 1);
  // One file: no lock and no temporary file stays.
  CHECK(box.entries().size() == 1);
}

TEST_CASE("the folder is made, private, and found where the environment says") {
  const folder root;
  const variable none("SINTER_CACHE_DIR", nullptr);
  const auto mode = [](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0u;
  };
  {
    const variable xdg("XDG_CACHE_HOME", root.at("x/y"));
    const engine::run::disk_cache cache;
    CHECK(cache.path() == root.at("x/y/sinter"));
    CHECK(mode(cache.path()) == 0700);
    cache.store("key", "image");
    REQUIRE(support::files(cache.path()).size() == 1);
    CHECK(mode(support::files(cache.path())[0]) == 0600);
    CHECK(cache.find("key") == "image");
    CHECK(cache.find("another key").empty());
  }
  const variable relative("XDG_CACHE_HOME", "not/absolute");
  {
    const variable home("HOME", root.path);
    CHECK(engine::run::disk_cache().path() == root.at(".cache/sinter"));
  }
  const variable homeless("HOME", nullptr);
  CHECK(engine::run::detail::cache_path() == "/tmp/sinter-" + std::to_string(::geteuid()));
}

TEST_CASE("no flipped bit of an entry is ever loaded") {
  const folder root;
  const variable chosen("SINTER_CACHE_DIR", root.at("cache"));
  const auto r = support::in_child([&] {
    const engine::run::disk_cache cache;
    const std::string key = "the key of a small kernel", image = "\177ELF and the bytes of it";
    const std::string path = root.at("cache/" + engine::run::disk_cache::entry_name(key));
    cache.store(key, image);
    const std::string good = support::contents(path);
    if (good.size() < key.size() + image.size() || cache.find(key) != image) return 1;
    for (std::size_t at = 0; at < good.size(); ++at)
      for (int bit = 0; bit < 8; ++bit) {
        support::write(path, good);
        flip(path, at, bit);
        if (!cache.find(key).empty()) return 2;
        if (support::fs::exists(path)) return 3;
      }
    for (std::size_t length = 0; length < good.size(); ++length) {
      support::write(path, good.substr(0, length));
      if (!cache.find(key).empty() || support::fs::exists(path)) return 4;
    }
    support::write(path, good + "x");
    if (!cache.find(key).empty() || support::fs::exists(path)) return 5;
    support::write(path, good);
    return cache.find(key) == image ? 0 : 6;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "is damaged; the kernel is compiled again"));
  CHECK(contains(r.error_text, "is truncated"));
}

TEST_CASE("sizes in a forged header are not believed") {
  const std::string key = "key", image = "image";
  const std::vector<std::string> keys = {"another", key};
  std::string whole = engine::run::detail::pack_entry(keys, image);
  CHECK(engine::run::detail::unpack_entry(whole, key) == nullptr);
  CHECK(whole == image);
  for (std::uint64_t forged : {std::uint64_t{0}, std::uint64_t{4}, std::uint64_t{1} << 40, ~std::uint64_t{0}})
    for (std::size_t field : {16u, 24u}) {
      std::string entry = engine::run::detail::pack_entry(keys, image);
      std::memcpy(entry.data() + field, &forged, sizeof forged);
      CHECK(engine::run::detail::unpack_entry(entry, key) != nullptr);
    }
  // Nor those before its keys, the checksum being right.
  engine::run::detail::entry_header header;
  for (std::uint64_t forged : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{1} << 40, ~std::uint64_t{0}})
    for (std::size_t at : {std::size_t{0}, 8 + keys[0].size()}) {
      std::string entry = engine::run::detail::pack_entry(keys, image);
      std::memcpy(entry.data() + sizeof header + at, &forged, sizeof forged);
      std::memcpy(&header, entry.data(), sizeof header);
      const std::string_view body = std::string_view(entry).substr(sizeof header);
      header.check = engine::run::digest_of(body.substr(header.keys_bytes),
                                            engine::run::digest_of(body.substr(0, header.keys_bytes)));
      std::memcpy(entry.data(), &header, sizeof header);
      CHECK(engine::run::detail::unpack_entry(entry, key) != nullptr);
    }
}

namespace {

ino_t inode(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

/// From now on no file gets a second name.
bool without_links() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("the image of several keys is one file by all their names, or a copy for each where files have one name") {
  for (const bool links : {true, false}) {
    const folder root;
    const variable chosen("SINTER_CACHE_DIR", root.at("cache"));
    const std::vector<std::string> keys = {"first", "second", "third"};
    const auto r = support::in_child([&] {
      if (!links && !without_links()) return 77;
      return engine::run::disk_cache().store(keys, "the image") ? 0 : 1;
    });
    if (r.status == 77) {
      MESSAGE("system calls cannot be forbidden: copies are not tested");
      continue;
    }
    CHECK_MESSAGE(r.status == 0, r.error_text);
    const engine::run::disk_cache cache;
    std::set<ino_t> files;
    for (const std::string& key : keys) {
      sinter::series<std::string> others;
      CHECK(cache.find(key, &others) == "the image");
      CHECK(std::set<std::string>(others.begin(), others.end()).size() == 2);
      CHECK(std::find(others.begin(), others.end(), key) == others.end());
      files.insert(inode(root.at("cache/" + engine::run::disk_cache::entry_name(key))));
    }
    CHECK(files.size() == (links ? 1 : 3));
    CHECK(cache.find("fourth").empty());
    CHECK(cache.contents().kernels == 3);
    // One of them anew: the others keep theirs.
    CHECK(cache.store("second", "another"));
    CHECK(cache.find("first") == "the image");
    CHECK(cache.find("second") == "another");
    CHECK(support::files(root.at("cache")).size() == 3);
    // Damage is found by each name.
    flip(root.at("cache/" + engine::run::disk_cache::entry_name("first")), sizeof(engine::run::detail::entry_header),
         0);
    const auto damaged = support::in_child([&] { return cache.find("first").empty() ? 0 : 1; });
    CHECK(damaged.status == 0);
    CHECK(cache.find("third").empty() == links);
    CHECK(support::files(root.at("cache")).size() == (links ? 1 : 2));
  }
}

TEST_CASE("an entry for another key, of another format or of another version is compiled again") {
  const counted box;
  const std::string source = kernel(12, "version");
  CHECK(built_answer(source) == 12);
  const std::string path = box.entries()[0], good = support::contents(path);

  // The same kernel as another version of sinter stored it, under this one's name.
  std::string key = engine::run::key_text(*engine::run::find_compiler(), source);
  const std::string image = good.substr(sizeof(engine::run::detail::entry_header) + 8 + key.size());
  CHECK(support::contains(key, "sinter " SINTER_VERSION "\n"));
  key.replace(key.find(SINTER_VERSION), std::string(SINTER_VERSION).size(), "0.0.9");
  support::write(path, engine::run::detail::pack_entry({&key, 1}, image));
  CHECK(built_answer(source) == 12);
  CHECK(box.runs() == 2);

  std::string format = support::contents(path);
  CHECK(format == good);
  REQUIRE(format[8] == 3);
  format[8] = 2;
  support::write(path, format);
  // Nobody is told: it is what an update leaves.
  const auto updated = support::in_child([&] { return built_answer(source); });
  CHECK(updated.status == 12);
  CHECK(updated.error_text.empty());
  CHECK(box.runs() == 3);

  const std::string other = kernel(13, "version");
  CHECK(built_answer(other) == 13);
  support::write(path,
                 support::contents(box.root.at("cache/" + engine::run::disk_cache::entry_name(engine::run::key_text(
                                                              *engine::run::find_compiler(), other)))));
  CHECK(built_answer(source) == 12);
  CHECK(box.runs() == 5);
  CHECK(built_answer(source) == 12);
  CHECK(box.runs() == 5);
}

TEST_CASE("a truncated or damaged kernel is compiled again and stored again") {
  const counted box;
  const std::string source = kernel(14, "damage");
  CHECK(built_answer(source) == 14);
  const std::string path = box.entries()[0], good = support::contents(path);
  int expected = 1;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{47}, std::size_t{48}, good.size() / 2, good.size() - 1}) {
    support::write(path, good.substr(0, length));
    CHECK(built_answer(source) == 14);
    CHECK(box.runs() == ++expected);
    CHECK(support::contents(path) == good);
  }
  for (const std::size_t at : {good.size() / 2, good.size() - 1}) {
    flip(path, at, 3);
    CHECK(built_answer(source) == 14);
    CHECK(box.runs() == ++expected);
  }
  // Intact, yet not a shared object.
  const std::string key = engine::run::key_text(*engine::run::find_compiler(), source);
  support::write(path, engine::run::detail::pack_entry({&key, 1}, "\177ELF nonsense"));
  CHECK(built_answer(source) == 14);
  CHECK(box.runs() == ++expected);
  CHECK(built_answer(source) == 14);
  CHECK(box.runs() == expected);
}

TEST_CASE("an entry that others own or may write to is not loaded") {
  const counted box;
  const std::string source = kernel(15, "owner");
  CHECK(built_answer(source) == 15);
  const std::string path = box.entries()[0];
  int expected = 1;
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const auto r = support::in_child([&] { return built_answer(source); });
    CHECK(r.status == 15);
    CHECK(contains(r.error_text, "can be written by others; the kernel is compiled again"));
    CHECK(box.runs() == ++expected);
  }
  // A link is not followed, a folder or a pipe not read.
  const std::string aside = box.root.at("aside");
  support::fs::rename(path, aside);
  support::fs::create_symlink(aside, path);
  CHECK(built_answer(source) == 15);
  CHECK(box.runs() == ++expected);
  CHECK_FALSE(support::fs::is_symlink(path));
  support::fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(built_answer(source) == 15);
  CHECK(box.runs() == ++expected);
  if (::geteuid() != 0) {
    MESSAGE("not root: foreign owners are not tested");
    return;
  }
  REQUIRE(::chown(path.c_str(), stranger(), stranger()) == 0);
  const auto r = support::in_child([&] { return built_answer(source); });
  CHECK(r.status == 15);
  CHECK(contains(r.error_text, "belongs to another user; the kernel is compiled again"));
  CHECK(box.runs() == ++expected);
  CHECK(built_answer(source) == 15);
  CHECK(box.runs() == expected);
}

TEST_CASE("a folder that others own or may write to is not used; the work is done") {
  const counted box;
  const std::string cache = box.root.at("cache");
  const std::string source = kernel(16, "folder");
  support::fs::create_directory(cache);
  const auto refused = [&](const std::string& words) {
    const int before = box.runs();
    const auto r = support::in_child([&] { return built_answer(source) == 16 && built_answer(source) == 16 ? 0 : 1; });
    CHECK_MESSAGE(r.status == 0, r.error_text);
    CHECK(contains(r.error_text, words));
    // One warning for both builds.
    CHECK(std::count(r.error_text.begin(), r.error_text.end(), '\n') == 1);
    CHECK(box.runs() == before + 2);
  };
  REQUIRE(::chmod(cache.c_str(), 0770) == 0);
  refused("others may write to it; run chmod go-w on it");
  CHECK(box.entries().empty());
  support::fs::remove(cache);
  support::write(cache, "a file in its place");
  refused("cannot be used: Not a directory");
  support::fs::remove(cache);
  if (::geteuid() == 0) {
    support::fs::create_directory(cache);
    REQUIRE(::chown(cache.c_str(), stranger(), stranger()) == 0);
    refused("it belongs to another user");
    CHECK(box.entries().empty());
  } else {
    MESSAGE("not root: foreign owners are not tested");
  }
}

TEST_CASE("a read-only folder is read, and not written with one warning") {
  counted box;
  const std::string cache = box.root.at("cache");
  const std::string known = kernel(17, "read-only"), unknown = kernel(18, "read-only");
  CHECK(built_answer(known) == 17);
  for (const auto& path : {box.root.path, cache, box.entries()[0], box.log})
    REQUIRE(::chown(path.c_str(), stranger(), static_cast<gid_t>(-1)) == 0);
  REQUIRE(::chmod(cache.c_str(), 0500) == 0);
  const auto r = support::in_child([&] {
    if (::geteuid() == 0 && !become(stranger())) return 1;
    if (built_answer(known) != 17 || box.runs() != 1) return 2;
    for (int i = 0; i < 2; ++i)
      if (built_answer(unknown) != 18) return 3;
    return box.runs() == 3 ? 0 : 4;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "cannot be written: Permission denied"));
  CHECK(std::count(r.error_text.begin(), r.error_text.end(), '\n') == 1);
  CHECK(box.entries().size() == 1);
  ::chmod(cache.c_str(), 0700);
}

TEST_CASE("a full file system costs a warning") {
  const counted box;
  support::fs::create_directory(box.root.at("cache"));
  const auto r = support::in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", box.root.at("cache").c_str(), "tmpfs", 0, "size=8k,mode=0700") != 0)
      return 77;
    for (int i = 0; i < 2; ++i)
      if (built_answer(kernel(19, "full")) != 19) return 1;
    return box.entries().empty() ? 0 : 2;
  });
  if (r.status == 77) {
    MESSAGE("no right to mount a small file system: not tested");
    return;
  }
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "cannot be written: No space left on device"));
}

TEST_CASE("a file size limit costs a warning and not the program") {
  const counted box;
  const std::string source = kernel(20, std::string(40'000, 'x'));
  const auto r = support::in_child([&] {
    const std::size_t image = engine::run::compile(*engine::run::find_compiler(), source).image.size();
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = std::max(image, source.size()) + 1000;
    if (image < 2000 || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    if (built_answer(source) != 20) return 2;
    return box.entries().empty() ? 0 : 3;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "cannot be written: File too large"));
}

TEST_CASE("processes that start cold together compile each kernel once") {
  const counted box("sleep 0.2");
  engine::run::find_compiler();
  std::vector<std::string> sources;
  for (int i = 0; i < 3; ++i) sources.push_back(kernel(30 + i, "cold"));
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    const pid_t child = ::fork();
    if (child == 0) {
      char byte;
      ::close(gate[1]);
      const bool started = ::read(gate[0], &byte, 1) == 0;
      int status = started ? 0 : 1;
      try {
        const auto b = engine::run::build(sources);
        for (int i = 0; i < 3; ++i)
          if (support::answer(b[static_cast<std::size_t>(i)]) != 30 + i) status = 2;
      } catch (...) {
        status = 3;
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  for (const pid_t child : children) {
    int raw = 0;
    ::waitpid(child, &raw, 0);
    CHECK(support::status_of(raw) == 0);
  }
  CHECK(box.runs() == 3);
  CHECK(box.entries().size() == 3);
}

TEST_CASE("threads that ask together compile each kernel once and share it, with a disk cache and without") {
  for (const bool disk : {true, false}) {
    const counted box;
    support::fs::create_directory(box.root.at("cache"));
    REQUIRE(::chmod(box.root.at("cache").c_str(), disk ? 0700 : 0770) == 0);
    std::vector<std::thread> threads;
    std::vector<std::vector<engine::run::built>> got(8);
    for (std::size_t t = 0; t < got.size(); ++t)
      threads.emplace_back([&got, t] {
        std::vector<std::string> sources = {kernel(41, "threads"), kernel(42, "threads")};
        if (t % 2) std::swap(sources[0], sources[1]);
        got[t] = engine::run::build(sources);
        if (t % 2) std::swap(got[t][0], got[t][1]);
      });
    for (auto& t : threads) t.join();
    for (const auto& b : got) {
      CHECK(b[0].code == got[0][0].code);
      CHECK(support::answer(b[0]) == 41);
      CHECK(support::answer(b[1]) == 42);
    }
    CHECK(box.runs() == 2);
    CHECK(box.entries().size() == (disk ? 2 : 0));
  }
}

TEST_CASE("a process that dies while compiling does not block the next; waiting is bounded") {
  const counted box;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const engine::run::disk_cache cache;
    const auto lock = cache.acquire("key", std::chrono::seconds(5));
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const engine::run::disk_cache cache;
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  { const auto bounded = cache.acquire("key", std::chrono::duration<double>(0.2)); }
  CHECK(waited() >= 0.2);
  CHECK(waited() < 10);
  { const auto other_key = cache.acquire("another key", std::chrono::seconds(60)); }
  CHECK(waited() < 10);
  ::kill(child, SIGKILL);
  { const auto freed = cache.acquire("key", std::chrono::seconds(60)); }
  CHECK(waited() < 20);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(support::files(cache.path()).empty());
}

TEST_CASE("digests differ in both halves for texts that differ anywhere") {
  std::set<std::uint64_t> first, second;
  std::string text(100, 'a');
  std::size_t count = 0;
  const auto add = [&](std::string_view t) {
    const engine::run::digest d = engine::run::digest_of(t);
    first.insert(d.first);
    second.insert(d.second);
    ++count;
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
      add(changed);
    }
  for (std::size_t n = 0; n <= text.size(); ++n) add(std::string_view(text).substr(0, n));
  for (std::size_t n = 1; n < 20; ++n) add(std::string(n, '\0'));
  CHECK(first.size() == count);
  CHECK(second.size() == count);
}

TEST_CASE("a warm start costs no more than a few milliseconds a kernel") {
  const counted box;
  std::vector<std::string> sources;
  for (int i = 0; i < 8; ++i) sources.push_back(kernel(i, "warm"));
  engine::run::build(sources);
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat)
    for (const auto& b : engine::run::build(sources)) {
      CHECK(b.from_cache);
      best = std::min(best, b.milliseconds);
    }
  CHECK(best < 5);
  CHECK(box.runs() == 8);
}
