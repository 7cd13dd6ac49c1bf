// Which build code is of: what the linker wrote, else what the file holds.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sinter/run/build/cache.hpp>

#include <string>

#include "../unnamed_files.hpp"
#include "support.hpp"

using support::folder;
namespace run = sinter::engine::run;

namespace {

/// The build of a library with one function, of the time 1000000000.
std::string build_of(const folder& root, const std::string& name, const std::string& value, const std::string& flag) {
  // Symbols have the name of the text.
  const std::string text = root.at("text.cpp"), path = root.at(name + ".so");
  support::write(text, "extern \"C\" int answer() { return " + value + "; }\n");
  const std::string command = support::quoted(support::real_compiler()) + " -shared -fPIC -O1 " + flag + " -o " +
                              support::quoted(path) + " " + support::quoted(text);
  REQUIRE(std::system(command.c_str()) == 0);
  const timespec both[] = {{1000000000, 0}, {1000000000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both, 0) == 0);
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle);
  const std::string out = run::build_of(::dlsym(handle, "answer"));
  ::dlclose(handle);
  return out;
}

}  // namespace

TEST_CASE("builds of equal size and time are told apart, with a build-id and without") {
  const folder root;
  for (const char* flag : {"-Wl,--build-id=sha1", "-Wl,--build-id=none"}) {
    CAPTURE(flag);
    const std::string one = build_of(root, "a", "1234", flag), two = build_of(root, "b", "1235", flag),
                      again = build_of(root, "c", "1234", flag);
    struct stat a {
    }, b{};
    REQUIRE((::stat(root.at("a.so").c_str(), &a) == 0 && ::stat(root.at("b.so").c_str(), &b) == 0));
    CHECK(a.st_size == b.st_size);
    CHECK(a.st_mtim.tv_sec == b.st_mtim.tv_sec);
    CHECK(one != two);
    CHECK(one == again);
    CHECK(one.starts_with(std::string(flag).ends_with("none") ? "file " : "build-id "));
  }
  // A given one is read as it is.
  CHECK(build_of(root, "d", "1", "-Wl,--build-id=0x0123456789abcdef") == "build-id 0123456789abcdef");
}

TEST_CASE("memory that is no module's has no build") {
  CHECK(run::build_of(nullptr) == "");
  const std::string on_heap(1000, 'x');
  CHECK(run::build_of(on_heap.data()) == "");
  run::digest d;
  CHECK_FALSE(run::digest_of_file("/proc", d));
  CHECK_FALSE(run::digest_of_file("/nowhere", d));
}
