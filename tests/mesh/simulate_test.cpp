// Programs of placed tensors on simulated ranks, against the same programs of whole tensors: values and gradients.
#include "programs.hpp"

using namespace programs;

static_assert(std::is_same_v<placed<tensor<float, 0>, invariant<dp>, invariant<tp>>, placed<tensor<float, 0>>>);
static_assert(std::is_same_v<placed<tensor<float, 1>, replicated<dp>, shard<tp, 0>>,
                             placed<tensor<float, 1>, shard<tp, 0>, replicated<dp>>>);

namespace {

template <class Got, class Want>
void check_same(const Got& got, const Want& want, double tolerance = 1e-12) {
  CHECK(got.shape() == want.shape());
  check_close(got.to_vector(), want.to_vector(), tolerance);
}
constexpr std::array<std::int64_t, 2> meshes[] = {{1, 1}, {2, 2}, {3, 2}, {1, 4}};

}  // namespace

TEST_CASE("a value and gradients on simulated ranks are those of one device") {
  for (const auto& extents : meshes) {
    CAPTURE(extents[0]);
    CAPTURE(extents[1]);
    const auto m = simulated_mesh<dp, tp>(extents);
    const auto w = some(5, 8), x = some(6, 5, 0.5);
    const auto both = [](W a, X b) {
      auto out = value_and_grad<0, 1>(loss)(a, b);
      static_assert(std::is_same_v<decltype(out.first), loss_type>);
      static_assert(std::is_same_v<std::tuple_element_t<0, decltype(out.second)>, W>);
      static_assert(std::is_same_v<std::tuple_element_t<1, decltype(out.second)>,
                                   placed<tensor<double, 2>, shard<dp, 0>, partial<tp>>>);
      return out;
    };
    const auto want = value_and_grad<0, 1>(whole_loss)(w, x);
    const auto compiled = compile(simulate(both, m));
    for (int turn = 0; turn < 2; ++turn) {
      const auto got = turn == 0 ? simulate(both, m)(w, x) : compiled(w, x);
      check_same(got.first, want.first);
      check_same(std::get<0>(got.second), std::get<0>(want.second));
      check_same(std::get<1>(got.second), std::get<1>(want.second));
    }
  }
}

TEST_CASE("tensor parallel layers, and the gradient of a struct of them") {
  const auto m = simulated_mesh<dp, tp>({2, 3});
  const auto up = some(4, 6), down = some(6, 5, 0.3), x = some(4, 4, 0.7);
  const auto f = [](placed<tensor<double, 2>, shard<tp, 1>> a, placed<tensor<double, 2>, shard<tp, 0>> b, X c) {
    auto [l, g] = value_and_grad(layers_loss)(layers{a, b}, c);
    return std::tuple{l, g.up, g.down};
  };
  const auto got = simulate(f, m)(up, down, x);
  const auto want = value_and_grad<0, 1>(whole_layers_loss)(up, down, x);
  check_same(std::get<0>(got), want.first);
  check_same(std::get<1>(got), std::get<0>(want.second));
  check_same(std::get<2>(got), std::get<1>(want.second));
}

TEST_CASE("each collective on simulated ranks") {
  const auto m = simulated_mesh<dp>({3});
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto x = some(6, 9);
  const auto run = [&](const auto& f) { return simulate(f, m)(x); };
  check_same(run([](row a) { return all_gather<replicated<dp>, 0>(a); }), x);
  check_same(run([](row a) { return as<shard<dp, 1>>(all_gather<invariant<dp>, 0>(a)); }), x);
  check_same(run([](row a) { return all_to_all<dp, 1, 0>(a); }), x);
  check_same(run([](row a) { return reduce_scatter<dp, 1>(as<partial<dp>>(a)); }),
             tensor<double, 2>(slice<0>(x, 0, 2) + slice<0>(x, 2, 4) + slice<0>(x, 4, 6)));
  check_same(run([](row a) { return broadcast<dp>(a, 1); }), tensor<double, 2>(slice<0>(x, 2, 4)));
  check_same(run([](row a) { return all_reduce<replicated<dp>>(a, combine::max); }),
             tensor<double, 2>(maximum(maximum(slice<0>(x, 0, 2), slice<0>(x, 2, 4)), slice<0>(x, 4, 6))));
  check_same(run([](row a) { return all_reduce<invariant<dp>>(a, combine::min); }),
             tensor<double, 2>(minimum(minimum(slice<0>(x, 0, 2), slice<0>(x, 2, 4)), slice<0>(x, 4, 6))));
  check_same(run([](row a) { return as<shard<dp, 0>>(permute<dp>(a, shift(1))); }),
             tensor<double, 2>(roll(x, 2, axis<0>)));
  check_same(run([](row a) { return as<shard<dp, 0>>(permute<dp>(a, shift(-4))); }),
             tensor<double, 2>(roll(x, -2, axis<0>)));
  const auto index = run([](row a) { return as<shard<dp, 0>>(a * cast<double>(axis_index<dp>())); });
  check_same(index, tensor<double, 2>(concat<0>(zeros<double>(2, 9), slice<0>(x, 2, 4), 2.0 * slice<0>(x, 4, 6))));
}

TEST_CASE("plain tensors keep their placement in the graph") {
  const auto m = simulated_mesh<dp>({2});
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto x = some(4, 3);
  // A mean over all rows, from plain parts.
  const auto mean_of = [](row a) {
    tensor<double, 1> part = sum(local(a), axis<0>);
    return all_reduce<replicated<dp>>(as<partial<dp>>(part)) / 4.0;
  };
  check_same(simulate(mean_of, m)(x), mean(x, axis<0>));
  const auto wrong_claim = [](row a) { return as<replicated<dp>>(tensor<double, 2>(exp(local(a)))); };
  CHECK_THROWS_WITH_AS(simulate(wrong_claim, m)(x),
                       doctest::Contains("the tensor is varying along programs::dp@(programs::dp:2), not replicated"),
                       user_error);
  const auto hidden = [](row a) {
    const auto p = all_reduce<invariant<dp>>(as<partial<dp>>(sum(a)));
    return as<shard<dp, 0>>(tensor<double, 2>(local(a) * local(p)));
  };
  CHECK_THROWS_WITH_AS(simulate(hidden, m)(x), doctest::Contains("an invariant operand with a varying one"),
                       user_error);
  const auto nonlinear = [](row a) {
    const auto p = as<partial<dp>>(a);
    return as<partial<dp>>(tensor<double, 2>(exp(local(p))));
  };
  CHECK_THROWS_WITH_AS(simulate(nonlinear, m)(x), doctest::Contains("not linear"), user_error);
  const auto counted = [](row a) {
    return grad(
        [](row u) { return tensor<double, 0>(local(all_reduce<replicated<dp>>(as<partial<dp>>(sum(u * u))))); })(a);
  };
  CHECK_THROWS_WITH_AS(simulate(counted, m)(x), doctest::Contains("the loss is replicated"), user_error);
  // As a shard, a value that all ranks have is this rank's part.
  const auto part_of_all = [](row) { return as<shard<dp, 0>>(tensor<double, 1>(arange<double>(8))); };
  check_same(simulate(part_of_all, m)(x), tensor<double, 1>(arange<double>(8)));
}

TEST_CASE("a result is held as its type says, whatever the types on the way") {
  const auto m = simulated_mesh<dp>({2});
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto x = some(4, 3);
  // Ranks choose different branches, so that the choice is no longer replicated.
  const auto f = [](row a) {
    auto s = all_reduce<replicated<dp>>(sum(a));
    const tensor<bool, 0> mine = sum(local(a)) > 0.0;
    return cond(
        mine, [](auto y) { return y * 2.0; }, [](auto y) { return y * 3.0; }, s);
  };
  CHECK_THROWS_WITH_AS(simulate(f, m)(x), doctest::Contains("varying along"), user_error);
}

TEST_CASE("loops of simulated ranks") {
  const auto m = simulated_mesh<dp>({2});
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto x = some(4, 3);
  const auto rounds = [](row a) {
    return fori_loop(
        0, 3, [](auto, row y) { return as<shard<dp, 0>>(permute<dp>(y, shift(1)) * 1.5); }, a);
  };
  check_same(simulate(rounds, m)(x), tensor<double, 2>(roll(x, 6, axis<0>) * (1.5 * 1.5 * 1.5)));
}

TEST_CASE("extents and meshes that do not fit are refused") {
  const auto x = some(5, 4);
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto twice = [](row a) { return a * 2.0; };
  CHECK_THROWS_WITH_AS(simulate(twice, simulated_mesh<dp>({2}))(x),
                       doctest::Contains("axis 0 of (5, 4) does not divide among the 2 ranks"), user_error);
  CHECK_THROWS_WITH_AS(simulated_mesh<dp>({0}), doctest::Contains("give each axis 1 or more"), user_error);
  CHECK_THROWS_WITH_AS((make_mesh<dp, tp>({2, 3})), doctest::Contains("has 6 ranks, the program has 1"), user_error);
  CHECK_THROWS_WITH_AS(shard_map(simulated_mesh<dp>({2}), twice)(x), doctest::Contains("simulate(f, m)"), user_error);
  CHECK_THROWS_WITH_AS(axis_index<dp>(), doctest::Contains("shard_map(m, f)"), user_error);
  CHECK_THROWS_WITH_AS(simulated_mesh<dp>({2}).index<dp>(), doctest::Contains("no rank of its own"), user_error);
}
