// Programs that compute with C++ floats: whatever these are, the kernels of the first call serve.
#include "number_programs.hpp"

using number_programs::check;

TEST_CASE("programs at random") { check(1, 24, sinter::device::cpu()); }

TEST_CASE("updates that are alike but for their numbers share code") {
  const sinter::report r = number_programs::updated(0, sinter::device::cpu());
  CHECK(r.steps.size() == 1);
  CHECK(r.sources.size() == 1);
}
