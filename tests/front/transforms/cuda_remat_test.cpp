// Parts that are computed anew, and functions with rules, on a GPU: as one recorded call, and step by step.
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"
#include "../../emulator/select.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;

template <class Wrap>
auto layers(const Wrap& wrap) {
  return [wrap](const std::vector<matrix>& ws, const matrix& x) {
    const auto layer = wrap([](const matrix& h, const matrix& w) {
      const matrix m = matmul(h, w);
      return matrix(h + matmul(matrix(sin(m) * tanh(m)), transpose(w)) * 0.1f);
    });
    matrix h = x;
    for (const auto& w : ws) h = layer(h, w);
    return mean(h * h);
  };
}

}  // namespace

TEST_CASE("what is computed anew on a GPU gives the host's gradients") {
  std::vector<matrix> ws, there;
  for (std::uint64_t i = 0; i < 3; ++i) {
    ws.push_back(normal<float>(make_key(i), 4, 16) * 0.3f);
    there.push_back(ws.back().to(device::cuda(0)));
  }
  const matrix x = normal<float>(make_key(9), 8, 4), at = x.to(device::cuda(0));
  const auto want = compile(grad(layers([](auto f) { return f; })))(ws, x);
  const auto check = [&](const auto& f) {
    for (int call = 0; call < 3; ++call) {  // the later ones as recorded
      const auto got = f(there, at);
      for (std::size_t i = 0; i < ws.size(); ++i)
        check_close(got[i].to(device::cpu()).to_vector(), want[i].to_vector(), 1e-4);
    }
  };
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    check(compile(grad(layers([](auto f) { return remat(f); })), {.mode = how}));
    check(compile(grad(layers([](auto f) { return remat(f, save_products); })), {.mode = how}));
    check(compile(grad(layers([](auto f) { return f; })), {.mode = how, .memory_budget = 0}));
  }
  check(grad(layers([](auto f) { return remat(f); })));
}

TEST_CASE("pullbacks, rules and jacobians on a GPU") {
  using vec = tensor<float, 1>;
  const vec x = vec{1, 2, 3}.to(device::cuda(0)), ct = vec{1, 0, 2}.to(device::cuda(0));
  const auto square = custom_vjp([](const vec& x) { return vec(x * x); },
                                 [](const vec& x) {
                                   return std::pair{vec(x * x), x};
                                 },
                                 [](const vec& x, const vec& ct) { return vec(2.f * x * ct); });
  const auto back = vjp(square)(x).second;
  CHECK(back(ct).to(device::cpu()).to_vector() == std::vector<float>{2, 0, 12});
  CHECK(compile(back)(ct).to(device::cpu()).to_vector() == std::vector<float>{2, 0, 12});
  CHECK(jvp(square)(x, ct).second.to(device::cpu()).to_vector() == std::vector<float>{2, 0, 12});
  CHECK(jacobian(square)(x).to(device::cpu()).to_vector() == std::vector<float>{2, 0, 0, 0, 4, 0, 0, 0, 6});
}
