// emit/cuda_scan.hpp: a scan on a GPU: a thread for each row where neighbours are other rows, else a block for each row.
#pragma once

#include "../base/series.hpp"
#include "cuda_body.hpp"

namespace sinter::engine::emit {

/// How a scan's rows are spread: one block of `threads` each, or one thread each.
struct scan_shape {
  bool block_a_row = false;
  int threads = 128;
  dim blocks;
};

namespace detail {

inline int scan_of(const cuda_printer& p) {
  int found = -1;
  for (int id = 0; id < p.size(); ++id)
    if (p.at(id).kind == kind::scan) found = id;
  return found;
}

/// Values at one position; the scan itself is left out.
inline void print_scan_operand(cuda_printer& p, int scan) {
  p.define_scalars([&](int id) { return id < scan; });
}

inline void print_thread_scan(cuda_printer& p, int scan, const series<std::size_t>& order, std::size_t j) {
  writer& out = p.out();
  const auto& s = p.at(scan);
  if (j < order.size()) {
    const std::string i = p.axis(order[j]), e = p.extent(order[j]);
    return out.block(s.reverse ? "for (" + p.idx() + " " + i + " = " + e + " - 1; " + i + " >= 0; --" + i + ")"
                               : "for (" + p.idx() + " " + i + " = 0; " + i + " < " + e + "; ++" + i + ")",
                     [&] { print_thread_scan(p, scan, order, j + 1); });
  }
  print_scan_operand(p, scan);
  out.line("running = " + p.fold(scan) + "(running, " + p.name(s.args[0]) + ");");
  out.line("const " + scalar_type(s.type) + " " + p.name(scan) + " = running;");
  for (const auto& to : p.code().stores) p.store_scalar(to);
}

/// Tiles of a row, an element a thread: warps scan by shuffles, their totals and the tiles before come from shared memory.
inline void print_block_scan(cuda_printer& p, int scan, const scan_shape& shape) {
  writer& out = p.out();
  const auto& s = p.at(scan);
  const std::size_t a = p.axes_of(role::row)[0];
  const std::string t = scalar_type(s.type), i = p.axis(a), threads = p.number(shape.threads), n = p.extent(a);
  out.line("__shared__ " + t + " totals[" + p.number(shape.threads / 32) + "];");
  out.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  out.block("for (" + p.idx() + " first = 0; first < " + n + "; first += " + threads + ")", [&] {
    out.line("const " + p.idx() + " place = first + threadIdx.x;");
    out.line("const " + p.idx() + " " + i + " = " + (s.reverse ? n + " - 1 - place" : "place") + ";");
    out.line(t + " x = " + cuda_identity(s) + ";");
    const auto outside = p.scope();
    out.block("if (place < " + n + ")", [&] {
      print_scan_operand(p, scan);
      out.line("x = " + p.name(s.args[0]) + ";");
    });
    p.leave(outside);
    out.block("for (int by = 1; by < 32; by *= 2)", [&] {
      out.line("const " + t + " before = shuffle_up(x, by);");
      out.line("if (lane >= by) x = " + p.fold(scan) + "(before, x);");
    });
    out.line("if (lane == 31) totals[warp] = x;");
    out.line("__syncthreads();");
    out.line(t + " before = running;");
    out.block("for (int w = 0; w < " + p.number(shape.threads / 32) + "; ++w)", [&] {
      out.line("if (w < warp) before = " + p.fold(scan) + "(before, totals[w]);");
      out.line("running = " + p.fold(scan) + "(running, totals[w]);");
    });
    out.line("__syncthreads();");
    out.block("if (place < " + n + ")", [&] {
      out.line("const " + t + " " + p.name(scan) + " = " + p.fold(scan) + "(before, x);");
      for (const auto& to : p.code().stores) p.store_scalar(to);
    });
  });
}

}  // namespace detail

inline scan_shape shape_of_scan(const kernel& k) {
  scan_shape s;
  std::size_t scanned = 0;
  for (const auto& a : k.axes) scanned += a.role == role::row;
  s.block_a_row = scanned == 1 && k.axes.back().role == role::row;
  dim rows = k.extent(role::outer) * k.extent(role::inner);
  if (s.block_a_row) {
    const auto n = k.extent(role::row).number();
    s.threads = n && *n <= 128 ? 64 : 256;
    s.blocks = rows;
  } else {
    s.blocks = ceil_div(rows, s.threads);
  }
  return s;
}

inline void print_scan(cuda_printer& p, const scan_shape& shape) {
  const kernel& k = p.code();
  writer& out = p.out();
  const int scan = detail::scan_of(p);
  p.uniform_values();
  p.declare_fold(scan);
  series<std::size_t> rows = p.axes_of(role::outer);
  for (auto a : p.axes_of(role::inner)) rows.push_back(a);
  out.line("const " + p.flat() + " f = " +
           (shape.block_a_row ? "(" + p.flat() + ")block;"
                              : "(" + p.flat() + ")block*" + p.number(shape.threads) + " + threadIdx.x;"));
  const auto row = [&] {
    p.unravel("f", rows);
    out.line(scalar_type(p.at(scan).type) + " running = " + cuda_identity(p.at(scan)) + ";");
    if (shape.block_a_row) detail::print_block_scan(p, scan, shape);
    else detail::print_thread_scan(p, scan, p.axes_of(role::row), 0);
  };
  if (shape.block_a_row) return row();
  out.block("if (f < " + p.limit(k.extent(role::outer) * k.extent(role::inner)) + ")", row);
}

}  // namespace sinter::engine::emit
