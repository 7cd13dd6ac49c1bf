#include <array>
#include <bit>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

using namespace sinter;

namespace {

const device gpu = device::cuda(0);
const options tf32{.precision = precision::high};

/// Whole numbers that tf32 holds exactly, whose sums f32 holds.
template <class... Extents>
auto whole(std::uint64_t seed, Extents... extents) {
  return evaluate(cast<float>(randint<std::int64_t>(make_key(seed), -8, 9, extents...)));
}

/// The magnitudes of fn, which multiplies matrices of whole numbers, in one kernel on a GPU with tf32: exactly what the host
/// computes. No library takes magnitudes.
template <class F, class... Args>
void check_whole(const std::string& name, F fn, const Args&... args) {
  CAPTURE(name);
  const auto size = [fn](auto... args) { return abs(fn(args...)).eval(); };
  const auto f = compile(size, tf32);
  const auto got = f(args.to(gpu)...).to(device::cpu()).to_vector();
  CHECK(got == size(args...).to_vector());
  CHECK(f.report().kernels == 1);
  CHECK(f.report().sources.size() == 1);
}

}  // namespace

TEST_CASE("small products rounded to tf32 are kernels of their own, whatever their extents and strides") {
  const auto product = [](auto a, auto b) { return matmul(a, b); };
  const std::int64_t extents[][3] = {{64, 32, 64},   {65, 33, 70},  {8, 1, 8},     {100, 64, 10},
                                     {130, 10, 48},  {17, 60, 9},   {12, 5, 16},   {100, 7, 65},
                                     {128, 36, 128}, {33, 40, 200}, {64, 512, 66}, {40, 1000, 16}};
  for (const auto& [m, k, n] : extents) {
    const std::string name = std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n);
    check_whole(name, product, whole(1, m, k), whole(2, k, n));
    check_whole(
        name + ", a turned", [](auto a, auto b) { return matmul(transpose(a), b); }, whole(1, k, m), whole(2, k, n));
    check_whole(
        name + ", b turned", [](auto a, auto b) { return matmul(a, transpose(b)); }, whole(1, m, k), whole(2, n, k));
    check_whole(
        name + ", both turned", [](auto a, auto b) { return matmul(transpose(a), transpose(b)); }, whole(1, k, m),
        whole(2, n, k));
  }
  check_whole("batches", product, whole(91, 3, 40, 24), whole(92, 3, 24, 33));
  check_whole("one matrix for all", product, whole(93, 3, 40, 24), whole(94, 24, 20));
  check_whole("no terms", product, whole(95, 20, 0), whole(96, 0, 20));
  check_whole(
      "slices", [](auto a, auto b) { return matmul(slice<1>(a, 1, 30), slice<0>(b, 3, 61, 2)); }, whole(97, 40, 36),
      whole(98, 64, 20));
  check_whole(
      "einsum", [](auto a, auto b) { return einsum<"ijkl,lkm->ijm">(a, b); }, whole(99, 4, 9, 6, 8),
      whole(100, 8, 6, 24));
}

TEST_CASE("small products of many terms are the library's, unless they are narrow") {
  const auto masked = [](auto a, auto b, auto c) { return where(c > 0.f, matmul(a, b), 0.f); };
  const auto product = [](auto a, auto b) { return matmul(a, b); };
  for (const std::int64_t n : {16, 17, 64})
    for (const std::int64_t k : {512, 513, 1024, 1025}) {
      CAPTURE(n);
      CAPTURE(k);
      const auto a = whole(1, 40, k), b = whole(2, k, n), c = whole(3, 40, n);
      const auto f = compile(masked, tf32);
      CHECK(f(a.to(gpu), b.to(gpu), c.to(gpu)).to(device::cpu()).to_vector() == evaluate(masked(a, b, c)).to_vector());
      CHECK(f.report().kernels == (k <= (n == 16 ? 1024 : 512) ? 1 : 2));
      const auto alone = compile(product, tf32);
      CHECK(alone(a.to(gpu), b.to(gpu)).to(device::cpu()).to_vector() == product(a, b).to_vector());
      CHECK(alone.report().sources.size() == (n == 16 && k <= 1024 ? 1 : 0));
    }
}

TEST_CASE("products that the library cannot do go through several stages of shared memory") {
  const std::int64_t extents[][3] = {{64, 784, 64}, {65, 100, 33}, {17, 1024, 9},
                                     {130, 96, 48}, {40, 200, 12}, {640, 72, 512}};
  for (const auto& e : extents) {
    const std::int64_t m = e[0], k = e[1], n = e[2];
    const std::string name = std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n);
    check_whole(
        name + ", every second of a", [k](auto a, auto b) { return matmul(slice<1>(a, 0, 2 * k, 2), b); },
        whole(1, m, 2 * k), whole(2, k, n));
    check_whole(
        name + ", of b", [n](auto a, auto b) { return matmul(a, slice<1>(b, 0, 2 * n, 2)); }, whole(1, m, k),
        whole(2, k, 2 * n));
    check_whole(
        name + ", of b, a turned", [n](auto a, auto b) { return matmul(transpose(a), slice<1>(b, 0, 2 * n, 2)); },
        whole(1, k, m), whole(2, k, 2 * n));
  }
}

TEST_CASE("what follows a small product is done in its kernel") {
  const auto a = whole(1, 70, 36), b = whole(2, 36, 44), c = whole(3, 70, 44);
  const auto bias = whole(4, 44);
  const auto rows = whole(5, 70, 1);
  check_whole(
      "bias", [](auto a, auto b, auto c) { return matmul(a, b) + c; }, a, b, bias);
  check_whole(
      "a column", [](auto a, auto b, auto c) { return matmul(a, b) * c; }, a, b, rows);
  check_whole(
      "a mask", [](auto a, auto b, auto c) { return where(c > 0.f, matmul(a, b), 0.f); }, a, b, c);
  check_whole(
      "positions", [](auto a, auto b) { return matmul(a, b) + arange<float>(44); }, a, b);
  // Three results, two of which replace arguments.
  const auto step = [](auto p, auto m, auto a, auto b) {
    const auto g = matmul(a, b);
    const auto next = evaluate(2.f * m + g);
    return std::tuple{evaluate(p - next), next, evaluate(g * g)};
  };
  const auto f = compile(step, {.donate = {0, 1}, .precision = precision::high});
  auto got = f(c.to(gpu), whole(6, 70, 44).to(gpu), a.to(gpu), b.to(gpu));
  const auto want = step(c, whole(6, 70, 44), a, b);
  CHECK(std::get<0>(got).to(device::cpu()).to_vector() == std::get<0>(want).to_vector());
  CHECK(std::get<1>(got).to(device::cpu()).to_vector() == std::get<1>(want).to_vector());
  CHECK(std::get<2>(got).to(device::cpu()).to_vector() == std::get<2>(want).to_vector());
  CHECK(f.report().kernels == 1);
}

TEST_CASE("reductions of the rows of a narrow product are done by the blocks that make them") {
  const auto rows = [](auto a, auto b, auto c) {
    const auto y = evaluate(matmul(a, b) + c);
    return evaluate(y - max(y, axis<-1>, keepdims));
  };
  const auto both = [](auto a, auto b, auto c) {
    const auto y = evaluate(matmul(a, b) + c);
    const auto z = evaluate(y - max(y, axis<-1>, keepdims));
    return std::tuple{z, evaluate(sum(z, axis<0>)), evaluate(sum(min(y, axis<-1>)))};
  };
  const std::int64_t extents[][3] = {{100, 64, 10}, {70, 512, 16}, {33, 20, 15}, {8, 1000, 8}, {128, 36, 12}};
  for (const auto& e : extents) {
    CAPTURE(e[0]);
    const std::int64_t n = e[2];
    const auto a = whole(1, e[0], e[1]), b = whole(2, e[1], n);
    const auto c = whole(3, n);
    const auto one = compile(rows, tf32);
    CHECK(one(a.to(gpu), b.to(gpu), c.to(gpu)).to(device::cpu()).to_vector() == rows(a, b, c).to_vector());
    CHECK(one.report().kernels == 1);
    const auto f = compile(both, tf32);
    const auto [z, columns, all] = f(a.to(gpu), b.to(gpu), c.to(gpu));
    const auto [want, want_columns, want_all] = both(a, b, c);
    CHECK(z.to(device::cpu()).to_vector() == want.to_vector());
    CHECK(columns.to(device::cpu()).to_vector() == want_columns.to_vector());
    CHECK(all.to(device::cpu()).to_vector() == want_all.to_vector());
    CHECK(f.report().kernels == 1);
  }
}

TEST_CASE("rows of a narrow product that others need too, or need otherwise, are done apart") {
  const auto a = whole(1, 64, 40), b = whole(2, 40, 8), c = whole(3, 8, 40);
  const auto check = [&](std::size_t kernels, auto fn, options how = tf32) {
    const auto f = compile(fn, how);
    CHECK(f(a.to(gpu), b.to(gpu), c.to(gpu)).to(device::cpu()).to_vector() == fn(a, b, c).to_vector());
    CHECK(f.report().kernels == kernels);
  };
  // Another product reads them.
  check(3, [](auto a, auto b, auto c) {
    const auto y = matmul(a, b);
    return evaluate(matmul(y, c) + max(y, axis<-1>, keepdims));
  });
  // Of columns.
  check(2, [](auto a, auto b, auto) { return evaluate(max(matmul(a, b), axis<0>)); });
  // Read upside down.
  check(2, [](auto a, auto b, auto) {
    const auto y = matmul(a, b);
    return evaluate(max(flip<0>(y), axis<-1>));
  });
}

TEST_CASE(
    "reductions of the rows of a narrow product with open extents are done with it while it is narrow, and small") {
  const auto both = [](auto a, auto b, auto c) {
    const auto y = evaluate(matmul(a, b) + c);
    const auto z = evaluate(y - max(y, axis<-1>, keepdims));
    return std::tuple{z, evaluate(sum(z, axis<0>)), evaluate(sum(min(y, axis<-1>)))};
  };
  const std::int64_t extents[][3] = {{100, 64, 10}, {70, 512, 16}, {33, 20, 15}, {8, 1000, 9},  {6, 36, 12},
                                     {40, 36, 30},  {90, 36, 70},  {64, 40, 7},  {300, 36, 11}, {40, 1100, 12}};
  for (const auto& how : {tf32, options{.mode = mode::reduce_overhead, .precision = precision::high}}) {
    options open = how;
    open.dynamic = dynamic::yes;
    const auto f = compile(both, open);
    for (const auto& e : extents) {
      CAPTURE(e[0]);
      CAPTURE(e[2]);
      const auto a = whole(1, e[0], e[1]), b = whole(2, e[1], e[2]);
      const auto c = whole(3, e[2]);
      const auto [want, want_columns, want_all] = both(a, b, c);
      for (int call = 0; call < 2; ++call) {
        const auto [z, columns, all] = f(a.to(gpu), b.to(gpu), c.to(gpu));
        CHECK(z.to(device::cpu()).to_vector() == want.to_vector());
        CHECK(columns.to(device::cpu()).to_vector() == want_columns.to_vector());
        CHECK(all.to(device::cpu()).to_vector() == want_all.to_vector());
      }
      if (e[0] == 100) CHECK(f.report().kernels == 1);
    }
    CHECK(f.specialisations() <= 4);  // by what the extents are multiples of
  }
}

TEST_CASE("a product of many terms and few tiles is added up, in slices, by what reads it") {
  const auto step = [](auto m, auto a, auto b) { return evaluate(2.f * m + matmul(transpose(a), b)); };
  const auto m = whole(1, 40, 36), a = whole(2, 1024, 40), b = whole(3, 1024, 36);
  for (const auto& how : {options{}, options{.mode = mode::reduce_overhead}}) {
    const auto f = compile(step, how);
    for (int call = 0; call < 3; ++call)
      CHECK(f(m.to(gpu), a.to(gpu), b.to(gpu)).to(device::cpu()).to_vector() == step(m, a, b).to_vector());
    REQUIRE(f.report().sources.size() == 1);
    CHECK(f.report().kernels == 2);
    CHECK(f.report().sources[0].find("(i0 + 4320)") != std::string::npos);  // the fourth slice's
  }
}

TEST_CASE("a result that is a reshape of a product in slices has the reshape's extents") {
  const auto step = [](auto m, auto a, auto b) {
    return tensor<float, 3>(reshape(2.f * m + matmul(transpose(a), b), 36, 8, 5));
  };
  const auto m = whole(1, 40, 36), a = whole(2, 1024, 40), b = whole(3, 1024, 36);
  const auto f = compile(step);
  const auto got = f(m.to(gpu), a.to(gpu), b.to(gpu)).to(device::cpu());
  CHECK(f.report().sources[0].find("(i0 + 4320)") != std::string::npos);  // the fourth slice's
  CHECK((got.shape() == std::array<dim, 3>{36, 8, 5}));
  CHECK(got.to_vector() == step(m, a, b).to_vector());
}

TEST_CASE("operands are rounded to the nearest tf32, and only where that was asked for") {
  const auto product = [](auto a, auto b) { return abs(matmul(a, b)).eval(); };
  const float half = 0x1p-11f;  // of the last bit that is kept
  const auto ones = ones_like(whole(1, 16, 16)), a = evaluate(ones * (1 + half * 0.75f)),
             b = evaluate(ones * (1 + half * 1.5f));
  for (const auto* x : {&a, &b}) {
    const float kept = x == &a ? 1.f : 1 + 2 * half;
    const auto rounded = compile(product, tf32)(x->to(gpu), ones.to(gpu)).to(device::cpu()).to_vector();
    const auto exact = compile(product)(x->to(gpu), ones.to(gpu)).to(device::cpu()).to_vector();
    for (const float y : rounded) CHECK(y == 16 * kept);
    for (const float y : exact) CHECK(y == 16 * (*x)(0, 0));
  }
}

TEST_CASE("infinities and NaN in a small product stay in their rows") {
  auto a = whole(1, 40, 33);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  a(3, 5) = inf;
  a(4, 32) = nan;
  a(5, 31) = std::bit_cast<float>(0xffffffffu);
  a(6, 0) = std::bit_cast<float>(0x7fffffffu);
  a(7, 1) = std::bit_cast<float>(0x7f800001u);
  a(39, 0) = -inf;
  const auto b = abs(whole(2, 33, 20)).eval() + 1.f;
  const auto product = [](auto a, auto b) { return (2.f * matmul(a, b)).eval(); };
  const auto got = compile(product, tf32)(a.to(gpu), b.eval().to(gpu)).to(device::cpu());
  const auto want = product(a, b);
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t j = 0; j < 20; ++j) {
      const float x = got(i, j), y = want(i, j);
      CHECK((x == y || (x != x && y != y)));
    }
}

TEST_CASE("a product of one row does not write over what it adds") {
  const auto block = [](auto h, auto w, auto v) {
    const auto g = evaluate(2.f * h + matmul(h, w));
    return evaluate(g + matmul(g, v));
  };
  const auto h = whole(1, 1, 300), w = whole(2, 300, 300), v = whole(3, 300, 300);
  CHECK(compile(block)(h.to(gpu), w.to(gpu), v.to(gpu)).to(device::cpu()).to_vector() == block(h, w, v).to_vector());
}

TEST_CASE("open extents of a small product") {
  const auto layer = [](auto x, auto w, auto b) { return abs(matmul(x, w) + b).eval(); };
  const auto w = whole(1, 36, 20);
  const auto b = whole(2, 20);
  const auto f = compile(layer, {.dynamic = dynamic::yes, .precision = precision::high});
  for (const std::int64_t n : {48, 17, 8, 130, 3}) {
    CAPTURE(n);
    const auto x = whole(std::uint64_t(n), n, 36);
    CHECK(f(x.to(gpu), w.to(gpu), b.to(gpu)).to(device::cpu()).to_vector() == evaluate(layer(x, w, b)).to_vector());
  }
  CHECK(f.specialisations() == 2);  // multiples of 16, and all others
}

TEST_CASE("a product with an open number of columns is a kernel of its own while it is narrow") {
  const auto product = [](auto a, auto b) { return matmul(a, b); };
  const auto f = compile(product, {.dynamic = dynamic::yes, .precision = precision::high});
  const std::int64_t extents[][3] = {{40, 36, 12},   {40, 36, 9},    {40, 36, 100},
                                     {40, 1500, 12}, {1000, 36, 12}, {40, 36, 4}};
  for (const auto& e : extents) {
    const std::int64_t m = e[0], k = e[1], n = e[2];
    CAPTURE(n);
    const auto a = whole(1, m, k), b = whole(2, k, n);
    CHECK(f(a.to(gpu), b.to(gpu)).to(device::cpu()).to_vector() == product(a, b).to_vector());
    if (m == 40 && n == 12 && k == 36) CHECK(f.report().sources.size() == 1);
  }
}

TEST_CASE("a product with an open number of terms is added up in slices") {
  const auto step = [](auto m, auto a, auto b) { return evaluate(2.f * m + matmul(transpose(a), b)); };
  const auto m = whole(1, 40, 36);
  const auto f = compile(step, {.dynamic = dynamic::yes});
  for (const std::int64_t terms : {1024, 64, 2048, 5008, 32}) {
    CAPTURE(terms);
    const auto a = whole(2, terms, 40), b = whole(3, terms, 36);
    CHECK(f(m.to(gpu), a.to(gpu), b.to(gpu)).to(device::cpu()).to_vector() == step(m, a, b).to_vector());
  }
  CHECK(f.specialisations() == 1);
  CHECK(explain(f)(m.to(gpu), whole(2, 1024, 40).to(gpu), whole(3, 1024, 36).to(gpu)).text().find("dot over (4, ") !=
        std::string::npos);
}
