// What compiled functions cost on a GPU. Prints one line a workload: name, median microseconds of a call, milliseconds of the
// first call, fewest bytes that the workload moves. With --dynamic extents are symbols. bench/gpu.py runs it beside its peers and
// prints the table. --updates: Adam of 1,000 parameters of 4,096 elements, in one launch and in several.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <sinter/fft.hpp>
#include <sinter/linalg.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

#include "gpu_time.hpp"

using namespace sinter;

namespace {

const device gpu = device::cuda(0);
std::vector<std::string> chosen;
dynamic extents = dynamic::no;

bool wanted(const std::string& name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

template <class F, class... Args>
void workload(const char* name, double bytes, options how, F fn, const Args&... args) {
  if (!wanted(name)) return;
  how.name = name;
  how.dynamic = extents;
  const auto f = compile(std::move(fn), how);
  synchronize(gpu);
  const double first = bench::seconds_of(gpu, [&] { f(args...); });
  const double us = bench::median_us(gpu, [&] { f(args...); });
  const report r = f.report();
  std::printf("%s %.3f %.3f %.0f %zu %s\n", name, us, first * 1e3, bytes, r.kernels, r.backend.c_str());
  std::fflush(stdout);
}

template <class... Extents>
auto random(std::uint64_t seed, Extents... extents) {
  return normal<float>(make_key(seed), extents...).to(gpu);
}

constexpr std::int64_t n = 8192, d = 4096;
constexpr double plane = 4.0 * n * d;

void anchors() {
  const auto x = random(1, n, d), r = random(2, n, d);
  const auto b = random(3, d), g = random(4, d);
  workload(
      "bias_gelu", 2 * plane, {}, [](auto x, auto b) { return gelu_tanh(x + b); }, x, b);
  workload(
      "softmax", 2 * plane, {}, [](auto x) { return softmax(x * 0.125f); }, x);
  workload(
      "rmsnorm_residual", 4 * plane, {},
      [](auto x, auto r, auto g) {
        const auto h = x + r;
        return std::tuple{h * rsqrt(mean(h * h, axis<-1>, keepdims) + 1e-6f) * g, h};
      },
      x, r, g);
  workload(
      "layernorm_fwdbwd", 3 * plane, {},
      [](auto x, auto g, auto b, auto t) {
        return grad([&](auto all) {
          const auto& [x, g, b] = all;
          return sum(layer_norm(x, g, b, 1e-5f) * t);
        })(std::tuple{x, g, b});
      },
      x, g, b, r);
  workload(
      "column_sum", 2 * plane, {}, [](auto x) { return sum(x * x, axis<0>); }, random(5, 65536, 1024));
  const std::int64_t many = 64 << 20;
  workload(
      "full_reduce", 8.0 * double(many), {}, [](auto x, auto y) { return sum((x - y) * (x - y)); }, random(6, many),
      random(7, many));
  workload(
      "transpose_add", 12.0 * n * n, {}, [](auto a, auto b) { return transpose(a) + b; }, random(8, n, n),
      random(9, n, n));
}

void order() {
  const std::int64_t many = 1000000;
  const auto x = random(50, many), y = random(51, many);
  const auto rows = random(52, 1000, 1000);
  const auto sorted = sort(x);
  workload(
      "sort", 8.0 * many, {}, [](auto x) { return sort(x); }, x);
  workload(
      "sort_rows", 8.0 * many, {}, [](auto x) { return sort(x); }, rows);
  const auto largest = [](auto x) {
    auto [values, indices] = topk(x, 10);
    return std::pair{values, indices};
  };
  workload("topk", 4.0 * many, {}, largest, x);
  workload("topk_rows", 4.0 * many, {}, largest, rows);
  workload(
      "searchsorted", 16.0 * many, {}, [](auto s, auto x) { return searchsorted(s, x); }, sorted, y);
  workload(
      "histogram", 4.0 * many, {}, [](auto x) { return histogram(x, 100, -4, 4).counts; }, x);
}

/// Convolutions as a ResNet has them, of 32 images, and its pool. Channels are last in images and weights, as in PyTorch's
/// channels_last.
template <class T>
void convolution(std::string name, std::int64_t channels, std::int64_t side, std::int64_t out, std::int64_t taps) {
  const double bytes = double(sizeof(T)) * double(32 * side * side * (channels + out) + taps * taps * channels * out);
  const options how{.precision = precision::high};
  const auto drawn = [](int seed, auto... e) { return evaluate(cast<T>(random(seed, e...))); };
  const auto x = drawn(60, 32, side, side, channels), w = drawn(61, out, taps, taps, channels);
  const auto forward = [](auto x, auto w) { return conv<"nhwc,ohwi->nhwc">(x, w, {.padding = same}); };
  workload(name.c_str(), bytes, how, forward, x, w);
  const auto ct = drawn(62, 32, side, side, out);
  workload((name + "_fwdbwd").c_str(), 3 * bytes, how,
           [forward](auto x, auto w, auto ct) {
             return grad([&](auto both) { return sum(forward(both.first, both.second) * ct); })(std::pair{x, w});
           },
           x, w, ct);
}

void windows() {
  convolution<float>("conv3x3_64_56", 64, 56, 64, 3);
  convolution<float>("conv3x3_256_14", 256, 14, 256, 3);
  convolution<float>("conv1x1_64_56", 64, 56, 256, 1);
  convolution<bf16>("conv3x3_64_56_bf16", 64, 56, 64, 3);
  convolution<bf16>("conv3x3_256_14_bf16", 256, 14, 256, 3);
  const auto x = random(63, 32, 64, 112, 112);
  const double bytes = 4.0 * 32 * 64 * (112 * 112 + 56 * 56);
  const auto pool = [](auto x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); };
  workload("max_pool", bytes, {}, pool, x);
  workload(
      "max_pool_bwd", 2 * bytes, {}, [pool](auto x) { return grad([pool](auto x) { return sum(pool(x)); })(x); }, x);
}

/// Factors and solutions of one large matrix and of many small ones.
void systems() {
  const auto a = random(64, 512, 512), y = random(65, 512, 1);
  const auto few = random(66, 10000, 4, 4), right = random(67, 10000, 4, 1);
  const auto positive = [](const auto& m, int n) {
    return evaluate(matmul(m, transpose(m)) + float(n) * eye<float>(n, gpu));
  };
  const auto factor = [](auto a) { return linalg::cholesky(a); };
  const auto solution = [](auto a, auto y) { return linalg::solve(a, y); };
  workload("cholesky_512", 8.0 * 512 * 512, {}, factor, positive(a, 512));
  workload("solve_512", 4.0 * 512 * 512, {}, solution, a, y);
  workload("cholesky_10000_of_4", 8.0 * 160000, {}, factor, positive(few, 4));
  workload("solve_10000_of_4", 4.0 * 240000, {}, solution, few, right);
}

/// Reads and writes at indices.
void indexed() {
  const std::int64_t many = 1000000, bins = 10000;
  const auto at = randint<std::int64_t>(make_key(68), 0, bins, many).to(gpu);
  const auto x = random(69, many), table = random(70, bins);
  workload(
      "scatter_add", 12.0 * many, {}, [](auto s, auto i, auto u) { return scatter_add(s, i, u); }, table, at, x);
  workload(
      "gather", 16.0 * many, {}, [](auto t, auto i) { return take(t, i); }, table, at);
  workload(
      "at_set", 8.0 * many, {}, [](auto t, auto i) { return t.at(i).set(t[i - 1] + 1.f); }, x,
      full<std::int64_t>(7, gpu));
}

/// Numbers of distributions.
void samples() {
  const std::int64_t many = 1000000;
  const key k = make_key(71);
  const auto of = full<float>(2.5f, many, gpu);
  workload(
      "normal", 4.0 * many, {}, [=](auto x) { return normal<float>(k, many) + x; }, full<float>(0, gpu));
  workload(
      "gamma", 8.0 * many, {}, [=](auto a) { return gamma(k, a); }, of);
  workload(
      "poisson", 8.0 * many, {}, [=](auto a) { return poisson(k, a); }, of);
}

void transforms() {
  const auto noise = [](auto... extents) { return complex(random(11, extents...), random(12, extents...)); };
  workload(
      "fft_long", 16.0 * (1 << 20), {}, [](const auto& z) { return fft::fft(z); }, noise(1 << 20));
  workload(
      "fft_rows", 16e5, {}, [](const auto& z) { return fft::fft(z); }, noise(100, 1000));
}

void overhead() {
  workload(
      "call_overhead", 0, {}, [](auto x) { return x * 2 + 1; }, random(10, 8));
}

struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
struct network {
  layer first, second, last;
};

void training() {
  auto make = [&](std::uint64_t k, int in, int out) {
    return layer{random(k, in, out) * std::sqrt(2.f / float(in)), random(k + 1, out) * 0.01f};
  };
  const network p{make(20, 784, 512), make(22, 512, 512), make(24, 512, 10)};
  const network m{make(26, 784, 512), make(28, 512, 512), make(30, 512, 10)};
  const network v = tree_map([](auto x) { return x * x; }, m);
  const auto x = random(32, 1024, 784);
  const auto y = randint<std::int64_t>(make_key(33), 0, 10, 1024).to(gpu);
  options how{.mode = mode::reduce_overhead, .precision = precision::high};
  workload(
      "mlp_train", 0, how,
      [](const network& p, const network& m, const network& v, auto x, auto y) {
        const auto loss = [&](const network& p) {
          const tensor<float, 2> a = relu(matmul(x, p.first.w) + p.first.b),
                                 b = relu(matmul(a, p.second.w) + p.second.b);
          return cross_entropy(matmul(b, p.last.w) + p.last.b, y);
        };
        const auto [l, g] = value_and_grad(loss)(p);
        const auto m2 = tree_map([](auto m, auto g) { return 0.9f * m + 0.1f * g; }, m, g);
        const auto v2 = tree_map([](auto v, auto g) { return 0.999f * v + 0.001f * g * g; }, v, g);
        const auto p2 = tree_map([](auto p, auto m, auto v) { return p - 1e-3f * m / (sqrt(v) + 1e-8f); }, p, m2, v2);
        return std::tuple{l, p2, m2, v2};
      },
      p, m, v, x, y);
}

/// A loop of 200 steps, each too small to hide what it costs to ask for it.
void loops() {
  const auto w = random(34, 128, 128) * 0.05f, u = random(35, 128, 128) * 0.05f;
  const auto h = random(36, 32, 128);
  const auto xs = random(37, 200, 32, 128);
  const auto rnn = [](auto w, auto u, auto h, auto xs) {
    return scan(
               [&](const tensor<float, 2>& h, const tensor<float, 2>& x) {
                 const tensor<float, 2> next = tanh(matmul(h, w) + matmul(x, u));
                 return std::pair{next, mean(next)};
               },
               h, xs)
        .second;
  };
  workload("rnn_200_steps", 0, {}, rnn, w, u, h, xs);
  workload("rnn_200_steps_recorded", 0, {.mode = mode::reduce_overhead}, rnn, w, u, h, xs);
}

/// Memory-bound functions of the kind people write.
void everyday() {
  const auto a = random(40, n, d), b = random(41, n, d);
  workload(
      "swiglu", 3 * plane, {}, [](auto a, auto b) { return silu(a) * b; }, a, b);
  workload(
      "adamw", 7 * plane, {},
      [](auto p, auto g, auto m, auto v) {
        const tensor<float, 2> m2 = 0.9f * m + 0.1f * g, v2 = 0.999f * v + 0.001f * g * g;
        return std::tuple{p * (1.f - 1e-5f) - 1e-3f * m2 / (sqrt(v2) + 1e-8f), m2, v2};
      },
      a, b, random(42, n, d), abs(random(43, n, d)).eval());
  workload(
      "cross_entropy_fwdbwd", 2 * plane, {},
      [](auto x, auto y) { return value_and_grad([&](auto x) { return cross_entropy(x, y); })(x); }, a,
      randint<std::int64_t>(make_key(44), 0, d, n).to(gpu));
  workload(
      "huber_fwdbwd", 3 * plane, {},
      [](auto x, auto y) {
        return value_and_grad([&](auto x) {
          const auto e = abs(x - y);
          return mean(where(e < 1.f, 0.5f * e * e, e - 0.5f));
        })(x);
      },
      a, b);
  workload(
      "wave_step", 12.0 * n * n, {},
      [](auto u, auto old) {
        const auto in = [&](int i, int j) { return slice<1>(slice<0>(u, 1 + i, n - 1 + i), 1 + j, n - 1 + j); };
        const auto laplacian = in(1, 0) + in(-1, 0) + in(0, 1) + in(0, -1) - 4.f * in(0, 0);
        const auto past = slice<1>(slice<0>(old, 1, n - 1), 1, n - 1);
        return evaluate(2.f * in(0, 0) - past + 0.1f * laplacian);
      },
      random(45, n, n), random(46, n, n));
}

/// One function for all parameters, then one for each of several parts of them, which is a launch each: what their calls take
/// together, and the least that they move. The first parts' tables are in memory, those of the others parameters.
void updates() {
  using vectors = std::vector<tensor<float, 1>>;
  const int count = 1000;
  const std::int64_t length = 4096;
  const auto adam = [](const vectors& p, const vectors& m, const vectors& v, const vectors& g) {
    const auto m2 = tree_map([](auto m, auto g) { return 0.9f * m + 0.1f * g; }, m, g);
    const auto v2 = tree_map([](auto v, auto g) { return 0.999f * v + 0.001f * g * g; }, v, g);
    return std::tuple{tree_map([](auto p, auto m, auto v) { return p - 1e-3f * m / (sqrt(v) + 1e-8f); }, p, m2, v2), m2,
                      v2};
  };
  std::printf("Adam of %d parameters of %lld elements, %.0f MB\n", count, static_cast<long long>(length),
              28e-6 * count * double(length));
  for (const mode how : {mode::standard, mode::reduce_overhead})
    for (const int functions : {1, 2, 16}) {
      std::vector<vectors> p(static_cast<std::size_t>(functions)), v = p;
      for (int i = 0; i < count; ++i) {
        p[static_cast<std::size_t>(i % functions)].push_back(random(static_cast<std::uint64_t>(i), length));
        v[static_cast<std::size_t>(i % functions)].push_back(ones<float>(length, gpu));
      }
      const auto f = compile(adam, {.mode = how});
      std::vector<decltype(f(p[0], p[0], v[0], p[0]))> results(p.size());
      const auto step = [&] {
        for (std::size_t k = 0; k < p.size(); ++k) results[k] = f(p[k], p[k], v[k], p[k]);
      };
      step();
      const std::size_t launches = f.report().kernels * p.size();
      const double us = bench::median_us(gpu, step);
      std::printf("%s launches %zu: %.1f us\n", how == mode::standard ? "standard" : "recorded", launches, us);
      std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
  bool only_updates = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--dynamic") extents = dynamic::yes;
    else if (std::string(argv[i]) == "--updates") only_updates = true;
    else chosen.emplace_back(argv[i]);
  }
  if (device_count() == 0) {
    std::printf("no GPU: nothing to measure\n");
    return 0;
  }
  if (only_updates) return updates(), 0;
  anchors();
  order();
  windows();
  systems();
  indexed();
  samples();
  transforms();
  overhead();
  training();
  loops();
  everyday();
}
