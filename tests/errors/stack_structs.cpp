// expect: error
// match: \[stack\] the vector holds no tensors: gather each field of its structs
// lines: 20
#include <vector>

#include <sinter/sinter.hpp>

using namespace sinter;
struct layer {
  tensor<float, 1> w;
};
auto wrong(std::vector<layer> v) { return stack(v); }
