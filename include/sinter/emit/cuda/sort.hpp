// emit/cuda/sort.hpp: a sort on a GPU: blocks sort tiles of keys and places in shared memory. Longer rows are sorted by the digits of
// their keys, or tile by tile where only few first elements are wanted. A search: a thread for each element.
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

/// Defines `y`, the element of a row at place j: the last of all behind the row's end.
inline void print_item(cuda_printer& p, const plan::sort_shape& s, const std::string& inside) {
  writer& out = p.out();
  const int sort = first_of(p.code(), kind::sort);
  out.line(item_of(s) + " y;");
  out.line("y.key = 0; y.key = ~y.key;");
  out.line("y.place = j;");
  const auto outside = p.scope();
  out.block("if (" + inside + ")", [&] {
    p.unravel("(" + p.flat() + ")row", p.axes_of(role::outer));
    p.unravel("(" + p.flat() + ")j", p.axes_of(role::row));
    define_before(p, sort, [](int) { return true; });
    out.line("y.key = sort_key(" + p.name(p.at(sort).args[0]) + ", " + (p.at(sort).reverse ? "true" : "false") + ");");
  });
  p.leave(outside);
}

/// A loop of a block over the elements of its tile, each with its row and place.
template <class F>
void print_tile_elements(cuda_printer& p, const plan::sort_shape& s, F&& body) {
  writer& out = p.out();
  const std::string tile = p.number(s.tile), width = p.number(s.width);
  out.block("for (int e = threadIdx.x; e < " + tile + "; e += " + p.number(s.threads()) + ")", [&] {
    if (s.method == plan::sort_method::network)
      out.line("const long row = (long)block*" + p.number(s.tile / s.width) + " + e/" + width + ", j = e%" + width +
               ";");
    else out.line("const long row = block/tiles, j = block%tiles*" + tile + " + e;");
    body("row < " + parenthesised(s.rows) + " && j < n");
  });
}

/// The number of elements of a row, the tiles of a row, and the items in memory.
inline void print_sort_sizes(cuda_printer& p, const plan::sort_shape& s) {
  p.out().line("const long n = " + parenthesised(s.length) + ";");
  if (s.method == plan::sort_method::network) return;
  p.out().line("const long tiles = (n + " + p.number(s.tile - 1) + ")/" + p.number(s.tile) + ";");
  p.out().line(item_of(s) + "* const items = (" + item_of(s) + "*)scratch;");
}

inline std::string sorted_tile_of(cuda_printer& p, const plan::sort_shape& s) {
  return "sort_tile<" + p.number(s.tile) + ", " + p.number(s.width) + ", " + p.number(s.threads()) + ">(x);";
}

}  // namespace detail

/// The first launch: keys and places in memory, in tiles that are sorted, or with counters of 0 for passes over digits.
inline void print_sort_tiles(cuda_printer& p, const plan::sort_shape& s) {
  using plan::sort_method;
  writer& out = p.out();
  const int sort = first_of(p.code(), kind::sort);
  detail::define_before(p, sort, [&](int id) { return p.is_uniform(id); });
  detail::print_sort_sizes(p, s);
  if (s.method == sort_method::digits) {
    detail::print_tile_elements(p, s, [&](const std::string& inside) {
      detail::print_item(p, s, inside);
      out.line("if (" + inside + ") items[row*n + j] = y;");
    });
    out.line("s_u64* const counters = (s_u64*)(items + 2*" + parenthesised(s.total) + ");");
    const std::string threads = p.number(s.threads());
    out.line("for (long e = (long)block*" + threads + " + threadIdx.x; e < " + s.counters().text() +
             "; e += (long)gridDim.x*" + threads + ") counters[e] = 0;");
    return;
  }
  out.line("__shared__ " + detail::item_of(s) + " x[" + p.number(s.tile) + "];");
  detail::print_tile_elements(p, s, [&](const std::string& inside) {
    detail::print_item(p, s, inside);
    out.line("x[e] = y;");
  });
  out.line("__syncthreads();");
  out.at(p.at(sort).where);
  out.line(detail::sorted_tile_of(p, s));
  detail::print_tile_elements(p, s, [&](const std::string& inside) {
    if (s.method == sort_method::rounds) {
      const std::string kept = p.number(s.kept);
      out.line("if (row < " + parenthesised(s.rows) + " && n > " + p.number(s.tile) + " && e < " + kept +
               ") items[block*" + kept + "l + e] = x[e];");
      out.block("if (n <= " + p.number(s.tile) + " && " + inside + ")",
                [&] { detail::print_sorted_stores(p, sort, "j", "x[e].place"); });
      return;
    }
    out.block("if (" + inside + ")", [&] { detail::print_sorted_stores(p, sort, "j", "x[e].place"); });
  });
}

namespace detail {

/// A round: tiles of the elements that the round before has passed on, until one tile of a row is left.
inline void print_sort_round(cuda_printer& p, const plan::sort_shape& s) {
  writer& out = p.out();
  const std::string tile = p.number(s.tile), kept = p.number(s.kept), rows = parenthesised(s.rows);
  out.line("long m = n;");
  out.line("for (int r = 0; r <= pass && m > 0; ++r) m = m > " + tile + " ? (m + " + p.number(s.tile - 1) + ")/" +
           tile + "*" + kept + " : 0;");
  out.line("const long parts = (m + " + p.number(s.tile - 1) + ")/" + tile + ", each = tiles*" + kept +
           ", all = " + rows + "*each;");
  out.line("if (block >= " + rows + "*parts) return;");
  out.line("const long row = block/parts, part = block%parts;");
  out.line("const " + item_of(s) + "* const from = items + (pass%2 ? all : 0) + row*each;");
  out.line("__shared__ " + item_of(s) + " x[" + tile + "];");
  const std::string loop = "for (int e = threadIdx.x; e < " + tile + "; e += " + p.number(s.threads()) + ")";
  out.block(loop, [&] {
    out.line(item_of(s) + " y;");
    out.line("y.key = 0; y.key = y.place = ~y.key;");
    out.line("if (part*" + tile + " + e < m) y = from[part*" + tile + " + e];");
    out.line("x[e] = y;");
  });
  out.line("__syncthreads();");
  out.line(sorted_tile_of(p, s));
  out.block("for (int e = threadIdx.x; e < " + kept + "; e += " + p.number(s.threads()) + ")", [&] {
    out.line("if (parts > 1) items[(pass%2 ? 0 : all) + row*each + part*" + kept + " + e] = x[e];");
    out.block("else", [&] { print_sorted_stores(p, first_of(p.code(), kind::sort), "e", "x[e].place"); });
  });
}

/// Pass 0 counts the digits of all keys. Each other pass sorts by one digit and keeps the order of equal digits.
inline void print_digit_pass(cuda_printer& p, const plan::sort_shape& s) {
  writer& out = p.out();
  const std::string rows = parenthesised(s.rows), total = parenthesised(s.total), word = p.number(s.word),
                    each = p.number(s.each());
  out.line("s_u64* const counters = (s_u64*)(items + 2*" + total + ");");
  out.line("unsigned* const digits = (unsigned*)(counters + " + p.number(2 * s.word) + ");");
  out.line("s_u64* const states = counters + " + p.number(2 * s.word) + " + " + rows + "*" +
           p.number(s.word * s.digit_values / 2) + "l;");
  out.line("__shared__ unsigned counts[8][256];");
  out.block("if (pass == 0)", [&] {
    out.line("const long row = block/tiles;");
    out.line("if (row < " + rows + ") count_digits<" + each +
             ">(items + row*n, n, block%tiles, &counts[0][0], digits + row*" + word + "*256);");
    out.line("return;");
  });
  out.line("const int digit = pass - 1;");
  // A tile waits for tiles that have begun before it.
  out.line("__shared__ long begun;");
  out.line("if (threadIdx.x == 0) begun = (long)atomicAdd((unsigned long long*)counters + digit, 1ull);");
  out.line("__syncthreads();");
  out.line("const long row = begun/tiles, tile = begun%tiles;");
  out.line("if (row >= " + rows + ") return;");
  out.line("const " + item_of(s) + "* const from = items + (digit%2 ? " + total + " : 0) + row*n;");
  out.line(item_of(s) + "* const to = items + (digit%2 ? 0 : " + total + ") + row*n;");
  out.line("sort_by_digit<" + each + ">(from, n, digit, tile, counts, digits + (row*" + word + " + digit)*256,");
  out.line("  states + ((long)digit*" + rows + " + row)*tiles*256, [&](long rank, " + item_of(s) + " y) {");
  out.line("if (digit < " + p.number(s.word - 1) + ") to[rank] = y;");
  out.block("else", [&] { print_sorted_stores(p, first_of(p.code(), kind::sort), "rank", "y.place"); });
  out.line("});");
}

}  // namespace detail

/// The other launches: a grid's blocks beyond those with work identify the pass.
inline void print_sort_pass(cuda_printer& p, const plan::sort_shape& s) {
  detail::print_sort_sizes(p, s);
  p.out().line("const int pass = (int)(gridDim.x - " + parenthesised(s.rows) + "*tiles);");
  if (s.method == plan::sort_method::rounds) detail::print_sort_round(p, s);
  else detail::print_digit_pass(p, s);
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
