// jit/backends/autotune_cuda.hpp: the ways to compute a launch of one kernel on a GPU: a library's call, the options of a recipe, a kernel without.
#pragma once

#include <string>

#include "../../base/series.hpp"
#include "autotune.hpp"
#include "cuda_assembly.hpp"

namespace sinter::engine::detail {

inline constexpr const char* by_library = "library";

/// The ways to compute a group, as rules would first; none if it has no choice.
inline series<way> ways_on_gpu(const plan::kernel& k, const cuda_group& group, const plan::target& t) {
  series<way> out;
  if (group.count != 1 || !is_closed(k)) return out;
  const auto add_options = [&](int count, int first) {
    if (first >= 0) out.push_back(way_of_option(first));
    for (int o = 0; o < count; ++o)
      if (o != first) out.push_back(way_of_option(o));
  };
  if (k.by_recipe) {
    const auto* const r = plan::schedules::recipe_for(k, plan::schedules::device_facts(t));
    if (r) add_options(r->options, 0);
    return out;
  }
  if (!k.is_product() || !k.products[0].within.empty()) return out;
  const bool tiled = emit::detail::can_be_tiled(k, t), by_option = tiled && t.tiles && !group.call;
  if (group.call) out.push_back({by_library});
  if (!group.call && !by_option) out.push_back({without_recipe, plan::kernel::no_recipe});
  if (tiled) add_options(plan::schedules::gpu_product.options, by_option ? emit::detail::usual_option(k, t) : -1);
  if (group.call || by_option) out.push_back({without_recipe, plan::kernel::no_recipe});
  return out;
}

/// What a group's ways depend on besides the kernel and the device.
inline std::string abilities_text(const cuda_group& group, const plan::target& t, const options& how) {
  std::string out = std::string(t.groups ? "groups" : "") + (t.copies_async ? " copies" : "") + (t.tf32 ? " tf32" : "");
  if (!group.call) return out;
  const bool blas = std::holds_alternative<plan::blas_call>(*group.call);
  return out + "\n" + (blas ? run::cuda::blas().identity : run::cuda::dnn().identity) +
         (how.precision == precision::high ? " tf32" : "");
}

/// A kernel as a program of its own.
struct gpu_trial {
  series<plan::kernel> kernels;
  cuda_group group;
  run::cuda::sequence steps;
  std::shared_ptr<trial_arrays> arrays;
  storage scratch;

  /// Requests its steps from this thread's current stream; a library's call takes the algorithm of recorded calls.
  void run() const {
    run::cuda::queue& q = run::cuda::current_queue(steps.device);
    const run::cuda::context_scope here(*q.where);
    run::cuda::detail::operand_table table(steps, {arrays->table.data(), arrays->table.size()},
                                           static_cast<char*>(scratch.data()), nullptr);
    for (const auto& s : steps.steps) run::cuda::detail::enqueue(s, table, true, q, run::cuda::driver());
  }
};

/// The steps of a trial, of a library's call or of modules. Throws system_error.
inline void assemble_trial(gpu_trial& t, const run::cuda::built* modules, int device, const options& how) {
  binding where;
  for (const auto& b : t.kernels[0].buffers) {
    const auto id = static_cast<std::size_t>(b.id);
    if (where.operand.size() <= id) where.operand.resize(id + 1, -1);
    where.operand[id] = where.operands++;
  }
  cuda_assembly assembly(t.steps, t.kernels, where, false, {});
  if (t.group.call) assembly.add_library_call(t.group, *t.group.call, how);
  else assembly.add_launches(t.group, t.group.source, modules, -1, {});
  assembly.finish(device);
  if (t.steps.scratch_bytes > 0)
    t.scratch = run::cuda::allocate(static_cast<std::size_t>(t.steps.scratch_bytes), device);
}

/// The modules of each trial's texts; none for texts that cannot be compiled.
inline series<series<run::cuda::built>> modules_of(const series<std::shared_ptr<gpu_trial>>& trials, int device) {
  series<run::shared_text> all;
  for (const auto& t : trials)
    for (const auto& text : t->group.source.texts) all.push_back(run::shared_text(text));
  try {
    run::cuda::build(all, device);  // at one time; then they are found
  } catch (const system_error&) {}
  series<series<run::cuda::built>> out;
  for (const auto& t : trials) {
    out.emplace_back();
    try {
      if (!t->group.call) out.back() = run::cuda::build(t->group.source.texts, device);
    } catch (const system_error&) {}
  }
  return out;
}

/// The ways as programs of their own, those with equal texts once. None if there is no room for operands.
inline series<candidate> candidates_on_gpu(const plan::kernel& k, const cuda_group& group, const series<way>& ways,
                                           const plan::target& target, int device, const options& how) {
  const std::shared_ptr<trial_arrays> arrays = arrays_for(k, device::cuda(device));
  if (!*arrays) return {};
  series<std::shared_ptr<gpu_trial>> trials;
  series<std::string> names;
  for (const way& w : ways) {
    auto t = std::make_shared<gpu_trial>();
    t->kernels.push_back(k);
    t->kernels[0].option = w.option;
    t->kernels[0].fit = group.fit;
    t->group.count = 1;
    t->group.fit = group.fit;
    t->arrays = arrays;
    if (w.name == by_library) t->group.call = group.call;
    else t->group.source = emit::cuda(t->kernels[0], target);
    const auto is_equal = [&](const auto& x) {
      return !t->group.call && x->group.source.texts == t->group.source.texts;
    };
    if (std::any_of(trials.begin(), trials.end(), is_equal)) continue;
    trials.push_back(std::move(t));
    names.push_back(w.name);
  }
  const auto modules = modules_of(trials, device);
  series<candidate> out;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!trials[i]->group.call && modules[i].empty()) continue;
    try {
      assemble_trial(*trials[i], modules[i].data(), device, how);
      out.push_back({names[i], [t = trials[i]] { t->run(); }});
    } catch (const system_error& problem) {
      logs::to("perf", [&] { return names[i] + " is not measured: " + problem.what(); });
    }
  }
  return out;
}

}  // namespace sinter::engine::detail
