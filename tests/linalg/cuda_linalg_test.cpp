// Linear algebra on a GPU: kernels with a thread a matrix and with a block, against the host.
#include <limits>

#include "matrices.hpp"

using namespace matrices;

namespace {

const device gpu = device::cuda(0);

/// Factors of matrices of any rank and form, and of what is not positive definite.
vec of_any(const stacks& tall, const stacks& symmetric) {
  const auto [q, r] = linalg::qr(tall);
  const auto [p, l, u] = linalg::lu(tall);
  const auto [left, s, right] = linalg::svd(tall);
  return concat(flat(linalg::cholesky(symmetric)), flat(matmul(q, r)), flat(matmul(transpose(q), q)), flat(p), flat(l),
                flat(u), flat(matmul(left * expand_dims<1>(s), right)), flat(matmul(transpose(left), left)));
}

}  // namespace

TEST_CASE("a GPU gives what the host does, of small matrices and of large ones") {
  const auto on_gpu = compile(everything, {.dynamic = dynamic::yes});
  for (const std::int64_t n : {3, 9}) {
    const stacks a = random_stack(10 + static_cast<int>(n), 2, n, n), y = random_stack(20, 2, n, 2);
    check_close(on_gpu(a.to(gpu), y.to(gpu)).to(device::cpu()).to_vector(), everything(a, y).to_vector(), 1e-8);
  }
  const stacks a = random_stack(5, 40, 2, 2), y = random_stack(6, 40, 2, 1);
  check_close(on_gpu(a.to(gpu), y.to(gpu)).to(device::cpu()).to_vector(), everything(a, y).to_vector(), 1e-7);
}

TEST_CASE("a GPU, of matrices without full rank, not positive definite, not finite and empty") {
  const auto on_gpu = compile(of_any, {.dynamic = dynamic::yes});
  for (const std::int64_t m : {4, 10}) {
    const stacks full = random_stack(31, 1, m, 3), thin = matmul(random_stack(32, 1, m, 2), random_stack(33, 1, 2, 3));
    const stacks tall = concat(full, thin, zeros<double>(1, m, 3));
    stacks symmetric = matmul(tall, transpose(tall));
    symmetric = concat(symmetric, symmetric + eye<double>(m), symmetric - 100.0 * eye<double>(m));
    const doubles want = of_any(tall, symmetric).to_vector(),
                  got = on_gpu(tall.to(gpu), symmetric.to(gpu)).to(device::cpu()).to_vector();
    // Those of a singular matrix may count as positive or not.
    const std::size_t skipped = static_cast<std::size_t>(3 * m * m);
    check_close(doubles(got.begin() + skipped, got.end()), doubles(want.begin() + skipped, want.end()), 1e-8);
  }
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  const auto values =
      compile([](const stacks& a) { return concat(linalg::eigh(a).first, std::get<1>(linalg::svd(a))); });
  const tensor<double, 2> got = values(stacks{{{1, no_number}, {2, 1}}, {{2, 0}, {0, 1}}}.to(gpu)).to(device::cpu());
  check_close(got.to_vector(), doubles{no_number, no_number, 1, 2, no_number, no_number, 2, 1}, 1e-12);
  const auto square = [](const stacks& a) {
    const auto [q, r] = linalg::qr(a);
    return concat(flat(q), flat(r));
  };
  const doubles turned =
      compile(square)(stacks{{{no_number, 2}, {1, 3}}, {{0, 1}, {1, 0}}}.to(gpu)).to(device::cpu()).to_vector();
  check_close(
      turned,
      doubles{no_number, no_number, no_number, no_number, 0, 1, 1, 0, no_number, no_number, 0, no_number, 1, 0, 0, 1},
      1e-12);
  // As small and as large as the dtype goes, beside each other.
  for (const double size : {1e-200, 1e-300, 1e200, 1e300}) {
    const auto spectra = values(stacks{{{2 * size, size}, {size, 2 * size}}}.to(gpu)).to(device::cpu());
    check_close(vec(flatten(spectra) / size).to_vector(), doubles{1, 3, 3, 1}, 1e-12);
  }
  CHECK(linalg::det(zeros<double>(2, 0, 0).to(gpu)).to(device::cpu()).to_vector() == doubles{1, 1});
  const tensor<float, 2> single{{4, 1}, {1, 3}};
  check_close(linalg::solve(single.to(gpu), tensor<float, 1>{1, 2}.to(gpu)).to(device::cpu()).to_vector(),
              doubles{1.0 / 11, 7.0 / 11}, 1e-6);
}
