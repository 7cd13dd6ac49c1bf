// tests/front/functions/factories_test.cpp: tensors from extents, ranges and foreign memory, eagerly and traced.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <sinter/sinter.hpp>
#include <string>

#include "../ops_support.hpp"

using namespace sinter;

TEST_CASE_TEMPLATE("zeros, ones and full of every dtype", T, bool, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, f16, bf16, float, double) {
  const auto z = zeros<T>(2, 3);
  static_assert(std::is_same_v<decltype(z), const tensor<T, 2>>);
  CHECK(z.shape() == index_array<2>{2, 3});
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) CHECK(static_cast<float>(z(i, j)) == 0);
  const auto o = ones<T, dims{2}>();
  static_assert(std::is_same_v<decltype(o), const tensor<T, dims{2}>>);
  CHECK(static_cast<float>(o(1)) == 1);
  const auto f = full<T>(T(1), 4);
  CHECK(static_cast<float>(f(3)) == 1);
  CHECK(static_cast<float>(zeros<T>().item()) == 0);
  CHECK(static_cast<float>(ones_like(z)(1, 2)) == 1);
}

TEST_CASE("numbers that the dtype cannot hold are refused with the line") {
  const auto refused = [](const char* words, auto&& f) {
    const std::string said = ops::error_of(f);
    CHECK_MESSAGE(ops::contains(said, words), said);
    CHECK_MESSAGE(ops::contains(said, "factories_test.cpp:"), said);
  };
  refused("[full] the number 300 does not fit u8", [] { full<std::uint8_t>(300, 3); });
  refused("[full] the number -1 does not fit u8", [] { full<std::uint8_t>(-1, 3); });
  refused("[full] the number 2.7 does not fit i32", [] { full<int>(2.7, 2); });
  refused("[full] the number nan does not fit i32", [] { full<int>(std::numeric_limits<double>::quiet_NaN(), 2); });
  refused("[full] the number 9.3e+18 does not fit i64", [] { full<std::int64_t>(9.3e18, 2); });
  refused("[full] the number 2 does not fit bool", [] { full<bool, dims{2}>(2); });
  refused("[full] the number 128 does not fit i8", [] { full<std::int8_t>(128, std::array{1, 2}); });
  refused("[fill] the number 300 does not fit i8", [] { ones<std::int8_t>(3).fill(300); });
  refused("[arange] the number 256 does not fit u8", [] { arange<std::uint8_t>(256); });
  refused("[arange] the number 200 does not fit i8", [] { arange<std::int8_t>(0, 200); });
  refused("[arange] the number -1 does not fit u32", [] { arange<unsigned>(5, 0, -1); });
  refused("[randint] the number 256 does not fit u8", [] { randint<std::uint8_t>(make_key(1), 0, 256, 5); });
  CHECK(full<int>(2.0, 1)(0) == 2);
  CHECK(full<std::uint64_t>(1.8e19, 1)(0) == 18000000000000000000u);
  CHECK(static_cast<float>(full<bf16>(1.5, 1)(0)) == 1.5f);
  CHECK(full<float>(std::numeric_limits<double>::infinity(), 1)(0) == std::numeric_limits<float>::infinity());
}

TEST_CASE("static extents and arrays of extents") {
  const auto x = zeros<float, dims{dyn, 4}>(3, 4);
  static_assert(decltype(x)::static_shape == dims{dyn, 4});
  CHECK(x.shape() == index_array<2>{3, 4});
  const auto wrong = [] { zeros<float, dims{dyn, 4}>(3, 5); };
  CHECK(ops::contains(ops::error_of(wrong), "[zeros] a tensor of static shape (dyn, 4) cannot hold extents (3, 5)"));
  CHECK(ones<int>(index_array<2>{2, 0}).numel() == 0);
  CHECK(full<float, dims{2, 2}>(1.5f)(1, 1) == 1.5f);
  CHECK(full<float>(1.5f).item() == 1.5f);
  CHECK(full_like(x, 7)(2, 3) == 7);
  const tensor<std::uint8_t, 1> bytes{1, 2};
  CHECK(full_like(bytes, 255)(1) == 255);
  const auto message = ops::error_of([&] { (void)full_like(bytes, -1); });
  CHECK_MESSAGE(ops::contains(message, "[full_like] the number -1 does not fit u8; cast x with cast<T>(x)"), message);
  CHECK(zeros_like(x + 1).shape() == x.shape());
  const std::size_t n = 5;
  CHECK(ones<float>(n).numel() == 5);
  // In braces as a list; one number in braces is that number.
  CHECK(zeros<float>({2, 3}).shape() == index_array<2>{2, 3});
  CHECK(ones<double>({2, x.size(0), 1})(1, 2, 0) == 1);
  CHECK(full<int>(7, {2, 3})(1, 2) == 7);
  CHECK(zeros<float>({3}).shape() == index_array<1>{3});
  CHECK(uniform<float>(make_key(1), {2, 3}).to_vector() == uniform<float>(make_key(1), 2, 3).to_vector());
  CHECK(broadcast_to(ones<float>(3), zeros<float>(2, 3).shape()).shape() == index_array<2>{2, 3});
}

TEST_CASE("extents that cannot be are user errors with a place") {
  const std::string text = ops::error_of([] { zeros<float>(3, -1); });
  CHECK(ops::contains(text, "[zeros] extents must not be negative"));
  CHECK(ops::contains(text, "factories_test.cpp:" + std::to_string(__LINE__ - 2)));
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK(ops::contains(ops::error_of([&] { zeros<float>(big, big); }), "too many elements"));
  CHECK(ops::contains(ops::error_of([&] { full<float>(1, -2); }), "[full] extents must not be negative"));
  CHECK(ops::contains(ops::error_of([&] { zeros<float>(big, 0, big); }), "too many elements"));
  CHECK(zeros<float>(big, 0, 3).numel() == 0);
  const auto least = std::numeric_limits<std::int64_t>::min();
  const std::string of_least = "extents must not be negative; one is -9223372036854775808; give extents of 0 or more";
  const auto refused = [&] {
    CHECK(ops::contains(ops::error_of([] { zeros<float>(3, -1); }), "[zeros] extents must not be negative; one is -1"));
    CHECK(ops::contains(ops::error_of([&] { zeros<float>(least); }), "[zeros] " + of_least));
    CHECK(ops::contains(ops::error_of([&] { zeros<float>(2, least); }), "[zeros] " + of_least));
    CHECK(ops::contains(ops::error_of([&] { zeros<float>(std::array{least + 1, least}); }), "-9223372036854775807"));
    CHECK(ops::contains(ops::error_of([&] { eye<float>(least); }), "[eye] " + of_least));
    CHECK(ops::contains(ops::error_of([&] { linspace<float>(0, 1, least); }), "[linspace] " + of_least));
    CHECK(ops::contains(ops::error_of([&] { reshape(zeros<float>(4), 2, least); }), "[reshape] an extent is negative"));
    CHECK(ops::contains(ops::error_of([&] { broadcast_to(zeros<float>(1), least); }),
                        "[broadcast_to] an extent is negative"));
  };
  refused();
  const engine::tracing_scope scope(std::make_shared<engine::tracer>());
  refused();
}

TEST_CASE("arange") {
  CHECK(arange<int>(4).to_vector() == std::vector<int>{0, 1, 2, 3});
  CHECK(arange<int>(2, 9, 3).to_vector() == std::vector<int>{2, 5, 8});
  CHECK(arange<int>(5, 0, -2).to_vector() == std::vector<int>{5, 3, 1});
  CHECK(arange<int>(3, 3).numel() == 0);
  CHECK(arange<int>(3, 5, -1).numel() == 0);
  CHECK(arange<float>(0, 1, 0.25f).to_vector() == std::vector<float>{0, 0.25f, 0.5f, 0.75f});
  CHECK(arange<double>(-1.5).numel() == 0);
  CHECK(arange<f16>(3).to_vector()[2] == 2.0f);
  using limits = std::numeric_limits<std::int64_t>;
  CHECK(arange<std::int64_t>(limits::max() - 2, limits::max()).to_vector() ==
        std::vector<std::int64_t>{limits::max() - 2, limits::max() - 1});
  CHECK(arange<std::int64_t>(limits::min(), limits::max(), limits::max()).numel() == 3);
  CHECK(arange<std::uint8_t>(250, 255, 2).to_vector() == std::vector<std::uint8_t>{250, 252, 254});
  CHECK(ops::contains(ops::error_of([] { arange<int>(0, 5, 0); }), "[arange] needs a step that is not 0"));
  CHECK(ops::contains(ops::error_of([] { arange<float>(0, 5, 0); }), "[arange]"));
  CHECK(ops::contains(ops::error_of([] { arange<double>(0, std::numeric_limits<double>::infinity()); }),
                      "[arange] needs finite bounds"));
  CHECK(ops::contains(ops::error_of([] { arange<float>(0, 5, 0); }), "[arange] needs finite bounds and a step that"));
  CHECK(ops::contains(ops::error_of([] { arange<double>(0, 1e300); }), "[arange] too many elements"));
  CHECK(ops::contains(ops::error_of([] { arange<double>(-1e308, 1e308); }), "[arange] too many elements"));
  CHECK(arange<double>(1e300, 0).numel() == 0);
}

TEST_CASE("arange of an extent has as many elements as that, wrapped to the dtype") {
  const auto i = arange<std::int8_t>(zeros<bool>(300).size(0));
  CHECK(i.numel() == 300);
  CHECK(int(i(127)) == 127);
  CHECK(int(i(128)) == -128);
}

TEST_CASE("linspace ends where it should") {
  const auto x = linspace<float>(-1, 1, 5);
  CHECK(x.to_vector() == std::vector<float>{-1, -0.5f, 0, 0.5f, 1});
  CHECK(linspace<double>(0, 0.3, 4)(3) == 0.3);
  CHECK(linspace<double>(2, 5, 1).to_vector() == std::vector<double>{2});
  CHECK(linspace<double>(2, 5, 0).numel() == 0);
  CHECK(ops::contains(ops::error_of([] { linspace<double>(0, 1, -1); }), "[linspace] extents must not be negative"));
}

TEST_CASE("factories of extents that the compiler knows keep them") {
  const auto same = [](const auto& known, const auto& asked) {
    CHECK(known.shape() == asked.shape());
    CHECK(known.to_vector() == asked.to_vector());
    return std::remove_cvref_t<decltype(known)>::static_shape;
  };
  CHECK(same(arange<int, dims{5}>(), arange<int>(5)) == dims{5});
  CHECK(same(arange<std::int8_t, dims{200}>(), arange<std::int8_t>(dim(200))) == dims{200});
  CHECK(same(linspace<double, dims{7}>(-1, 2), linspace<double>(-1, 2, 7)) == dims{7});
  CHECK(same(eye<float, dims{2, 3}>(), eye<float>(2, 3)) == dims{2, 3});
  CHECK(same(eye<bool, dims{0, 3}>(), eye<bool>(0, 3)) == dims{0, 3});
  const tensor<std::int64_t, dims{3}> labels{2, 0, 3};
  CHECK(same(evaluate(one_hot<float, 3>(labels)), evaluate(one_hot(labels, 3))) == dims{3, 3});
  const auto traced = compile([](tensor<float, dims{4, 2}> x) {
    const auto r = matmul(eye<float, dims{3, 4}>(), x) + expand_dims<1>(arange<float, dims{3}>());
    static_assert(decltype(r)::static_shape == dims{3, 2});
    return tensor<float, dims{3, 2}>(r);
  });
  CHECK(traced(ones<float, dims{4, 2}>()).to_vector() == std::vector<float>{1, 1, 2, 2, 3, 3});
}

TEST_CASE("eye") {
  CHECK(eye<int>(2).to_vector() == std::vector<int>{1, 0, 0, 1});
  CHECK(eye<float>(2, 3).to_vector() == std::vector<float>{1, 0, 0, 0, 1, 0});
  CHECK(eye<bool>(1).item());
  CHECK(eye<double>(0, 3).shape() == index_array<2>{0, 3});
}

TEST_CASE("from_span copies") {
  std::vector<float> v{1, 2, 3, 4};
  const auto x = from_span(v, 2, 2);
  v[0] = 9;
  CHECK(x(0, 0) == 1);
  CHECK(from_span(v).shape() == index_array<1>{4});
  const int raw[] = {1, 2, 3};
  CHECK(from_span(raw, 3, 1).to_vector() == std::vector<int>{1, 2, 3});
  CHECK(from_span(std::vector<double>{}).numel() == 0);
  CHECK(from_span(v, index_array<2>{4, 1}).shape() == index_array<2>{4, 1});
  const tensor<bool, 2> flags{{true, false}, {false, true}};
  CHECK(from_span(flags.to_vector(), 2, 2).to_vector() == flags.to_vector());
  CHECK(from_span(std::vector<bool>{true, false, true})(2));
  const std::string text = ops::error_of([&] { from_span(v, 2, 3); });
  CHECK(ops::contains(text, "[from_span] 4 elements do not fill shape (2, 3)"));
}

TEST_CASE("from_span infers one extent") {
  const std::vector<std::int64_t> v{1, 2, 3, 4, 5, 6};
  CHECK(from_span(v, 1, -1).shape() == index_array<2>{1, 6});
  CHECK(from_span(v, -1).shape() == index_array<1>{6});
  CHECK(from_span(v, -1, 2, device::cpu()).shape() == index_array<2>{3, 2});
  CHECK(from_span(v, std::array{3, -1}).to_vector() == v);
  CHECK(from_span(std::vector<float>{}, -1, 3).shape() == index_array<2>{0, 3});
  const std::vector<bool> flags{true, false, true, true};
  const tensor<bool, 2> b = from_span(flags, -1, 2);
  CHECK(b.to_vector() == flags);
  CHECK(from_span(flags, index_array<2>{2, -1}).shape() == index_array<2>{2, 2});
  CHECK(from_span(flags, device::cpu()).numel() == 4);
  const auto says = [](const char* what, const auto& f) {
    const std::string text = ops::error_of(f);
    CHECK_MESSAGE(ops::contains(text, what), text);
    CHECK(ops::contains(text, "factories_test.cpp:"));
  };
  says("[from_span] 6 elements do not fill shape (4, -1): no extent fits in place of -1", [&] { from_span(v, 4, -1); });
  says("[from_span] 6 elements do not fill shape (-1, -1): more than one extent is -1", [&] { from_span(v, -1, -1); });
  says("[from_span] 6 elements do not fill shape (0, -1)", [&] { from_span(v, 0, -1); });
  says("[from_span] 6 elements do not fill shape (-1, -2): an extent is negative", [&] { from_span(v, -1, -2); });
  says("[from_span] extents must not be negative; one is -2", [&] { from_span(v, -2, -3); });
  says("[from_span] 4 elements do not fill shape (3, 1)", [&] { from_span(flags, 3, 1); });
}

TEST_CASE("from_external shares memory and releases it once") {
  int released = 0;
  float memory[] = {1, 2, 3, 4, 5, 6};
  {
    const auto x = from_external(memory, {2, 3}, [&released](float*) { ++released; });
    CHECK(x.data() == memory);
    memory[4] = 50;
    CHECK(x(1, 1) == 50);
    const tensor<float, dims{2, 3}> y = x;
    const auto lazy = y + 1;
    CHECK(released == 0);
    CHECK(lazy.to_vector()[4] == 51);
  }
  CHECK(released == 1);
  float* none = nullptr;
  CHECK(ops::contains(ops::error_of([&] { from_external(none, {2}, [&](float*) { ++released; }); }),
                      "the pointer is null"));
  CHECK(ops::contains(ops::error_of([&] { from_external(memory, {-2}, [&](float*) { ++released; }); }), "negative"));
  CHECK(released == 1);
  const auto arrays = from_external(memory, std::array<std::int64_t, 2>{3, 2}, [&released](float*) { ++released; });
  CHECK(arrays(2, 0) == 50);
  CHECK(reshape(arrays, std::array{2, -1})(1, 1) == 50);
}

TEST_CASE("from_external takes no element from nowhere") {
  int released = 0;
  {
    float* none = nullptr;
    const auto x = from_external(none, {0, 1}, [&released](float* p) { released += p == nullptr; });
    const auto f = [](const tensor<float, 2>& t) { return sum(sin(concat<0>(t, t))) + 1.f; };
    CHECK(x.to_vector().empty());
    CHECK(x.data() == nullptr);
    CHECK(f(x).item() == 1);
    CHECK(compile(f)(x).item() == 1);
    CHECK(compile(f, {.backend = "reference"})(x).item() == 1);
    CHECK(compile(grad(f))(x).shape() == x.shape());
  }
  CHECK(released == 1);
}

TEST_CASE("a tensor that no memory holds is an error that names the line") {
  std::string text;
  const int line = __LINE__ + 2;
  try {
    (void)zeros<float>(std::int64_t{1} << 45);
  } catch (const system_error& e) {
    text = e.what();
  }
  CHECK_MESSAGE(ops::contains(text, "[zeros] (35184372088832,): out of memory: a tensor of 140737488355328 bytes"),
                text);
  CHECK_MESSAGE(ops::contains(text, "factories_test.cpp:" + std::to_string(line) + ")"), text);
}

TEST_CASE("what is too large to copy is an error that names the op and the line") {
  try {
    broadcast_to(ones<float>(1), std::int64_t{1} << 61).to_vector();
    FAIL_CHECK("there was memory");
  } catch (const system_error& problem) {
    CHECK(
        ops::contains(problem.what(), "[to_vector] (2305843009213693952,): out of memory: 9223372036854775808 bytes"));
    CHECK(ops::contains(problem.what(), "factories_test.cpp:"));
  }
  const auto name_op = [](const char* op, auto&& make) {
    std::string text;
    try {
      (void)make();
    } catch (const std::exception& e) {
      text = e.what();
    }
    CHECK_MESSAGE((ops::contains(text, op) && ops::contains(text, "factories_test.cpp:")), text);
  };
  const tensor<double, 1> one{1};
  // The bytes of the first wrap around to 0.
  name_op("[contiguous] too many elements: (2305843009213693952,)",
          [&] { return broadcast_to(one, std::int64_t{1} << 61).contiguous(); });
  const auto much = broadcast_to(one, std::int64_t{1} << 50);
  name_op("[contiguous] (1125899906842624,): out of memory", [&] { return much.contiguous(); });
  name_op("[concat] (2251799813685248,): out of memory", [&] { return concat(much, much); });
  name_op("[cumsum] (1125899906842624,): out of memory", [&] { return cumsum(much); });
  // What is made of other ops goes by its own name.
  const auto far = broadcast_to(tensor<std::int64_t, 1>{0}, std::int64_t{1} << 50);
  name_op("[take] (1125899906842624,): out of memory", [&] { return take(one, far); });
  name_op("[take_along_axis] (1125899906842624,): out of memory", [&] { return take_along_axis(much, far); });
  name_op("[scatter_add] (1125899906842624,): out of memory", [&] { return scatter_add(much, far, much); });
  name_op("[tile] (1125899906842624, 2, 2): out of memory", [&] {
    return tile(tensor<double, 1>{1, 2}, {std::int64_t{1} << 50, 2});
  });
  name_op("[einsum] (1125899906842624, 2): out of memory", [&] {
    return einsum<"i,j->ij">(much, tensor<double, 1>{1, 2});
  });
  name_op("[arange] (1125899906842624,): out of memory", [&] { return arange<double>(0x1p50); });
  name_op("[linspace] (1125899906842624,): out of memory",
          [&] { return linspace<double>(0, 1, std::int64_t{1} << 50); });
  name_op("[eye] (1125899906842624, 1): out of memory", [&] { return eye<double>(std::int64_t{1} << 50, 1); });
  name_op("[uniform] (1125899906842624,): out of memory",
          [&] { return uniform<double>(make_key(1), std::int64_t{1} << 50); });
}

TEST_CASE("while tracing, factories push nodes that mean the same") {
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  const auto f = [](const auto& v) {
    return v * eye<float>(2) + zeros<float>(2, 2) + ones<float>(2) * full<float>(0.5f, 1) + arange<float>(0, 4, 2) +
           linspace<float>(0, 1, 2) + tensor<float, 0>(3) +
           cast<float>(detail::index_leaf<std::int64_t, dims(2)>({2, 2}, -1));
  };
  const auto want = ops::make({2, 2}, [&](const ops::coord& c) {
    const auto column = static_cast<double>(c[1]);
    return (c[0] == c[1] ? x(c[0], c[1]) : 0) + 0.5 + 2 * column + column + 3 + static_cast<double>(2 * c[0] + c[1]);
  });
  ops::check_both(want, 1e-6, f, x);
}
