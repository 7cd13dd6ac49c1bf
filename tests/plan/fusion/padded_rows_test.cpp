// Intermediates that products read or write have rows that begin where loads of 16 bytes may; all else is row-major.
#include <sinter/plan/lowering/library_product.hpp>

#include "../graphs.hpp"

using namespace graphs;

namespace {

const target gpu = gpu_target();

/// Strides of an intermediate, as numbers; none: row-major.
std::vector<std::int64_t> strides_of(const fused& f, const value& v) {
  std::vector<std::int64_t> out;
  for (const auto& s : f.strides[v.id()]) out.push_back(*s.number());
  return out;
}

using numbers = std::vector<std::int64_t>;

/// exp(x · w) · u, whose first product has so many columns.
struct two_products {
  graph g;
  value first, between, second;

  explicit two_products(std::int64_t columns, dtype type = dtype::f32, std::int64_t rows = 1024) {
    const value x = input(g, {rows, 64}, type), w = input(g, {64, columns}, type), u = input(g, {columns, 32}, type);
    first = dot(x, w, 0, 1);
    between = exp(first);
    second = dot(between, u, 0, 1);
    g.outputs = {second.id()};
  }
  fused planned(const target& t) const { return fuse(g, inputs_only(g), t); }
};

}  // namespace

TEST_CASE("rows that products read or write begin at multiples of 16 bytes, long ones at cache lines") {
  const two_products odd(257);
  const fused f = odd.planned(gpu);
  CHECK(strides_of(f, odd.between) == numbers{260, 1});
  CHECK(strides_of(f, odd.second).empty());
  CHECK(strides_of(f, odd.first) == numbers{260, 1});
  const auto call = as_blas(f.kernels.back());
  REQUIRE(call);
  CHECK(call->a.row == 260);
  CHECK(call->b.row == 32);

  const two_products wide(2051, dtype::bf16);
  CHECK(strides_of(wide.planned(gpu), wide.between) == numbers{2112, 1});

  CHECK(strides_of(odd.planned({}), odd.between).empty());
  const two_products even(256), small(257, dtype::f32, 128), narrow(17, dtype::f32, 8192);
  CHECK(strides_of(even.planned(gpu), even.between).empty());
  CHECK(strides_of(small.planned(gpu), small.between).empty());
  CHECK(strides_of(narrow.planned(gpu), narrow.between).empty());
}

TEST_CASE("padding counts as memory") {
  const two_products odd(257);
  const fused f = odd.planned(gpu);
  const auto lives =
      lifetimes(odd.g, f.kernels, f.strides, sinter::sorted_set<int>{0, 1, 2, static_cast<int>(odd.second.id())}, {});
  REQUIRE(lives.size() == 2);
  for (const auto& life : lives) CHECK(life.bytes == 1024 * 260 * 4);
}

TEST_CASE("results, and what is read in another order than by rows, stay row-major") {
  two_products odd(257);
  odd.g.outputs.push_back(odd.between.id());
  CHECK(strides_of(odd.planned(gpu), odd.between).empty());

  graph g;
  const value x = input(g, {1024, 64}), w = input(g, {64, 257});
  const value y = dot(x, w, 0, 1), flat = reshape(y, {1024 * 257}), cubes = reshape(y, {4, 256, 257});
  const value rows = dot(cubes, input(g, {257, 16}), 0, 1), turned = sum(permute(y, {1, 0}), {0});
  g.outputs = {rows.id(), turned.id()};
  CHECK(strides_of(fuse(g, inputs_only(g), gpu), y) == numbers{260, 1});
  g.outputs.push_back(scan(flat, op::add, 0, false).id());
  CHECK(strides_of(fuse(g, inputs_only(g), gpu), y).empty());
}

TEST_CASE("strides of inputs are no padding") {
  two_products odd(257);
  memory_map m = inputs_only(odd.g);
  for (auto id : odd.g.inputs) m.strides[id] = {dim(300), dim(1)};
  const fused f = fuse(odd.g, m, gpu);
  for (auto id : odd.g.inputs) CHECK(f.strides[id].empty());
  CHECK(strides_of(f, odd.between) == numbers{260, 1});
}

TEST_CASE("columns of several axes stay one axis of a product") {
  graph g;
  const value x = input(g, {1024, 64}), w = input(g, {64, 3, 257});
  const value heads = dot(x, w, 0, 1), back = dot(exp(heads), input(g, {3, 257, 16}), 0, 2);
  g.outputs = {back.id()};
  const fused f = fuse(g, inputs_only(g), gpu);
  for (const auto& s : f.strides) CHECK(s.empty());
  // Another product of the same array, of which one of these columns is an axis, changes nothing.
  g.outputs.push_back(dot(permute(heads, {1, 0, 2}), input(g, {3, 257, 8}), 1, 1).id());
  for (const auto& k : fuse(g, inputs_only(g), gpu).kernels)
    if (k.is_product()) CHECK(as_blas(k));
  for (const auto& k : f.kernels)
    if (k.is_product()) CHECK(as_blas(k));
}
