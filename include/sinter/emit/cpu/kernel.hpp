// emit/cpu/kernel.hpp: kernel -> self-contained C++ source for the host compiler.
#pragma once

#include "../../base/entry.hpp"
#include "../../base/series.hpp"
#include "../prelude/cpu.hpp"
#include "../prelude/exp.hpp"
#include "../prelude/gemm.hpp"
#include "../prelude/math.hpp"
#include "../prelude/sort.hpp"
#include "columns.hpp"
#include "nest.hpp"
#include "product.hpp"
#include "scan.hpp"
#include "sort.hpp"

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
      {prelude_threads, {"part_of", "gemm", "shares"}},
      {prelude_fold,
       {"fold_add", "fold_mul", "fold_maximum", "fold_minimum", "fold_bit_or", "fold_bit_and", "gemm", "take_extreme",
        "square_as", "total_squares"}},
      {prelude_transpose, {"transpose", "gemm"}},
      {prelude_arithmetic, {"divide", "remainder", "power", "shift_left", "shift_right", "sigmoid", "rsqrt"}},
      {prelude_round,
       {"sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "gauss", "power", "gamma_root", "poisson_count"}},
      {prelude_math, {"exp",  "exp2", "expm1", "log",  "log2", "log1p", "cbrt",    "sin", "cos",  "tan",  "asin",
                      "acos", "atan", "atan2", "sinh", "cosh", "tanh",  "sigmoid", "erf", "erfc", "power"}},
      {prelude_special, {"asinh", "acosh", "atanh", "hypot", "lgamma", "erfinv", "digamma", "polygamma"}},
      {prelude_power, {"power"}},
      {prelude_exp, {"exp", "sigmoid", "tanh", "erf"}},
      {prelude_random, {"philox", "gauss", "gamma_root", "poisson_count"}},
      {prelude_draws, {"gamma_root", "poisson_count"}},
      {prelude_gemm, {"gemm"}},
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

/// The source of one kernel; deterministic, and equal except for #line if kernels differ only in locations.
SINTER_API source cpu(const kernel& k) {
  writer out;
  source result;
  out.block(
      std::string("extern \"C\" void ") + kernel_entry + "(void* const* buffers, char* scratch, const long* sizes)",
      [&] {
        if (k.replaces) out.line("if (buffers[0] == buffers[1]) return;");
        for (std::size_t b = 0; b < k.buffers.size(); ++b) {
          const std::string type = (k.buffers[b].written ? "" : "const ") + memory_type(k.buffers[b].type) + "*";
          out.line(type + " const p" + std::to_string(b) + " = (" + type + ")buffers[" + std::to_string(b) + "];");
        }
        for (int s = 0; s < k.symbols; ++s)
          out.line("const long s" + std::to_string(s) + " = sizes[" + std::to_string(s) + "];");
        if (k.is_scan()) return scan_printer(k, out).print();
        if (k.is_sort()) return void(result.scratch = sort_printer(k, out).print());
        if (k.is_search()) return print_search(k, out);
        if (k.columns) return void(result.scratch = column_printer(k, out).print());
        result.scratch = k.is_product() ? product_printer(k, out).print() : nest_printer(k, out).print();
      });
  if (!k.is_product())
    result.scratch.parallel = k.is_sort() || out.text().find("#pragma omp parallel") != std::string::npos;
  const std::string widest = std::to_string(detail::widest(k));
  std::string text = "// " + comment(k.label) + "\n#if defined(__AVX512F__)\n#define SINTER_W (64 / " + widest +
                     ")\n#elif defined(__AVX2__)\n#define SINTER_W " + (widest == "8" ? "4" : "8") +
                     "\n#else\n#define SINTER_W 4\n#endif\n";
  const std::string body = called_functions(k) + out.text();
  for (const auto& p : detail::pieces()) {
    bool needed = p.functions.empty();
    for (auto f : p.functions) needed = needed || calls(body, f);
    if (needed) text += p.text;
  }
  result.text = text + body;
  return result;
}

}  // namespace sinter::engine::emit
