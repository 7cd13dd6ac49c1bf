// jit/backends/cuda_parts.hpp: opaque steps on a GPU.
#pragma once

#include "../../base/callback.hpp"
#include "../../run/cuda/program/control.hpp"
#include "../../run/cuda/program/nvrtc.hpp"
#include "parts.hpp"

namespace sinter::engine::detail {

/// A user's function: it launches kernels, or it runs on the host with copies of the operands.
class device_function final : public run::cuda::routine {
 public:
  device_function(std::shared_ptr<const ir::foreign> f, foreign_shapes shapes, int device)
      : function_(std::move(f)), shapes_(std::move(shapes)), where_(device::cuda(device)) {
    run::layout at;
    for (std::size_t k = shapes_.operands(); k < shapes_.size(); ++k) unread_.push_back(at.add(shapes_.bytes(k)));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long*, run::cuda::queue& q) const override {
    foreign_list all(shapes_.size());
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = shapes_.array(k, buffers[k]);
    for (std::size_t k = shapes_.operands(); k < all.size(); ++k)
      if (!all[k].data) all[k].data = scratch + unread_[k - shapes_.operands()];
    if (function_->gpu.launch)
      return shapes_.call(
          [&](ir::foreign_arrays in, ir::foreign_arrays out) { function_->gpu.launch(in, out, q.handle); }, all);
    sinter::detail::local_list<storage, 16> copies(all.size());
    foreign_list on_host(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      const auto bytes = static_cast<std::size_t>(shapes_.bytes(k));
      copies[k] = allocate(bytes);
      on_host[k] = shapes_.array(k, copies[k].data());
      if (k < shapes_.operands()) copy(on_host[k].data, {}, all[k].data, where_, bytes);
    }
    shapes_.call(function_->host, on_host);
    for (std::size_t k = shapes_.operands(); k < all.size(); ++k)
      copy(all[k].data, where_, on_host[k].data, {}, static_cast<std::size_t>(shapes_.bytes(k)));
  }
  std::int64_t scratch_bytes() const override { return bytes_; }
  const ir::foreign& function() const { return *function_; }
  std::size_t operands() const { return shapes_.size(); }
  bool is_apart() const override { return function_->gpu.apart; }
  bool is_brief() const override { return function_->gpu.apart || function_->gpu.brief; }

 private:
  std::shared_ptr<const ir::foreign> function_;
  foreign_shapes shapes_;
  device where_;
  series<std::int64_t> unread_;
  std::int64_t bytes_ = 0;
};

/// The user's kernel, loaded, with a thread for each element of the first result.
inline std::shared_ptr<const run::cuda::routine> user_kernel(const ir::graph& g, const ir::node& n,
                                                             const run::cuda::built& module, bound_sizes sizes) {
  const ir::foreign& f = *n.attr.step->function;
  const foreign_shapes shapes(g, n, sizes);
  series<long long> numbers;
  for (std::size_t k = 0; k < shapes.size(); ++k)
    for (auto e : shapes.extents(k)) numbers.push_back(e);
  const std::int64_t count = shapes.elements(shapes.operands()), threads = f.gpu.threads;
  return make_on_heap<run::cuda::user_kernel>(
      run::cuda::make_launch(module.code, run::name_in_image(f.gpu.entry, module.suffix),
                             (count + threads - 1) / threads, f.gpu.threads, 0,
                             run::cuda::label(sinter::detail::located("custom_op " + f.name, n.where))),
      shapes.operands(), bytes_of_results(*n.attr.step, sizes), std::move(numbers));
}

/// The routine of an opaque node, from its parts' steps, or from the user's kernel.
inline std::shared_ptr<const run::cuda::routine> device_routine(const ir::graph& g, const ir::node& n,
                                                                series<run::cuda::sequence> parts,
                                                                const run::cuda::built* module, int device,
                                                                bound_sizes sizes, series<char> in_place) {
  const ir::opaque& step = *n.attr.step;
  switch (step.kind) {
    case ir::opaque_kind::cond:
      return make_on_heap<run::cuda::branch>(std::move(parts[0]), std::move(parts[1]), n.in.size(),
                                             bytes_of_results(step, sizes));
    case ir::opaque_kind::loop:
      return make_on_heap<run::cuda::loop>(std::move(parts[0]), shape_of_loop(g, n, sizes, std::move(in_place)));
    case ir::opaque_kind::while_loop:
      return make_on_heap<run::cuda::while_loop>(std::move(parts[0]), std::move(parts[1]),
                                                 bytes_of_carried(g, n, sizes), std::move(in_place), step.constants);
    case ir::opaque_kind::call:
      return make_on_heap<run::cuda::call>(std::move(parts[0]), n.in.size(), bytes_of_results(step, sizes));
    default:
      if (module) return user_kernel(g, n, *module, sizes);
      if (step.kind == ir::opaque_kind::custom && !step.function->gpu.launch)
        logs::warn_once("custom_op " + step.function->name +
                        " has no kernel for a GPU: its operands are copied to the host and its results back at each "
                        "call; give custom_op CUDA source or a function that launches");
      return make_on_heap<device_function>(step.function, foreign_shapes(g, n, sizes), device);
  }
}

}  // namespace sinter::engine::detail
