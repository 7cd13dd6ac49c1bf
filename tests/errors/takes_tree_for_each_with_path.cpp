// expect: error
// match: \[tree_for_each_with_path\] the function does not take every leaf behind its path, a std::string
// lines: 40
#include <sinter/sinter.hpp>

using namespace sinter;
struct state {
  tensor<float, 1> x;
  int epoch;
};
void f(const state& s) {
  tree_for_each_with_path([](const std::string&, tensor<float, 1>) {}, all_leaves, s);
}
