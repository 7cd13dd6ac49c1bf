// expect: error
// match: \[einsum\] a label repeats within one operand
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return einsum<"ii->i">(a); }
