// expect: error
// match: over a divided axis this would combine only
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 1>> x) { return logsumexp(x, axis<1>); }
