// Programs on ranks that are threads, against simulated ranks; failures of some ranks.
#include <atomic>

#include "../scratch_folder.hpp"
#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

TEST_CASE("a mesh of one rank runs alone, and collectives are the identity") {
  const auto m = make_mesh<dp, tp>({1, 1});
  CHECK(m.index<dp>() == 0);
  CHECK(m.size() == 1);
  const auto w = some(3, 4), x = some(2, 3, 0.5);
  const auto step = compile(shard_map(m, [](W a, X b) { return value_and_grad(loss)(a, b); }));
  const auto got = step(w, x);
  const auto want = value_and_grad(whole_loss)(w, x);
  check_close(local(got.first).to_vector(), want.first.to_vector(), 1e-13);
  check_close(local(got.second).to_vector(), want.second.to_vector(), 1e-13);
  using row = placed<tensor<double, 2>, shard<dp, 0>>;
  const auto all = compile(shard_map(m, [](row a) {
    return all_to_all<dp, 1, 0>(
        as<shard<dp, 0>>(permute<dp>(as<shard<dp, 0>>(all_gather<invariant<dp>, 0>(a)), shift(1))));
  }));
  check_close(local(all(x)).to_vector(), x.to_vector(), 0);
}

TEST_CASE("ranks of threads compute what simulated ranks compute") {
  for (const auto& extents : {std::array<std::int64_t, 2>{2, 1}, {3, 1}, {2, 4}}) {
    CAPTURE(extents[0]);
    const auto w = some(5, 8), x = some(12, 5, 0.5);
    const auto want = value_and_grad<0, 1>(whole_loss)(w, x);
    const auto w_gradient = std::get<0>(want.second).to_vector();
    findings wrong;
    std::atomic<int> ran = 0;
    on_threads(static_cast<int>(extents[0] * extents[1]), [&](int rank) {
      const auto m = make_mesh<dp, tp>(extents);
      wrong.expect(m.index<dp>() == rank / extents[1] && m.index<tp>() == rank % extents[1], "the rank's indices");
      const auto step = compile(shard_map(m, [](W a, X b) {
        auto [l, g] = value_and_grad(loss)(a, b);
        return std::tuple{l, all_gather<replicated<tp>, 1>(g)};
      }));
      for (int turn = 0; turn < 3; ++turn) {
        const auto got = step(w, x);
        wrong.close(numbers_of(local(std::get<0>(got))), want.first.to_vector(), "the loss");
        wrong.close(numbers_of(local(std::get<1>(got))), w_gradient, "the gradient");
      }
      ++ran;
    });
    CHECK(wrong.all() == "");
    CHECK(ran == extents[0] * extents[1]);
  }
}

TEST_CASE("each collective on threads, for kinds of dtypes") {
  findings wrong;
  for (const int ranks : {2, 3, 8}) {
    on_threads(ranks, [&](int rank) {
      const auto m = make_mesh<dp>({ranks});
      const auto check = [&]<class T>(T) {
        using row = placed<tensor<T, 2>, shard<dp, 0>>;
        const tensor<T, 2> x = cast<T>(reshape(arange<std::int32_t>(ranks * ranks * 2), ranks, ranks * 2) % 13);
        const auto f = [](row a) {
          auto sum = all_reduce<replicated<dp>>(as<partial<dp>>(a));
          auto most = all_reduce<replicated<dp>>(a, combine::max), least = all_reduce<replicated<dp>>(a, combine::min);
          auto next = as<shard<dp, 0>>(permute<dp>(a, shift(1)));
          return std::tuple{sum,
                            most,
                            least,
                            all_gather<replicated<dp>, 0>(a),
                            all_gather<replicated<dp>, 1>(as<varying<dp>>(a)),
                            all_to_all<dp, 1, 0>(a),
                            reduce_scatter<dp, 1>(as<partial<dp>>(a)),
                            next,
                            broadcast<dp>(a, 1)};
        };
        const auto got = compile(shard_map(m, f))(x);
        const auto want = simulate(f, m)(x);
        const auto rows = [&](const tensor<T, 2>& y) { return numbers_of(tensor<T, 2>(slice<0>(y, rank, rank + 1))); };
        const auto columns = [&](const tensor<T, 2>& y) {
          return numbers_of(tensor<T, 2>(slice<1>(y, 2 * rank, 2 * rank + 2)));
        };
        wrong.close(numbers_of(local(std::get<0>(got))), numbers_of(std::get<0>(want)), "a sum");
        wrong.close(numbers_of(local(std::get<1>(got))), numbers_of(std::get<1>(want)), "a maximum");
        wrong.close(numbers_of(local(std::get<2>(got))), numbers_of(std::get<2>(want)), "a minimum");
        wrong.close(numbers_of(local(std::get<3>(got))), numbers_of(std::get<3>(want)), "a gather along 0");
        wrong.close(numbers_of(local(std::get<4>(got))), numbers_of(std::get<4>(want)), "a gather along 1");
        wrong.close(numbers_of(local(std::get<5>(got))), columns(std::get<5>(want)), "all_to_all");
        wrong.close(numbers_of(local(std::get<6>(got))), columns(std::get<6>(want)), "reduce_scatter");
        wrong.close(numbers_of(local(std::get<7>(got))), rows(std::get<7>(want)), "permute");
        wrong.close(numbers_of(local(std::get<8>(got))), numbers_of(std::get<8>(want)), "broadcast");
      };
      check(float{});
      check(std::int32_t{});
      check(bf16{});
    });
  }
  CHECK(wrong.all() == "");
}

TEST_CASE("ranks share programs") {
  // Kernels that new functions of equal graphs want.
  const scratch_folder folder;
  const auto wanted = [&](double factor) {
    const auto before = engine::compile_progress().wanted;
    on_threads(4, [&](int) {
      const auto m = make_mesh<dp>({4});
      using row = placed<tensor<double, 2>, shard<dp, 0>>;
      const auto step = compile(shard_map(m, [=](row a) { return all_reduce<replicated<dp>>(sum(sin(a) * factor)); }),
                                {.cache_dir = folder.path});
      step(some(16, 3));
    });
    return engine::compile_progress().wanted - before;
  };
  CHECK(wanted(0.37) >= 1);
  CHECK(wanted(0.37) == 0);
}

TEST_CASE("a loop that communicates, on threads") {
  findings wrong;
  const auto x = some(4, 3);
  on_threads(2, [&](int rank) {
    const auto m = make_mesh<dp>({2});
    using row = placed<tensor<double, 2>, shard<dp, 0>>;
    const auto step = compile(shard_map(m, [](row a) {
      return fori_loop(
          0, 3, [](auto, row y) { return as<shard<dp, 0>>(permute<dp>(y, shift(1)) * 1.5); }, a);
    }));
    wrong.close(numbers_of(local(step(x))),
                numbers_of(tensor<double, 2>(slice<0>(x, 2 - 2 * rank, 4 - 2 * rank) * 3.375)), "the loop");
  });
  CHECK(wrong.all() == "");
}

TEST_CASE("ranks that do different things all learn of it") {
  std::atomic<int> told = 0;
  const auto run = [&] {
    on_threads(3, [&](int rank) {
      const auto m = make_mesh<dp>({3});
      using part = placed<tensor<double, 1>, varying<dp>>;
      const auto step = compile(shard_map(m, [](part a) { return all_reduce<replicated<dp>>(as<partial<dp>>(a)); }));
      try {
        step(part(tensor<double, 1>(arange<double>(rank == 1 ? 5 : 4))));
      } catch (const system_error& problem) {
        if (std::string(problem.what()).find("do different things") != std::string::npos) ++told;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("all_reduce of 5 f64"), system_error);
  CHECK(told == 3);
}

TEST_CASE("a rank that fails or ends leaves no other waiting") {
  std::atomic<int> alone = 0;
  const auto run = [&](bool throws) {
    alone = 0;
    on_threads(3, [&](int rank) {
      const auto m = make_mesh<dp>({3});
      using part = placed<tensor<double, 1>, varying<dp>>;
      const auto step = compile(shard_map(m, [](part a) { return all_reduce<replicated<dp>>(as<partial<dp>>(a)); }));
      step(part(arange<double>(4)));
      if (rank == 2) {
        if (throws) throw std::runtime_error("this rank is unwell");
        return;
      }
      try {
        step(part(arange<double>(4)));
      } catch (const system_error&) {
        ++alone;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH_AS(run(true), "this rank is unwell", std::runtime_error);
  CHECK(alone == 2);
  CHECK_THROWS_WITH_AS(run(false), doctest::Contains("rank 2 has ended"), system_error);
  CHECK(alone == 2);
}
