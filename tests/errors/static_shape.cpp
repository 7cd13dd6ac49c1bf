// expect: error
// match: the static shapes differ
// match: 64
// match: 32
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

tensor<float, dims{dyn, 32}> wrong(tensor<float, dims{dyn, 64}> a) { return a; }
