// Drawn kernels by drawn schedules through the interpreter: each schedule is refused in words, or its tree computes what plain
// recursion does. SINTER_LOOPS_SEEDS=A..B takes other seeds.
#include <cstdlib>
#include <cstring>

#include "random_programs.hpp"

#include <sinter/plan/loops/print.hpp>

using namespace kernels;

namespace {

struct tally {
  int ran = 0, refused = 0;
  std::map<std::string, int> why;
};

void run_one(std::uint64_t seed, tally& all) {
  drawn d(seed);
  const drawn_case c = drawn_program(d);
  const auto s = drawn_schedule(c.p, d).run();
  try {
    const auto t = loops::build(c.p.k, s);
    ++all.ran;
    const std::string said = wrong(c.p, t, seed, c.bound);
    CHECK_MESSAGE(said == "", "seed " << seed << "\n" << loops::text_of(s) << loops::text_of(t));
  } catch (const refusal& r) {
    ++all.refused;
    CHECK_MESSAGE(!r.why.empty(), "seed " << seed);
    if (std::getenv("SINTER_LOOPS_SAY") && r.why.find(std::getenv("SINTER_LOOPS_SAY")) != std::string::npos)
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
  for (const auto& [why, count] : all.why) MESSAGE(why << " " << count);
  MESSAGE(all.ran << " trees ran, " << all.refused << " schedules were refused");
  CHECK((to - from < 100 || all.ran > all.refused / 4));
}
