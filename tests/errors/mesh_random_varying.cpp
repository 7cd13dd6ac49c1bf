// expect: error
// match: \[random\] draws of a whole tensor are shard
// lines: 80, clang++ 150

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, key k) {
  return shard_map(m, [](placed<key, invariant<dp>> own) { return normal<held<2, varying<dp>>>(own, 4, 4); })(k);
}
