// The same as integers_test on a GPU.
#include "integer_programs.hpp"

using namespace integer_programs;

TEST_CASE("integers of every dtype and flags") { every_integer({}, device::cuda(0)); }

TEST_CASE("a decoder's steps share kernels, recorded or not") {
  decoding({.dynamic = dynamic::yes}, device::cuda(0), 1);
  decoding({.mode = mode::reduce_overhead}, device::cuda(0), 2);
}

TEST_CASE("values that are read, derivatives") {
  reading({}, device::cuda(0));
  gradients({}, device::cuda(0));
}
