// expect: error
// match: \[append\] k and v have the rank and the dtype of the cache
// lines: 20
#include <sinter/sinter.hpp>

using namespace sinter;
auto f(const attention_cache<float>& cache, const tensor<double, 4>& k) { return append(cache, k, k); }
