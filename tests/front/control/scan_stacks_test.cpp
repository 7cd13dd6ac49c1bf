// scan over trees: stacks arrive as structs and come back as stacks, from the end, under open lengths; values and gradients.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::error_of;

namespace scanned {

using real = tensor<double, 0>;
using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;

struct layer {
  matrix w;
  vec b;
  double slope = 0.5;
};
struct step_told {
  vec h;
  real norm;
};

}  // namespace scanned

using namespace scanned;

namespace {

template <class... I>
auto numbers(int seed, I... extents) {
  return normal<double>(make_key(seed), extents...);
}

std::vector<layer> make_layers(int n) {
  std::vector<layer> all;
  for (int i = 0; i < n; ++i) all.push_back({matrix(numbers(i, 3, 3) * 0.5), numbers(i + 50, 3), 0.25});
  return all;
}

vec apply(const layer& l, const vec& h) { return tanh(matmul(h, l.w) + l.b) + h * l.slope; }

template <bool Reversed, class F, class C, class X>
auto scan_either(const F& f, const C& c, const X& xs) {
  if constexpr (Reversed) return scan(f, c, xs, reversed);
  else return scan(f, c, xs);
}

template <bool Reversed>
auto through(const stacked<layer>& layers, const vec& x) {
  return scan_either<Reversed>(
      [](const vec& h, const layer& l) {
        const vec next = apply(l, h);
        return std::pair{next, step_told{next, sum(next * next)}};
      },
      x, layers);
}

template <bool Reversed>
void check_layers(int n) {
  const std::vector<layer> all = make_layers(n);
  const vec x = numbers(99, 3);
  std::vector<step_told> want(static_cast<std::size_t>(n));
  vec h = x;
  for (int step = 0; step < n; ++step) {
    const auto i = static_cast<std::size_t>(Reversed ? n - 1 - step : step);
    h = apply(all[i], h);
    want[i] = {h, sum(h * h)};
  }
  const auto check = [&](const auto& result) {
    const auto& [last, traces] = result;
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(traces)>, stacked<step_told>>);
    check_close(last.to_vector(), h.to_vector(), 1e-12);
    REQUIRE(traces.size() == n);
    for (int i = 0; i < n; ++i) {
      const step_told& w = want[static_cast<std::size_t>(i)];
      check_close(traces[i].h.to_vector(), w.h.to_vector(), 1e-12);
      CHECK(traces[i].norm.item() == doctest::Approx(w.norm.item()));
    }
  };
  check(through<Reversed>(stack_tree(all), x));
  for (const char* backend : {"cpu", "reference"})
    check(compile([](const stacked<layer>& l, const vec& x) { return through<Reversed>(l, x); }, {.backend = backend})(
        stack_tree(all), x));
}

}  // namespace

TEST_CASE("scan: a stack arrives as a struct, structs come back as a stack, in both directions") {
  check_layers<false>(4);
  check_layers<true>(4);
  check_layers<true>(1);
}

TEST_CASE("scan over layers: gradients are those of the loop, in both directions") {
  const std::vector<layer> all = make_layers(4);
  const vec x = numbers(99, 3);
  const auto check = [&]<bool Reversed>(std::bool_constant<Reversed>) {
    const auto looped = [](const std::vector<layer>& all, const vec& x) {
      vec h = x;
      real total(0.0);
      for (std::size_t k = 0; k < all.size(); ++k) {
        h = apply(all[Reversed ? all.size() - 1 - k : k], h);
        total = total + sum(h * h);
      }
      return total + sum(h);
    };
    const auto loss = [](const stacked<layer>& l, const vec& x) {
      const auto [last, traces] = through<Reversed>(l, x);
      return sum(traces[&step_told::norm]) + sum(last);
    };
    const stacked<layer> want = stack_tree(grad(looped)(all, x));
    for (const char* backend : {"cpu", "reference"}) {
      const stacked<layer> got = compile(grad(loss), {.backend = backend})(stack_tree(all), x);
      check_close(got[&layer::w].to_vector(), want[&layer::w].to_vector(), 1e-10);
      check_close(got[&layer::b].to_vector(), want[&layer::b].to_vector(), 1e-10);
      check_close(compile(grad<1>(loss), {.backend = backend})(stack_tree(all), x).to_vector(),
                  grad<1>(looped)(all, x).to_vector(), 1e-10);
    }
  };
  check(std::bool_constant<false>{});
  check(std::bool_constant<true>{});
}

TEST_CASE("scan from the end of trees of several kinds: slices, results and what comes back into a scan") {
  const matrix xs = numbers(1, 5, 3);
  const vec ys = numbers(2, 5);
  const auto f = [](const matrix& xs, const vec& ys) {
    const auto [first, all] = scan(
        [](const vec& c, const std::tuple<vec, std::vector<real>>& x) {
          const vec next = c * 0.5 + std::get<0>(x) * std::get<1>(x)[0];
          return std::pair{next, std::vector<step_told>{{next, sum(next)}}};
        },
        vec{0, 0, 0}, std::tuple{xs, std::vector<vec>{ys}}, reversed);
    // The stack that it made is read by another one.
    return std::tuple{first, scan(
                                 [](const real& c, const step_told& t) {
                                   const real next = c * 0.9 + t.norm;
                                   return std::pair{next, vec(t.h * next)};
                                 },
                                 real(0.0), all[0])
                                 .second};
  };
  std::vector<vec> hs(5);
  vec c{0, 0, 0};
  for (int i = 4; i >= 0; --i) {
    c = c * 0.5 + reshape(slice<0>(xs, i, i + 1), {3}) * ys(i);
    hs[static_cast<std::size_t>(i)] = c;
  }
  double carried = 0;
  std::vector<vec> want;
  for (const vec& h : hs) {
    carried = carried * 0.9 + real(sum(h)).item();
    want.push_back(h * carried);
  }
  const auto check = [&](const auto& got) {
    check_close(std::get<0>(got).to_vector(), c.to_vector(), 1e-12);
    check_close(std::get<1>(got).to_vector(), stack<0>(want).to_vector(), 1e-12);
  };
  check(f(xs, ys));
  for (const char* backend : {"cpu", "reference"}) check(compile(f, {.backend = backend})(xs, ys));
}

TEST_CASE("scan from the end: one program for any length, of none too") {
  const auto f = compile(
      [](const matrix& xs) {
        return scan(
            [](const vec& h, const vec& x) {
              const vec next = tanh(h * 0.5 + x);
              return std::pair{next, next};
            },
            zeros<double>(xs.size(1)), xs, reversed);
      },
      {.dynamic = dynamic::yes});
  for (int n : {4, 7, 2, 30}) {
    const matrix xs = numbers(n, n, 3);
    const auto [first, all] = f(xs);
    vec h = zeros<double>(3);
    for (int i = n - 1; i >= 0; --i) {
      h = tanh(h * 0.5 + reshape(slice<0>(xs, i, i + 1), {3}));
      check_close(vec(reshape(slice<0>(all, i, i + 1), {3})).to_vector(), h.to_vector(), 1e-12);
    }
    check_close(first.to_vector(), h.to_vector(), 1e-12);
  }
  CHECK(f.specialisations() == 1);
  const auto none = stack_tree(make_layers(1));
  stacked<layer> empty = tree_map([](const auto& x) { return slice<0>(x, 0, 0); }, none);
  const auto [last, traces] = through<true>(empty, vec{1, 2, 3});
  CHECK(last.to_vector() == std::vector<double>{1, 2, 3});
  CHECK(traces[&step_told::h].shape() == index_array<2>{0, 3});
}

TEST_CASE("scan refuses stacks whose first axes differ") {
  stacked<layer> layers = stack_tree(make_layers(3));
  layers[&layer::b] = numbers(1, 4, 3);
  CHECK(contains(error_of([&] {
                   through<false>(layers, vec{1, 2, 3});
                 }),
                 "[scan] the first axes of xs differ: 3 and 4"));
}
