// emit/cuda/kernel.hpp: kernel -> self-contained CUDA source for NVRTC, and its launches.
#pragma once

#include <span>
#include <utility>

#include "../../base/series.hpp"
#include "../../plan/loops/build.hpp"
#include "../../plan/loops/print.hpp"
#include "../../plan/schedule/recipes.hpp"
#include "columns.hpp"
#include "launch.hpp"
#include "pointwise.hpp"
#include "product.hpp"
#include "scan.hpp"
#include "shared.hpp"
#include "sort.hpp"
#include "spelling.hpp"
#include "tensor.hpp"
#include "walk.hpp"

namespace sinter::engine::emit {

namespace detail {

/// The body of a block, of each shape with a single entry.
inline void print_body(cuda_printer& p, const plan::pointwise_shape& s) {
  if (p.code().replaces)
    p.out().line("if ((const void*)" + p.pointer(0) + " == (const void*)" + p.pointer(1) + ") return;");
  print_pointwise(p, s);
}
inline void print_body(cuda_printer& p, const plan::tile_shape& s) { print_tiles(p, s); }
inline void print_body(cuda_printer& p, const plan::ordered_shape& s) { print_ordered_scatter(p, s); }
inline void print_body(cuda_printer& p, const plan::block_sums& s) { print_block_sums(p, s); }
inline void print_body(cuda_printer& p, const plan::scan_shape& s) { print_scan(p, s); }
inline void print_body(cuda_printer& p, const plan::search_shape& s) { print_search(p, s); }
inline void print_body(cuda_printer& p, const plan::product_shape& s) { print_product(p, s); }
inline void print_body(cuda_printer& p, const plan::tensor_shape& s) { print_tensor_product(p, s); }

template <class Shape>
void print_entry(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how, const Shape& shape) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  cuda_launch_of(s, out, only, kernel_entry, how.launches[0], [&] { print_body(p, shape); });
}

/// The last entry is launched once for each pass.
inline void print_entry(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how,
                        const plan::sort_shape& shape) {
  const kernel* const only[] = {&k};
  cuda_printer tiles(k, out);
  s.scratch = shape.scratch();
  cuda_launch_of(s, out, only, kernel_entry, how.launches[0], [&] { print_sort_tiles(tiles, shape); });
  tell_touched(s, tiles);
  if (shape.passes == 0) return;
  cuda_printer passes(k, out);
  cuda_launch_of(s, out, only, finish_entry, how.launches[1], [&] { print_sort_pass(passes, shape); });
  tell_touched(s, passes);
  const cuda_launch first = s.launches.back();
  for (std::size_t pass = 2; pass < how.launches.size(); ++pass) {
    s.launches.push_back(first);
    s.launches.back().blocks = how.launches[pass].blocks;
  }
}

inline void print_entry(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how,
                        const plan::row_shape& shape) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  cuda_partials parts(p);
  if (shape.chunks > 1)
    for (int id = 0; id < p.size(); ++id)
      if (is_reduction(p.at(id))) parts.reserve(id, k.extent(role::outer) * dim(shape.chunks));
  s.scratch = parts.bytes();
  cuda_launch_of(s, out, only, kernel_entry, how.launches[0], [&] { print_rows(p, shape, parts); });
  if (shape.chunks == 1) return;
  tell_touched(s, p);
  cuda_printer finish(k, out);
  const plan::grid& last = how.launches[1];
  cuda_launch_of(s, out, only, finish_entry, last, [&] { print_rows_finish(finish, shape, parts, last.threads); });
  tell_touched(s, finish);
}

/// The entry that sums the partial results of several blocks.
inline void print_cuda_finish(cuda_source& s, writer& out, std::span<const kernel* const> kernels, cuda_printer last,
                              const cuda_partials& parts, const plan::block_schedule& how) {
  s.scratch = parts.bytes();
  cuda_launch_of(s, out, kernels, finish_entry, how.launches[1], [&] { print_finish(last, parts, *how.finish); });
  tell_touched(s, last);
}

/// A kernel with sums along the rows, whose block `print` prints.
template <class Print>
void print_sums(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how, Print&& print) {
  const kernel* const only[] = {&k};
  cuda_printer p(k, out);
  cuda_partials parts(p);
  if (how.finish) reserve_parts(p, parts, how.finish->parts);
  s.scratch = parts.bytes();
  cuda_launch_of(s, out, only, kernel_entry, how.launches[0], [&] { print(p, parts); });
  if (!how.finish) return;
  tell_touched(s, p);
  print_cuda_finish(s, out, only, cuda_printer(k, out), parts, how);
}
inline void print_entry(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how,
                        const plan::column_shape& shape) {
  print_sums(s, out, k, how, [&](cuda_printer& p, const cuda_partials& parts) { print_columns(p, shape, parts); });
}
inline void print_entry(cuda_source& s, writer& out, const kernel& k, const plan::block_schedule& how,
                        const plan::persistent_rows& shape) {
  print_sums(s, out, k, how, [&](cuda_printer& p, const cuda_partials& parts) { print_walk(p, shape, parts); });
}
inline void print_entry(cuda_source&, writer&, const kernel&, const plan::block_schedule&, const plan::row_epilogue&) {
  ensure(false, "one kernel follows nothing");
}

/// A product, followed in the same block by a kernel on its rows.
inline void print_cuda_followed(cuda_source& s, writer& out, std::span<const kernel* const> both,
                                const plan::block_schedule& how) {
  const auto& shape = std::get<plan::row_epilogue>(how.shape);
  const int first = static_cast<int>(both[0]->buffers.size());
  cuda_printer product(*both[0], out), then(*both[1], out, first);
  cuda_partials parts(then);
  if (shape.sums) reserve_parts(then, parts, shape.rows.walkers);
  cuda_launch_of(s, out, both, kernel_entry, how.launches[0], [&] {
    out.block("", [&] { print_tensor_product(product, shape.product); });
    out.line("__syncthreads();");
    if (shape.sums) print_walk(then, shape.rows, parts);
    else print_rows(then, shape.rows.row, parts);
  });
  if (!shape.sums) return;
  tell_touched(s, product);
  tell_touched(s, then);
  print_cuda_finish(s, out, both, cuda_printer(*both[1], out, first), parts, how);
}

inline void print_cuda(cuda_source& s, const kernel& k, const plan::block_schedule& how) {
  writer out;
  s.scratch = 0;
  s.schedule = plan::text_of(how);
  std::visit([&](const auto& shape) { print_entry(s, out, k, how, shape); }, how.shape);
}

/// Whether a product of 16 bits has tiles by a recipe, if the target has matrix units.
inline bool can_be_tiled(const kernel& k, const plan::target& t) {
  if (!k.is_product() || !k.products[0].within.empty()) return false;
  const auto of = plan::extents_of(k);
  if (of.m.is(0) || of.n.is(0) || of.k.is(0)) return false;
  const auto& p = k.products[0];
  if (size_of(k.buffers[static_cast<std::size_t>(p.a.buffer)].type) > 2) return false;
  return plan::schedules::gpu_product.takes(plan::as_reduction(k), plan::schedules::device_facts(t));
}

/// The option that fills the processors.
inline int usual_option(const kernel& k, const plan::target& t) {
  const auto& p = k.products[0];
  const auto hint = [&](int from, int to) {
    std::int64_t n = 1;
    for (int a = from; a < to; ++a) {
      const auto& axis = k.axes[static_cast<std::size_t>(a)];
      n *= std::max<std::int64_t>(1, axis.extent.number().value_or(axis.hint));
    }
    return n;
  };
  const int axes = static_cast<int>(k.axes.size());
  return plan::schedules::gpu_product_option(plan::as_reduction(k), plan::schedules::device_facts(t),
                                             hint(p.batch, p.batch + p.m), hint(p.batch + p.m, axes), p.terms,
                                             hint(0, p.batch));
}

/// The tiles of a product. Nothing where none are wanted, or its option is refused.
inline std::optional<cuda_source> tiled_product(const kernel& k, const plan::target& t) {
  const bool wanted = k.option >= 0 || (t.tiles && k.option == kernel::by_rule);
  if (!wanted || !can_be_tiled(k, t)) return {};
  const kernel sum = plan::as_reduction(k);
  const auto facts = plan::schedules::device_facts(t);
  try {
    const auto how = plan::schedules::gpu_product.make(sum, facts, k.option >= 0 ? k.option : usual_option(k, t));
    cuda_source s = cuda(loops::build(sum, how, facts));
    s.schedule = loops::text_of(how);
    return s;
  } catch (const plan::refusal&) {  // the kernel of any product
    return {};
  }
}

/// The source of a kernel that its recipe alone prints. An option that is refused gives way to the first.
inline cuda_source by_own_recipe(const kernel& k, const plan::target& t) {
  const auto facts = plan::schedules::device_facts(t);
  const plan::schedules::recipe* const r = plan::schedules::recipe_for(k, facts);
  ensure(r != nullptr, "a kernel that a recipe prints has a recipe");
  const auto print = [&](int option) {
    const auto how = r->make(k, facts, option);
    cuda_source s = cuda(loops::build(k, how, facts));
    s.schedule = loops::text_of(how);
    return s;
  };
  if (k.option <= 0) return print(0);
  try {
    return print(k.option);
  } catch (const plan::refusal&) {
    return print(0);
  }
}

}  // namespace detail

/// The source of one kernel; deterministic, and equal except for #line if kernels differ only in locations.
SINTER_API cuda_source cuda(const kernel& k, const plan::target& t) {
  if (k.by_recipe) return detail::by_own_recipe(k, t);
  if (auto tiled = detail::tiled_product(k, t)) return std::move(*tiled);
  cuda_source s;
  detail::print_cuda(s, k, plan::schedule_blocks(k, t));
  return s;
}

/// Launches that do the work of several kernels of one shape, `members` of `common` (plan::shares_by_shape). Equal texts for as many
/// members, whichever they are. Buffers are numbered through.
SINTER_API cuda_source cuda(const plan::common_kernel& common, std::span<const std::size_t> members,
                            const plan::target& t) {
  cuda_source s;
  detail::make_table(s, common, members, t);
  detail::print_cuda(s, common.code, plan::schedule_blocks(common.code, t));
  s.scratch = s.scratch * dim(static_cast<std::int64_t>(members.size()));
  s.schedule += "  " + std::to_string(members.size()) + " kernels of this shape in each launch\n";
  for (auto& launch : s.launches) {
    const series<bool> one = std::exchange(launch.touches, {});
    if (one.empty()) continue;
    for (const int b : s.parameters) launch.touches.push_back(one[static_cast<std::size_t>(b)]);
    for (const int b : s.table.buffers) launch.touches.push_back(one[static_cast<std::size_t>(b) % one.size()]);
  }
  return s;
}

/// One launch for several independent kernels (plan::horizontal), or for a product and a kernel that can follow it. Buffers
/// are numbered through: the first kernel's, then the second's, and so on.
SINTER_API cuda_source cuda(std::span<const kernel* const> kernels, const plan::target& t) {
  if (kernels.size() == 1) return cuda(*kernels[0], t);
  if (kernels.size() >= plan::min_alike && plan::shares_by_shape(*kernels[0])) {
    series<std::size_t> members;
    for (std::size_t m = 0; m < kernels.size(); ++m) members.push_back(m);
    return cuda(plan::in_common(kernels), {members.data(), members.size()}, t);
  }
  cuda_source s;
  s.scratch = 0;
  writer out;
  if (!kernels[0]->is_product()) {
    detail::print_cuda_shared(s, out, kernels, t);
    return s;
  }
  const auto how = plan::schedule_blocks(*kernels[0], *kernels[1], t);
  ensure(how.has_value(), "a launch makes the rows that its second kernel takes");
  s.schedule = plan::text_of(*how);
  detail::print_cuda_followed(s, out, kernels, *how);
  return s;
}

}  // namespace sinter::engine::emit
