// auto_shard: functions of whole tensors on ranks that have parts of the arguments, against one device.
#include <sinter/nn.hpp>

#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

using mat = tensor<double, 2>;
template <class... P>
using held = placed<mat, P...>;

tensor<double, 0> mlp(const mat& x, const mat& up, const mat& down) {
  const mat h = relu(matmul(x, up) + tensor<double, 1>(sin(arange<double>(12))));
  return mean(square(log_softmax(matmul(h, down) * 0.1)));
}

/// auto_shard(f, m) on placed arguments of these types, simulated and on threads, against f.
template <class... P, class F, class... X>
void check_same(const char* what, const F& f, const X&... x) {
  CAPTURE(what);
  const auto want = f(x...);
  const auto m = simulated_mesh<dp, tp>({2, 3});
  const auto got = simulate([&](P... p) { return auto_shard(f, m)(p...); }, m)(x...);
  check_close(numbers_of(got), numbers_of(want), 1e-12);
  findings wrong;
  on_threads(6, [&](int) {
    const auto ranks = make_mesh<dp, tp>({2, 3});
    const auto own =
        compile(shard_map(ranks, [&](P... p) { return auto_shard(f, ranks)(p...); }), {.backend = "reference"})(x...);
    wrong.close(numbers_of(local(own)), numbers_of(want), "ranks", 1e-12);
  });
  CHECK(wrong.all() == "");
}

}  // namespace

TEST_CASE("products, sums and pointwise functions of divided arguments") {
  const auto x = some(6, 12), y = some(12, 18, 0.3), z = some(6, 12, 0.7);
  const auto product = [](mat a, mat b) { return mat(matmul(a, b)); };
  check_same<held<shard<dp, 0>>, held<>>("rows", product, x, y);
  check_same<held<>, held<shard<tp, 1>>>("columns", product, x, y);
  check_same<held<shard<dp, 0>>, held<shard<tp, 1>>>("rows and columns", product, x, y);
  check_same<held<shard<tp, 1>>, held<shard<tp, 0>>>("inner", product, x, y);
  check_same<held<shard<tp, 1>>, held<>>("inner of one", product, x, y);
  check_same<held<shard<dp, 1>, shard<tp, 1>>, held<shard<dp, 0>>>("inner, by two axes", product, x, y);
  check_same<held<shard<dp, 0>, shard<tp, 0>>, held<>>("rows, by two axes", product, x, y);
  const auto sums = [](mat a, mat b) { return mat(sin(a) * b + sum(a, axis<0>) - max(b, axis<1>, keepdims)); };
  check_same<held<shard<dp, 0>>, held<>>("rows", sums, x, z);
  check_same<held<shard<tp, 1>>, held<shard<dp, 0>>>("both", sums, x, z);
  check_same<held<shard<dp, 0>, shard<tp, 0>>, held<shard<tp, 0>>>("the minor axis alone", sums, x, z);
  const auto moved = [](mat a) {
    const tensor<double, 3> b = reshape(transpose(a), 4, 3, 6);
    return mat(reshape(b * 2.0, 12, 6) + transpose(sort(a, axis<0>)));
  };
  check_same<held<shard<dp, 0>>>("rows, moved", moved, x);
  check_same<held<shard<dp, 1>>>("columns, moved", moved, x);
  check_same<held<shard<tp, 1>>>("columns that a reshape splits", moved, x);
  const auto parts = [](mat a, mat b) { return mat(concat<0>(slice<1>(a, 2, 9), slice<1>(b, 0, 7))); };
  check_same<held<shard<dp, 0>>, held<shard<tp, 1>>>("slices and concatenations", parts, x, z);
}

TEST_CASE("a whole model with its derivatives") {
  const auto x = some(6, 4), up = some(4, 12, 0.2), down = some(12, 6, 0.4);
  check_same<held<shard<dp, 0>>, held<shard<tp, 1>>, held<shard<tp, 0>>>("a loss", mlp, x, up, down);
  const auto gradient = [](mat a, mat b, mat c) { return mat(grad<1>(mlp)(a, b, c)); };
  check_same<held<shard<dp, 0>>, held<shard<tp, 1>>, held<shard<tp, 0>>>("a gradient", gradient, x, up, down);
  check_same<held<shard<dp, 0>>, held<replicated<dp>>, held<>>("data parallel", gradient, x, up, down);
}

TEST_CASE("divisions that exclude each other name both operands") {
  const auto m = simulated_mesh<dp, tp>({2, 3});
  const auto product = [](mat a, mat b) { return mat(matmul(a, b)); };
  const auto f = [&](held<shard<tp, 0>> a, held<shard<tp, 1>> b) { return auto_shard(product, m)(a, b); };
  CHECK_THROWS_WITH_AS(simulate(f, m)(some(6, 12), some(12, 18)), doctest::Contains("operand 0 (input f64(6, 12)"),
                       user_error);
  CHECK_THROWS_WITH_AS(simulate(f, m)(some(6, 12), some(12, 18)),
                       doctest::Contains("is divided along axis 0, operand 1 (input f64(12, 18)"), user_error);
  const auto sum = [&](held<shard<dp, 0>> a, held<shard<dp, 1>> b) {
    return auto_shard([](mat p, mat q) { return mat(p + q); }, m)(a, b);
  };
  CHECK_THROWS_WITH_AS(simulate(sum, m)(some(6, 6), some(6, 6)), doctest::Contains("add could keep either division"),
                       user_error);
}

TEST_CASE("auto_shard without shard_map") {
  const auto m = make_mesh<dp, tp>({1, 1});
  const auto product = [](mat a, mat b) { return mat(matmul(a, b)); };
  const auto x = some(3, 4), y = some(4, 2);
  const auto got = auto_shard(product, m)(held<shard<dp, 0>>(x), y);
  check_close(numbers_of(local(got)), numbers_of(mat(matmul(x, y))), 1e-13);
}
