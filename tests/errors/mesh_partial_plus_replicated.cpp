// expect: error
// match: each rank would add this operand
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, partial<dp>> x, held<2, replicated<dp>> y) { return x + y; }
