// emit/cuda/sort.hpp: a sort on a GPU: blocks sort tiles of keys and places in shared memory. For longer rows, passes merge
// four runs into one, with a thread for each element, which finds its rank by bisecting the other runs. A search: a thread
// for each element.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/order.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

namespace detail {

/// The type of a key with its place.
inline std::string item_of(const plan::sort_shape& s) {
  return std::string("ranked<") + (s.word == 8 ? "s_u64" : "s_u32") + ">";
}

/// The values before `id` that `wanted` accepts.
template <class F>
void define_before(cuda_printer& p, int id, F&& wanted) {
  p.define_scalars([&](int v) { return v < id && wanted(v); });
}

inline void print_sorted_stores(cuda_printer& p, int sort, const std::string& rank, const std::string& place) {
  p.out().block("if (" + rank + " < " + p.at(sort).ranges[0].extent.text() + ")", [&] {
    p.unravel("(" + p.flat() + ")row", p.axes_of(role::outer));
    p.unravel("(" + p.flat() + ")" + rank, p.axes_of(role::row));
    p.out().line("const s_i64 " + p.name(sort) + " = (s_i64)" + place + ";");
    for (const auto& to : p.code().stores) p.store_scalar(to);
  });
}

}  // namespace detail

inline void print_sort_tiles(cuda_printer& p, const plan::sort_shape& s) {
  writer& out = p.out();
  const int sort = first_of(p.code(), kind::sort);
  const instruction& i = p.at(sort);
  const std::string n = parenthesised(s.length), tile = p.number(s.tile), width = p.number(s.width),
                    item = detail::item_of(s);
  detail::define_before(p, sort, [&](int id) { return p.is_uniform(id); });
  out.line("__shared__ " + item + " x[" + tile + "];");
  if (s.passes > 0) out.line("const long tiles = (" + n + " + " + tile + " - 1l)/" + tile + ";");
  const auto elements = [&](auto&& body) {
    out.block("for (int e = threadIdx.x; e < " + tile + "; e += " + p.number(s.threads()) + ")", [&] {
      if (s.passes > 0) out.line("const long row = block/tiles, j = block%tiles*" + tile + " + e;");
      else
        out.line("const long row = (long)block*" + p.number(s.tile / s.width) + " + e/" + width + ", j = e%" + width +
                 ";");
      body("row < " + parenthesised(s.rows) + " && j < " + n);
    });
  };
  elements([&](const std::string& inside) {
    out.line(item + " y;");
    out.line("y.key = 0; y.key = ~y.key;");
    out.line("y.place = j;");
    const auto outside = p.scope();
    out.block("if (" + inside + ")", [&] {
      p.unravel("(" + p.flat() + ")row", p.axes_of(role::outer));
      p.unravel("(" + p.flat() + ")j", p.axes_of(role::row));
      detail::define_before(p, sort, [](int) { return true; });
      out.line("y.key = sort_key(" + p.name(i.args[0]) + ", " + (i.reverse ? "true" : "false") + ");");
    });
    p.leave(outside);
    out.line("x[e] = y;");
  });
  out.line("__syncthreads();");
  out.at(i.where);
  out.line("sort_tile<" + tile + ", " + width + ", " + p.number(s.threads()) + ">(x);");
  elements([&](const std::string& inside) {
    out.block("if (" + inside + ")", [&] {
      if (s.passes == 0) return detail::print_sorted_stores(p, sort, "j", "x[e].place");
      out.line("if (" + n + " > " + width + ") ((" + item + "*)scratch)[row*" + n + " + j] = x[e];");
      out.block("else", [&] { detail::print_sorted_stores(p, sort, "j", "x[e].place"); });
    });
  });
}

/// A grid's blocks beyond those with work identify the pass.
inline void print_sort_merge(cuda_printer& p, const plan::sort_shape& s) {
  writer& out = p.out();
  const int sort = first_of(p.code(), kind::sort);
  const std::string n = "(long)" + parenthesised(s.length), total = parenthesised(s.total), item = detail::item_of(s),
                    threads = p.number(plan::sort_shape::merging);
  out.line("const long n = " + n + ", total = " + total + ";");
  out.line("const int pass = (int)(gridDim.x - (total + " + threads + " - 1)/" + threads + ");");
  out.line("const long width = " + p.number(s.width) + "l << 2*pass, whole = 4*width;");
  out.line("const " + p.flat() + " f = (" + p.flat() + ")block*" + threads + " + threadIdx.x;");
  out.block("if (f < total && width < n)", [&] {
    out.line("const " + item + "* const from = (const " + item + "*)scratch + (pass%2 ? total : 0);");
    out.line(item + "* const to = (" + item + "*)scratch + (pass%2 ? 0 : total);");
    out.line("const long row = f/" + p.count(s.length) + ", j = f%" + p.count(s.length) + ";");
    out.line("const long group = j/whole*whole, run = (j - group)/width;");
    out.line("const " + item + " y = from[f];");
    out.line("long rank = j - run*width;");
    out.line("#pragma unroll");
    out.block("for (int r = 0; r < 4; ++r)", [&] {
      out.line("const long begin = group + r*width, rest = n - begin;");
      out.line("if (r != run && rest > 0) rank += count_before(from + row*n + begin, rest < width ? rest : width, y);");
    });
    out.line("if (whole < n) to[row*n + rank] = y;");
    out.block("else", [&] { detail::print_sorted_stores(p, sort, "rank", "y.place"); });
  });
}

inline void print_search(cuda_printer& p, const plan::search_shape& s) {
  writer& out = p.out();
  const int search = first_of(p.code(), kind::search);
  const instruction& i = p.at(search);
  out.line("const " + p.flat() + " f = (" + p.flat() + ")block*" + p.number(s.threads) + " + threadIdx.x;");
  out.block("if (f < " + p.limit(p.code().extent(role::outer)) + ")", [&] {
    p.unravel("f", p.axes_of(role::outer));
    detail::define_before(p, search, [](int) { return true; });
    out.at(i.where);
    out.line("const s_i64 " + p.name(search) + " = searched<" + (i.reverse ? "true" : "false") + ">(" +
             p.address(i.at) + ", " + i.ranges[0].at.offset.text() + ", " + i.ranges[0].extent.text() + ", " +
             p.name(i.args[0]) + ");");
    for (const auto& to : p.code().stores) p.store_scalar(to);
  });
}

}  // namespace sinter::engine::emit
