// expect: error
// match: \[simulate\] a varying result is no whole tensor
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, tensor<float, 2> x) {
  return simulate([](held<2, shard<dp, 0>> y) { return permute<dp>(y, shift(1)); }, m)(x);
}
