#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../close.hpp"
#include "../emulator/select.hpp"
#include "../front/ops_support.hpp"
#include "../stderr_text.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;

/// fn on the host against one compiled function on a GPU, for every number of rows.
template <class F>
void check_rows(const std::string& name, F fn, std::size_t specialisations, const options& how,
                std::initializer_list<int> rows) {
  CAPTURE(name);
  const auto f = compile(fn, how);
  for (const int n : rows) {
    CAPTURE(n);
    const matrix x = normal<float>(make_key(n), n, 12);
    const auto got = f(x.to(device::cuda(0))).to(device::cpu()).to_vector();
    const auto want = evaluate(fn(x)).to_vector();
    check_close(got, want, 1e-4);
  }
  CHECK(f.specialisations() == specialisations);
}

}  // namespace

TEST_CASE("open extents on a GPU") {
  const options open{.dynamic = dynamic::yes};
  const auto rows = {6, 14, 34, 2, 62};  // twice an odd number: one symbol, of steps of 2, but for 2 itself
  check_rows(
      "pointwise", [](matrix x) { return (exp(x) + sum(x, axis<0>)).eval(); }, 2, open, rows);
  check_rows(
      "sum of columns", [](matrix x) { return sum(x, axis<0>); }, 2, open, rows);
  check_rows(
      "sum of rows", [](matrix x) { return sum(x * x, axis<1>); }, 2, open, rows);
  check_rows(
      "sum of all", [](matrix x) { return sum(x, keepdims); }, 2, open, rows);
  check_rows(
      "mean", [](matrix x) { return mean(x, axis<0>); }, 2, open, rows);
  check_rows(
      "argmax", [](matrix x) { return argmax(x, axis<0>); }, 2, open, rows);
  check_rows(
      "softmax", [](matrix x) { return softmax(x); }, 2, open, rows);
  check_rows(
      "softmax of columns", [](matrix x) { return softmax<0>(x); }, 2, open, rows);
  check_rows(
      "layer_norm", [](matrix x) { return layer_norm(x); }, 2, open, rows);
  check_rows(
      "matmul", [](matrix x) { return relu(matmul(x, transpose(x))).eval(); }, 2, open, rows);
  check_rows(
      "inner matmul", [](matrix x) { return matmul(transpose(x), x); }, 2, open, rows);
  check_rows(
      "transpose", [](matrix x) { return (transpose(x) + 1.f).eval(); }, 2, open, rows);
  check_rows(
      "concat", [](matrix x) { return concat(x, x * 2.f); }, 2, open, rows);
  check_rows(
      "pad",
      [](matrix x) {
        return pad(x, {{1, 2}, {0, 1}});
      },
      2, open, rows);
  check_rows(
      "half of the rows",
      [](matrix x) { return (slice<0>(x, 0, x.size(0) / 2) + slice<0>(x, 0, x.size(0), 2)).eval(); }, 2, open, rows);
  check_rows(
      "cumsum", [](matrix x) { return cumsum<0>(x); }, 2, open, rows);
  check_rows(
      "take", [](matrix x) { return take(x, argmax(x, axis<1>) * 0); }, 2, open, rows);
  check_rows(
      "a size as a value", [](matrix x) { return (x * x.size(0) + x.size(0)).eval(); }, 2, open, rows);
  check_rows(
      "of a mean", [](matrix x) { return grad([](matrix a) { return mean(exp(a)); })(x); }, 2, open, rows);
  check_rows(
      "of a norm", [](matrix x) { return grad([](matrix a) { return sum(exp(layer_norm(a))); })(x); }, 2, open, rows);
}

TEST_CASE("extents with a common step share kernels that count on it; another extent makes one for any") {
  const auto fn = [](matrix x) { return softmax(x * 2.f); };
  check_rows("softmax", fn, 3, {}, {16, 32, 64, 48, 33, 7, 16, 80, 5});
}

TEST_CASE("rows of any length are held in registers up to the next power of two, or read again and again") {
  const auto check = [](const std::string& name, auto fn, double epsilon) {
    CAPTURE(name);
    const auto f = compile(fn, {.dynamic = dynamic::yes});
    for (const int n : {8, 33, 40, 100, 1024, 900, 65, 1025, 128, 5001, 70001, 200003, 64, 8}) {
      CAPTURE(n);
      const matrix x = normal<float>(make_key(n), n > 6000 ? 3 : 37, n);
      const auto want = evaluate(fn(x)).to_vector();
      const auto got = f(x.to(device::cuda(0))).to(device::cpu()).to_vector();
      REQUIRE(got.size() == want.size());
      double worst = 0, size = 1;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
        worst = std::max(worst, a == b ? 0 : std::abs(a - b));
        size = std::max(size, std::abs(b));
      }
      CHECK(worst <= epsilon * size);
    }
  };
  check(
      "softmax", [](matrix x) { return softmax(x * 0.125f); }, 1e-6);
  check(
      "argmax", [](matrix x) { return argmax(x, axis<1>); }, 0);
  check(
      "of a norm", [](matrix x) { return grad([](matrix a) { return sum(exp(layer_norm(a) * 0.5f)); })(x); }, 1e-4);
  check(
      "rows and columns",
      [](matrix x) {
        const tensor<float, 1> g = sum(x, axis<0>) * 0.01f;
        return grad([&](tensor<float, 1> g) { return sum(exp(layer_norm(x, g, g) * 0.5f)); })(g);
      },
      1e-4);
}

TEST_CASE("sizes whose kernel does not compile are interpreted; what compiles goes on") {
  std::string cache = "/tmp/sinter-late-XXXXXX";
  REQUIRE(::mkdtemp(cache.data()) != nullptr);
  const auto f = compile([](matrix x) { return softmax(x * 0.37f); },
                         {.dynamic = dynamic::yes, .cache_dir = cache, .name = "late"});
  const auto check = [&](int columns) {
    CAPTURE(columns);
    const matrix x = normal<float>(make_key(columns), 3, columns);
    check_close(f(x.to(device::cuda(0))).to_vector(), evaluate(softmax(x * 0.37f)).to_vector(), 1e-6);
  };
  check(8);
  setenv("SINTER_EMULATOR_REJECT", "sinter_kernel", 1);
  const std::string said = stderr_text([&] {
    for (const int columns : {20000, 8, 20000}) check(columns);
  });
  unsetenv("SINTER_EMULATOR_REJECT");
  std::filesystem::remove_all(cache);
  if (emulator::real()) return;  // which compiled it
  CHECK_MESSAGE(ops::contains(said, "[sinter:warning] late runs on the reference backend, which is slow: [cuda] NVRTC"),
                said);
  CHECK(said.find("warning") == said.rfind("warning"));
  check(20000);
}

TEST_CASE("recorded calls: numbers at once, open sizes when they are hot, with one pool of scratch memory") {
  const auto fn = [](matrix x) { return softmax(matmul(x, transpose(x))); };
  setenv("SINTER_LOGS", "perf", 1);
  const std::string said = stderr_text([&] {
    check_rows("recorded", fn, 2, {.mode = mode::reduce_overhead},
               {5, 5, 5, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 7, 9, 5, 11, 7, 9, 11});
  });
  unsetenv("SINTER_LOGS");
  int recorded = 0;
  for (std::size_t at = 0; (at = said.find("recorded ", at)) != said.npos; ++at) ++recorded;
  CHECK_MESSAGE(recorded == 3, said);  // 5 as a number, 7 and 9
}

TEST_CASE("a kernel of a recorded call starts before the kernel that it reads from has ended") {
  if (emulator::real()) {
    MESSAGE("SKIPPED: some GPUs start no kernel early");
    return;
  }
  setenv("SINTER_LOGS", "perf", 1);
  const std::string said = stderr_text([&] {
    check_rows("of scans", [](matrix x) { return cumsum<1>(exp(cumsum<0>(x) * 0.1f)); }, 1,
               {.mode = mode::reduce_overhead}, {7, 7, 7, 7});
  });
  unsetenv("SINTER_LOGS");
  CHECK_MESSAGE(texts::contains(said, "recorded 2 steps, with 1 early starts"), said);
}
