// Compiled functions at random interleavings of shapes: extents as numbers, in branches, in views, under derivatives.
#include "interleave.hpp"

using namespace interleaved;

TEST_CASE("shapes interleaved: what extents enter as numbers") {
  interleave(
      "mean",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        return std::tuple{line(mean(a.x, axis<1>)), matrix(a.x * static_cast<double>(a.times)), line(a.v * scale)};
      },
      1, many);
  interleave(
      "layer_norm",
      [](const arguments& a, [[maybe_unused]] const auto& scale) { return matrix(layer_norm(a.x) * a.v); }, 2, many);
  interleave(
      "softmax",
      [](const arguments& a, [[maybe_unused]] const auto& scale) { return matrix(softmax(a.y) + a.v * scale); }, 3,
      many);
}

TEST_CASE("shapes interleaved: branches on extents and on what is no tensor") {
  interleave(
      "equal",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        if (a.x.size(0) == a.y.size(0)) return matrix(a.x + a.y * 2.0);
        return matrix(concat<0>(a.x, a.y));
      },
      4, many);
  interleave(
      "large",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        matrix h = a.x;
        if (a.x.size(0) > 4) h = h * 2.0;
        for (std::int64_t t = 0; t < a.times; ++t) h = sin(h) + a.v;
        return a.flag ? h : matrix(-h);
      },
      5, many);
  interleave(
      "square",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        if (a.x.size(0) == a.x.size(1)) return matrix(matmul(a.x, a.x));
        return matrix(matmul(a.x, transpose(a.y)));
      },
      6, many);
}

TEST_CASE("shapes interleaved: views, joins and rows") {
  interleave(
      "flatten",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        return std::tuple{line(cumsum(flatten(a.x), axis<0>)), line(max(abs(concat<0>(a.x, a.y)), axis<0>) - a.v)};
      },
      7, many);
  interleave(
      "rows",
      [](const arguments& a, [[maybe_unused]] const auto& scale) { return matrix(take(a.x, a.rows, axis<0>) * a.v); },
      8, many);
  interleave(
      "halves",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto half = static_cast<std::int64_t>(a.x.size(0)) / 2;
        return std::tuple{matrix(slice(a.x, axis<0>, 0, half)),
                          matrix(flip(slice(a.y, axis<1>, 0, to_end, 2), axis<0>))};
      },
      9, many);
}

TEST_CASE("shapes interleaved: products and gradients") {
  interleave(
      "gradient",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto loss = [](matrix x, matrix y, line v) {
          return sum(tanh(matmul(x, transpose(y)))) + sum(tanh(x * v));
        };
        const auto [l, g] = value_and_grad(loss)(a.x, a.y, a.v);
        return std::tuple{tensor<double, 0>(l * scale), matrix(g)};
      },
      10, many);
  interleave(
      "gradient of products",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto loss = [](matrix x) { return sum(cumprod(cos(x))) + sum(prod(cos(x), axis<0>)); };
        return matrix(grad([&](matrix x) { return sum(grad(loss)(x) * x); })(a.x) * scale);
      },
      13, 6);
  interleave(
      "normalised gradient",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto loss = [](matrix x) { return mean(sin(layer_norm(x))) + mean(softmax(x)); };
        return matrix(grad(loss)(a.x) * scale);
      },
      11, many);
}

TEST_CASE("shapes interleaved: values that are read") {
  interleave(
      "read",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const tensor<double, 0> total = sum(a.x);
        if (total.item() > 0) return matrix(a.x * 2.0);
        return matrix(a.x - scale);
      },
      12, many);
}
