// expect: error
// match: \[pipeline\] takes the layers as placed<stacked<Layer>, shard<A, 0>>
// lines: 80, clang++ 150

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

struct layer {
  tensor<float, 2> w;
};
auto wrong(mesh<dp> m, layer p, tensor<float, 2> x) {
  const auto f = [](const layer& q, const tensor<float, 2>& y) { return matmul(y, q.w); };
  return shard_map(
      m, [=](placed<layer, replicated<dp>> q, held<2, replicated<dp>> y) { return pipeline<dp>(f)(q, y); })(p, x);
}
