// Convolutions, pools, folds and interpolation against loops over single elements, and their derivatives along directions.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <sinter/windows.hpp>

#include "walk.hpp"

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

i64 count_of(i64 extent, i64 taps, along a, i64 high) { return (extent + a.low + high - a.dilation * (taps - 1) - 1) / a.step + 1; }

volume naive_conv(const volume& x, const volume& w, const std::array<along, 3>& a, const std::array<i64, 3>& out, i64 groups) {
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
                    const i64 u = i * a[0].step + p * a[0].dilation - a[0].low, v = j * a[1].step + q * a[1].dilation - a[1].low,
                              s = l * a[2].step + r * a[2].dilation - a[2].low;
                    if (u >= 0 && v >= 0 && s >= 0 && u < e[2] && v < e[3] && s < e[4])
                      sum += x(n, o / each * k[1] + c, u, v, s) * w(o, c, p, q, r);
                  }
            y(n, o, i, j, l) = sum;
          }
  return y;
}

/// The transpose of naive_conv: x is (n, g·i, …), w (g·i, o, …).
volume naive_transpose(const volume& x, const volume& w, const std::array<along, 3>& a, const std::array<i64, 3>& out, i64 groups) {
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
                    const i64 u = i * a[0].step + p * a[0].dilation - a[0].low, v = j * a[1].step + q * a[1].dilation - a[1].low,
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
enum class where { reference, cpu };

/// f(x, w) eagerly and compiled, and its derivatives along two directions by differences of what `f` computes eagerly.
void check(const std::string& name, const function& f, const volume& x, const volume& w, const volume& want, where on) {
  INFO(name);
  const volume y = f(x, w);
  CHECK(y.shape() == want.shape());
  CHECK(apart(listed(y), listed(want)) < 1e-12);
  const auto shape = want.shape();
  const volume c = ops::between<f64, 5>(shape, -1, 1, 77);
  options how;
  how.backend = on == where::cpu ? "cpu" : "reference";
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
    const volume dx = ops::between<f64, 5>(x.shape(), -1, 1, seed), dw = ops::between<f64, 5>(w.shape(), -1, 1, 9 + seed);
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
  where on = where::reference;
};

const conv_row conv_rows[] = {
    {"3x3", {2, 4, 1, 7, 6}, {6, 4, 1, 3, 3}, {{{}, {1, 1}, {1, 1}}}, {.padding = {0, 1, 1}}, where::cpu},
    {"1x1", {2, 4, 1, 5, 6}, {6, 4, 1, 1, 1}, {{{}, {}, {}}}, {}, where::cpu},
    {"steps", {2, 4, 1, 9, 8}, {6, 4, 1, 3, 3}, {{{}, {2, 1}, {2, 1}}}, {.stride = {1, 2, 2}, .padding = {0, 1, 1}}, where::cpu},
    {"1x1 in steps", {2, 4, 1, 5, 6}, {6, 4, 1, 1, 1}, {{{}, {2}, {3}}}, {.stride = {1, 2, 3}}},
    {"dilation", {1, 2, 1, 9, 11}, {3, 2, 1, 3, 2}, {{{}, {1, 2, 2}, {1, 1, 3}}}, {.padding = {0, 2, 1}, .dilation = {1, 2, 3}}},
    {"steps and dilation", {1, 2, 1, 12, 11}, {3, 2, 1, 3, 4}, {{{}, {2, 1, 3}, {4, 2, 2}}}, {.stride = {1, 2, 4}, .padding = {0, 1, 2}, .dilation = {1, 3, 2}}},
    {"apart", {1, 2, 1, 9, 10}, {3, 2, 1, 3, 2}, {{{}, {3}, {4}}}, {.stride = {1, 3, 4}}, where::cpu},
    {"groups", {2, 4, 1, 6, 5}, {6, 2, 1, 3, 2}, {{{}, {1, 1}, {1, 1}}}, {.padding = {0, 1, 1}, .groups = 2}, where::cpu},
    {"groups in steps", {1, 6, 1, 6, 7}, {3, 2, 1, 3, 3}, {{{}, {2, 1}, {2, 0}}}, {.stride = {1, 2, 2}, .padding = {0, 1, 0}, .groups = 3}},
    {"depthwise", {2, 4, 1, 7, 6}, {4, 1, 1, 3, 3}, {{{}, {1, 1}, {2, 1}}}, {.stride = {1, 1, 2}, .padding = {0, 1, 1}, .groups = 4}, where::cpu},
    {"depthwise, several each", {1, 2, 1, 7, 6}, {6, 1, 1, 2, 3}, {{{}, {}, {}}}, {.groups = 2}},
    {"three axes", {1, 2, 5, 6, 5}, {3, 2, 3, 2, 3}, {{{2, 1}, {1, 0}, {1, 1}}}, {.stride = {2, 1, 1}, .padding = {1, 0, 1}}, where::cpu},
    {"a window as large as the image", {2, 3, 1, 4, 5}, {2, 3, 1, 4, 5}, {{{}, {}, {}}}, {}},
    {"many taps", {1, 1, 1, 1, 40}, {2, 1, 1, 1, 19}, {{{}, {}, {2, 3}}}, {.stride = {1, 1, 2}, .padding = {0, 0, 3}}},
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
    const volume x = ops::between<f64, 5>({r.x[0], r.w[0], in[0], in[1], in[2]}, -2, 2, 5), w = ops::between<f64, 5>(r.w, -2, 2, 6);
    conv_transpose_options o{.stride = r.o.stride, .padding = r.o.padding.amount, .dilation = r.o.dilation, .groups = groups};
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
        naive_transpose(x, w, r.a, out, groups), r.on == where::cpu && groups != 2 ? where::cpu : where::reference);
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
  CHECK(apart(listed(tensor<f64, 3>(line)),
              listed(naive_conv(reshape(x, 2, 3, 1, 1, 56), reshape(w, 4, 3, 1, 1, 6), {{{}, {}, {2}}}, {1, 1, 26}, 1))) < 1e-12);
  // Options that the compiler knows keep static extents.
  const tensor<float, dims{1, 2, 8, dyn}> s = zeros<float>({1, 2, 8, 9});
  const auto z = conv2d<conv_options{.stride = 2, .padding = 1}>(s, ones<float, dims{3, 2, 3, 3}>());
  static_assert(decltype(z)::static_shape == dims{1, 3, 4, dyn});
  CHECK(z.shape() == index_array<4>{1, 3, 4, 5});
}

TEST_CASE("other dtypes") {
  const auto x = cast<i64>(ops::between<f64, 4>({1, 2, 5, 5}, -9, 9, 1)), w = cast<i64>(ops::between<f64, 4>({2, 2, 3, 3}, -9, 9, 2));
  const tensor<i64, 4> xi = x, wi = w, y = conv2d(xi, wi, {.padding = 1});
  const tensor<f64, 4> xd = cast<f64>(xi), wd = cast<f64>(wi);
  CHECK(apart(listed(image(cast<f64>(y))), listed(image(conv2d(xd, wd, {.padding = 1})))) == 0);
  CHECK(max(cast<f64>(abs(conv_transpose2d(xi, wi)))).item() == max(abs(conv_transpose2d(xd, wd))).item());
  const tensor<bf16, 4> xb = cast<bf16>(xi), wb = cast<bf16>(wi);
  const tensor<bf16, 4> yb = conv2d(xb, wb, {.padding = 1});
  CHECK(max(abs(cast<f64>(yb) - cast<f64>(y))).item() < 2);
  const auto low = autocast<bf16>([](const tensor<float, 4>& p, const tensor<float, 4>& q) { return conv2d(p, q, {.padding = 1}); });
  const tensor<float, 4> xf = cast<float>(xi), wf = cast<float>(wi);
  CHECK(max(abs(low(xf, wf) - cast<float>(yb))).item() == 0);
  options how;
  how.backend = "reference";
  CHECK(max(abs(compile(low, how)(xf, wf) - cast<float>(yb))).item() == 0);
}
