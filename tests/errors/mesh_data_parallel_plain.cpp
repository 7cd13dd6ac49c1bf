// expect: error
// match: \[data_parallel\] takes parameters as placed<Tree, invariant<A>>
// lines: 80, clang++ 150

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, tensor<float, 2> w, tensor<float, 2> x) {
  const auto loss = [](tensor<float, 2> v, tensor<float, 2> y) { return sum(matmul(y, v)); };
  return shard_map(m, [=](tensor<float, 2> v, held<2, shard<dp, 0>> y) { return data_parallel<dp>(loss)(v, y); })(w, x);
}
