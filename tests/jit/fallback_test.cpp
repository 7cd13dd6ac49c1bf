// What compiled functions do where kernels cannot be compiled, kept or loaded: the work is still done.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include "../environment_value.hpp"
#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "../stderr_text.hpp"

using namespace sinter;

namespace {

std::string script(const scratch_folder& in, const std::string& body) {
  const std::string path = in.path + "/compiler";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

/// Compiles a function that no other test compiles, and checks its answer; which backend gave it.
std::string answer(float unique) {
  const auto f = compile([unique](auto x) { return x * unique + 1.f; }, {.name = "fallback"});
  const tensor<float, 1> x{1.f, -2.f, 3.f};
  const auto y = f(x);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(y(i) == doctest::Approx(x(i) * unique + 1.f));
  return f.report().backend;
}

}  // namespace

TEST_CASE("without a compiler the reference backend answers, and a compiler found later is used") {
  const scratch_folder cache;
  const environment_value where("SINTER_CACHE_DIR", cache.path);
  {
    const environment_value none("SINTER_CXX", "/nonexistent/c++");
    CHECK(answer(1.25f) == "reference");
  }
  CHECK(answer(1.25f) == "cpu");
}

TEST_CASE("a compiler that is of no use is reported once, and what to do") {
  const scratch_folder cache, tools;
  const environment_value where("SINTER_CACHE_DIR", cache.path);
  const auto warnings = [&](const std::string& compiler, const char* remedy) {
    const environment_value chosen("SINTER_CXX", compiler);
    const std::string said = stderr_text([&] {
      for (const char* name : {"one", "two"}) {
        const auto f = compile([](auto x) { return x * 4.75f; }, {.dynamic = dynamic::no, .name = name});
        for (const int n : {3, 4}) CHECK(f(ones<float>(n))(2) == 4.75f);
      }
    });
    CHECK(said.find(remedy) != std::string::npos);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = said.find("runs on the reference backend", at)) != std::string::npos; ++at) ++count;
    CHECK_MESSAGE(count == 1, said);
  };
  warnings("/nonexistent/c++-once", "install g++ or clang++, or set SINTER_CXX to the path of one");
  warnings(script(tools, "case $1 in --version) echo c++ 2; exit 0;; esac\necho no >&2; exit 3"),
           "set SINTER_CXX to a working g++ or clang++");
  warnings(script(tools,
                  "case $1 in --version) echo c++ 4; exit 0;; esac\n"
                  "for a; do [ \"$p\" = -o ] && o=$a; p=$a; done\n: | " +
                      test_paths::cxx + " -shared -fPIC -x c++ - -o \"$o\""),
           "produced no shared object with the kernel; set SINTER_CXX to a working g++ or clang++");
  const environment_value limit("SINTER_COMPILE_TIMEOUT", "1");
  const std::string log = cache.path + "/log";
  warnings(script(tools, "case $1 in --version) echo c++ 3; exit 0;; esac\necho run >> " + log + "; exec sleep 30"),
           "this process does not wait for it again");
  CHECK(std::filesystem::file_size(log) == 4);
}

TEST_CASE("a compiler that fails, dies or hangs leaves the work to the reference backend") {
  const scratch_folder cache, tools;
  const environment_value where("SINTER_CACHE_DIR", cache.path), limit("SINTER_COMPILE_TIMEOUT", "1");
  for (const char* body : {"echo no >&2; exit 1", "kill -9 $$", "sleep 30", "exit 0"}) {
    CAPTURE(body);
    const environment_value bad("SINTER_CXX",
                                script(tools, std::string("case $1 in --version) echo c++ 1; exit 0;; esac\n") + body));
    CHECK(answer(2.5f) == "reference");
  }
}

TEST_CASE("a cache folder that cannot be made does not stop compilation") {
  const scratch_folder folder;
  std::ofstream(folder.path + "/file") << "not a folder";
  const environment_value where("SINTER_CACHE_DIR", folder.path + "/file/cache");
  CHECK(answer(3.75f) == "cpu");
}

TEST_CASE("an unknown backend is a user's error that names the choices") {
  const auto f = compile([](auto x) { return x + 1.f; }, {.backend = "tpu"});
  CHECK_THROWS_WITH_AS(f(tensor<float, 1>{1.f}), doctest::Contains("\"reference\""), user_error);
  CHECK_THROWS_WITH_AS(f(tensor<float, 1>{1.f}), doctest::Contains("fallback_test.cpp:"), user_error);
}

TEST_CASE("a backend named after a device refuses arguments on another") {
  const tensor<float, 1> x{1.f};
  CHECK(compile([](auto x) { return x + 1.f; }, {.backend = "cpu"})(x).item() == 2);
  const auto f = compile([](auto x) { return x + 1.f; }, {.backend = "cuda", .name = "step"});
  CHECK_THROWS_WITH_AS(f(x), doctest::Contains("[step] options.backend is \"cuda\" but the arguments are on cpu"),
                       user_error);
  CHECK_THROWS_WITH_AS(f(x), doctest::Contains("fallback_test.cpp:"), user_error);
}
