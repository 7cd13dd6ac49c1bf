// emit/cpu/kernel.hpp: kernel -> self-contained C++ source for the host compiler.
#pragma once

#include "../../base/entry.hpp"
#include "../../base/series.hpp"
#include "../../plan/loops/build.hpp"
#include "../../plan/schedule/recipes.hpp"
#include "../prelude/cpu.hpp"
#include "../prelude/exp.hpp"
#include "../prelude/gemm.hpp"
#include "../prelude/math.hpp"
#include "../prelude/sort.hpp"
#include "../prelude/walk.hpp"
#include "columns.hpp"
#include "nest.hpp"
#include "product.hpp"
#include "scan.hpp"
#include "sort.hpp"
#include "spelling.hpp"

namespace sinter::engine::emit {

struct source {
  std::string text;
  scratch_use scratch;  ///< memory that a call needs
};

namespace detail {

/// The parts of the prelude, in order, each with the functions that require it; none: always included.
inline const series<piece>& pieces() {
  static const auto& all = *new series<piece>{
      {prelude_core, {}},
      {prelude_memory, {}},
      {prelude_guards, {"cuts", "load_where", "load_where_apart", "load_at_where", "within"}},
      {prelude_threads, {"part_of", "gemm", "micro", "pack", "shares"}},
      {prelude_fold,
       {"fold_add", "fold_mul", "fold_maximum", "fold_minimum", "fold_bit_or", "fold_bit_and", "gemm", "micro", "pack",
        "take_extreme", "square_as", "total_squares"}},
      {prelude_transpose, {"transpose", "gemm", "micro", "pack"}},
      {prelude_arithmetic, {"divide", "remainder", "power", "shift_left", "shift_right", "sigmoid", "rsqrt"}},
      {prelude_round,
       {"sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "gauss", "power", "gamma_root", "poisson_count"}},
      {prelude_math, {"exp",  "exp2", "expm1", "log",  "log2", "log1p", "cbrt",    "sin", "cos",  "tan",   "asin",
                      "acos", "atan", "atan2", "sinh", "cosh", "tanh",  "sigmoid", "erf", "erfc", "power", "weight"}},
      {prelude_special, {"asinh", "acosh", "atanh", "hypot", "lgamma", "erfinv", "digamma", "polygamma"}},
      {prelude_power, {"power"}},
      {prelude_exp, {"exp", "sigmoid", "tanh", "erf", "weight"}},
      {prelude_random, {"philox", "gauss", "gamma_root", "poisson_count"}},
      {prelude_draws, {"gamma_root", "poisson_count"}},
      {prelude_merge, {"weight", "merge_first", "merge_moments"}},
      {prelude_gemm, {"gemm", "micro", "pack"}},
      {prelude_sort, {"sort_key"}},
      {prelude_searches, {"search_some"}},
  };
  return all;
}

/// Whether g++ splits an operation on vectors longer than the machine's. It does not split comparisons.
inline bool is_split(const instruction& i) {
  if (i.kind != kind::compute) return false;
  const auto rule = ir::row(i.code).rule;
  return rule == ir::dtype_rule::floating || rule == ir::dtype_rule::conversion || i.code == ir::op::add ||
         i.code == ir::op::mul;
}

/// The widest compute type in the kernel that must be fast. Indices do not count, nor values that a row has once, nor plain
/// arithmetic on sums of f32 squares.
inline std::size_t widest(const kernel& k) {
  std::size_t bytes = 4;
  const bool all = k.is_product() || k.stands_alone() || k.axes.empty();
  const bool squares =
      std::any_of(k.body.begin(), k.body.end(), [&](const instruction& i) { return adds_f32_squares(k, i); });
  const auto follows_sums = [&](const instruction& i) {
    return k.columns ? !(i.axes & k.mask(role::inner)) : i.after_rows;
  };
  const auto counts = [&](const instruction& i) {
    if (squares && !all && is_split(i) && follows_sums(i)) return false;
    return i.type == dtype::f64 && (all || (!i.squares && (i.axes >> k.vector_axis() & 1u)));
  };
  for (const auto& i : k.body)
    if (counts(i) || (i.kind == kind::compute && ir::row(i.code).rule == ir::dtype_rule::random)) bytes = 8;
  for (const auto& b : k.buffers)
    if (all && b.type == dtype::f64) bytes = 8;
  return bytes;
}

}  // namespace detail

/// Declares a kernel's pointers and sizes.
inline void print_operands(const kernel& k, writer& out) {
  for (std::size_t b = 0; b < k.buffers.size(); ++b) {
    const std::string type = (k.buffers[b].written ? "" : "const ") + memory_type(k.buffers[b].type) + "*";
    out.line(type + " const p" + std::to_string(b) + " = (" + type + ")buffers[" + std::to_string(b) + "];");
  }
  for (int s = 0; s < k.symbols; ++s)
    out.line("const long s" + std::to_string(s) + " = sizes[" + std::to_string(s) + "];");
}

/// "extern "C" void name(void* const* buffers, char* scratch, const long* sizes)"
inline std::string entry_head(const std::string& name) {
  return "extern \"C\" void " + name + "(void* const* buffers, char* scratch, const long* sizes)";
}

/// The text of functions behind the parts of the prelude that they call. `widest` is the size of the vectors' elements.
SINTER_API std::string with_prelude(const std::string& label, std::size_t widest, const std::string& body) {
  const std::string bytes = std::to_string(widest);
  std::string text = "// " + comment(label) + "\n#if defined(__AVX512F__)\n#define SINTER_W (64 / " + bytes +
                     ")\n#elif defined(__AVX2__)\n#define SINTER_W " + (widest == 8 ? "4" : "8") +
                     "\n#else\n#define SINTER_W 4\n#endif\n";
  for (const auto& p : detail::pieces()) {
    bool needed = p.functions.empty();
    for (auto f : p.functions) needed = needed || calls(body, f);
    if (needed) text += p.text;
  }
  return text + body;
}

/// A function `name` that computes a kernel by its tree, whose `code` it is; returns the scratch memory.
SINTER_API scratch_use print_tree(const loops::tree& t, const std::string& name, writer& out) {
  scratch_use memory;
  out.block(entry_head(name), [&] {
    print_operands(*t.code, out);
    memory = cpu_spelling(t, out).print();
  });
  return memory;
}

namespace detail {

/// Whether a product is printed from the tree of its recipe: one of f32 with extents that are known, and rows and columns for panels. Few
/// rows, tables and columns that become rows have words of their own.
inline bool takes_tree(const kernel& c, const plan::contraction& p, const plan::schedules::facts& f) {
  const auto& at = c.body;
  const auto type = [&](int v) { return at[static_cast<std::size_t>(v)].type; };
  if (p.batch.size() + p.m.size() + p.n.size() + p.k.size() != c.axes.size() || p.m.size() != 1 || p.n.size() != 1 ||
      p.k.size() != 1 || type(p.reduce) != dtype::f32)
    return false;
  if (at[static_cast<std::size_t>(p.x)].kind != kind::load || at[static_cast<std::size_t>(p.y)].kind != kind::load)
    return false;
  const auto m = plan::extent_of(c, p.m[0]).number(), n = plan::extent_of(c, p.n[0]).number(),
             k = plan::extent_of(c, p.k[0]).number();
  constexpr std::int64_t least = 32, min_work = 1 << 18;
  if (!m || !n || !k || *m < least || *n < least || *k < least || *m * *n * *k < min_work) return false;
  return plan::schedules::cpu_row_of(c, p, f).row >= 0;
}

/// Whether a product's tree loses nothing to gemm(), which reads factors of fewer elements where they lie.
inline bool pays_by_recipe(const kernel& c) {
  if (!c.is_product()) return false;
  const auto e = plan::extents_of(c);
  constexpr std::int64_t min_rows = 33, min_columns = 129, min_packed = 1 << 16;
  return e.m.number().value_or(0) >= min_rows && e.n.number().value_or(0) >= min_columns &&
         (e.n * e.k).number().value_or(0) > min_packed;
}

/// Whether a recipe's tree can print a product.
SINTER_API bool has_tree(const kernel& c, const plan::schedules::facts& f) {
  if (!f.has || !c.is_product() || !c.products[0].within.empty() || c.products[0].type != dtype::f32) return false;
  if (product_printer::keeps(c)) return false;
  const kernel k = plan::as_reduction(c);
  const auto p = plan::schedules::only_contraction(k);
  return p && takes_tree(k, *p, f);
}

/// The source of the tree that a recipe makes of a kernel. An option that is refused gives way to the first. `bytes` is the size of the
/// vectors' elements.
SINTER_API source from_tree(const kernel& k, const plan::schedules::recipe& r, const plan::schedules::facts& f,
                            std::size_t bytes) {
  const auto print = [&](int option) {
    const auto t = loops::build(k, r.make(k, f, option));
    writer out;
    source result;
    result.scratch = print_tree(t, kernel_entry, out);
    result.text = emit::with_prelude(k.label, bytes, emit::called_functions(k) + out.text());
    return result;
  };
  if (k.option <= 0) return print(0);
  try {
    return print(k.option);
  } catch (const plan::refusal&) {
    return print(0);
  }
}

/// The source of a product by its recipe; none for other kernels.
SINTER_API std::optional<source> by_recipe(const kernel& c, const plan::schedules::facts& f) {
  if (!has_tree(c, f)) return std::nullopt;
  return from_tree(plan::as_reduction(c), plan::schedules::cpu_product, f, widest(c));
}

/// The source of a kernel that its recipe alone prints.
SINTER_API source by_own_recipe(const kernel& k, const plan::schedules::facts& f) {
  const plan::schedules::recipe* const r = plan::schedules::recipe_for(k, f);
  ensure(r != nullptr, "a kernel that a recipe prints has a recipe");
  return from_tree(k, *r, f, widest(k));
}

}  // namespace detail

/// The source of one kernel; deterministic, and equal except for #line if kernels differ only in locations. Products are printed by
/// recipes for a processor with the facts `f`; the default has no intrinsics.
SINTER_API source cpu(const kernel& k, const plan::schedules::facts& f = {}) {
  if (k.by_recipe) return detail::by_own_recipe(k, f);
  if (k.option >= 0 || (k.option == kernel::by_rule && detail::pays_by_recipe(k)))
    if (auto by = detail::by_recipe(k, f)) return std::move(*by);
  writer out;
  source result;
  out.block(entry_head(kernel_entry), [&] {
    if (k.replaces) out.line("if (buffers[0] == buffers[1]) return;");
    print_operands(k, out);
    if (k.is_scan()) return scan_printer(k, out).print();
    if (k.is_sort()) return void(result.scratch = sort_printer(k, out).print());
    if (k.is_search()) return print_search(k, out);
    if (k.columns) return void(result.scratch = column_printer(k, out).print());
    result.scratch = k.is_product() ? product_printer(k, out).print() : nest_printer(k, out).print();
  });
  if (!k.is_product())
    result.scratch.parallel = k.is_sort() || out.text().find("#pragma omp parallel") != std::string::npos;
  result.text = with_prelude(k.label, detail::widest(k), called_functions(k) + out.text());
  return result;
}

}  // namespace sinter::engine::emit
