// What compiled functions cost on the CPU, as ratios within one run: memory-bound kernels against a threaded copy of the
// same bytes, products against the machine's own peak, calls and first calls in time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sinter/fft.hpp>
#include <sinter/linalg.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

using namespace sinter;
using bench_clock = std::chrono::steady_clock;

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = bench_clock::now();
  f();
  return std::chrono::duration<double>(bench_clock::now() - start).count();
}

/// Median seconds of a call, after one that warms up.
double median(const std::function<void()>& f, int runs = 21) {
  f();
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(seconds_of(f));
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[static_cast<std::size_t>(runs / 2)];
}

constexpr std::int64_t rows = 4096, columns = 4096;
constexpr std::size_t plane = rows * columns * sizeof(float);  // 64 MiB

/// Median seconds to copy `bytes` from one buffer to another with all threads.
double threaded_copy(std::size_t bytes) {
  const std::int64_t n = static_cast<std::int64_t>(bytes / sizeof(float));
  const tensor<float, 1> from = normal<float>(make_key(1), n);
  tensor<float, 1> to = full<float>(1.f, n);
  const char* const source = reinterpret_cast<const char*>(from.data());
  char* const target = reinterpret_cast<char*>(to.data());
  constexpr std::int64_t pieces = 64;
  const std::size_t piece = bytes / pieces;
  return median([&] {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < pieces; ++i)
      std::memcpy(target + piece * static_cast<std::size_t>(i), source + piece * static_cast<std::size_t>(i), piece);
  });
}

void row(const char* name, double seconds, double limit, const char* what, double goal) {
  std::printf("%-28s %10.1f us   %5.2f x %s", name, seconds * 1e6, seconds / limit, what);
  if (goal > 0) std::printf("   (goal %.2f)", goal);
  std::printf("\n");
  std::fflush(stdout);
}

/// Steps of the heat equation, and the way back.
void stencils() {
  const auto heat = [](tensor<float, 2> u) {
    for (int i = 0; i < 10; ++i) {
      const tensor<float, 2> p = pad(u, {{1, 1}, {1, 1}}), rows = slice<0>(p, 1, -1), columns = slice<1>(p, 1, -1);
      u = u + 0.1f * (slice<0>(columns, 0, -2) + slice<0>(columns, 2) + slice<1>(rows, 0, -2) + slice<1>(rows, 2) -
                      4.f * u);
    }
    return u;
  };
  const tensor<float, 2> plate = normal<float>(make_key(4), 1024, 1024);
  const auto steps = compile(heat, {.name = "heat"});
  const auto loss = [heat](tensor<float, 2> u) {
    const tensor<float, 2> end = heat(u);
    return sum(end * end);
  };
  const auto back = compile([loss](auto u) { return grad(loss)(u); }, {.name = "heat_gradient"});
  const double plates = 10 * threaded_copy(1024 * 1024 * sizeof(float));
  row("ten steps of a stencil of 1024 x 1024", median([&] { steps(plate); }), plates, "copy", 0);
  row("their gradient", median([&] { back(plate); }), 2 * plates, "copy", 0);
}

/// Factors and solutions of one large matrix and of many small ones, against the product of as many of their size.
void systems() {
  const tensor<float, 2> a = normal<float>(make_key(5), 512, 512), y = normal<float>(make_key(6), 512, 1),
                         p = matmul(a, transpose(a)) + 512.f * eye<float>(512);
  const tensor<float, 3> few = normal<float>(make_key(7), 10000, 4, 4), right = normal<float>(make_key(8), 10000, 4, 1),
                         positive = matmul(few, transpose(few)) + eye<float>(4);
  const auto factor = compile([](auto a) { return linalg::cholesky(a); }, {.name = "cholesky"});
  const auto solve = compile([](auto a, auto y) { return linalg::solve(a, y); }, {.name = "solve"});
  const double big = median([&] { matmul(a, a); }), small = median([&] { matmul(few, few); });
  row("cholesky of 512 x 512", median([&] { factor(p); }), big, "product", 0);
  row("solve of 512 x 512", median([&] { solve(a, y); }), big, "product", 0);
  row("cholesky of 10,000 4 x 4", median([&] { factor(positive); }), small, "product", 0);
  row("solve of 10,000 4 x 4", median([&] { solve(few, right); }), small, "product", 0);
}

/// Fourier transforms of one long row and of many short ones, of complex and of real numbers.
void transforms() {
  const auto noise = [](auto... extents) {
    return complex(normal<float>(make_key(9), extents...), normal<float>(make_key(10), extents...));
  };
  const auto z = noise(1 << 20);
  const auto many = noise(100, 1000);
  const auto forward = compile([](const auto& z) { return fft::fft(z); }, {.name = "fft"});
  const auto halves = compile([](const auto& x) { return fft::rfft(x); }, {.name = "rfft"});
  const double one = threaded_copy(8 << 20), hundred = threaded_copy(800000);
  row("fft of 2^20", median([&] { forward(z); }), one, "copy", 0);
  row("rfft of 2^20", median([&] { halves(z.real()); }), one / 2, "copy", 0);
  row("fft of 100 x 1000", median([&] { forward(many); }), hundred, "copy", 0);
  row("rfft of 100 x 1000", median([&] { halves(many.real()); }), hundred / 2, "copy", 0);
}

/// Reads and writes at indices.
void indexed() {
  constexpr std::int64_t many = 1000000, bins = 10000;
  const tensor<std::int64_t, 1> at = randint<std::int64_t>(make_key(5), 0, bins, many);
  const tensor<float, 1> x = normal<float>(make_key(6), many), sums = zeros<float>(bins),
                         table = normal<float>(make_key(7), bins);
  const double one = threaded_copy(many * sizeof(float));
  const auto added = compile([](auto s, auto i, auto u) { return scatter_add(s, i, u); }, {.name = "scatter_add"});
  row("scatter_add of 1e6 into 1e4", median([&] { added(sums, at, x); }), one, "copy", 0);
  const auto largest = compile([](auto s, auto i, auto u) { return scatter_max(s, i, u); }, {.name = "scatter_max"});
  row("scatter_max of 1e6 into 1e4", median([&] { largest(sums, at, x); }), one, "copy", 0);
  const auto read = compile([](auto t, auto i) { return take(t, i); }, {.name = "gather"});
  row("gather of 1e6 from 1e4", median([&] { read(table, at); }), one, "copy", 0);
  const auto set = compile([](tensor<float, 1> t, tensor<std::int64_t, 0> i) { return t.at(i).set(t[i - 1] + 1.f); },
                           {.donate = {0}, .name = "at_set"});
  tensor<float, 1> t = x.contiguous() + 0.f;
  row("at(i).set of a donated 1e6", median([&] { t = set(std::move(t), tensor<std::int64_t, 0>(7)); }), one, "copy", 0);
  const auto filled = compile(
      [](tensor<float, 1> x) {
        return fori_loop(
            1, 1000,
            [](tensor<std::int64_t, 0> i, tensor<float, 1> y) {
              return tensor<float, 1>(y.at(i).set(y[i - 1] * 0.5f + 1.f));
            },
            x);
      },
      {.name = "at_set_loop"});
  row("at(i).set, 1000 steps of 1e6", median([&] { filled(x); }), one, "copy", 0);
}

void memory_bound() {
  const auto k = split(make_key(7), 8);
  const tensor<float, 2> x = normal<float>(k[0], rows, columns), r = normal<float>(k[1], rows, columns);
  const tensor<float, 1> b = normal<float>(k[2], columns), g = normal<float>(k[3], columns);
  const double one = threaded_copy(plane), two = 2 * one;
  std::printf("threaded copy of 64 MiB: %.1f us, %.1f GB/s read and written\n", one * 1e6,
              2e-9 * static_cast<double>(plane) / one);

  const auto bias_gelu = compile([](auto x, auto b) { return gelu_tanh(x + b); }, {.name = "bias_gelu"});
  row("bias_gelu", median([&] { bias_gelu(x, b); }), one, "copy", 1.3);

  const auto norm = compile(
      [](auto x, auto r, auto g) {
        const auto h = x + r;
        return std::tuple{h * rsqrt(mean(h * h, axis<-1>, keepdims) + 1e-6f) * g, h};
      },
      {.name = "rmsnorm_residual"});
  row("rmsnorm_residual", median([&] { norm(x, r, g); }), two, "copy", 1.3);

  const auto soft = compile([](auto x) { return softmax(x * 0.125f); }, {.name = "softmax"});
  row("softmax", median([&] { soft(x); }), one, "copy", 1.5);

  const auto soft_columns = compile([](auto x) { return softmax<0>(x); }, {.dynamic = dynamic::no, .name = "softmax0"});
  row("softmax of columns", median([&] { soft_columns(x); }), one, "copy", 0);
  const tensor<float, 2> small = normal<float>(k[4], 1000, 512);
  row("the same of 1000 x 512", median([&] { soft_columns(small); }), threaded_copy(1000 * 512 * sizeof(float)), "copy",
      0);

  stencils();

  const auto layer = compile(
      [](auto x, auto g, auto b, auto t) {
        return grad([&](auto all) {
          const auto& [x, g, b] = all;
          return sum(layer_norm(x, g, b, 1e-5f) * t);
        })(std::tuple{x, g, b});
      },
      {.name = "layernorm_fwdbwd"});
  row("layernorm_fwdbwd", median([&] { layer(x, g, b, r); }), 1.5 * one, "copy", 0);

  const auto turned = compile([](auto x, auto r) { return transpose(x) + r; }, {.name = "transpose_add"});
  row("transpose_add", median([&] { turned(x, r); }), 1.5 * one, "copy", 0);

  const auto column = compile([](auto x) { return sum(x * x, axis<0>); }, {.name = "column_sum"});
  row("column_sum", median([&] { column(x); }), 0.5 * one, "copy", 0);

  const auto whole = compile([](auto x, auto r) { return sum((x - r) * (x - r)); }, {.name = "full_reduce"});
  row("full_reduce", median([&] { whole(x, r); }), one, "copy", 0);

  row("eager gelu(x + b)", median([&] { tensor<float, 2> y = gelu_tanh(x + b); }), one, "copy", 0);
  row("eager sum((x - r)^2)", median([&] { tensor<float, 0> y = sum((x - r) * (x - r)); }), one, "copy", 0);
}

void order() {
  const std::int64_t many = 1000000;
  const tensor<float, 1> x = normal<float>(make_key(50), many), y = normal<float>(make_key(51), many), sorted = sort(x);
  const tensor<float, 2> rows_of = normal<float>(make_key(52), 1000, 1000);
  const double copy = threaded_copy(many * sizeof(float));
  const auto largest = [](auto x) {
    auto [values, indices] = topk(x, 10);
    return std::pair{values, indices};
  };
  const auto sorting = compile([](auto x) { return sort(x); });
  const auto top = compile(largest);
  const auto searching = compile([](auto s, auto x) { return searchsorted(s, x); });
  const auto counting = compile([](auto x) { return histogram(x, 100, -4, 4).counts; });
  row("sort 1e6", median([&] { sorting(x); }), copy, "copy", 0);
  row("sort 1000 x 1000", median([&] { sorting(rows_of); }), copy, "copy", 0);
  row("topk 10 of 1e6", median([&] { top(x); }), copy, "copy", 0);
  row("topk 10 of 1000 x 1000", median([&] { top(rows_of); }), copy, "copy", 0);
  row("searchsorted 1e6 in 1e6", median([&] { searching(sorted, y); }), copy, "copy", 0);
  row("histogram of 1e6", median([&] { counting(x); }), copy, "copy", 0);
  std::vector<float> plain;
  row("std::sort of 1e6", median([&] {
        plain = x.to_vector();
        std::sort(plain.begin(), plain.end());
      }),
      copy, "copy", 0);
}

/// Numbers of distributions, against those of the normal one.
void samples() {
  constexpr std::int64_t many = 1000000;
  const auto normals = compile([](const key& k) { return normal<float>(k, many); });
  const auto gammas = compile([](const key& k) { return gamma<float>(k, 2.5, many); });
  const auto counts = compile([](const key& k) { return poisson<float>(k, 2.5, many); });
  const key k = make_key(11);
  const double one = median([&] { normals(k); });
  row("gamma, 1e6", median([&] { gammas(k); }, 5), one, "normal", 0);
  row("  eager", median([&] { gamma<float>(k, 2.5, many); }, 5), one, "normal", 0);
  row("poisson, 1e6", median([&] { counts(k); }, 5), one, "normal", 0);
  row("  eager", median([&] { poisson<float>(k, 2.5, many); }, 5), one, "normal", 0);
}

/// One function with its extents as numbers, with open rows, and with all extents open: calls take turns, the best counts.
template <class F, class... T>
void against_numbers(const std::string& name, F fn, const T&... x) {
  const auto fixed = compile(fn, {.dynamic = dynamic::no, .name = name});
  const auto rows_open = compile(fn, {.name = name}), all_open = compile(fn, {.dynamic = dynamic::yes, .name = name});
  const auto opened = [](auto t) {
    if constexpr (decltype(t)::rank == 2) mark_dynamic(t, 0);
    return t;
  };
  double best[3] = {1e9, 1e9, 1e9};
  for (int i = 0; i < 30; ++i) {
    best[0] = std::min(best[0], seconds_of([&] { fixed(x...); }));
    best[1] = std::min(best[1], seconds_of([&] { rows_open(opened(x)...); }));
    best[2] = std::min(best[2], seconds_of([&] { all_open(x...); }));
  }
  row((name + ", open rows").c_str(), best[1], best[0], "numbers", 1.15);
  row((name + ", all open").c_str(), best[2], best[0], "numbers", 1.15);
}

void dynamic_shapes() {
  const auto k = split(make_key(7), 8);
  const tensor<float, 2> x = normal<float>(k[0], rows, columns), r = normal<float>(k[1], rows, columns);
  const tensor<float, 1> b = normal<float>(k[2], columns), g = normal<float>(k[3], columns);
  against_numbers(
      "bias_gelu", [](auto x, auto b) { return gelu_tanh(x + b); }, x, b);
  against_numbers(
      "rmsnorm_residual",
      [](auto x, auto r, auto g) {
        const auto h = x + r;
        return std::tuple{h * rsqrt(mean(h * h, axis<-1>, keepdims) + 1e-6f) * g, h};
      },
      x, r, g);
  against_numbers(
      "softmax", [](auto x) { return softmax(x * 0.125f); }, x);
  against_numbers(
      "layernorm_fwdbwd",
      [](auto x, auto g, auto b, auto t) {
        return grad([&](auto all) {
          const auto& [x, g, b] = all;
          return sum(layer_norm(x, g, b, 1e-5f) * t);
        })(std::tuple{x, g, b});
      },
      x, g, b, r);
  against_numbers(
      "transpose_add", [](auto x, auto r) { return transpose(x) + r; }, x, r);
  against_numbers(
      "column_sum", [](auto x) { return sum(x * x, axis<0>); }, x);
  against_numbers(
      "full_reduce", [](auto x, auto r) { return sum((x - r) * (x - r)); }, x, r);
}

void products() {
  const auto k = split(make_key(9), 3);
  const tensor<float, 2> a = normal<float>(k[0], 1024, 1024), b = normal<float>(k[1], 1024, 1024);
  const tensor<float, 1> c = normal<float>(k[2], 1024);
  const auto plain = compile([](auto a, auto b) { return matmul(a, b); }, {.name = "gemm"});
  const auto fused = compile([](auto a, auto b, auto c) { return relu(matmul(a, b) + c); }, {.name = "gemm_bias_relu"});
  const double t = median([&] { plain(a, b); });
  std::printf("%-28s %10.1f us   %5.1f GFLOP/s\n", "gemm f32 1024^3", t * 1e6, 2.0 * 1024 * 1024 * 1024 / t * 1e-9);
  row("gemm + bias + relu", median([&] { fused(a, b, c); }), t, "gemm", 0);
  row("eager matmul", median([&] { tensor<float, 2> y = matmul(a, b); }), t, "gemm", 0);
}

/// The least of some runs, for what is short.
double least(const std::function<void()>& f) {
  f();
  double best = 1e9;
  for (int i = 0; i < 15; ++i) best = std::min(best, seconds_of(f));
  return best;
}

/// `f` of x eagerly and compiled, beside the seconds of what is taken as its measure.
template <class F, class T>
void beside(const std::string& name, F f, const T& x, double eager, double compiled_seconds, const char* what) {
  row(("eager " + name).c_str(), least([&] { evaluate(f(x)); }), eager, what, 0);
  const auto g = compile(f, {.dynamic = dynamic::no, .name = "beside"});
  row(("compiled " + name).c_str(), least([&] { g(x); }), compiled_seconds, what, 0);
}

/// Reductions of rows of n elements beside the sum of their columns as slices.
template <std::int64_t N>
void short_rows() {
  const tensor<float, 2> x = normal<float>(make_key(5), 1 << 19, N);
  const auto slices = [](auto x) {
    tensor<float, 1> total = squeeze(slice<1>(x, 0, 1), axis<1>);
    for (std::int64_t i = 1; i < N; ++i) total = total + squeeze(slice<1>(x, i, i + 1), axis<1>);
    return total;
  };
  const auto compiled_slices = compile(slices, {.dynamic = dynamic::no, .name = "slices"});
  const double eager = least([&] { slices(x); }), kernel = least([&] { compiled_slices(x); });
  const std::string of = " of rows of " + std::to_string(N);
  const auto sums = [](auto x) { return sum(x, axis<1>); };
  const auto largest = [](auto x) { return max(x, axis<1>); };
  const auto norms = [](auto x) { return norm(x, axis<1>); };
  const auto soft = [](auto x) { return softmax(x); };
  beside("sum" + of, sums, x, eager, kernel, "slices");
  beside("max" + of, largest, x, eager, kernel, "slices");
  beside("norm" + of, norms, x, eager, kernel, "slices");
  beside("softmax" + of, soft, x, eager, kernel, "slices");
}

/// Batches of small products beside plain loops.
void small_products() {
  for (const std::int64_t n : {2, 4, 6}) {
    constexpr std::int64_t count = 4096;
    const tensor<float, 3> a = normal<float>(make_key(1), count, n, n), b = normal<float>(make_key(2), count, n, n);
    std::vector<float> out(static_cast<std::size_t>(count * n * n));
    const double loops = least([&] {
      for (std::int64_t p = 0; p < count * n * n; p += n * n)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t k = 0; k < n; ++k) sum += a.data()[p + i * n + k] * b.data()[p + k * n + j];
            out[static_cast<std::size_t>(p + i * n + j)] = sum;
          }
    });
    row(("eager products " + std::to_string(n) + " x " + std::to_string(n)).c_str(), least([&] { matmul(a, b); }),
        loops, "loops", 0);
  }
}

/// A convolution (n, h, w, c) and its derivatives beside the product of as many terms.
void convolution(std::int64_t channels, std::int64_t side, std::int64_t outputs, std::int64_t taps,
                 std::int64_t stride) {
  constexpr std::int64_t n = 8;
  using image = tensor<float, 4>;
  const auto k = split(make_key(11), 5);
  const conv_options how{.stride = stride, .padding = taps / 2};
  const std::int64_t rows = n * (side / stride) * (side / stride), terms = channels * taps * taps;
  const image x = normal<float>(k[0], n, side, side, channels), w = normal<float>(k[1], taps, taps, channels, outputs),
              ct = normal<float>(k[4], n, side / stride, side / stride, outputs);
  const tensor<float, 2> a = normal<float>(k[2], rows, terms), b = normal<float>(k[3], terms, outputs);
  const auto product = compile([](const tensor<float, 2>& p, const tensor<float, 2>& q) { return matmul(p, q); });
  const auto f = [how](const image& p, const image& q) { return conv<"nhwc,hwio->nhwc">(p, q, how); };
  const auto loss = [f](const image& p, const image& q, const image& g) { return sum(f(p, q) * g); };
  const auto forward = compile(f);
  const auto by_image = compile(grad<0>(loss));
  const auto by_weights = compile(grad<1>(loss));
  const double t = median([&] { product(a, b); });
  const std::string name = std::to_string(taps) + "x" + std::to_string(taps) + " of " + std::to_string(channels) +
                           " at " + std::to_string(side) + (stride > 1 ? " in steps" : "");
  row(("conv " + name).c_str(), median([&] { forward(x, w); }), t, "gemm", 0);
  row("  by the image", median([&] { by_image(x, w, ct); }), t, "gemm", 0);
  row("  by the weights", median([&] { by_weights(x, w, ct); }), t, "gemm", 0);
  row("  eager", median([&] { f(x, w); }), t, "gemm", 0);
}

/// Convolutions as a ResNet has them, and its pool.
void windows() {
  convolution(64, 56, 64, 3, 1);
  convolution(256, 14, 256, 3, 1);
  convolution(512, 7, 512, 3, 1);
  convolution(128, 28, 128, 3, 2);
  convolution(64, 56, 256, 1, 1);
  using image = tensor<float, 4>;
  const image x = normal<float>(make_key(12), 8, 64, 112, 112);
  const auto pool = [](const image& p) { return max_pool2d(p, 3, {.stride = 2, .padding = 1}); };
  const auto copied = compile([](const image& p) { return p * 2.0F; });
  const auto pooled = compile(pool);
  const auto back = compile(grad([pool](const image& p) { return sum(pool(p)); }));
  const double t = median([&] { copied(x); });
  row("max pool 3x3 of 64 at 112", median([&] { pooled(x); }), t, "copy", 0);
  row("  its derivative", median([&] { back(x); }), t, "copy", 0);
}

/// What was much slower than something alike.
void cliffs() {
  short_rows<2>();
  short_rows<4>();
  short_rows<7>();
  const tensor<float, 2> x = normal<float>(make_key(6), 4096, 1024);
  const auto largest = compile([](auto x) { return max(x, axis<1>); }, {.name = "max"});
  const auto first = compile([](auto x) { return max(x, axis<0>); }, {.name = "max0"});
  const double eager = least([&] { max(x, axis<1>); });
  beside(
      "argmax", [](auto x) { return argmax(x, axis<1>); }, x, eager, least([&] { largest(x); }), "max");
  beside(
      "argmax of columns", [](auto x) { return argmax(x, axis<0>); }, x, eager, least([&] { first(x); }), "max");
  const auto cube = [](auto x) { return x * x * x; };
  const auto compiled_cube = compile(cube, {.dynamic = dynamic::no, .name = "cube"});
  const double product = least([&] { evaluate(cube(x)); }), kernel = least([&] { compiled_cube(x); });
  const auto raised = [](auto x) { return pow(x, 3); };
  const auto root = [](auto x) { return pow(x, 0.5f); };
  beside("pow(x, 3)", raised, x, product, kernel, "x * x * x");
  beside("pow(x, 0.5)", root, x, product, kernel, "x * x * x");
  small_products();
  const tensor<float, 2> square = normal<float>(make_key(7), rows, columns);
  const double copy = threaded_copy(plane);
  beside(
      "transpose(x) * 2", [](auto x) { return transpose(x) * 2; }, square, copy, copy, "copy");
}

/// A struct of 60 tensors.
template <int>
struct quarter {
  tensor<float, 1> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o;
};
struct sixty {
  quarter<0> a;
  quarter<1> b;
  quarter<2> c;
  quarter<3> d;
};

/// What a call costs whose kernel has next to nothing to do.
template <class F>
void hit(const char* name, F call, double goal) {
  constexpr int repeats = 20000;
  const double t = median([&] {
    for (int i = 0; i < repeats; ++i) call(i);
  });
  std::printf("%-28s %10.1f ns a call", name, t / repeats * 1e9);
  if (goal > 0) std::printf("   (goal %.0f)", goal);
  std::printf("\n");
  std::fflush(stdout);
}

/// What transforms of transforms cost before anything is compiled, beside tracing the function itself.
void traces() {
  const auto f = [](const tensor<float, 1>& x) {
    tensor<float, 1> h = x;
    for (int i = 0; i < 250; ++i) h = tanh(h * 1.01f + 0.5f) - h * 0.3f;
    return sum(h);
  };
  const tensor<float, 2> xs = normal<float>(make_key(1), 4, 8);
  const tensor<float, 1> x = normal<float>(make_key(2), 8);
  const double plain = median([&] { trace(f)(x); });
  const double three = median([&] { trace([&](auto x, auto v) { return jvp(vmap(grad(f)))(x, v); })(xs, xs); });
  std::printf("%-28s %10.2f ms, of jvp(vmap(grad)) %.2f ms (%.1f x)\n", "trace of 250 steps of 5 ops", plain * 1e3,
              three * 1e3, three / plain);
}

void calls() {
  const auto f = compile([](auto x) { return x * 2.f + 1.f; }, {.mode = mode::reduce_overhead, .name = "tiny"});
  const tensor<float, 1> x = normal<float>(make_key(2), 8);
  hit(
      "hit: x * 2 + 1 of 8", [&](int) { f(x); }, 1000);
  const auto three = compile([](auto x, auto y, auto z) { return x * y + z; }, {.name = "three"});
  hit(
      "hit: three tensors", [&](int) { three(x, x, x); }, 150);
  const auto rate = compile([](auto x, auto r) { return x * r; }, {.name = "rate"});
  hit(
      "hit: a tensor, a new number", [&](int i) { rate(x, static_cast<float>(i)); }, 150);
  const auto constant = compile([](auto x, float r) { return x * r; }, {.name = "constant"});
  hit(
      "a new C++ number, traced", [&](int i) { constant(x, static_cast<float>(i)); }, 0);
  sixty s;
  detail::for_each_leaf(s, [&](tensor<float, 1>& leaf) { leaf = normal<float>(make_key(3), 8); });
  const auto all = compile([](const sixty& s) { return s.a.a + s.d.o; }, {.name = "sixty"});
  hit(
      "hit: a struct of 60 tensors", [&](int) { all(s); }, 400);

  const auto open =
      compile([](auto x, auto y, auto z) { return x * y + z; }, {.dynamic = dynamic::yes, .name = "open"});
  hit(
      "hit: three open tensors", [&](int) { open(x, x, x); }, 0);

  std::vector<tensor<float, 1>> lengths;
  for (int i = 0; i < 10; ++i) lengths.push_back(normal<float>(make_key(2), 8 + i));
  const auto one_of_ten = compile([](auto x, auto y, auto z) { return x * y + z; },
                                  {.dynamic = dynamic::no, .recompile_limit = 10, .name = "one_of_ten"});
  hit(
      "hit: ten specialisations", [&](int i) { one_of_ten(lengths[i % 10], lengths[i % 10], lengths[i % 10]); }, 200);

  const auto breaking = [](tensor<float, 1> x) {
    const tensor<float, 1> y = x * 2.f + 1.f;
    return sum(y).item() > 1e9f ? tensor<float, 1>(y - 1.f) : tensor<float, 1>(y * y);
  };
  const auto broken = compile(breaking, {.name = "broken"});
  hit(
      "one break, two segments of 8", [&](int) { broken(x); }, 0);
  const auto broken_open = compile(breaking, {.dynamic = dynamic::yes, .name = "broken_open"});
  hit(
      "the same with open sizes", [&](int) { broken_open(x); }, 0);
}

/// The digits network's step: what a first call of it costs.
struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
struct network {
  layer first, second, last;
};

int first_call(tier when) {
  const auto k = split(make_key(3), 8);
  auto make = [&](int i, int in, int out) {
    return layer{normal<float>(k[static_cast<std::size_t>(i)], in, out) * 0.1f, full<float>(0.01f, out)};
  };
  const network p{make(0, 64, 128), make(1, 128, 64), make(2, 64, 10)},
      m{make(3, 64, 128), make(4, 128, 64), make(5, 64, 10)};
  const tensor<float, 2> x = normal<float>(k[6], 32, 64);
  const tensor<std::int64_t, 1> y = randint<std::int64_t>(k[7], 0, 10, 32);
  const auto step = compile(
      [](network p, network m, network v, auto x, auto y, float rate) {
        const auto loss = [&](const network& p) {
          const tensor<float, 2> a = relu(matmul(x, p.first.w) + p.first.b),
                                 b = relu(matmul(a, p.second.w) + p.second.b);
          return cross_entropy(matmul(b, p.last.w) + p.last.b, y);
        };
        auto [l, g] = value_and_grad(loss)(p);
        const auto m2 = tree_map([](auto m, auto g) { return 0.9f * m + 0.1f * g; }, m, g);
        const auto v2 = tree_map([](auto v, auto g) { return 0.999f * v + 0.001f * g * g; }, v, g);
        const auto p2 =
            tree_map([&](auto p, auto m, auto v) { return p - rate * m / (sqrt(abs(v)) + 1e-8f); }, p, m2, v2);
        return std::tuple{l, p2, m2, v2};
      },
      {.tier = when, .name = "digits_step"});
  const double t = seconds_of([&] { step(p, m, m, x, y, 0.002f); });
  if (when == tier::background) {
    std::printf("%.1f ms, by the interpreter\n", t * 1e3);
    return 0;
  }
  const report r = step.report();
  std::printf("%.1f ms, %zu kernels of %zu ops, %zu compiled\n", t * 1e3, r.kernels, r.kernels_unfused, r.compiled);
  float rate = 0.003f;
  step(p, m, m, x, y, rate);
  const double known = median([&] { step(p, m, m, x, y, rate); });
  const double traced = median([&] { step(p, m, m, x, y, rate += 0.0001f); });
  std::printf("%-28s %.2f ms, a step with a known one %.2f ms\n", "  a new rate as a C++ float", traced * 1e3,
              known * 1e3);
  return 0;
}

/// Runs this program again to measure a first call in a process of its own.
void first_calls(const char* self) {
  for (const char* what : {"background (goal 5 ms)", "cold (goal 2000 ms)", "warm disk cache (goal 100 ms)"}) {
    std::string folder = "/tmp/sinter-bench-XXXXXX";
    if (*what != 'w') {
      if (!mkdtemp(folder.data())) return;
      setenv("SINTER_CACHE_DIR", folder.c_str(), 1);
    }
    std::printf("%-28s ", (std::string("first call, ") + what).c_str());
    std::fflush(stdout);
    std::string name = self, option = *what == 'b' ? "--first-answer" : "--first-call";
    char* const arguments[] = {name.data(), option.data(), nullptr};
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, self, nullptr, nullptr, arguments, environ) == 0) waitpid(child, &status, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--first-call") return first_call(tier::immediate);
  if (argc > 1 && std::string(argv[1]) == "--first-answer") return first_call(tier::background);
  if (argc > 1 && std::string(argv[1]) == "--dynamic") return dynamic_shapes(), 0;
  if (argc > 1 && std::string(argv[1]) == "--windows") return windows(), 0;
  if (argc > 1 && std::string(argv[1]) == "--cliffs") return cliffs(), 0;
  if (argc > 1 && std::string(argv[1]) == "--indexed") return indexed(), 0;
  if (argc > 1 && std::string(argv[1]) == "--calls") return calls(), traces(), first_calls(argv[0]), 0;
  if (argc > 1 && std::string(argv[1]) == "--order") return order(), 0;
  if (argc > 1 && std::string(argv[1]) == "--samples") return samples(), 0;
  if (argc > 1 && std::string(argv[1]) == "--systems") return systems(), 0;
  if (argc > 1 && std::string(argv[1]) == "--transforms") return transforms(), 0;
  memory_bound();
  systems();
  transforms();
  order();
  indexed();
  samples();
  dynamic_shapes();
  products();
  windows();
  cliffs();
  calls();
  first_calls(argv[0]);
}
