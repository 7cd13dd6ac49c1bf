// expect: error
// match: names an axis that the mesh does not have
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, tensor<float, 2> x) {
  return shard_map(m, [](held<2, shard<tp, 0>> y) { return y * 2; })(x);
}
