// expect: error
// match: a collective takes a placed tensor
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(tensor<float, 2> x) { return all_reduce<replicated<dp>>(x); }
