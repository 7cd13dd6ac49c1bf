// tests/front/tensor/tensor_test.cpp: handles, views of static shapes, element access, braces, printing, errors.
#include <doctest/doctest.h>

#include <sinter/sinter.hpp>
#include <sstream>
#include <string>

#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace {

/// x with its two axes exchanged, sharing storage.
template <class T>
tensor<T, 2> transposed(const tensor<T, 2>& x) {
  return detail::access::make<T, dims(2)>(detail::access::memory(x), detail::access::data(x), {x.size(1), x.size(0)},
                                          {x.strides()[1], x.strides()[0]});
}

}  // namespace

TEST_CASE("short names are of dtype and rank") {
  static_assert(std::is_same_v<f32_2, tensor<float, 2>> && std::is_same_v<i64_1, tensor<std::int64_t, 1>>);
  static_assert(std::is_same_v<bool_0, tensor<bool, 0>> && std::is_same_v<bf16_4, tensor<bf16, 4>>);
  static_assert(std::is_same_v<f64_3, tensor<double, 3>> && std::is_same_v<u8_1, tensor<std::uint8_t, 1>>);
  const f32_1 x{1, 2};
  CHECK(to_string(x) == "f32(2,) [1, 2]");
}

TEST_CASE("braces give extents and row-major elements") {
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  CHECK(x.shape() == index_array<2>{2, 3});
  CHECK(x.strides() == index_array<2>{3, 1});
  CHECK(x.to_vector() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(x.numel() == 6);
  CHECK(x.is_contiguous());

  const tensor<int, 3> deep{{{1}, {2}}, {{3}, {4}}};
  CHECK(deep.shape() == index_array<3>{2, 2, 1});
  const tensor<bool, 1> flags{true, false};
  CHECK(flags(0));
  CHECK(!flags(1));
  const tensor<double, 2> none{{}, {}};
  CHECK(none.shape() == index_array<2>{2, 0});
  CHECK(none.to_vector().empty());
}

TEST_CASE("ragged braces are a user error") {
  CHECK(contains(error_of([] {
                   tensor<float, 2>{{1, 2}, {3}};
                 }),
                 "[tensor] nested braces are ragged: a list of 1 among lists of 2; give"));
  CHECK(contains(error_of([] { tensor<float, 2>{{}, {3}}; }), "ragged"));
  CHECK(contains(error_of([] {
                   tensor<float, dims{2, 3}>{{1, 2}, {3, 4}};
                 }),
                 "static shape (2, 3) cannot hold extents (2, 2)"));
}

TEST_CASE("rank 0 holds one value") {
  const tensor<float, 0> x = 2.5f;
  CHECK(x.item() == 2.5f);
  CHECK(x() == 2.5f);
  CHECK(x.numel() == 1);
  CHECK(tensor<bool, 0>(true).item());
  CHECK(tensor<f16, 0>(1).item() == 1.0f);
}

TEST_CASE("copies share storage; fill and element access write through every handle") {
  tensor<int, 1> x{1, 2, 3};
  tensor<int, 1> y = x;
  y(1) = 7;
  CHECK(x(1) == 7);
  x.fill(4);
  CHECK(y.to_vector() == std::vector<int>{4, 4, 4});
  CHECK(x.data() == y.data());
}

TEST_CASE("compound assignment rebinds one handle") {
  tensor<int, 1> x{1, 2, 3};
  const tensor<int, 1> y = x;
  x += 1;
  x *= x;
  CHECK(x.to_vector() == std::vector<int>{4, 9, 16});
  CHECK(y.to_vector() == std::vector<int>{1, 2, 3});
  x -= y;
  x <<= 1;
  x %= 5;
  CHECK(x.to_vector() == std::vector<int>{1, 4, 1});
}

TEST_CASE("sizes count from either end") {
  const tensor<float, 3> x = zeros<float>(2, 3, 4);
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 4);
  CHECK(x.size(-3) == 2);
  const std::string text = error_of([&] { (void)x.size(3); });
  CHECK(contains(text, "[size] axis 3 of a tensor of rank 3; axes are 0 to rank - 1"));
  CHECK(contains(text, "tensor_test.cpp:" + std::to_string(__LINE__ - 2)));
}

TEST_CASE("views walk strides and make contiguous copies") {
  const tensor<int, 2> x{{1, 2, 3}, {4, 5, 6}};
  const auto t = transposed(x);
  CHECK(!t.is_contiguous());
  CHECK(t.to_vector() == std::vector<int>{1, 4, 2, 5, 3, 6});
  CHECK(t(2, 1) == 6);
  const auto c = t.contiguous();
  CHECK(c.is_contiguous());
  CHECK(c.to_vector() == t.to_vector());
  CHECK(c.data() != x.data());
  CHECK(x.contiguous().data() == x.data());
  t.fill(9);
  CHECK(x(1, 2) == 9);
  CHECK(transposed(zeros<int>(1, 5)).is_contiguous());
  CHECK(transposed(zeros<int>(0, 5)).is_contiguous());
}

TEST_CASE("static shapes convert both ways, checked at run time where they must be") {
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  const tensor<float, dims{dyn, 2}> narrower = x;
  const tensor<float, dims{2, 2}> exact = narrower;
  const tensor<float, 2> general = exact;
  CHECK(general.data() == x.data());
  const std::string text = error_of([&] { tensor<float, dims{dyn, 3}> wrong = x; });
  CHECK(contains(text, "static shape (dyn, 3) cannot hold extents (2, 2)"));
  CHECK(contains(text, "tensor_test.cpp:"));
  static_assert(std::is_convertible_v<tensor<float, dims{2, 2}>, tensor<float, 2>>);
  static_assert(!std::is_convertible_v<tensor<float, 2>, tensor<float, 1>>);
  static_assert(!std::is_convertible_v<tensor<float, 2>, tensor<double, 2>>);
  static_assert(!std::is_convertible_v<tensor<float, 0>, float>);
  const tensor deduced = x + 1;
  static_assert(std::is_same_v<decltype(deduced), const tensor<float, 2>>);
}

TEST_CASE("where shapes do not fit, a tensor that nothing was assigned to is told") {
  const tensor<float, 2> nothing;
  const auto x = ones<float>(2, 3);
  const auto of = [](auto&& f) { return error_of(f); };
  const std::string hint = "A default-constructed tensor has extents of 0: assign to it first";
  for (const std::string& said :
       {of([&] { (void)(nothing + x).eval(); }), of([&] { (void)where(x > 0.f, nothing, x).eval(); }),
        of([&] { (void)mse_loss(x, nothing); }), of([&] { (void)cross_entropy(x, tensor<std::int64_t, 1>()); })})
    CHECK_MESSAGE(said.find(hint) != std::string::npos, said);
  CHECK(of([&] { (void)(x + ones<float>(3, 2)).eval(); }).find(hint) == std::string::npos);
  CHECK(of([&] { (void)nothing.item(); }).find("[item] the tensor is default-constructed") == 0);
}

TEST_CASE("misuse is a user error that says what happened") {
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  CHECK(contains(error_of([&] { (void)x(0, 2); }), "index (0, 2) is out of range for shape (2, 2); indices are"));
  CHECK(contains(error_of([&] { (void)x(-1, 0); }), "index (-1, 0) is out of range"));
  CHECK(contains(error_of([&] { (void)x.item(); }),
                 "[item] needs one element; the shape is (2, 2); read all with to_vector()"));
  const tensor<float, 1> nothing;
  CHECK(!nothing.defined());
  CHECK(contains(error_of([&] { (void)nothing.data(); }), "default-constructed"));
  CHECK(contains(error_of([&] { (void)(nothing + 1).eval(); }), "default-constructed"));
  CHECK(contains(error_of([&] { (void)nothing.contiguous().to_vector(); }), "default-constructed"));
}

TEST_CASE("reading a traced tensor is a user error") {
  const tensor<float, 1> x{1, 2};
  auto t = std::make_shared<engine::tracer>();
  tensor<float, 1> escaped;
  {
    const engine::tracing_scope scope(t);
    const tensor<float, 1> y = x * 2;
    CHECK(y.is_traced());
    CHECK(y.shape() == index_array<1>{2});
    const std::string text = error_of([&] { (void)y.to_vector(); });
    CHECK(contains(text, "[to_vector] the tensor is being traced"));
    CHECK(contains(text, "tensor_test.cpp:" + std::to_string(__LINE__ - 2)));
    CHECK(contains(error_of([&] { (void)y.data(); }), "being traced"));
    CHECK(contains(error_of([&] { (void)y(0); }), "being traced"));
    CHECK(contains(error_of([&] { y.fill(1); }), "being traced"));
    CHECK(contains(error_of([&] { (void)to_string(y); }), "being traced"));
    escaped = y;
  }
  CHECK(contains(error_of([&] { (void)(escaped + 1).eval(); }), "after its trace ended"));
  CHECK(contains(error_of([&] { (void)evaluate(escaped); }), "after its trace ended"));
  const engine::tracing_scope other(std::make_shared<engine::tracer>());
  CHECK(contains(error_of([&] { (void)(escaped + 1).eval(); }), "another trace"));
}

TEST_CASE("printing") {
  std::ostringstream out;
  out << tensor<float, 2>{{1, 2.5f}, {-3, 4}} << tensor<bool, 1>{true, false} << tensor<int, 0>(7);
  CHECK(out.str() == "f32(2, 2) [[1, 2.5],\n [-3, 4]]bool(2,) [true, false]i32() 7");
  CHECK(to_string(zeros<float>(0)) == "f32(0,) []");
  CHECK(to_string(tensor<std::int8_t, 1>{-1} + 0) == "i8(1,) [-1]");
  CHECK(to_string(tensor<bf16, 1>{1.5f}) == "bf16(1,) [1.5]");
  const std::string text = to_string(arange<int>(2000));
  CHECK(text == "i32(2000,) [0, 1, 2, …, 1997, 1998, 1999]");
  // Without elements an axis may be of any length.
  CHECK(to_string(zeros<int>(std::int64_t{1} << 40, 0)) ==
        "i32(1099511627776, 0) [[],\n [],\n [],\n …,\n [],\n [],\n []]");
  CHECK(to_string(transposed(tensor<int, 2>{{1, 2}})) == "i32(2, 1) [[1],\n [2]]");
  CHECK(to_string(tensor<float, 1>{NAN, -NAN}) == "f32(2,) [nan, nan]");
  std::ostringstream extents;
  extents << zeros<float>(2, 3).shape() << zeros<float>(2, 3).size(1) << flip(zeros<float>(2, 3)).strides();
  CHECK(extents.str() == "(2, 3)3(-3, -1)");
}
