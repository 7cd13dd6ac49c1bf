// expect: error
// match: write as<partial<A>>\(x\) of the other operand
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, partial<dp>> x, held<2, shard<dp, 0>> y) { return x + y; }
