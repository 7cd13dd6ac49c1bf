// expect: error
// match: \[nn::state, nn::pass\] each item of a stack has its own statistics: stack_tree a vector of nn::state\(item\)
// lines: 20
#include <sinter/nn.hpp>

using namespace sinter;

struct layer {
  nn::linear<float> map;
  nn::batch_norm<float> norm;
};
auto wrong(const std::vector<layer>& layers) { return nn::state(stack_tree(layers)); }
