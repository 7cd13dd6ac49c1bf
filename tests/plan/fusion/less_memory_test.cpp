// The order of kernels: as it is written, unless another one needs less memory at once.
#include <doctest/doctest.h>

#include <sinter/plan/memory.hpp>

#include "deep_graphs.hpp"

using namespace sinter::engine::plan;
using namespace deep;

namespace {

std::int64_t scratch_of(const graph& g, fused& f) {
  memory_map m;
  m.strides.resize(g.size());
  f = fuse(g, m);
  sinter::sorted_set<int> elsewhere;
  for (auto id : g.inputs) elsewhere.insert(static_cast<int>(id));
  for (auto id : g.outputs) elsewhere.insert(static_cast<int>(id));
  return place(lifetimes(g, f.kernels, f.strides, elsewhere, {})).bytes;
}

/// Kernels that read what no kernel before them has written.
std::size_t early(const graph& g, const fused& f) {
  sinter::sorted_set<int> there;
  for (auto id : g.inputs) there.insert(static_cast<int>(id));
  std::size_t n = 0;
  for (const kernel& k : f.kernels) {
    for (const auto& b : k.buffers) n += !b.written && !there.contains(b.id);
    for (const auto& b : k.buffers)
      if (b.written) there.insert(b.id);
  }
  return n;
}

}  // namespace

TEST_CASE("what frees a value runs as soon as it can, where that takes less memory") {
  network n;
  std::vector<value> made;
  for (int i = 0; i < 8; ++i) made.push_back(dot(n.input({64, 64}), n.input({64, 64}), 0, 1));
  for (const value& p : made) n.g.outputs.push_back(dot(p, n.input({64, 4}), 0, 1).id());
  fused f;
  CHECK(scratch_of(n.g, f) == 64 * 64 * 4);
  CHECK(f.kernels.size() == 16);
  CHECK(early(n.g, f) == 0);
}

TEST_CASE("else kernels run in the order in which they are written") {
  network n;
  const value a = n.input({64, 64}), b = n.input({64, 64});
  const value p = dot(a, b, 0, 1), q = dot(b, a, 0, 1);
  n.g.outputs = {dot(p, q, 0, 1).id(), dot(q, p, 0, 1).id()};
  fused f;
  CHECK(scratch_of(n.g, f) == 2 * 64 * 64 * 4);
  REQUIRE(f.kernels.size() == 4);
  const auto writes = [&](std::size_t k, const value& v) {
    for (const auto& x : f.kernels[k].buffers)
      if (x.written && x.id == static_cast<int>(v.id())) return true;
    return false;
  };
  CHECK(writes(0, p));
  CHECK(writes(1, q));
}

TEST_CASE("an update of parameters runs as soon as its gradient is there") {
  // Gradients of all layers at once would take 32 x 64 x 64 elements.
  const graph g = residual_network(32, 64);
  fused f;
  const std::int64_t scratch = scratch_of(g, f);
  CHECK(early(g, f) == 0);
  // What the backward pass reads of each layer is stored by the forward pass; and little else.
  CHECK(scratch < 32 * 6 * 64 * 64 * 4);
}
