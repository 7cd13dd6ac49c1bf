// Intermediates that take over each other's memory have the reference's values.
#include <omp.h>

#include "in_place_programs.hpp"

TEST_CASE("intermediates in place") {
  // Each thread adds its own panels to the scratch memory, which has a bound here.
  const int threads = omp_get_max_threads();
  omp_set_num_threads(2);
  in_place_programs::run(sinter::device::cpu());
  omp_set_num_threads(threads);
}
