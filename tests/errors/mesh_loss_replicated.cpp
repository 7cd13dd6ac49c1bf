// expect: error
// match: \[grad\] the loss of each rank would count
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, tensor<float, 2> x) {
  const auto loss = [](held<2, shard<dp, 0>> y) { return all_reduce<replicated<dp>>(sum(y)); };
  return shard_map(m, [=](held<2, shard<dp, 0>> y) { return grad(loss)(y); })(x);
}
