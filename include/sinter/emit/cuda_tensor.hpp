// emit/cuda_tensor.hpp: a product of f32 that may be rounded to tf32, with what follows it -> CUDA: warps multiply on tensor
// cores, operands come through several stages of shared memory, what follows is done in vectors of the tile's rows.
#pragma once

#include "../base/series.hpp"
#include "cuda_product.hpp"
#include "cuda_walk.hpp"

namespace sinter::engine::emit {

/// The way of an operand's tile through shared memory: lines along k or along its other axis, with a few elements between
/// lines so that a warp's reads touch every bank once.
struct tensor_operand {
  bool along_k = false;
  int width = 1;  ///< elements of a copy
  int rows = 64;  ///< of the tile
  int line = 0;   ///< elements from a line to the next
  int elements = 0;
};

/// A block of 8 warps makes a tile of m by n; `down` by `across` of them share it, `deep` of them the k of a stage.
struct tensor_shape {
  static constexpr int threads = 256;
  int m = 64, n = 64, k = 64, stages = 3;
  int down = 2, across = 2, deep = 2;
  tensor_operand a, b;
  int width = 1;  ///< elements along the last axis that a thread stores at once
  dim rows, columns, depth;
  dim blocks;

  int stage() const { return a.elements + b.elements; }
  int line() const { return n + 8; }  ///< of the result's tile
  int shared() const { return 4 * std::max(stages * stage(), m * line()); }
};

namespace detail {

inline bool on_tensor_cores(const kernel& k, const cuda_target& t) {
  const auto& p = k.products[0];
  const auto plain = [&](const plan::access& a) {
    const auto& b = k.buffers[static_cast<std::size_t>(a.buffer)];
    return b.type == dtype::f32 && !b.by_value;
  };
  const auto x = axes_of_product(k);
  return t.tf32 && t.capability >= 80 && p.type == dtype::f32 && plain(p.a) && plain(p.b) && !x.m.empty() &&
         !x.n.empty() && !x.k.empty();
}

inline tensor_operand operand_of_tile(const kernel& k, const plan::access& a, const series<std::size_t>& axes,
                                      const series<std::size_t>& k_axes, int rows, int depth) {
  const auto extent = [&](std::size_t x) {
    return x < k.axes.size() ? k.axes[x].extent : k.products[0].k[x - k.axes.size()];
  };
  tensor_operand o;
  o.rows = rows;
  o.along_k = runs_along(a.at, k_axes) && !runs_along(a.at, axes);
  const std::size_t last = o.along_k ? k_axes.back() : axes.back();
  if (is_vector_access(k, a, static_cast<int>(last), 4) && divides(4, extent(last))) o.width = 4;
  o.line = o.along_k ? depth + 4 : rows + 8;
  o.elements = o.line * (o.along_k ? rows : depth);
  return o;
}

inline tensor_shape tensor_shape_of(const kernel& k, const cuda_target& t) {
  const auto of = shape_of_product(k, t);
  const auto x = axes_of_product(k);
  tensor_shape s;
  s.rows = of.m;
  s.columns = of.n;
  s.depth = of.k;
  const auto blocks = [&] { return ceil_div(s.rows, s.m) * ceil_div(s.columns, s.n) * of.batch; };
  // Smaller tiles where that leaves many multiprocessors idle.
  const auto few = [&] { return blocks().number().value_or(1 << 20) * 5 < t.multiprocessors * 3; };
  if (s.columns.number().value_or(64) <= 16) {
    s.n = 16;
    s.across = 1;
    s.deep = 4;
  }
  if (few()) s.m = 32;
  if (s.n > 32 && few()) s.n = 32;
  s.blocks = blocks();
  while (s.k > 8 * s.deep && s.depth.number().value_or(s.k) <= s.k / 2) s.k /= 2;
  s.a = operand_of_tile(k, k.products[0].a, x.m, x.k, s.m, s.k);
  s.b = operand_of_tile(k, k.products[0].b, x.n, x.k, s.n, s.k);
  while (s.stages > 2 && s.shared() > shared_memory_of(t.capability)) --s.stages;
  s.width = std::min(vector_width(k, static_cast<int>(x.n.back()), false), 4);
  return s;
}

/// Prints the way of an operand's tile into shared memory: `declare` where each thread's copies come from and go to in the
/// first stage, `copy` of a stage. What lies outside of the matrix is 0 there.
struct tile_copies {
  cuda_printer& p;
  const tensor_shape& s;
  const plan::affine& at;
  const tensor_operand& o;
  std::string name;
  const series<std::size_t>&axes, &k_axes;
  std::string low;
  dim end;

  /// Neighbouring stages lie at one distance.
  bool walks() const { return k_axes.size() == 1; }
  int copies() const { return o.rows * s.k / o.width; }
  int each() const { return (copies() + s.threads - 1) / s.threads; }
  std::string from(const std::string& k) const {
    return name + " + (" + walk_text(p, at, axes, "at") + ") + (" + walk_text(p, at, k_axes, k) + ")";
  }

  template <class F>
  void over_copies(F&& inside) const {
    const int per_line = (o.along_k ? s.k : o.rows) / o.width;
    const std::string inner = "w%" + p.number(per_line) + "*" + p.number(o.width), outer = "w/" + p.number(per_line);
    p.out().line("#pragma unroll");
    p.out().block("for (int i = 0; i < " + p.number(each()) + "; ++i)", [&] {
      p.out().line("const int w = i*" + p.number(s.threads) + " + threadIdx.x;");
      if (copies() % s.threads != 0) p.out().line("if (w >= " + p.number(copies()) + ") break;");
      p.out().line("const int q = " + (o.along_k ? inner : outer) + ", e = " + (o.along_k ? outer : inner) + ";");
      p.out().line("const " + p.idx() + " at = " + low + " + e;");
      inside();
    });
  }

  void declare() const {
    if (!walks()) return;
    p.out().line("const s_f32* from_" + name + "[" + p.number(each()) + "];");
    over_copies([&] { p.out().line("from_" + name + "[i] = " + from("q") + ";"); });
  }
  void copy(const std::string& to) const {
    std::string inside;
    if (!fills(o.rows, end)) inside = "at < " + p.limit(end);
    if (!fills(s.k, s.depth)) inside += (inside.empty() ? "" : " && ") + std::string("at_k < ") + p.limit(s.depth);
    over_copies([&] {
      p.out().line("const " + p.idx() + " at_k = low_k + q;");
      const std::string line = "*" + p.number(o.line);
      p.out().line("copy_or_zero<" + p.number(4 * o.width) + ">(" + to + " + " +
                   (o.along_k ? "e" + line + " + q" : "q" + line + " + e") + ", " +
                   (walks() ? "from_" + name + "[i]" : from("at_k")) + ", " + (inside.empty() ? "true" : inside) +
                   ");");
      if (walks()) p.out().line("from_" + name + "[i] += " + scaled(at.stride[k_axes[0]], p.number(s.k)) + ";");
    });
  }
};

/// Where a warp's lane finds its first element of an operand in a stage; `part` is the warp's number along the other axis.
inline std::string first_element(cuda_printer& p, const tensor_shape& s, const tensor_operand& o,
                                 const std::string& part, int parts) {
  const std::string row = "(" + part + "*" + p.number(o.rows / parts) + " + lane)",
                    q = "(part_k*" + p.number(s.k / s.deep) + " + quad)";
  return o.along_k ? row + "*" + p.number(o.line) + " + " + q : q + "*" + p.number(o.line) + " + " + row;
}

/// The sum over k of one stage, for this warp's part of the tile.
inline void print_multiply(cuda_printer& p, const tensor_shape& s) {
  writer& out = p.out();
  const int high = s.m / s.down / 16, wide = s.n / s.across / 8;
  const auto each = [&](const char* i, int n, const std::function<void()>& inside) {
    out.line("#pragma unroll");
    out.block(std::string("for (int ") + i + " = 0; " + i + " < " + p.number(n) + "; ++" + i + ")", inside);
  };
  // An element `row` rows and `q` of k further.
  const auto element = [&](const char* name, const tensor_operand& o, const std::string& row, int q) {
    const std::string along = "(q*8 + " + p.number(q) + ")", line = "*" + p.number(o.line);
    return "tf32(" + std::string(name) + "[" +
           (o.along_k ? "(" + row + ")" + line + " + " + along : along + line + " + " + row) + "])";
  };
  const std::string a = p.number(high), b = p.number(wide);
  each("q", s.k / 8 / s.deep, [&] {
    out.line("unsigned l[" + a + "][4], r[" + b + "][2];");
    each("i", high, [&] {
      out.line("l[i][0] = " + element("left", s.a, "i*16", 0) + ", l[i][1] = " + element("left", s.a, "i*16 + 8", 0) +
               ";");
      out.line("l[i][2] = " + element("left", s.a, "i*16", 4) + ", l[i][3] = " + element("left", s.a, "i*16 + 8", 4) +
               ";");
    });
    each("j", wide, [&] {
      out.line("r[j][0] = " + element("right", s.b, "j*8", 0) + ", r[j][1] = " + element("right", s.b, "j*8", 4) + ";");
    });
    each("i", high, [&] { each("j", wide, [&] { out.line("multiply_tf32(sums[i][j], l[i], r[j]);"); }); });
  });
}

/// The block's tile of the product, in shared memory: the warps that share its k add what they have one after another.
inline void print_gather(cuda_printer& p, const tensor_shape& s) {
  writer& out = p.out();
  const int high = s.m / s.down / 16, wide = s.n / s.across / 8;
  out.line("await_copies<0>();");
  out.line("s_f32* const tile = (s_f32*)ring;");
  for (int part = 0; part < s.deep; ++part) {
    out.line("__syncthreads();");
    out.block("if (part_k == " + p.number(part) + ")", [&] {
      out.line("#pragma unroll");
      out.block("for (int i = 0; i < " + p.number(high) + "; ++i)", [&] {
        out.line("#pragma unroll");
        out.block("for (int j = 0; j < " + p.number(wide) + "; ++j)", [&] {
          out.line("#pragma unroll");
          out.block("for (int h = 0; h < 4; ++h)", [&] {
            out.line("s_f32& to = tile[(part_m*" + p.number(s.m / s.down) + " + i*16 + lane + h/2*8)*" +
                     p.number(s.line()) + " + part_n*" + p.number(s.n / s.across) + " + j*8 + quad*2 + h%2];");
            out.line(part == 0 ? "to = sums[i][j][h];" : "to += sums[i][j][h];");
          });
        });
      });
    });
  }
  out.line("__syncthreads();");
}

/// How the block's threads take the elements of its tile: in vectors of its rows.
inline cuda_tile tile_of_product(cuda_printer& p, const tensor_shape& s, const product_axes& x) {
  cuda_tile t;
  t.width = s.width;
  t.axis = static_cast<int>(x.n.back());
  const int per_row = s.n / s.width, vectors = s.m * per_row;
  t.vectors = std::max(vectors / tensor_shape::threads, 1);
  const dim columns = s.width == 1 ? s.columns : *s.columns.divided_by(s.width);
  const auto all_of = [&](const char* which, int count, const dim& n) {
    if (!fills(count, n)) t.guard += (t.guard.empty() ? "" : " && ") + std::string(which) + " < " + p.limit(n);
  };
  if (vectors < tensor_shape::threads) t.guard = "f < " + p.number(vectors);
  all_of("at_m", s.m, s.rows);
  all_of("at_n", per_row, columns);
  t.place = [&p, &s, x, per_row] {
    p.out().line("const int f = u*" + p.number(tensor_shape::threads) + " + threadIdx.x;");
    p.out().line("const " + p.flat() + " at_m = low_m + f/" + p.number(per_row) + ", at_n = low_n/" +
                 p.number(s.width) + " + f%" + p.number(per_row) + ";");
    p.unravel("at_m", x.m);
    p.unravel("at_n", x.n, s.width);
  };
  return t;
}

}  // namespace detail

/// The body of a block of a matrix product on tensor cores.
SINTER_API void print_tensor_product(cuda_printer& p, const tensor_shape& s) {
  writer& out = p.out();
  const kernel& c = p.code();
  const auto& pr = c.products[0];
  const auto x = detail::axes_of_product(c);
  const int high = s.m / s.down / 16, wide = s.n / s.across / 8;
  const std::string idx = p.idx(), depth = p.number(s.k), last = p.number(s.stages - 1), stages = p.number(s.stages);
  p.uniform_values();
  p.uniform_stores();
  detail::place_block(p, x, s.rows, s.columns, s.m, s.n);
  out.line("const int lane = threadIdx.x%32/4, quad = threadIdx.x%4, warp = threadIdx.x/32;");
  out.line("const int part_m = warp%" + p.number(s.down) + ", part_n = warp/" + p.number(s.down) + "%" +
           p.number(s.across) + ", part_k = warp/" + p.number(s.down * s.across) + ";");
  detail::declare_operands(p, x);
  out.line("extern __shared__ words<16>::t ring[];");
  out.line("s_f32 sums[" + p.number(high) + "][" + p.number(wide) + "][4];");
  out.line("#pragma unroll");
  out.line("for (int i = 0; i < " + p.number(high * wide * 4) + "; ++i) (&sums[0][0][0])[i] = 0;");
  const detail::tile_copies left{p, s, pr.a.at, s.a, "a", x.m, x.k, "low_m", s.rows},
      right{p, s, pr.b.at, s.b, "b", x.n, x.k, "low_n", s.columns};
  left.declare();
  right.declare();
  out.block(
      "const auto copy_stage = [&](" + idx + " step, int slot)",
      [&] {
        out.line("const " + idx + " low_k = step*" + depth + ";");
        out.line("s_f32* const to = (s_f32*)ring + slot*" + p.number(s.stage()) + ";");
        left.copy("to");
        right.copy("to + " + p.number(s.a.elements));
      },
      "};");
  out.line("const " + idx + " steps = (" + p.limit(s.depth) + " + " + p.number(s.k - 1) + ")/" + depth + ";");
  out.line("#pragma unroll");
  out.block("for (int step = 0; step < " + last + "; ++step)", [&] {
    out.line("if (step < steps) copy_stage(step, step);");
    out.line("end_copies();");
  });
  // What the tile's elements are combined with is on its way meanwhile, where registers can hold it.
  const cuda_tile t = detail::tile_of_product(p, s, x);
  cuda_printer::work w;
  for (const auto& st : c.stores)
    if (!p.is_uniform_store(st)) w.stores.push_back(&st);
  series<int> direct;
  for (int id : p.needed(w))
    if (p.at(id).kind == kind::load && !p.is_indirect(id)) direct.push_back(id);
  constexpr int most_held = 64;
  if (static_cast<int>(direct.size()) * t.vectors * t.width <= most_held) p.read(direct, t);
  out.line("int slot = 0, next = " + last + ";");
  out.line("#pragma unroll 1");
  out.block("for (" + idx + " step = 0; step < steps; ++step)", [&] {
    out.line("await_copies<" + p.number(s.stages - 2) + ">();");
    out.line("__syncthreads();");
    out.line("if (step + " + last + " < steps) copy_stage(step + " + last + ", next);");
    out.line("end_copies();");
    out.line("const s_f32* const stage = (s_f32*)ring + slot*" + p.number(s.stage()) + ";");
    out.line("const s_f32* const left = stage + " + detail::first_element(p, s, s.a, "part_m", s.down) + ";");
    out.line("const s_f32* const right = stage + " + p.number(s.a.elements) + " + " +
             detail::first_element(p, s, s.b, "part_n", s.across) + ";");
    detail::print_multiply(p, s);
    for (const char* i : {"slot", "next"})
      out.line(std::string(i) + " = " + i + " + 1 == " + stages + " ? 0 : " + i + " + 1;");
  });
  detail::print_gather(p, s);
  for (int id = 0; id < p.size(); ++id) {
    if (p.at(id).kind != kind::product) continue;
    out.line("s_f32 k" + p.number(id) + "[" + p.number(t.vectors) + "][" + p.number(p.width_of(id, t)) + "];");
    p.over_vectors(t, [&] {
      p.over_lanes(t, [&] {
        out.line("k" + p.number(id) + "[u][" + (t.width == 1 ? "0" : "l") + "] = tile[f/" + p.number(s.n / s.width) +
                 "*" + p.number(s.line()) + " + f%" + p.number(s.n / s.width) + "*" + p.number(s.width) +
                 (t.width == 1 ? "" : " + l") + "];");
      });
    });
    p.hold(id);
  }
  p.pass(
      t, w, {}, [](int) { return std::string(); }, [](const plan::store&, int) {});
}

}  // namespace sinter::engine::emit
