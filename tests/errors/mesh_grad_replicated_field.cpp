// expect: error
// match: \[grad\] a replicated or partial field of a struct
// lines: 60, clang++ 90

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

struct layer_weights {
  held<2, replicated<dp>> w;
};
auto wrong(mesh<dp> m, layer_weights p) {
  const auto loss = [](layer_weights q) { return all_reduce<invariant<dp>>(sum(as<varying<dp>>(q.w) * 2)); };
  return shard_map(m, [=](layer_weights q) { return grad(loss)(q); })(p);
}
