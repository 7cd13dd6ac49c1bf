// ir/infer.hpp: infers dtype and extents of a node from its operands, by the rule of its row or by its record.
#pragma once

#include "ops/table.hpp"

namespace sinter::ir {

namespace detail {

inline void infer_pointwise(ops::inference& f) {
  const auto& r = row(f.n.code);
  f.expect(static_cast<std::size_t>(r.arity), f.n.attr.ints.size(), 0);
  std::array<dtype, 3> types{};
  for (std::size_t k = 0; k < f.n.in.size(); ++k) types[k] = f.operand(k).type;
  if (const char* error = apply(r.rule, types.data(), r.arity, f.n.attr.type, f.n.type)) {
    if (r.arity == 1) f.refuse({error, "; the operand is ", types[0]});
    if (r.arity == 2) f.refuse({error, "; operands are ", types[0], " and ", types[1]});
    f.refuse({error, "; operands are ", types[0], ", ", types[1], " and ", types[2]});
  }
  for (std::size_t k = 1; k < f.n.in.size(); ++k)
    if (f.extents(k) != f.extents())
      f.refuse({"shapes differ: ", f.extents(), " and ", f.extents(k), "; broadcast_to gives them one shape"});
  f.n.extents = f.extents();
}

}  // namespace detail

SINTER_API void infer(const graph& g, node& n) {
  for (auto id : n.in) ensure(id < g.size(), "an operand is a node of the graph");
  ops::inference f{g, n};
  n.extents.clear();
  if (!n.in.empty()) n.type = g[n.in[0]].type;
  if (is_pointwise(n.code)) detail::infer_pointwise(f);
  else ops::record_of(n.code).infer(f);
  f.check_result();
}

}  // namespace sinter::ir
