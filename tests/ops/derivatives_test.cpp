// The functions of the front end that are more than a row: their first and second derivatives, eagerly and compiled, where they are smooth
// against differences, and at kinks, ties and infinities against docs/semantics.md.
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <vector>

#include "../paths.hpp"
#include "walk.hpp"

using namespace sinter;
using ops::array;

namespace {

using real = tensor<double, 0>;
using vec = tensor<double, dims{3}>;
using doubles = std::vector<double>;
using loss = std::function<real(const vec&)>;

constexpr double inf = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();

vec to_vec(const doubles& x) { return vec{x[0], x[1], x[2]}; }

/// Weights that tell the elements of a result apart.
const vec weights{0.7, -1.1, 1.6};
template <class X>
real weigh(const X& x) {
  return sum(x * weights);
}

vec first(const loss& f, const vec& x) { return grad(f)(x); }

/// The matrix of second derivatives, a row for each derivative of the gradient's element.
auto second(const loss& f, const vec& x) {
  const auto row = [&](const vec& e) { return grad([&](const vec& y) { return real(sum(grad(f)(y) * e)); })(x); };
  return concat<0>(row(vec{1.0, 0.0, 0.0}), row(vec{0.0, 1.0, 0.0}), row(vec{0.0, 0.0, 1.0}));
}

/// A point with the derivatives there; NaN is what must be NaN.
struct special {
  doubles at, first, second;
};
struct subject {
  const char* name;
  loss f;
  std::vector<special> kinks;
};

const doubles flat(9, 0.0), nowhere(9, none);

/// Second derivatives of 0 that column `k` lacks: what is differentiated by element k.
doubles without(std::size_t k) {
  doubles h = flat;
  h[k] = h[3 + k] = h[6 + k] = none;
  return h;
}

doubles diagonal(double a, double b, double c) { return {a, 0, 0, 0, b, 0, 0, 0, c}; }

const tensor<std::int64_t, 1> label{1, 0, 2};

/// Three rows that are made of x, and weights of their pairs.
auto rows_of(const vec& x) { return concat<0>(expand_dims<0>(x), expand_dims<0>(x * x * x), expand_dims<0>(sin(x))); }
const tensor<double, dims{3, 3}> nine{{0.2, 1.3, -0.4}, {0.5, -0.3, 0.9}, {1.1, 0.6, 0.8}};

/// All of them: a name of front/shapes/names.hpp is here, or among those that move elements or have no derivative.
std::vector<subject> subjects() {
  const doubles level{1, 1, 1}, zero{0, 0, 0}, mixed{0, 1, -2};
  return {
      {"where",
       [](const vec& x) { return weigh(where(x > 0, x * x, x)); },
       {{mixed, {0.7, -2.2, 1.6}, diagonal(0, -2.2, 0)}}},
      {"clamp", [](const vec& x) { return weigh(clamp(x, -1, 1)); }, {{{-1, 1, 0}, {0, 0, 1.6}, flat}}},
      {"relu", [](const vec& x) { return weigh(relu(x)); }, {{mixed, {0, -1.1, 0}, flat}}},
      {"gelu", [](const vec& x) { return weigh(gelu(x)); }, {}},
      {"gelu_tanh", [](const vec& x) { return weigh(gelu_tanh(x)); }, {{{32, -32, 40}, {0.7, 0, 1.6}, flat}}},
      {"silu", [](const vec& x) { return weigh(silu(x)); }, {}},
      {"softplus",
       [](const vec& x) { return weigh(softplus(x)); },
       {{{inf, -inf, 0}, {0.7, 0, 0.8}, diagonal(0, 0, 0.4)}}},
      {"softsign", [](const vec& x) { return weigh(softsign(x)); }, {{zero, {0.7, -1.1, 1.6}, nowhere}}},
      {"elu", [](const vec& x) { return weigh(elu(x, 2.0)); }, {{{0, 1, inf}, {1.4, -1.1, 1.6}, diagonal(1.4, 0, 0)}}},
      {"leaky_relu", [](const vec& x) { return weigh(leaky_relu(x, 0.5)); }, {{mixed, {0.35, -1.1, 0.8}, flat}}},
      {"hardswish", [](const vec& x) { return weigh(hardswish(x)); }, {{{-3, 3, -4}, {0, -1.1, 0}, flat}}},
      {"mish", [](const vec& x) { return weigh(mish(x)); }, {}},
      {"abs", [](const vec& x) { return weigh(abs(x)); }, {{mixed, {0, -1.1, -1.6}, without(0)}}},
      {"sqrt", [](const vec& x) { return weigh(sqrt(x * x)); }, {}},
      {"sum", [](const vec& x) { return real(sum(x * x)); }, {}},
      {"prod", [](const vec& x) { return real(prod(x)); }, {{zero, zero, flat}}},
      {"max", [](const vec& x) { return real(max(x)); }, {{{2, 1, 2}, {0.5, 0, 0.5}, flat}}},
      {"min", [](const vec& x) { return real(min(x)); }, {{{2, 1, 1}, {0, 0.5, 0.5}, flat}}},
      {"mean", [](const vec& x) { return real(mean(x * x)); }, {}},
      {"var", [](const vec& x) { return real(var(x)); }, {}},
      {"std", [](const vec& x) { return real(sinter::std(x)); }, {{level, zero, nowhere}}},
      {"std", [](const vec& x) { return real(sinter::std(x, axis<0>, 1)); }, {{zero, zero, nowhere}}},
      {"logsumexp",
       [](const vec& x) { return real(logsumexp(x)); },
       {{{-inf, -inf, -inf}, zero, flat}, {{-inf, 0, -inf}, {0, 1, 0}, flat}}},
      {"norm", [](const vec& x) { return real(norm(x)); }, {{zero, zero, nowhere}}},
      {"norm", [](const vec& x) { return real(norm<1>(x)); }, {{mixed, {0, 1, -1}, without(0)}}},
      {"norm",
       [](const vec& x) { return real(norm<norm_max>(x)); },
       {{mixed, {0, 0, -1}, flat}, {zero, zero, nowhere}}},
      {"cumsum", [](const vec& x) { return weigh(cumsum(x * x)); }, {}},
      {"cumprod",
       [](const vec& x) { return weigh(cumprod(x)); },
       {{zero, {0.7, 0, 0}, {0, -1.1, 0, -1.1, 0, 0, 0, 0, 0}}}},
      {"cummax",
       [](const vec& x) { return weigh(cummax(x)); },
       {{level, {0.7, -1.1, 1.6}, flat}, {{2, 1, 2}, {-0.4, 0, 1.6}, flat}}},
      {"cummin", [](const vec& x) { return weigh(cummin(x)); }, {{{1, 2, 1}, {-0.4, 0, 1.6}, flat}}},
      {"softmax", [](const vec& x) { return weigh(softmax(x)); }, {}},
      {"log_softmax", [](const vec& x) { return weigh(log_softmax(x)); }, {}},
      {"layer_norm", [](const vec& x) { return weigh(layer_norm(x, 0.5)); }, {}},
      {"rms_norm", [](const vec& x) { return weigh(rms_norm(x, 0.5)); }, {}},
      {"cross_entropy",
       [](const vec& x) {
         return real(cross_entropy(concat<0>(expand_dims<0>(x), expand_dims<0>(x * x), expand_dims<0>(sin(x))), label));
       },
       {}},
      {"mse_loss", [](const vec& x) { return real(mse_loss(x, weights)); }, {}},
      {"hypot", [](const vec& x) { return weigh(hypot(x, 2 * x)); }, {{zero, zero, nowhere}}},
      {"square", [](const vec& x) { return weigh(square(x)); }, {}},
      {"reciprocal", [](const vec& x) { return weigh(reciprocal(x)); }, {}},
      {"logaddexp",
       [](const vec& x) {
         return weigh(logaddexp(x, vec{0.0, 1.0, -inf}));
       },
       {{{0, 1, -inf}, {0.35, -0.55, 0}, diagonal(0.175, -0.275, 0)}, {{inf, -inf, 5}, {0.7, 0, 1.6}, flat}}},
      {"log_sigmoid",
       [](const vec& x) { return weigh(log_sigmoid(x)); },
       {{{inf, -inf, 0}, {0, -1.1, 0.8}, diagonal(0, 0, -0.4)}}},
      {"selu",
       [](const vec& x) { return weigh(selu(x)); },
       {{{0, 1, inf},
         {0.7 * 1.7580993408473766, -1.1 * 1.0507009873554805, 1.6 * 1.0507009873554805},
         diagonal(0.7 * 1.7580993408473766, 0, 0)}}},
      {"relu6", [](const vec& x) { return weigh(relu6(x)); }, {{{0, 6, 3}, {0, 0, 1.6}, flat}}},
      {"sinc",
       [](const vec& x) { return weigh(sinc(x)); },
       {{zero, zero, diagonal(-0.7 * M_PI * M_PI / 3, 1.1 * M_PI * M_PI / 3, -1.6 * M_PI * M_PI / 3)}}},
      {"trigamma", [](const vec& x) { return weigh(trigamma(x)); }, {}},
      {"nan_to_num",
       [](const vec& x) { return weigh(nan_to_num(x)); },
       {{{none, inf, 2}, {0, 0, 1.6}, flat}, {{-inf, 0, 1}, {0, -1.1, 1.6}, flat}}},
      {"glu", [](const vec& x) { return real(sum(glu(concat<0>(x, x * x)))); }, {}},
      {"logcumsumexp",
       [](const vec& x) { return weigh(logcumsumexp(x)); },
       {{{-inf, -inf, -inf}, zero, flat}, {{-inf, 0, -inf}, {0, 0.5, 0}, flat}}},
      {"nansum", [](const vec& x) { return real(nansum(x)); }, {{{none, 1, 2}, {0, 1, 1}, flat}}},
      {"nansum", [](const vec& x) { return real(nansum(x * x)); }, {}},
      {"nanprod",
       [](const vec& x) { return real(nanprod(x)); },
       {{{none, 3, 2}, {0, 2, 3}, {0, 0, 0, 0, 0, 1, 0, 1, 0}}}},
      {"nanmax", [](const vec& x) { return real(nanmax(x)); }, {{{none, 1, 1}, {0, 0.5, 0.5}, flat}}},
      {"nanmin", [](const vec& x) { return real(nanmin(x)); }, {{{2, none, 1}, {0, 0, 1}, flat}}},
      {"nanmean", [](const vec& x) { return real(nanmean(x)); }, {{{none, 1, 2}, {0, 0.5, 0.5}, flat}}},
      {"nanvar",
       [](const vec& x) { return real(nanvar(x)); },
       {{{none, 1, 3}, {0, -1, 1}, {0, 0, 0, 0, 0.5, -0.5, 0, -0.5, 0.5}}}},
      {"stddev", [](const vec& x) { return real(stddev(x)); }, {{level, zero, nowhere}}},
      {"nanstd", [](const vec& x) { return real(nanstd(x)); }, {{level, zero, nowhere}}},
      {"diff", [](const vec& x) { return real(sum(square(diff(x)))); }, {}},
      {"cov", [](const vec& x) { return real(cov(x)) + real(sum(cov(rows_of(x), 0) * nine)); }, {}},
      {"corrcoef", [](const vec& x) { return real(sum(corrcoef(rows_of(x)) * nine)); }, {}},
      {"pow", [](const vec& x) { return weigh(pow(x, 2)); }, {}},
      {"pow", [](const vec& x) { return weigh(pow(x, 3)); }, {}},
  };
}

/// Where everything but clamped and rounded things is smooth; and where much is not.
const std::vector<doubles> generic{{0.7, -1.3, 2.1}, {1.5, 0.4, -0.6}};
const std::vector<doubles> corners{{0, 0, 0}, {1, 1, 1}, {0, 1, -2}, {2, 1, 2}, {-0.0, -1, 1}, {-3, 3, 0}};

/// The derivatives that differences have on both sides alike, to order h⁶; NaN where they do not.
class differences {
 public:
  differences(const loss& f, const doubles& at) : f_(f), at_(at) {}

  double slope(std::size_t i) const {
    return settled({derivative(i, 1, 1), derivative(i, 1, -1), derivative(i, 1, 0.5), derivative(i, 1, -0.5)});
  }
  double bend(std::size_t i, std::size_t j) const {
    if (std::isnan(slope(i)) || std::isnan(slope(j))) return none;
    if (i == j)
      return settled({derivative(i, 2, 1), derivative(i, 2, -1), derivative(i, 2, 0.5), derivative(i, 2, -0.5)});
    doubles all;
    for (const double a : {1.0, -1.0})
      for (const double b : {1.0, -1.0}) all.push_back(mixed(i, j, a, b));
    all.push_back(mixed(i, j, 0.5, 0.5));
    return settled(all);
  }

 private:
  static constexpr double h = 1.0 / 256;
  static constexpr double stencil[3][8] = {
      {},
      {-49.0 / 20, 6, -15.0 / 2, 20.0 / 3, -15.0 / 4, 6.0 / 5, -1.0 / 6, 0},
      {469.0 / 90, -223.0 / 10, 879.0 / 20, -949.0 / 18, 41, -201.0 / 10, 1019.0 / 180, -7.0 / 10}};

  static double settled(const doubles& all) {
    for (double x : all)
      if (!ops::close(x, all[0], 1e-5)) return none;
    return all[0];
  }
  double at(std::size_t i, double a, std::size_t j, double b) const {
    doubles x = at_;
    x[i] += a;
    x[j] += b;
    return f_(to_vec(x)).item();
  }
  double derivative(std::size_t i, int order, double side) const {
    double sum = 0;
    for (int k = 0; k < 8; ++k) sum += stencil[order][k] * at(i, k * side * h, i, 0);
    return sum / (order == 1 ? side * h : side * h * side * h);
  }
  double mixed(std::size_t i, std::size_t j, double a, double b) const {
    double sum = 0;
    for (int k = 0; k < 7; ++k)
      for (int l = 0; l < 7; ++l) sum += stencil[1][k] * stencil[1][l] * at(i, k * a * h, j, l * b * h);
    return sum / (a * b * h * h);
  }

  const loss& f_;
  const doubles at_;
};

void check_numbers(const differences& exact, const doubles& slope, const doubles& bend, bool lenient) {
  const auto good = [&](double got, double want) {
    return std::isnan(want) || (lenient && std::isnan(got)) || ops::close(got, want, 1e-4);
  };
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK_MESSAGE(good(slope[i], exact.slope(i)), slope[i], " is not ", exact.slope(i));
    if (!lenient) CHECK(std::isfinite(exact.slope(i)));
    for (std::size_t j = i; j < 3; ++j) {
      CAPTURE(j);
      const double want = exact.bend(i, j);
      CHECK_MESSAGE(good(bend[3 * i + j], want), bend[3 * i + j], " is not ", want);
      CHECK_MESSAGE(good(bend[3 * j + i], want), bend[3 * j + i], " is not ", want);
    }
  }
}

/// Checks that derivatives are what differences say where they say something; `lenient` allows NaN there.
void check_numbers(const loss& f, const std::vector<doubles>& points, bool lenient) {
  options how;
  how.backend = "reference";
  const auto both = compile([&](const vec& x) { return std::pair{first(f, x), second(f, x)}; }, how);
  for (const auto& at : points) {
    CAPTURE(at[0]);
    CAPTURE(at[1]);
    CAPTURE(at[2]);
    const auto [slope, bend] = both(to_vec(at));
    check_numbers(differences(f, at), slope.to_vector(), bend.to_vector(), lenient);
  }
}

}  // namespace

TEST_CASE("functions have the derivatives that differences have, twice") {
  for (const auto& s : subjects()) {
    CAPTURE(std::string(s.name));
    check_numbers(s.f, generic, false);
  }
}

TEST_CASE("functions of functions: no number that is not a derivative") {
  for (const auto& s : subjects()) {
    CAPTURE(std::string(s.name));
    const loss& f = s.f;
    const std::vector<std::pair<const char*, loss>> outer{
        {"itself", f},
        {"square",
         [&](const vec& x) {
           const real y = f(x);
           return real(y * y);
         }},
        {"pow", [&](const vec& x) { return real(pow(f(x), 2) * 0.5); }},
        {"cos", [&](const vec& x) { return real(cos(f(x))); }},
        {"log of exp", [&](const vec& x) { return real(log(exp(f(x)))); }},
    };
    for (const auto& around : outer) {
      CAPTURE(std::string(around.first));
      check_numbers(around.second, corners, true);
    }
  }
}

TEST_CASE("at kinks, ties and infinities derivatives are those of docs/semantics.md, on every backend") {
  ops::walk w;
  for (const auto& s : subjects())
    for (const auto& k : s.kinks) {
      w.row((std::string("first of ") + s.name).c_str(), array{{3}, k.first}, 1e-14,
            [&s](const vec& x) { return first(s.f, x); }, to_vec(k.at));
      w.row((std::string("second of ") + s.name).c_str(), array{{9}, k.second}, 1e-14,
            [&s](const vec& x) { return second(s.f, x); }, to_vec(k.at));
    }
  w.run();
}

TEST_CASE("squares of roots are smooth at zero, on every backend") {
  ops::walk w;
  const auto row = [&](const char* name, const doubles& at, const doubles& want, const loss& f) {
    w.row(
        name, array{{9}, want}, 1e-12, [&](const vec& x) { return second(f, x); }, to_vec(at));
  };
  const doubles zero{0, 0, 0}, twice = diagonal(2, 2, 2);
  const doubles spread{4.0 / 9, -2.0 / 9, -2.0 / 9, -2.0 / 9, 4.0 / 9, -2.0 / 9, -2.0 / 9, -2.0 / 9, 4.0 / 9};
  row("norm squared", zero, twice, [](const vec& x) {
    const auto n = norm(x);
    return real(n * n);
  });
  row("norm to the power 2", zero, twice, [](const vec& x) { return real(pow(norm(x), 2)); });
  row("norm to the power 3", zero, flat, [](const vec& x) { return real(pow(norm(x), 3)); });
  row("norm kept and repeated", zero, twice, [](const vec& x) {
    const auto n = norm(x, keepdims);
    return real(sum(n * n * vec{0.25, 0.25, 0.5} + x * n * n));
  });
  row("std squared", {1, 1, 1}, spread, [](const vec& x) {
    const auto s = sinter::std(x);
    return real(s * s);
  });
  row("norms of rows squared", zero, twice, [](const vec& x) {
    const auto n = norm(expand_dims<1>(x), axis<1>);
    return real(sum(n * n));
  });
  row("magnitudes squared", zero, twice, [](const vec& x) { return real(sum(abs(x) * abs(x))); });
  row("huber", {0, 1, 2}, diagonal(1, 1, 0), [](const vec& x) {
    const auto m = abs(x);
    return real(sum(where(m <= 1, 0.5 * x * x, m - 0.5)));
  });
  w.run();
}

TEST_CASE("squares of roots are smooth at zero for open extents, and for halves") {
  using open = tensor<double, 1>;
  const auto squared = [](open x) {
    const auto n = norm(x), s = sinter::std(x);
    return n * n + s * s;
  };
  const auto along = grad([=](open x) {
    return sum(grad(squared)(x) * slice<0>(open{1, 0, 0, 0, 0, 0, 0}, 0, x.shape()[0]));
  });
  const auto compiled = compile(along);
  for (const auto& f : std::vector<std::function<open(open)>>{along, compiled})
    for (const std::int64_t n : {2, 4, 7}) {
      const double part = 2 / static_cast<double>(n * n), own = 2 + 2 / static_cast<double>(n) - part;
      CAPTURE(n);
      CHECK(ops::close(f(zeros<double>(n)).to_vector()[0], own, 1e-12));
      CHECK(ops::close(f(zeros<double>(n)).to_vector()[1], -part, 1e-12));
    }
  using half = tensor<f16, dims{2}>;
  const auto h = grad([](half x) {
    return cast<float>(sum(grad([](half y) {
                             const auto n = norm(y);
                             return cast<float>(n * n);
                           })(x) *
                           half{f16(1.f), f16(0.f)}));
  });
  CHECK(static_cast<float>(h(half{f16(0.f), f16(0.f)}).to_vector()[0]) == 2);
  CHECK(static_cast<float>(compile(h)(half{f16(0.f), f16(0.f)}).to_vector()[0]) == 2);
}

TEST_CASE("every function of the front end is among those whose derivatives are checked, or has none of its own") {
  const std::set<std::string> plain{"all",
                                    "any",
                                    "argmax",
                                    "argmin",
                                    "argsort",
                                    "at",
                                    "beta",
                                    "bincount",
                                    "compress",
                                    "concat",
                                    "diagonal",
                                    "dynamic_slice",
                                    "dynamic_update_slice",
                                    "expand_dims",
                                    "flip",
                                    "gather_nd",
                                    "histogram",
                                    "isclose",
                                    "median",
                                    "moveaxis",
                                    "nonzero",
                                    "one_hot",
                                    "percentile",
                                    "permute",
                                    "popcount",
                                    "quantile",
                                    "repeat",
                                    "roll",
                                    "rot90",
                                    "scatter_add",
                                    "scatter_max",
                                    "scatter_min",
                                    "scatter_mul",
                                    "scatter_set",
                                    "searchsorted",
                                    "segment_max",
                                    "segment_mean",
                                    "segment_min",
                                    "segment_prod",
                                    "segment_sum",
                                    "slice",
                                    "sort",
                                    "split",
                                    "squeeze",
                                    "stack",
                                    "take",
                                    "take_along_axis",
                                    "topk",
                                    "transpose",
                                    "unique"};
  std::set<std::string> seen(plain);
  for (const auto& s : subjects()) seen.insert(s.name);
  std::ifstream file(test_paths::data + "/../include/sinter/front/shapes/names.hpp");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex name(R"(SINTER_POINTWISE\((\w+)\))");
  int found = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it, ++found)
    CHECK_MESSAGE(seen.count((*it)[1]) == 1, "nothing checks the derivatives of ", (*it)[1].str());
  CHECK(found > 40);
}
