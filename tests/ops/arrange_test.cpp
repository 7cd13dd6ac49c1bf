// What rearranges and builds: every function against loops over coordinates, on every backend, with derivatives; vmap, open extents, errors.
#include "walk.hpp"

using namespace sinter;
using ops::array;
using ops::coord;
using ops::get;
using ops::make;

namespace {

using matrix = tensor<double, 2>;
using cube = tensor<double, 3>;
using vec = tensor<double, 1>;

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

/// log of the running sums of exponentials, in long double.
array running_logs(const array& x) {
  return make(x.extents, [&](coord c) {
    long double sum = 0;
    for (std::int64_t j = c[1]; c[1] >= 0; --c[1]) sum += std::exp(static_cast<long double>(get(x, c))), (void)j;
    return static_cast<double>(std::log(sum));
  });
}

array covariances(const array& x, int ddof) {
  const std::int64_t n = x.extents[0], m = x.extents[1];
  std::vector<double> mean(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < m; ++k) mean[static_cast<std::size_t>(i)] += get(x, {i, k}) / static_cast<double>(m);
  return make({n, n}, [&](const coord& c) {
    double sum = 0;
    for (std::int64_t k = 0; k < m; ++k)
      sum += (get(x, {c[0], k}) - mean[static_cast<std::size_t>(c[0])]) *
             (get(x, {c[1], k}) - mean[static_cast<std::size_t>(c[1])]);
    return sum / static_cast<double>(m - ddof);
  });
}

/// Element (i, i + k) of axes 0 and 1 at the end.
array diagonal_of(const array& x, std::int64_t k) {
  const std::int64_t rows = x.extents[0], columns = x.extents[1], down = std::max<std::int64_t>(-k, 0),
                     right = std::max<std::int64_t>(k, 0);
  coord e(x.extents.begin() + 2, x.extents.end());
  e.push_back(std::max<std::int64_t>(0, std::min(rows - down, columns - right)));
  return make(e, [&](const coord& c) {
    coord at{c.back() + down, c.back() + right};
    at.insert(at.end(), c.begin(), c.end() - 1);
    return get(x, at);
  });
}

#define ROW(NAME, WANT, F, ...) \
  w.smooth(                     \
      NAME, WANT, 1e-13, [](const auto& t) { return F; }, __VA_ARGS__)

void moved(ops::walk& w, const matrix& x, const cube& z) {
  const array a = ops::values(x), b = ops::values(z);
  const std::int64_t n = a.extents[0], m = a.extents[1];
  const auto flat = [&](std::int64_t i) { return a.at[static_cast<std::size_t>(wrapped(i, n * m))]; };
  ROW("roll", make(a.extents, [&](const coord& c) { return flat(c[0] * m + c[1] - 2); }), roll(t, 2), x);
  ROW("roll back", make(a.extents, [&](const coord& c) { return flat(c[0] * m + c[1] + 17); }), roll(t, -17), x);
  ROW("roll an axis",
      make(a.extents,
           [&](const coord& c) {
             return get(a, {c[0], wrapped(c[1] - 9, m)});
           }),
      roll(t, 9, axis<-1>), x);
  ROW("roll two",
      make(a.extents,
           [&](const coord& c) {
             return get(a, {wrapped(c[0] + 1, n), wrapped(c[1] + 1, m)});
           }),
      roll(t, -1, axis<0, 1>), x);
  ROW("repeat", make({n * m * 2}, [&](const coord& c) { return flat(c[0] / 2); }), repeat(t, 2), x);
  ROW("repeat an axis",
      make({n * 3, m},
           [&](const coord& c) {
             return get(a, {c[0] / 3, c[1]});
           }),
      repeat(t, 3, axis<0>), x);
  for (const std::int64_t k : {0, 1, -2, 9}) {
    w.smooth(
        "diagonal", diagonal_of(a, k), 0, [k](const auto& t) { return diagonal(t, k); }, x);
    w.smooth(
        "diagonal of more axes", diagonal_of(b, k), 0, [k](const auto& t) { return diagonal(t, k); }, z);
    double sum = 0;
    for (double v : diagonal_of(a, k).at) sum += v;
    w.smooth(
        "trace_of", array{{}, {sum}}, 1e-14, [k](const auto& t) { return trace_of(t, k); }, x);
  }
  ROW("diagonal of the last axes, turned",
      make({b.extents[0], std::min(b.extents[1], b.extents[2] - 1)},
           [&](const coord& c) {
             return get(b, {c[0], c[1], c[1] + 1});
           }),
      (diagonal<-1, 1>(t, -1)), z);
  ROW("moveaxis",
      make({b.extents[1], b.extents[2], b.extents[0]},
           [&](const coord& c) {
             return get(b, {c[2], c[0], c[1]});
           }),
      moveaxis(t, axis<0>, axis<-1>), z);
  ROW("moveaxis of two",
      make({b.extents[2], b.extents[1], b.extents[0]},
           [&](const coord& c) {
             return get(b, {c[2], c[1], c[0]});
           }),
      moveaxis(t, axis<0, 2>, axis<2, 0>), z);
  ROW("swapaxes",
      make({b.extents[2], b.extents[1], b.extents[0]},
           [&](const coord& c) {
             return get(b, {c[2], c[1], c[0]});
           }),
      (swapaxes<0, 2>(t)), z);
  ROW("rot90", make({m, n}, [&](const coord& c) { return get(a, {c[1], m - 1 - c[0]}); }), rot90(t), x);
  ROW("rot90 twice",
      make({n, m},
           [&](const coord& c) {
             return get(a, {n - 1 - c[0], m - 1 - c[1]});
           }),
      rot90<2>(t), x);
  ROW("rot90 back", make({m, n}, [&](const coord& c) { return get(a, {n - 1 - c[1], c[0]}); }), rot90<-1>(t), x);
  ROW("rot90 of other axes",
      make({b.extents[0], b.extents[2], b.extents[1]},
           [&](const coord& c) {
             return get(b, {c[0], c[2], b.extents[2] - 1 - c[1]});
           }),
      (rot90<1, 1, 2>(t)), z);
}

void made(ops::walk& w, const matrix& x, const matrix& y, const vec& v) {
  const array a = ops::values(x), b = ops::values(y), c1 = ops::values(v);
  const std::int64_t n = a.extents[0], m = a.extents[1], p = b.extents[0], q = b.extents[1], l = c1.extents[0];
  for (const std::int64_t k : {0, 2, -1}) {
    const std::int64_t side = l + std::abs(k);
    w.smooth(
        "diag of a vector",
        make({side, side}, [&](const coord& c) { return c[1] - c[0] == k ? get(c1, {std::min(c[0], c[1])}) : 0; }), 0,
        [k](const auto& t) { return diag(t, k); }, v);
    w.smooth(
        "diag of a matrix", diagonal_of(a, k), 0, [k](const auto& t) { return diag(t, k); }, x);
  }
  ROW("outer",
      make({n * m, n * m},
           [&](const coord& c) { return a.at[static_cast<std::size_t>(c[0])] * a.at[static_cast<std::size_t>(c[1])]; }),
      outer(t, t), x);
  w.smooth(
      "kron",
      make({n * p, m * q},
           [&](const coord& c) {
             return get(a, {c[0] / p, c[1] / q}) * get(b, {c[0] % p, c[1] % q});
           }),
      1e-15, [](const auto& s, const auto& t) { return kron(s, t); }, x, y);
  w.smooth(
      "kron of a vector",
      make({p, q * l},
           [&](const coord& c) {
             return get(b, {c[0], c[1] / l}) * get(c1, {c[1] % l});
           }),
      1e-15, [](const auto& s, const auto& t) { return kron(s, t); }, y, v);
  w.smooth(
      "block_diag",
      make({n + p + n, m + q + m},
           [&](const coord& c) {
             if (c[0] < n) return c[1] < m ? get(a, c) : 0;
             if (c[0] < n + p) return c[1] >= m && c[1] < m + q ? get(b, {c[0] - n, c[1] - m}) : 0;
             return c[1] >= m + q ? get(a, {c[0] - n - p, c[1] - m - q}) : 0;
           }),
      0, [](const auto& s, const auto& t) { return block_diag(s, t, s); }, x, y);
  w.smooth(
      "meshgrid",
      make({n * m, l}, [&](const coord& c) { return get(c1, {c[1]}) * a.at[static_cast<std::size_t>(c[0])]; }), 1e-15,
      [](const auto& s, const auto& t) {
        const auto [columns, rows] = meshgrid(t, flatten(s));
        return columns * rows;
      },
      x, v);
  w.smooth(
      "meshgrid by indices",
      make({l, n * m, l},
           [&](const coord& c) { return get(c1, {c[0]}) * a.at[static_cast<std::size_t>(c[1])] - get(c1, {c[2]}); }),
      1e-15,
      [](const auto& s, const auto& t) {
        const auto [i, j, k] = meshgrid<indexing::ij>(t, flatten(s), t);
        return i * j - k;
      },
      x, v);
}

void combined(ops::walk& w, const matrix& x) {
  const array a = ops::values(x);
  const std::int64_t n = a.extents[0], m = a.extents[1];
  const auto step = [](const array& u, std::int64_t times) {
    array d = u;
    for (; times > 0; --times) {
      const array before = d;
      d = make({before.extents[0], std::max<std::int64_t>(before.extents[1] - 1, 0)}, [&](const coord& c) {
        return get(before, {c[0], c[1] + 1}) - get(before, c);
      });
    }
    return d;
  };
  ROW("diff", step(a, 1), diff(t), x);
  ROW("diff of none", a, diff(t, 0), x);
  ROW("diff three times", step(a, 3), diff(t, 3), x);
  ROW("diff of rows",
      make({std::max<std::int64_t>(n - 1, 0), m},
           [&](const coord& c) {
             return get(a, {c[0] + 1, c[1]}) - get(a, c);
           }),
      diff(t, 1, axis<0>), x);
  ROW("logcumsumexp", running_logs(a), logcumsumexp(t), x);
  ROW("glu",
      make({n, m / 2},
           [&](const coord& c) {
             return get(a, c) / (1 + std::exp(-get(a, {c[0], c[1] + m / 2})));
           }),
      glu(t), x);
}
#undef ROW

}  // namespace

TEST_CASE("functions that move elements, and their derivatives") {
  SUBCASE("contiguous") {
    ops::walk w;
    moved(w, ops::between<double, 2>({3, 5}, -2, 2), ops::between<double, 3>({3, 2, 4}, -2, 2, 2));
    w.run();
  }
  SUBCASE("views, of more rows") {
    ops::walk w;
    moved(w, transpose(flip<0>(ops::between<double, 2>({2, 5}, -2, 2))),
          transpose<0, 2>(ops::between<double, 3>({2, 2, 5}, -2, 2, 2)));
    w.run();
  }
  SUBCASE("one element") {
    ops::walk w;
    moved(w, ops::between<double, 2>({1, 1}, -2, 2), ops::between<double, 3>({1, 1, 1}, -2, 2));
    w.run();
  }
}

TEST_CASE("functions that make matrices, and their derivatives") {
  for (const std::int64_t n : {1, 2}) {
    CAPTURE(n);
    ops::walk w;
    made(w, ops::between<double, 2>({n, 3}, -2, 2), ops::between<double, 2>({2, n}, -2, 2, 2),
         ops::between<double, 1>({n + 1}, -2, 2, 3));
    w.run();
  }
}

TEST_CASE("differences, running logarithms, covariances") {
  ops::walk w;
  const auto x = ops::between<double, 2>({3, 6}, -3, 3);
  combined(w, x);
  const array a = ops::values(x), c = covariances(a, 1);
  w.smooth(
      "cov", c, 1e-14, [](const auto& t) { return cov(t); }, x);
  w.smooth(
      "cov of all", covariances(a, 0), 1e-14, [](const auto& t) { return cov(t, 0); }, x);
  w.smooth(
      "corrcoef",
      make({3, 3},
           [&](const coord& at) {
             return get(c, at) / std::sqrt(get(c, {at[0], at[0]}) * get(c, {at[1], at[1]}));
           }),
      1e-14, [](const auto& t) { return corrcoef(t); }, x);
  w.smooth(
      "cov of a vector", array{{}, {covariances({{1, 18}, a.at}, 1).at[0]}}, 1e-14,
      [](const auto& t) { return cov(flatten(t)); }, x);
  w.run();
  CHECK(corrcoef(flatten(x)).item() == 1);
}

TEST_CASE("running logarithms reach what exp does not") {
  const double inf = std::numeric_limits<double>::infinity();
  ops::walk w;
  const vec x{-inf, -2000, 1000, 999, -5000, inf};
  w.row(
      "logcumsumexp",
      array{{6}, {-inf, -2000, 1000, 1000 + std::log1p(std::exp(-1.0)), 1000 + std::log1p(std::exp(-1.0)), inf}}, 1e-16,
      [](const vec& t) { return logcumsumexp(t); }, x);
  w.run();
  const auto h = logcumsumexp(tensor<f16, 1>{f16(1.f), f16(2.f)}).to_vector();
  CHECK(static_cast<float>(h[1]) == doctest::Approx(2.3132617).epsilon(1e-3));
}

TEST_CASE("nothing, in every place") {
  const auto none = zeros<float>(0, 3);
  CHECK(roll(none, 2).shape() == none.shape());
  CHECK(roll(none, 2, axis<0>).shape() == none.shape());
  CHECK(repeat(none, 4, axis<1>).shape() == std::array<dim, 2>{0, 12});
  CHECK(repeat(ones<float>(2), 0).numel() == 0);
  CHECK(diagonal(none).numel() == 0);
  CHECK(trace_of(none).item() == 0);
  CHECK(diag(zeros<float>(0)).shape() == std::array<dim, 2>{0, 0});
  CHECK(diag(zeros<float>(0), 2).shape() == std::array<dim, 2>{2, 2});
  CHECK(diff(none, 1, axis<0>).shape() == none.shape());
  CHECK(diff(ones<float>(2), 5).numel() == 0);
  CHECK(kron(none, none).shape() == std::array<dim, 2>{0, 9});
  CHECK(block_diag(none, ones<float>(1, 1)).shape() == std::array<dim, 2>{1, 4});
  CHECK(logcumsumexp(none, axis<0>).shape() == none.shape());
  CHECK(rot90(none).shape() == std::array<dim, 2>{3, 0});
  CHECK(glu(none, axis<0>).shape() == none.shape());
  CHECK(tril_indices(0)[0].numel() == 0);
}

TEST_CASE("what is repeated or moved has elements of its own, also by nothing") {
  const vec a{1, 2};
  const auto change = [](vec y) {
    y(0) = 7;
    return y.to_vector();
  };
  using doubles = std::vector<double>;
  CHECK(change(repeat(vec{5}, 4)) == doubles{7, 5, 5, 5});
  CHECK(change(repeat(a, 1)) == doubles{7, 2});
  CHECK(change(repeat(a, 1, axis<0>)) == doubles{7, 2});
  CHECK(change(roll(a, 0)) == doubles{7, 2});
  CHECK(change(roll(a, 0, axis<0>)) == doubles{7, 2});
  CHECK(change(flatten(repeat(matrix{{1, 2}}, 3, axis<0>))) == doubles{7, 2, 1, 2, 1, 2});
  CHECK(a.to_vector() == doubles{1, 2});
}

TEST_CASE("shifts and diagonals of any 64 bits") {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  const vec x{1, 2, 3};
  for (const std::int64_t shift : {least, most, std::int64_t{-2}}) {
    CHECK(roll(x, shift).to_vector() == std::vector<double>{3, 1, 2});
    CHECK(compile([shift](const vec& t) { return roll(t, shift); }, {.backend = "reference"})(x).to_vector() ==
          std::vector<double>{3, 1, 2});
  }
  const matrix square{{1, 2}, {3, 4}};
  for (const std::int64_t k : {least, most}) {
    CHECK(diagonal(square, k).numel() == 0);
    CHECK(diagonal<1, 0>(square, k).numel() == 0);
    CHECK(ops::contains(ops::error_of([&] { (void)diag(x, k); }), "is too large"));
  }
}

TEST_CASE("indices of triangles are those of tril and triu") {
  for (const std::int64_t k : {-7, -1, 0, 1, 9})
    for (const std::int64_t m : {2, 4}) {
      const auto [rows, columns] = tril_indices(3, k, m);
      const auto [above, right] = triu_indices(3, k + 1, m);
      std::vector<std::int64_t> want, got;
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < m; ++j)
          if (j - i <= k) want.push_back(i * m + j);
      for (std::int64_t i = 0; i < rows.numel(); ++i) got.push_back(rows(i) * m + columns(i));
      CHECK(got == want);
      CHECK(above.numel() + rows.numel() == 3 * m);
      if (right.numel() > 0) CHECK(right(0) - above(0) > k);
    }
}

namespace {

/// What vmap and open extents are tried on: all that is made of more than one view.
vec everything(const matrix& x, const vec& v) {
  const vec first = concat<0>(flatten(roll(x, 4)), flatten(roll(x, -1, axis<0>)), flatten(repeat(x, 2, axis<1>)),
                              diagonal(x, 1), diag(x, -1), flatten(diag(v, 1)), flatten(kron(x, x)));
  const vec second = concat<0>(flatten(diff(x)), flatten(cov(x)), flatten(logcumsumexp(x)), flatten(block_diag(x, x)),
                               flatten(rot90(x)), flatten(moveaxis(x, axis<0>, axis<1>)), nanvar(x, axis<0>, 1),
                               vec(nanmax(x, axis<1>)));
  return concat<0>(first, second, flatten(outer(v, v)), vec(sinc(v)), vec(lgamma(v)), vec(hypot(v, 2.0)),
                   vec(logaddexp(v, erfinv(v / 9))));
}

}  // namespace

TEST_CASE("open extents and vmap, beside eager calls and a loop") {
  for (const char* backend : {"reference", "cpu"}) {
    CAPTURE(std::string(backend));
    options how;
    how.backend = backend;
    const auto compiled = compile(everything, how);
    for (const std::int64_t n : {3, 4, 5}) {
      CAPTURE(n);
      const auto x = ops::between<double, 2>({n, 4}, 0.3, 2, int(n));
      const auto v = ops::between<double, 1>({n}, 0.3, 2, 9);
      ops::check_equal(ops::values(compiled(x, v)), ops::values(everything(x, v)), 1e-12);
    }
    const auto lanes = compile(vmap(everything), how);
    const auto xs = ops::between<double, 3>({2, 3, 4}, 0.3, 2);
    const auto vs = ops::between<double, 2>({2, 3}, 0.3, 2);
    const matrix all = lanes(xs, vs);
    for (std::int64_t i = 0; i < 2; ++i) {
      const matrix x = reshape(slice<0>(xs, i, i + 1), 3, 4);
      const vec v = reshape(slice<0>(vs, i, i + 1), 3);
      ops::check_equal(ops::values(vec(reshape(slice<0>(all, i, i + 1), -1))), ops::values(everything(x, v)), 1e-12);
    }
  }
}

TEST_CASE("what does not fit is told") {
  const auto error = [](auto f) { return ops::error_of(f); };
  const auto x = ones<float>(2, 3);
  CHECK(ops::contains(error([&] { (void)repeat(x, -1); }), "[repeat] the number of times is negative: -1"));
  CHECK(ops::contains(error([&] { (void)repeat(x, std::int64_t{1} << 60, axis<0>); }), "too many elements"));
  CHECK(ops::contains(error([&] { (void)diff(x, -2); }), "[diff] the number of times is negative: -2"));
  CHECK(ops::contains(error([&] { (void)glu(x); }), "[glu] axis 1 of (2, 3) has no two halves"));
  CHECK(ops::contains(error([&] { (void)tril_indices(-1); }), "[tril_indices] an extent is negative"));
  CHECK(ops::contains(error([&] { (void)triu_indices(2, 0, -3); }), "[triu_indices] an extent is negative"));
}
