// expect: error
// match: deleted
// match: rank
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

tensor<float, 1> wrong(tensor<float, 2> a) { return a; }
