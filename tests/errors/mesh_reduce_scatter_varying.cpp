// expect: error
// match: \[reduce_scatter\] sums partial values
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, varying<dp>> x) { return reduce_scatter<dp, 0>(x); }
