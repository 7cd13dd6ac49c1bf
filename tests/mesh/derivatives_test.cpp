// Derivatives of collectives and of changes of placement, first and second, against whole tensors; placements of loops and branches.
#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

using rows = placed<tensor<double, 2>, shard<dp, 0>>;
using columns = placed<tensor<double, 2>, shard<dp, 1>>;
using repl = placed<tensor<double, 2>, replicated<dp>>;
using inv = placed<tensor<double, 2>>;
using scalar = placed<tensor<double, 0>>;

/// A number that depends on each element in its own way, whatever the placement.
scalar total(const rows& x) {
  const auto weight = as<shard<dp, 0>>(inv(cos(reshape(arange<double>(6 * 6), 6, 6))));
  return all_reduce<invariant<dp>>(sum(sin(x) * weight));
}
scalar total(const columns& x) { return total(all_to_all<dp, 0, 1>(x)); }
scalar total(const repl& x) { return total(as<shard<dp, 0>>(x)); }
scalar total(const inv& x) { return total(as<shard<dp, 0>>(x)); }
tensor<double, 0> whole_total(const tensor<double, 2>& x) {
  return sum(sin(x) * cos(reshape(arange<double>(6 * 6), 6, 6)));
}

/// The gradient, and the gradient of a function of it, of a program by its first argument, on ranks and whole.
template <class P, class F, class G>
void check_derivatives(const char* what, const F& f, const G& whole) {
  CAPTURE(what);
  const auto x = some(6, 6, 0.3);
  const auto second_whole = [&](tensor<double, 2> a) { return sum(sin(grad(whole)(a))); };
  const auto want = grad(whole)(x);
  const auto want_second = grad(second_whole)(x);
  for (const std::int64_t ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto both = [&](P a) {
      const auto second = [&](const P& b) {
        const auto g = grad(f)(b);
        if constexpr (std::is_same_v<P, inv>) return scalar(tensor<double, 0>(local(sum(sin(g)))));
        else return all_reduce<invariant<dp>>(sum(sin(g)));
      };
      return std::tuple{grad(f)(a), grad(second)(a)};
    };
    const auto got = simulate(both, simulated_mesh<dp>({ranks}))(x);
    check_close(numbers_of(std::get<0>(got)), numbers_of(want), 1e-11);
    check_close(numbers_of(std::get<1>(got)), numbers_of(want_second), 1e-11);
    findings wrong;
    on_threads(static_cast<int>(ranks), [&](int) {
      const auto m = make_mesh<dp>({ranks});
      const auto step = compile(
          shard_map(m,
                    [&](P a) {
                      auto [first, second] = both(a);
                      if constexpr (std::is_same_v<P, rows>)
                        return std::tuple{all_gather<invariant<dp>, 0>(first), all_gather<invariant<dp>, 0>(second)};
                      else return std::tuple{first, second};
                    }),
          {.backend = "reference"});
      const auto own = step(x);
      wrong.close(numbers_of(local(std::get<0>(own))), numbers_of(want), "first", 1e-11);
      wrong.close(numbers_of(local(std::get<1>(own))), numbers_of(want_second), "second", 1e-11);
    });
    CHECK(wrong.all() == "");
  }
}

using mat = tensor<double, 2>;

}  // namespace

TEST_CASE("first and second derivatives of each collective") {
  const auto plain = [](mat x) { return whole_total(square(x)); };
  const auto both = [](mat x) { return whole_total(tanh(matmul(square(x), x))); };
  check_derivatives<rows>(
      "all_gather to replicated", [](const rows& x) { return total(all_gather<replicated<dp>, 0>(square(x))); }, plain);
  check_derivatives<rows>(
      "all_gather to invariant", [](const rows& x) { return total(all_gather<invariant<dp>, 0>(square(x))); }, plain);
  check_derivatives<rows>(
      "all_to_all", [](const rows& x) { return total(all_to_all<dp, 1, 0>(square(x))); }, plain);
  check_derivatives<rows>(
      "permute",
      [](const rows& x) { return total(as<shard<dp, 0>>(permute<dp>(permute<dp>(square(x), shift(1)), shift(-1)))); },
      plain);
  check_derivatives<rows>(
      "all_reduce to replicated",
      [](const rows& x) {
        const auto p = matmul(all_to_all<dp, 1, 0>(square(x)), x);  // columns by rows: partial
        return total(tanh(all_reduce<replicated<dp>>(p)));
      },
      both);
  check_derivatives<rows>(
      "all_reduce to invariant",
      [](const rows& x) {
        const auto p = matmul(all_to_all<dp, 1, 0>(square(x)), x);
        return total(tanh(all_reduce<invariant<dp>>(p)));
      },
      both);
  check_derivatives<rows>(
      "reduce_scatter",
      [](const rows& x) { return total(tanh(reduce_scatter<dp, 0>(matmul(all_to_all<dp, 1, 0>(square(x)), x)))); },
      both);
  check_derivatives<rows>(
      "the largest",
      [](const rows& x) {
        const placed<tensor<double, 0>, varying<dp>> own(tensor<double, 0>(max(square(local(x)))));
        const auto most = sin(all_reduce<replicated<dp>>(own, combine::max)) / double(axis_size<dp>());
        return all_reduce<invariant<dp>>(as<partial<dp>>(as<varying<dp>>(most)));
      },
      [](mat x) { return tensor<double, 0>(sin(max(square(x)))); });
}

TEST_CASE("first and second derivatives of changes of placement") {
  const auto plain = [](mat x) { return whole_total(square(x)); };
  check_derivatives<inv>(
      "invariant to replicated", [](const inv& x) { return total(square(as<replicated<dp>>(x))); }, plain);
  check_derivatives<inv>(
      "invariant to a shard", [](const inv& x) { return total(square(as<shard<dp, 1>>(x))); }, plain);
  check_derivatives<inv>(
      "invariant to varying, then partial",
      [](const inv& x) {
        const auto own = as<partial<dp>>(as<varying<dp>>(square(x) / double(axis_size<dp>())));
        return total(all_reduce<replicated<dp>>(own));
      },
      plain);
  check_derivatives<inv>(
      "a loop over an invariant value",
      [](const inv& x) {
        const auto y = fori_loop(
            0, 3, [&](auto, repl a) { return repl(tanh(a * as<replicated<dp>>(x))); }, as<replicated<dp>>(x));
        return total(y);
      },
      [](mat x) {
        const mat y = fori_loop(
            0, 3, [&](auto, mat a) { return mat(tanh(a * x)); }, x);
        return whole_total(y);
      });
  check_derivatives<rows>(
      "a loop that gathers",
      [](const rows& x) {
        return total(fori_loop(
            0, 2, [](auto, rows a) { return rows(tanh(matmul(a, all_gather<replicated<dp>, 0>(a)))); }, x));
      },
      [](mat x) {
        const mat y = fori_loop(
            0, 2, [](auto, mat a) { return mat(tanh(matmul(a, a))); }, x);
        return whole_total(y);
      });
}

TEST_CASE("a broadcast's derivative goes to its root") {
  const auto x = some(6, 4, 0.2);
  for (const std::int64_t ranks : {2, 3}) {
    const auto f = [](rows a) {
      return grad([](const rows& b) {
        const auto y = broadcast<dp>(sin(b), 1);
        return all_reduce<invariant<dp>>(as<partial<dp>>(as<varying<dp>>(sum(square(y)))));
      })(a);
    };
    const auto got = simulate(f, simulated_mesh<dp>({ranks}))(x);
    // Each rank counts the root's rows once.
    const std::int64_t n = 6 / ranks;
    const auto want =
        grad([&](mat a) { return static_cast<double>(ranks) * sum(square(sin(slice<0>(a, n, 2 * n)))); })(x);
    check_close(numbers_of(got), numbers_of(want), 1e-12);
  }
}

TEST_CASE("a branch or a loop is partial only where all of it is") {
  const auto m = simulated_mesh<dp>({2});
  const auto x = some(6, 3);
  const auto from_partial = [](bool zero) {
    return [zero](rows a) {
      const auto p = as<partial<dp>>(placed<tensor<double, 0>, varying<dp>>(local(sum(a))));
      const tensor<bool, 0> yes = local(all_reduce<replicated<dp>>(p)) > -1e9;
      const auto y = cond(
          yes, [](tensor<double, 0> s) { return s; },
          [zero](tensor<double, 0> s) { return tensor<double, 0>(zero ? zeros_like(s) : ones_like(s)); }, local(p));
      return all_reduce<invariant<dp>>(as<partial<dp>>(y));
    };
  };
  check_close(numbers_of(simulate(from_partial(true), m)(x)), numbers_of(sum(x)), 1e-12);
  CHECK_THROWS_WITH_AS(simulate(from_partial(false), m)(x), doctest::Contains("a partial value or a constant one"),
                       user_error);
}

TEST_CASE("simulated loops whose operands do not vary") {
  const auto m = simulated_mesh<dp>({3});
  // The loop starts from a constant, and each step adds this rank's index.
  const auto f = [](rows a) {
    const tensor<double, 0> zero = 0.0;
    const auto y = fori_loop(
        0, 2, [](auto, tensor<double, 0> s) { return tensor<double, 0>(s + cast<double>(local(axis_index<dp>()))); },
        zero);
    return as<shard<dp, 0>>(rows(local(a) + y));
  };
  const auto x = some(3, 2);
  const tensor<double, 2> want = x + 2.0 * reshape(arange<double>(3), 3, 1);
  check_close(numbers_of(simulate(f, m)(x)), numbers_of(want), 1e-13);
}

TEST_CASE("a derivative from outside of shard_map is checked for ranks that would wait for ever") {
  using pair = placed<tensor<double, 1>, shard<dp, 0>>;
  const auto run = [] {
    on_threads(2, [](int) {
      const auto m = make_mesh<dp>({2});
      // Ranks choose different branches; the derivative of one by w is an all_reduce within the branch.
      const auto f = shard_map(m, [](inv w, pair a) {
        const tensor<bool, 0> mine = local(sum(a)) > 0.0;
        const auto y = cond(
            mine, [&](const tensor<double, 2>& v) { return mat(local(as<replicated<dp>>(inv(v))) * 1.0); },
            [&](const tensor<double, 2>& v) { return mat(local(as<replicated<dp>>(inv(v))) * 2.0); }, local(w));
        return all_reduce<invariant<dp>>(as<partial<dp>>(as<varying<dp>>(tensor<double, 0>(sum(y)))));
      });
      const auto step = compile([&](tensor<double, 2> w, tensor<double, 1> a) {
        return grad([&](const tensor<double, 2>& v) { return local(f(v, a)); })(w);
      });
      step(some(2, 2), tensor<double, 1>{-1.0, 1.0});
    });
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("would wait for ever"), user_error);
}
