// As sizes_test.cpp, on a GPU.
#include <cstdlib>

#include <doctest/doctest.h>

#include "../close.hpp"
#include "../emulator/select.hpp"
#include "size_programs.hpp"

using namespace size_programs;

TEST_CASE("shapes with quotients of two open extents on a GPU") {
  const device gpu = device::cuda(0);
  const auto each = [&](const std::string& name, auto fn) {
    CAPTURE(name);
    const auto f = compile(fn, {.dynamic = dynamic::yes});
    for (const auto& extents : {sizes[0], sizes[3], sizes[6]}) {  // odd ones: no step that all are multiples of
      const auto h = extents.first, w = extents.second;
      CAPTURE(h);
      const matrix x = normal<float>(make_key(h), h, w);
      const auto want = evaluate(fn(x));
      const auto got = f(x.to(gpu)).to(device::cpu());
      REQUIRE(got.shape() == want.shape());
      check_close(got.to_vector(), want.to_vector(), 1e-4);
    }
    CHECK(f.specialisations() == 1);
  };
  windows(each);
  ranges(each);
  resizes(each);
}
