// tests/front/control/control_programs.hpp: functions with branches and loops whose sizes stay open, against programs of their own; for the host and for a GPU.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

namespace control_programs {

using namespace sinter;
using scalar = tensor<float, 0>;
using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;
using count = tensor<std::int64_t, 0>;
using extents = std::initializer_list<std::pair<int, int>>;

inline constexpr extents any_extents = {{6, 5}, {4, 7}, {9, 3}, {33, 16}, {40, 64}};
/// Twice an odd number: a GPU's symbols are of steps of 2.
inline constexpr extents even_extents = {{6, 10}, {14, 22}, {34, 6}, {10, 62}};

/// All extents share one specialisation, and each gives what a program made for it alone gives.
template <class F>
void check_one(const std::string& name, device on, F fn, extents all = any_extents) {
  CAPTURE(name);
  const auto open = compile(fn, {.dynamic = dynamic::yes});
  for (const auto& size : all) {
    const int n = size.first, m = size.second;
    CAPTURE(n);
    const matrix x = (normal<float>(make_key(n), n, m) * 0.3f).eval().to(on);
    const auto got = open(x), want = compile(fn, {.dynamic = dynamic::no})(x);
    REQUIRE(got.shape() == want.shape());
    check_close(got.to_vector(), want.to_vector(), 1e-4);
  }
  CHECK(open.specialisations() == 1);
}

inline auto recurrent(const matrix& x) {
  return scan(
      [](vec h, vec row) {
        const vec next = tanh(h * 0.5f + row);
        return std::pair{next, vec(next * 2.f)};
      },
      zeros<float>(x.size(1)), x);
}

inline void check_all(device on) {
  const extents sizes = on.is_cuda() ? even_extents : any_extents;
  const auto check = [&](const char* name, auto fn) { check_one(name, on, fn, sizes); };
  check("scan", [](matrix x) {
    const auto [last, all] = recurrent(x);
    return (all + last).eval();
  });
  const auto of_scan = [](matrix x) {
    const auto [last, all] = recurrent(x);
    return sum(last) + sum(all * all);
  };
  check("derivative of a scan", [=](matrix x) { return grad(of_scan)(x); });
  check("second derivative of a scan",
        [=](matrix x) { return grad([=](matrix y) { return sum(grad(of_scan)(y)); })(x); });
  const auto branch = [](matrix x) {
    return cond(
        sum(x) > 0.f, [&] { return matrix(x * x); }, [&] { return matrix(exp(x)); });
  };
  check("cond", branch);
  check("derivative of a cond", [=](matrix x) { return grad([=](matrix y) { return sum(branch(y)); })(x); });
  const auto counted = [](matrix x) {
    return fori_loop(
        1, x.size(0) - 1, [&](count i, vec h) { return vec(h * 0.9f + tanh(sum(take(x, reshape(i, 1)), axis<0>))); },
        zeros<float>(x.size(1)));
  };
  check("fori_loop", counted);
  check("derivative of a fori_loop", [=](matrix x) { return grad([=](matrix y) { return sum(counted(y)); })(x); });
  check("while_loop", [](matrix x) {
    return while_loop([](matrix a) { return sum(a * a) > 1.f; }, [](matrix a) { return matrix(a * 0.5f); }, x);
  });
  check("nested", [](matrix x) {
    const auto [last, all] = scan(
        [&](vec h, vec row) {
          const vec next = cond(
              sum(row) > 0.f, [&] { return vec(h + row); },
              [&] {
                return fori_loop(
                    0, row.size(0), [&](count, vec v) { return vec(v * 0.9f + sum(x, axis<0>) * 0.01f); }, h);
              });
          return std::pair{next, sum(next)};
        },
        zeros<float>(x.size(1)), x);
    return (last + sum(all)).eval();
  });
  check("a product in a body", [](matrix x) {
    const matrix w = matmul(transpose(x), x) * 0.1f;
    return scan(
               [&](vec h, vec row) {
                 const vec next = tanh(matmul(h, w) + row);
                 return std::pair{next, next};
               },
               zeros<float>(x.size(1)), x)
        .second;
  });
}

}  // namespace control_programs
