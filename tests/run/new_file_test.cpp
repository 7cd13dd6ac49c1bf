// Files that are whole under their names or not there, with names while they are written and without.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sinter/run/new_file.hpp>

#include <cstring>
#include <string>

#include "../unnamed_files.hpp"
#include "support.hpp"

/// How many calls give zeros: names that somebody foretells.
static int foretold = 0;

extern "C" ssize_t getrandom(void* to, size_t bytes, unsigned flags) {
  if (foretold == 0) return ::syscall(SYS_getrandom, to, bytes, flags);
  --foretold;
  std::memset(to, 0, bytes);
  return static_cast<ssize_t>(bytes);
}

using support::contents, support::folder;
using unnamed_files::date, unnamed_files::names_in;
namespace files = sinter::engine::run::detail;

namespace {

/// Both kinds of file systems.
template <class F>
void on_both(F&& f) {
  for (const bool without : {false, true}) {
    CAPTURE(without);
    no_unnamed_files = without;
    f();
    no_unnamed_files = false;
  }
}

files::new_file begun(const std::string& path, mode_t mode = 0666) {
  return files::new_file(files::folder_of_path(path), mode);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

std::string temporary(const char* name) { return std::string(files::temporary_name) + name; }

}  // namespace

TEST_CASE("a file is there when it is whole, and what was there until then stays") {
  on_both([] {
    const folder root;
    const std::string path = root.at("a");
    support::write(path, "old");
    {
      files::new_file file = begun(path);
      REQUIRE(file);
      CHECK(files::write_all(file.get(), "new"));
      CHECK(contents(path) == "old");
      CHECK(names_in(root.path).size() == (no_unnamed_files ? 2 : 1));
    }
    CHECK(names_in(root.path).size() == 1);
    CHECK(files::replace_file(path, "new", true));
    CHECK(contents(path) == "new");
    CHECK(files::replace_file(root.at("b"), "b"));
    CHECK(contents(root.at("b")) == "b");
    // More names than one, over what is there, and as the first alone.
    files::new_file file = begun(path);
    REQUIRE(files::write_all(file.get(), "of all"));
    CHECK(file.also("a"));
    CHECK_FALSE(file.claim("b"));
    CHECK(errno == EEXIST);
    CHECK(file.claim("c"));
    CHECK(file.finish("b"));
    for (const char* name : {"a", "b", "c"}) CHECK(contents(root.at(name)) == "of all");
    CHECK(names_in(root.path).size() == 3);
    // A folder is in the way.
    support::fs::create_directory(root.at("folder"));
    CHECK_FALSE(files::replace_file(root.at("folder"), "x"));
    CHECK_FALSE(files::replace_file(root.at("none/x"), "x"));
    CHECK(names_in(root.path).size() == 4);
  });
}

TEST_CASE("modes are the umask's, or those of the file before, but for the bits of programs") {
  on_both([] {
    const folder root;
    const mode_t before = ::umask(027);
    CHECK(files::replace_file(root.at("new"), "x"));
    CHECK(mode_of(root.at("new")) == 0640);
    ::umask(0);
    CHECK(files::replace_file(root.at("open"), "x"));
    CHECK(mode_of(root.at("open")) == 0666);
    ::umask(077);
    for (const mode_t mode : {0604, 0444, 0777}) {
      REQUIRE(::chmod(root.at("new").c_str(), mode) == 0);
      CHECK(files::replace_file(root.at("new"), "y"));
      CHECK(mode_of(root.at("new")) == mode);
    }
    REQUIRE(::chmod(root.at("new").c_str(), 06755) == 0);
    CHECK(files::replace_file(root.at("new"), "z"));
    CHECK(mode_of(root.at("new")) == 0755);
    ::umask(before);
  });
}

TEST_CASE("no link that somebody puts where a file will be is followed") {
  on_both([] {
    const folder root;
    support::write(root.at("victim"), "precious");
    const std::string zeros(32, '0');
    for (const std::string& name : {temporary(zeros.c_str()), std::string("a")})
      support::fs::create_symlink(root.at("victim"), root.at(name));
    for (const char* name : {"a", "b"}) {
      foretold = 3;
      CHECK(files::replace_file(root.at(name), "new"));
      foretold = 0;
      CHECK(contents(root.at(name)) == "new");
    }
    CHECK(contents(root.at("victim")) == "precious");
    CHECK_FALSE(support::fs::is_symlink(root.at("a")));
    CHECK(names_in(root.path).size() == 4);
  });
}

TEST_CASE("a killed writer leaves nothing, or what is swept when it is a minute old") {
  on_both([] {
    const folder root;
    const auto r = support::in_child([&] {
      files::new_file file = begun(root.at("a"));
      files::write_all(file.get(), "half");
      ::kill(::getpid(), SIGKILL);
      return 0;
    });
    CHECK(r.status == 1000 + SIGKILL);
    CHECK(names_in(root.path).size() == (no_unnamed_files ? 1 : 0));
    const files::file_handle at = files::folder_of_path(root.at("a"));
    files::sweep_temporaries(at.get());
    CHECK(names_in(root.path).size() == (no_unnamed_files ? 1 : 0));
    for (const auto& name : names_in(root.path)) CHECK(date(root.at(name), -61));
    files::sweep_temporaries(at.get());
    CHECK(names_in(root.path).empty());
  });
}

TEST_CASE("a sweep leaves what somebody holds, what is young, and what is no file of its kind") {
  no_unnamed_files = true;
  const folder root;
  files::new_file held = begun(root.at("a"));
  no_unnamed_files = false;
  REQUIRE(held);
  CHECK(date(root.at(held.temporary()), -3600));
  for (const std::string& name : {temporary("young"), temporary("old"), temporary("ahead"), std::string("other")})
    support::write(root.at(name), "x");
  CHECK(date(root.at(temporary("young")), -50));
  for (const std::string& name : {temporary("old"), std::string("other")}) CHECK(date(root.at(name), -70));
  CHECK(date(root.at(temporary("ahead")), 3600));
  support::fs::create_directory(root.at(temporary("folder")));
  support::fs::create_symlink(root.at("other"), root.at(temporary("link")));
  REQUIRE(::mkfifo(root.at(temporary("pipe")).c_str(), 0600) == 0);
  for (const char* name : {"folder", "link", "pipe"}) CHECK(date(root.at(temporary(name)), -70));
  const bool others = ::geteuid() == 0;
  if (others) {
    support::write(root.at(temporary("of another")), "x");
    REQUIRE(::chown(root.at(temporary("of another")).c_str(), 12345, 12345) == 0);
    CHECK(date(root.at(temporary("of another")), -70));
  }
  files::sweep_temporaries(files::folder_of_path(root.at("a")).get());
  for (const std::string& name : {held.temporary(), temporary("young"), std::string("other"), temporary("folder"),
                                  temporary("link"), temporary("pipe")})
    CHECK_MESSAGE(support::fs::exists(support::fs::symlink_status(root.at(name))), name);
  if (others) CHECK(support::fs::exists(root.at(temporary("of another"))));
  CHECK_FALSE(support::fs::exists(root.at(temporary("old"))));
  CHECK_FALSE(support::fs::exists(root.at(temporary("ahead"))));
  CHECK(held.finish("a"));
  CHECK(support::fs::exists(root.at("a")));
}
