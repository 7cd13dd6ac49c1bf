// stablehlo::save: every op of every dtype, moves, products, loops and weights as modules, which an interpreter of the text runs.
#include <doctest/doctest.h>
#include <sinter/fft.hpp>
#include <sinter/linalg.hpp>
#include <sinter/nn.hpp>
#include <sinter/sinter.hpp>
#include <sinter/stablehlo.hpp>
#include <sinter/windows.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "../scratch_folder.hpp"
#include "../texts.hpp"
#include "interpreter.hpp"

using namespace sinter;
using texts::contains;
using texts::message_of;

namespace {

const std::set<ir::op> without_counterpart{ir::op::polygamma,  ir::op::erfinv,       ir::op::lgamma,
                                           ir::op::digamma,    ir::op::philox,       ir::op::gauss,
                                           ir::op::gamma_root, ir::op::poisson_count};

hlo::array numbers(dtype t, std::vector<std::int64_t> extents, const std::vector<double>& v) {
  hlo::array x{t, {extents.begin(), extents.end()}, {}, {}};
  for (const double e : v) {
    if (is_float(t)) x.f.push_back(hlo::rounded(t, e));
    else x.i.push_back(ir::scalar::of(t, e).i);
  }
  return x;
}

/// The operands of a pointwise op: every pair of these numbers, and for a third operand others.
std::vector<double> specials(dtype t) {
  const double inf = HUGE_VAL;
  if (is_bool(t)) return {0, 1};
  if (!is_float(t)) return {0, 1, 2, 3, 5, 7, 8, 31, 64, 100, -1, -2, -7, -100, 1e30, -1e30};
  return {0,    -0.0, 1,   -1,  0.5,  -0.5,  2,     3,    -2.5, 0.3,  -0.3,         1e-3, 0.999, 7.25,
          -7.5, 20,   -20, 100, 1e30, -1e30, 1e-30, 12.5, inf,  -inf, std::nan(""), 4,    -3};
}

struct operands {
  std::vector<hlo::array> x;
  operands(dtype t, int arity, bool selects) {
    const std::vector<double> all = specials(t);
    const auto n = static_cast<std::int64_t>(all.size());
    std::vector<double> a, b, c;
    for (const double p : all)
      for (const double q : all) {
        a.push_back(p);
        b.push_back(q);
        c.push_back(static_cast<double>(c.size() % 3 == 0));
      }
    if (selects) x.push_back(numbers(dtype::b8, {n, n}, c));
    x.push_back(numbers(t, {n, n}, a));
    if (arity - selects > 1) x.push_back(numbers(t, {n, n}, b));
  }
};

double unit_of(dtype t) { return std::ldexp(1.0, -digits_of(t)); }

/// The first difference of two results, beyond some units of the dtype; "" without one.
std::string difference(const hlo::array& y, const hlo::array& want, double units) {
  if (y.type != want.type || !(y.extents == want.extents)) return "another type";
  for (std::size_t k = 0; k < want.i.size(); ++k)
    if (y.i[k] != want.i[k])
      return std::to_string(y.i[k]) + ", not " + std::to_string(want.i[k]) + " at " + std::to_string(k);
  for (std::size_t k = 0; k < want.f.size(); ++k) {
    const double p = y.f[k], q = want.f[k];
    const double least = want.type == dtype::f64 || want.type == dtype::f32 ? 1e-37 : 1e-7;
    if (p == q || (p != p && q != q) || std::fabs(p - q) <= units * unit_of(want.type) * std::fabs(q) + least) continue;
    return std::to_string(p) + ", not " + std::to_string(q) + " at " + std::to_string(k);
  }
  return "";
}

/// Writes a case for tests/stablehlo/run_by_jax.py where $SINTER_STABLEHLO_CASES names a folder.
void keep_case(const std::string& text, const std::vector<hlo::array>& in, const std::vector<hlo::array>& out) {
  const char* const folder = std::getenv("SINTER_STABLEHLO_CASES");
  if (!folder) return;
  static int next = 0;
  std::filesystem::create_directories(folder);
  const std::string path = std::string(folder) + "/case" + std::to_string(next++);
  std::ofstream(path + ".mlir") << text;
  std::ofstream values(path + ".txt");
  for (const auto* list : {&in, &out})
    for (const hlo::array& a : *list) {
      values << (list == &in ? "in " : "out ") << dtype_name(a.type);
      for (const auto e : a.extents) values << " " << e;
      values << "\n";
      char digits[40];
      for (const double v : a.f) std::snprintf(digits, sizeof digits, "%.17g ", v), values << digits;
      for (const auto v : a.i)
        values << (a.type == dtype::u64 ? std::to_string(static_cast<std::uint64_t>(v)) : std::to_string(v)) << " ";
      values << "\n";
    }
}

/// The graph's module against the reference's values.
void check_graph(const graph& g, const std::vector<hlo::array>& in, double units,
                 std::map<std::string, int>* seen = nullptr) {
  const std::string text = stablehlo::text(g);
  const auto want = ir::evaluate(g.body(), in);
  std::vector<hlo::array> got;
  INFO(text.substr(0, 4000));
  try {
    got = hlo::results_of(text, in, seen);
  } catch (const std::exception& e) {
    FAIL_CHECK(std::string(e.what()));
    return;
  }
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(difference(got[k], want[k], units) == "");
  keep_case(text, in, {want.begin(), want.end()});
}

template <class T, dims Shape>
hlo::array values_of(const tensor<T, Shape>& x) {
  hlo::array out{dtype_of<T>, {}, {}, {}};
  for (int d = 0; d < tensor<T, Shape>::rank; ++d) out.extents.push_back(x.size(d));
  for (const T v : x.to_vector()) {
    if constexpr (is_float(dtype_of<T>)) out.f.push_back(static_cast<double>(v));
    else out.i.push_back(static_cast<std::int64_t>(v));
  }
  return out;
}
/// The function's module against the reference's values for these arguments.
template <class F, class... X>
std::map<std::string, int> check(double units, F f, const X&... x) {
  std::map<std::string, int> seen;
  check_graph(trace(f)(x...), {values_of(x)...}, units, &seen);
  return seen;
}

tensor<float, 2> some(std::int64_t n, std::int64_t m) {
  return reshape(sin(arange<float>(n * m) * 1.7f + 0.3f) * 1.5f, n, m);
}
tensor<double, 4> image(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return reshape(sin(arange<double>(n * h * w * c) * 0.7 + 0.1), n, h, w, c);
}

}  // namespace

TEST_CASE("every pointwise op of every dtype") {
  int compared = 0;
  for (int k = 0; k < ir::pointwise_count; ++k) {
    const auto code = static_cast<ir::op>(k);
    const ir::pointwise_row& row = ir::row(code);
    for (int type = 0; type <= static_cast<int>(dtype::f8_e5m2); ++type) {
      const auto t = static_cast<dtype>(type);
      const bool selects = row.rule == ir::dtype_rule::selection;
      dtype kinds[3] = {t, t, t}, result{};
      if (selects) kinds[0] = dtype::b8;
      if (ir::names_type(row.rule) || ir::apply(row.rule, kinds, row.arity, t, result)) continue;
      const operands in(t, row.arity, selects);
      graph g{ir::graph()};
      std::vector<graph::id> ids;
      for (const hlo::array& x : in.x)
        ids.push_back(g.add_input(x.type, ir::shape(x.extents.begin(), x.extents.end())));
      while (ids.size() < static_cast<std::size_t>(row.arity)) ids.push_back(ids.back());
      g.set_outputs({g.push(code, {ids.begin(), ids.end()})});
      INFO(row.name, " of ", dtype_name(t));
      if (without_counterpart.contains(code)) {
        CHECK(
            contains(message_of([&] { stablehlo::text(g); }), std::string("no counterpart in StableHLO: ") + row.name));
        continue;
      }
      // In f32, compositions round at each of their steps.
      check_graph(g, in.x, 24);
      ++compared;
    }
  }
  CHECK(compared > 400);
}

TEST_CASE("conversions between all dtypes") {
  for (int from = 0; from <= static_cast<int>(dtype::f8_e5m2); ++from)
    for (int to = 0; to <= static_cast<int>(dtype::f8_e5m2); ++to) {
      const auto a = static_cast<dtype>(from), b = static_cast<dtype>(to);
      INFO(dtype_name(a), " to ", dtype_name(b));
      for (const ir::op code : {ir::op::cast, ir::op::bit_cast}) {
        const bool same = ir::has_own_bits(a) && ir::has_own_bits(b) && size_of(a) == size_of(b);
        if (code == ir::op::bit_cast && !same) continue;
        const operands in(a, 1, false);
        graph g{ir::graph()};
        const auto x = g.add_input(a, ir::shape(in.x[0].extents.begin(), in.x[0].extents.end()));
        ir::attributes how;
        how.type = b;
        g.set_outputs({g.push(code, {x}, how)});
        check_graph(g, in.x, 0);
      }
    }
}

TEST_CASE("moves, sizes of 1 and of 0") {
  const auto x = some(3, 4);
  const tensor<float, 2> none = zeros<float>(0, 4), one = some(1, 1);
  const auto moves = [](const auto& a) {
    return concat(transpose(flip(transpose(a), axis<0>)), pad(a, {{1, 2}, {0, 0}}, 0.5f), axis<0>) + 1.0f;
  };
  check(0, moves, x);
  check(0, moves, one);
  check(
      0, [](const tensor<float, 2>& a) { return concat(a, a, axis<0>) * 2.0f; }, none);
  check(
      0, [](const tensor<float, 2>& a) { return sum(a, axis<0>); }, none);
  check(
      4, [](const tensor<float, 2>& a) { return matmul(transpose(a), a); }, none);
  check(
      0, [](const tensor<float, 2>& a) { return broadcast_to(expand_dims(a, axis<1>), 3, 5, 4); }, x);
  check(
      0,
      [](const tensor<float, 2>& a) {
        return roll(a, 3, axis<1>) + reshape(sum(diagonal(matmul(a, transpose(a)))), 1, 1);
      },
      x);
  const tensor<float, 0> scalar = sum(x);
  check(
      0, [](const tensor<float, 0>& a) { return exp(a) + a; }, scalar);
}

TEST_CASE("reductions, orders and scans") {
  const auto x = some(5, 7);
  const tensor<std::int32_t, 2> n = cast<std::int32_t>(x * 3.0f);
  check(
      16, [](const auto& a) { return sum(a, axis<1>) + prod(a, axis<1>) + max(a, axis<1>) - min(a, axis<1>); }, x);
  check(
      16, [](const auto& a) { return sum(a, axis<1>) + prod(a, axis<1>) + max(a, axis<1>) - min(a, axis<1>); }, n);
  check(
      0, [](const auto& a) { return any(a > 0.5f, axis<0>) & all(a > -2.0f, axis<0>); }, x);
  check(
      0, [](const auto& a) { return argmax(a, axis<1>) + argmin(a, axis<1>); }, x);
  check(
      0, [](const auto& a) { return argmax(a, axis<1>) * 100 + argmin(a, axis<1>); }, n);
  check(
      0, [](const auto& a) { return argsort(a, axis<1>); }, n);
  check(
      0, [](const auto& a) { return sort(where(a > 1.0f, log(-abs(a)), a), axis<0>, {.descending = true}); }, x);
  check(
      0, [](const auto& a) { return topk(a, 3, axis<1>).values; }, x);
  check(
      16,
      [](const auto& a) {
        const auto positive = abs(a) + 0.25f;  // sums without cancellation
        return cumsum(positive, axis<1>) + cumprod(positive, axis<1>) + cummax(positive, axis<1>) +
               cummin(positive, axis<0>);
      },
      x);
  check(
      16, [](const auto& a) { return cumsum(a, axis<1>) + cumprod(a, axis<1>); }, n);
  check(
      0, [](const auto& a) { return searchsorted(sort(reshape(a, 35)), reshape(a, 35) * 0.7f); }, x);
  check(
      1e5, [](const auto& a) { return softmax(a, axis<1>) + norm(a, axis<1>, keepdims); }, x);
}

TEST_CASE("gathers and scatters: indices out of range, several updates") {
  const auto x = some(6, 3);
  const tensor<std::int64_t, 1> list{5, -3, 2, 9, 2, 0};
  const tensor<std::int32_t, 2> places = cast<std::int32_t>(some(6, 3) * 5.0f);
  check(
      0, [](const auto& a, const auto& i) { return take(a, i, axis<0>); }, x, list);
  check(
      0, [](const auto& a, const auto& i) { return take_along_axis(a, i, axis<0>); }, x, places);
  check(
      4, [](const auto& a, const auto& i) { return scatter_add(a, i, a * 2.0f, axis<0>); }, x, places);
  check(
      0, [](const auto& a, const auto& i) { return scatter_set(a, i, a * 2.0f, axis<0>); }, x, places);
  check(
      4, [](const auto& a, const auto& i) { return scatter_mul(a, i, a * 2.0f, axis<0>); }, x, places);
  check(
      0,
      [](const auto& a, const auto& i) { return scatter_max(a, i, a * 2.0f, axis<0>) + scatter_min(a, i, a, axis<1>); },
      x, places);
}

TEST_CASE("products, convolutions and pools have operations of their own") {
  const auto x = image(2, 7, 9, 3);
  const auto w = reshape(cos(arange<double>(3 * 2 * 3 * 4)), 3, 2, 3, 4);
  auto seen = check(
      64,
      [](const auto& a, const auto& b) {
        return conv<"nhwc,hwio->nhwc">(a, b, {.stride = {2, 1}, .padding = same});
      },
      x, w);
  CHECK(seen["stablehlo.convolution"] == 1);
  CHECK(seen["stablehlo.gather"] + seen["stablehlo.pad"] == 0);
  seen = check(
      64,
      [](const auto& a) {
        return max_pool2d(a, {3, 2});
      },
      image(1, 6, 6, 2));
  CHECK(seen["stablehlo.reduce_window"] == 1);
  seen = check(
      64,
      [](const auto& a) {
        return avg_pool2d(a, {2, 2});
      },
      image(1, 6, 6, 2));
  CHECK(seen["stablehlo.reduce_window"] == 1);
  seen = check(
      64, [](const auto& a, const auto& b) { return einsum<"bij,bjk->bik">(a, b); }, reshape(x, 14, 9, 3),
      reshape(x, 14, 3, 9));
  CHECK(seen["stablehlo.dot_general"] == 1);
  check(
      64,
      [](const auto& a, const auto& b) { return cast<f16>(cast<f16>(matmul(cast<f16>(a), cast<f16>(b))) + f16(1)); },
      some(3, 4), some(4, 2));
  check(
      0,
      [](const auto& a, const auto& b) { return matmul(cast<std::int8_t>(a * 90.0f), cast<std::int8_t>(b * 90.0f)); },
      some(3, 4), some(4, 2));
  check(
      1e6, [](const auto& q, const auto& k) { return attention(q, k, k, causal); }, some(5, 4), some(5, 4));
}

TEST_CASE("branches and loops") {
  const auto x = some(4, 3);
  auto seen = check(
      8,
      [](const tensor<float, 2>& a) {
        return cond(
            sum(a) > 0.0f, [](auto v) { return v * 2.0f; }, [](auto v) { return v - 1.0f; }, a);
      },
      x);
  CHECK(seen["stablehlo.if"] == 1);
  seen = check(
      8,
      [](const tensor<float, 2>& a) {
        return while_loop([](const tensor<float, 2>& v) { return sum(v * v) < 100.0f; },
                          [](const tensor<float, 2>& v) { return v * 1.5f; }, a);
      },
      x);
  CHECK(seen["stablehlo.while"] == 1);
  seen = check(
      64,
      [](const tensor<float, 2>& a) {
        return grad([](const tensor<float, 2>& v) {
          return sum(fori_loop(
              0, 3, [](const auto&, const tensor<float, 2>& u) { return sin(u) + u; }, v));
        })(a);
      },
      x);
  CHECK(seen["stablehlo.while"] >= 2);
  // A loop without turns is its state and empty stacks.
  seen = check(
      0,
      [](const tensor<float, 2>& a, const tensor<float, 2>& none) {
        return scan(
            [](const tensor<float, 1>& s, const tensor<float, 1>& v) {
              const tensor<float, 1> next = s + v;
              return std::pair{next, tensor<float, 1>(next * 2.0f)};
            },
            tensor<float, 1>(reshape(slice<0>(a, 1, 2), 3)), none);
      },
      x, zeros<float>(0, 3));
  CHECK(seen["stablehlo.while"] == 0);
}

TEST_CASE("transforms, factors of matrices and their gradients") {
  for (const std::int64_t n : {1, 2, 7, 12}) {
    const tensor<double, 2> re = cast<double>(some(3, n)), im = cast<double>(reshape(some(n, 3), 3, n));
    // Away from 0, where rounding of a sum is no part of the result.
    const auto both = [](const auto& z) -> tensor<double, 2> { return concat<0>(z.real(), z.imag()) + 10.0; };
    auto seen = check(
        1e4, [&](const tensor<double, 2>& p, const tensor<double, 2>& q) { return both(fft::fft(complex(p, q))); }, re,
        im);
    CHECK(seen["stablehlo.fft"] == 1);
    check(
        1e4, [&](const tensor<double, 2>& p, const tensor<double, 2>& q) { return both(fft::ifft(complex(p, q))); }, re,
        im);
    check(
        1e4,
        [&](const tensor<double, 2>& p, const tensor<double, 2>& q) -> tensor<double, 2> {
          return both(fft::ifft<fft::ortho>(complex(p, q))) + both(fft::fft<fft::ortho>(complex(q, p))) +
                 both(fft::ifft<fft::forward>(complex(p, p))) + both(fft::fft<fft::forward>(complex(q, q)));
        },
        re, im);
    check(
        1e4, [&](const tensor<double, 2>& p) { return both(fft::rfft(p)); }, re);
    check(
        1e6,
        [](const tensor<double, 2>& p) {
          return tensor<double, 2>(
              grad([](const tensor<double, 2>& x) { return sum(square(fft::rfft(x).imag())); })(p) + 10.0);
        },
        re);
  }
  for (const std::int64_t n : {1, 5, 9}) {
    const tensor<double, 2> r = cast<double>(some(n, n)), y = cast<double>(some(n, 3));
    const tensor<double, 2> a = matmul(r, transpose(r)) + eye<double>(n) * 4.0;
    auto seen = check(
        1e5, [](const tensor<double, 2>& m) { return linalg::cholesky(m); }, a);
    if (n == 9) CHECK(seen["stablehlo.cholesky"] == 1);
    seen = check(
        1e5,
        [](const tensor<double, 2>& m, const tensor<double, 2>& b) -> tensor<double, 2> {
          return linalg::triangular_solve(m, b, {.lower = true}) + linalg::triangular_solve(m, b, {.lower = false}) +
                 linalg::triangular_solve(m, b, {.unit = true});
        },
        a, y);
    if (n == 9) CHECK(seen["stablehlo.triangular_solve"] == 3);
    check(
        1e7,
        [](const tensor<double, 2>& m) {
          return tensor<double, 2>(grad([](const tensor<double, 2>& x) { return sum(cos(linalg::cholesky(x))); })(m) +
                                   10.0);
        },
        a);
  }
  const std::string why = message_of([&] {
    stablehlo::text(trace([](const tensor<double, 2>& m) { return linalg::qr(m).first; })(cast<double>(some(9, 9))));
  });
  CHECK(contains(why, "custom_op qr"));
}

TEST_CASE("a network and its gradient, with weights inside, beside and given") {
  const scratch_folder folder;
  const auto w = some(3, 5);
  const tensor<bool, 1> keeps = reshape(some(1, 5), 5) > 0.0f;
  const auto f = [w, keeps](const tensor<float, 2>& x) { return where(keeps, relu(matmul(x, w)), 0.25f); };
  const auto x = some(4, 3);
  const auto want = values_of(compile(f, {.backend = "reference"})(x));
  const graph g = trace(f)(x);
  CHECK(difference(hlo::results_of(stablehlo::text(g), {values_of(x)}).at(0), want, 16) == "");
  const std::string path = folder.path + "/f.mlir";
  stablehlo::save(path, g, {.function = "layer", .weights = library_weights::beside});
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(contains(text, "sym_name = \"layer\""));
  CHECK(hlo::function_of(text).regions[0].types.size() == 3);
  CHECK(std::filesystem::exists(path + ".safetensors"));
  std::filesystem::remove(path + ".safetensors");
  stablehlo::save(path, g, {.weights = library_weights::given});
  CHECK_FALSE(std::filesystem::exists(path + ".safetensors"));
  const auto parameters = hlo::function_of(text).regions[0].types;
  const bool first = parameters[1].type == dtype::f32;
  const auto got = hlo::results_of(
      text, {values_of(x), first ? values_of(w) : values_of(keeps), first ? values_of(keeps) : values_of(w)});
  CHECK(difference(got.at(0), want, 16) == "");
  check(
      256,
      [](const tensor<float, 2>& a, const tensor<float, 2>& b) {
        return grad<1>([](const tensor<float, 2>& p, const tensor<float, 2>& q) {
          return mean(square(gelu(matmul(p, q))));
        })(a, b);
      },
      some(4, 3), some(3, 2));
}

TEST_CASE("refusals name all ops, open sizes and bad names") {
  const auto x = some(3, 4);
  const auto f = [](const tensor<float, 2>& a) {
    return lgamma(a) + uniform<float>(make_key(1), a.shape()) + digamma(a);
  };
  const std::string why = message_of([&] { stablehlo::text(trace(f)(x)); });
  for (const char* op : {"lgamma", "philox", "digamma", "compute them outside of the function"})
    CHECK(contains(why, op));
  const auto open = trace([](const tensor<float, 2>& a) { return exp(a); }, {.dynamic = dynamic::yes})(x);
  CHECK(contains(message_of([&] { stablehlo::text(open); }), "open sizes"));
  CHECK(contains(message_of([&] {
                   stablehlo::text(trace([](const tensor<float, 2>& a) { return exp(a); })(x), {.function = "a\"b"});
                 }),
                 "C identifier"));
  CHECK(contains(message_of([&] {
                   stablehlo::save(
                       "/nonexistent/folder/f.mlir", [](const tensor<float, 2>& a) { return exp(a); }, x);
                 }),
                 "/nonexistent/folder"));
  const auto all = stablehlo::exported_ops();
  CHECK(all.size() == static_cast<std::size_t>(ir::pointwise_count) + std::size(ir::structural_rows));
  for (const auto& d : all)
    for (const ir::op code : without_counterpart)
      if (d.op == ir::name(code)) CHECK(d.how.empty());
}
