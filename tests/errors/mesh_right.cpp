// expect: ok

#include <sinter/mesh.hpp>

using namespace sinter;
struct dp : mesh_axis {};
struct tp : mesh_axis {};
template <int Rank, class... P>
using held = placed<tensor<float, Rank>, P...>;

// Placements that have a common result.
held<2, shard<dp, 0>> rows(held<2, shard<dp, 0>> x, held<2, replicated<dp>> y) { return x * y + x; }
held<2, partial<tp>> products(held<2, shard<tp, 1>> x, held<2, shard<tp, 0>> y) {
  return matmul(x, y) * 2 - matmul(x, y);
}
held<1, shard<dp, 0>> sums(held<2, shard<dp, 1>> x) { return sum(x, axis<0>); }
held<0, partial<dp>> sums_of_all(held<2, shard<dp, 1>> x) { return sum(x); }
held<0> both(held<0, partial<dp>, partial<tp>> x) { return all_reduce<invariant<dp>, invariant<tp>>(x); }
held<2, shard<dp, 1>> cut(held<2> x) { return as<shard<dp, 1>>(x); }
held<2, partial<dp>> turned(held<2> x) { return as<partial<dp>>(as<varying<dp>>(x)); }
