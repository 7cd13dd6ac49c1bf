// Gradients of a table on the host: what multiplies it is computed as it lies in memory, what looks it up is added in place.
#include "embedding_programs.hpp"

using namespace embedding_programs;

TEST_CASE("a table's optimizer is the epilogue of its gradient's product, and looked-up rows are added to that") {
  check(device::cpu(), {}, 3, 7);
}
