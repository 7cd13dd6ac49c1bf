// front/tensor/term_rules.hpp: the extents of expressions; compiled once.
#pragma once

#include <vector>

#include "terms.hpp"

namespace sinter::detail {

/// An operand's extents; a number has none.
inline dims extents_of(const term& t, const void* at) {
  dims out;
  if (t.rank == 0) return out;
  operand_facts x;
  t.read(at, x);
  for (int i = 0; i < t.rank; ++i) out.push(x.extents[i]);
  return out;
}

/// Visits the terms of an expression and sets `all[i]` to the extents of term i. Returns the index after the last term of `i`.
SINTER_COLD inline int find_extents(expression_view e, int i, dims* all, location at) {
  const term& t = e.terms[i];
  if (t.is != term::operation) {
    all[i] = extents_of(t, e.place(i));
    return i + 1;
  }
  dims operands[3];
  int next = i + 1;
  for (int k = 0; k < t.arity; ++k) {
    const int own = next;
    next = find_extents(e, own, all, at);
    operands[k] = all[own];
  }
  all[i] = dims(int{t.rank});
  std::fill_n(all[i].extent, t.rank, dim(1));
  for (int k = 0; k < t.arity; ++k)
    if (!broadcast_into(all[i].extent, t.rank, operands[k].extent, operands[k].rank)) {
      const auto& where = *static_cast<const location*>(e.place(i));
      fail_broadcast(ir::name(t.code), operands, t.arity, where.line ? where : at);
    }
  return next;
}

SINTER_API void extents_of(expression_view e, dim* out, location at) {
  const int rank = e.terms[0].rank;
  std::fill_n(out, rank, dim(1));
  bool fits = true;
  for (int i = 0; i < e.count && fits; ++i) {
    const term& t = e.terms[i];
    if (t.is == term::operation || t.rank == 0) continue;
    operand_facts x;
    t.read(e.place(i), x);
    fits = broadcast_into(out, rank, x.extents, t.rank);
  }
  if (fits) return;
  // Some operation of the expression does not fit; find it.
  std::vector<dims> all(static_cast<std::size_t>(e.count));
  find_extents(e, 0, all.data(), at);
}

}  // namespace sinter::detail
