// expect: error
// match: of a function template, \[\]\(auto\.\.\. x\) \{ return f\(x\.\.\.\); \}
// lines: 24
#include <sinter/sinter.hpp>

using namespace sinter;

template <class T>
auto loss(const T& x) {
  return sum(x * x);
}
auto wrong(tensor<float, 1> a) { return jvp(loss)(a, a); }
