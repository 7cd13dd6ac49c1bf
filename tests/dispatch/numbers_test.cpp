// Programs that compute with C++ floats: whatever these are, the kernels of the first call serve.
#include <set>
#include <string>

#include "number_programs.hpp"

using number_programs::check;

TEST_CASE("programs at random") { check(1, 24, sinter::device::cpu()); }

TEST_CASE("updates that are alike but for their numbers share code") {
  const auto sources = number_programs::updated(0, sinter::device::cpu()).sources;
  CHECK(sources.size() == 40);
  CHECK(std::set<std::string>(sources.begin(), sources.end()).size() == 1);
}
