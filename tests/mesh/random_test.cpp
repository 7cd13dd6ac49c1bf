// Random numbers of placed tensors: those of one device, for any number of ranks.
#include <sinter/nn.hpp>

#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

using row = placed<tensor<float, 2>, shard<dp, 0>>;
using shared_key = placed<key, invariant<dp>>;
using block = placed<tensor<double, 3>, shard<dp, 1>, shard<tp, 2>>;

}  // namespace

TEST_CASE("draws by global index are those of one device") {
  const key k = make_key(7);
  const std::vector<double> want = numbers_of(normal<float>(k, 12, 5)), flat = numbers_of(uniform<float>(k, 12, 5));
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const auto f = [](shared_key s) {
      return std::tuple{normal<row>(s, 12, 5), uniform<row>(s, 12, 5),
                        normal<placed<tensor<float, 2>, replicated<dp>>>(s, 12, 5)};
    };
    const auto got = simulate(f, simulated_mesh<dp>({ranks}))(k);
    CHECK(numbers_of(std::get<0>(got)) == want);
    CHECK(numbers_of(std::get<1>(got)) == flat);
    CHECK(numbers_of(std::get<2>(got)) == want);
    findings wrong;
    on_threads(static_cast<int>(ranks), [&](int rank) {
      const auto m = make_mesh<dp>({ranks});
      const auto own = local(std::get<0>(compile(shard_map(m, f))(k)));
      const auto each = static_cast<std::size_t>(60 / ranks);
      const auto first = want.begin() + static_cast<std::ptrdiff_t>(each) * rank;
      wrong.close(numbers_of(own), std::vector<double>(first, first + static_cast<std::ptrdiff_t>(each)), "rows", 0);
    });
    CHECK(wrong.all() == "");
  }
}

TEST_CASE("draws of tensors that two axes divide, and of no elements") {
  const key k = make_key(11);
  const auto f = [](placed<key, invariant<dp>> s) { return normal<block>(s, 3, 4, 6); };
  const auto got = simulate(f, simulated_mesh<dp, tp>({2, 3}))(k);
  CHECK(numbers_of(got) == numbers_of(normal<double>(k, 3, 4, 6)));
  // Both axes divide one axis of the tensor.
  const auto both = [](placed<key, invariant<dp>> s) {
    return normal<placed<tensor<double, 1>, shard<dp, 0>, shard<tp, 0>>>(s, 24);
  };
  CHECK(numbers_of(simulate(both, simulated_mesh<dp, tp>({2, 3}))(k)) == numbers_of(normal<double>(k, 24)));
  const auto none = [](shared_key s) { return normal<row>(s, 0, 5); };
  CHECK(numbers_of(simulate(none, simulated_mesh<dp>({2}))(k)).empty());
}

TEST_CASE("a key's type says which numbers are meant") {
  const key k = make_key(3);
  // A plain draw by an invariant key is equal on all ranks, and another one by the rank's own key is not.
  // A plain draw by an invariant key is equal on all ranks.
  const auto equal = [](shared_key s) { return as<invariant<dp>>(tensor<double, 1>(normal<double>(local(s), 4))); };
  CHECK(numbers_of(simulate(equal, simulated_mesh<dp>({3}))(k)) == numbers_of(normal<double>(k, 4)));
  const auto differs = [](shared_key s) {
    const key mine =
        fold_in(key{local(as<varying<dp>>(placed<tensor<std::uint64_t, 0>>(local(s).state)))}, local(axis_index<dp>()));
    return as<shard<dp, 0>>(as<varying<dp>>(tensor<double, 1>(normal<double>(mine, 4))));
  };
  const auto drawn = numbers_of(simulate(differs, simulated_mesh<dp>({2}))(k));
  CHECK(std::vector<double>(drawn.begin(), drawn.begin() + 4) != std::vector<double>(drawn.begin() + 4, drawn.end()));
  const auto wrong = [](shared_key s) {
    const key mine =
        fold_in(key{local(as<varying<dp>>(placed<tensor<std::uint64_t, 0>>(local(s).state)))}, local(axis_index<dp>()));
    return normal<row>(mine, 4, 4);
  };
  CHECK_THROWS_WITH_AS(simulate(wrong, simulated_mesh<dp>({2}))(k),
                       doctest::Contains("the key differs between the ranks"), user_error);
  const auto uneven = [](shared_key s) { return normal<row>(s, 5, 2); };
  CHECK_THROWS_WITH_AS(simulate(uneven, simulated_mesh<dp>({2}))(k),
                       doctest::Contains("axis 0 of 5 elements does not divide among the 2 ranks"), user_error);
}

TEST_CASE("dropout of placed values drops the same elements on any number of ranks") {
  const key k = make_key(5);
  const tensor<float, 2> x = cast<float>(some(12, 6));
  const auto want = [&] {
    nn::dropout drop(0.4, k);
    return numbers_of(drop(x));
  }();
  for (const std::int64_t ranks : {1, 2, 4}) {
    const auto f = [](row a, shared_key s) {
      nn::dropout drop(0.4, local(s));
      return drop(a);
    };
    check_close(numbers_of(simulate(f, simulated_mesh<dp>({ranks}))(x, k)), want, 1e-6);
  }
  const auto of_sum = [](row a, shared_key s) {
    nn::dropout drop(0.4, local(s));
    return drop(as<partial<dp>>(a));
  };
  const auto sums = numbers_of(simulate(of_sum, simulated_mesh<dp>({2}))(x, k));
  nn::dropout drop(0.4, k);
  check_close(sums, numbers_of(drop(tensor<float, 2>(slice<0>(x, 0, 6) + slice<0>(x, 6, 12)))), 1e-6);
}
