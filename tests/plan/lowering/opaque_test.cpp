// Opaque nodes among kernels: steps of their own, what they read and write is stored, effects keep their order.
#include "../graphs.hpp"
#include "../may_replace.hpp"

#include <sinter/plan/fusion/horizontal.hpp>

#include "../../ir/steps.hpp"

using namespace graphs;
using steps::values;

namespace {

fused plan_of(const graph& g) {
  memory_map m;
  m.strides.resize(g.size());
  return fuse(g, m, {}, true);
}

values doubled(const value& x) {
  return steps::loop(3, {x}, {}, {}, [](value, values c, values, values) { return values{c[0] * 2.0}; });
}

void note(graph& g, node_id operand, std::uint64_t tag) {
  auto f = std::make_shared<sinter::ir::foreign>();
  f->name = "note";
  f->identity = tag;
  sinter::ir::opaque s;
  s.kind = sinter::ir::opaque_kind::host_call;
  s.function = f;
  sinter::ir::push_opaque(g, sinter::ir::seal(std::move(s)), {operand}, {});
}

}  // namespace

TEST_CASE("a loop stands between the kernels before and after it, and may not replace an argument") {
  graph g;
  const value x = input(g, {64}), before = exp(x), after = doubled(before)[0];
  g.outputs = {(sin(after) + x).id(), after.id()};
  const fused f = plan_of(g);
  REQUIRE(f.kernels.size() == 3);
  CHECK(f.unfused == 4);
  CHECK(!f.kernels[0].is_opaque());
  CHECK(f.kernels[1].is_opaque());
  CHECK(f.kernels[1].label == "loop");
  CHECK(f.kernels[1].places == sinter::series<int>{0, 1, -1});  // the operand, the end, no history
  CHECK(f.kernels[1].buffers[0].id == static_cast<int>(before.id()));
  CHECK(f.kernels[1].buffers[1].written);
  bool told = false;
  for (const auto& a : f.apart) told = told || a.why.find("opaque") != std::string::npos;
  CHECK(told);
  const int input = static_cast<int>(x.id());
  const replacements known(f.kernels, {});
  CHECK(!may_replace(known, input, static_cast<int>(after.id())));
  CHECK(may_replace(known, input, static_cast<int>(g.outputs[0])));
}

TEST_CASE("operands are found behind reshapes; views of them are copied") {
  graph g;
  const value x = input(g, {4, 6}), y = x * 2.0;
  const auto last = [](const value& v) { return doubled(v)[0]; };
  g.outputs = {last(reshape(y, {24})).id(), last(permute(y, {1, 0})).id()};
  const fused f = plan_of(g);
  int opaque = 0;
  bool direct = false;
  for (const auto& k : f.kernels) {
    opaque += k.is_opaque();
    direct = direct || (k.is_opaque() && k.buffers[0].id == static_cast<int>(y.id()));
  }
  CHECK(opaque == 2);
  CHECK(direct);
  CHECK(f.kernels.size() <= 4);
}

TEST_CASE("effects run in their order, one level after the other") {
  graph g;
  const value x = input(g, {8});
  note(g, (sin(exp(x)) * 2.0).id(), 1);
  note(g, x.id(), 2);
  note(g, (x + 1.0).id(), 3);
  g.outputs = {cos(x).id()};
  const fused f = plan_of(g);
  std::string order, launched;
  for (const auto& k : f.kernels)
    if (k.is_opaque()) order += std::to_string(g[k.opaque].attr.step->function->identity);
  CHECK(order == "123");
  for (const auto& group : horizontal(f.kernels))
    for (auto k : group)
      if (f.kernels[k].is_opaque()) {
        CHECK(group.size() == 1);
        launched += std::to_string(g[f.kernels[k].opaque].attr.step->function->identity);
      }
  CHECK(launched == "123");
}
