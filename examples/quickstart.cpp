// The README's example: a function, its gradient, and the kernel that both become.
#include <cstdio>
#include <tuple>

#include <sinter/sinter.hpp>
using namespace sinter;

struct linear {
  tensor<float, 2> w;
  tensor<float, 1> b;
};  // any plain struct is a parameter tree

int main() {
  const linear p{{{0.5f, -1.f}, {2.f, 1.f}, {-1.f, 0.25f}}, {0.1f, -0.2f}};
  const tensor<float, 2> x{{1.f, 2.f, 3.f}, {-1.f, 0.5f, 2.f}};
  auto loss = [](const linear& p, const tensor<float, 2>& x) { return mean(silu(matmul(x, p.w) + p.b)); };

  auto step = compile(
      [&](const linear& p, const tensor<float, 2>& x) {  // traced at the first call, then only guards and kernels
        auto [l, g] = value_and_grad(loss)(p, x);
        return std::tuple{l, tree_map([](auto p, auto g) { return p - 0.1f * g; }, p, g)};
      });

  auto [l, q] = step(p, x);
  std::printf("loss %.4f, eager %.4f, b[0] %.4f -> %.4f\n", l.item(), loss(p, x).item(), p.b.to_vector()[0],
              q.b.to_vector()[0]);
  std::printf("%zu ops in %zu kernels\n", step.report().kernels_unfused, step.report().kernels);
}
