// emit/cuda/columns.hpp: kernels that only add rows to sums of columns -> CUDA: vectors of columns, rows shared by blocks.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/columns.hpp"
#include "reduce.hpp"

namespace sinter::engine::emit {

namespace detail {

inline void reserve_parts(cuda_printer& p, cuda_partials& parts, const dim& count) {
  const dim tasks = p.code().extent(role::outer) * count;
  for (int id = 0; id < p.size(); ++id) {
    if (!is_reduction(p.at(id)) || p.at(id).span == reduce_scope::inner) continue;
    parts.reserve(id, is_array(p.code(), id) ? tasks * p.code().extent(role::inner) : tasks);
  }
}

/// A thread's position: its columns, and the first of its rows. Neighbouring blocks take neighbouring columns of the same rows.
inline void place_columns(cuda_printer& p, const plan::column_shape& s) {
  writer& out = p.out();
  const std::string flat = p.flat(), tiles = p.count(s.tiles), chunks = p.number(s.chunks);
  out.line("const int x = threadIdx.x%" + p.number(s.across) + ", y = threadIdx.x/" + p.number(s.across) + ";");
  out.line("const " + flat + " g = block, tile = g%" + tiles + ", chunk = g/" + tiles + "%" + chunks + ", o = g/" +
           tiles + "/" + chunks + ";");
  p.unravel("o", p.axes_of(role::outer));
  p.define_scalars([&](int id) { return !(p.at(id).axes & (p.inner() | p.row())) && !p.at(id).after_rows; });
  out.line("const " + flat + " f = tile*" + p.number(s.across) + " + x;");
  if (!fills(s.across, s.count)) out.line("const bool live = f < " + p.limit(s.count) + ";");
  p.unravel("f", p.axes_of(role::inner), s.width);
}

/// A thread's sums of its columns, initialised with the identity.
inline void begin_columns(cuda_printer& p, const plan::column_shape& s, const series<int>& arrays) {
  for (int id : arrays) {
    p.out().line(p.accumulator_type(id) + " " + p.acc(id) + "[" + p.number(s.width) + "];");
    p.out().line("#pragma unroll");
    p.out().line("for (int l = 0; l < " + p.number(s.width) + "; ++l) " + p.acc(id) + "[l] = " + p.initial(id) + ";");
  }
}

/// Adds every down-th of the block's rows to a thread's sums.
inline void add_rows(cuda_printer& p, const plan::column_shape& s, const series<int>& arrays) {
  writer& out = p.out();
  const std::string rows = "(" + p.code().extent(role::row).text() + ")", chunks = p.number(s.chunks);
  const bool whole = fills(s.across, s.count);
  plan::work w;
  w.reductions = arrays;
  for (const auto& st : p.code().stores)
    if (!p.is_uniform_store(st) && !is_final_store(p.code(), st)) w.stores.push_back(&st);
  cuda_tile column = tile_with(s, 1);
  column.guard = whole ? "" : "live";
  column.place = [] {};
  series<int> fixed;
  for (int id : p.remaining(w))
    if (p.at(id).kind == kind::load && !(p.at(id).axes & p.row()) && !p.is_indirect(id)) fixed.push_back(id);
  if (!fixed.empty()) p.read_once(fixed, column);
  cuda_tile t = column;
  t.vectors = s.vectors;
  t.guard = (whole ? "" : "live && ") + std::string("r < high");
  t.place = [&] {
    out.line("const long r = z + u*" + p.number(s.down) + ";");
    p.unravel(p.code().axes.empty() ? "r" : "(" + p.flat() + ")r", p.axes_of(role::row));
  };
  const std::string low = s.chunks == 1 ? "0" : "(long)" + rows + "*chunk/" + chunks,
                    high = s.chunks == 1 ? rows : "(long)" + rows + "*(chunk + 1)/" + chunks;
  out.line("const long high = " + high + ";");
  const auto outer = p.scope();
  const std::string lane = s.width > 1 ? "[l]" : "[0]";
  out.block("for (long z = " + low + " + y; z < high; z += " + p.number(std::int64_t{s.down} * s.vectors) + ")", [&] {
    p.pass(
        t, w, {}, [&](int id) { return p.acc(id) + lane; }, [](const plan::store&, int, const std::string&) {});
  });
  p.leave(outer);
}

/// Folds the sums of the threads of a column, in shared memory.
inline void fold_down(cuda_printer& p, const plan::column_shape& s, const series<int>& arrays) {
  writer& out = p.out();
  const std::string width = p.number(s.width);
  for (int id : arrays) {
    const std::string m = "m" + p.number(id);
    out.line("__shared__ " + p.accumulator_type(id) + " " + m + "[" + p.number(s.down) + "][" +
             p.number(std::int64_t{s.across} * s.width) + "];");
    out.line("#pragma unroll");
    out.line("for (int l = 0; l < " + width + "; ++l) " + m + "[y][x*" + width + " + l] = " + p.acc(id) + "[l];");
  }
  if (s.down > 1)
    out.block("for (int h = " + p.number(s.down / 2) + "; h > 0; h /= 2)", [&] {
      out.line("__syncthreads();");
      out.line("if (y >= h) continue;");
      for (int id : arrays) {
        const std::string m = "m" + p.number(id), at = "[x*" + width + " + l]";
        out.line("for (int l = 0; l < " + width + "; ++l) " + m + "[y]" + at + " = " + p.fold(id) + "(" + m + "[y]" +
                 at + ", " + m + "[y + h]" + at + ");");
      }
    });
  out.line("__syncthreads();");
}

/// The block's sums: final, or its part of them if blocks share rows.
inline void leave_columns(cuda_printer& p, const plan::column_shape& s, const cuda_partials& parts,
                          const series<int>& arrays) {
  writer& out = p.out();
  const std::string columns = "(" + p.code().extent(role::inner).text() + ")", chunks = p.number(s.chunks),
                    block_columns = p.number(std::int64_t{s.across} * s.width);
  const auto outer = p.scope();
  const auto finals = final_stores(p.code());
  out.block("for (int c = threadIdx.x; c < " + block_columns + "; c += " + p.number(s.threads()) + ")", [&] {
    out.line("const long e = (long)tile*" + block_columns + " + c;");
    out.line("if (e >= " + columns + ") break;");
    if (s.chunks == 1) p.unravel("(" + p.flat() + ")e", p.axes_of(role::inner));
    for (int id : arrays) {
      const std::string m = "m" + p.number(id) + "[0][c]";
      if (s.chunks == 1) name_result(p, id, m);
      else out.line(parts.at(id, "((long)o*" + chunks + " + chunk)*" + columns + " + e") + " = " + m + ";");
    }
    if (s.chunks == 1) print_final(p, finals.along);
  });
  p.leave(outer);
  if (s.chunks == 1 && !finals.single.empty())
    out.block("if (tile == 0 && threadIdx.x == 0)", [&] { print_final(p, finals.single); });
}

}  // namespace detail

/// The body of a block that sums some rows of a tile of columns.
SINTER_API void print_columns(cuda_printer& p, const plan::column_shape& s, const cuda_partials& parts) {
  detail::declare_folds(p);
  p.uniform_values();
  p.uniform_stores();
  detail::place_columns(p, s);
  const auto arrays = arrays_of(p.code());
  detail::begin_columns(p, s, arrays);
  detail::add_rows(p, s, arrays);
  detail::fold_down(p, s, arrays);
  detail::leave_columns(p, s, parts, arrays);
}

}  // namespace sinter::engine::emit
