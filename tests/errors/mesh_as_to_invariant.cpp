// expect: error
// match: \[as\] ranks cannot turn one placement into the other alone
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(held<2, shard<dp, 0>> x) { return as<invariant<dp>>(x); }
