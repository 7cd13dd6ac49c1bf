// emit/cuda/reduce.hpp: the parts of CUDA reductions: a fold among a group of threads, partial results in scratch memory, and
// the launch that adds them in order.
#pragma once

#include "../../base/sorted.hpp"
#include "../../plan/schedule/columns.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

/// Accumulators that blocks store in scratch memory, `parts` for each outer position.
class cuda_partials {
 public:
  explicit cuda_partials(cuda_printer& p) : p_(p) {}

  /// Reserves a reduction's partial results: `each` elements in every part.
  void reserve(int id, const dim& count) {
    offsets_.emplace(id, bytes_);
    // Whole sectors of 256 bytes for any extents.
    bytes_ += ceil_div(count * dim(accumulator_bytes(p_.code(), id)), 256) * dim(256);
  }
  std::string at(int id, const std::string& index) const {
    return "((" + p_.accumulator_type(id) + "*)(scratch + " + offset(id) + "))[" + index + "]";
  }
  const dim& bytes() const { return bytes_; }

 private:
  std::string offset(int id) const {
    const dim& o = offsets_.at(id);
    return o.is_number() ? o.text() + "l" : "(" + o.text() + ")";
  }
  cuda_printer& p_;
  sorted_map<int, dim> offsets_;
  dim bytes_ = 0;
};

namespace detail {

/// "const s_f32 v3 = a3;"
inline void name_result(cuda_printer& p, int id, const std::string& total) {
  const bool arg = p.at(id).kind == kind::arg_reduce;
  p.out().line("const " + (arg ? "s_i64" : scalar_type(p.at(id).type)) + " " + p.name(id) + " = " +
               (is_wide(p.code(), id) ? "(s_f32)" : "") + total + (arg ? ".index;" : ";"));
  p.mark_defined(id);
}

/// Shared memory for folds over more than a warp; `turns` copies if a loop reuses it.
inline void declare_slots(cuda_printer& p, const series<int>& ids, int group, int turns) {
  if (group <= 32) return;
  for (int id : ids)
    p.out().line("__shared__ " + p.accumulator_type(id) + " w" + p.number(id) + "[" + p.number(turns) + "][" +
                 p.number(group / 32) + "];");
}

/// Folds the accumulators of the group's threads; every thread gets the result as the reduction's value.
inline void print_group_fold(cuda_printer& p, const series<int>& ids, int group, const std::string& turn) {
  if (ids.empty()) return;
  writer& out = p.out();
  const int lanes = std::min(group, 32), warps = group / 32;
  for (int id : ids)
    if (lanes > 1)
      out.line(p.acc(id) + " = group_all<" + p.number(lanes) + ">(" + p.acc(id) + ", " + p.fold(id) + ");");
  if (warps > 1) {
    out.block("if ((threadIdx.x & 31) == 0)", [&] {
      for (int id : ids) out.line("w" + p.number(id) + "[" + turn + "][threadIdx.x >> 5] = " + p.acc(id) + ";");
    });
    out.line("__syncthreads();");
    for (int id : ids)
      out.line(p.acc(id) + " = warps_all<" + p.number(warps) + ">(w" + p.number(id) + "[" + turn + "], " + p.fold(id) +
               ");");
  }
  for (int id : ids) name_result(p, id, p.acc(id));
}

inline void declare_folds(cuda_printer& p) {
  for (int id = 0; id < p.size(); ++id)
    if (is_reduction(p.at(id))) p.declare_fold(id);
}

inline void begin_accumulator(cuda_printer& p, int id) {
  p.out().line(p.accumulator_type(id) + " " + p.acc(id) + " = " + p.initial(id) + ";");
}

/// The values that stores need, and the stores, by one thread.
inline void print_final(cuda_printer& p, const series<const plan::store*>& stores) {
  plan::work w;
  w.stores = stores;
  for (int id : p.remaining(w)) p.define(id, -1);
  for (const auto* s : stores) p.store_scalar(*s);
}

}  // namespace detail

/// The body of the launch that adds the blocks' parts in order, and stores values that depend on them.
SINTER_API void print_finish(cuda_printer& p, const cuda_partials& parts, const plan::finish_shape& f) {
  writer& out = p.out();
  detail::declare_folds(p);
  p.uniform_values();
  series<int> arrays, scalars;
  for (int id = 0; id < p.size(); ++id)
    if (p.at(id).span == reduce_scope::row || p.at(id).span == reduce_scope::both)
      (is_array(p.code(), id) ? arrays : scalars).push_back(id);
  out.line("const " + p.flat() + " g = block, tile = g%" + p.count(f.tiles()) + ", o = g/" + p.count(f.tiles()) + ";");
  p.unravel("o", p.axes_of(role::outer));
  detail::declare_slots(p, scalars, f.threads(), 1);
  const std::string n = parenthesised(f.parts);
  for (int id : scalars) {
    detail::begin_accumulator(p, id);
    out.block("for (long c = threadIdx.x; c < " + n + "; c += " + p.number(f.threads()) + ")", [&] {
      out.line(p.acc(id) + " = " + p.fold(id) + "(" + p.acc(id) + ", " + parts.at(id, "o*" + n + " + c") + ");");
    });
  }
  detail::print_group_fold(p, scalars, f.threads(), "0");
  const auto last_stores = final_stores(p.code());
  const auto& along = last_stores.along;
  const auto& single = last_stores.single;
  if (f.arrays) {
    const std::string columns = "(" + f.columns.text() + ")";
    out.line("const int x = threadIdx.x%32, y = threadIdx.x/32;");
    out.line("const " + p.flat() + " e = tile*32 + x;");
    for (int id : arrays) {
      const std::string type = p.accumulator_type(id), m = "m" + p.number(id);
      out.line("__shared__ " + type + " " + m + "[" + p.number(f.across) + "][32];");
      detail::begin_accumulator(p, id);
      out.line("if (e < " + columns + ")");
      out.line("#pragma unroll 8");
      out.line("for (long c = y; c < " + n + "; c += " + p.number(f.across) + ") " + p.acc(id) + " = " + p.fold(id) +
               "(" + p.acc(id) + ", " + parts.at(id, "((long)o*" + n + " + c)*" + columns + " + e") + ");");
      out.line(m + "[y][x] = " + p.acc(id) + ";");
    }
    out.line("__syncthreads();");
    const auto outer = p.scope();
    out.block("if (y == 0 && e < " + columns + ")", [&] {
      p.unravel("e", p.axes_of(role::inner));
      for (int id : arrays) {
        const std::string m = "m" + p.number(id);
        out.line("for (int j = 1; j < " + p.number(f.across) + "; ++j) " + p.acc(id) + " = " + p.fold(id) + "(" +
                 p.acc(id) + ", " + m + "[j][x]);");
        detail::name_result(p, id, p.acc(id));
      }
      detail::print_final(p, along);
    });
    p.leave(outer);
  }
  if (!single.empty()) out.block("if (tile == 0 && threadIdx.x == 0)", [&] { detail::print_final(p, single); });
}

}  // namespace sinter::engine::emit
