// jit/cuda.hpp: graph -> launches on a GPU, compiled by NVRTC and bound to operands.
#pragma once

#include <optional>

#include "../base/series.hpp"
#include "../emit/cuda.hpp"
#include "../plan/blas.hpp"
#include "../plan/horizontal.hpp"
#include "../run/cuda_blas.hpp"
#include "../run/cuda_nvrtc.hpp"
#include "../run/cuda_program.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// "mul exp reduce (at net.cpp:12)": what errors call a group of kernels.
inline const char* label_of(std::span<const plan::kernel> group) {
  std::string label;
  location where;
  for (const auto& k : group) {
    label += (label.empty() ? "" : " | ") + k.label;
    for (const auto& i : k.body)
      if (where.line == 0) where = i.where;
  }
  return run::cuda::label(sinter::detail::located(label, where));
}

inline run::cuda::matmul to_matmul(const plan::blas_call& b, const options& how) {
  using run::cuda::epilogue;
  constexpr epilogue after[2][3] = {{epilogue::none, epilogue::relu, epilogue::gelu},
                                    {epilogue::bias, epilogue::bias_relu, epilogue::bias_gelu}};
  run::cuda::matmul m;
  m.m = b.m;
  m.n = b.n;
  m.k = b.k;
  m.batch = b.batch;
  m.repeat = b.repeat;
  m.type = b.type;
  m.result = b.result;
  const auto place = [](const plan::blas_operand& o, std::int64_t& row, std::int64_t& batch, std::int64_t& offset,
                        std::int64_t& repeat) {
    row = o.row;
    batch = o.batch;
    offset = o.offset;
    repeat = o.repeat;
    return o.transpose;
  };
  m.transpose_a = place(b.a, m.row_a, m.batch_a, m.offset_a, m.repeat_a);
  m.transpose_b = place(b.b, m.row_b, m.batch_b, m.offset_b, m.repeat_b);
  place(b.out, m.row_out, m.batch_out, m.offset_out, m.repeat_out);
  m.offset_bias = b.bias_offset;
  m.after = after[b.bias >= 0][static_cast<int>(b.after)];
  m.tf32 = how.precision == precision::high;
  return m;
}

/// What intermediates may take where none shares another's memory.
inline constexpr std::int64_t most_scratch_apart = std::int64_t{256} << 20;

/// Kernels that run at once, and how: a call of the matrix library, or printed.
struct cuda_group {
  std::size_t first = 0, count = 0;
  std::optional<plan::blas_call> call;
  emit::cuda_source source;
};

/// The steps of a program whose kernels have been printed, and where each kernel finds its operands.
class cuda_assembly {
 public:
  /// With `apart`, kernels have scratch memory of their own each, so that they may overlap.
  cuda_assembly(code& c, const series<plan::kernel>& kernels, const binding& where, bool apart)
      : c_(c), kernels_(kernels), where_(where), apart_(apart) {}

  void add_product(const cuda_group& g, const options& how) {
    const plan::blas_call& call = *g.call;
    run::cuda::step s;
    s.what = run::cuda::action::product;
    s.label = label_of({&kernels_[g.first], 1});
    s.product = to_matmul(call, how);
    for (int b : {call.a.buffer, call.b.buffer, call.out.buffer, call.bias})
      if (b >= 0) s.operands.push_back(operand_of(kernels_[g.first].buffers[static_cast<std::size_t>(b)]));
    c_.launches.steps.push_back(std::move(s));
  }

  void add_launches(const cuda_group& g, const run::cuda::built& module) {
    const std::span<const plan::kernel> group(&kernels_[g.first], g.count);
    const char* const label = label_of(group);
    const std::int64_t own = g.source.scratch.evaluate({}), at = apart_ ? round_up(scratch_, 256) : 0;
    for (const auto& launch : g.source.launches) {
      run::cuda::step s = run::cuda::make_launch(module.code, launch.entry, launch.blocks.evaluate({}), launch.threads,
                                                 launch.shared, label);
      for (const auto& k : group)
        for (const auto& b : k.buffers) s.operands.push_back(operand_of(b));
      for (std::size_t i = 0; i < launch.touches.size(); ++i) s.operands[i].touched = launch.touches[i];
      s.scratch = scratch_begin() + at;
      s.scratch_bytes = own;
      c_.launches.steps.push_back(std::move(s));
    }
    scratch_ = std::max(scratch_, at + own);
  }

  /// After find_replaceable.
  void finish() {
    run::cuda::sequence& s = c_.launches;
    s.device = c_.where.index;
    s.given = static_cast<int>(where_.operand.size() - where_.intermediates.size());
    s.intermediates = where_.intermediates;
    for (const auto& life : where_.lives) s.intermediate_bytes.push_back(life.bytes);
    s.scratch_bytes = scratch_begin() + scratch_;
    for (const auto& r : c_.results)
      for (std::size_t i = 0; i < r.may_replace.size(); ++i)
        if (r.may_replace[i]) s.shared.push_back({where_.operand.at(static_cast<int>(r.node)), static_cast<int>(i)});
  }

 private:
  run::cuda::operand operand_of(const plan::buffer_use& b) const {
    return {where_.operand.at(b.id), b.by_value ? static_cast<int>(size_of(b.type)) : 0, b.written};
  }
  std::int64_t scratch_begin() const { return round_up(where_.scratch_bytes, 256); }
  static std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

  code& c_;
  const series<plan::kernel>& kernels_;
  const binding& where_;
  bool apart_;
  std::int64_t scratch_ = 0;
};

/// What kernels may assume of the arguments' memory.
inline plan::memory_map device_layout_of(const ir::graph& g, std::span<const argument> arguments) {
  plan::memory_map m = layout_of(g, arguments);
  m.alignment.resize(g.size());
  m.by_value.resize(g.size());
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const argument& a = arguments[i];
    const bool aligned = reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
    m.alignment[g.inputs[i]] = aligned ? 16 : static_cast<std::int64_t>(size_of(a.type));
    m.by_value[g.inputs[i]] = a.by_value;
  }
  return m;
}

/// The matrix library's call for a kernel, if there is a library and it can do that.
inline std::optional<plan::blas_call> library_call(const plan::kernel& k, int device, const options& how) {
  auto call = plan::as_blas(k, true);
  std::string why;
  if (call && !run::cuda::can_multiply(to_matmul(*call, how), device, why)) {
    logs::to("fusion", [&] { return k.label + ": no library call: " + why; });
    call.reset();
  }
  return call;
}

inline void generate_cuda(code& c, ir::graph g, std::span<const argument> arguments, const options& how) {
  for (auto id : g.live())
    if (g[id].code == ir::op::opaque) throw system_error("[cuda] branches and loops run on the host");
  const run::cuda::gpu& gpu = run::cuda::device_at(c.where.index);
  // The library is large: it is opened for products only.
  const auto live = g.live();
  const bool blas = std::any_of(live.begin(), live.end(), [&](auto id) { return g[id].code == ir::op::dot; }) &&
                    run::cuda::blas().problem.empty();
  c.results = separate_results(g);
  plan::fused fused = plan::fuse(g, device_layout_of(g, arguments),
                                 {.gpu = true, .multiprocessors = gpu.multiprocessors, .blas = blas});
  const emit::cuda_target target{.capability = gpu.capability,
                                 .multiprocessors = gpu.multiprocessors,
                                 .deterministic = how.deterministic,
                                 .tf32 = how.precision == precision::high};
  series<plan::kernel> kernels;
  series<cuda_group> groups;
  series<std::size_t> when;
  series<std::string> texts;
  series<std::size_t> number(fused.kernels.size());
  for (const auto& together : plan::horizontal(fused.kernels)) {
    cuda_group group{kernels.size(), together.size(), {}, {}};
    for (auto k : together) {
      number[k] = groups.size();
      kernels.push_back(std::move(fused.kernels[k]));
      when.push_back(groups.size());
    }
    groups.push_back(std::move(group));
  }
  for (auto& a : fused.apart) {
    // From here on kernels are numbered by launch.
    a.first = number[a.first];
    a.second = number[a.second];
  }
  report_kernels(c, g, kernels, when, {}, {});
  for (const auto& a : fused.apart)
    if (a.first != a.second) c.about.apart.push_back({a.first, a.second, plan::in_words(g, a.why)});
  c.stage("plan");
  for (auto& group : groups) {
    if (blas && group.count == 1) group.call = library_call(kernels[group.first], c.where.index, how);
    if (group.call) continue;
    series<const plan::kernel*> parts;
    for (std::size_t k = 0; k < group.count; ++k) parts.push_back(&kernels[group.first + k]);
    group.source = emit::cuda(parts, target);
    texts.push_back(group.source.text);
    logs::to("output_code", [&] { return texts.back(); });
  }
  c.stage("emit");
  const auto modules = run::cuda::build(texts, c.where.index);
  for (const auto& m : modules) c.about.compiled += !m.from_cache;
  std::size_t printed = 0;
  for (std::size_t k = 0; k < groups.size(); ++k)
    if (groups[k].call) c.about.steps[k].tier = "library";
    else {
      report_origin(c, k, static_cast<std::int64_t>(printed), modules[printed].from);
      ++printed;
    }
  c.stage("compile");
  c.about.kernels_unfused = fused.unfused;
  c.about.kernels = groups.size();
  c.about.sources = std::move(texts);
  // A recorded call runs side by side what does not wait for one another.
  const bool apart = how.mode == mode::reduce_overhead;
  const binding where = bind_operands(c.results, g, kernels, when, apart ? most_scratch_apart : 0);
  cuda_assembly assembly(c, kernels, where, apart && where.scratch_bytes <= most_scratch_apart);
  std::size_t next = 0;
  for (const auto& group : groups) {
    if (group.call) assembly.add_product(group, how);
    else assembly.add_launches(group, modules[next++]);
    const auto number_of = static_cast<std::size_t>(&group - groups.data());
    while (c.inside && c.inside->kernel.size() < c.launches.steps.size()) c.inside->kernel.push_back(number_of);
  }
  picture_plan(c, g, kernels, when, where);
  find_replaceable(c, g, kernels, when, arguments);
  assembly.finish();
  c.launches.tuned = apart && !how.deterministic;
  c.about.scratch_bytes = static_cast<std::size_t>(c.launches.scratch_bytes);
  c.stage("bind");
}

}  // namespace sinter::engine::detail
