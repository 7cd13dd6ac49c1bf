// expect: error
// match: \[permute\] name every axis of X once
// lines: 26

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(tensor<float, 3> a) { return permute(a, axis<1, 0>); }
