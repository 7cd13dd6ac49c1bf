// Trees as vectors: sums, products, norms, dtypes, leaves side by side; eagerly, compiled, on the reference, under grad.
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"
#include "arithmetic_programs.hpp"

using namespace sinter;
using namespace tree_arithmetic;
using texts::error_of;
using vec = tensor<float, 1>;

namespace {

const auto program = [](const auto& x, const auto& y, const auto& a) { return everything(x, y, a); };

vec some(std::uint64_t key, std::int64_t n = 3) { return normal<float>(make_key(key), n); }

}  // namespace

TEST_CASE("sums, products and norms of trees, outside of compile()") {
  check_everything<float>(program, {}, 1e-6);
  check_everything<double>(program, {}, 1e-6);
  check_everything<bf16>(program, {}, 5e-3);
  check_everything<f16>(program, {}, 1e-3);
}

TEST_CASE("the same compiled, as one graph, on every backend") {
  for (const char* backend : {"cpu", "reference"}) {
    const options how{.fullgraph = true, .backend = backend};
    check_everything<float>(compile(program, how), {}, 1e-6);
    check_everything<double>(compile(program, how), {}, 1e-6);
    check_everything<bf16>(compile(program, how), {}, 5e-3);
    check_everything<f16>(compile(program, how), {}, 1e-3);
  }
}

TEST_CASE("sizes are open: one specialisation for trees of many extents") {
  const auto f = compile(program, {.dynamic = dynamic::yes});
  check_everything<float>(f, {}, 1e-6);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("derivatives: a clipped step, eagerly and compiled, against its formula") {
  const params<float> p = random_params<float>(1, 6);
  const auto u = elements_of(p);
  const double length = std::sqrt(dot(u, u)), slope = 1 / length + 3, norm = slope * length;
  const auto check = [&](const auto& step) {
    const auto [next, n] = step(p, 2.f);
    check_close(std::vector{double(n.item())}, std::vector{norm}, 1e-5);
    check_close(elements_of(next), axpy(-0.1 * 2 / norm * slope, u, u), 1e-5);
  };
  const auto step = [](const params<float>& p, float limit) { return clipped_step(p, limit); };
  check([](const params<float>& p, float limit) { return clipped_step(p, limit); });
  for (const char* backend : {"cpu", "reference"}) check(compile(step, {.fullgraph = true, .backend = backend}));
  const auto of_factor = [](const tensor<float, 0>& a, const params<bf16>& x) {
    return cast<float>(tree_dot(tree_scale(a, x), x));
  };
  const params<bf16> x = random_params<bf16>(1, 4);
  const auto v = elements_of(x);
  check_close(std::vector{double(compile(grad(of_factor))(tensor<float, 0>(0.5f), x).item())}, std::vector{dot(v, v)},
              1e-4);
  // At 0 the norm's derivative is 0.
  CHECK(grad([](const vec& x) { return tree_norm(x); })(zeros<float>(3)).to_vector() == std::vector<float>{0, 0, 0});
}

TEST_CASE("dtypes of sums: f32 where all is narrow, f64 where a leaf is; factors are not rounded to halves") {
  const auto half = cast<bf16>(some(1, 2000));
  static_assert(std::is_same_v<decltype(tree_norm(half)), tensor<float, 0>>);
  static_assert(std::is_same_v<decltype(tree_norm(std::tuple{half, cast<double>(half)})), tensor<double, 0>>);
  static_assert(std::is_same_v<decltype(tree_dot(half, some(1))), tensor<float, 0>>);
  const tensor<bf16, 1> ones_of = ones<bf16>(1000);
  CHECK(tree_dot(ones_of, ones_of).item() == 1000);  // bf16 counts to 256
  const tensor<bf16, 1> y = full<bf16>(bf16(3.f), 4), x = full<bf16>(bf16(256.f), 4);
  const float a = 1.00390625f;  // 1 + 2^-8 is 1 in bf16
  CHECK(static_cast<float>(tree_axpy(a, x, y)(0)) == 260);
  CHECK(static_cast<float>(tree_axpy(tensor<float, 0>(a), x, y)(3)) == 260);
  // y's dtype is the result's.
  static_assert(std::is_same_v<decltype(tree_axpy(2, x, some(1, 4))), vec>);
  static_assert(std::is_same_v<decltype(tree_axpy(2, some(1, 4), x)), tensor<bf16, 1>>);
}

TEST_CASE("integers are added, and multiplied by integers alone; bools and numbers stay") {
  using counts = tensor<std::int64_t, 1>;
  const counts n{1, 2}, m{10, 20};
  const tensor<bool, 1> yes{true, false}, no{false, true};
  const std::tuple x{n, yes, some(1), 7}, y{m, no, some(2), 8};
  const auto sum = tree_add(x, y);
  CHECK(std::get<0>(sum).to_vector() == std::vector<std::int64_t>{11, 22});
  CHECK(std::get<1>(sum).to_vector() == yes.to_vector());
  CHECK(std::get<3>(sum) == 7);
  CHECK(std::get<0>(tree_scale(3, x)).to_vector() == std::vector<std::int64_t>{3, 6});
  CHECK(std::get<0>(tree_scale(0.5f, x)).to_vector() == std::vector<std::int64_t>{1, 2});
  CHECK(std::get<0>(tree_axpy(0.5f, x, y)).to_vector() == std::vector<std::int64_t>{10, 20});
  CHECK(std::get<0>(tree_axpy(2, x, y)).to_vector() == std::vector<std::int64_t>{12, 24});
  CHECK(std::get<1>(tree_axpy(2, x, y)).to_vector() == no.to_vector());
  CHECK(std::get<0>(tree_zeros_like(x)).to_vector() == std::vector<std::int64_t>{0, 0});
  CHECK(std::get<3>(tree_zeros_like(x)) == 7);
  CHECK(tree_norm(x).item() == doctest::Approx(norm(some(1)).item()));
  CHECK(tree_dot(x, y).item() == doctest::Approx(tree_dot(some(1), some(2)).item()));
}

TEST_CASE("tree_all: of a function, of elements, of nothing") {
  const std::tuple x{some(1), tensor<float, 2>{{1.f, 2.f}}, 3};
  const auto finite = [](const auto& v) { return isfinite(v); };
  CHECK(tree_all(finite, x).item());
  CHECK(!tree_all(finite, std::tuple{some(1), some(2) / 0.f}).item());
  CHECK(tree_all([](const auto& v) { return v.rank > 0; }, x).item());
  CHECK(!tree_all([](const auto& v) { return v.rank > 1; }, x).item());
  CHECK(tree_all(std::pair{tensor<bool, 1>{true, true}, tensor<bool, 0>(true)}).item());
  CHECK(!tree_all(std::pair{tensor<bool, 1>{true, false}, tensor<bool, 0>(true)}).item());
  CHECK(tree_all(std::vector<vec>{}).item());
  CHECK(tree_all([](const auto& a, const auto& b, const auto& c) { return a + b > c; }, some(1), 2.f - some(1),
                 full<float>(1.9f, 3))
            .item());
  const auto f = compile([&](const std::vector<vec>& g) { return tree_all(finite, g); });
  CHECK(f(std::vector{some(1), some(2)}).item());
  CHECK(!f(std::vector{some(1), vec(log(-abs(some(2))))}).item());
  CHECK(f(std::vector<vec>{}).item());
  CHECK(tree_all([](int v) { return v > 1; }, std::array{2, 3}).item());
}

TEST_CASE("tree_zip lists leaves side by side") {
  const std::vector<vec> a{some(1), some(2)}, b{some(3), some(4)};
  int seen = 0;
  for (const auto& [x, y] : tree_zip(a, b)) CHECK(x(0) == a[static_cast<std::size_t>(seen++)](0));
  CHECK(seen == 2);
  const std::array<vec, 2> c{some(5), some(6)};
  const auto fixed = tree_zip(c, std::array{cast<double>(c[0]), cast<double>(c[1])}, c);
  static_assert(std::is_same_v<decltype(fixed), const std::array<std::tuple<vec, tensor<double, 1>, vec>, 2>>);
  CHECK(std::get<1>(fixed[1])(2) == c[1](2));
  const auto mixed = tree_zip(std::tuple{some(1), matrix<float>(2, 3)}, std::tuple{some(3), matrix<float>(4, 3)});
  static_assert(std::is_same_v<std::tuple_element_t<1, std::remove_const_t<decltype(mixed)>>,
                               std::tuple<tensor<float, 2>, tensor<float, 2>>>);
  CHECK(std::get<1>(std::get<0>(mixed))(0) == some(3)(0));
  const auto text = error_of([&] { tree_zip(a, std::vector<vec>{some(1)}); });
  CHECK_MESSAGE(text.find("[tree_zip] the trees differ: the first has a std::vector of length 2") == 0, text);
  CHECK(text.find("arithmetic_test.cpp:") != std::string::npos);
}

TEST_CASE("trees that do not fit are errors that name the function and the line") {
  const auto fails = [](int line, const char* what, auto&& call) {
    const auto text = error_of(call);
    CHECK_MESSAGE(text.find(what) == 0, text);
    CHECK_MESSAGE(text.find("arithmetic_test.cpp:" + std::to_string(line) + ")") != std::string::npos, text);
  };
  const std::tuple x{some(1)}, y{some(2, 1)};
  fails(__LINE__, "[tree_add] a leaf is (3,) in one tree and (1,) in another", [&] { tree_add(x, y); });
  fails(__LINE__, "[tree_sub] a leaf is", [&] { tree_sub(x, y); });
  fails(__LINE__, "[tree_axpy] a leaf is", [&] { tree_axpy(2.f, x, y); });
  fails(__LINE__, "[tree_dot] a leaf is", [&] { tree_dot(x, y); });
  const std::vector<vec> one{some(1)}, two{some(1), some(2)};
  fails(__LINE__, "[tree_dot] the trees differ", [&] { tree_dot(one, two); });
  fails(__LINE__, "[tree_add] the trees differ", [&] { tree_add(one, two); });
  fails(__LINE__, "[tree_all] the trees differ", [&] { tree_all([](auto a, auto b) { return a < b; }, one, two); });
}
