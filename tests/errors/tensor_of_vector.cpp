// expect: error
// match: \[tensor\] of a vector or an array is from_span\(v\)
// lines: 18
#include <vector>

#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(std::vector<float> v) { return tensor(v); }
