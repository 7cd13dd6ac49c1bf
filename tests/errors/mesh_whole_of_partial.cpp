// expect: error
// match: a plain tensor is cut for shard<A, k>
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, tensor<float, 2> x) {
  return shard_map(m, [](held<2, partial<dp>> y) { return y * 2; })(x);
}
