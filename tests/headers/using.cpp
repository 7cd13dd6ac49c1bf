// The declarations that docs/headers.md lists to write beside `using namespace std`: functions of tensors need no using, they are found by their arguments.
#include <algorithm>
#include <any>
#include <array>
#include <bitset>
#include <chrono>
#include <cmath>
#include <complex>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <ranges>
#include <set>
#include <stack>
#include <string>
#include <thread>
#include <tuple>
#include <valarray>
#include <variant>
#include <vector>

#include <sinter/sinter.hpp>

using namespace std;
// clang-format off
using sinter::tensor, sinter::dims, sinter::dyn, sinter::dim, sinter::f16, sinter::bf16, sinter::axis, sinter::keepdims;
using sinter::zeros, sinter::ones, sinter::full, sinter::arange, sinter::linspace, sinter::eye, sinter::from_span, sinter::make_key;
using sinter::compile, sinter::grad, sinter::value_and_grad, sinter::has_aux, sinter::cond, sinter::fori_loop, sinter::while_loop;
using sinter::tree_map, sinter::cast, sinter::matmul, sinter::einsum, sinter::uniform, sinter::normal, sinter::device;
// clang-format on

struct linear {
  tensor<float, 2> w;
  tensor<float, 1> b;
};

int main() {
  const linear p{{{1, 2}, {3, 4}}, {0.5f, 0.25f}};
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  const auto loss = [](const linear& q, const tensor<float, 2>& v) {
    const tensor<float, 2> h = max(softmax(tanh(matmul(v, q.w) + q.b)), axis<0>, keepdims) + min(v) + log(exp(abs(v)));
    return mean(h * h) + sum(pow(sqrt(abs(v)), 2.f)) + norm(flatten(v)) + cast<float>(sinter::any(v > 0.f));
  };
  auto step = compile([&](const linear& q, const tensor<float, 2>& v) {
    auto [l, g] = value_and_grad(loss)(q, v);
    return tuple{l, tree_map([](auto a, auto b) { return a - 0.1f * b; }, q, g)};
  });
  auto [l, q] = step(p, x);
  const auto parts = sinter::stack(x, sinter::slice<0>(x, 0, 2));
  const auto spread = sinter::std(x, axis<0>);
  const auto turned = transpose(reshape<dims{4, 1}>(x));
  vector<float> values = concat(x, where(x > 1.f, x, 0.f)).to_vector();
  sort(values.begin(), values.end());
  cout << max(1, 2) << l << to_string(parts) << spread << turned << accumulate(values.begin(), values.end(), 0.f)
       << cast<double>(zeros<float>(2)) << normal<float>(make_key(1), 2) << take(x, arange<int64_t>(1))
       << einsum<"ij->ji">(x);
}
