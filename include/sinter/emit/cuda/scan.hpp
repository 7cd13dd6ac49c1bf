// emit/cuda/scan.hpp: a scan on a GPU: a block for each row, or for 32 adjacent rows, or a thread for each short row.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/order.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

namespace detail {

/// The values at one position, except the scan.
inline void print_scan_operand(cuda_printer& p, int scan) {
  p.define_scalars([&](int id) { return id < scan; });
}

inline bool has_factors(const cuda_printer& p, int scan) { return p.at(scan).args.size() > 1; }

/// A running f32 sum whose preceding tiles are summed in f64, so that only a tile's roundings matter for any length.
inline bool is_wide_scan(const cuda_printer& p, int scan) {
  const auto& s = p.at(scan);
  return s.code == ir::op::add && compute_type(s.type) == dtype::f32 && !has_factors(p, scan);
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
  if (has_factors(p, scan)) {
    out.line("if (begun) running = times(running, " + p.name(s.args[1]) + ");");
    out.line("begun = true;");
  }
  const bool wide = is_wide_scan(p, scan);
  if (wide) out.line("running += " + p.name(s.args[0]) + ";");
  else out.line("running = " + p.fold(scan) + "(running, " + p.name(s.args[0]) + ");");
  out.line("const " + scalar_type(s.type) + " " + p.name(scan) + " = " + (wide ? "(s_f32)running" : "running") + ";");
  for (const auto& to : p.code().stores) p.store_scalar(to);
}

/// An element's result from the previous result, its factor and its operand, as text.
class scan_joiner {
 public:
  scan_joiner(const cuda_printer& p, int scan) : fold_(p.fold(scan)), factors_(has_factors(p, scan)) {}
  std::string operator()(const std::string& earlier, const std::string& factor, const std::string& later) const {
    return fold_ + "(" + (factors_ ? "times(" + earlier + ", " + factor + ")" : earlier) + ", " + later + ")";
  }
  /// For a position that may be the first; without factors, the preceding value is then an identity.
  std::string operator()(const std::string& begun, const std::string& earlier, const std::string& factor,
                         const std::string& later) const {
    const std::string both = (*this)(earlier, factor, later);
    return factors_ ? begun + " ? " + both + " : " + later : both;
  }

 private:
  std::string fold_;
  bool factors_;
};

/// Like print_before, for a sum with preceding tiles in f64; the parts of a tile are added in f32.
inline void print_wide_before(cuda_printer& p, const std::string& parts, const std::string& mine,
                              const std::string& at) {
  writer& out = p.out();
  out.line("__syncthreads();");
  out.line("s_f32 lower = 0, tile = 0;");
  out.block("for (int w = 0; w < " + parts + "; ++w)", [&] {
    out.line("if (w < " + mine + ") lower += totals[w]" + at + ";");
    out.line("tile += totals[w]" + at + ";");
  });
  out.line("const s_f64 before = running + lower;");
  out.line("running += tile;");
  out.line("__syncthreads();");
}

/// Makes `before`, the combination of all tiles and parts before the part `mine` of a tile. `at` follows a part's number in
/// an index. `running` is updated with the tile.
inline void print_before(cuda_printer& p, const scan_joiner& joined, bool factors, const std::string& type,
                         const std::string& parts, const std::string& mine, const std::string& at = "") {
  writer& out = p.out();
  const std::string factor = "factors[w]" + at, total = "totals[w]" + at;
  out.line("__syncthreads();");
  out.line(type + " before = running;");
  out.block("for (int w = 0; w < " + parts + "; ++w)", [&] {
    out.line("if (w < " + mine + ") before = " + joined("begun", "before", factor, total) + ";");
    out.line("running = " + joined("begun", "running", factor, total) + ";");
    if (factors) out.line("begun = true;");
  });
  out.line("__syncthreads();");
}

/// Tiles of a row, an element for each thread. Warps scan by shuffles; their totals and the preceding tiles come from shared
/// memory. With factors, pairs of a result and the product of its factors are joined. No pair precedes the row, so the first
/// factor is not read.
inline void print_block_scan(cuda_printer& p, int scan, const plan::scan_shape& shape) {
  writer& out = p.out();
  const auto& s = p.at(scan);
  const bool factors = has_factors(p, scan);
  const std::size_t a = p.axes_of(role::row)[0];
  const std::string t = scalar_type(s.type), i = p.axis(a), threads = p.number(shape.threads), n = p.extent(a),
                    warps = p.number(shape.threads / 32);
  const scan_joiner joined(p, scan);
  out.line("__shared__ " + t + " totals[" + warps + "];");
  if (factors) out.line("__shared__ " + t + " factors[" + warps + "];");
  out.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  out.block("for (" + p.idx() + " first = 0; first < " + n + "; first += " + threads + ")", [&] {
    out.line("const " + p.idx() + " place = first + threadIdx.x;");
    out.line("const " + p.idx() + " " + i + " = " + (s.reverse ? n + " - 1 - place" : "place") + ";");
    out.line(t + " x = " + cuda_identity(s) + ";");
    if (factors) out.line(t + " factor = (" + t + ")1;");
    const auto outside = p.scope();
    out.block("if (place < " + n + ")", [&] {
      print_scan_operand(p, scan);
      out.line("x = " + p.name(s.args[0]) + ";");
      if (factors) out.line("factor = " + p.name(s.args[1]) + ";");
    });
    p.leave(outside);
    out.block("for (int by = 1; by < 32; by *= 2)", [&] {
      out.line("const " + t + " before = shuffle_up(x, by);");
      if (factors) out.line("const " + t + " earlier = shuffle_up(factor, by);");
      out.line("if (lane >= by) x = " + joined("before", "factor", "x") + ";");
      if (factors) out.line("if (lane >= by) factor = times(earlier, factor);");
    });
    out.line("if (lane == 31) totals[warp] = x;");
    if (factors) out.line("if (lane == 31) factors[warp] = factor;");
    const bool wide = is_wide_scan(p, scan);
    if (wide) print_wide_before(p, warps, "warp", "");
    else print_before(p, joined, factors, t, warps, "warp");
    out.block("if (place < " + n + ")", [&] {
      out.line("const " + t + " " + p.name(scan) + " = " +
               (wide ? "(s_f32)(before + x)" : joined("first > 0 || warp > 0", "before", "factor", "x")) + ";");
      for (const auto& to : p.code().stores) p.store_scalar(to);
    });
  });
}

/// Tiles of 32 rows: a thread scans some elements of one row, preceded by the totals of earlier threads and tiles.
inline void print_tile_scan(cuda_printer& p, int scan, const plan::scan_shape& shape) {
  writer& out = p.out();
  const auto& s = p.at(scan);
  const bool factors = has_factors(p, scan);
  const std::size_t a = p.axes_of(role::row)[0];
  const std::string t = scalar_type(s.type), i = p.axis(a), n = p.extent(a), down = p.number(shape.down),
                    each = p.number(shape.each);
  const scan_joiner joined(p, scan);
  const auto elements = [&](auto&& body) {
    out.line("#pragma unroll");
    out.block("for (int u = 0; u < " + each + "; ++u)", [&] {
      out.line("const " + p.idx() + " place = first + y*" + each + " + u;");
      out.line("const " + p.idx() + " " + i + " = " + (s.reverse ? n + " - 1 - place" : "place") + ";");
      const auto outside = p.scope();
      out.block("if (live && place < " + n + ")", body);
      p.leave(outside);
    });
  };
  out.line("__shared__ " + t + " totals[" + down + "][32];");
  if (factors) out.line("__shared__ " + t + " factors[" + down + "][32];");
  out.block(
      "for (" + p.idx() + " first = 0; first < " + n + "; first += " + p.number(shape.down * shape.each) + ")", [&] {
        out.line(t + " x[" + each + "], sum = " + cuda_identity(s) + ";");
        if (factors) out.line(t + " factor[" + each + "], product = (" + t + ")1;");
        elements([&] {
          print_scan_operand(p, scan);
          out.line("x[u] = sum = " + joined("u > 0", "sum", p.name(s.args.back()), p.name(s.args[0])) + ";");
          if (factors) out.line("factor[u] = product = times(product, " + p.name(s.args[1]) + ");");
        });
        out.line("totals[y][c] = sum;");
        if (factors) out.line("factors[y][c] = product;");
        const bool wide = is_wide_scan(p, scan);
        if (wide) print_wide_before(p, down, "y", "[c]");
        else print_before(p, joined, factors, t, down, "y", "[c]");
        elements([&] {
          out.line("const " + t + " " + p.name(scan) + " = " +
                   (wide ? "(s_f32)(before + x[u])" : joined("first > 0 || y > 0", "before", "factor[u]", "x[u]")) +
                   ";");
          for (const auto& to : p.code().stores) p.store_scalar(to);
        });
      });
}

}  // namespace detail

inline void print_scan(cuda_printer& p, const plan::scan_shape& shape) {
  const kernel& k = p.code();
  writer& out = p.out();
  const int scan = first_of(k, kind::scan);
  p.uniform_values();
  p.declare_fold(scan);
  if (detail::has_factors(p, scan)) {
    const dtype type = p.at(scan).type;
    const std::string t = scalar_type(type);
    out.line("const auto times = [](" + t + " a, " + t + " b) { return (" + t + ")(" +
             cuda_expression(ir::op::mul, type, {"a", "b"}, type) + "); };");
  }
  series<std::size_t> rows = p.axes_of(role::outer);
  for (auto a : p.axes_of(role::inner)) rows.push_back(a);
  const std::string blocks = "(" + p.flat() + ")block", limit = p.limit(k.extent(role::outer) * k.extent(role::inner));
  if (shape.down > 0) out.line("const int c = threadIdx.x%32, y = threadIdx.x/32;");
  out.line("const " + p.flat() + " f = " +
           (shape.block_a_row ? blocks
            : shape.down > 0  ? blocks + "*32 + c"
                              : blocks + "*" + p.number(shape.threads) + " + threadIdx.x") +
           ";");
  const auto row = [&] {
    p.unravel("f", rows);
    const std::string running = detail::is_wide_scan(p, scan) ? "s_f64" : scalar_type(p.at(scan).type);
    out.line(running + " running = " + cuda_identity(p.at(scan)) + ";");
    if (detail::has_factors(p, scan)) out.line("bool begun = false;");
    if (shape.block_a_row) detail::print_block_scan(p, scan, shape);
    else if (shape.down > 0) detail::print_tile_scan(p, scan, shape);
    else detail::print_thread_scan(p, scan, p.axes_of(role::row), 0);
  };
  if (shape.down > 0) out.line("const bool live = f < " + limit + ";");
  if (shape.block_a_row || shape.down > 0) return row();
  out.block("if (f < " + limit + ")", row);
}

}  // namespace sinter::engine::emit
