// Products beside gathers and scatters, whole and in pieces that go around a ring: equal results and derivatives on ranks that are
// threads and simulated, counted exchanges, and what explain says.
#include <atomic>
#include <string>

#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

using rows = placed<tensor<double, 2>, shard<tp, 0>>;
using columns = placed<tensor<double, 2>, shard<tp, 1>>;

/// Two layers whose rows are divided outside, and whose columns inside.
rows two_layers(rows x, columns w, rows v) {
  const auto h = sin(matmul(all_gather<replicated<tp>, 0>(cos(x)), w));
  return reduce_scatter<tp, 0>(matmul(h, v));
}
/// A loss of them, and its gradients.
auto step(rows x, columns w, rows v) {
  const auto loss = [](rows a, columns b, rows c) {
    return all_reduce<invariant<tp>>(as<partial<tp>>(sum(square(local(two_layers(a, b, c))))));
  };
  auto [l, g] = value_and_grad<0, 1, 2>(loss)(x, w, v);
  return std::tuple{l, std::get<0>(g), std::get<1>(g), std::get<2>(g)};
}

std::size_t cut_ones(const report& r) {
  std::size_t n = 0;
  for (const auto& e : r.exchanges) n += e.is_cut;
  return n;
}

}  // namespace

TEST_CASE("products in pieces are those of whole arrays, with their derivatives") {
  for (const std::int64_t ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const auto x = some(3 * ranks, 5), w = some(5, 7 * ranks), v = some(7 * ranks, 5);
    const auto want = simulate(step, simulated_mesh<tp>({ranks}))(x, w, v);
    findings wrong;
    std::atomic<int> ran = 0;
    on_threads(static_cast<int>(ranks), [&](int) {
      const auto m = make_mesh<tp>({ranks});
      const auto whole = compile(shard_map(m, step), {.chunks = chunks::never}),
                 cut = compile(shard_map(m, step), {.chunks = chunks::always}), by_cost = compile(shard_map(m, step));
      for (const auto* f : {&whole, &cut, &by_cost}) {
        const auto got = (*f)(x, w, v);
        const auto same = [&]<std::size_t K>(std::integral_constant<std::size_t, K>, const char* what) {
          const auto& all = std::get<K>(want);
          const auto part = [&] {
            if constexpr (K == 0) return all;
            else if constexpr (K == 2)
              return tensor<double, 2>(slice<1>(all, 7 * m.index<tp>(), 7 * (m.index<tp>() + 1)));
            else {
              const std::int64_t n = all.shape()[0] / ranks;
              return tensor<double, 2>(slice<0>(all, n * m.index<tp>(), n * (m.index<tp>() + 1)));
            }
          }();
          wrong.close(numbers_of(local(std::get<K>(got))), numbers_of(part), what);
        };
        same(std::integral_constant<std::size_t, 0>{}, "the loss");
        same(std::integral_constant<std::size_t, 1>{}, "the gradient of x");
        same(std::integral_constant<std::size_t, 2>{}, "the gradient of w");
        same(std::integral_constant<std::size_t, 3>{}, "the gradient of v");
      }
      // A gather and a scatter of the layers, and those of their derivative: a ring has ranks - 1 exchanges.
      const auto exchanges = [](const auto& f) { return f.report().collectives; };
      wrong.expect(exchanges(cut) == exchanges(whole) + 4 * static_cast<std::size_t>(ranks - 2),
                   "the exchanges of rings");
      wrong.expect(exchanges(by_cost) == exchanges(whole), "the exchanges of a program by cost");
      const auto told = [](const auto& f) { return f.explain().specialisations.at(0).what; };
      wrong.expect(cut_ones(told(cut)) == 4 && told(cut).exchanges.size() == 4, "the rings that explain tells");
      wrong.expect(cut_ones(told(by_cost)) == 0 && told(by_cost).exchanges.size() == 4,
                   "the reasons that explain tells");
      for (const auto& e : told(by_cost).exchanges)
        wrong.expect(e.why == "exchanges do not run beside products on this device", "a reason: " + e.why);
      wrong.expect(cut.explain().text().find(" and its product are cut into pieces: the option asks for it") !=
                       std::string::npos,
                   "explain's text: " + cut.explain().text());
      ++ran;
    });
    CHECK(wrong.all() == "");
    CHECK(ran == ranks);
  }
}
