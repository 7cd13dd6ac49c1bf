// expect: error
// match: \[placed\] an axis of the mesh is named twice
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

held<2, shard<dp, 0>, replicated<dp>> wrong;
