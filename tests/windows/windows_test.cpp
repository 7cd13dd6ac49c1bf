// Convolutions, pools, folds and interpolation against loops over single elements, and their derivatives along directions.
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include <sinter/windows.hpp>

#include "../ops/walk.hpp"

using namespace sinter;

namespace {

using f64 = double;
using i64 = std::int64_t;
using image = tensor<f64, 4>;  // (n, c, h, w)
using volume = tensor<f64, 5>;
constexpr double inf = std::numeric_limits<double>::infinity();

/// What windows read along an axis.
struct along {
  i64 step = 1, low = 0, dilation = 1;
};

i64 count_of(i64 extent, i64 taps, along a, i64 high) {
  return (extent + a.low + high - a.dilation * (taps - 1) - 1) / a.step + 1;
}

volume naive_conv(const volume& x, const volume& w, const std::array<along, 3>& a, const std::array<i64, 3>& out,
                  i64 groups) {
  const auto e = x.shape(), k = w.shape();
  volume y = zeros<f64>({e[0], k[0], out[0], out[1], out[2]});
  const i64 each = k[0] / groups;
  for (i64 n = 0; n < e[0]; ++n)
    for (i64 o = 0; o < k[0]; ++o)
      for (i64 i = 0; i < out[0]; ++i)
        for (i64 j = 0; j < out[1]; ++j)
          for (i64 l = 0; l < out[2]; ++l) {
            f64 sum = 0;
            for (i64 c = 0; c < k[1]; ++c)
              for (i64 p = 0; p < k[2]; ++p)
                for (i64 q = 0; q < k[3]; ++q)
                  for (i64 r = 0; r < k[4]; ++r) {
                    const i64 u = i * a[0].step + p * a[0].dilation - a[0].low,
                              v = j * a[1].step + q * a[1].dilation - a[1].low,
                              s = l * a[2].step + r * a[2].dilation - a[2].low;
                    if (u >= 0 && v >= 0 && s >= 0 && u < e[2] && v < e[3] && s < e[4])
                      sum += x(n, o / each * k[1] + c, u, v, s) * w(o, c, p, q, r);
                  }
            y(n, o, i, j, l) = sum;
          }
  return y;
}

/// The transpose of naive_conv: x is (n, g·i, …), w (g·i, o, …).
volume naive_transpose(const volume& x, const volume& w, const std::array<along, 3>& a, const std::array<i64, 3>& out,
                       i64 groups) {
  const auto e = x.shape(), k = w.shape();
  volume y = zeros<f64>({e[0], k[1] * groups, out[0], out[1], out[2]});
  const i64 each = k[0] / groups;
  for (i64 n = 0; n < e[0]; ++n)
    for (i64 c = 0; c < e[1]; ++c)
      for (i64 i = 0; i < e[2]; ++i)
        for (i64 j = 0; j < e[3]; ++j)
          for (i64 l = 0; l < e[4]; ++l)
            for (i64 o = 0; o < k[1]; ++o)
              for (i64 p = 0; p < k[2]; ++p)
                for (i64 q = 0; q < k[3]; ++q)
                  for (i64 r = 0; r < k[4]; ++r) {
                    const i64 u = i * a[0].step + p * a[0].dilation - a[0].low,
                              v = j * a[1].step + q * a[1].dilation - a[1].low,
                              s = l * a[2].step + r * a[2].dilation - a[2].low;
                    if (u >= 0 && v >= 0 && s >= 0 && u < out[0] && v < out[1] && s < out[2])
                      y(n, c / each * k[1] + o, u, v, s) += x(n, c, i, j, l) * w(c, o, p, q, r);
                  }
  return y;
}

f64 apart(const std::vector<f64>& a, const std::vector<f64>& b) {
  if (a.size() != b.size()) return inf;
  f64 most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) continue;
    const f64 d = std::fabs(a[i] - b[i]);
    most = d <= most ? most : d == d ? d : inf;
  }
  return most;
}
template <dims S>
std::vector<f64> listed(const tensor<f64, S>& x) {
  const auto c = detail::materialize(x, {});
  return {c.data(), c.data() + c.numel()};
}
template <dims S>
f64 dot(const tensor<f64, S>& a, const tensor<f64, S>& b) {
  return sum(a * b).item();
}

using function = std::function<volume(const volume&, const volume&)>;
enum class backend { reference, cpu };

/// f(x, w) eagerly and compiled, and its derivatives along two directions by differences of what `f` computes eagerly.
void check(const std::string& name, const function& f, const volume& x, const volume& w, const volume& want,
           backend on) {
  INFO(name);
  const volume y = f(x, w);
  CHECK(y.shape() == want.shape());
  CHECK(apart(listed(y), listed(want)) < 1e-12);
  const auto shape = want.shape();
  const volume c = ops::between<f64, 5>(shape, -1, 1, 77);
  options how;
  how.backend = on == backend::cpu ? "cpu" : "reference";
  const auto both = compile(
      [&f](const volume& p, const volume& q, const volume& weights) {
        const auto loss = [&](const volume& s, const volume& t) { return sum(f(s, t) * weights); };
        const auto [gx, gw] = grad<0, 1>(loss)(p, q);
        return std::tuple{f(p, q), gx, gw};
      },
      how);
  const auto [z, gx, gw] = both(x, w, c);
  CHECK(apart(listed(z), listed(want)) < 1e-12);
  for (int seed = 1; seed <= 2; ++seed) {
    const volume dx = ops::between<f64, 5>(x.shape(), -1, 1, seed),
                 dw = ops::between<f64, 5>(w.shape(), -1, 1, 9 + seed);
    const f64 h = 1e-5;
    CHECK(std::fabs(dot(volume(f(x + dx * h, w)), c) - dot(volume(f(x - dx * h, w)), c) - 2 * h * dot(gx, dx)) < 2e-11);
    CHECK(std::fabs(dot(volume(f(x, w + dw * h)), c) - dot(volume(f(x, w - dw * h)), c) - 2 * h * dot(gw, dw)) < 2e-11);
  }
}

struct conv_row {
  const char* name;
  index_array<5> x{}, w{};
  std::array<along, 3> a;
  conv_options o;
  backend on = backend::reference;
};

const conv_row conv_rows[] = {
    {"3x3", {2, 4, 1, 7, 6}, {6, 4, 1, 3, 3}, {{{}, {1, 1}, {1, 1}}}, {.padding = {0, 1, 1}}, backend::cpu},
    {"1x1", {2, 4, 1, 5, 6}, {6, 4, 1, 1, 1}, {{{}, {}, {}}}, {}, backend::cpu},
    {"steps",
     {2, 4, 1, 9, 8},
     {6, 4, 1, 3, 3},
     {{{}, {2, 1}, {2, 1}}},
     {.stride = {1, 2, 2}, .padding = {0, 1, 1}},
     backend::cpu},
    {"whole image", {2, 6, 1, 5, 4}, {3, 6, 1, 5, 4}, {{{}, {}, {}}}, {}, backend::cpu},
    {"1x1 in steps", {2, 4, 1, 5, 6}, {6, 4, 1, 1, 1}, {{{}, {2}, {3}}}, {.stride = {1, 2, 3}}},
    {"dilation",
     {1, 2, 1, 9, 11},
     {3, 2, 1, 3, 2},
     {{{}, {1, 2, 2}, {1, 1, 3}}},
     {.padding = {0, 2, 1}, .dilation = {1, 2, 3}}},
    {"steps and dilation",
     {1, 2, 1, 12, 11},
     {3, 2, 1, 3, 4},
     {{{}, {2, 1, 3}, {4, 2, 2}}},
     {.stride = {1, 2, 4}, .padding = {0, 1, 2}, .dilation = {1, 3, 2}}},
    {"apart", {1, 2, 1, 9, 10}, {3, 2, 1, 3, 2}, {{{}, {3}, {4}}}, {.stride = {1, 3, 4}}, backend::cpu},
    {"groups",
     {2, 4, 1, 6, 5},
     {6, 2, 1, 3, 2},
     {{{}, {1, 1}, {1, 1}}},
     {.padding = {0, 1, 1}, .groups = 2},
     backend::cpu},
    {"groups in steps",
     {1, 6, 1, 6, 7},
     {3, 2, 1, 3, 3},
     {{{}, {2, 1}, {2, 0}}},
     {.stride = {1, 2, 2}, .padding = {0, 1, 0}, .groups = 3}},
    {"depthwise",
     {2, 4, 1, 7, 6},
     {4, 1, 1, 3, 3},
     {{{}, {1, 1}, {2, 1}}},
     {.stride = {1, 1, 2}, .padding = {0, 1, 1}, .groups = 4},
     backend::cpu},
    {"depthwise, several each", {1, 2, 1, 7, 6}, {6, 1, 1, 2, 3}, {{{}, {}, {}}}, {.groups = 2}},
    {"three axes",
     {1, 2, 5, 6, 5},
     {3, 2, 3, 2, 3},
     {{{2, 1}, {1, 0}, {1, 1}}},
     {.stride = {2, 1, 1}, .padding = {1, 0, 1}},
     backend::cpu},
    {"a window as large as the image", {2, 3, 1, 4, 5}, {2, 3, 1, 4, 5}, {{{}, {}, {}}}, {}},
    {"many taps", {1, 1, 1, 1, 40}, {2, 1, 1, 1, 19}, {{{}, {}, {2, 3}}}, {.stride = {1, 1, 2}, .padding = {0, 0, 3}}},
    {"taps in the padding alone",
     {2, 3, 1, 5, 6},
     {4, 3, 1, 3, 3},
     {{{}, {1, 7, 7}, {1, 4, 4}}},
     {.padding = {0, 7, 4}, .dilation = {1, 7, 4}},
     backend::cpu},
    {"the middle tap alone",
     {2, 3, 1, 5, 6},
     {4, 3, 1, 3, 3},
     {{{}, {1, 9, 9}, {1, 6, 6}}},
     {.padding = {0, 9, 6}, .dilation = {1, 9, 6}},
     backend::cpu},
    {"depthwise, taps in the padding alone",
     {2, 4, 1, 5, 6},
     {4, 1, 1, 4, 5},
     {{{}, {2, 9, 4}, {1, 11, 3}}},
     {.stride = {1, 2, 1}, .padding = {0, 9, 11}, .dilation = {1, 4, 3}, .groups = 4},
     backend::cpu},
    {"groups, taps in the padding alone",
     {1, 4, 1, 3, 4},
     {6, 2, 1, 2, 5},
     {{{}, {3, 8, 7}, {2, 11, 6}}},
     {.stride = {1, 3, 2}, .padding = {0, 8, 11}, .dilation = {1, 7, 6}, .groups = 2}},
    {"no image", {0, 2, 1, 4, 4}, {3, 2, 1, 3, 3}, {{{}, {}, {}}}, {}},
    {"no channel", {1, 0, 1, 4, 4}, {3, 0, 1, 3, 3}, {{{}, {}, {}}}, {}},
};

std::array<i64, 3> extents_of(const conv_row& r) {
  std::array<i64, 3> out{};
  for (std::size_t d = 0; d < 3; ++d) out[d] = count_of(r.x[2 + d], r.w[2 + d], r.a[d], r.a[d].low);
  return out;
}

}  // namespace

TEST_CASE("convolutions") {
  for (const auto& r : conv_rows) {
    const volume x = ops::between<f64, 5>(r.x, -2, 2, 3), w = ops::between<f64, 5>(r.w, -2, 2, 4);
    check(
        r.name, [&](const volume& p, const volume& q) { return conv3d(p, q, r.o); }, x, w,
        naive_conv(x, w, r.a, extents_of(r), r.o.groups), r.on);
  }
}

TEST_CASE("transposes of convolutions") {
  for (const auto& r : conv_rows) {
    // What the row's convolution gives goes back, to extents that are enough for each window.
    const i64 groups = r.o.groups;
    const auto in = extents_of(r);
    const volume x = ops::between<f64, 5>({r.x[0], r.w[0], in[0], in[1], in[2]}, -2, 2, 5),
                 w = ops::between<f64, 5>(r.w, -2, 2, 6);
    conv_transpose_options o{
        .stride = r.o.stride, .padding = r.o.padding.amount, .dilation = r.o.dilation, .groups = groups};
    std::array<i64, 3> out{}, more{};
    for (std::size_t d = 0; d < 3; ++d) {
      const auto& a = r.a[d];
      more[d] = a.step > 1 && d == 2 ? 1 : 0;
      out[d] = (in[d] - 1) * a.step - 2 * a.low + a.dilation * (r.w[2 + d] - 1) + 1 + more[d];
    }
    o.output_padding = {more[0], more[1], more[2]};
    if (r.x[1] == 0) continue;
    check(
        r.name, [&](const volume& p, const volume& q) { return conv_transpose3d(p, q, o); }, x, w,
        naive_transpose(x, w, r.a, out, groups),
        r.on == backend::cpu && groups != 2 ? backend::cpu : backend::reference);
  }
}

TEST_CASE("layouts, fewer axes, same") {
  const image x = ops::between<f64, 4>({2, 3, 7, 8}, -2, 2, 7), w = ops::between<f64, 4>({4, 3, 3, 2}, -2, 2, 8);
  const auto five = [](const image& y) { return reshape(y, y.size(0), y.size(1), 1, y.size(2), y.size(3)); };
  const auto want = [&](std::array<along, 3> a, std::array<i64, 3> out) {
    return listed(naive_conv(five(x), five(w), a, out, 1));
  };
  const auto plain = want({{{}, {}, {}}}, {1, 5, 7});
  CHECK(apart(listed(image(conv2d(x, w))), plain) < 1e-12);
  CHECK(apart(listed(image(conv2d(x, w, {.padding = valid}))), plain) < 1e-12);
  const auto last = [](const image& y) { return permute<0, 2, 3, 1>(y); };
  const auto mixed = conv<"nhwc, hwio -> nhwc">(last(x), permute<2, 3, 1, 0>(w), {.stride = {2, 1}});
  CHECK(apart(listed(image(permute<0, 3, 1, 2>(mixed))), want({{{}, {2}, {}}}, {1, 3, 7})) < 1e-12);
  const auto turned = conv<"wcnh,iowh->nchw">(permute<3, 1, 0, 2>(x), permute<1, 0, 3, 2>(w));
  CHECK(apart(listed(image(turned)), plain) < 1e-12);
  // ceil(extent / stride) positions; an odd element of padding goes to the end.
  CHECK(apart(listed(image(conv2d(x, w, {.padding = same}))), want({{{}, {1, 1}, {1, 0}}}, {1, 7, 8})) < 1e-12);
  CHECK(apart(listed(image(conv2d(x, w, {.stride = {2, 3}, .padding = same}))),
              want({{{}, {2, 1}, {3, 0}}}, {1, 4, 3})) < 1e-12);
  const auto line = conv1d(reshape(x, 2, 3, 56), reshape(w, 4, 3, 6), {.stride = 2});
  CHECK(apart(listed(tensor<f64, 3>(line)), listed(naive_conv(reshape(x, 2, 3, 1, 1, 56), reshape(w, 4, 3, 1, 1, 6),
                                                              {{{}, {}, {2}}}, {1, 1, 26}, 1))) < 1e-12);
  // Options that the compiler knows keep static extents.
  const tensor<float, dims{1, 2, 8, dyn}> s = zeros<float>({1, 2, 8, 9});
  const auto z = conv2d<conv_options{.stride = 2, .padding = 1}>(s, ones<float, dims{3, 2, 3, 3}>());
  static_assert(decltype(z)::static_shape == dims{1, 3, 4, dyn});
  CHECK(z.shape() == index_array<4>{1, 3, 4, 5});
}

TEST_CASE("other dtypes") {
  const auto x = cast<i64>(ops::between<f64, 4>({1, 2, 5, 5}, -9, 9, 1)),
             w = cast<i64>(ops::between<f64, 4>({2, 2, 3, 3}, -9, 9, 2));
  const tensor<i64, 4> xi = x, wi = w, y = conv2d(xi, wi, {.padding = 1});
  const tensor<f64, 4> xd = cast<f64>(xi), wd = cast<f64>(wi);
  CHECK(apart(listed(image(cast<f64>(y))), listed(image(conv2d(xd, wd, {.padding = 1})))) == 0);
  CHECK(max(cast<f64>(abs(conv_transpose2d(xi, wi)))).item() == max(abs(conv_transpose2d(xd, wd))).item());
  const tensor<bf16, 4> xb = cast<bf16>(xi), wb = cast<bf16>(wi);
  const tensor<bf16, 4> yb = conv2d(xb, wb, {.padding = 1});
  CHECK(max(abs(cast<f64>(yb) - cast<f64>(y))).item() < 2);
  const auto low =
      autocast<bf16>([](const tensor<float, 4>& p, const tensor<float, 4>& q) { return conv2d(p, q, {.padding = 1}); });
  const tensor<float, 4> xf = cast<float>(xi), wf = cast<float>(wi);
  CHECK(max(abs(low(xf, wf) - cast<float>(yb))).item() == 0);
  options how;
  how.backend = "reference";
  CHECK(max(abs(compile(low, how)(xf, wf) - cast<float>(yb))).item() == 0);
}

namespace {

using unary = std::function<image(const image&)>;

/// f(x) eagerly and compiled, and its derivative along two directions.
void check(const std::string& name, const unary& f, const image& x, const image& want,
           backend on = backend::reference) {
  INFO(name);
  const image y = f(x);
  CHECK(y.shape() == want.shape());
  CHECK(apart(listed(y), listed(want)) < 1e-12);
  const image c = ops::between<f64, 4>(want.shape(), -1, 1, 77);
  options how;
  how.backend = on == backend::cpu ? "cpu" : "reference";
  const auto both = compile(
      [&f](const image& p, const image& weights) {
        return std::pair{f(p), grad([&](const image& s) { return sum(f(s) * weights); })(p)};
      },
      how);
  const auto [z, gx] = both(x, c);
  CHECK(apart(listed(z), listed(want)) < 1e-12);
  for (int seed = 1; seed <= 2; ++seed) {
    const image d = ops::between<f64, 4>(x.shape(), -1, 1, seed);
    const f64 h = 1e-6;
    CHECK(std::fabs(dot(image(f(x + d * h)), c) - dot(image(f(x - d * h)), c) - 2 * h * dot(gx, d)) < 1e-11);
  }
}

/// combine(total, element) over the elements of each window that are within x, then finish(total, elements, places of the window within
/// the padding).
template <class F, class G>
image naive_pool(const image& x, std::array<i64, 2> taps, std::array<along, 2> a, std::array<i64, 2> out, f64 from,
                 F combine, G finish) {
  const auto e = x.shape();
  image y = zeros<f64>({e[0], e[1], out[0], out[1]});
  for (i64 n = 0; n < e[0]; ++n)
    for (i64 c = 0; c < e[1]; ++c)
      for (i64 i = 0; i < out[0]; ++i)
        for (i64 j = 0; j < out[1]; ++j) {
          f64 total = from;
          i64 within = 0, padded = 0;
          for (i64 p = 0; p < taps[0]; ++p)
            for (i64 q = 0; q < taps[1]; ++q) {
              const i64 u = i * a[0].step + p * a[0].dilation - a[0].low,
                        v = j * a[1].step + q * a[1].dilation - a[1].low;
              padded += u < e[2] + a[0].low && v < e[3] + a[1].low;
              if (u < 0 || v < 0 || u >= e[2] || v >= e[3]) continue;
              ++within;
              total = combine(total, x(n, c, u, v));
            }
          y(n, c, i, j) = finish(total, within, padded);
        }
  return y;
}

const auto larger = [](f64 a, f64 b) { return a > b ? a : b; };
const auto plus = [](f64 a, f64 b) { return a + b; };
const auto itself = [](f64 t, i64, i64) { return t; };

}  // namespace

TEST_CASE("pools") {
  const image x = ops::between<f64, 4>({2, 3, 9, 10}, -2, 2, 3);
  const auto maxima = [&](std::array<i64, 2> taps, std::array<along, 2> a, std::array<i64, 2> out) {
    return naive_pool(x, taps, a, out, -inf, larger, itself);
  };
  check(
      "max", [](const image& t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); }, x,
      maxima({3, 3}, {{{2, 1}, {2, 1}}}, {5, 5}), backend::cpu);
  check(
      "max, apart",
      [](const image& t) {
        return max_pool2d(t, {2, 3});
      },
      x, maxima({2, 3}, {{{2}, {3}}}, {4, 3}), backend::cpu);
  check(
      "max, dilation",
      [](const image& t) {
        return max_pool2d(t, 2, {.stride = 1, .dilation = {2, 3}});
      },
      x, maxima({2, 2}, {{{1, 0, 2}, {1, 0, 3}}}, {7, 7}));
  check(
      "max, ceil",
      [](const image& t) {
        return max_pool2d(t, {2, 3}, {.stride = {2, 2}, .ceil_mode = true});
      },
      x, maxima({2, 3}, {{{2}, {2}}}, {5, 5}));
  const auto averages = [&](std::array<i64, 2> taps, std::array<along, 2> a, std::array<i64, 2> out, bool pads) {
    return naive_pool(x, taps, a, out, 0, plus,
                      [pads](f64 t, i64 within, i64 padded) { return t / f64(pads ? padded : within); });
  };
  check(
      "avg", [](const image& t) { return avg_pool2d(t, 3, {.stride = 2, .padding = 1}); }, x,
      averages({3, 3}, {{{2, 1}, {2, 1}}}, {5, 5}, true), backend::cpu);
  check(
      "avg, not of padding",
      [](const image& t) {
        return avg_pool2d(t, {3, 2}, {.stride = {1, 2}, .padding = 1, .count_include_pad = false});
      },
      x, averages({3, 2}, {{{1, 1}, {2, 1}}}, {9, 6}, false));
  check(
      "avg, ceil",
      [](const image& t) {
        return avg_pool2d(t, {4, 3}, {.stride = {3, 2}, .padding = {1, 0}, .ceil_mode = true});
      },
      x, averages({4, 3}, {{{3, 1}, {2, 0}}}, {4, 5}, true));
  check(
      "avg, many taps",
      [](const image& t) {
        return avg_pool2d(t, {9, 10}, {.stride = 1, .padding = {4, 5}});
      },
      x, averages({9, 10}, {{{1, 4}, {1, 5}}}, {9, 11}, true), backend::cpu);
  check(
      "lp",
      [](const image& t) {
        return lp_pool2d(t * t + 1.0, 3.0, {2, 3}, {.stride = {1, 2}});
      },
      x,
      naive_pool(
          x, {2, 3}, {{{1}, {2}}}, {8, 4}, 0, [](f64 a, f64 b) { return a + std::pow(b * b + 1, 3); },
          [](f64 t, i64, i64) { return std::cbrt(t); }));
  const auto segments = [&](i64 h, i64 w, f64 from, auto combine, bool mean) {
    image y = zeros<f64>({2, 3, h, w});
    for (i64 n = 0; n < 2; ++n)
      for (i64 c = 0; c < 3; ++c)
        for (i64 i = 0; i < h; ++i)
          for (i64 j = 0; j < w; ++j) {
            f64 total = from;
            i64 count = 0;
            for (i64 u = i * 9 / h; u < ((i + 1) * 9 + h - 1) / h; ++u)
              for (i64 v = j * 10 / w; v < ((j + 1) * 10 + w - 1) / w; ++v, ++count)
                total = combine(total, x(n, c, u, v));
            y(n, c, i, j) = mean ? total / f64(count) : total;
          }
    return y;
  };
  check(
      "adaptive avg",
      [](const image& t) {
        return adaptive_avg_pool2d(t, {4, 5});
      },
      x, segments(4, 5, 0, plus, true), backend::cpu);
  check(
      "adaptive avg, larger",
      [](const image& t) {
        return adaptive_avg_pool2d(t, {12, 3});
      },
      x, segments(12, 3, 0, plus, true));
  check(
      "adaptive max",
      [](const image& t) {
        return adaptive_max_pool2d(t, {4, 7});
      },
      x, segments(4, 7, -inf, larger, false));
  const image last = max_pool<"nhwc">(permute<0, 2, 3, 1>(x), 3, {.stride = 2, .padding = 1});
  CHECK(apart(listed(image(permute<0, 3, 1, 2>(last))), listed(maxima({3, 3}, {{{2, 1}, {2, 1}}}, {5, 5}))) == 0);
  const tensor<i64, 1> whole{5, -3, 9, 2};
  CHECK(max_pool1d(whole, 2, {.padding = 1})(2) == 2);
  CHECK(max_pool1d(whole, 2, {.padding = 1})(1) == 9);
  image odd = x.contiguous() * 1.0;
  odd(0, 0, 4, 4) = std::nan("");
  CHECK(std::isnan(image(max_pool2d(odd, 3, {.stride = 2, .padding = 1}))(0, 0, 2, 2)));
}

TEST_CASE("indices of maxima, and back") {
  const image x = ops::between<f64, 4>({2, 2, 6, 7}, -2, 2, 3);
  for (const pool_options& o : {pool_options{}, pool_options{.stride = 2, .padding = 1},
                                pool_options{.stride = 1, .padding = {1, 0}, .dilation = {2, 1}}}) {
    const auto f = [o](const image& t) { return max_pool2d_with_indices(t, {3, 2}, o); };
    options how;
    how.backend = "reference";
    const auto [v, i] = f(x);
    const auto [cv, ci] = compile(f, how)(x);
    CHECK(apart(listed(v), listed(image(max_pool2d(x, {3, 2}, o)))) == 0);
    CHECK(apart(listed(cv), listed(v)) == 0);
    CHECK(sum(cast<i64>(ci != i)).item() == 0);
    const image picked =
        reshape(take_along_axis(reshape(x, 2, 2, 42), reshape(i, 2, 2, -1)), 2, 2, v.size(2), v.size(3));
    CHECK(apart(listed(picked), listed(v)) == 0);
    const image back = max_unpool2d(v, i, {3, 2}, o, {6, 7});
    CHECK(sum(cast<i64>(back != 0.0 && back != x)).item() == 0);
    CHECK(sum(cast<i64>(back != 0.0)).item() > 0);
  }
  // What lies around has no index, even where nothing exceeds it.
  const image low = full<f64>(-inf, {1, 1, 3, 3});
  const auto [v, i] = max_pool2d_with_indices(low, 2, {.stride = 2, .padding = 1});
  CHECK(i(0, 0, 0, 0) == 0);
  CHECK(i(0, 0, 1, 1) == 4);
}

TEST_CASE("derivatives at ties of a maximum with an index, and at the root of 0") {
  using line = tensor<f64, 3>;
  options how;
  how.backend = "reference";
  const auto slopes = [&](const auto& f, const line& x) {
    const auto loss = [&](const line& t) { return sum(f(t)); };
    const auto g = compile(grad(loss), how)(x);
    return listed(line(g));
  };
  const line ties = reshape(tensor<f64, 1>{1, 1, 0, 2, 3, 3}, 1, 1, 6);
  CHECK(slopes([](const line& t) { return max_pool1d_with_indices(t, 3).values; }, ties) ==
        std::vector<f64>{1, 0, 0, 0, 1, 0});
  CHECK(slopes([](const line& t) { return max_pool1d_with_indices(t, 2).values; }, ties) ==
        std::vector<f64>{1, 0, 0, 1, 1, 0});
  const line x = reshape(tensor<f64, 1>{0, 0, 3, 4}, 1, 1, 4);
  for (const double power : {1.0, 2.0, 3.0, 1.5}) {
    const line y = lp_pool1d(x, power, 2);
    CHECK(y(0, 0, 0) == 0);
    CHECK(std::fabs(y(0, 0, 1) - std::pow(std::pow(3, power) + std::pow(4, power), 1 / power)) < 1e-12);
    const auto g = slopes([&](const line& t) { return lp_pool1d(t, power, 2); }, x);
    CHECK(g[0] == (power == 1 ? 1 : 0));
    CHECK(g[1] == g[0]);
    CHECK(std::fabs(g[3] - std::pow(4 / y(0, 0, 1), power - 1)) < 1e-12);
  }
}

TEST_CASE_TEMPLATE("powers beyond the range of f32 leave lp_pool as it is", T, float, bf16) {
  using line = tensor<T, 3>;
  const double tolerance = std::is_same_v<T, float> ? 2e-6 : 0x1p-7;
  for (const double size :
       std::is_same_v<T, float> ? std::vector{1e37, 3e25, 1., 1e-25, 1e-36} : std::vector{1e30, 1e-25})
    for (const double power : {1., 2., 3., 1.5, -2.}) {
      INFO(size, " ", power);
      const line x = cast<T>(reshape(tensor<float, 1>{3, -4, 1.5, 2, 5, 0.5}, 1, 1, 6) * static_cast<float>(size));
      const auto f = [&](const line& t) { return line(lp_pool1d(power == 2 ? t : line(abs(t)), power, 2)); };
      const auto g = [&](const line& t) {
        return line(grad([&](const line& u) { return tensor<float, 0>(sum(cast<float>(f(u)))); })(t));
      };
      for (const std::string backend : {"", "reference", "cpu"}) {
        options how;
        how.backend = backend;
        const line y = backend.empty() ? f(x) : compile(f, how)(x);
        const line slope = backend.empty() ? g(x) : compile(g, how)(x);
        for (int k = 0; k < 3; ++k) {
          const double a = std::fabs(static_cast<double>(static_cast<float>(x(0, 0, 2 * k)))),
                       b = std::fabs(static_cast<double>(static_cast<float>(x(0, 0, 2 * k + 1)))),
                       want = a * std::pow(1 + std::pow(b / a, power), 1 / power);
          CHECK(std::fabs(static_cast<double>(static_cast<float>(y(0, 0, k))) - want) <= tolerance * want);
          const double steep = std::pow(a / want, power - 1) * (static_cast<float>(x(0, 0, 2 * k)) < 0 ? -1 : 1);
          CHECK(std::fabs(static_cast<double>(static_cast<float>(slope(0, 0, 2 * k))) - steep) <=
                4 * tolerance * std::fabs(steep));
        }
      }
    }
}

TEST_CASE("places that max_unpool does not have; bytes that have no infinity") {
  using line = tensor<float, 3>;
  const line x = reshape(tensor<float, 1>{5, 7}, 1, 1, 2);
  const tensor<i64, 3> places = reshape(tensor<i64, 1>{-1, 2}, 1, 1, 2);
  const auto back = [](const line& t, const tensor<i64, 3>& i) { return max_unpool1d(t, i, 2); };
  options how;
  how.backend = "reference";
  const line y = compile(back, how)(x, places);
  CHECK(y.to_vector() == std::vector<float>{0, 0, 7, 0});
  const tensor<f8_e4m3, 3> low = cast<f8_e4m3>(reshape(tensor<float, 1>{-448, -3, -5}, 1, 1, 3));
  const auto pools = [](const tensor<f8_e4m3, 3>& t) { return cast<float>(max_pool1d(t, 2, {.padding = 1})); };
  for (const line& z : {line(pools(low)), line(compile(pools, how)(low))})
    CHECK(z.to_vector() == std::vector<float>{-448, -3});
}

TEST_CASE("unfold and fold") {
  const image x = ops::between<f64, 4>({2, 3, 7, 8}, -2, 2, 3);
  const fold_options o{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  const auto as_image = [](const tensor<f64, 3>& t) { return image(expand_dims<1>(t)); };
  image want = zeros<f64>({2, 1, 18, 24}), back = zeros<f64>({2, 3, 7, 8});
  for (i64 n = 0; n < 2; ++n)
    for (i64 c = 0; c < 3; ++c)
      for (i64 p = 0; p < 3; ++p)
        for (i64 q = 0; q < 2; ++q)
          for (i64 i = 0; i < 4; ++i)
            for (i64 j = 0; j < 6; ++j) {
              const i64 u = 2 * i + p - 1, v = j + 2 * q;
              if (u < 0 || u >= 7) continue;
              want(n, 0, (c * 3 + p) * 2 + q, i * 6 + j) = x(n, c, u, v);
              back(n, c, u, v) += x(n, c, u, v);
            }
  check(
      "unfold",
      [&](const image& t) {
        return as_image(unfold(t, {3, 2}, o));
      },
      x, want, backend::cpu);
  check(
      "fold",
      [&](const image& t) {
        return image(fold(squeeze<1>(t), {7, 8}, {3, 2}, o));
      },
      want, back, backend::cpu);
}

TEST_CASE("windows of which some are read at places that a tensor tells") {
  const image x = ops::between<f64, 4>({1, 2, 5, 4}, -2, 2, 3);
  const tensor<i64, 1> places{0, 17, 22, -3, 12};
  const auto same = [&](const auto& f) {
    const tensor<f64, 1> want = f(x, places);
    for (const char* backend : {"cpu", "reference"})
      for (const auto open : {dynamic::no, dynamic::yes}) {
        options how;
        how.backend = backend, how.dynamic = open;
        CHECK(tensor<f64, 1>(compile(f, how)(x, places)).to_vector() == want.to_vector());
      }
  };
  const auto every = [](const image& t) { return flatten(unfold(t, {3, 2}, {.padding = 1}) * 2.0); };
  std::vector<f64> all = every(x).to_vector();
  const auto some = take(every(x), places).to_vector();
  const std::vector<f64> want{all[0], all[17], all[22], all[all.size() - 3], all[12]};
  CHECK(some == want);
  same([&](const auto& t, const auto& i) { return 1.0 + take(every(t), i); });
  same([](const auto& t, const auto& i) { return 1.0 + take(flatten(slice<1>(unfold(t, 2), 1, 6) * 2.0), i); });
  same([](const auto& t, const auto& i) {
    return 1.0 + take(flatten(unfold(t, {2, 3}, {.stride = {2, 1}, .padding = 1})), i);
  });
}

namespace {

f64 filter(resize mode, f64 x, f64 a) {
  x = std::fabs(x);
  if (mode == resize::linear) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/// Weight of element `u` of `from` in element `i` of `to`.
f64 resize_weight(resize mode, bool corners, bool antialias, i64 from, i64 to, i64 i, i64 u) {
  const f64 scale = corners ? (to > 1 ? f64(from - 1) / f64(to - 1) : 0) : f64(from) / f64(to);
  if (mode == resize::nearest) return u == i * from / to;
  if (mode == resize::nearest_exact) return u == (2 * i + 1) * from / (2 * to);
  if (mode == resize::area) {
    const i64 first = i * from / to, end = ((i + 1) * from + to - 1) / to;
    return u >= first && u < end ? 1 / f64(end - first) : 0;
  }
  const f64 centre = corners ? f64(i) * scale : (f64(i) + 0.5) * scale - 0.5;
  if (!antialias) {
    f64 sum = 0;
    const f64 at = mode == resize::linear && centre < 0 ? 0 : centre;
    for (i64 v = i64(std::floor(at)) - 1; v <= i64(std::floor(at)) + 2; ++v)
      if (std::min(std::max(v, i64(0)), from - 1) == u) sum += filter(mode, at - f64(v), -0.75);
    return sum;
  }
  const f64 stretch = std::max(scale, 1.0), support = (mode == resize::linear ? 1 : 2) * stretch, middle = centre + 0.5;
  const auto in = [&](i64 v) {
    return v >= std::max(i64(std::floor(middle - support + 0.5)), i64(0)) &&
           v < std::min(i64(std::floor(middle + support + 0.5)), from);
  };
  f64 all = 0;
  for (i64 v = 0; v < from; ++v) all += in(v) ? filter(mode, (f64(v) - middle + 0.5) / stretch, -0.5) : 0;
  return in(u) ? filter(mode, (f64(u) - middle + 0.5) / stretch, -0.5) / all : 0;
}

}  // namespace

TEST_CASE("interpolation") {
  const image x = ops::between<f64, 4>({1, 2, 7, 6}, -2, 2, 3);
  const auto one = [&](const char* name, resize_options o, backend on = backend::reference) {
    image want = zeros<f64>({1, 2, o.size[0], o.size[1]});
    for (i64 c = 0; c < 2; ++c)
      for (i64 i = 0; i < o.size[0]; ++i)
        for (i64 j = 0; j < o.size[1]; ++j) {
          f64 sum = 0;
          for (i64 u = 0; u < 7; ++u)
            for (i64 v = 0; v < 6; ++v)
              sum += x(0, c, u, v) * resize_weight(o.mode, o.align_corners, o.antialias, 7, o.size[0], i, u) *
                     resize_weight(o.mode, o.align_corners, o.antialias, 6, o.size[1], j, v);
          want(0, c, i, j) = sum;
        }
    check(
        name, [o](const image& t) { return interpolate(t, o); }, x, want, on);
  };
  one("nearest", {.size = {5, 13}});
  one("nearest, exact", {.size = {5, 13}, .mode = resize::nearest_exact});
  one("linear", {.size = {4, 11}, .mode = resize::linear}, backend::cpu);
  one("linear, corners", {.size = {4, 11}, .mode = resize::linear, .align_corners = true});
  one("cubic", {.size = {9, 4}, .mode = resize::cubic}, backend::cpu);
  one("cubic, corners", {.size = {9, 1}, .mode = resize::cubic, .align_corners = true});
  one("linear, antialias", {.size = {3, 9}, .mode = resize::linear, .antialias = true});
  one("cubic, antialias", {.size = {2, 5}, .mode = resize::cubic, .antialias = true});
  one("area", {.size = {3, 4}, .mode = resize::area});
  // Places are exact where a quotient of doubles is not: 23 * (26 / 46) is less than 13.
  options how;
  how.backend = "reference";
  for (const auto& [from, to] : {std::pair<i64, i64>{26, 46}, {30, 22}, {49, 98}, {31, 24}, {7, 93}, {61, 48}})
    for (const resize mode : {resize::nearest, resize::nearest_exact}) {
      const tensor<f64, 3> line = reshape(tensor<f64, 1>(arange<f64>(dim(from))), 1, 1, from);
      const auto f = [&, to = to](const tensor<f64, 3>& t) { return interpolate(t, {.size = {to}, .mode = mode}); };
      std::vector<f64> want;
      for (i64 i = 0; i < to; ++i)
        want.push_back(f64(mode == resize::nearest ? i * from / to : (2 * i + 1) * from / (2 * to)));
      CHECK(listed(tensor<f64, 3>(f(line))) == want);
      CHECK(listed(tensor<f64, 3>(compile(f, how)(line))) == want);
    }
  const tensor<f64, 3> two = reshape(tensor<f64, 1>{3, 5}, 1, 1, 2);
  CHECK(tensor<f64, 3>(interpolate(two, {.scale = {49}}))(0, 0, 49) == 5);
  const image twice = interpolate(x, {.scale = {2}});
  CHECK(twice.shape() == index_array<4>{1, 2, 14, 12});
  CHECK(twice(0, 1, 13, 5) == x(0, 1, 6, 2));
}

TEST_CASE("lanes, second derivatives, open extents") {
  const image x = ops::between<f64, 4>({3, 2, 6, 7}, -2, 2, 3), w = ops::between<f64, 4>({4, 2, 3, 3}, -2, 2, 4);
  options how;
  how.backend = "reference";
  const auto f = [](const image& t, const image& k) { return tanh(conv2d(t, k, {.stride = 2, .padding = 1})); };
  // One image a lane; lanes of weights; both.
  const auto single = [&](const tensor<f64, 3>& t, const image& k) { return squeeze<0>(f(expand_dims<0>(t), k)); };
  CHECK(apart(listed(image(compile(vmap(single, in_axes<0, none>), how)(x, w))), listed(image(f(x, w)))) < 1e-12);
  const volume kernels = stack<0>(w, w * 2.0);
  const volume both = compile(vmap(f, in_axes<none, 0>), how)(x, kernels);
  CHECK(apart(listed(both), listed(volume(stack<0>(image(f(x, w)), image(f(x, w * 2.0)))))) < 1e-12);
  const volume images = stack<0>(x, x * 0.5);
  const volume pairs = compile(vmap(f), how)(images, kernels);
  CHECK(apart(listed(pairs), listed(volume(stack<0>(image(f(x, w)), image(f(x * 0.5, w * 2.0)))))) < 1e-12);
  const auto pooled = [](const image& t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); };
  CHECK(apart(listed(volume(compile(vmap(pooled), how)(images))),
              listed(volume(stack<0>(image(pooled(x)), image(pooled(x * 0.5)))))) == 0);
  // The derivative of a derivative along a direction, by differences of the first.
  const auto loss = [&](const image& t, const image& k) { return sum(f(t, k)); };
  const image d = ops::between<f64, 4>(x.shape(), -1, 1, 5);
  const auto slope = compile([&](const image& t, const image& k) { return grad<0>(loss)(t, k); }, how);
  const auto bend = compile(
      [&](const image& t, const image& k, const image& along_d) {
        return grad<0, 1>([&](const image& s, const image& q) { return sum(grad<0>(loss)(s, q) * along_d); })(t, k);
      },
      how);
  const auto [bx, bw] = bend(x, w, d);
  const f64 h = 1e-5;
  for (int seed = 1; seed < 3; ++seed) {
    const image e = ops::between<f64, 4>(x.shape(), -1, 1, 20 + seed),
                v = ops::between<f64, 4>(w.shape(), -1, 1, 30 + seed);
    CHECK(std::fabs(dot(image(slope(x + e * h, w)), d) - dot(image(slope(x - e * h, w)), d) - 2 * h * dot(bx, e)) <
          1e-9);
    CHECK(std::fabs(dot(image(slope(x, w + v * h)), d) - dot(image(slope(x, w - v * h)), d) - 2 * h * dot(bw, v)) <
          1e-9);
  }
  // Batches and images of any size.
  options open = how;
  open.dynamic = dynamic::yes;
  const auto all = [&](const image& t, const image& k) {
    const auto total = [&](const image& s, const image& q) {
      return sum(avg_pool2d(f(s, q), 2, {.stride = 1}) * 2.0) + sum(max_pool2d(s, 3, {.stride = 2, .padding = 1}));
    };
    return std::pair{total(t, k), grad<0, 1>(total)(t, k)};
  };
  const auto any = compile(all, open);
  const auto fixed = compile(all, how);
  for (const auto& e : {index_array<4>{3, 2, 6, 7}, {2, 2, 9, 8}, {5, 2, 7, 5}}) {
    const image t = ops::between<f64, 4>(e, -2, 2, 9);
    const auto [y, g] = any(t, w);
    const auto [z, want] = fixed(t, w);
    CHECK(std::fabs(y.item() - z.item()) < 1e-9);
    CHECK(apart(listed(std::get<0>(g)), listed(std::get<0>(want))) < 1e-12);
    CHECK(apart(listed(std::get<1>(g)), listed(std::get<1>(want))) < 1e-11);
  }
}

namespace {

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const user_error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

#define REFUSED(CALL, WORDS) \
  CHECK_MESSAGE(refusal([&] { (void)(CALL); }).find(WORDS) != std::string::npos, refusal([&] { (void)(CALL); }))

TEST_CASE("what does not fit") {
  const image x = ops::between<f64, 4>({1, 4, 5, 6}, 0, 1), w = ops::between<f64, 4>({6, 4, 3, 3}, 0, 1);
  REFUSED(conv2d(x, ops::between<f64, 4>({6, 4, 6, 3}, 0, 1)),
          "[conv] a window is larger than the padded image: a is (1, 4, 5, 6), b is (6, 4, 6, 3); pad it");
  REFUSED(conv2d(x, w, {.dilation = 3}), "a window is larger than the padded image");
  REFUSED(conv2d(x, ops::between<f64, 4>({6, 3, 3, 3}, 0, 1)), "[conv] the channels of image and weights do not fit");
  REFUSED(conv2d(x, w, {.groups = 3}), "[conv] the groups do not divide the image's channels");
  REFUSED(conv2d(x, ops::between<f64, 4>({5, 2, 3, 3}, 0, 1), {.groups = 2}),
          "[conv] the groups do not divide the weights' outputs");
  REFUSED(conv2d(x, w, {.groups = 0}), "[conv] there are no groups");
  REFUSED(conv2d(x, w, {.stride = {1, 2, 3}}),
          "[conv] an option has another number of entries than there are spatial axes");
  REFUSED(conv2d(x, w, {.stride = 0}), "[conv] a stride is less than 1");
  REFUSED(conv2d(x, w, {.padding = -1}), "[conv] a padding is negative");
  REFUSED(conv2d(x, w, {.dilation = 0}), "[conv] a dilation is less than 1");
  REFUSED(conv2d(x, w, {.dilation = i64{1} << 40}), "[conv] a window reaches over more than 2^30 elements");
  REFUSED(conv2d(x, w, {.stride = i64{1} << 40}), "[conv] a stride is more than 2^30");
  REFUSED(conv2d(x, w, {.padding = i64{1} << 40}), "[conv] a padding is more than 2^30");
  REFUSED(max_pool2d(x, i64{1} << 40), "[max_pool] a window reaches over more than 2^30 elements");
  REFUSED(lp_pool2d(x, std::nan(""), 2), "[lp_pool] the power is 0 or not finite");
  REFUSED(max_unpool2d(x, full<i64>(-1, {1, 4, 5, 6}), 2),
          "[max_unpool] index -1 at position (0, 0) is out of range for an axis of extent 120; indices run from 0");
  REFUSED(conv_transpose2d(x, w), "[conv_transpose] the channels of image and weights do not fit");
  REFUSED(conv_transpose2d(x, ops::between<f64, 4>({4, 2, 3, 3}, 0, 1), {.stride = 2, .output_padding = 2}),
          "the output padding reaches a stride and a dilation");
  REFUSED(max_pool2d(x, 7), "[max_pool] a window is larger than the padded image");
  REFUSED(max_pool2d(x, 2, {.padding = 2}), "[max_pool] the padding is more than half of a window");
  REFUSED(avg_pool2d(x, 2, {.dilation = 2}), "[avg_pool] average pools have no dilation");
  REFUSED(adaptive_avg_pool2d(x, 0), "[adaptive_avg_pool] give the result's extents");
  REFUSED(fold(ops::between<f64, 3>({1, 9, 7}, 0, 1), {5, 6}, 3),
          "[fold] the operand is (1, 9, 7), and windows of (5, 6) are 12, of 9 elements a channel");
  REFUSED(max_unpool2d(x, zeros<i64>({1, 4, 5, 5}), 2),
          "[max_unpool] values are (1, 4, 5, 6), indices are (1, 4, 5, 5)");
  REFUSED(interpolate(x, {}), "[interpolate] give a size of 1 or more, or a scale");
  REFUSED(interpolate(x, {.size = 3, .align_corners = true}),
          "[interpolate] align_corners and antialias are of linear and cubic only");
}

TEST_CASE("open extents that pools and interpolate divide need few specialisations") {
  const auto check = [](std::size_t most, auto f) {
    const auto open = compile(f, {.dynamic = dynamic::yes});
    for (const auto& size : {std::pair{17, 23},
                             {12, 20},
                             {31, 9},
                             {21, 14},
                             {28, 35},
                             {40, 13},
                             {64, 64},
                             {19, 50},
                             {33, 27},
                             {14, 14},
                             {50, 60},
                             {9, 11}}) {
      const int h = size.first, w = size.second;
      INFO(h, " ", w);
      const image x = ops::between<f64, 4>({2, 3, h, w}, -2, 2, h + w);
      ops::check_equal(ops::values(open(x)), ops::values(image(f(x))), 1e-6);
    }
    CHECK(open.specialisations() <= most);
  };
  for (const double scale : {0.5, 2.0, 0.25, 1.5})
    check(1, [=](const image& x) { return image(interpolate(x, {.scale = {scale}, .mode = resize::area})); });
  // Whether the result divides an axis is a guard: two of each axis.
  check(4, [](const image& x) { return image(interpolate(x, {.size = {5, 3}, .mode = resize::area})); });
  check(4, [](const image& x) { return image(adaptive_avg_pool2d(x, {5, 3})); });
  check(4, [](const image& x) { return image(adaptive_max_pool2d(x, {5, 3})); });
  // So it is of 10, and then in which range between two powers of two the extent lies.
  for (const resize mode : {resize::nearest, resize::linear, resize::cubic, resize::area})
    check(6, [=](const image& x) { return image(interpolate(x, {.scale = {0.7}, .mode = mode})); });
  // Whether a last window hangs over is a guard.
  check(4, [](const image& x) { return image(max_pool2d(x, 2, {.stride = 3, .ceil_mode = true})); });
  check(4, [](const image& x) { return image(avg_pool2d(x, 2, {.stride = 3, .padding = 1, .ceil_mode = true})); });
  check(2, [](const image& x) {
    const dim side = min(x.size(2), x.size(3));
    return image(slice<2>(slice<3>(x, 0, side), 0, side));
  });
}

TEST_CASE("open extents by a scale whose double is below a quotient are floor(n · scale), in few specialisations") {
  for (const double scale : {0.7, 1.4, 2.0 / 3, 0.35, 0.3, 1.1}) {
    options how{.dynamic = dynamic::yes};
    how.backend = "reference";
    how.recompile_limit = 32;
    const auto f =
        compile([=](const tensor<float, 3>& x) { return tensor<float, 3>(interpolate(x, {.scale = {scale}})); }, how);
    for (i64 n = 6; n <= 700; n += n < 100 ? 1 : 3) {
      const auto want = static_cast<i64>(std::floor(static_cast<double>(n) * scale));
      CHECK(f(full<float>(1.5f, 1, 1, n)).size(2) == dim(want));
    }
    CHECK(f.specialisations() <= 16);
  }
}

TEST_CASE("a convolution and its derivatives store nothing as large as all windows") {
  using real = tensor<float, 4>;
  const real x = ops::between<float, 4>({32, 32, 32, 16}, -1, 1, 1),
             w = ops::between<float, 4>({5, 5, 16, 16}, -1, 1, 2);
  const auto f = [](const real& t, const real& k) { return conv<"nhwc,hwio->nhwc">(t, k, {.padding = 2}); };
  const auto loss = [&](const real& t, const real& k) { return sum(f(t, k) * f(t, k)); };
  const auto image_bytes = static_cast<std::size_t>(x.numel()) * sizeof(float);
  // Each thread packs blocks of its own.
  const std::size_t most = 6 * image_bytes + std::thread::hardware_concurrency() * (std::size_t{2} << 20);
  const auto scratch = [](const auto& compiled) { return compiled.explain().specialisations[0].what.scratch_bytes; };
  const auto forward = compile(f);
  (void)forward(x, w);
  CHECK(scratch(forward) < most);  // all windows: 25 images
  const auto by_image = compile(grad<0>(loss));
  const auto by_weights = compile(grad<1>(loss));
  (void)by_image(x, w);
  (void)by_weights(x, w);
  CHECK(scratch(by_image) < most);
  CHECK(scratch(by_weights) < most);
}

TEST_CASE("a convolution does not multiply by its padding") {
  const auto x = ops::between<float, 4>({1, 8, 10, 12}, -1, 1, 1), w = ops::between<float, 4>({4, 8, 3, 3}, -1, 1, 2);
  const auto f = compile([](const tensor<float, 4>& t, const tensor<float, 4>& k) {
    return conv2d(t, k, {.padding = {12, 24}, .dilation = {12, 24}});
  });
  const tensor<float, 4> y = f(x, w);
  std::int64_t flops = 0;
  for (const auto& step : f.explain().specialisations[0].what.steps) flops += step.flops;
  CHECK(flops <= 2 * 10 * 12 * 8 * 4);
  float want = 0;
  for (i64 c = 0; c < 8; ++c) want += x(0, c, 3, 5) * w(2, c, 1, 1);
  CHECK(y(0, 2, 3, 5) == doctest::Approx(want).epsilon(1e-5));
}

TEST_CASE("the transpose of windows beside one another multiplies as often as it has to") {
  const auto x = ops::between<float, 4>({1, 8, 12, 12}, -1, 1, 1), w = ops::between<float, 4>({8, 4, 2, 2}, -1, 1, 2);
  const auto f = compile(
      [](const tensor<float, 4>& t, const tensor<float, 4>& k) { return conv_transpose2d(t, k, {.stride = 2}); });
  const tensor<float, 4> y = f(x, w);
  std::int64_t flops = 0;
  for (const auto& step : f.explain().specialisations[0].what.steps) flops += step.flops;
  CHECK(flops <= 3 * 12 * 12 * 8 * 4 * 4);  // 2 a term, and what adds
  std::array<float, 16> want{};             // at (0, c, 2 i + a, 2 j + b) of i = 3, j = 5
  for (i64 o = 0; o < 4; ++o)
    for (i64 a = 0; a < 2; ++a)
      for (i64 b = 0; b < 2; ++b)
        for (i64 c = 0; c < 8; ++c) want[static_cast<std::size_t>(4 * o + 2 * a + b)] += x(0, c, 3, 5) * w(c, o, a, b);
  for (i64 k = 0; k < 16; ++k)
    CHECK(y(0, k / 4, 6 + k / 2 % 2, 10 + k % 2) == doctest::Approx(want[static_cast<std::size_t>(k)]).epsilon(1e-5));
}

TEST_CASE("a transposed convolution whose strides divide its kernel is one product") {
  const volume x = ops::between<f64, 5>({2, 5, 1, 4, 3}, -2, 2, 5), w = ops::between<f64, 5>({5, 3, 1, 6, 4}, -2, 2, 6);
  const auto f = [](const volume& t, const volume& k) {
    return conv_transpose3d(t, k, {.stride = {1, 3, 2}, .padding = {0, 1, 1}});
  };
  const auto products = [](const auto& compiled) {
    int n = 0;
    for (const auto& step : compiled.explain().specialisations[0].what.steps) n += step.name.starts_with("dot");
    return n;
  };
  const auto forward = compile(f);
  const volume y = forward(x, w);
  CHECK(apart(listed(y), listed(naive_transpose(x, w, {{{}, {3, 1}, {2, 1}}}, {1, 13, 6}, 1))) < 1e-12);
  CHECK(products(forward) == 1);
  // What a convolution's image receives is the same product.
  const volume image = ops::between<f64, 5>({2, 3, 1, 13, 6}, -2, 2, 7);
  const auto received = compile(grad<0>([&](const volume& t, const volume& k, const volume& g) {
    return sum(conv3d(t, k, {.stride = {1, 3, 2}, .padding = {0, 1, 1}}) * g);
  }));
  CHECK(apart(listed(volume(received(image, w, x))), listed(y)) < 1e-12);
  CHECK(products(received) == 1);
}

TEST_CASE("interpolate takes open extents to every size as it takes known ones") {
  for (const int from : {2, 3, 5})
    for (const int to : {1, 2, 4, 6})
      for (const resize mode : {resize::linear, resize::cubic})
        for (const bool align : {false, true}) {
          INFO(from << " to " << to << ", cubic " << (mode == resize::cubic) << ", corners " << align);
          const image x = ops::between<f64, 4>({2, 2, from, 3}, -2, 2, from);
          const auto f = [=](const image& t) -> image {
            return interpolate(t, {.size = {to, 3}, .mode = mode, .align_corners = align});
          };
          const image y = compile(f, {.dynamic = dynamic::yes, .backend = "reference"})(x);
          CHECK(apart(listed(y), listed(f(x))) < 1e-12);
        }
}
