// What pullbacks and linear functions hold of their functions: bytes, equal bits beside keeping all, nothing random drawn again.
#include <map>
#include <string>

#include <sinter/nn.hpp>
#include <sinter/windows.hpp>

#include "derivatives.hpp"

using namespace derivatives;

namespace {

using f32_vec = tensor<float, 1>;
using f32_mat = tensor<float, 2>;

f32_mat some(std::int64_t n, std::int64_t m) { return reshape(sin(arange<float>(n * m) * 1.7f + 0.3f) * 1.5f, n, m); }

void for_each_tensor(const auto& x, std::vector<float>& to) {
  if constexpr (requires { x.to_vector(); }) {
    for (const auto v : x.to_vector()) to.push_back(static_cast<float>(v));
  } else {
    std::apply([&](const auto&... part) { (for_each_tensor(part, to), ...); }, x);
  }
}
template <class Tree>
std::vector<float> all_of(const Tree& tree) {
  std::vector<float> out;
  for_each_tensor(tree, out);
  return out;
}

/// The bytes that f's pullback holds and would hold; its cotangents have the bits of one that keeps all.
template <int... Index, class F, class... X>
std::pair<std::size_t, std::size_t> held(const F& f, const X&... x) {
  const auto [y, few] = vjp<Index...>(f)(x...);
  const auto [z, all] = [&] {
    const keep_all_scope keep;
    return vjp<Index...>(f)(x...);
  }();
  CHECK(all.held_bytes() == all.all_bytes());
  CHECK(few.all_bytes() == all.all_bytes());
  CHECK(few.held_bytes() <= few.all_bytes());
  CHECK(y.to_vector() == z.to_vector());
  const auto ct = cos(y * 3.f) + 0.25f;
  const typename std::remove_const_t<decltype(y)> given = ct;
  CHECK(all_of(few(given)) == all_of(all(given)));
  return {few.held_bytes(), few.all_bytes()};
}

std::map<ir::op, int> counts(const graph& g) {
  std::map<ir::op, int> out;
  for (const graph::id id : g.order()) ++out[g[id].code];
  return out;
}

}  // namespace

TEST_CASE("a pullback keeps the fewest bytes, and gives the bits of one that keeps all") {
  const auto x = some(40, 25);
  constexpr std::size_t one = 4 * 40 * 25;
  const auto chain = held([](const f32_mat& v) { return f32_mat(tanh(sin(exp(v)) * 2.f)); }, x);
  CHECK(chain.first == one);
  CHECK(chain.second >= 2 * one);
  const auto gelu_of = held([](const f32_mat& v) { return f32_mat(gelu(v * 0.5f)); }, x);
  CHECK(gelu_of.first <= one);
  const auto w = some(25, 30), u = some(30, 8);
  const auto mlp = held<0, 1, 2>([](const f32_mat& v, const f32_mat& w,
                                    const f32_mat& u) { return f32_mat(matmul(gelu(layer_norm(matmul(v, w))), u)); },
                                 x, w, u);
  CHECK(mlp.first < mlp.second);
  held([](const f32_mat& v) { return f32_mat(softmax(v * 2.f) * v); }, x);
  held([](const f32_mat& v) { return f32_vec(logsumexp(v * v, axis<1>)); }, x);
  held([](const f32_mat& v) { return f32_mat(cumsum(exp(sin(v)), axis<1>)); }, x);
  held([](const f32_mat& v) { return f32_mat(v); }, zeros<float>(0, 3));
  held([](const f32_mat& v) { return f32_mat(exp(sin(v))); }, some(1, 1));
}

TEST_CASE("what is random or a product is never computed again") {
  const auto x = some(40, 25), w = some(25, 30);
  const auto f = [](const f32_mat& v, const f32_mat& w) {
    const f32_mat h = matmul(v, w);
    const f32_mat drawn = uniform<float>(make_key(3), 40, 30);
    return f32_mat(where(drawn > 0.5f, tanh(sin(h)), h * 0.f) * drawn);
  };
  const auto [y, back] = vjp<0, 1>(f)(x, w);
  CHECK(back.held_bytes() < back.all_bytes());
  auto of = counts(trace(back)(y));
  CHECK(of[ir::op::philox] == 0);
  CHECK(of[ir::op::dot] == 2);
  CHECK(of[ir::op::sin] == 1);
  held<0, 1>(f, x, w);
}

TEST_CASE("linearize keeps the fewest bytes; a trace keeps nodes") {
  const auto x = some(30, 7);
  const auto f = [](const f32_mat& v) { return f32_mat(tanh(sin(exp(v)))); };
  const auto [y, along] = linearize(f)(x);
  CHECK(along.held_bytes() == 4 * 30 * 7);
  CHECK(along.all_bytes() > along.held_bytes());
  const auto [z, all] = [&] {
    const keep_all_scope keep;
    return linearize(f)(x);
  }();
  CHECK(along(x).to_vector() == all(x).to_vector());
  const auto inside = compile([&](const f32_mat& v) {
    const auto [value, back] = vjp(f)(v);
    CHECK(back.held_bytes() == 0);
    return back(value);
  });
  const auto [value, back] = vjp(f)(x);
  const auto a = inside(x).to_vector(), b = back(value).to_vector();
  for (std::size_t k = 0; k < a.size(); ++k) CHECK(a[k] == doctest::Approx(b[k]).epsilon(1e-5));
}
