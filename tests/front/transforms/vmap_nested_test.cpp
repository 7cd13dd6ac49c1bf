// vmap with control flow and other transforms: branches, loops, derivatives of each item, derivatives through vmap.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../texts.hpp"
#include "lane_loops.hpp"

using namespace lane_loops;
using texts::contains;
using texts::error_of;

namespace vmap_nested {

struct net {
  matrix w;
  vec b;
};

}  // namespace vmap_nested

using vmap_nested::net;

namespace {

net make_net(int seed) { return {matrix(numbers(seed, 3, 3) * 0.5), numbers(seed + 50, 3)}; }

real loss_of(const net& p, const vec& x, const real& y) {
  const vec h = tanh(matmul(x, p.w) + p.b);
  return (sum(h * h) - y) * (sum(h * h) - y);
}

vec branch_of_sign(const vec& x, const real& by) {
  return cond(
      sum(x) * by > 0.0, [&] { return vec(exp(x) * by); }, [&] { return vec(x * x - 1.0); });
}

}  // namespace

TEST_CASE("vmap of cond: a predicate of each lane selects, a shared one branches") {
  const matrix x = numbers(1, 6, 3);
  check_lanes("of each lane", in_axes<0, none>, branch_of_sign, x, real(0.7));
  check_lanes(
      "shared", in_axes<0, none>,
      [](const vec& x, const real& by) {
        return cond(
            by > 0.0, [&] { return vec(exp(x) * by); }, [&] { return vec(x * x - 1.0); });
      },
      x, real(0.7));
  check_lanes(
      "of each lane, branches that do not vary", in_axes<0>,
      [](const real& x) {
        return cond(
            x > 0.0, [] { return real(1.5); }, [] { return real(-2.5); });
      },
      vec(numbers(2, 6)));
  const auto cases = [](const count& i, const vec& x) {
    return switch_case(i,
                       std::tuple{[](const vec& x) { return vec(x * 2.0); }, [](const vec& x) { return vec(exp(x)); },
                                  [](const vec& x) { return vec(x - 1.0); }},
                       x);
  };
  check_lanes("a case each", in_axes<0, 0>, cases, ids{-1, 0, 1, 2, 3, 1}, x);
  check_lanes("a case for all", in_axes<none, 0>, cases, count(1), x);
}

TEST_CASE("vmap of scan and fori_loop: what is carried, read and captured has lanes or not") {
  const cube xs = numbers(1, 4, 5, 3);
  const matrix shared = numbers(2, 5, 3), starts = numbers(3, 4, 3);
  const vec start = numbers(4, 3);
  const auto f = [](const vec& h, const matrix& xs) {
    const auto [last, all] = scan(
        [](const vec& h, const vec& x) {
          const vec next = tanh(h * 0.5 + x);
          return std::pair{next, std::pair{sum(next), vec(next * x)}};
        },
        h, xs);
    return std::tuple{last, all.first, all.second};
  };
  check_lanes("both", in_axes<0, 0>, f, starts, xs);
  check_lanes("what is read", in_axes<none, 0>, f, start, xs);
  check_lanes("what is carried", in_axes<0, none>, f, starts, shared);
  check_lanes(
      "what is captured", in_axes<0>,
      [&](const vec& by) {
        return scan(
                   [&](const vec& h, const vec& x) {
                     const vec next = h * 0.5 + x * by;
                     return std::pair{next, next};
                   },
                   start, shared, reversed)
            .second;
      },
      starts);
  check_lanes(
      "a carried value that does not vary", in_axes<0>,
      [&](const vec& by) {
        const auto [last, all] = scan(
            [&](const std::pair<count, vec>& c, const vec& x) {
              return std::pair{std::pair{count(c.first + 1), vec(c.second + x * cast<double>(c.first))}, by};
            },
            std::pair{count(0), start}, shared);
        return std::tuple{last.first, last.second, all};
      },
      starts);
  check_lanes(
      "fori_loop", in_axes<0>,
      [](const vec& x) {
        return fori_loop(
            0, 4, [&](const count& i, const vec& c) { return vec(c * 0.5 + x * cast<double>(i)); }, x);
      },
      starts);
  check_lanes(
      "associative_scan", in_axes<0>,
      [](const matrix& xs) {
        return associative_scan([](const vec& a, const vec& b) { return vec(a * b + a + b); }, xs);
      },
      xs);
}

TEST_CASE("vmap of while_loop: every lane stops by itself") {
  const auto halve = [](const real& limit, const vec& x) {
    return while_loop([&](const std::pair<vec, count>& c) { return sum(c.first * c.first) > limit; },
                      [](const std::pair<vec, count>& c) {
                        return std::pair{vec(c.first * 0.5), count(c.second + 1)};
                      },
                      std::pair{x, count(0)});
  };
  const matrix x = numbers(1, 6, 3) * 4.0;
  check_lanes("starts differ", in_axes<none, 0>, halve, real(0.3), x);
  check_lanes("limits differ", in_axes<0, none>, halve, vec{0.01, 3.0, 100.0, 0.5}, vec{2, 3, 1});
  check_lanes("both differ", in_axes<0, 0>, halve, vec{0.01, 3.0, 100.0, 0.5, 1.0, 0.1}, x);
  const auto [values, turns] = vmap(halve, in_axes<0, none>)(vec{1000.0, 0.01}, vec{2, 3, 1});
  CHECK(turns.to_vector() == std::vector<std::int64_t>{0, 6});
  CHECK(values.to_vector()[0] == 2.0);
}

TEST_CASE("derivatives of each item: vmap(grad(f)) is grad(f) of each") {
  const matrix x = numbers(1, 5, 3);
  const vec y = numbers(2, 5);
  const net p = make_net(3);
  const auto g = [](const net& p, const vec& x, const real& y) { return grad(loss_of)(p, x, y); };
  check_lanes("of one net", in_axes<none, 0, 0>, g, p, x, y);
  std::vector<net> nets;
  for (int i = 0; i < 5; ++i) nets.push_back(make_net(10 + i));
  check_lanes("of a net each", in_axes<0, 0, 0>, g, stack_tree(nets), x, y);
  check_lanes(
      "value too", in_axes<none, 0, 0>,
      [](const net& p, const vec& x, const real& y) { return value_and_grad<1>(loss_of)(p, x, y); }, p, x, y);
  check_lanes(
      "second derivatives", in_axes<none, 0>,
      [](const net& p, const vec& x) {
        return grad([&](const vec& x) { return sum(grad<1>(loss_of)(p, x, real(0.3))); })(x);
      },
      p, x);
}

TEST_CASE("derivatives through vmap: grad(vmap(f)) is that of the loop") {
  const matrix x = numbers(1, 5, 3);
  const vec y = numbers(2, 5);
  const net p = make_net(3);
  const auto total = [](const net& p, const matrix& x, const vec& y) {
    return sum(vmap(loss_of, in_axes<none, 0, 0>)(p, x, y));
  };
  const auto loop = [](const net& p, const matrix& x, const vec& y) {
    real sum_of(0.0);
    for (int i = 0; i < 5; ++i) sum_of = sum_of + loss_of(p, lane<0>(x, i), lane<0>(y, i));
    return sum_of;
  };
  for (const char* backend : {"cpu", "reference"}) {
    check_same(compile(grad(total), {.backend = backend})(p, x, y), compile(grad(loop), {.backend = backend})(p, x, y));
    check_same(compile(grad<1>(total), {.backend = backend})(p, x, y),
               compile(grad<1>(loop), {.backend = backend})(p, x, y));
  }
  check_same(grad(total)(p, x, y), grad(loop)(p, x, y));
  // Twice through both.
  const auto curved = [&](const matrix& x) {
    return sum(vmap([&](const vec& row) { return grad<1>(loss_of)(p, row, real(0.5)); })(x));
  };
  const auto by_loop = [&](const matrix& x) {
    real sum_of(0.0);
    for (int i = 0; i < 5; ++i) sum_of = sum_of + sum(grad<1>(loss_of)(p, lane<0>(x, i), real(0.5)));
    return sum_of;
  };
  check_same(compile(grad(curved))(x), compile(grad(by_loop))(x));
}

TEST_CASE("vmap of grad of a scan of a cond, under open sizes") {
  const auto energy = [](const vec& h, const matrix& xs) {
    const auto [last, all] = scan(
        [](const vec& h, const vec& x) {
          const vec next = branch_of_sign(vec(h * 0.3 + x * 0.2), sum(x));
          return std::pair{vec(tanh(next)), sum(next)};
        },
        h, xs);
    return sum(last * last) + sum(all);
  };
  const auto f = [&](const vec& h, const matrix& xs) { return grad(energy)(h, xs); };
  check_lanes("both", in_axes<0, 0>, f, matrix(numbers(1, 4, 3)), cube(numbers(2, 4, 6, 3)));
  check_lanes("starts", in_axes<0, none>, f, matrix(numbers(1, 4, 3)), matrix(numbers(2, 6, 3)));
  const auto g = compile([&](const matrix& h, const cube& xs) { return vmap(f)(h, xs); }, {.dynamic = dynamic::yes});
  for (int n : {4, 2, 7}) {
    const matrix h = numbers(n, n, 3);
    const cube xs = numbers(n + 9, n, n + 2, 3);
    check_same(g(h, xs), looped(in_axes<0, 0>, f, h, xs));
  }
  CHECK(g.specialisations() == 1);
}

TEST_CASE("vmap within branches and loops, and of vmaps of gradients") {
  const cube xs = numbers(1, 4, 5, 3);
  const matrix w = numbers(2, 3, 3);
  const auto rows = [](const matrix& m, const matrix& w) {
    return vmap([&](const vec& row) { return vec(tanh(matmul(row, w))); })(m);
  };
  const auto f = [&](const cube& xs, const matrix& w) {
    const auto [last, all] = scan(
        [&](const matrix& m, const matrix& x) {
          const matrix next = cond(
              sum(m) > 0.0, [&] { return rows(m + x, w); }, [&] { return rows(x, w); });
          return std::pair{next, next};
        },
        matrix(lane<0>(xs, 0)), xs);
    return all;
  };
  const cube want = f(xs, w);
  for (const char* backend : {"cpu", "reference"}) check_same(compile(f, {.backend = backend})(xs, w), want);
  // A Jacobian of each row of each matrix, by a vmap over what grad is asked of.
  const auto jacobian = [](const vec& x, const matrix& w) {
    return vmap([&](const vec& unit) { return grad([&](const vec& x) { return sum(tanh(matmul(x, w)) * unit); })(x); })(
        cast<double>(one_hot<double>(arange<std::int64_t>(3), 3)));
  };
  check_lanes(
      "jacobians", in_axes<0, none>,
      [&](const matrix& m, const matrix& w) { return vmap(jacobian, in_axes<0, none>)(m, w); }, xs, w);
}

TEST_CASE("vmap of custom ops and of host_call") {
  const auto doubled = custom_op<"doubled">(
      [](elements<const double, 1> x, elements<double, 1> y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
      },
      none, [](const auto& x) { return result_of<double, 1>{x}; },
      [](const vec&, const vec&, const vec& ct) { return vec(ct * 2.0); });
  check_lanes(
      "a custom op", in_axes<0>, [&](const vec& x) { return vec(doubled(vec(x * x)) + x); }, matrix(numbers(1, 4, 3)));
  check_lanes(
      "its gradient", in_axes<0>,
      [&](const vec& x) { return grad([&](const vec& x) { return sum(doubled(vec(x * x)) * x); })(x); },
      matrix(numbers(1, 4, 3)));
  // A rule for all lanes, of one operand that has them and one that is shared.
  int calls = 0;
  const auto weighed = [&](auto rule) {
    return custom_op<"weighed">(
        [&](elements<const double, 1> x, elements<const double, 1> w, elements<double, 1> y) {
          ++calls;
          for (std::int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * w[i];
        },
        none, [](const auto& x, const auto&) { return result_of<double, 1>{x}; }, none, none, rule);
  };
  const auto op = weighed([](const matrix& x, const matrix& w) { return x * w; });
  const matrix x = numbers(1, 4, 3);
  const vec w = numbers(2, 3);
  const auto by_op = [&](const vec& x, const vec& w) { return vec(op(x, w) + 1.0); };
  check_lanes("a rule", in_axes<0, none>, by_op, x, w);
  check_lanes("a rule for the other", in_axes<none, 0>, by_op, w, x);
  check_lanes(
      "a rule, twice", in_axes<0, none>,
      [&](const matrix& m, const vec& w) { return vmap(by_op, in_axes<0, none>)(m, w); }, cube(numbers(3, 2, 4, 3)), w);
  calls = 0;
  vmap(by_op)(x, x);
  CHECK(calls == 0);
  const auto wrong = weighed([](const matrix& x, const matrix&) { return transpose(x); });
  CHECK(contains(error_of([&] { vmap([&](const vec& x) { return wrong(x, w); })(x); }),
                 "[weighed] its rule for lanes returns a result of shape (3, 4); all lanes are (4, 3)"));
  const auto narrow = weighed([](const matrix& x, const matrix&) { return sum(x, axis<1>); });
  CHECK(contains(error_of([&] { vmap([&](const vec& x) { return narrow(x, w); })(x); }), "another dtype or rank"));
  const auto captures = weighed([&](const matrix& x, const matrix&) { return x * w; });
  CHECK(
      contains(error_of([&] { vmap([&](const vec& x) { return captures(x, w); })(x); }), "uses a tensor from outside"));
  const auto said = error_of([] {
    vmap([](const vec& x) {
      host_call([](const vec&) {}, x);
      return x;
    })(matrix(numbers(1, 4, 3)));
  });
  CHECK(contains(said, "calls a function of the host, which has no batch rule; call it outside of vmap"));
}
