// expect: error
// match: \[permute\] moves values that differ
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, replicated<dp>> x) { return permute<dp>(x, shift(1)); }
