// What small training steps cost on two threads beside a process that keeps one core busy, in times of one thread's time.
// Arguments: the seconds of a row (2), and `quiet` for no such process.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <omp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sinter/sinter.hpp>

using namespace sinter;

namespace {

/// A process that computes for ever on the last of this one's cores.
class busy_core {
 public:
  explicit busy_core(char* program) {
    char spin[] = "--spin";
    char* arguments[] = {program, spin, nullptr};
    if (posix_spawn(&id_, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) id_ = 0;
    usleep(200000);
  }
  ~busy_core() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  busy_core(const busy_core&) = delete;
  busy_core& operator=(const busy_core&) = delete;

 private:
  pid_t id_ = 0;
};

int spin() {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  int last = 0;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &all)) last = c;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  sched_setaffinity(0, sizeof one, &one);
  volatile bool forever = true;
  while (forever) {}
  return 0;
}

/// Seconds of a call, in the mean of `seconds`.
double mean(const std::function<void()>& f, double seconds) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  double spent = 0;
  long calls = 0;
  for (; spent < seconds; ++calls) {
    f();
    spent = std::chrono::duration<double>(clock::now() - begin).count();
  }
  return spent / static_cast<double>(calls);
}

/// A network of three layers with tanh, a step of gradient descent.
std::function<void()> network(const char* name, std::int64_t rows, std::int64_t in, std::int64_t hidden,
                              std::int64_t out) {
  struct net {
    f32_2 a, b, c;
    f32_1 u, v, w;
  };
  const auto loss = [](const net& p, const f32_2& x, const f32_2& y) {
    const f32_2 g = tanh(matmul(x, p.a) + p.u), h = tanh(matmul(g, p.b) + p.v), e = matmul(h, p.c) + p.w - y;
    return mean(e * e);
  };
  const auto step = compile(
      [loss](net p, f32_2 x, f32_2 y) {
        const auto g = grad(loss)(p, x, y);
        return tree_map([](const auto& p, const auto& g) { return evaluate(p - 1e-3f * g); }, p, g);
      },
      {.name = name});
  const auto some = [](int seed, auto... n) { return evaluate(0.1f * normal<float>(make_key(seed), n...)); };
  net p{some(1, in, hidden), some(2, hidden, hidden), some(3, hidden, out),
        some(4, hidden),     some(5, hidden),         some(6, out)};
  const f32_2 x = some(7, rows, in), y = some(8, rows, out);
  return [=]() mutable { p = step(p, x, y); };
}

/// Functions and reductions of rows and columns, ten times over.
std::function<void()> kernels(const char* name, std::int64_t rows, std::int64_t columns) {
  const auto f = compile(
      [](f32_2 x) {
        for (int i = 0; i < 10; ++i) x = exp(x - max(x, axis<0>, keepdims)) / (1.f + sum(x * x, axis<1>, keepdims));
        return x;
      },
      {.name = name});
  const f32_2 x = normal<float>(make_key(9), rows, columns);
  return [=] { f(x); };
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "--spin") == 0) return spin();
  const double seconds = count > 1 ? std::atof(arguments[1]) : 2;
  struct row {
    const char* name;
    std::function<void()> step;
  };
  std::vector<row> rows{{"cartpole, 64 x 4, 64 wide", network("cartpole", 64, 4, 64, 2)},
                        {"ddpm, 256 x 2, 128 wide", network("ddpm", 256, 2, 128, 2)},
                        {"wide, 512 x 64, 256 wide", network("wide", 512, 64, 256, 64)},
                        {"20 kernels of 128 x 512", kernels("rows", 128, 512)}};
  for (auto& r : rows) r.step();
  const auto busy = count > 2 ? nullptr : std::make_unique<busy_core>(arguments[0]);
  for (auto& r : rows) {
    // In turns, since other processes come and go.
    constexpr int turns = 10;
    double of[2] = {};
    for (int turn = 0; turn < turns; ++turn)
      for (const int threads : {1, 2}) {
        omp_set_num_threads(threads);
        of[threads - 1] += mean(r.step, seconds / turns) / turns;
      }
    std::printf("%-28s %9.1f us on one thread   %5.2f x on two   (goal 1.30)\n", r.name, of[0] * 1e6, of[1] / of[0]);
    std::fflush(stdout);
  }
}
