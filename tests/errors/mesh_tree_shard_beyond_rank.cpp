// expect: error
// match: \[placed\] shard<A, k> divides axis k of each tensor
// lines: 80, clang++ 150

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

struct pair {
  tensor<float, 2> w;
  tensor<float, 1> b;
};
auto wrong(mesh<dp> m, pair p) {
  return shard_map(m, [](placed<pair, shard<dp, 1>> q) { return q; })(p);
}
