// An op of one's own: Thomas' algorithm for tridiagonal systems, which no array language has, with its derivative and a kernel for
// GPUs. A filter y = (1 + D' w D)^-1 x is made of it, and how stiff it is at each place is learned.
//
//   custom_op [--device cpu|cuda] [--steps N] [--svg custom_op.svg]
#include <sinter/linalg.hpp>
#include <sinter/optim.hpp>

#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using vector = tensor<double, 1>;
using matrix = tensor<double, 2>;

/// x of each row d: below[i] x[i-1] + middle[i] x[i] + above[i] x[i+1] = d[i]. below[0] and above[n-1] are not read.
matrix thomas(const vector& below, const vector& middle, const vector& above, const matrix& d);

void on_host(elements<const double, 1> a, elements<const double, 1> b, elements<const double, 1> c,
             elements<const double, 2> d, elements<double, 2> x) {
  const std::int64_t n = a.size();
  std::vector<double> ratio(std::size_t(n), 0.0);
  for (std::int64_t row = 0; row < d.extents[0]; ++row) {
    const double* from = d.data + row * n;
    double* to = x.data + row * n;
    for (std::int64_t i = 0; i < n; ++i) {
      const double pivot = b[i] - (i ? a[i] * ratio[std::size_t(i - 1)] : 0);
      ratio[std::size_t(i)] = c[i] / pivot;
      to[i] = (from[i] - (i ? a[i] * to[i - 1] : 0)) / pivot;
    }
    for (std::int64_t i = n - 1; i-- > 0;) to[i] -= ratio[std::size_t(i)] * to[i + 1];
  }
}

/// The first thread of a row solves it, with the pivots of the way forward computed again on the way back.
const cuda_source on_gpu{R"(
extern "C" __global__ void thomas(const double* a, const double* b, const double* c, const double* d, double* x,
                                  long long n, long long, long long, long long rows, long long, long long, long long) {
  const long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (at >= rows * n || at % n != 0) return;
  double ratio[256];
  for (long long i = 0; i < n; ++i) {
    const double pivot = b[i] - (i ? a[i] * ratio[i - 1] : 0.0);
    ratio[i] = c[i] / pivot;
    x[at + i] = (d[at + i] - (i ? a[i] * x[at + i - 1] : 0.0)) / pivot;
  }
  for (long long i = n - 2; i >= 0; --i) x[at + i] -= ratio[i] * x[at + i + 1];
})",
                         "thomas"};

matrix thomas(const vector& below, const vector& middle, const vector& above, const matrix& d) {
  static const auto op = custom_op<"thomas">(
      on_host, on_gpu, [](auto, auto, auto, auto d) { return result_of<double, 2>{d}; },
      [](const vector& a, const vector& b, const vector& c, const matrix&, const matrix& x, const matrix& ct) {
        const matrix y = thomas(roll(c, 1), b, roll(a, -1), ct);  // of the transposed system
        const auto products = [&](const auto& y, const auto& x) { return vector(-sum(y * x, axis<0>)); };
        return std::tuple{pad(products(slice<1>(y, 1), slice<1>(x, 0, -1)), {{1, 0}}), products(y, x),
                          pad(products(slice<1>(y, 0, -1), slice<1>(x, 1)), {{0, 1}}), y};
      });
  return op(below, middle, above, d);
}

/// Each signal smoothed; the logarithm of the stiffness is given between neighbours.
const auto filter = [](const vector& stiffness, const matrix& x) {
  const vector left = pad(exp(stiffness), {{1, 0}}), right = pad(exp(stiffness), {{0, 1}});
  return thomas(-left, 1.0 + left + right, -right, x);
};
const auto dense = [](const vector& stiffness, const matrix& x) {
  const matrix one = eye<double>(x.size(1)), d = diff<0>(one);
  return matrix(transpose(linalg::solve(one + matmul(transpose(d) * exp(stiffness), d), transpose(x))));
};
template <class Filter>
auto loss(const Filter& filter) {
  return [&](const vector& stiffness, const matrix& noisy, const matrix& clean) {
    return mean(square(filter(stiffness, noisy) - clean));
  };
}

bool learn(const arguments& given) {
  const int steps = given.steps(200);
  constexpr int n = 96, signals = 64;
  const vector at = linspace<double>(0, 1, n);
  const matrix phase = 6.28 * uniform<double>(make_key(1), signals, 1);
  const matrix clean = where(at < 0.6, sin(3.0 * at + phase), sin(3.0 * at + phase) + sin(60.0 * (at - 0.6)));
  const matrix noisy = clean + 0.4 * normal<double>(make_key(2), signals, n);

  const auto opt = optim::adam({.rate = optim::cosine(0.2, steps)});
  vector stiffness = zeros<double>(n - 1);
  auto state = opt.init(stiffness);
  const auto step = compile([&](const vector& w, const auto& state, const matrix& noisy, const matrix& clean) {
    const auto [l, g] = value_and_grad(loss(filter))(w, noisy, clean);
    const auto [next, after] = opt.update(w, g, state);
    return std::tuple{l, next, after};
  });
  data::progress_bar bar(steps);
  tensor<double, 0> last;
  for (int i = 0; i < steps; ++i) {
    std::tie(last, stiffness, state) = step(stiffness, state, noisy, clean);
    if ((i + 1) % std::max(1, steps / 20) == 0) bar.show(i + 1, "loss " + std::to_string(last.item()));
  }
  double constant = 1;
  for (double w = -3; w < 4; w += 0.25)
    constant = std::min(constant, loss(filter)(full<double>(w, n - 1), noisy, clean).item());

  const auto x = at.to_vector();
  const auto row = [](const matrix& m) { return m[0].to_vector(); };
  plot("A filter whose stiffness is learned", "")
      .points("measured", x, row(noisy))
      .line("truth", x, row(clean))
      .line("filtered", x, row(filter(stiffness, noisy)))
      .line("log stiffness / 4", x, (0.25 * stiffness).to_vector())
      .write(given("svg", "custom_op.svg"));
  const auto off = [](const auto& a, const auto& b) { return max(abs(a - b)).item(); };
  bool right = below("the op - a dense solution", off(filter(stiffness, noisy), dense(stiffness, noisy)), 1e-12);
  right &= below("its gradient - the dense one's",
                 off(grad(loss(filter))(stiffness, noisy, clean), grad(loss(dense))(stiffness, noisy, clean)), 1e-12);
  return right & below("error, of the best constant's", last.item() / constant, 0.8);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N]", learn); }
