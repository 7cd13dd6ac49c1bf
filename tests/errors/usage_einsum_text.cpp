// expect: error
// match: \[einsum\] is called as einsum<\\?"ij,jk->ik\\?">\(x, y\): the labels are a template argument
// lines: 30
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const tensor<float, 2>& x) { return einsum("ij,jk->ik", x, x); }
