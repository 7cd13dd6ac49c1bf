// A program that takes much of what there is, of several dtypes and ranks: compiled with warnings that the headers do not see otherwise.
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sinter/sinter.hpp>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
struct network {
  std::vector<layer> layers;
  std::array<tensor<float, 1>, 2> scales;
  std::optional<tensor<float, 1>> bias;
  int steps = 2;
};

template <class T, int Rank>
double moved(const tensor<T, Rank>& x) {
  const auto a = flip(x);
  const auto b = expand_dims<0>(x);
  const auto c = squeeze<0>(b);
  const auto joined = concat(x, a, axis<-1>);
  const auto stacked = stack<0>(std::vector{x, a});
  const auto tiled = concat<0>(std::vector{x, c});
  const auto cut = slice<-1>(joined, 0, 2, 1);
  const auto halves = split(joined, 2, axis<-1>);
  return static_cast<double>(tiled.numel()) + static_cast<double>(cut.numel() + stacked.numel() + halves[0].numel());
}

template <class T>
double numbers(const tensor<T, 2>& x) {
  const tensor<T, 2> y = where(x > T(1), x + T(1), maximum(x, T(2)) * x - x / T(2));
  const tensor<bool, 2> same = (y == x) || !(x < y);
  tensor<T, 2> z = clamp(y, T(0), T(9));
  z += x;
  z -= T(1);
  const auto s = sum(z, axis<0>);
  const auto p = prod(z, axis<1>, keepdims);
  const auto m = max(z, axis<0, 1>);
  const auto where_max = argmax(z, axis<1>);
  const auto where_min = argmin(z);
  const auto sums = cumsum(z, axis<0>);
  const auto tops = cummax(z, axis<1>);
  const auto picked = take(z, where_max, axis<0>);
  const auto along = take_along_axis(z, expand_dims<1>(where_max), axis<1>);
  const auto added = scatter_add(z, where_max, z, axis<0>);
  const double moves = moved<T, 2>(z) + moved<T, 1>(tensor<T, 1>(s));
  return moves +
         static_cast<double>(cast<double>(sum(picked) + sum(along) + sum(added) + sum(sums) + sum(tops)).item()) +
         static_cast<double>(cast<double>(sum(s) + sum(p) + m).item()) + double(any(same).item()) +
         double(where_min.item()) + double(all(same, axis<0>).numel());
}

template <class T>
double floats(const tensor<T, 2>& x) {
  const tensor<T, 2> y = exp(-x) + log(abs(x) + T(1)) * sqrt(abs(x)) + tanh(x) + erf(x) + sigmoid(x) + pow(x, T(2));
  const tensor<T, 2> z = gelu(y) + silu(y) + softplus(y) + elu(y) + leaky_relu(y) + mish(y) + relu(y) + hardswish(y);
  const auto a = mean(z, axis<0>);
  const auto v = var(z, axis<1>);
  const auto d = sinter::std(z, axis<1>, keepdims);
  const auto l = logsumexp(z, axis<1>);
  const auto n = norm(z, axis<0>);
  const auto one = norm<1>(z, axis<1>);
  const auto soft = softmax(z, axis<1>);
  const auto logs = log_softmax(z, axis<0>);
  const auto normed = layer_norm(z);
  const auto scaled = rms_norm(z);
  const auto product = matmul(z, transpose(z));
  const auto sums = einsum<"ij,kj->ik">(z, x);
  const tensor<std::int64_t, 1> labels = arange<std::int64_t>(z.size(0));
  const auto loss = cross_entropy(z, labels) + mse_loss(z, x);
  const auto total = sum(a) + sum(v) + sum(d) + sum(l) + sum(n) + sum(one) + sum(soft) + sum(logs) + sum(normed) +
                     sum(scaled) + sum(product) + sum(sums) + loss;
  return static_cast<double>(cast<double>(total).item());
}

double shapes() {
  const tensor<float, dims{2, 3}> x{{1, 2, 3}, {4, 5, 6}};
  const tensor<float, dims{3, dyn}> y = ones<float>(3, 4);
  const auto product = matmul(x, y);
  const auto turned = permute<1, 0>(x);
  const auto flat = flatten(x);
  const auto shaped = reshape<dims{3, 2}>(x);
  const auto wide = broadcast_to<dims{2, 2, 3}>(x);
  const auto padded = pad<dims{1, 0}, dims{1, 2}>(x);
  const auto tiled = tile<dims{2, 1}>(x);
  const auto hot = one_hot<float, 4>(tensor<std::int32_t, 1>{0, 3});
  const auto parts = split<1, 3>(x);
  const auto low = tril(x);
  const auto high = triu(x, 1);
  const auto made = eye<float>(3) + full<float>(2.f, 3, 3) + zeros_like(eye<float>(3)) + linspace<float>(0, 1, 3);
  const std::vector<float> values{1, 2, 3, 4};
  const auto read = from_span(values, 2, 2);
  auto [first, second] = split(make_key(7));
  const auto random =
      uniform<float>(first, 2, 3) + normal<float>(second, 2, 3) + cast<float>(bernoulli(first, 0.5, 2, 3));
  const auto whole = randint<int>(second, 0, 9, 5);
  std::printf("%s\n", to_string(read).c_str());
  return double(product.numel() + turned.numel() + flat.numel() + shaped.numel() + wide.numel() + padded.numel() +
                tiled.numel() + hot.numel() + parts[0].numel() + low.numel() + high.numel() + made.numel() +
                random.numel() + whole.numel());
}

double functions() {
  network net{{{{{1, 2}, {3, 4}}, {0.5f, 0.25f}}}, {{tensor<float, 1>{1, 2}, tensor<float, 1>{2, 1}}}, {}, 2};
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  const auto loss = [](const network& p, const tensor<float, 2>& v) {
    tensor<float, 2> h = v;
    for (const auto& l : p.layers) h = tanh(matmul(h, l.w) + l.b);
    return mean(h * p.scales[0] + p.scales[1]);
  };
  auto step = compile(
      [&](const network& p, const tensor<float, 2>& v, float rate) {
        auto [l, g] = value_and_grad(loss)(p, v);
        return std::pair{l, tree_map([&](auto a, auto b) { return a - rate * b; }, p, g)};
      },
      {.name = "step"});
  auto [l, next] = step(net, x, 0.1f);
  auto [carry, all] = scan(
      [](tensor<float, 1> c, tensor<float, 1> r) {
        return std::pair{c + r, c * r};
      },
      tensor<float, 1>{1, 1}, x);
  const auto looped = fori_loop(
      0, 3, [](auto i, tensor<float, 2> c) { return c + cast<float>(i); }, x);
  const auto tested =
      while_loop([](tensor<float, 2> c) { return sum(c) < 100.f; }, [](tensor<float, 2> c) { return c * 2.f; }, x);
  const auto branch = cond(
      sum(x) > 0.f, [](tensor<float, 2> v) { return v; }, [](tensor<float, 2> v) { return v * 2.f; }, x);
  const auto half = autocast<bf16>([](tensor<float, 2> v) { return matmul(v, v); })(x);
  const auto leaves = tree_leaves(next.scales);
  const double norm_of_all =
      double(tree_reduce([](auto s, auto v) { return s + sum(v * v); }, net, tensor<float, 0>(0.f)).item());
  precompile(step, net, spec<tensor<float, 2>>{{4, 2}}, 0.1f);
  const auto text = trace(loss)(net, x).text() + explain(step)(net, x, 0.1f).text();
  return double(l.item()) +
         double(looped.numel() + tested.numel() + branch.numel() + half.numel() + carry.numel() + all.numel()) +
         double(leaves.size()) + norm_of_all + double(text.size());
}

}  // namespace

int main() {
  const tensor<float, 2> x{{1, 2}, {3, 4}};
  double total = numbers<float>(x) + numbers<double>(cast<double>(x)) + numbers<std::int32_t>(cast<std::int32_t>(x)) +
                 numbers<std::int64_t>(cast<std::int64_t>(x)) + numbers<std::uint8_t>(cast<std::uint8_t>(x));
  total += floats<float>(x) + floats<double>(cast<double>(x)) + floats<bf16>(cast<bf16>(x)) + floats<f16>(cast<f16>(x));
  total += shapes() + functions();
  std::printf("%g\n", total);
}
