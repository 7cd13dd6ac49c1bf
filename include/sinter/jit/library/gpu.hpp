// jit/library/gpu.hpp: exported programs on GPUs: their plans, and the code of their kernels for each GPU.
#pragma once

#include <algorithm>
#include <string>

#include "../../run/build/library.hpp"
#include "../../run/cuda/program/nvrtc.hpp"
#include "programs.hpp"

namespace sinter::engine::detail {

/// The places of a kernel's code in the file of images: for each GPU of the request, then as PTX of the first.
struct gpu_images {
  series<std::size_t> at;
};

/// The facts that hold on all GPUs of a request. Products have sinter's own kernels; f32 is not rounded to tf32.
inline plan::target target_of_library(const library_request& what, const ir::graph& g) {
  constexpr int multiprocessors = 108;  // of an A100: the plan is one for all
  plan::target out = plan::gpu_target(
      {.capability = what.how.gpus[0], .multiprocessors = multiprocessors, .blas = false, .tiles = has_products(g)});
  out.shared_bytes =
      std::min(out.shared_bytes, plan::shared_memory_of(89));  // of the GPUs that run the code, the least
  out.serves_smaller = true;
  return out;
}

/// Sets the sizes of the plan to the largest: kernels for them serve the others.
inline void plan_for_largest(const library_request& what, size_layout& l) {
  const series<std::int64_t> largest = largest_symbols(what, l);
  for (std::size_t k = 0; k < l.sizes.size(); ++k)
    if (!l.sizes[k].derived) l.sizes[k].number = largest[k] * l.sizes[k].factor + l.sizes[k].offset;
}

/// Rewrites, plans and prints the traced program for GPUs.
inline void plan_program_on_gpu(const library_request& what, library_program& p, library_kernels& kernels) {
  code& c = p.made;
  plan_for_largest(what, c.layout);
  const std::span<const argument> arguments = prepared_arguments(p);
  c.graph = rewrite::run_all(p.traced->graph);
  p.on_gpu = plan_cuda(
      c, c.graph, series<char>(p.arguments.size(), 0),
      [&](const ir::graph& separate, const series<result_spec>&) {
        plan::memory_map m = layout_of(separate, arguments, c.layout);
        m.alignment.resize(separate.size());
        m.by_value.resize(separate.size());
        for (const ir::node_id id : separate.inputs) m.alignment[id] = 16;
        return m;
      },
      target_of_library(what, c.graph), "", false);
  c.results = p.on_gpu.results;
  print_cuda(c, p.on_gpu, {}, c.texts);
  find_replaceable(c, p.on_gpu.graph, p.on_gpu.kernels, p.on_gpu.when, arguments);
  p.on_gpu.results = c.results;
  number_kernels(p, kernels);
}

/// Compiles each kernel for each GPU, and as PTX for later ones, side by side; returns the file of images. CUBINs and PTX have a 0 at
/// their end. Throws compile_error, and system_error without NVRTC.
inline std::string compile_images(const library_request& what, const library_kernels& kernels,
                                  series<gpu_images>& places) {
  const auto with = run::cuda::find_nvrtc();
  const std::size_t columns = what.how.gpus.size() + 1, count = kernels.texts.size() * columns;
  series<std::string> images(count);
  run::progress* const shown = run::progress::current();
  if (shown) shown->expect(count);
  const run::disk_cache cache;
  run::side_by_side(count, [&](std::size_t i) {
    const std::string& text = kernels.texts[i / columns];
    const bool ptx = i % columns == columns - 1;
    const int sm = what.how.gpus[ptx ? 0 : i % columns];
    const std::string key = std::string(run::plan_key) + (ptx ? "PTX of a library\n" : "CUBIN of a library\n") +
                            run::cuda::key_text(*with, text, sm);
    images[i] = cache.find(key);
    if (images[i].empty()) {
      images[i] = ptx ? run::cuda::compile_to_ptx(*with, text, sm) : run::cuda::compile(*with, text, sm);
      cache.store(key, images[i]);
    }
    if (shown) shown->made(1);
  });
  std::string file;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % columns == 0) places.emplace_back();
    places.back().at.push_back(file.size());
    file += images[i];
    file.resize((file.size() / 64 + 1) * 64, '\0');
  }
  return file;
}

}  // namespace sinter::engine::detail
