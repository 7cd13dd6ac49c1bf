// Trees of small kernels, run by the interpreter against plain recursion: tails, tiles, threads, blocks.
#include "kernels.hpp"

using namespace kernels;
using namespace loops;
namespace schedules = sinter::engine::plan::schedules;
using schedules::schedule;

namespace {

std::string outcome(const program& p, const schedule& s, double bound = 0) {
  try {
    const tree t = build(p.k, s);
    return wrong(p, t, 1, bound);
  } catch (const refusal& r) {
    return "refused: " + r.why;
  }
}

}  // namespace

TEST_CASE("a product in the order of its axes, for each extent") {
  for (std::int64_t m : {0, 1, 2, 5})
    for (std::int64_t n : {0, 1, 3})
      for (std::int64_t k : {0, 1, 4}) CHECK(outcome(matrix_product(m, n, k), {"plain", {}}) == "");
}

TEST_CASE("tails of each kind") {
  for (auto rest : {tail::guard, tail::peel, tail::pad})
    for (std::int64_t n : {1, 3, 4, 7, 9}) {
      const program p = matrix_product(n, n + 1, n);
      schedule s{"tails", {}};
      for (int a : {0, 1, 2}) s.steps.push_back(schedules::split{a, 4, rest});
      s.steps.push_back(schedules::reorder{{0, 1, 2, 5, 3, 4}});
      s.steps.push_back(schedules::stage{0, 2, space::stack});
      s.steps.push_back(schedules::stage{1, 2, space::stack});
      INFO(text_of(rest), " ", n);
      CHECK(outcome(p, s) == "");
    }
}
