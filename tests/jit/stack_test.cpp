// What calls of compiled functions take of a thread's stack. Threads of OpenMP have less here than they would like (CMakeLists.txt).
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <sinter/sinter.hpp>
#include <string>
#include <vector>

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;

constexpr std::size_t allowed = 64 << 10, reserve = 4 << 20;

/// f on a thread of its own; the bytes of its stack that it has used.
std::size_t stack_of(const std::function<void()>& f) {
  struct run {
    const std::function<void()>* f;
    char* top;
  } one{&f, nullptr};
  char* const memory =
      static_cast<char*>(mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  std::memset(memory, 0xa7, reserve);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, memory, reserve);
  pthread_t thread;
  const auto begin = [](void* p) -> void* {
    run& r = *static_cast<run*>(p);
    char here = 0;
    r.top = &here;
    (*r.f)();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, begin, &one) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  std::size_t unused = 0;
  while (unused < reserve && static_cast<unsigned char>(memory[unused]) == 0xa7) ++unused;
  const auto used = static_cast<std::size_t>(one.top - (memory + unused));
  munmap(memory, reserve);
  return used;
}

/// fn's first call compiles, here; then others are measured: kernels on the caller's thread and on those of OpenMP, and the
/// interpreter.
template <class F, class... X>
void check(const std::string& name, F fn, const X&... x) {
  CAPTURE(name);
  for (const auto open : {dynamic::no, dynamic::yes}) {
    const auto f = compile(fn, {.dynamic = open});
    (void)f(x...);
    CHECK(stack_of([&] { (void)f(x...); }) <= allowed);
  }
  const auto f = compile(fn, {.backend = "reference"});
  (void)f(x...);
  CHECK(stack_of([&] { (void)f(x...); }) <= allowed);
}

template <class... E>
matrix some(E... extents) {
  return uniform<float>(make_key(1), extents...);
}

}  // namespace

TEST_CASE("a call takes 64 KiB of stack at most, whatever its kernels are") {
  check(
      "pointwise", [](matrix x) { return exp(x) * 2.F; }, some(64, 900));
  for (const int columns : {300, 4000, 8000, 30000}) {
    check(
        "softmax", [](matrix x) { return softmax(x); }, some(20, columns));
    check("gradient of rows", grad([](matrix x) { return sum(sin(layer_norm(x))); }), some(20, columns));
  }
  for (const int rows : {20, 60, 1000, 3000})
    for (const int columns : {256, 250}) {
      check(
          "softmax of columns", [](matrix x) { return softmax<0>(x); }, some(rows, columns));
      check(
          "sums of columns", [](matrix x) { return sum(exp(x), axis<0>); }, some(rows, columns * 20));
    }
  check("gradient of columns", grad([](matrix x) { return sum(sin(softmax<0>(x)) * x); }), some(1000, 500));
  check(
      "sums between", [](tensor<float, 3> x) { return sum(exp(x), axis<1>); },
      uniform<float>(make_key(1), 40, 30, 3000));
  for (const int k : {64, 300, 3000}) {
    check(
        "product", [](matrix a, matrix b) { return tanh(matmul(a, b)); }, some(300, k), some(k, 290));
    check(
        "product of f64", [](tensor<double, 2> a, tensor<double, 2> b) { return matmul(a, b); },
        uniform<double>(make_key(1), 130, k), uniform<double>(make_key(2), k, 120));
    check(
        "product of bf16", [](tensor<bf16, 2> a, tensor<bf16, 2> b) { return matmul(transpose(a), b); },
        cast<bf16>(some(k, 140)), cast<bf16>(some(k, 90)));
    check(
        "products", [](tensor<float, 3> a, tensor<float, 3> b) { return matmul(a, b); },
        uniform<float>(make_key(1), 20, 60, k), uniform<float>(make_key(2), 20, k, 50));
  }
  check(
      "product with a vector", [](matrix a, tensor<float, 1> b) { return matmul(a, b); }, some(900, 800),
      uniform<float>(make_key(1), 800));
  check(
      "tiles", [](matrix a, matrix b, matrix c) { return transpose(a) + transpose(b) * transpose(c); }, some(290, 300),
      some(290, 300), some(290, 300));
  check(
      "scan", [](matrix x) { return cumsum<1>(x) + cumsum<0>(x); }, some(290, 300));
  check(
      "extremes", [](matrix x) { return argmax(x, axis<1>); }, some(290, 300));
  for (const int columns : {20, 3000, 1 << 17}) {
    check(
        "sort", [](matrix x) { return sort(x); }, some(3, columns));
    check(
        "sort of f64", [](tensor<double, 1> x) { return sort(x); }, uniform<double>(make_key(1), columns));
  }
  check(
      "random numbers", [](matrix x) { return x + normal<float>(make_key(3), x.size(0), x.size(1)); }, some(290, 300));
  check(
      "joined",
      [](matrix x) {
        return concat<0>(pad(exp(x), {{1, 2}, {3, 4}}), pad(x, {{0, 0}, {7, 0}}));
      },
      some(90, 300));
  check(
      "updates",
      [](matrix x, tensor<std::int64_t, 1> i) {
        return grad([&](matrix t) { return sum(exp(take(t, i, axis<0>))); })(x);
      },
      some(90, 300), tensor<std::int64_t, 1>(arange<std::int64_t>(70)));
  check(
      "loop",
      [](matrix x) {
        return fori_loop(
            0, 3, [](const tensor<std::int64_t, 0>&, const matrix& c) { return matrix(softmax<0>(softmax(c)) * 2.F); },
            x);
      },
      some(1000, 500));
  check(
      "many operations",
      [](matrix x) {
        std::vector<matrix> each;
        for (int i = 0; i < 40; ++i) each.push_back(sin(x * static_cast<float>(i + 1)));
        matrix total = x;
        for (std::size_t i = 0; i < 40; ++i) total = total + each[i] * each[39 - i];
        return total;
      },
      some(290, 300));
}
