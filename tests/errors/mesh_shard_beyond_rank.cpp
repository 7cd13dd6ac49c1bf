// expect: error
// match: \[placed\] shard<A, k> divides axis k
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

held<2, shard<dp, 2>> wrong;
