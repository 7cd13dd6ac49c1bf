// verify on a GPU runs steps one at a time, those on the stream for exchanges, too.
#include <sinter/engine/engine.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/jit/check/verify.hpp>
#include <sinter/run/cuda/device/stream.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <memory>

#include "../../ir/steps.hpp"

using namespace sinter;
using ir::value;

namespace {

std::size_t bytes_of(const ir::foreign_array& a) {
  std::size_t bytes = size_of(a.type);
  for (int d = 0; d < a.rank; ++d) bytes *= static_cast<std::size_t>(a.extents[d]);
  return bytes;
}

int copies = 0, copies_beside = 0;  ///< requested from any stream, and from that for exchanges

/// A copy of x on the stream for exchanges.
value copied_apart(const value& x, std::uint64_t identity) {
  auto f = std::make_shared<ir::foreign>();
  f->name = "copied_apart";
  f->identity = identity;
  f->host = [](ir::foreign_arrays in, ir::foreign_arrays out) {
    std::memcpy(out[0].data, in[0].data, bytes_of(in[0]));
  };
  f->plain = f->host;
  f->gpu.apart = true;
  f->gpu.launch = [](ir::foreign_arrays in, ir::foreign_arrays out, void* stream) {
    namespace cuda = engine::run::cuda;
    ++copies;
    copies_beside += stream == cuda::exchange_queue(0).handle;
    cuda::check(cuda::driver().copy_within(reinterpret_cast<cuda::api::address>(out[0].data),
                                           reinterpret_cast<cuda::api::address>(in[0].data), bytes_of(in[0]),
                                           static_cast<cuda::api::stream>(stream)),
                "copying");
  };
  ir::opaque step;
  step.kind = ir::opaque_kind::host_call;
  step.function = std::move(f);
  step.results = {{x.type(), x.extents()}};
  return steps::push({x}, std::move(step))[0];
}

}  // namespace

TEST_CASE("steps apart are verified like others") {
  ir::graph g;
  const value x(g, g.add_input(dtype::f32, {37}, {}));
  const value first = copied_apart(x, 1), second = copied_apart(sin(first * 2.0), 2);
  g.outputs = {(second + x).id(), copied_apart(cos(x), 3).id()};
  engine::example given;
  given.value.type = dtype::f32;
  given.value.extents = {37};
  for (int i = 0; i < 37; ++i) given.value.f.push_back(0.1 * i - 1.5);
  const verification found = engine::verify(g, {given}, {}, device::cuda(0));
  INFO(found.text());
  CHECK(found.found == verification::outcome::agrees);
  CHECK(found.kernels >= 4);
  CHECK(copies >= 3);
  CHECK(copies_beside == 0);
}
