#include <sinter/ir/define.hpp>

#include <doctest/doctest.h>

#include <random>

using sinter::ir::dim;
using sinter::ir::product;

namespace {
const dim a = dim::symbol(0), b = dim::symbol(1);
}

TEST_CASE("equality is equality of canonical forms") {
  CHECK(a + b == b + a);
  CHECK(a * b == b * a);
  CHECK((a + 1) * (a - 1) == a * a - 1);
  CHECK((a + b) * (a + b) == a * a + 2 * (a * b) + b * b);
  CHECK(a - a == dim(0));
  CHECK((a - a).is_number());
  CHECK_FALSE(a == b);
  CHECK_FALSE(a == a + 1);
  CHECK(a * dim(0) == dim(0));
}

TEST_CASE("numbers") {
  CHECK(dim(3) + 4 == dim(7));
  CHECK((dim(3) * 4).is(12));
  CHECK(dim(7).number() == 7);
  CHECK_FALSE(a.number().has_value());
}

TEST_CASE("text is C and is the same whatever the order of building") {
  CHECK((a * 64 + 1).text() == "s0*64 + 1");
  CHECK((1 + dim(64) * a).text() == "s0*64 + 1");
  CHECK((b - a).text() == (dim(-1) * a + b).text());
  CHECK(dim(-3).text() == "-3");
  const dim extents[] = {a, 4};
  CHECK(sinter::ir::text_of(extents) == "(s0, 4)");
  CHECK(sinter::ir::text_of(std::span(extents, 1)) == "(s0,)");
  CHECK(sinter::ir::text_of({}) == "()");
}

TEST_CASE("exact quotients") {
  CHECK((a * b).divided_by(b) == a);
  CHECK((a * 6 + b * 4).divided_by(2) == a * 3 + b * 2);
  CHECK((a * a * b + a).divided_by(a) == a * b + 1);
  CHECK_FALSE((a + 1).divided_by(a).has_value());
  CHECK_FALSE((a * 3).divided_by(2).has_value());
  CHECK_FALSE(a.divided_by(0).has_value());
}

TEST_CASE("rounded quotients evaluate as floor") {
  const dim q = floor_div(a + 1, 2);
  for (std::int64_t n = 2; n < 9; ++n) CHECK(q.evaluate(std::vector<std::int64_t>{n}) == (n + 1) / 2);
  CHECK(floor_div(dim(7), 2) == dim(3));
  CHECK(floor_div(a * b, b) == a);
  CHECK(q == floor_div(1 + a, 2));
}

TEST_CASE("multiples of the divisor leave a quotient by a number") {
  const dim half = floor_div(a, 2);
  CHECK(floor_div(half * 2 + 1, 2) == half);
  CHECK(floor_div(half * 2 - 1, 2) == half - 1);
  CHECK(floor_div(a - 1, 2) + 1 == floor_div(a + 1, 2));
  CHECK(floor_div(a * 4 + b + 7, 4) == a + 1 + floor_div(b + 3, 4));
  CHECK(floor_div(a * 2 + 3, 2) == a + 1);
  CHECK(floor_div(a * 2 - b + 4, 2) == a + 2 - b + floor_div(b, 2));
  CHECK(floor_div(a * 9 + 3, 6) == a + floor_div(a + 1, 2));
}

TEST_CASE("quotients that are equal have one form") {
  CHECK(floor_div(floor_div(a, 2), 2) == floor_div(a, 4));
  CHECK(floor_div(floor_div(a, b), 3) == floor_div(a, b * 3));
  CHECK(floor_div(floor_div(a, 3), b) == floor_div(a, b * 3));
  CHECK(floor_div(a + 1, 2) == a - floor_div(a, 2));
  CHECK(floor_div(a - floor_div(a, 2), 2) == floor_div(a + 1, 4));
  CHECK(floor_div(a * 3, 4) == a - floor_div(a + 3, 4));
  CHECK(floor_div(a * b, b * 2) == floor_div(a, 2));
  CHECK(floor_div(a + b - 1, b) == floor_div(a - 1, b) + 1);
  CHECK((a * a - 1).divided_by(a + 1) == a - 1);
  CHECK(((a + 1) * (b + 3) * floor_div(a, 2)).divided_by(b + 3) == (a + 1) * floor_div(a, 2));
}

TEST_CASE("what is 0 whatever the remainders are is known to be") {
  CHECK(is_always_zero(floor_div(a + 2, 3) + floor_div(a + 1, 3) + floor_div(a, 3) - a));
  CHECK(
      is_always_zero((floor_div(a + 3, 4) + floor_div(a + 2, 4) + floor_div(a + 1, 4) + floor_div(a, 4)) * b - a * b));
  CHECK(!is_always_zero(floor_div(a, 3) * 3 - a));
  CHECK(!is_always_zero(floor_div(a, 2) - floor_div(b, 2)));
  CHECK(!is_always_zero(floor_div(a + 2, 3) + floor_div(a + 1, 3) + floor_div(a, 3) - b));
  CHECK(!is_always_zero(floor_div(a, b) * b - a));
}

TEST_CASE("random quotients are floors, of quotients too") {
  std::mt19937 random(1);
  const auto number = [&](int low, int high) {
    return dim(low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  const auto floor_of = [](std::int64_t x, std::int64_t k) { return x / k - (x % k < 0); };
  for (int i = 0; i < 4000; ++i) {
    dim x = a * number(-5, 9) + b * number(-3, 5) + number(-9, 9);
    if (random() % 3 == 0)
      x += floor_div(a * number(0, 5) + b * number(0, 4) + number(0, 5), number(1, 6)) * number(-3, 3);
    if (random() % 5 == 0) x += a * b * number(-2, 3);
    const dim k = number(1, 12), inner = floor_div(x, k), more = a * number(-1, 2) + number(-3, 3), m = number(1, 6);
    const dim outer = floor_div(inner + more, m);
    for (int j = 0; j < 4; ++j) {
      const std::int64_t at[] = {2 + static_cast<int>(random() % 30), 2 + static_cast<int>(random() % 30)};
      const std::int64_t want = floor_of(x.evaluate(at), *k.number());
      CHECK(inner.evaluate(at) == want);
      CHECK(outer.evaluate(at) == floor_of(want + more.evaluate(at), *m.number()));
      CHECK(outer.lower_bound() <= outer.evaluate(at));
      CHECK(outer.upper_bound() >= outer.evaluate(at));
    }
  }
}

TEST_CASE("bounds hold for every binding from 2 up") {
  CHECK(a.lower_bound() == 2);
  CHECK((a * b - 3).lower_bound() == 1);
  CHECK((dim(5) - a).upper_bound() == 3);
  CHECK((a - b).lower_bound() < -1000000);
  CHECK(((a - 1) * (b - 1) * 2).lower_bound() == 2);
  CHECK((dim(3) - (a - 1) * (b - 2)).upper_bound() == 3);
  CHECK((floor_div(a, 2) * (b - 1)).lower_bound() == 0);
  CHECK((floor_div(a, 2) * (b - 3)).lower_bound() < -1000000);
}

TEST_CASE("bounds of quotients by numbers follow from what they are of") {
  CHECK((a - floor_div(a, 2)).lower_bound() == 1);
  CHECK((a - floor_div(a + 1, 2)).lower_bound() == 1);
  CHECK((a - floor_div(a, 3) * 3).lower_bound() == 0);
  CHECK((a - floor_div(a, 3) * 3).upper_bound() == 2);
  CHECK((a - 1 - floor_div(a - 1, 2) * 2).lower_bound() == 0);
  CHECK((a + b - floor_div(a + b, 7)).lower_bound() == 4);
  CHECK((a * b - floor_div(a, 4) * b * 4).lower_bound() == 0);
  CHECK((a - floor_div(floor_div(a, 2) + 1, 2)).lower_bound() == 1);
  CHECK((floor_div(a, 2) * 2 - a).lower_bound() == -1);
  CHECK((floor_div(a, 2) - floor_div(a, 3)).lower_bound() <= 0);
  CHECK((floor_div(a, 2) - floor_div(a, 3)).lower_bound() >= -1);
  CHECK((a - floor_div(a, 2) - floor_div(a, 2)).lower_bound() == 0);
  CHECK((a - floor_div(b, 2)).lower_bound() < -1000000);
  CHECK((a - floor_div(a * a, a + 1)).lower_bound() < -1000000);
}

TEST_CASE("bounds of random sums and products of quotients hold") {
  std::mt19937 random(5);
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return dim(low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1)));
  };
  int finite = 0;
  for (int i = 0; i < 400; ++i) {
    dim x = number(-3, 3);
    for (int terms = 0; terms < 4; ++terms) {
      dim of = a * number(0, 3) + b * number(0, 2) + number(0, 5);
      if (random() % 4 == 0) of = floor_div(of, number(1, 4)) + a;
      dim term = random() % 3 == 0 ? of : floor_div(of, number(1, 7));
      if (random() % 4 == 0) term *= random() % 2 ? b : floor_div(b, number(1, 3));
      x += term * number(-6, 6);
    }
    const std::int64_t low = x.lower_bound(), high = x.upper_bound();
    finite += low > -1000000 || high < 1000000;
    for (std::int64_t m = 2; m < 40; m += 1 + m / 9)
      for (std::int64_t n = 2; n < 40; n += 1 + n / 7) {
        const std::int64_t value = x.evaluate(std::vector<std::int64_t>{m, n});
        CHECK(low <= value);
        CHECK(value <= high);
      }
  }
  CHECK(finite > 40);
}

TEST_CASE("random polynomials evaluate as their parts do") {
  std::mt19937 random(3);
  const std::vector<std::int64_t> sizes{5, 7};
  for (int i = 0; i < 300; ++i) {
    dim x = 1;
    std::int64_t expected = 1;
    for (int step = 0; step < 6; ++step) {
      const auto n = static_cast<std::int64_t>(random() % 7) - 3;
      const int which = static_cast<int>(random() % 3);
      const dim term = which == 2 ? dim(n) : dim::symbol(which);
      const std::int64_t value = which == 2 ? n : sizes[static_cast<std::size_t>(which)];
      switch (random() % 3) {
        case 0:
          x += term, expected += value;
          break;
        case 1:
          x = x - term, expected -= value;
          break;
        default:
          x *= term, expected *= value;
          break;
      }
    }
    CHECK(x.evaluate(sizes) == expected);
    for (const std::vector<std::int64_t>& at : {sizes, {2, 2}, {2, 9}, {11, 3}}) {
      CHECK(x.lower_bound() <= x.evaluate(at));
      CHECK(x.upper_bound() >= x.evaluate(at));
    }
  }
}

TEST_CASE("an unbound symbol is an internal error") {
  CHECK_THROWS_AS(b.evaluate(std::vector<std::int64_t>{4}), sinter::internal_error);
}

TEST_CASE("symbols are replaced everywhere, in quotients too") {
  const dim s0 = dim::symbol(0), s1 = dim::symbol(1);
  const dim d = s0 * s1 * dim(2) + floor_div(s0 + dim(1), 4) + s1;
  CHECK(depends_on(d, 0));
  CHECK(!depends_on(s1 + dim(3), 0));
  const dim e = substituted(d, 0, s1 + dim(5));
  CHECK(!depends_on(e, 0));
  for (const std::int64_t n : {2, 3, 10}) {
    const std::int64_t was[] = {n + 5, n}, is[] = {0, n};
    CHECK(d.evaluate(was) == e.evaluate(is));
  }
}

TEST_CASE("a dim is solved for a symbol that occurs once, alone") {
  const dim s0 = dim::symbol(0), s1 = dim::symbol(1);
  const auto form = linear_in(s0 * dim(3) - s1 + dim(7), 0);
  REQUIRE(form);
  CHECK(form->coefficient == 3);
  CHECK(form->rest == dim(7) - s1);
  CHECK(!linear_in(s0 * s1, 0));
  CHECK(!linear_in(s0 + floor_div(s0, 4), 0));
}

TEST_CASE("ranges hold every value") {
  const dim s0 = dim::symbol(0), s1 = dim::symbol(1);
  const std::int64_t most[] = {9, 5};
  for (const dim& d :
       {s0 - dim(4), s0 * s1 - s0, dim(20) - s0 * dim(2), floor_div(s0 + s1, 3), s0 * s1 - s1 * dim(7)}) {
    const auto r = range_of(d, most);
    for (std::int64_t a = 2; a <= 9; ++a)
      for (std::int64_t b = 2; b <= 5; ++b) {
        const std::int64_t sizes[] = {a, b};
        CHECK(d.evaluate(sizes) >= r.least);
        CHECK(d.evaluate(sizes) <= r.most);
      }
  }
  const auto open = range_of(s0 - s1, {});
  CHECK(open.least < -1000000);
  CHECK(open.most > 1000000);
}
