// expect: error
// match: \[all_reduce\] the largest or smallest of values that differ
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, partial<dp>> x) { return all_reduce<replicated<dp>>(x, combine::max); }
