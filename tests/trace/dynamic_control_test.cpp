// Branches, loops and functions of the user with open sizes, on the host.
#include <string>
#include <utility>
#include <vector>

#include "../close.hpp"
#include "../front/control/control_programs.hpp"

using namespace control_programs;

TEST_CASE("branches and loops keep extents open") { check_all(device::cpu()); }

TEST_CASE("a batch or a sequence that changes its length needs one more specialisation") {
  const auto fn = value_and_grad([](matrix w, tensor<float, 3> xs) {
    const auto [last, all] = scan(
        [&](matrix h, matrix x) {
          const matrix next = tanh(matmul(h, w) + x);
          return std::pair{next, sum(next)};
        },
        zeros<float>(xs.size(1), xs.size(2)), xs);
    return sum(last) + mean(all);
  });
  const auto step = compile(fn);
  const matrix w = normal<float>(make_key(1), 4, 4) * 0.3f;
  std::size_t expected[] = {1, 2, 3, 3, 3}, k = 0;
  for (const auto& [length, batch] : {std::pair{5, 3}, {9, 3}, {9, 8}, {2, 7}, {100, 17}}) {
    const tensor<float, 3> xs = normal<float>(make_key(length), length, batch, 4);
    const auto [loss, g] = step(w, xs);
    const auto [want, want_g] = compile(fn, {.dynamic = dynamic::no})(w, xs);
    CHECK(loss.item() == doctest::Approx(want.item()).epsilon(1e-4));
    for (int i = 0; i < 4; ++i) CHECK(g(i, i) == doctest::Approx(want_g(i, i)).epsilon(1e-3));
    CHECK(step.specialisations() == expected[k++]);
  }
}

TEST_CASE("a loop over an open range may have no turns") {
  const auto fn = [](vec x) {
    return fori_loop(
        2, x.size(0), [](count, vec v) { return vec(v * 2.f); }, x);
  };
  const auto f = compile(fn, {.dynamic = dynamic::yes});
  for (const int n : {5, 2, 3, 9}) {
    const vec x = full<float>(1.f, n);
    CHECK(f(x).to_vector() == std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(1 << (n - 2))));
  }
}

TEST_CASE("large slices at odd addresses are stored as they lie") {
  const auto fn = [](matrix x) {
    return scan(
               [](scalar h, vec row) {
                 return std::pair{h, cond(
                                         h > 0.f, [&] { return vec(row * 2.f); }, [&] { return vec(row * 3.f); })};
               },
               scalar(1.f), x)
        .second;
  };
  const matrix x = full<float>(1.f, 2, 4'500'001);
  for (const dynamic how : {dynamic::no, dynamic::yes})
    CHECK(compile(fn, {.dynamic = how})(x).to_vector() == std::vector<float>(2 * 4'500'001, 2.f));
}

TEST_CASE("functions of the user keep extents open, unless their rule for shapes wants numbers") {
  const auto body = [](elements<const float, 2> x, elements<float, 2> y) {
    for (std::int64_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i];
  };
  const auto back = [](auto, auto, auto ct) { return matrix(ct * 2.f); };
  const auto twice = custom_op<"twice">(
      body, none, [](const index_array<2>& x) { return result_of<float, 2>{x}; }, back);
  check_one("custom_op", device::cpu(), [=](matrix x) { return matrix(twice(x * x) + x); });
  check_one("its derivative", device::cpu(),
            [=](matrix x) { return grad([&](matrix y) { return sum(twice(y * y) * y); })(x); });
  const auto rigid = custom_op<"rigid">(
      body, none,
      [](const index_array<2>& x) {
        const std::int64_t n = x[0];
        return result_of<float, 2>{{n, x[1]}};
      },
      back);
  const auto f = compile([=](matrix x) { return matrix(rigid(x)); }, {.dynamic = dynamic::yes});
  for (const auto& [n, m] : {std::pair{3, 4}, {3, 9}, {5, 9}})
    CHECK(f(full<float>(1.f, n, m)).to_vector() == std::vector<float>(static_cast<std::size_t>(n * m), 2.f));
  CHECK(f.specialisations() == 2);
  std::vector<std::int64_t> seen;
  const auto told = compile(
      [&seen](vec x) {
        host_call([&seen](vec y) { seen.push_back(y.numel()); }, x);
        return vec(x + 1.f);
      },
      {.dynamic = dynamic::yes});
  for (const int n : {3, 7, 20}) (void)told(full<float>(0.f, n));
  CHECK(seen == std::vector<std::int64_t>{3, 7, 20});
  CHECK(told.specialisations() == 1);
}

TEST_CASE("the interpreter follows sizes into branches and loops") {
  const auto fn = [](matrix x) { return grad([](matrix y) { return sum(recurrent(y).second); })(x); };
  const auto f = compile(fn, {.dynamic = dynamic::yes, .backend = "reference"});
  const auto g = compile(fn, {.dynamic = dynamic::no});
  for (const auto& [n, m] : {std::pair{3, 4}, {5, 2}}) {
    const matrix x = normal<float>(make_key(n), n, m);
    check_close(f(x).to_vector(), g(x).to_vector(), 1e-4);
  }
  CHECK(f.specialisations() == 1);
}
