// emit/cuda/product.hpp: a matrix product with its epilogue -> CUDA: tiles in shared memory, sums in registers.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/product.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

namespace detail {

/// Σ stride·axis over a group of axes, by their flat position; declares the axes of k besides the kernel's axes.
inline std::string walk_text(const cuda_printer& p, const plan::affine& at, const series<std::size_t>& axes,
                             const std::string& flat) {
  const kernel& c = p.code();
  auto extent = [&](std::size_t a) {
    return a < c.axes.size() ? c.axes[a].extent : c.products[0].k[a - c.axes.size()];
  };
  series<std::string> terms;
  dim below = 1;
  for (std::size_t j = axes.size(); j-- > 0;) {
    std::string i = below.is(1) ? flat : flat + "/(" + p.idx() + ")(" + below.text() + ")";
    if (j > 0) i = "(" + i + ")%(" + p.idx() + ")(" + extent(axes[j]).text() + ")";
    if (!at.stride[axes[j]].is(0)) terms.push_back(scaled(at.stride[axes[j]], "(" + i + ")"));
    below *= extent(axes[j]).is(0) ? dim(1) : extent(axes[j]);
  }
  return sum(terms);
}

/// The start of the block's tile of `high` by `wide` elements in the result, and its batch.
inline void place_block(cuda_printer& p, const plan::product_axes& x, const dim& m, const dim& n, int high, int wide) {
  const std::string along = p.count(ceil_div(n, wide)), across = p.count(ceil_div(m, high));
  p.out().line("const " + p.flat() + " g = block;");
  p.out().line("const " + p.idx() + " low_n = g%" + along + "*" + p.number(wide) + ", low_m = g/" + along + "%" +
               across + "*" + p.number(high) + ";");
  p.unravel("(g/" + along + "/" + across + ")", x.batch);
}

/// `a` and `b` point to the first elements of the batch's matrices.
inline void declare_operands(cuda_printer& p, const plan::product_axes& x) {
  const auto in_batch = [&](std::size_t axis) { return std::count(x.batch.begin(), x.batch.end(), axis) > 0; };
  const auto declare = [&](const char* name, const plan::access& from) {
    p.out().line("const auto* const " + std::string(name) + " = " + p.pointer(from.buffer) + " + (" +
                 index_text(from.at, in_batch) + ");");
  };
  declare("a", p.code().products[0].a);
  declare("b", p.code().products[0].b);
}

/// The operands' tiles in shared memory, and a thread's sums, initialised with 0.
inline void declare_tiles(cuda_printer& p, const plan::product_shape& s, const std::string& scalar) {
  writer& out = p.out();
  const std::string each = p.number(s.side / 16);
  for (const char* operand : {"a", "b"})
    out.line("__shared__ " + scalar + " tile_" + operand + "[" + p.number(s.depth) + "][" + p.number(s.side + 1) +
             "];");
  declare_operands(p, axes_of_product(p.code()));
  out.line(scalar + " sums[" + each + "][" + each + "];");
  out.line("#pragma unroll");
  out.line("for (int i = 0; i < " + each + "; ++i)");
  out.line("#pragma unroll");
  out.line("for (int j = 0; j < " + each + "; ++j) sums[i][j] = 0;");
}

/// Fills an operand's tile, whose other axes `axes` start at `low`; elements outside of the matrix are 0. Neighbouring
/// threads read neighbouring elements for either orientation of the operand.
inline void fill_tile(cuda_printer& p, const plan::product_shape& s, const std::string& name, const plan::affine& at,
                      const series<std::size_t>& axes, const std::string& low, const dim& end) {
  writer& out = p.out();
  const auto x = axes_of_product(p.code());
  const std::string scalar = scalar_type(p.code().products[0].type), idx = p.idx(), side = p.number(s.side),
                    depth = p.number(s.depth);
  const bool along_k = plan::runs_along(at, x.k) && !plan::runs_along(at, axes);
  out.block("for (int w = threadIdx.x; w < " + p.number(std::int64_t{s.side} * s.depth) + "; w += 256)", [&] {
    out.line(along_k ? "const int q = w%" + depth + ", e = w/" + depth + ";"
                     : "const int e = w%" + side + ", q = w/" + side + ";");
    out.line("const " + idx + " at_k = low_k + q, at = " + low + " + e;");
    out.line("tile_" + name + "[q][e] = at < (" + idx + ")(" + end.text() + ") && at_k < (" + idx + ")(" + s.k.text() +
             ") ? (" + scalar + ")load1(" + name + " + (" + walk_text(p, at, axes, "at") + ") + (" +
             walk_text(p, at, x.k, "at_k") + ")) : (" + scalar + ")0;");
  });
}

/// Adds the tiles' product to a thread's sums.
inline void print_tile_sums(cuda_printer& p, const plan::product_shape& s, const std::string& scalar) {
  writer& out = p.out();
  const std::string each = p.number(s.side / 16);
  out.line("#pragma unroll");
  out.block("for (int q = 0; q < " + p.number(s.depth) + "; ++q)", [&] {
    out.line(scalar + " l[" + each + "], r[" + each + "];");
    out.line("#pragma unroll");
    out.line("for (int i = 0; i < " + each + "; ++i) l[i] = tile_a[q][y + i*16], r[i] = tile_b[q][x + i*16];");
    out.line("#pragma unroll");
    out.line("for (int i = 0; i < " + each + "; ++i)");
    out.line("#pragma unroll");
    out.line("for (int j = 0; j < " + each + "; ++j) sums[i][j] = multiply_add(l[i], r[j], sums[i][j]);");
  });
}

/// The epilogue, for each of a thread's sums inside the result.
inline void print_elements(cuda_printer& p, const plan::product_shape& s, const plan::product_axes& x,
                           const std::string& scalar) {
  writer& out = p.out();
  const std::string each = p.number(s.side / 16);
  out.line("#pragma unroll");
  out.block("for (int i = 0; i < " + each + "; ++i)", [&] {
    out.line("#pragma unroll");
    out.block("for (int j = 0; j < " + each + "; ++j)", [&] {
      out.line("const " + p.flat() + " at_m = low_m + y + i*16, at_n = low_n + x + j*16;");
      out.block("if (at_m < " + p.count(s.m) + " && at_n < " + p.count(s.n) + ")", [&] {
        p.unravel("at_m", x.m);
        p.unravel("at_n", x.n);
        for (int id = 0; id < p.size(); ++id) {
          if (p.knows(id)) continue;
          if (p.at(id).kind == kind::product) {
            out.line("const " + scalar + " " + p.name(id) + " = sums[i][j];");
            p.mark_defined(id);
          } else {
            p.define(id, -1);
          }
        }
        for (const auto& st : p.code().stores)
          if (!p.is_uniform_store(st)) p.store_scalar(st);
      });
    });
  });
}

}  // namespace detail

/// The body of a block of a matrix product.
SINTER_API void print_product(cuda_printer& p, const plan::product_shape& s) {
  writer& out = p.out();
  const auto& pr = p.code().products[0];
  const auto x = plan::axes_of_product(p.code());
  const std::string scalar = scalar_type(pr.type), idx = p.idx();
  p.uniform_values();
  p.uniform_stores();
  detail::place_block(p, x, s.m, s.n, s.side, s.side);
  out.line("const int x = threadIdx.x%16, y = threadIdx.x/16;");
  detail::declare_tiles(p, s, scalar);
  out.block(
      "for (" + idx + " low_k = 0; low_k < (" + idx + ")(" + s.k.text() + "); low_k += " + p.number(s.depth) + ")",
      [&] {
        detail::fill_tile(p, s, "a", pr.a.at, x.m, "low_m", s.m);
        detail::fill_tile(p, s, "b", pr.b.at, x.n, "low_n", s.n);
        out.line("__syncthreads();");
        detail::print_tile_sums(p, s, scalar);
        out.line("__syncthreads();");
      });
  detail::print_elements(p, s, x, scalar);
}

}  // namespace sinter::engine::emit
