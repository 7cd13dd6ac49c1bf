// Branches and loops with open sizes on a GPU; without one these run on the host.
#include "../front/control/control_programs.hpp"

using namespace control_programs;

TEST_CASE("branches and loops on a GPU keep extents open") {
  check_all(device_count() > 0 ? device::cuda(0) : device::cpu());
}
