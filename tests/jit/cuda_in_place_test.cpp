// Intermediates that take over each other's memory on a GPU have the reference's values.
#include "in_place_programs.hpp"

#include "../emulator/select.hpp"

TEST_CASE("intermediates in place on a GPU") { in_place_programs::run(sinter::device::cuda(0)); }
