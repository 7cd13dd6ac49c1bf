// expect: error
// match: \[stack_tree\] the trees hold no tensor
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

auto f() { return stack_tree(std::vector<int>{1, 2}); }
