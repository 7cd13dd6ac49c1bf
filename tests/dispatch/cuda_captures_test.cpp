// The same as captures_test on a GPU.
#include "capture_programs.hpp"

using namespace capture_programs;

TEST_CASE("a variable captured by reference is read as it is now, recorded or not") {
  assigned_anew({}, device::cuda(0));
  assigned_anew({.mode = mode::reduce_overhead}, device::cuda(0));
}

TEST_CASE("members of a class; what is held, or made inside; what functions share") {
  members({}, device::cuda(0));
  quiet({}, device::cuda(0));
  shared({}, device::cuda(0));
}
