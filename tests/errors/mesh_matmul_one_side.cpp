// expect: error
// match: \[matmul\] the inner axis is divided on one side only
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 1>> x, held<2, replicated<dp>> y) { return matmul(x, y); }
