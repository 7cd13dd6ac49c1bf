// SINTER_TRACE: pages and trace.json, written by this program run again, and judged by check_page.py.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../paths.hpp"

using namespace sinter;

namespace {

int shell(const std::string& command) { return std::system(command.c_str()); }

std::string temporary_folder() {
  std::string path = "/tmp/sinter-trace-XXXXXX";
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  return path;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// This program's test case `name` in a process of its own, with an environment.
int again(const std::string& environment, const std::string& name) {
  return shell(environment + " " + this_program() + " --no-skip -tc='" + name + "' >/dev/null");
}

}  // namespace

TEST_CASE("the traced program" * doctest::skip()) {
  const auto f = compile(
      [](tensor<float, 2> x, tensor<float, 2> w) {
        const tensor<float, 2> h = tanh(matmul(x, w) + 0.0f);
        return std::pair(softmax(matmul(h, w), axis<1>), sum(h, axis<0>));
      },
      {.name = "<script>alert(1)</script>&\"'\x01 \xc3\xbc"});
  const auto x = ones<float>(32, 32);
  f(x, x);
  f(x, x);
  std::thread([&] { f(x, x); }).join();
  const auto g = compile([](tensor<float, 2> a) { return a * 2; });
  g(x);
  g(x);
}

TEST_CASE("pages and trace.json are whole, safe and the same again") {
  const std::string one = temporary_folder(), two = temporary_folder();
  CHECK(again("SINTER_TRACE=" + one + "/made", "the traced program") == 0);
  CHECK(again("SINTER_TRACE=" + two, "the traced program") == 0);
  CHECK(shell("python3 " + test_paths::data + "/report/check_page.py " + one + "/made " + two) == 0);
  shell("rm -rf " + one + " " + two);
}

TEST_CASE("a folder that cannot be written is a warning, and calls go on") {
  const std::string folder = temporary_folder();
  const std::string command =
      "SINTER_TRACE=/proc/nothing/here " + this_program() + " --no-skip -tc='the traced program' 2>";
  CHECK(shell(command + folder + "/log >/dev/null") == 0);
  CHECK(shell("grep -q 'SINTER_TRACE=/proc/nothing/here cannot be made' " + folder + "/log") == 0);
  shell("rm -rf " + folder);
}
