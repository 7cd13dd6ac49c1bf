// ir/ops/table.hpp: the records of the structural ops, by op, for walks over graphs.
#pragma once

#include "arg_reduce.hpp"
#include "argsort.hpp"
#include "attention.hpp"
#include "attention_back.hpp"
#include "broadcast.hpp"
#include "collectives.hpp"
#include "concat.hpp"
#include "constant.hpp"
#include "dot.hpp"
#include "gather.hpp"
#include "input.hpp"
#include "iota.hpp"
#include "opaque.hpp"
#include "pad.hpp"
#include "permute.hpp"
#include "pick.hpp"
#include "reduce.hpp"
#include "reshape.hpp"
#include "scan.hpp"
#include "scatter.hpp"
#include "scatter_add.hpp"
#include "searchsorted.hpp"
#include "size.hpp"
#include "slice.hpp"
#include "sum_squares.hpp"
#include "window.hpp"

namespace sinter::ir::ops {

struct record {
  void (*infer)(inference&);
  std::string (*text)(const node&);
  void (*read)(words&, node&);
  void (*reference)(const evaluation&, literal_array&);
  value (*jvp)(const site&, const tangents&);
  value (*vjp)(const site&, std::size_t, const value&);
  value (*batch)(const lane_site&);
  roundings (*rounding)(const evaluation&, const literal_array&);
  series<value> (*vjps)(const site&, const series<char>& asked, const value&);  ///< null: call vjp for each operand
};

template <class Op>
constexpr record make_record() {
  static_assert(record_of_op<Op>, "the record of a structural op lacks a member; see record_of_op");
  record row{Op::infer, Op::text, Op::read, Op::reference, Op::jvp, Op::vjp, Op::batch, Op::rounding, nullptr};
  if constexpr (pulls_at_once<Op>) row.vjps = Op::vjps;
  return row;
}

inline constexpr record records[] = {
#define SINTER_STRUCTURAL(name, view) make_record<name##_op>(),
#include "../ops.def"
};

/// The record of a structural op.
constexpr const record& record_of(op o) { return records[static_cast<int>(o) - pointwise_count]; }

}  // namespace sinter::ir::ops
