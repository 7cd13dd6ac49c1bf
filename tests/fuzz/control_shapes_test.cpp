// Branches and loops among other operations, at random interleavings of shapes.
#include "interleave.hpp"

using namespace interleaved;

namespace {
using scalar = tensor<double, 0>;
using counter = tensor<std::int64_t, 0>;
}  // namespace

TEST_CASE("shapes interleaved: branches and loops of the graph") {
  interleave(
      "cond",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        return matrix(cond(
            sum(a.x) > 0.0, [&](const matrix& x) { return matrix(x * 2.0 + a.v); },
            [&](const matrix& x) { return matrix(layer_norm(x) * scale); }, a.x));
      },
      21, many);
  interleave(
      "scan",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto [last, all] = scan(
            [&](const line& h, const line& x) {
              const line next = tanh(h * scale + x);
              return std::pair{next, scalar(sum(next * a.v))};
            },
            line(a.v * 0.5), a.x);
        return std::tuple{last, all};
      },
      22, many);
  interleave(
      "fori",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const matrix looped = fori_loop(
            0, a.times + 2, [&](const counter& i, const matrix& c) { return matrix(sin(c) + cast<double>(i) * a.v); },
            a.y);
        return std::tuple{looped, line(mean(looped, axis<1>))};
      },
      23, many);
  interleave(
      "while",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        return line(while_loop([](const line& v) { return sum(v) < 50.0; }, [](const line& v) { return line(v * 1.5); },
                               line(abs(a.v) + 0.5)));
      },
      24, many);
}

TEST_CASE("shapes interleaved: derivatives of branches and loops") {
  interleave(
      "gradient of scan",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto loss = [](line start, matrix xs) {
          const auto [last, all] = scan(
              [](const line& h, const line& x) {
                const line next = tanh(h * x);
                return std::pair{next, line(next * x)};
              },
              start, xs);
          return sum(last) + sum(all * all);
        };
        return std::tuple{line(grad(loss)(a.v, a.x)), matrix(grad<1>(loss)(a.v, a.x))};
      },
      25, many);
  interleave(
      "gradient of cond in fori",
      [](const arguments& a, [[maybe_unused]] const auto& scale) {
        const auto loss = [](matrix x, auto s) {
          const matrix c = fori_loop(
              0, 3,
              [&](const counter& i, const matrix& c) {
                return matrix(cond(
                    i > 1, [&] { return matrix(sin(c) * s); }, [&] { return matrix(c + x); }));
              },
              x);
          return sum(c * c);
        };
        return matrix(grad(loss)(a.x, scale));
      },
      26, many);
}
