// emit/cuda/launch.hpp: an entry of CUDA source: its parameters, its prelude, its grid.
#pragma once

#include <span>

#include "../../base/entry.hpp"
#include "../../base/series.hpp"
#include "../../plan/schedule/blocks.hpp"
#include "../prelude/cuda.hpp"
#include "../prelude/cuda_block.hpp"
#include "../prelude/hopper.hpp"
#include "../prelude/mma.hpp"
#include "../prelude/sort.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

namespace detail {

inline const series<piece>& cuda_pieces() {
  static const auto& all = *new series<piece>{
      {prelude_cuda_core, {}},
      {prelude_cuda_table, {"table"}},
      {prelude_cuda_arithmetic, {"divide", "remainder", "power", "shift_left", "shift_right"}},
      {prelude_cuda_math, {"exp", "exp2", "expm1", "log",  "log2",  "log1p", "sqrt",  "cbrt",   "sin",
                           "cos", "tan",  "asin",  "acos", "atan",  "atan2", "sinh",  "cosh",   "tanh",
                           "erf", "erfc", "floor", "ceil", "round", "trunc", "rsqrt", "sigmoid"}},
      {prelude_cuda_special, {"asinh", "acosh", "atanh", "hypot", "lgamma", "erfinv", "digamma", "polygamma"}},
      {prelude_cuda_random, {"philox", "gauss", "gamma_root", "poisson_count"}},
      {prelude_cuda_draws, {"gamma_root", "poisson_count"}},
      {prelude_cuda_reduce, {"group_all", "warps_all", "better", "extreme"}},
      {prelude_cuda_atomic, {"atomic_add"}},
      {prelude_cuda_update, {"atomic_update"}},
      {prelude_cuda_copy, {"copy_async", "copy_or_zero", "copy_part", "end_copies", "await_copies"}},
      {prelude_cuda_tensor, {"multiply_tf32", "tf32"}},
      {prelude_cuda_mma, {"mma_bf16", "mma_f16", "mma_tf32", "mma_s8"}},
      {prelude_cuda_matrices,
       {"load_matrices", "swizzled", "swizzled_place", "blocked_place", "element", "put_element", "part_of"}},
      {prelude_cuda_blocks, {"blocked_place"}},
      {prelude_cuda_hopper, {"begin_products"}},
      {prelude_cuda_copy_part, {"copy_part"}},
      {prelude_cuda_bounds, {"least", "most", "floor_quotient", "opaque"}},
      {prelude_cuda_powers, {"exp2_near", "fused", "max_or_nan", "packed"}},
      {prelude_cuda_scan, {"shuffle_up"}},
      {prelude_cuda_product, {"multiply_add"}},
      {prelude_cuda_sort, {"sort_key", "sort_tile", "sort_by_digit"}},
      {prelude_cuda_search, {"searched"}},
  };
  return all;
}

/// The declaration of a buffer.
inline std::string pointer_to(const plan::buffer_use& b) {
  const std::string type = memory_type(b.type);
  return b.by_value ? "const " + type : b.written ? type + "*" : "const " + type + "*";
}

/// The number of table entries of each kernel in a source of one shape.
inline int numbers_of_member(const cuda_source& s) {
  return s.members > 1 ? static_cast<int>(s.table.numbers.size() / s.members) : 0;
}

/// The sizes that are parameters of every entry.
inline int sizes_of(std::span<const kernel* const> kernels, const cuda_source& s) {
  int symbols = 0;
  for (const auto* k : kernels) symbols = std::max(symbols, k->symbols);
  return symbols - numbers_of_member(s);
}

/// The bytes of a source's parameters, including its table and `sizes`.
inline std::int64_t bytes_with_table(const cuda_source& s, int sizes) {
  const auto numbers = static_cast<std::int64_t>(s.table.numbers.size()) * s.table.number_bytes;
  const std::size_t words = s.parameters.size() + s.table.buffers.size() + 1 + static_cast<std::size_t>(sizes);
  return static_cast<std::int64_t>(8 * words) + (numbers + 7) / 8 * 8;
}

/// The parameters of every entry of a source whose table is known.
inline std::string cuda_parameters(std::span<const kernel* const> kernels, const cuda_source& s) {
  std::string text;
  int n = 0;
  const bool all = s.table.numbers.empty();
  for (const auto* k : kernels)
    for (const auto& b : k->buffers) {
      if (all || std::find(s.parameters.begin(), s.parameters.end(), n) != s.parameters.end())
        text += pointer_to(b) + " p" + std::to_string(n) + ", ";
      ++n;
    }
  if (!all)
    text += std::string("const ") + (s.table.in_memory ? "" : "__grid_constant__ ") + "table<" +
            std::to_string(s.table.buffers.size()) + ", " + std::to_string(s.table.numbers.size()) + ", " +
            (s.table.number_bytes == 8 ? "long" : "int") +
            (s.table.in_memory ? ">* const all_members, " : "> members, ");
  text += "char* scratch";
  for (int k = 0; k < sizes_of(kernels, s); ++k) text += ", long size" + std::to_string(k);
  return text;
}

/// The sizes in the type of the kernels' indices.
inline void declare_sizes(writer& out, std::span<const kernel* const> kernels, int sizes) {
  bool wide = false;
  for (const auto* k : kernels) wide = wide || needs_wide_index(*k);
  for (int s = 0; s < sizes; ++s)
    out.line(std::string("const ") + (wide ? "long" : "int") + " s" + std::to_string(s) + " = size" +
             std::to_string(s) + ";");
}

/// Declares the numbers and the buffers of kernel `member` among the `count` kernels of a table. The table has the numbers
/// from `from` on, and the buffers that are `apart` from `at` on. `first` is the number of the code's first buffer.
inline void declare_member(writer& out, const kernel& code, std::size_t count, std::size_t from, int numbers,
                           std::size_t at, const series<int>& apart, int first) {
  const auto number = [](std::size_t n) { return std::to_string(n); };
  for (int n = 0; n < numbers; ++n)
    out.line(std::string("const ") + (needs_wide_index(code) ? "long" : "int") + " s" +
             std::to_string(code.symbols - numbers + n) + " = members.n[" +
             number(from + static_cast<std::size_t>(n) * count) + " + member];");
  for (std::size_t a = 0; a < apart.size(); ++a) {
    const auto& buffer = code.buffers[static_cast<std::size_t>(apart[a])];
    const std::string type = pointer_to(buffer), name = " p" + std::to_string(first + apart[a]);
    const std::string entry = "members.p[" + number(at + a * count) + " + member]";
    if (buffer.by_value) out.line(type + name + " = *(" + type + "*)&" + entry + ";");
    else out.line(type + " const" + name + " = (" + type + ")" + entry + ";");
  }
}

/// Prints the choice of a block's kernel among kernels of one shape, and `inside` with the block's number in that kernel.
template <class F>
void print_member_of(const cuda_source& s, writer& out, const kernel& code, const dim& blocks, F&& inside) {
  const std::string each = blocks.is_number() ? blocks.text() : "(" + blocks.text() + ")";
  series<int> apart;
  for (std::size_t a = 0; a < s.table.buffers.size(); a += s.members) apart.push_back(s.table.buffers[a]);
  if (s.table.in_memory) out.line("const auto& members = *all_members;");
  out.line("const int member = (int)(block/" + each + ");");
  out.line("const auto shared_block = block;");
  if (!s.scratch.is(0)) out.line("char* const all_scratch = scratch;");
  out.block("", [&] {
    out.line("const auto block = shared_block - member*" + each + ";");
    if (!s.scratch.is(0)) out.line("char* const scratch = all_scratch + (long)member*(" + s.scratch.text() + ");");
    declare_member(out, code, s.members, 0, numbers_of_member(s), 0, apart, 0);
    inside();
  });
}

/// The functions called by kernels of many costly operations.
inline std::string called_functions(std::span<const kernel* const> kernels) {
  sorted_set<std::string> all;
  for (const auto* k : kernels)
    for (const auto& i : k->body)
      if (is_costly(i) && calls_functions(*k))
        all.insert("static __device__ __noinline__ " + called_function(*k, i, scalar_type, [&](const auto& args) {
                     return cuda_expression(
                         i.code, i.type, args,
                         i.args.empty() ? i.type : k->body[static_cast<std::size_t>(i.args[0])].type);
                   }));
  return joined_text(all);
}

/// A text for `kernels`, with its prelude.
inline std::string with_prelude(std::span<const kernel* const> kernels, const std::string& of_kernels) {
  const std::string body = called_functions(kernels) + of_kernels;
  series<std::string> labels;
  for (const auto* k : kernels) labels.push_back(k->label);
  std::string text = "// " + comment(plan::joined(labels, " . ")) + "\n";
  for (const auto& p : cuda_pieces()) {
    bool needed = p.functions.empty();
    for (auto f : p.functions) needed = needed || calls(body, f);
    if (needed) text += p.text;
  }
  return text + "namespace sx {\n" + body + "}  // namespace sx\n";
}

/// A text with an entry; `inside` prints a block's work on `out`, with its number in `block`.
template <class F>
void cuda_launch_of(cuda_source& s, writer& out, std::span<const kernel* const> kernels, const std::string& name,
                    const plan::grid& grid, F&& inside) {
  const std::string bounds =
      std::to_string(grid.threads) + (grid.resident > 0 ? ", " + std::to_string(grid.resident) : "");
  const dim each = grid.blocks, blocks = each * dim(static_cast<std::int64_t>(s.members));
  const auto n = blocks.number();
  const auto body = [&] {
    if (s.members > 1) print_member_of(s, out, *kernels[0], each, inside);
    else inside();
  };
  out.block("extern \"C\" __global__ void __launch_bounds__(" + bounds + ") " + name + "(" +
                cuda_parameters(kernels, s) + ")",
            [&] {
              out.line("await_grids();");
              declare_sizes(out, kernels, sizes_of(kernels, s));
              if (n && *n > max_blocks) {
                out.block("for (long block = blockIdx.x; block < " + blocks.text() + "; block += gridDim.x)", [&] {
                  body();
                  out.line("__syncthreads();");
                });
                return;
              }
              out.line(std::string("const ") + (n ? "int" : "long") + " block = blockIdx.x;");
              body();
            });
  s.texts.push_back(with_prelude(kernels, out.take()));
  s.launches.push_back(
      {name, n && *n > max_blocks ? dim(max_blocks) : blocks, grid.threads, grid.shared, {}, s.texts.size() - 1});
}

/// For a source of two entries: records the buffers that the last entry, printed by `p`, reads and writes.
inline void tell_touched(cuda_source& s, const cuda_printer& p) {
  auto& touches = s.launches.back().touches;
  const auto first = static_cast<std::size_t>(p.first_buffer());
  touches.resize(std::max(touches.size(), first + p.code().buffers.size()));
  for (int b : p.touched()) touches[first + static_cast<std::size_t>(b)] = true;
}

}  // namespace detail

}  // namespace sinter::engine::emit
