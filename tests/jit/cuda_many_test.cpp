// Updates of many parameters on a GPU: one launch, in which those that are alike share a body.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

namespace {

using namespace sinter;

struct leaves {
  std::vector<tensor<float, 1>> flat;
  std::vector<tensor<float, 2>> wide;
};
struct state {
  leaves p, m, v;
  tensor<float, 0> steps;
};

/// Nothing, one, parts of a vector, and more than one block.
const std::vector<std::int64_t> lengths = {5, 0, 1, 16, 1023, 1, 2051, 64, 0, 4096, 7, 33, 1, 0, 1, 0};

leaves make(std::uint64_t seed) {
  leaves l;
  for (const auto n : lengths) {
    seed += 100;
    l.flat.push_back(abs(normal<float>(make_key(seed), n)));
    l.wide.push_back(abs(normal<float>(make_key(seed + 50), (n + 2) / 3, 1 + n % 5)));
  }
  return l;
}

const auto adam = [](const state& s, const leaves& g) {
  const tensor<float, 0> t = s.steps + 1.f;
  const auto m = tree_map([](auto m, auto g) { return 0.9f * m + 0.1f * g; }, s.m, g);
  const auto v = tree_map([](auto v, auto g) { return 0.999f * v + 0.001f * g * g; }, s.v, g);
  const auto p = tree_map(
      [&](auto p, auto m, auto v) {
        return p - 1e-2f * (m / (1.f - pow(0.9f, t))) / (sqrt(v / (1.f - pow(0.999f, t))) + 1e-8f);
      },
      s.p, m, v);
  return state{p, m, v, t};
};

void check_equal(const leaves& got, const leaves& want) {
  const auto check = [](const auto& a, const auto& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto x = a[i].to(device::cpu()).to_vector(), y = b[i].to_vector();
      REQUIRE(x.size() == y.size());
      for (std::size_t j = 0; j < x.size(); ++j) REQUIRE(std::abs(x[j] - y[j]) <= 1e-5f * (1 + std::abs(y[j])));
    }
  };
  check(got.flat, want.flat);
  check(got.wide, want.wide);
}

state start(device where) {
  return {to(make(1), where), to(make(2), where), to(make(3), where), tensor<float, 0>(0.f).to(where)};
}

std::size_t places(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("Adam of parameters of all sizes, recorded or not, lent or kept") {
  const auto on_host = compile(adam);
  for (const mode how : {mode::standard, mode::reduce_overhead})
    for (const bool lend : {false, true}) {
      INFO("recorded ", how == mode::reduce_overhead, ", lent ", lend);
      options o{.mode = how};
      if (lend) o.donate = {0};
      const auto f = compile(adam, o);
      state want = start(device::cpu()), got = start(device::cuda(0));
      std::vector<state> kept;
      for (int i = 0; i < 6; ++i) {
        const leaves g = make(static_cast<std::uint64_t>(10 + i));
        want = on_host(want, g);
        const leaves there = to(g, device::cuda(0));
        got = lend ? f(std::move(got), there) : f(got, there);
        if (!lend) kept.push_back(got);
        if (i % 2) check_equal(got.p, want.p);
      }
      check_equal(got.m, want.m);
      check_equal(got.v, want.v);
      if (!lend) check_equal(kept.back().p, want.p);
      CHECK(f.specialisations() == 1);
      const report r = f.report();
      CHECK(r.kernels <= 2);
      std::string text;
      for (const auto& s : r.sources) text += s;
      CHECK(places(text, "members.p[") > 0);
    }
}

TEST_CASE("parameters that lie askew, in part of the tree") {
  const auto f = [](const std::vector<tensor<float, 1>>& x) {
    return tree_map([](auto a) { return a * 2.f + 1.f; }, x);
  };
  const device gpu = device::cuda(0);
  std::vector<tensor<float, 1>> x, there;
  for (int i = 0; i < 24; ++i) {
    const auto all = normal<float>(make_key(i), 90 + 8 * i);
    const auto moved = all.to(gpu);
    x.push_back(slice<0>(all, i % 3, 80 + i));
    there.push_back(slice<0>(moved, i % 3, 80 + i));
  }
  const auto compiled = compile(f);
  const auto got = compiled(there), want = f(x);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(got[i].to(device::cpu()).to_vector() == want[i].to_vector());
  CHECK(compiled.report().kernels == 1);
}

TEST_CASE("numbers of the host that differ for each parameter") {
  struct parameter {
    tensor<float, 1> w;
    float rate;
  };
  const auto f = compile([](const std::vector<parameter>& all) {
    std::vector<tensor<float, 1>> out;
    for (const auto& p : all) out.push_back(p.w - p.w * p.rate);
    return out;
  });
  for (int round = 0; round < 4; ++round) {
    std::vector<parameter> all;
    for (int i = 0; i < 9; ++i) all.push_back({full<float>(2, 10 + i, device::cuda(0)), 0.25f * float(i + round)});
    const auto got = f(all);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const float x : got[i].to(device::cpu()).to_vector()) CHECK(x == 2 - 2 * all[i].rate);
  }
  CHECK(places(f.report().sources[0], "int member = 0;") == 1);
}

TEST_CASE("open extents") {
  const auto f = [](const std::vector<tensor<float, 2>>& x) {
    return tree_map([](auto a) { return exp(a) - 1.f; }, x);
  };
  const auto compiled = compile(f, {.dynamic = dynamic::yes});
  for (const std::int64_t n : {37, 1000, 5, 4097}) {
    CAPTURE(n);
    std::vector<tensor<float, 2>> x, there;
    for (int i = 0; i < 8; ++i) {
      x.push_back(normal<float>(make_key(static_cast<std::uint64_t>(i)), n, i % 3 + 2));
      there.push_back(x.back().to(device::cuda(0)));
    }
    const auto got = compiled(there), want = f(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto a = got[i].to(device::cpu()).to_vector(), b = want[i].to_vector();
      REQUIRE(a.size() == b.size());
      for (std::size_t j = 0; j < a.size(); ++j) REQUIRE(std::abs(a[j] - b[j]) <= 1e-5f * (1 + std::abs(b[j])));
    }
  }
  CHECK(compiled.specialisations() == 1);
  CHECK(compiled.report().kernels == 1);
}

TEST_CASE("copies of one array, side by side in another") {
  const auto f = [](tensor<float, 2> x) { return concat<1>(std::vector(12, x)); };
  const tensor<float, 2> x = normal<float>(make_key(1), 30, 8);
  const auto compiled = compile(f);
  const auto got = compiled(x.to(device::cuda(0)));
  CHECK(got.to(device::cpu()).to_vector() == f(x).to_vector());
  CHECK(compiled.report().backend == "cuda");
}

TEST_CASE("five hundred parameters are one launch, soon planned") {
  std::vector<tensor<float, 1>> p, g;
  for (int i = 0; i < 500; ++i) {
    p.push_back(full<float>(float(i), 3 + i % 40, device::cuda(0)));
    g.push_back(full<float>(1, 3 + i % 40, device::cuda(0)));
  }
  const auto f = compile([](const auto& p, const auto& m, const auto& v, const auto& g) {
    const auto m2 = tree_map([](auto m, auto g) { return 0.5f * m + g; }, m, g);
    const auto v2 = tree_map([](auto v, auto g) { return 0.5f * v + g * g; }, v, g);
    return std::tuple{tree_map([](auto p, auto m, auto v) { return p - m / v; }, p, m2, v2), m2, v2};
  });
  const auto got = f(p, p, g, g);
  const report r = f.report();
  CHECK(r.kernels == 1);
  CHECK(r.sources[0].size() < 60000);
  CHECK(r.steps[0].name.find("x500") != std::string::npos);
  double milliseconds = 0;
  for (const auto& s : r.stages)
    if (s.name == "plan" || s.name == "bind") milliseconds += s.milliseconds;
  CHECK(milliseconds < 60000);  // 160 s where each pair of kernels is looked at for each merger
  for (int i = 0; i < 500; i += 7)
    for (const float x : std::get<0>(got)[static_cast<std::size_t>(i)].to(device::cpu()).to_vector())
      CHECK(std::abs(x - (float(i) - (0.5f * float(i) + 1) / 1.5f)) < 1e-4f * float(i + 1));
}
