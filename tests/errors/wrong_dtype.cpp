// expect: error
// match: deleted
// match: cast<T>
// lines: 30

#include <sinter/sinter.hpp>

using namespace sinter;

tensor<int, 2> wrong(tensor<float, 2> a) { return a; }
