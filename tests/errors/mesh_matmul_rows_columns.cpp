// expect: error
// match: \[matmul\] one axis of the mesh divides rows of one operand and columns
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 0>> x, held<2, shard<dp, 1>> y) { return matmul(x, y); }
