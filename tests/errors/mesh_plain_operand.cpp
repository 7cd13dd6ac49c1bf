// expect: error
// match: \[add\] a placed tensor with a plain one
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 0>> x, tensor<float, 2> y) { return x + y; }
