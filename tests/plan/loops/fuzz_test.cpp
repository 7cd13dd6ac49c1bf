// Drawn kernels by drawn schedules through the interpreter: each schedule is refused in words, or its tree computes what plain
// recursion does. SINTER_LOOPS_SEEDS=A..B takes other seeds.
#include <cstdlib>
#include <cstring>
#include <map>

#include "random_programs.hpp"

#include <sinter/plan/loops/print.hpp>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/attention_back.hpp>
#include <sinter/plan/schedule/recipes/cpu_product.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sinter/plan/schedule/recipes/rows.hpp>

using namespace kernels;

namespace {

struct tally {
  int ran = 0, refused = 0;
  std::map<std::string, int> why;
};

/// In one of twelve cases, an option of a recipe that takes the kernel.
std::optional<schedules::schedule> drawn_recipe(const program& p, drawn& d) {
  if (!d.one_in(12)) return std::nullopt;
  static constexpr schedules::facts cpu{}, gpu{.threads = 2};
  const auto& f = d.one_in(2) ? cpu : gpu;
  for (const auto* r : {&schedules::cpu_product, &schedules::gpu_product, &schedules::rows, &schedules::attention,
                        &schedules::attention_back})
    if (r->takes(p.k, f)) return r->make(p.k, f, r->options - 1 - d.upto(2) % r->options);
  return std::nullopt;
}

/// Attention of 16 bits, both products by a matrix intrinsic. Its weights are rounded: a dozen of them, times at most 3.
schedules::schedule drawn_chain(const program& p, drawn& d) {
  static constexpr schedules::facts gpu{.threads = 2};
  REQUIRE(schedules::attention.takes(p.k, gpu));
  return schedules::attention.make(p.k, gpu, d.upto(schedules::attention.options - 1));
}

void run_one(std::uint64_t seed, tally& all) {
  drawn d(seed);
  const bool chains = d.one_in(16);
  const drawn_case c = chains ? drawn_case{drawn_attention(d, true, dtype::bf16), 0.07} : drawn_program(d);
  schedules::schedule s;
  try {
    s = chains ? drawn_chain(c.p, d) : drawn_recipe(c.p, d).value_or(drawn_schedule(c.p, d).run());
    const auto t = loops::build(c.p.k, s);
    ++all.ran;
    const std::string said = wrong(c.p, t, seed, c.bound);
    CHECK_MESSAGE(said == "", "seed " << seed << "\n" << loops::text_of(s) << loops::text_of(t));
  } catch (const refusal& r) {
    ++all.refused;
    CHECK_MESSAGE(!r.why.empty(), "seed " << seed);
    if (std::getenv("SINTER_LOOPS_SAY") != nullptr && r.why.find(std::getenv("SINTER_LOOPS_SAY")) != std::string::npos)
      MESSAGE("seed " << seed << " " << r.why << "\n" << loops::text_of(s));
    std::string form;
    for (char ch : r.why)
      if (ch < '0' || ch > '9') form += ch;
    ++all.why[form];
  }
}

}  // namespace

TEST_CASE("drawn kernels by drawn schedules") {
  std::uint64_t from = 1, to = 400;
  if (const char* set = std::getenv("SINTER_LOOPS_SEEDS")) {
    from = std::strtoull(set, nullptr, 10);
    const char* dots = std::strstr(set, "..");
    to = dots ? std::strtoull(dots + 2, nullptr, 10) : from;
  }
  tally all;
  for (auto seed = from; seed <= to; ++seed) run_one(seed, all);
  for (const auto& refused : all.why) MESSAGE(refused.first << " " << refused.second);
  MESSAGE(all.ran << " trees ran, " << all.refused << " schedules were refused");
  CHECK((to - from < 100 || all.ran > all.refused / 4));
}
