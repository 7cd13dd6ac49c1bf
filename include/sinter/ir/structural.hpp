// ir/structural.hpp: what each structural op means: its operands, attributes, dtype and shape rule.
//
//   input       attr.type, attr.dims. Operand k of the program for inputs[k]; ints = {k}.
//   constant    attr.type, attr.dims, attr.literal: one literal everywhere.
//   iota        attr.type, attr.dims, ints = {axis}: the index along the axis.
//   reshape     (x) attr.dims: the same elements in row-major order.
//   permute     (x) ints = perm: result axis i is operand axis perm[i].
//   broadcast   (x) attr.dims: same rank; operand extents are equal to the result's or 1.
//   slice       (x) attr.dims = extents then starts (2·rank), ints = steps, not 0: result index i reads start + i·step.
//   pad         (x) attr.dims = low then high (2·rank, ≥ 0), attr.literal: x surrounded by the literal.
//   concat      (x…) ints = {axis}.
//   reduce      (x) ints = axes ascending, attr.combiner. Axes are dropped. An empty reduction gives the combiner's
//               identity; maximum and minimum have none for integers and refuse an extent known to be 0.
//   arg_reduce  (x) ints = {axis}, attr.combiner maximum or minimum: i64 index of the first extreme; NaN is extreme.
//   gather      (x, index) ints = {axis}: result has index's extents, which equal x's off the axis; element c reads x at
//               c with c[axis] = index[c]. Indices are clamped to [0, extent).
//   scatter_add (base, index, updates) ints = {axis}: base plus, for each c of updates, updates[c] at c with
//               c[axis] = index[c]; index and updates have equal extents. Indices out of range are dropped.
//   dot         (a, b) ints = {nb, nk}: a is (B…, M…, K…), b is (B…, K…, N…), result (B…, M…, N…), nb = |B|, nk = |K|.
//               f16 and bf16 accumulate in f32.
#pragma once

#include "graph.hpp"
