// What a derivative takes grows as the operands of a node do.
#include <doctest/doctest.h>

#include <sinter/autodiff/vjp.hpp>
#include <sinter/ir/define.hpp>

#include "../allocations.hpp"

using sinter::dtype;
namespace ir = sinter::ir;

TEST_CASE("the gradient of a concatenation of n operands takes n steps") {
  // Sums of open extents are memory that is asked for.
  const ir::dim open = ir::dim::symbol(0);
  const auto counted = [open](int n) {
    return allocations_of([open, n] {
      ir::graph g;
      sinter::series<ir::node_id> in;
      for (int i = 0; i < n; ++i) in.push_back(g.add_input(dtype::f32, {3, open * ir::dim(1 + i % 5)}));
      ir::attributes along;
      along.ints = {1};
      const ir::value joined(g, g.push(ir::op::concat, in, along), {});
      const ir::value loss = reduce(joined * joined, ir::op::add, {0, 1});
      const auto back = sinter::engine::gradient(g, loss.id(), {in.data(), in.size()}, {});
      REQUIRE(back.size() == in.size());
      ir::dim at = 0;
      for (int i = 0; i < n; ++i) {
        const ir::node& part = g[back[static_cast<std::size_t>(i)]];
        REQUIRE(part.code == ir::op::slice);
        REQUIRE(part.attr.dims[3] == at);
        REQUIRE(part.extents == g[in[static_cast<std::size_t>(i)]].extents);
        at += open * ir::dim(1 + i % 5);
      }
    });
  };
  const double few = counted(100), many = counted(800);
  CAPTURE(few);
  CHECK(many <= 12 * few);
}
