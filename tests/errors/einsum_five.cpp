// expect: error
// match: \[einsum\] takes one to four operands
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

void wrong(tensor<float, 1> a) { einsum<"a,b,c,d,e->">(a, a, a, a, a); }
