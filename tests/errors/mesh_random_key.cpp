// expect: error
// match: \[random\] ranks with keys of their own
// lines: 80, clang++ 150

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

auto wrong(mesh<dp> m, placed<key, varying<dp>> k) {
  return shard_map(m, [](placed<key, varying<dp>> own) { return normal<held<2, shard<dp, 0>>>(own, 4, 4); })(k);
}
