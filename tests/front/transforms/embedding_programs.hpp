// tests/front/transforms/embedding_programs.hpp: training steps of a table that is looked up, multiplied, or both.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

namespace embedding_programs {

using namespace sinter;
using table = tensor<float, 2>;
using ids = tensor<std::int64_t, 1>;

struct state {
  table p, m, v;
};

/// A step of Adam on what the loss says of the table.
template <class Loss>
auto step(const state& s, const Loss& loss) {
  const auto [l, g] = value_and_grad(loss)(s.p);
  const table m = 0.9f * s.m + 0.1f * g, v = 0.99f * s.v + 0.01f * g * g;
  return std::pair{l, state{s.p - 0.1f * m / (sqrt(v) + 0.01f), m, v}};
}

/// The table as the last layer alone.
inline const auto head = [](const state& s, const table& x, const ids& y) {
  return step(s, [&](const table& p) { return cross_entropy(matmul(x, transpose(p)), y); });
};
/// The same table looks up what it then multiplies: rows of `at` twice and more.
inline const auto tied = [](const state& s, const ids& at, const ids& y) {
  return step(s, [&](const table& p) { return cross_entropy(matmul(tanh(take(p, at)), transpose(p)), y); });
};
/// A product and rows of an array, and its derivatives.
inline const auto mixed = [](const table& a, const table& b, const ids& at, const table& u) {
  const auto value = [&](const table& a, const table& u) {
    return matmul(a, b) + scatter_add(zeros<float>(a.size(0), b.size(1)), at, u);
  };
  const auto loss = [&](const table& a, const table& u) { return sum(sin(value(a, u))); };
  return std::tuple{value(a, u), grad<0>(loss)(a, u), grad<1>(loss)(a, u)};
};

inline state make(device where) {
  const auto random = [&](std::uint64_t seed, float scale) {
    return evaluate(scale * uniform<float>(make_key(seed), 50, 24)).to(where);
  };
  return {random(1, 1.f), random(2, 0.1f), random(3, 0.1f)};
}
inline ids rows(device where) {
  return ids{7, 3, 7, 49, 0, 7, 3, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 48}.to(where);
}
inline ids labels(device where) { return ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 49, 0}.to(where); }

inline std::vector<float> flat(const state& s) {
  std::vector<float> all;
  for (const table* t : {&s.p, &s.m, &s.v})
    for (const float x : t->to(device::cpu()).to_vector()) all.push_back(x);
  return all;
}

inline void check_close(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-5f * (1 + std::abs(want[i])));
}

/// The steps and the derivatives as the reference has them; with `kernels`, as few kernels as there should be.
inline void check(device where, const options& how, std::size_t head_kernels, std::size_t tied_kernels) {
  const options reference{.backend = "reference"};
  const device host = device::cpu();
  const table x = normal<float>(make_key(4), 18, 24);
  {
    const auto f = compile(head, how);
    const auto want = compile(head, reference)(make(host), x, labels(host));
    const auto got = f(make(where), x.to(where), labels(where));
    check_close(flat(got.second), flat(want.second));
    CHECK(f.report().kernels == head_kernels);
  }
  {
    const auto f = compile(tied, how);
    const auto want = compile(tied, reference)(make(host), rows(host), labels(host));
    const auto got = f(make(where), rows(where), labels(where));
    check_close(flat(got.second), flat(want.second));
    CHECK(f.report().kernels == tied_kernels);
    for (const auto& text : f.report().sources) CHECK(text.find("// copy\n") == std::string::npos);
  }
  const table a = normal<float>(make_key(5), 20, 7), b = normal<float>(make_key(6), 7, 33),
              u = normal<float>(make_key(7), 5, 33);
  const ids at{3, 19, 3, 0, 3};
  const auto want = compile(mixed, reference)(a, b, at, u);
  const auto got = compile(mixed, how)(a.to(where), b.to(where), at.to(where), u.to(where));
  const auto flatten = [](const auto& r) {
    std::vector<float> all;
    for (const table& t : {std::get<0>(r), std::get<1>(r), std::get<2>(r)})
      for (const float v : t.to(device::cpu()).to_vector()) all.push_back(v);
    return all;
  };
  check_close(flatten(got), flatten(want));
}

}  // namespace embedding_programs
