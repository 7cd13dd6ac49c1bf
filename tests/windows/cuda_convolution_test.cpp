// Convolutions and their gradients by a GPU's library, emulated or real, against numbers of 64 bits: dtypes, layouts, steps, groups,
// padding, odd sizes and sizes of 1; what follows them; recorded calls; and what is computed without the library.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <sinter/windows.hpp>

#include "../emulator/select.hpp"
#include "../environment_value.hpp"

namespace {

using namespace sinter;

/// An image (n, c, h, w), weights (o, i, r, s), and how windows lie.
struct example {
  const char* name;
  std::int64_t n, c, h, w, o, r, s;
  conv_options how;
};

const std::vector<example> examples{
    {"same", 2, 6, 9, 11, 5, 3, 3, {.padding = 1}},
    {"no padding", 2, 3, 8, 7, 4, 3, 2, {}},
    {"steps", 2, 4, 9, 12, 6, 3, 3, {.stride = 2, .padding = 1}},
    {"steps that leave a row", 1, 4, 10, 8, 3, 3, 3, {.stride = 3}},
    {"one tap with steps", 2, 5, 7, 9, 4, 1, 1, {.stride = 2}},
    {"dilation", 2, 3, 11, 9, 4, 3, 3, {.padding = 2, .dilation = 2}},
    {"groups", 2, 6, 7, 8, 4, 3, 3, {.padding = 1, .groups = 2}},
    {"groups of one output", 1, 6, 5, 6, 3, 3, 3, {.padding = 1, .groups = 3}},
    {"same with even taps", 2, 3, 6, 7, 4, 2, 4, {.padding = same}},
    {"one image, one channel", 1, 1, 6, 5, 1, 3, 3, {.padding = 1}},
    {"one row", 3, 4, 1, 9, 5, 1, 3, {.padding = {0, 1}}},
    {"one column of taps", 2, 3, 9, 5, 4, 3, 1, {.padding = {1, 0}}},
    {"a window as large as the image", 3, 4, 5, 3, 6, 5, 3, {.padding = 1}},
};

template <class T>
auto drawn(std::uint64_t seed, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return evaluate(cast<T>(0.5f * normal<float>(make_key(seed), a, b, c, d)));
}

template <class X>
std::vector<double> numbers(const X& x) {
  return evaluate(cast<double>(x.to(device::cpu()))).to_vector();
}

/// |got - want| as a part of the largest element of `want`, at most.
template <class X, class Y>
void check_close(const X& got, const Y& want, double most) {
  const auto a = numbers(got), b = numbers(want);
  REQUIRE(a.size() == b.size());
  double largest = 0, worst = 0;
  for (const double x : b) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    worst = std::isfinite(off) ? std::max(worst, off) : HUGE_VAL;
  }
  CHECK(largest > 0);
  CHECK(worst <= most * largest);
}

template <class T>
constexpr double slack = std::is_same_v<T, float>  ? 2e-5
                         : std::is_same_v<T, bf16> ? 2e-2
                                                   : 3e-3;

options on_reference() {
  options how;
  how.backend = "reference";
  return how;
}

/// The number of steps that a library computes; a real GPU may lack it.
std::int64_t calls_of(const report& r, const std::string& library) {
  return std::count_if(r.steps.begin(), r.steps.end(), [&](const kernel_report& k) { return k.library == library; });
}

/// The layouts of images and weights.
enum class order { nhwc_ohwi, nhwc_hwio, nchw_oihw };

template <order O, class T>
std::pair<tensor<T, 4>, tensor<T, 4>> operands(const example& e, std::uint64_t seed) {
  const std::int64_t i = e.c / e.how.groups;
  if constexpr (O == order::nhwc_ohwi)
    return {drawn<T>(seed, e.n, e.h, e.w, e.c), drawn<T>(seed + 1, e.o, e.r, e.s, i)};
  else if constexpr (O == order::nhwc_hwio)
    return {drawn<T>(seed, e.n, e.h, e.w, e.c), drawn<T>(seed + 1, e.r, e.s, i, e.o)};
  else return {drawn<T>(seed, e.n, e.c, e.h, e.w), drawn<T>(seed + 1, e.o, i, e.r, e.s)};
}

template <order O, class X, class W>
auto convolved(const X& x, const W& w, const conv_options& how) {
  if constexpr (O == order::nhwc_ohwi) return conv<"nhwc,ohwi->nhwc">(x, w, how);
  else if constexpr (O == order::nhwc_hwio) return conv<"nhwc,hwio->nhwc">(x, w, how);
  else return conv<"nchw,oihw->nchw">(x, w, how);
}

/// The result, and both gradients of a sum of squares.
template <order O>
auto with_gradients(const conv_options& how) {
  return [how](const auto& x, const auto& w) {
    const auto [gx, gw] = grad<0, 1>(
        [&](const auto& p, const auto& q) { return sum(square(cast<float>(convolved<O>(p, q, how)))); })(x, w);
    return std::tuple{evaluate(convolved<O>(x, w, how)), evaluate(gx), evaluate(gw)};
  };
}

template <order O>
auto in_twofold(const conv_options& how) {
  return [how](const auto& x, const auto& w) {
    const auto [gx, gw] =
        grad<0, 1>([&](const auto& p, const auto& q) { return sum(square(convolved<O>(p, q, how))); })(x, w);
    return std::tuple{evaluate(convolved<O>(x, w, how)), evaluate(gx), evaluate(gw)};
  };
}

template <order O, class T>
void check_all() {
  const device gpu = device::cuda(0);
  std::uint64_t seed = 1;
  for (const example& e : examples) {
    INFO(std::string(e.name));
    const auto [x, w] = operands<O, T>(e, seed += 2);
    const auto f = compile(with_gradients<O>(e.how));
    const auto got = f(x.to(gpu), w.to(gpu));
    const auto want =
        compile(in_twofold<O>(e.how), on_reference())(evaluate(cast<double>(x)), evaluate(cast<double>(w)));
    check_close(std::get<0>(got), std::get<0>(want), slack<T>);
    check_close(std::get<1>(got), std::get<1>(want), 2 * slack<T>);
    check_close(std::get<2>(got), std::get<2>(want), 2 * slack<T>);
    if (!emulator::real()) CHECK(calls_of(f.report(), "cuDNN") >= (e.r * e.s == 1 ? 0 : 1));
  }
}

bool has_gpu() { return device_count() > 0; }

}  // namespace

TEST_CASE("convolutions and gradients of images with channels last") {
  if (!has_gpu()) return;
  SUBCASE("f32") { check_all<order::nhwc_ohwi, float>(); }
  SUBCASE("bf16") { check_all<order::nhwc_ohwi, bf16>(); }
  SUBCASE("f16") { check_all<order::nhwc_ohwi, f16>(); }
}

TEST_CASE("the same with outputs last in the weights") {
  if (!has_gpu()) return;
  SUBCASE("f32") { check_all<order::nhwc_hwio, float>(); }
  SUBCASE("bf16") { check_all<order::nhwc_hwio, bf16>(); }
}

TEST_CASE("the same with channels first") {
  if (!has_gpu()) return;
  SUBCASE("f32") { check_all<order::nchw_oihw, float>(); }
  SUBCASE("f16") { check_all<order::nchw_oihw, f16>(); }
}

TEST_CASE("a padded convolution is one call and no other kernel") {
  if (!has_gpu() || emulator::real()) return;
  const example& e = examples[0];
  const auto count = [&](auto f, const auto& x, const auto& w) {
    const auto c = compile(f);
    c(x.to(device::cuda(0)), w.to(device::cuda(0)));
    const report r = c.report();
    CHECK(static_cast<std::int64_t>(r.steps.size()) == calls_of(r, "cuDNN"));
    return r.steps.size();
  };
  const auto forward = []<order O>(std::integral_constant<order, O>) {
    return [](const auto& x, const auto& w) { return evaluate(convolved<O>(x, w, {.padding = 1})); };
  };
  const auto [x, w] = operands<order::nhwc_ohwi, float>(e, 70);
  CHECK(count(forward(std::integral_constant<order, order::nhwc_ohwi>()), x, w) == 1);
  const auto [xf, wf] = operands<order::nchw_oihw, float>(e, 72);
  CHECK(count(forward(std::integral_constant<order, order::nchw_oihw>()), xf, wf) == 1);
}

TEST_CASE("a bias and a relu are part of the call; a relu alone is not") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const example& e = examples[0];
  const auto [x, w] = operands<order::nhwc_ohwi, float>(e, 80);
  const auto b = evaluate(normal<float>(make_key(82), e.o));
  const auto biased = [](const auto& p, const auto& q, const auto& c) {
    return evaluate(maximum(convolved<order::nhwc_ohwi>(p, q, {.padding = 1}) + c, 0));
  };
  const auto f = compile(biased);
  check_close(f(x.to(gpu), w.to(gpu), b.to(gpu)),
              biased(evaluate(cast<double>(x)), evaluate(cast<double>(w)), evaluate(cast<double>(b))), 2e-5);
  const auto clipped = [](const auto& p, const auto& q) {
    return evaluate(maximum(convolved<order::nhwc_ohwi>(p, q, {.padding = 1}), 0));
  };
  const auto g = compile(clipped);
  check_close(g(x.to(gpu), w.to(gpu)), clipped(evaluate(cast<double>(x)), evaluate(cast<double>(w))), 2e-5);
  if (emulator::real()) return;
  CHECK(f.report().steps.size() == 1);
  CHECK(calls_of(f.report(), "cuDNN") == 1);
  CHECK(f.explain().text().find("a call of cuDNN") != std::string::npos);
  CHECK(g.report().steps.size() == 2);
  CHECK(calls_of(g.report(), "cuDNN") == 1);
}

TEST_CASE("NaN passes through a relu, and an infinite element reaches only its windows") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const auto x = evaluate(full<float>(1.f, 1, 5, 5, 2).at(0, 0, 0, 0).set(NAN).at(0, 4, 4, 0).set(INFINITY));
  const auto w = evaluate(full<float>(0.25f, 3, 3, 3, 2));
  const auto b = evaluate(full<float>(0.5f, 3));
  const auto f = compile([](const auto& p, const auto& q, const auto& c) {
    return evaluate(maximum(convolved<order::nhwc_ohwi>(p, q, {.padding = 1}) + c, 0));
  });
  const auto got = numbers(f(x.to(gpu), w.to(gpu), b.to(gpu))), want = numbers(f(x, w, b));
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(std::isnan(got[i]) == std::isnan(want[i]));
    CHECK(std::isinf(got[i]) == std::isinf(want[i]));
  }
}

TEST_CASE("one and three spatial axes") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const auto check = [&](auto f, const auto& x, const auto& w) {
    const auto c = compile(f);
    const auto got = c(x.to(gpu), w.to(gpu));
    const auto want = compile(f, on_reference())(evaluate(cast<double>(x)), evaluate(cast<double>(w)));
    check_close(std::get<0>(got), std::get<0>(want), 2e-5);
    check_close(std::get<1>(got), std::get<1>(want), 2e-5);
    check_close(std::get<2>(got), std::get<2>(want), 2e-5);
    if (!emulator::real()) CHECK(calls_of(c.report(), "cuDNN") == 3);
  };
  const auto all = [](const auto& convolution) {
    return [convolution](const auto& x, const auto& w) {
      const auto [gx, gw] =
          grad<0, 1>([&](const auto& p, const auto& q) { return sum(square(convolution(p, q))); })(x, w);
      return std::tuple{evaluate(convolution(x, w)), evaluate(gx), evaluate(gw)};
    };
  };
  check(all([](const auto& x, const auto& w) { return conv1d(x, w, {.padding = 2}); }),
        evaluate(normal<float>(make_key(90), 2, 3, 17)), evaluate(normal<float>(make_key(91), 4, 3, 5)));
  check(all([](const auto& x, const auto& w) { return conv3d(x, w, {.padding = 1}); }),
        evaluate(normal<float>(make_key(92), 2, 3, 4, 5, 6)), evaluate(normal<float>(make_key(93), 4, 3, 3, 3, 3)));
}

TEST_CASE("four small convolutions of one image") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const auto branches = [](const auto& x, const auto& a, const auto& b, const auto& c, const auto& d) {
    const auto of = [&](const auto& w) { return evaluate(conv<"nhwc,ohwi->nhwc">(x, w, {.padding = 1})); };
    return std::tuple{of(a), of(b), of(c), of(d)};
  };
  const auto x = drawn<float>(95, 1, 8, 8, 8);
  const auto w = [](std::uint64_t seed) { return drawn<float>(seed, 8, 3, 3, 8); };
  const auto want = branches(x, w(1), w(2), w(3), w(4));
  const auto got = compile(branches)(x.to(gpu), w(1).to(gpu), w(2).to(gpu), w(3).to(gpu), w(4).to(gpu));
  check_close(std::get<0>(got), std::get<0>(want), slack<float>);
  check_close(std::get<3>(got), std::get<3>(want), slack<float>);
}

TEST_CASE("nothing is computed of empty extents") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const auto f = compile([](const auto& x, const auto& w) { return evaluate(conv2d(x, w, {.padding = 1})); });
  const auto none = f(evaluate(zeros<float>(0, 3, 5, 5)).to(gpu), evaluate(full<float>(1.f, 4, 3, 3, 3)).to(gpu));
  CHECK(none.shape()[0] == 0);
  const auto zero = f(evaluate(zeros<float>(2, 0, 5, 5)).to(gpu), evaluate(zeros<float>(4, 0, 3, 3)).to(gpu));
  for (const double x : numbers(zero)) CHECK(x == 0);
}

TEST_CASE("open sizes: each size has its own call") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  options how;
  how.dynamic = dynamic::yes;
  const auto f = compile([](const auto& x, const auto& w) { return evaluate(conv<"nhwc,ohwi->nhwc">(x, w)); }, how);
  const auto w = drawn<float>(101, 4, 3, 3, 3);
  for (const std::int64_t n : {2, 3, 5}) {
    const auto x = drawn<float>(102 + static_cast<std::uint64_t>(n), n, 6 + n, 8, 3);
    check_close(f(x.to(gpu), w.to(gpu)), conv<"nhwc,ohwi->nhwc">(evaluate(cast<double>(x)), evaluate(cast<double>(w))),
                2e-5);
  }
}

TEST_CASE("recorded calls, whose buffers change, and deterministic ones") {
  if (!has_gpu()) return;
  const device gpu = device::cuda(0);
  const auto step = [](const auto& x, const auto& w, const auto& b) {
    const auto y = maximum(convolved<order::nhwc_ohwi>(x, w, {.padding = 1}) + b, 0);
    return evaluate(convolved<order::nhwc_ohwi>(y, w, {.padding = 1}) * 2);
  };
  for (const bool same_order : {false, true}) {
    options how;
    how.mode = mode::reduce_overhead;
    how.deterministic = same_order;
    const auto f = compile(step, how);
    const auto w = drawn<float>(111, 6, 3, 3, 6);
    const auto b = evaluate(normal<float>(make_key(112), 6));
    for (int round = 0; round < 7; ++round) {
      const auto x = drawn<float>(113 + static_cast<std::uint64_t>(round), 2, 7, 9, 6);
      const auto wr = evaluate(w * (1.f + 0.25f * static_cast<float>(round)));
      check_close(f(x.to(gpu), wr.to(gpu), b.to(gpu)),
                  step(evaluate(cast<double>(x)), evaluate(cast<double>(wr)), evaluate(cast<double>(b))), 2e-5);
    }
    if (!emulator::real()) CHECK(calls_of(f.report(), "cuDNN") == 2);
  }
}

TEST_CASE("what the library refuses is computed by kernels, and what fails is an error with its name") {
  if (!has_gpu() || emulator::real()) return;
  const device gpu = device::cuda(0);
  const auto f = [](const auto& x, const auto& w) { return evaluate(conv<"nhwc,ohwi->nhwc">(x, w, {.padding = 1})); };
  {
    const environment_value refuse("SINTER_EMULATOR_DNN", "refuse");
    const auto x = drawn<float>(121, 2, 6, 5, 7), w = drawn<float>(122, 3, 3, 3, 7);
    const auto c = compile(f);
    check_close(c(x.to(gpu), w.to(gpu)), f(evaluate(cast<double>(x)), evaluate(cast<double>(w))), 2e-5);
    CHECK(calls_of(c.report(), "cuDNN") == 0);
  }
  {
    // Of several steps there is no engine: the bias is another kernel.
    const environment_value single("SINTER_EMULATOR_DNN", "single");
    const auto x = drawn<float>(123, 2, 6, 5, 5), w = drawn<float>(124, 3, 3, 3, 5);
    const auto b = evaluate(normal<float>(make_key(125), 3));
    const auto g = [](const auto& p, const auto& q, const auto& c) {
      return evaluate(conv<"nhwc,ohwi->nhwc">(p, q, {.padding = 1}) + c);
    };
    const auto c = compile(g);
    check_close(c(x.to(gpu), w.to(gpu), b.to(gpu)),
                g(evaluate(cast<double>(x)), evaluate(cast<double>(w)), evaluate(cast<double>(b))), 2e-5);
    CHECK(calls_of(c.report(), "cuDNN") == 1);
    CHECK(c.report().steps.size() == 2);
  }
  const environment_value fail("SINTER_EMULATOR_DNN", "fail");
  const auto x = drawn<float>(126, 2, 6, 5, 3), w = drawn<float>(127, 3, 3, 3, 3);
  std::string message;
  try {
    compile(f)(x.to(gpu), w.to(gpu));
  } catch (const std::exception& e) {
    message = e.what();
  }
  CHECK(message.find("the convolution (2, 3, 6, 5) by (3, 3, 3, 3) of f32 in dot") != std::string::npos);
  CHECK(message.find("failed: cuDNN: CUDNN_STATUS_EXECUTION_FAILED") != std::string::npos);
}
