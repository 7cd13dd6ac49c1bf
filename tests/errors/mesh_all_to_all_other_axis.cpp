// expect: error
// match: \[all_to_all\] all_to_all<A, from, to> takes shard<A, to>
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 0>> x) { return all_to_all<dp, 0, 1>(x); }
