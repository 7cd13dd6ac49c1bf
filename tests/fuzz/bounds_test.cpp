// What the fuzzer takes for unknown.
#include <doctest/doctest.h>

#include <sinter/ir/value.hpp>

#include "bounds.hpp"

using sinter::dtype;
using sinter::ir::op;

TEST_CASE("between operands that are moved out of a domain at both ends nothing is known") {
  for (const op code : {op::atanh, op::erfinv, op::asin, op::acos})
    for (const double bound : {0.0, 0.01, 0.25, 2.0}) {
      CAPTURE(sinter::ir::name(code));
      CAPTURE(bound);
      sinter::ir::graph g;
      const auto x = g.add_input(dtype::f8_e5m2, {1}, {});
      const auto y = g.push(code, {x}, {}, {});
      const fuzz::bounded of{{dtype::f8_e5m2, {1}, {1.25}, {}}, {bound}};
      const fuzz::bounded out = fuzz::detail::pointwise(g[y], {&of});
      CHECK(std::isnan(out.value.f[0]));
      CHECK((out.bound[0] == fuzz::unknown) == (bound > 0.2));
    }
}
