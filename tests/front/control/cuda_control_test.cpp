// cond, scan, fori_loop, while_loop, custom_op and host_call on a GPU: against the host.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

using namespace sinter;

namespace {

using scalar = tensor<float, 0>;
using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;

/// Without a GPU these run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }
const char* backend() { return device_count() > 0 ? "cuda" : "cpu"; }

matrix inputs(std::int64_t steps, std::int64_t n) {
  return sin(reshape(cast<float>(arange<std::int64_t>(steps * n)), {steps, n}) * 0.37f);
}

template <class A, class B>
void check_same(const A& a, const B& b) {
  check_close(a.to_vector(), b.to_vector(), 2e-5);
}

}  // namespace

TEST_CASE("a recurrent network by scan on a GPU: values and gradients, slices of odd lengths, nested loops") {
  const auto loss = [](const matrix& w, const vec& h, const matrix& xs) {
    const auto [last, all] = scan(
        [&](const vec& h, const vec& x) {
          const vec mixed = fori_loop(
              0, 2, [&](const auto& i, const vec& c) { return tanh(matmul(c, w) + x * cast<float>(i + 1)); }, h);
          return std::pair{mixed, mixed * x};
        },
        h, xs);
    return sum(last * last) + sum(all);
  };
  const auto f = compile(value_and_grad(loss));
  const auto g = compile(value_and_grad<2>(loss));
  for (std::int64_t n : {5, 8}) {
    const matrix w = inputs(n, n), xs = inputs(6, n);
    const vec h = sin(cast<float>(arange<std::int64_t>(n)));
    const auto [a, da] = f(w, h, xs);
    const auto [b, db] = f(w.to(gpu()), h.to(gpu()), xs.to(gpu()));
    CHECK(f.report().backend == backend());
    check_same(b.to({}), a);
    check_same(db.to({}), da);
    check_same(g(w.to(gpu()), h.to(gpu()), xs.to(gpu())).second.to({}), g(w, h, xs).second);
    check_same(scalar(loss(w.to(gpu()), h.to(gpu()), xs.to(gpu()))).to({}), a);
  }
}

TEST_CASE("cond and while_loop read their tests from the GPU; steps that nothing runs") {
  const auto f = [](const scalar& p, const vec& x) {
    const vec chosen = cond(
        p > 0.0f, [&] { return vec(x * 2.0f); }, [&] { return vec(x - 1.0f); });
    return while_loop([](const vec& v) { return sum(v * v) < 500.0f; }, [](const vec& v) { return v * 1.7f; }, chosen);
  };
  for (const auto mode : {mode::standard, mode::reduce_overhead}) {
    const auto g = compile(f, {.mode = mode});
    for (float p : {1.0f, -1.0f, 1.0f})
      for (float scale : {1.0f, 100.0f}) {
        const vec x = vec{1, 2, 3} * scale;
        const vec want = f(scalar(p), x);
        check_same(g(scalar(p).to(gpu()), x.to(gpu())).to({}), want);
        check_same(f(scalar(p).to(gpu()), x.to(gpu())).to({}), want);
      }
    CHECK(g.report().backend == backend());
  }
  const auto none = compile([](const vec& x, const matrix& xs) {
    return scan([](const vec& c, const vec& r) { return std::pair{vec(c + r), c}; }, x, xs);
  });
  const auto [last, ys] = none(vec{1, 2}.to(gpu()), zeros<float>(0, 2, gpu()));
  check_same(last.to({}), vec{1, 2});
  CHECK(ys.shape() == index_array<2>{0, 2});
}

TEST_CASE("views, host numbers and repeated calls") {
  const auto f = [](const matrix& m, const vec& x, const scalar& by) {
    return scan(
               [&](const vec& c, const vec& r) {
                 return std::pair{vec(c * by + r), vec(c - r)};
               },
               x, transpose(m))
        .second;
  };
  const auto g = compile(f, {.mode = mode::reduce_overhead});
  const matrix m = inputs(3, 5);
  const vec x{1, 2, 3};
  for (float by : {0.5f, 0.25f, 2.0f}) check_same(g(m.to(gpu()), x.to(gpu()), scalar(by)).to({}), f(m, x, scalar(by)));
}

TEST_CASE("custom ops on a GPU: CUDA source, a function that launches, the host; host_call sees the values") {
  const auto host = [](elements<const float, 2> x, elements<const float, 1> y, elements<float, 2> out) {
    for (std::int64_t r = 0; r < x.extents[0]; ++r)
      for (std::int64_t c = 0; c < x.extents[1]; ++c)
        out[r * x.extents[1] + c] = x[r * x.extents[1] + c] * y[c] + static_cast<float>(r);
  };
  const auto shape = [](const index_array<2>& x, const auto&) { return result_of<float, 2>{x}; };
  const cuda_source source{R"(
extern "C" __global__ void rows(const float* x, const float* y, float* out, long long x0, long long x1, long long y0,
                                long long o0, long long o1) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < o0 * o1) out[i] = x[i] * y[i % x1] + (float)(i / x1);
}
)",
                           "rows", 64};
  const auto pull = [](const matrix& x, const vec& y, const matrix&, const matrix& ct) {
    return std::tuple{matrix(ct * y), sum(ct * x, axis<0>)};
  };
  int launched = 0;
  const auto with_source = custom_op<"rows">(host, source, shape, pull);
  const auto on_host = custom_op<"rows_on_host">(host, none, shape, pull);
  const auto launching = custom_op<"rows_launched">(
      host, [&launched](elements<const float, 2>, elements<const float, 1>, elements<float, 2>, void*) { ++launched; },
      shape, pull);
  const matrix x = inputs(7, 33);
  const vec y = sin(cast<float>(arange<std::int64_t>(33)));
  const auto check = [&](const auto& op) {
    const auto f = [&](const matrix& x, const vec& y) { return sum(op(x * 2.0f, y) * x); };
    const auto g = compile(value_and_grad(f));
    const auto [a, da] = g(x, y);
    const auto [b, db] = g(x.to(gpu()), y.to(gpu()));
    CHECK(g.report().backend == backend());
    check_same(b.to({}), a);
    check_same(db.to({}), da);
    check_same(op(x.to(gpu()), y.to(gpu())).to({}), op(x, y));
  };
  check(with_source);
  check(on_host);
  compile([&](const matrix& x, const vec& y) { return launching(x, y); })(x.to(gpu()), y.to(gpu()));
  CHECK(launched == (device_count() > 0 ? 1 : 0));

  std::vector<float> seen;
  const auto f = compile(
      [&](const vec& x) {
        const auto note = [&seen](const vec& v) { seen.push_back(v(1)); };
        host_call(note, x * 2.0f);
        return fori_loop(
            0, 3,
            [&](auto, const vec& c) {
              host_call(note, c);
              return c + 1.0f;
            },
            x);
      },
      {.mode = mode::reduce_overhead});
  for (int call = 0; call < 3; ++call) f(vec{1, 2, 3}.to(gpu()));
  CHECK(seen == std::vector<float>{4, 2, 3, 4, 4, 2, 3, 4, 4, 2, 3, 4});
}
