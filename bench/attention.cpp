// Attention of bf16 on a GPU, 16,384 tokens of 2,048 features: for each length, size of heads and mask the median microseconds of a call
// of the forward pass and of both passes, and the relative errors of output and gradients of two heads beside f32, which is composed.
// bench/attention.py runs it beside PyTorch and prints the table. Words choose lengths, such as 1024.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include <sinter/sinter.hpp>

#include "gpu_time.hpp"

using namespace sinter;

namespace {

const device gpu = device::cuda(0);
using half = tensor<bf16, 4>;
using full_precision = tensor<float, 4>;

half numbers(std::uint64_t seed, std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t head) {
  const full_precision x = normal<float>(make_key(seed), batch, heads, length, head);
  const half y = cast<bf16>(x);
  return y.to(gpu);
}

/// The greatest difference, relative to the greatest element.
double error_of(const half& got, const full_precision& want) {
  const auto x = got.to(device::cpu()).to_vector();
  const auto y = want.to(device::cpu()).to_vector();
  double most = 0, size = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double gap = std::fabs(static_cast<double>(static_cast<float>(x[i])) - static_cast<double>(y[i]));
    most = gap <= most ? most : gap;  // NaN stays
    size = std::max(size, std::fabs(static_cast<double>(y[i])));
  }
  return most / size;
}

template <bool Causal>
struct mix {
  template <class T>
  auto operator()(const T& q, const T& k, const T& v) const {
    if constexpr (Causal) return attention(q, k, v, causal);
    else return attention(q, k, v);
  }
};
/// The gradients of q, k and v for a cotangent of the output.
template <bool Causal>
struct pull {
  template <class T>
  auto operator()(const T& q, const T& k, const T& v, const T& dy) const {
    return grad<0, 1, 2>([dy](T a, T b, T c) {
      return tensor<float, 0>(sum(cast<float>(mix<Causal>()(a, b, c)) * cast<float>(dy)));
    })(q, k, v);
  }
};

std::size_t kernels_of(const report& r, const char* name) {
  std::size_t n = 0;
  for (const auto& s : r.steps) n += s.name == name;
  return n;
}

constexpr std::int64_t tokens = 16384, features = 2048;

/// q, k, v and the output's cotangent, as rows of one feature.
using operands = std::vector<tensor<bf16, 1>>;
operands all_numbers() {
  operands out;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const tensor<float, 1> x = normal<float>(make_key(seed), tokens * features);
    const tensor<bf16, 1> y = cast<bf16>(x);
    out.push_back(y.to(gpu));
  }
  return out;
}

template <bool Causal>
void row(const operands& all, std::int64_t length, std::int64_t head) {
  const std::int64_t batch = tokens / length, heads = features / head;
  const auto forward_of = [](half q, half k, half v) { return half(mix<Causal>()(q, k, v)); };
  const auto both_of = [](half q, half k, half v, half dy) { return pull<Causal>()(q, k, v, dy); };
  {
    const auto forward = compile(forward_of);
    const auto both = compile(both_of);
    const half q = numbers(1, 1, 2, length, head), k = numbers(2, 1, 2, length, head),
               v = numbers(3, 1, 2, length, head), dy = numbers(4, 1, 2, length, head);
    const auto wide = [](const half& x) { return full_precision(cast<float>(x)); };
    const full_precision a = wide(q), b = wide(k), c = wide(v), d = wide(dy);
    const auto exact = compile(
        [](full_precision x, full_precision y, full_precision z) { return full_precision(mix<Causal>()(x, y, z)); });
    const auto slopes = compile([](full_precision x, full_precision y, full_precision z, full_precision w) {
      return pull<Causal>()(x, y, z, w);
    });
    const double error = error_of(forward(q, k, v), exact(a, b, c));
    const auto [dq, dk, dv] = both(q, k, v, dy);
    const auto [eq, ek, ev] = slopes(a, b, c, d);
    std::printf("error %lld %lld %d %.2e %.2e %.2e %.2e %zu %zu\n", static_cast<long long>(length),
                static_cast<long long>(head), Causal, error, error_of(dq, eq), error_of(dk, ek), error_of(dv, ev),
                kernels_of(both.report(), "attention"), kernels_of(both.report(), "attention_back"));
  }
  // Other sizes of one function would be open ones.
  const auto forward = compile(forward_of);
  const auto both = compile(both_of);
  const auto taken = [&](std::size_t n) { return half(reshape(all[n], batch, heads, length, head)); };
  const half q = taken(0), k = taken(1), v = taken(2), dy = taken(3);
  const double once = bench::median_us(
                   gpu, [&] { forward(q, k, v); }, 0.5),
               twice = bench::median_us(
                   gpu, [&] { both(q, k, v, dy); }, 0.5);
  std::printf("time %lld %lld %d %.2f %.2f\n", static_cast<long long>(length), static_cast<long long>(head), Causal,
              once, twice);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (device_count() == 0) {
    std::puts("no GPU was found");
    return 1;
  }
  const operands all = all_numbers();
  for (const std::int64_t length : {1024, 4096, 16384}) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::to_string(length) == argv[i];
    for (const std::int64_t head : {64, 128}) {
      if (!wanted) continue;
      row<false>(all, length, head);
      row<true>(all, length, head);
    }
  }
}
