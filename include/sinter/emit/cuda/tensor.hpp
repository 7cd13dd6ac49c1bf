// emit/cuda/tensor.hpp: a product of f32 that may be rounded to tf32, with its epilogue -> CUDA: warps multiply on tensor
// cores, operands pass through several stages of shared memory, and the epilogue works on vectors of the tile's rows.
#pragma once

#include "../../base/series.hpp"
#include "product.hpp"

namespace sinter::engine::emit {

namespace detail {

/// Prints the copies of an operand's tile into shared memory: `declare` their sources and destinations in the first stage,
/// `copy` a stage. Elements outside of the matrix are 0.
struct tile_copies {
  cuda_printer& p;
  const plan::tensor_shape& s;
  const plan::affine& at;
  const plan::tensor_operand& o;
  std::string name;
  const series<std::size_t>&axes, &k_axes;
  std::string low;
  dim end;

  /// Whether a thread's copies, and their next stages, have one distance.
  bool walks() const { return axes.size() == 1 && k_axes.size() == 1; }
  int copies() const { return o.rows * s.k / o.width; }
  int each() const { return (copies() + plan::tensor_shape::threads - 1) / plan::tensor_shape::threads; }
  int per_line() const { return (o.along_k ? s.k : o.rows) / o.width; }
  std::string from(const std::string& k) const {
    return name + " + (" + walk_text(p, at, axes, "at") + ") + (" + walk_text(p, at, k_axes, k) + ")";
  }
  /// The distance of n steps of `stride`.
  std::string far(int n, const dim& stride) const {
    return scaled(stride, p.number(n) + (p.idx() == std::string("long") ? "l" : ""));
  }
  void place(const std::string& w) const {
    const std::string inner = w + "%" + p.number(per_line()) + "*" + p.number(o.width),
                      outer = w + "/" + p.number(per_line());
    p.out().line("const int q = " + (o.along_k ? inner : outer) + ", e = " + (o.along_k ? outer : inner) + ";");
    p.out().line("const " + p.idx() + " at = " + low + " + e;");
  }

  void declare() const {
    if (!walks()) return;
    p.out().line("const s_f32* from_" + name + ";");
    p.out().block("", [&] {
      place("(int)threadIdx.x");
      p.out().line("from_" + name + " = " + from("q") + ";");
    });
  }
  void copy(const std::string& to) const {
    std::string inside;
    if (!fills(o.rows, end)) inside = "at < " + p.limit(end);
    if (!fills(s.k, s.depth)) inside += (inside.empty() ? "" : " && ") + std::string("at_k < ") + p.limit(s.depth);
    const std::string line = "*" + p.number(o.line), next = "from_" + name;
    p.out().line("#pragma unroll");
    p.out().block("for (int i = 0; i < " + p.number(each()) + "; ++i)", [&] {
      p.out().line("const int w = i*" + p.number(plan::tensor_shape::threads) + " + threadIdx.x;");
      if (copies() % plan::tensor_shape::threads != 0) p.out().line("if (w >= " + p.number(copies()) + ") break;");
      place("w");
      p.out().line("const " + p.idx() + " at_k = low_k + q;");
      const dim& outer = at.stride[o.along_k ? axes.back() : k_axes.back()];
      p.out().line(
          "copy_or_zero<" + p.number(4 * o.width) + ">(" + to + " + " +
          (o.along_k ? "e" + line + " + q" : "q" + line + " + e") + ", " +
          (walks() ? next + " + i*(" + far(plan::tensor_shape::threads / per_line(), outer) + ")" : from("at_k")) +
          ", " + (inside.empty() ? "true" : inside) + ");");
    });
    if (walks()) p.out().line(next + " += " + far(s.k, at.stride[k_axes[0]]) + ";");
  }
};

/// The place of a warp lane's first elements of an operand in a stage; `part` is the warp's number along the other axis.
inline std::string first_element(cuda_printer& p, const plan::tensor_shape& s, const plan::tensor_operand& o,
                                 const std::string& part) {
  const std::string row = "(" + part + "*" + p.number(o.rows / o.parts) + " + lane*" + p.number(o.run()) + ")",
                    k = "(part_k*" + p.number(s.k / s.deep) + " + quad*2)";
  return o.along_k ? row + "*" + p.number(o.line) + " + " + k : k + "*" + p.number(o.line) + " + " + row;
}

/// A lane's elements of an operand for one multiplication, as `to[row][k]`.
inline void print_fragment(cuda_printer& p, const plan::tensor_operand& o, const std::string& from,
                           const std::string& to) {
  writer& out = p.out();
  const std::string line = p.number(o.line), run = p.number(o.run());
  out.line("unsigned " + to + "[" + p.number(o.each()) + "][2];");
  out.line("#pragma unroll");
  out.block("for (int i = 0; i < " + p.number(o.each() / o.run()) + "; ++i)", [&] {
    if (o.along_k) {
      out.line("const auto x = load<2>(" + from + " + i*8*" + line + " + q*8);");
      out.line(to + "[i][0] = tf32(x.e[0]), " + to + "[i][1] = tf32(x.e[1]);");
      return;
    }
    out.line("#pragma unroll");
    out.block("for (int h = 0; h < 2; ++h)", [&] {
      out.line("const auto x = load<" + run + ">(" + from + " + (q*8 + h)*" + line + " + i*8*" + run + ");");
      out.line("#pragma unroll");
      out.line("for (int e = 0; e < " + run + "; ++e) " + to + "[i*" + run + " + e][h] = tf32(x.e[e]);");
    });
  });
}

/// The sum over k of one stage, for this warp's part of the tile.
inline void print_multiply(cuda_printer& p, const plan::tensor_shape& s) {
  writer& out = p.out();
  out.line("#pragma unroll");
  out.block("for (int q = 0; q < " + p.number(s.k / 8 / s.deep) + "; ++q)", [&] {
    print_fragment(p, s.a, "left", "l");
    print_fragment(p, s.b, "right", "r");
    out.line("#pragma unroll");
    out.line("for (int i = 0; i < " + p.number(s.a.each() / 2) + "; ++i)");
    out.line("#pragma unroll");
    out.block("for (int j = 0; j < " + p.number(s.b.each()) + "; ++j)", [&] {
      out.line("const unsigned rows[4] = {l[i*2][0], l[i*2 + 1][0], l[i*2][1], l[i*2 + 1][1]};");
      out.line("multiply_tf32(sums[i][j], rows, r[j]);");
    });
  });
}

/// Each warp's part of the product, in shared memory: tiles of warps that share k lie one after another.
inline void print_gather(cuda_printer& p, const plan::tensor_shape& s) {
  writer& out = p.out();
  const int high = s.a.run(), wide = s.b.run();
  // Adjacent in a row: two columns of a multiplication, or one column of several.
  const int together = s.b.along_k ? 2 : wide;
  out.line("await_copies<0>();");
  out.line("s_f32* const tile = (s_f32*)ring;");
  out.line("__syncthreads();");
  out.line("s_f32* const mine = tile + part_k*" + p.number(s.part()) + " + (part_m*" + p.number(s.m / s.down) +
           " + lane*" + p.number(high) + ")*" + p.number(s.line()) + " + part_n*" + p.number(s.n / s.across) +
           " + quad*2*" + p.number(wide) + ";");
  out.line("#pragma unroll");
  out.block("for (int i = 0; i < " + p.number(s.a.each()) + "; ++i)", [&] {
    const std::string row =
        high == 1 ? "i*8" : "(i/" + p.number(high) + "*8*" + p.number(high) + " + i%" + p.number(high) + ")";
    out.line("#pragma unroll");
    out.block("for (int j = 0; j < " + p.number(s.b.each() * 2 / together) + "; ++j)", [&] {
      out.line("pack<" + p.number(together) + ", t_f32> x;");
      out.line("#pragma unroll");
      out.line("for (int e = 0; e < " + p.number(together) + "; ++e) x.e[e] = " +
               (s.b.along_k ? std::string("sums[i/2][j][i%2*2 + e];")
                            : "sums[i/2][j/2*" + p.number(wide) + " + e][i%2*2 + j%2];"));
      out.line("store(mine + " + row + "*" + p.number(s.line()) + " + " +
               (s.b.along_k ? std::string("j*8") : "j/2*8*" + p.number(wide) + " + j%2*" + p.number(wide)) + ", x);");
    });
  });
  out.line("__syncthreads();");
}

/// The elements of the tile for the block's threads: in vectors of its rows.
inline cuda_tile tile_of_product(cuda_printer& p, const plan::tensor_shape& s, const plan::product_axes& x) {
  const int per_row = s.n / s.stored.width, vectors = s.m * per_row;
  cuda_tile t = tile_with(s.stored, std::max(vectors / plan::tensor_shape::threads, 1));
  const dim columns = vectors_of_row(s.columns, t.width);
  const auto all_of = [&](const char* which, int count, const dim& n) {
    if (!fills(count, n)) t.guard += (t.guard.empty() ? "" : " && ") + std::string(which) + " < " + p.limit(n);
  };
  if (vectors < plan::tensor_shape::threads) t.guard = "f < " + p.number(vectors);
  all_of("at_m", s.m, s.rows);
  all_of("at_n", per_row, columns);
  t.place = [&p, &s, x, per_row] {
    p.out().line("const int f = u*" + p.number(plan::tensor_shape::threads) + " + threadIdx.x;");
    p.out().line("const " + p.flat() + " at_m = low_m + f/" + p.number(per_row) + ", at_n = low_n/" +
                 p.number(s.stored.width) + " + f%" + p.number(per_row) + ";");
    p.unravel("at_m", x.m);
    p.unravel("at_n", x.n, s.stored.width);
  };
  return t;
}

/// A thread's position: its lane in the multiplications, and its warp's part of the tile.
inline void print_warp_places(cuda_printer& p, const plan::tensor_shape& s) {
  p.out().line("const int lane = threadIdx.x%32/4, quad = threadIdx.x%4, warp = threadIdx.x/32;");
  p.out().line("const int part_m = warp%" + p.number(s.down) + ", part_n = warp/" + p.number(s.down) + "%" +
               p.number(s.across) + ", part_k = warp/" + p.number(s.down * s.across) + ";");
}

/// The ring of stages, and the sums, initialised with 0.
inline void declare_sums(cuda_printer& p, const plan::tensor_shape& s) {
  const int high = s.a.each() / 2, wide = s.b.each();
  p.out().line("extern __shared__ words<16>::t ring[];");
  p.out().line("s_f32 sums[" + p.number(high) + "][" + p.number(wide) + "][4];");
  p.out().line("#pragma unroll");
  p.out().line("for (int i = 0; i < " + p.number(high * wide * 4) + "; ++i) (&sums[0][0][0])[i] = 0;");
}

/// `copy_stage`, which requests a step's stage, and the requests of the first stages.
inline void print_first_copies(cuda_printer& p, const plan::tensor_shape& s, const plan::product_axes& x) {
  writer& out = p.out();
  const auto& pr = p.code().products[0];
  const std::string idx = p.idx(), depth = p.number(s.k);
  const tile_copies left{p, s, pr.a.at, s.a, "a", x.m, x.k, "low_m", s.rows},
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
  out.block("for (int step = 0; step < " + p.number(s.stages - 1) + "; ++step)", [&] {
    out.line("if (step < steps) copy_stage(step, step);");
    out.line("end_copies();");
  });
}

/// The operands of the epilogue, if registers can hold them while the product is computed.
inline series<int> loads_meanwhile(cuda_printer& p, const plan::work& w, const cuda_tile& t) {
  constexpr int max_held = 64;
  series<int> ids;
  for (int id : p.remaining(w))
    if (p.at(id).kind == kind::load && !p.is_indirect(id)) ids.push_back(id);
  if (static_cast<int>(ids.size()) * t.vectors * t.width > max_held) ids.clear();
  return ids;
}

/// The loop over the stages: each waits for its own, and requests a later one.
inline void print_stages(cuda_printer& p, const plan::tensor_shape& s) {
  writer& out = p.out();
  const std::string last = p.number(s.stages - 1), stages = p.number(s.stages);
  out.line("int slot = 0, next = " + last + ";");
  out.line("#pragma unroll 1");
  out.block("for (" + p.idx() + " step = 0; step < steps; ++step)", [&] {
    out.line("await_copies<" + p.number(s.stages - 2) + ">();");
    out.line("__syncthreads();");
    out.line("if (step + " + last + " < steps) copy_stage(step + " + last + ", next);");
    out.line("end_copies();");
    out.line("const s_f32* const stage = (s_f32*)ring + slot*" + p.number(s.stage()) + ";");
    out.line("const s_f32* const left = stage + " + first_element(p, s, s.a, "part_m") + ";");
    out.line("const s_f32* const right = stage + " + p.number(s.a.elements) + " + " +
             first_element(p, s, s.b, "part_n") + ";");
    print_multiply(p, s);
    for (const char* i : {"slot", "next"})
      out.line(std::string(i) + " = " + i + " + 1 == " + stages + " ? 0 : " + i + " + 1;");
  });
}

/// A thread's elements of the product: sums over the warps that share k.
inline void read_product(cuda_printer& p, const plan::tensor_shape& s, const cuda_tile& t, int id) {
  writer& out = p.out();
  const std::string width = p.number(t.width), per_row = p.number(s.n / t.width);
  out.line("s_f32 k" + p.number(id) + "[" + p.number(t.vectors) + "][" + p.number(p.width_of(id, t)) + "];");
  p.over_vectors(t, [&](const cuda_tile&) {
    out.line("const s_f32* const from = tile + f/" + per_row + "*" + p.number(s.line()) + " + f%" + per_row + "*" +
             width + ";");
    out.line("auto sum = load<" + width + ">(from);");
    out.line("#pragma unroll");
    out.block("for (int part = 1; part < " + p.number(s.deep) + "; ++part)", [&] {
      out.line("const auto more = load<" + width + ">(from + part*" + p.number(s.part()) + ");");
      out.line("#pragma unroll");
      out.line("for (int l = 0; l < " + width + "; ++l) sum.e[l] += more.e[l];");
    });
    p.over_lanes(t, [&] {
      const std::string l = t.width == 1 ? "0" : "l";
      out.line("k" + p.number(id) + "[u][" + l + "] = sum.e[" + l + "];");
    });
  });
  p.hold(id);
}

}  // namespace detail

/// The body of a block of a matrix product on tensor cores.
SINTER_API void print_tensor_product(cuda_printer& p, const plan::tensor_shape& s) {
  writer& out = p.out();
  const auto x = plan::axes_of_product(p.code());
  p.uniform_values();
  p.uniform_stores();
  detail::place_block(p, x, s.rows, s.columns, s.m, s.n);
  detail::print_warp_places(p, s);
  detail::declare_operands(p, x);
  detail::declare_sums(p, s);
  detail::print_first_copies(p, s, x);
  const cuda_tile t = detail::tile_of_product(p, s, x);
  plan::work w;
  for (const auto& st : p.code().stores)
    if (!p.is_uniform_store(st)) w.stores.push_back(&st);
  const auto direct = detail::loads_meanwhile(p, w, t);
  p.read(direct, t);
  detail::print_stages(p, s);
  // The epilogue waits for the product.
  for (int id : direct) {
    out.line("#pragma unroll");
    out.line("for (int u = 0; u < " + p.number(t.vectors) + "; ++u) hold(x" + p.number(id) + "[u]);");
  }
  detail::print_gather(p, s);
  for (int id = 0; id < p.size(); ++id)
    if (p.at(id).kind == kind::product) detail::read_product(p, s, t, id);
  p.pass(
      t, w, {}, [](int) { return std::string(); }, [](const plan::store&, int, const std::string&) {});
}

}  // namespace sinter::engine::emit
