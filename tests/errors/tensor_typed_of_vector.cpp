// expect: error
// match: from a vector or an array: from_span\(v\)
// lines: 18
#include <vector>

#include <sinter/sinter.hpp>

using namespace sinter;
auto wrong(std::vector<float> v) { return tensor<float, 1>(v); }
