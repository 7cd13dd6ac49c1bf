// What a terminal shows of a compilation that takes more than a second, and that it goes away.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include "../scratch_folder.hpp"
#include "../texts.hpp"

using namespace sinter;
using texts::contains;

namespace {

/// What a forked process, whose compiler takes its time, prints to a terminal, or to a file.
std::string said(bool terminal, const options& how, const char* variable = nullptr) {
  const scratch_folder scratch;
  const std::string& folder = scratch.path;
  const std::string slow = folder + "/slow";
  std::ofstream(slow) << "#!/bin/sh\ncase $1 in --version) ;; *) sleep 1.6;; esac\nexec c++ \"$@\"\n";
  REQUIRE(chmod(slow.c_str(), 0700) == 0);
  const int us = terminal ? posix_openpt(O_RDWR | O_NOCTTY) : open((folder + "/said").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(us >= 0);
  if (terminal) {
    REQUIRE(grantpt(us) == 0);
    REQUIRE(unlockpt(us) == 0);
  }
  const int them = terminal ? open(ptsname(us), O_RDWR | O_NOCTTY) : dup(us);
  const pid_t child = fork();
  if (child == 0) {
    dup2(them, 2);
    setenv("SINTER_CACHE_DIR", (folder + "/cache").c_str(), 1);
    setenv("SINTER_CXX", slow.c_str(), 1);
    if (variable) setenv("SINTER_PROGRESS", variable, 1);
    std::fputs("epoch 1 ", stderr);
    const auto f = compile([](tensor<float, 1> x) { return exp(x) * 0.3519f; }, how);
    const bool right = f(tensor<float, 1>{0, 0})(1) == 0.3519f;
    std::fputs("[done]", stderr);
    _exit(right ? 0 : 1);
  }
  close(them);
  std::string text;
  char some[256];
  if (!terminal) waitpid(child, nullptr, 0), lseek(us, 0, SEEK_SET);
  // A terminal ends with an error when nobody has it any more.
  for (ssize_t n; (n = read(us, some, sizeof some)) > 0;) text.append(some, static_cast<std::size_t>(n));
  close(us);
  if (terminal) waitpid(child, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("a terminal is told how far a long compilation is, in a line that goes away") {
  const std::string text = said(true, {.name = "slow\033[2Jstep"});
  CHECK(contains(text, "step: 0 of 1 kernels compiled, 1."));
  CHECK(!contains(text, "\033[2J"));  // names are not for terminals to obey
  CHECK(text.ends_with("\0338\033[K[done]"));
  CHECK(text.starts_with("epoch 1 \033[K\0337"));
  CHECK(text.find_first_of("\r\n") == text.npos);  // what the program printed stands
}

TEST_CASE("nothing is told where that is not wanted, or stderr is no terminal") {
  CHECK(said(true, {.progress = false}) == "epoch 1 [done]");
  CHECK(said(true, {}, "0") == "epoch 1 [done]");
  CHECK(said(false, {}) == "epoch 1 [done]");
}
