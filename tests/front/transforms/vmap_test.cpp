// vmap: against a loop over lanes, of each kind of op over patterns of axes; trees, in_axes, out_axes; what is refused.
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../texts.hpp"
#include "lane_loops.hpp"

using namespace lane_loops;
using texts::contains;
using texts::error_of;

namespace {

struct linear {
  matrix w;
  vec b;
  int power = 2;
};

linear make_linear(int seed) { return {numbers(seed, 3, 4), numbers(seed + 50, 4)}; }

stacked<linear> layers(int n) {
  std::vector<linear> all;
  for (int i = 0; i < n; ++i) all.push_back(make_linear(i));
  return stack_tree(all);
}

ids some_ids(int seed, std::int64_t n, std::int64_t below) {
  return randint<std::int64_t>(make_key(seed), 0, below, n);
}
tensor<std::int64_t, 2> some_ids(int seed, std::int64_t m, std::int64_t n, std::int64_t below) {
  return randint<std::int64_t>(make_key(seed), 0, below, m, n);
}

}  // namespace

TEST_CASE("vmap of pointwise functions and broadcasts, over patterns of axes") {
  const auto f = [](const vec& x, const vec& y) { return tanh(x) * 2.0 + exp(x * y) - 1.0; };
  const matrix x = numbers(1, 5, 3), y = numbers(2, 5, 3), turned = numbers(3, 3, 5);
  check_lanes("both", in_axes<0, 0>, f, x, y);
  check_lanes("first", in_axes<0, none>, f, x, vec(numbers(4, 3)));
  check_lanes("second", in_axes<none, 1>, f, vec(numbers(4, 3)), turned);
  check_lanes("from the end", in_axes<0, -1>, f, x, turned);
  check_lanes(
      "rows and columns", in_axes<0, 0>, [](const vec& a, const real& b) { return a * b + a; }, x, vec(numbers(5, 5)));
  check_lanes(
      "a matrix and a row", in_axes<1, 0>, [](const matrix& m, const vec& v) { return where(m > 0.0, m + v, m * v); },
      cube(numbers(6, 2, 5, 3)), x);
  check_lanes(
      "a matrix and a shared row", in_axes<2, none>, [](const matrix& m, const vec& v) { return m * v; },
      cube(numbers(6, 2, 3, 5)), vec(numbers(4, 3)));
  check_lanes(
      "a shared matrix and a row", in_axes<none, 0>, [](const matrix& m, const vec& v) { return m * v; },
      matrix(numbers(6, 2, 3)), x);
}

TEST_CASE("vmap of reductions, softmax, norms and scans") {
  const cube x = numbers(1, 4, 3, 5), turned = numbers(2, 3, 4, 5);
  const vec g = numbers(3, 5), b = numbers(4, 5);
  check_lanes(
      "sums", in_axes<0>,
      [](const matrix& m) {
        return std::tuple{sum(m), sum(m, axis<0>), mean(m, axis<1>, keepdims)};
      },
      x);
  check_lanes(
      "moments", in_axes<1>,
      [](const matrix& m) {
        return std::tuple{var(m, axis<-1>), max(m, axis<0>), norm(m)};
      },
      turned);
  check_lanes(
      "places", in_axes<0>,
      [](const matrix& m) {
        return std::pair{argmax(m, axis<1>), argmin(m, axis<0>)};
      },
      x);
  check_lanes(
      "softmax", in_axes<-1>, [](const matrix& m) { return softmax(m, axis<0>) + log_softmax(m, axis<1>); }, x);
  check_lanes(
      "logsumexp", in_axes<0>, [](const matrix& m) { return logsumexp(m, axis<1>); }, x);
  check_lanes(
      "layer_norm", in_axes<0, none, none>,
      [](const matrix& m, const vec& g, const vec& b) { return layer_norm(m, g, b); }, x, g, b);
  check_lanes(
      "layer_norm, a scale each", in_axes<0, 0, none>,
      [](const matrix& m, const vec& g, const vec& b) { return layer_norm(m, g, b); }, x, matrix(numbers(5, 4, 5)), b);
  check_lanes(
      "rms_norm", in_axes<1, none>, [](const matrix& m, const vec& g) { return rms_norm(m, g); }, turned, g);
  check_lanes(
      "scans", in_axes<1>,
      [](const matrix& m) {
        return std::tuple{cumsum<0>(m), cumprod<1>(m), cummax<0>(m)};
      },
      turned);
}

TEST_CASE("vmap of products") {
  const cube a = numbers(1, 4, 3, 5), b = numbers(2, 4, 5, 2), turned = numbers(3, 5, 4, 2);
  const matrix left = numbers(4, 3, 5), right = numbers(5, 5, 2), rows = numbers(6, 4, 5);
  const auto product = [](const matrix& x, const matrix& y) { return matmul(x, y); };
  check_lanes("both", in_axes<0, 0>, product, a, b);
  check_lanes("left", in_axes<0, none>, product, a, right);
  check_lanes("right", in_axes<none, 0>, product, left, b);
  check_lanes("right, turned", in_axes<none, 1>, product, left, turned);
  check_lanes("left from the end", in_axes<-1, none>, product, cube(numbers(7, 3, 5, 4)), right);
  const auto row = [](const vec& x, const matrix& y) { return matmul(x, y); };
  check_lanes("rows of a matrix", in_axes<0, none>, row, rows, right);
  check_lanes("a row and matrices", in_axes<none, 0>, row, vec(numbers(8, 5)), b);
  check_lanes("rows and matrices", in_axes<0, 0>, row, rows, b);
  check_lanes(
      "inner products", in_axes<0, 0>, [](const vec& x, const vec& y) { return sum(x * y); }, rows, rows);
  check_lanes(
      "batches", in_axes<0, none>, [](const cube& x, const matrix& y) { return matmul(x, y); },
      tensor<double, 4>(numbers(9, 4, 2, 3, 5)), right);
  check_lanes(
      "einsum", in_axes<0, none>, [](const matrix& x, const cube& y) { return einsum<"ik,ikj->ij">(x, y); }, a,
      cube(numbers(10, 3, 5, 2)));
  check_lanes(
      "attention", in_axes<0, 0, 0>,
      [](const matrix& q, const matrix& k, const matrix& v) {
        return matmul(softmax(matmul(q, transpose(k)) * 0.5, axis<-1>), v);
      },
      a, cube(numbers(11, 4, 6, 5)), cube(numbers(12, 4, 6, 2)));
}

TEST_CASE("vmap of indexing: indices, tables, or both have lanes") {
  const matrix table = numbers(1, 7, 3);
  const cube tables = numbers(2, 4, 7, 3);
  const ids at = some_ids(3, 5, 7);
  const auto each = some_ids(4, 4, 5, 7);
  const auto rows = [](const matrix& t, const ids& i) { return take(t, i); };
  check_lanes("take at indices", in_axes<none, 0>, rows, table, each);
  check_lanes("take of tables", in_axes<0, none>, rows, tables, at);
  check_lanes("take of both", in_axes<0, 0>, rows, tables, each);
  check_lanes(
      "take one", in_axes<none, 0>, [](const matrix& t, const count& i) { return take(t, reshape(i, 1)); }, table,
      some_ids(5, 4, 7));
  check_lanes(
      "take of columns", in_axes<0, 0>, [](const matrix& t, const ids& i) { return take(t, i, axis<1>); }, tables,
      some_ids(6, 4, 2, 3));
  check_lanes(
      "take_along_axis", in_axes<0, 0>,
      [](const matrix& t, const tensor<std::int64_t, 2>& i) { return take_along_axis(t, i, axis<0>); }, tables,
      tensor<std::int64_t, 3>(reshape(some_ids(7, 4, 6, 7), {4, 2, 3})));
  check_lanes(
      "one_hot", in_axes<0>, [](const ids& i) { return one_hot<double>(i, 7); }, each);
  const auto added = [](const matrix& t, const ids& i, const matrix& u) { return scatter_add(t, i, u); };
  const matrix update = numbers(8, 5, 3);
  const cube updates = numbers(9, 4, 5, 3);
  check_lanes("scatter_add of all", in_axes<0, 0, 0>, added, tables, each, updates);
  check_lanes("scatter_add into tables", in_axes<0, none, none>, added, tables, at, update);
  check_lanes("scatter_add at indices", in_axes<none, 0, none>, added, table, each, update);
  check_lanes("scatter_add of updates", in_axes<none, none, 0>, added, table, at, updates);
  const auto loss = [](const matrix& logits, const ids& labels) { return cross_entropy(logits, labels); };
  check_lanes("cross_entropy", in_axes<0, 0>, loss, cube(numbers(10, 4, 5, 7)), each);
  check_lanes("cross_entropy of labels", in_axes<none, 0>, loss, matrix(numbers(11, 5, 7)), each);
  check_lanes("cross_entropy of logits", in_axes<1, none>, loss, cube(numbers(12, 5, 4, 7)), at);
}

TEST_CASE("vmap of functions that rearrange") {
  const cube x = numbers(1, 4, 3, 5), y = numbers(2, 4, 2, 5);
  const matrix m = numbers(3, 2, 5);
  check_lanes(
      "views", in_axes<0>,
      [](const matrix& m) {
        return std::tuple{transpose(m), flip<0>(m), reshape(m, {5, 3}), expand_dims<1>(m)};
      },
      x);
  check_lanes(
      "parts", in_axes<1>,
      [](const matrix& m) {
        return std::tuple{slice<0>(m, 1, 3), slice<1>(m, -1, -5, -2), squeeze(slice<0>(m, 0, 1), axis<0>)};
      },
      x);
  check_lanes(
      "triangles", in_axes<0>, [](const matrix& m) { return tril(m) + triu(m, 1) * 2.0; }, x);
  check_lanes(
      "pad", in_axes<0>,
      [](const matrix& m) {
        return pad(m, {{1, 0}, {0, 2}}, 1.5);
      },
      x);
  check_lanes(
      "concat", in_axes<0, 0>, [](const matrix& a, const matrix& b) { return concat<0>(a, b); }, x, y);
  check_lanes(
      "concat with what is shared", in_axes<0, none>,
      [](const matrix& a, const matrix& b) { return concat<0>(b, a, b); }, x, m);
  check_lanes(
      "stack with what is shared", in_axes<none, 0>, [](const matrix& a, const matrix& b) { return stack<1>(a, b); }, m,
      y);
  check_lanes(
      "broadcast_to", in_axes<0>,
      [](const vec& v) {
        return broadcast_to(v, {2, 5});
      },
      matrix(numbers(4, 3, 5)));
  check_lanes(
      "tile", in_axes<0>,
      [](const matrix& m) {
        return tile(m, {2, 1});
      },
      x);
}

TEST_CASE("vmap of random numbers: a key each by split, through stack_tree") {
  const auto keys = stack_tree(split(make_key(7), 4));
  const auto draw = [](const key& k) {
    const auto [a, b] = split(k);
    return std::tuple{normal<double>(a, 3), uniform<double>(b, 2, 2), bernoulli(k, 0.5, 6),
                      randint<std::int64_t>(a, 0, 9, 4)};
  };
  check_lanes("keys", in_axes<0>, draw, keys);
  const auto [a, b, c, d] = vmap(draw)(keys);
  CHECK(a.to_vector() != std::get<0>(vmap(draw)(stack_tree(split(make_key(8), 4)))).to_vector());
  const auto rows = a.to_vector();
  CHECK(doctest::Approx(rows[0]) != rows[3]);
  check_lanes(
      "a key for all", in_axes<0, none>, [](const vec& x, const key& k) { return x + normal<double>(k, 3); },
      matrix(numbers(1, 4, 3)), make_key(3));
}

TEST_CASE("vmap of trees: containers are rebuilt, stacks arrive as structs, structs come back as stacks") {
  const matrix x = numbers(1, 4, 3);
  using tree = std::tuple<std::vector<vec>, std::array<real, 2>, std::optional<vec>, double>;
  const auto f = [](const tree& t) {
    const auto& [list, two, maybe, by] = t;
    vec y = list[0] * by + list[1] * two[0];
    if (maybe) y = y + *maybe;
    return std::pair{std::vector<vec>{y, vec(y * two[1])}, std::optional<real>(sum(y))};
  };
  const std::tuple args{std::vector<matrix>{x, matrix(x * 2.0)},
                        std::array<vec, 2>{vec(numbers(2, 4)), vec(numbers(3, 4))},
                        std::optional<matrix>(numbers(4, 4, 3)), 1.5};
  check_lanes("a tree", in_axes<0>, f, args);
  const auto apply = [](const linear& p, const vec& v) {
    return linear{matrix(p.w * static_cast<double>(p.power)), vec(matmul(v, p.w) + p.b), p.power};
  };
  check_lanes("stacks", in_axes<0, 0>, apply, layers(4), x);
  check_lanes("a struct for all", in_axes<none, 0>, apply, make_linear(9), x);
  const stacked<linear> out = vmap(apply)(layers(4), x);
  CHECK(out[2].power == 2);
  check_same(out[2].b, apply(make_linear(2), squeeze(slice<0>(x, 2, 3), axis<0>)).b);
}

TEST_CASE("vmap: numbers and flags pass through, captured tensors are shared") {
  const matrix x = numbers(1, 4, 3);
  const vec shared = numbers(2, 3);
  const auto f = [&](const vec& v, double by, bool negate, const std::string& name) {
    CHECK(name == "row");
    return vec((negate ? -v : v) * by + shared);
  };
  const matrix want = matrix(-x * 2.5 + shared);
  check_same(vmap(f)(x, 2.5, true, std::string("row")), want);
  const auto g = compile([&](const matrix& x, double by) { return vmap(f)(x, by, true, std::string("row")); });
  check_same(g(x, 2.5), want);
  check_same(g(x, 1.5), matrix(-x * 1.5 + shared));
}

TEST_CASE("vmap: out_axes, for all results and for each; what does not differ is repeated or given once") {
  const matrix x = numbers(1, 4, 3);
  const auto f = [](const vec& v) { return std::tuple{vec(v * 2.0), sum(v), matrix(expand_dims<1>(v) * v)}; };
  const auto [a, b, c] = vmap(f, out_axes<1, 0, -1>)(x);
  check_same(a, matrix(transpose(x) * 2.0));
  check_same(b, vec(sum(x, axis<1>)));
  check_same(c, cube(permute(cube(expand_dims<2>(x) * expand_dims<1>(x)), axis<1, 2, 0>)));
  const auto middle =
      vmap([](const vec& v) { return matrix(expand_dims<1>(v) * v); }, in_axes<1>, out_axes<1>)(transpose(x));
  check_same(middle, cube(permute(cube(expand_dims<2>(x) * expand_dims<1>(x)), axis<1, 0, 2>)));
  const vec constant = numbers(2, 2);
  const auto g = [&](const vec& v) { return std::pair{constant, sum(v)}; };
  const auto [repeated, sums] = vmap(g)(x);
  check_same(repeated, matrix(broadcast_to(constant, {4, 2})));
  const auto turned = vmap(g, out_axes<1, 0>)(x).first;
  check_same(turned, matrix(transpose(broadcast_to(constant, {4, 2}))));
  const auto once = compile([&](const matrix& x) { return vmap(g, out_axes<none, 0>)(x); })(x).first;
  static_assert(decltype(once)::rank == 1);
  check_same(once, constant);
}

TEST_CASE("vmap of vmap, over other axes") {
  const cube x = numbers(1, 4, 3, 5);
  const auto inner = [](const vec& a, const vec& b) { return sum(a * b) + a * 2.0; };
  const auto twice = [&](const cube& x, const matrix& y) {
    return vmap([&](const matrix& m, const vec& b) { return vmap(inner, in_axes<1, none>, out_axes<1>)(m, b); },
                in_axes<2, 1>)(permute(x, axis<2, 1, 0>), permute(y, axis<0, 1>));
  };
  // Of x turned, (5, 3, 4): lanes of the last axis; in each the columns of (5, 3).
  const matrix four = numbers(3, 5, 4);
  const auto f = [&](const cube& x, const matrix& y) { return twice(x, y); };
  const cube got = f(x, four);
  REQUIRE(got.shape() == index_array<3>{4, 5, 3});
  for (const char* backend : {"cpu", "reference"}) check_same(compile(f, {.backend = backend})(x, four), got);
  const auto xs = x.to_vector(), bs = four.to_vector(), out = got.to_vector();
  for (int l = 0; l < 4; ++l)
    for (int j = 0; j < 3; ++j) {
      double total = 0;
      for (int i = 0; i < 5; ++i)
        total += xs[static_cast<std::size_t>((l * 3 + j) * 5 + i)] * bs[static_cast<std::size_t>(i * 4 + l)];
      for (int i = 0; i < 5; ++i)
        CHECK(out[static_cast<std::size_t>((l * 5 + i) * 3 + j)] ==
              doctest::Approx(total + 2 * xs[static_cast<std::size_t>((l * 3 + j) * 5 + i)]));
    }
}

TEST_CASE("vmap: one specialisation for any number of lanes, and after a graph break") {
  const auto f = [](const matrix& x, const matrix& w) {
    return vmap([&](const vec& row) { return softmax(matmul(row, w)) * sum(row); })(x);
  };
  const auto g = compile(f, {.dynamic = dynamic::yes});
  const matrix w = numbers(1, 3, 5);
  for (int n : {4, 2, 9, 33}) {
    const matrix x = numbers(n, n, 3);
    check_same(g(x, w), looped(
                            in_axes<0>, [&](const vec& row) { return vec(softmax(matmul(row, w)) * sum(row)); }, x));
  }
  CHECK(g.specialisations() == 1);
  const auto learns = compile(f);
  for (int n : {4, 2, 9, 33}) learns(numbers(n, n, 3), w);
  CHECK(learns.specialisations() <= 2);
  const auto breaks = compile([&](const matrix& x, const matrix& w) {
    const matrix y = f(x, w);
    const double total = real(sum(y)).item();
    return f(matrix(x * total), w);
  });
  const matrix x = numbers(7, 4, 3);
  check_same(breaks(x, w), f(matrix(x * real(sum(f(x, w))).item()), w));
  CHECK(breaks.report().breaks.size() == 1);
}

TEST_CASE("vmap refuses in words") {
  const matrix x = numbers(1, 4, 3), y = numbers(2, 5, 3);
  const auto both = [](const vec& a, const vec& b) { return a + b; };
  const auto unequal = error_of([&] { vmap(both)(x, y); });
  CHECK(contains(unequal, "[vmap] argument 1 has 5 lanes, argument 0 has 4"));
  CHECK(contains(unequal, "by the entry none in in_axes"));
  CHECK(contains(error_of([&] { compile([&](const matrix& x, const matrix& y) { return vmap(both)(x, y); })(x, y); }),
                 "has 5 lanes"));
  const auto read = error_of([&] { vmap([](const vec& v) { return vec(v * real(sum(v)).item()); })(x); });
  CHECK(contains(read, "within vmap the tensor stands for those of all lanes and has no values; select with where"));
  const auto deeper = error_of([&] {
    vmap([](const vec& v) {
      return fori_loop(
          0, 2, [](const auto&, const vec& c) { return vec(c * real(sum(c)).item()); }, v);
    })(x);
  });
  CHECK(contains(deeper, "within vmap"));
  const auto branched = error_of([&] {
    vmap([](const vec& v) {
      if (sum(v) > 0.0) return v;
      return vec(-v);
    })(x);
  });
  CHECK(contains(branched, "cond"));
  CHECK(contains(error_of([&] { vmap([](const vec& v) { return v; }, out_axes<none>)(x); }),
                 "differs from lane to lane"));
  std::vector<matrix> list{x, y};
  CHECK(contains(error_of([&] { vmap([](const std::vector<vec>& v) { return v[0]; })(list); }),
                 "the tensors of argument 0 have 4 and 5 lanes"));
  CHECK(contains(error_of([&] { vmap([](const std::vector<vec>&) { return real(1.0); })(std::vector<matrix>{}); }),
                 "no lanes"));
}
