// The same on a GPU.
#include "embedding_programs.hpp"

#include "../../emulator/select.hpp"

using namespace embedding_programs;

TEST_CASE(
    "a table's optimizer is the epilogue of its gradient's product on a GPU, and looked-up rows are added to that") {
  check(device::cuda(0), {}, 4, 7);  // the library's product has no optimizer behind it
}
