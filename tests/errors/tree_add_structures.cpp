// expect: error
// match: the trees differ: containers, array lengths and numbers of fields must be equal
// lines: 50
#include <map>

#include <sinter/sinter.hpp>

using vec = sinter::tensor<float, 1>;
auto f(const std::map<std::string, vec>& p, const std::vector<vec>& g) { return sinter::tree_add(p, g); }
