// emit/cuda.hpp: kernel -> self-contained CUDA source for NVRTC, and how to launch it.
#pragma once

#include <span>

#include "../base/series.hpp"
#include "cpu.hpp"
#include "cuda_follow.hpp"
#include "cuda_pointwise.hpp"
#include "cuda_product.hpp"
#include "cuda_scan.hpp"
#include "cuda_walk.hpp"
#include "prelude_cuda.hpp"
#include "prelude_cuda_block.hpp"

namespace sinter::engine::emit {

/// The entry of a kernel's first text; that of a second one, which finishes it, is called sinter_finish.
inline constexpr const char* cuda_entry = "sinter_kernel";
inline constexpr const char* cuda_finish = "sinter_finish";

namespace detail {

inline const series<piece>& cuda_pieces() {
  static const auto& all = *new series<piece>{
      {prelude_cuda_core, {}},
      {prelude_cuda_arithmetic, {"divide", "remainder", "power", "shift_left", "shift_right"}},
      {prelude_cuda_math, {"exp", "exp2", "expm1", "log",  "log2",  "log1p", "sqrt",  "cbrt",   "sin",
                           "cos", "tan",  "asin",  "acos", "atan",  "atan2", "sinh",  "cosh",   "tanh",
                           "erf", "erfc", "floor", "ceil", "round", "trunc", "rsqrt", "sigmoid"}},
      {prelude_cuda_random, {"philox", "gauss"}},
      {prelude_cuda_reduce, {"group_all", "warps_all", "better", "extreme"}},
      {prelude_cuda_atomic, {"atomic_add"}},
      {prelude_cuda_copy, {"copy_async", "copy_or_zero"}},
      {prelude_cuda_tensor, {"multiply_tf32"}},
      {prelude_cuda_scan, {"shuffle_up"}},
      {prelude_cuda_product, {"multiply_add"}},
  };
  return all;
}

/// The parameters of every entry of a source.
inline std::string cuda_parameters(std::span<const kernel* const> kernels) {
  std::string text;
  int n = 0, symbols = 0;
  for (const auto* k : kernels) {
    for (const auto& b : k->buffers) {
      const std::string type = memory_type(b.type);
      text += b.by_value ? "const " + type + " " : b.written ? type + "* " : "const " + type + "* ";
      text += "p" + std::to_string(n++) + ", ";
    }
    symbols = std::max(symbols, k->symbols);
  }
  text += "char* scratch";
  for (int s = 0; s < symbols; ++s) text += ", long size" + std::to_string(s);
  return text;
}

/// The sizes in the type of the kernels' indices.
inline void declare_sizes(writer& out, std::span<const kernel* const> kernels) {
  int symbols = 0;
  bool wide = false;
  for (const auto* k : kernels) {
    symbols = std::max(symbols, k->symbols);
    wide = wide || needs_wide_index(*k);
  }
  for (int s = 0; s < symbols; ++s)
    out.line(std::string("const ") + (wide ? "long" : "int") + " s" + std::to_string(s) + " = size" +
             std::to_string(s) + ";");
}

/// A text of what `kernels` do.
inline std::string with_prelude(std::span<const kernel* const> kernels, const std::string& body) {
  const auto label = text::join(kernels, " . ", [](const auto* k) { return k->label; });
  std::string text = "// " + comment(label) + "\n";
  for (const auto& p : cuda_pieces()) {
    bool needed = p.functions.empty();
    for (auto f : p.functions) needed = needed || calls(body, f);
    if (needed) text += p.text;
  }
  return text + "namespace sx {\n" + body + "}  // namespace sx\n";
}

/// A text with an entry; `inside` prints a block's work on `out`, which finds its number in `block`.
template <class F>
void cuda_launch_of(cuda_source& s, writer& out, std::span<const kernel* const> kernels, const std::string& name,
                    dim blocks, int threads, int resident, F&& inside, int shared = 0) {
  const std::string bounds = std::to_string(threads) + (resident > 0 ? ", " + std::to_string(resident) : "");
  const auto n = blocks.number();
  out.block(
      "extern \"C\" __global__ void __launch_bounds__(" + bounds + ") " + name + "(" + cuda_parameters(kernels) + ")",
      [&] {
        declare_sizes(out, kernels);
        if (n && *n > most_blocks) {
          out.block("for (long block = blockIdx.x; block < " + blocks.text() + "; block += gridDim.x)", [&] {
            inside();
            out.line("__syncthreads();");
          });
          return;
        }
        out.line(std::string("const ") + (n ? "int" : "long") + " block = blockIdx.x;");
        inside();
      });
  s.texts.push_back(with_prelude(kernels, out.take()));
  s.launches.push_back({name, n && *n > most_blocks ? dim(most_blocks) : blocks, threads, shared, {}});
}

/// Of a source of two entries: tells what the last one printed, by `p`, reads and writes.
inline void tell_touched(cuda_source& s, const cuda_printer& p) {
  auto& touches = s.launches.back().touches;
  const auto first = static_cast<std::size_t>(p.first_buffer());
  touches.resize(std::max(touches.size(), first + p.code().buffers.size()));
  for (int b : p.touched()) touches[first + static_cast<std::size_t>(b)] = true;
}

inline bool has_reductions(const kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(), [](const auto& i) { return cuda_printer::is_reduction(i); });
}

/// At least one block where something is stored whatever the extents are.
inline dim blocks_for(const cuda_printer& p, dim blocks) {
  return blocks.is(0) && p.has_uniform_stores() ? dim(1) : blocks;
}

inline void print_cuda_pointwise(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  if (scatters(k) && t.deterministic && k.stores.size() == 1) {
    dim parallel = 1;
    for (std::size_t a = 0; a < k.axes.size(); ++a)
      if (!k.stores[0].at.at.stride[a].is(0)) parallel *= k.axes[a].extent;
    constexpr int threads = 128;
    return cuda_launch_of(s, out, only, cuda_entry, ceil_div(parallel, threads), threads, 0,
                          [&] { print_ordered_scatter(p, parallel, threads); });
  }
  if (const auto tiles = tile_of(k))
    return cuda_launch_of(s, out, only, cuda_entry, tiles->blocks, tiles->threads, 0, [&] { print_tiles(p, *tiles); });
  const auto shape = shape_of(k, t);
  cuda_launch_of(s, out, only, cuda_entry, blocks_for(p, shape.blocks), shape.threads, 0,
                 [&] { print_pointwise(p, shape); });
}

inline void print_cuda_scan(cuda_source& s, writer& out, const kernel& k) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  const auto shape = shape_of_scan(k);
  cuda_launch_of(s, out, only, cuda_entry, shape.blocks, shape.threads, 0, [&] { print_scan(p, shape); });
}

inline void print_cuda_product(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  if (on_tensor_cores(k, t)) {
    const auto shape = tensor_shape_of(k, t);
    return cuda_launch_of(
        s, out, only, cuda_entry, shape.blocks, tensor_shape::threads, 1, [&] { print_tensor_product(p, shape); },
        shape.shared());
  }
  const auto shape = shape_of_product(k, t);
  cuda_launch_of(s, out, only, cuda_entry, shape.blocks, 256, 0, [&] { print_product(p, shape); });
}

inline void print_cuda_rows(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  row_shape shape = rows_of(p, t);
  cuda_partials parts(p);
  const dim rows = k.extent(role::outer);
  row_shape split = shape;
  split.held = false;
  split.rows = 1;
  split.group = 512;
  split.keep.clear();
  split.vectors = split.width == 1 ? 8 : split.width == 8 || is_heavy(k) ? 2 : 4;
  split.chunks = chunks_of(p, split, t);
  if (split.chunks == 1) {
    const dim blocks = blocks_for(p, ceil_div(rows, shape.rows));
    return cuda_launch_of(s, out, only, cuda_entry, blocks, shape.threads(), 0, [&] { print_rows(p, shape, parts); });
  }
  for (int id = 0; id < p.size(); ++id)
    if (p.is_reduction(p.at(id))) parts.reserve(id, rows * dim(split.chunks));
  s.scratch = parts.bytes();
  cuda_launch_of(s, out, only, cuda_entry, rows * dim(split.chunks), split.threads(), is_heavy(k) ? 1 : 2,
                 [&] { print_rows(p, split, parts); });
  tell_touched(s, p);
  cuda_printer finish(k, out);
  const int group = static_cast<int>(std::clamp<std::int64_t>(power_of_two(split.chunks), 32, 256));
  cuda_launch_of(s, out, only, cuda_finish, rows, group, 0, [&] { print_rows_finish(finish, split, parts, group); });
  tell_touched(s, finish);
}

/// The entry that adds up what `count` blocks have left.
inline void print_cuda_finish(cuda_source& s, writer& out, std::span<const kernel* const> kernels, cuda_printer last,
                              const cuda_partials& parts, const dim& count) {
  s.scratch = parts.bytes();
  const auto finish = finish_of(last, count);
  cuda_launch_of(s, out, kernels, cuda_finish, last.code().extent(role::outer) * finish.tiles(), finish.threads(), 0,
                 [&] { print_finish(last, parts, finish); });
  tell_touched(s, last);
}

inline void print_cuda_columns(cuda_source& s, writer& out, const kernel& k, const cuda_target& t) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  cuda_partials parts(p);
  const dim outer = k.extent(role::outer);
  dim count = 0;
  if (only_columns(p)) {
    const auto shape = columns_of(p, t);
    count = shape.chunks;
    if (shape.chunks > 1) reserve_parts(p, parts, count);
    cuda_launch_of(s, out, only, cuda_entry, outer * shape.tiles * dim(shape.chunks), shape.threads(),
                   std::max(1, (is_heavy(k) ? 512 : 1024) / shape.threads()), [&] { print_columns(p, shape, parts); });
    if (shape.chunks == 1) return;
  } else {
    const auto shape = walk_of(p, t);
    count = shape.walkers;
    reserve_parts(p, parts, count);
    const int threads = shape.row.threads();
    cuda_launch_of(
        s, out, only, cuda_entry, outer * shape.walkers, threads, std::max(1, shape.resident / threads),
        [&] { print_walk(p, shape, parts); }, shape.shared);
  }
  tell_touched(s, p);
  print_cuda_finish(s, out, only, cuda_printer(k, out), parts, count);
}

/// A product, then a kernel of its rows, which the block that has made them goes on with.
inline void print_cuda_followed(cuda_source& s, writer& out, std::span<const kernel* const> both,
                                const cuda_target& t) {
  const int first = static_cast<int>(both[0]->buffers.size());
  cuda_printer product(*both[0], out), then(*both[1], out, first);
  const auto shape = follow_of(*both[0], then, t);
  ensure(shape.has_value(), "a launch makes the rows that its second kernel takes");
  const bool sums = sums_rows(*both[1]);
  cuda_partials parts(then);
  if (sums) reserve_parts(then, parts, shape->rows.walkers);
  cuda_launch_of(
      s, out, both, cuda_entry, shape->product.blocks, tensor_shape::threads, 1,
      [&] {
        out.block("", [&] { print_tensor_product(product, shape->product); });
        out.line("__syncthreads();");
        if (sums) print_walk(then, shape->rows, parts);
        else print_rows(then, shape->rows.row, parts);
      },
      shape->product.shared());
  if (!sums) return;
  tell_touched(s, product);
  tell_touched(s, then);
  print_cuda_finish(s, out, both, cuda_printer(*both[1], out, first), parts, shape->rows.walkers);
}

}  // namespace detail

/// The source of one kernel; deterministic, and equal but for #line where kernels differ only in places.
SINTER_API cuda_source cuda(const kernel& k, const cuda_target& t) {
  cuda_source s;
  s.scratch = 0;
  writer out;
  if (k.is_product()) detail::print_cuda_product(s, out, k, t);
  else if (k.is_scan()) detail::print_cuda_scan(s, out, k);
  else if (!detail::has_reductions(k)) detail::print_cuda_pointwise(s, out, k, t);
  else if (k.mask(role::row)) detail::print_cuda_columns(s, out, k, t);
  else detail::print_cuda_rows(s, out, k, t);
  return s;
}

/// True when one launch can do the work of two kernels of which the second needs what the first, a product, has made.
SINTER_API bool can_follow(const kernel& product, const kernel& then, const cuda_target& t) {
  writer unused;
  cuda_printer p(then, unused);
  return product.is_product() && follow_of(product, p, t).has_value();
}

/// One launch that does the work of several pointwise kernels which do not depend on one another (plan::horizontal), or of a
/// product and a kernel that can follow it. The parameters are the first kernel's buffers, then the second's, and so on.
SINTER_API cuda_source cuda(std::span<const kernel* const> kernels, const cuda_target& t) {
  if (kernels.size() == 1) return cuda(*kernels[0], t);
  constexpr int threads = 256;
  cuda_source s;
  s.scratch = 0;
  writer out;
  if (kernels[0]->is_product()) {
    detail::print_cuda_followed(s, out, kernels, t);
    return s;
  }
  series<pointwise_shape> shapes;
  dim blocks = 0;
  for (const auto* k : kernels) {
    ensure(!k->is_product() && !detail::has_reductions(*k) && !detail::scatters(*k),
           "kernels that share a launch are pointwise");
    writer unused;
    shapes.push_back(detail::shape_of(*k, t, threads));
    shapes.back().blocks = detail::blocks_for(cuda_printer(*k, unused), shapes.back().blocks);
    blocks += shapes.back().blocks;
  }
  detail::cuda_launch_of(s, out, kernels, cuda_entry, blocks, threads, 0, [&] {
    dim begin = 0;
    int first = 0;
    out.line("const long shared_block = block;");
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const dim end = begin + shapes[i].blocks;
      out.block(std::string(i ? "else " : "") + "if (shared_block < " + end.text() + ")", [&] {
        cuda_printer p(*kernels[i], out, first);
        out.line("const " + p.idx() + " block = shared_block - (" + begin.text() + ");");
        print_pointwise(p, shapes[i]);
      });
      begin = end;
      first += static_cast<int>(kernels[i]->buffers.size());
    }
  });
  return s;
}

}  // namespace sinter::engine::emit
