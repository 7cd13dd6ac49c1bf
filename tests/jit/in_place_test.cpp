// Intermediates that take over each other's memory have the reference's values.
#include "in_place_programs.hpp"

TEST_CASE("intermediates in place") { in_place_programs::run(sinter::device::cpu()); }
