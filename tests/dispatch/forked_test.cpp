// A forked child computes, whatever its parent has done before.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include <sinter/sinter.hpp>

namespace {

using namespace sinter;
using vec = tensor<float, 1>;

/// How a child process ends in which f answers; a child that waits for ever is killed.
template <class F>
int answer_of_child(F&& f) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a child computes what its parent computed on several threads") {
  const auto eager = [](const vec& x) { return vec(exp(x) + x); };
  const auto compiled = compile([](vec x) { return sum(exp(x) * x); });
  const auto product = [](const tensor<float, 2>& x) { return tensor<float, 2>(matmul(x, x)); };
  const vec x = uniform<float>(make_key(1), 1 << 20);
  const tensor<float, 2> y = uniform<float>(make_key(2), 512, 512);
  // Large enough for every thread.
  const auto want = eager(x).to_vector();
  const float sum = compiled(x).item();
  const tensor<float, 2> squared = product(y);
  CHECK(answer_of_child([&] {
          return eager(x).to_vector() == want && std::abs(compiled(x).item() - sum) <= 1e-5f * sum &&
                 allclose(product(y), squared).item();
        }) == 0);
  // A child's child, and the parent itself afterwards.
  CHECK(answer_of_child([&] { return answer_of_child([&] { return eager(x).to_vector() == want; }) == 0; }) == 0);
  CHECK(eager(x).to_vector() == want);
}
