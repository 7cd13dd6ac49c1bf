// expect: error
// match: \[einsum\] dots are '...', once
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 2> a) { return einsum<"..i->i">(a); }
