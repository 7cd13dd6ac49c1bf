// tests/emit/cuda/gpu_graphs.hpp: graphs planned for a GPU and printed as CUDA.
#pragma once

#include <sinter/emit/cuda/kernel.hpp>
#include <sinter/plan/fusion/horizontal.hpp>
#include <sinter/plan/kernel/sized.hpp>
#include <sinter/plan/schedule/fit.hpp>

#include "../../plan/graphs.hpp"

namespace graphs {

struct gpu_code {
  std::vector<kernel> kernels;
  std::vector<sinter::engine::emit::cuda_source> sources;
};

inline gpu_code gpu_kernels(std::initializer_list<value> outputs, gpu_facts how = {},
                            std::vector<std::int64_t> hints = {}) {
  graph& g = outputs.begin()->owner();
  for (const auto& v : outputs) g.outputs.push_back(v.id());
  memory_map m;
  m.strides.resize(g.size());
  m.hints = std::move(hints);
  gpu_code out;
  out.kernels = fuse(g, m, gpu_target({.multiprocessors = how.multiprocessors, .blas = false})).kernels;
  for (const auto& k : out.kernels) out.sources.push_back(sinter::engine::emit::cuda(k, gpu_target(how)));
  return out;
}

/// The entries, without the prelude and #line.
inline std::string entries(const sinter::engine::emit::cuda_source& s) {
  std::string out;
  for (const std::string& text : s.texts)
    for (std::size_t line = text.rfind("namespace sx {\nextern"); line < text.size();) {
      const std::size_t end = text.find('\n', line) + 1;
      if (text.compare(line, 5, "#line") != 0) out += text.substr(line, end - line);
      line = end;
    }
  return out;
}

inline value unary(op code, const value& x) { return {x.owner(), x.owner().push(code, {x.id()}, {})}; }

inline value with_columns(const value& x, const value& row) { return x + expand(row, {0}, x.extents()); }

inline value gelu(const value& x) { return x * 0.5 * (unary(op::erf, x * 0.7071067811865476) + 1.0); }

/// layer_norm's result and the cotangents of its operands, for the cotangent w of its result.
inline std::vector<value> layer_norm_and_gradient(const value& x, const value& gain, const value& bias,
                                                  const value& w) {
  const double n = static_cast<double>(*x.extents().back().number());
  const value centred = x - along_rows(x, op::add) * (1 / n);
  const value scale = rsqrt(along_rows(centred * centred, op::add) * (1 / n) + 1e-5);
  const value normal = centred * scale;
  const value y = with_columns(normal * expand(gain, {0}, x.extents()), bias);
  const value dn = w * expand(gain, {0}, x.extents());
  const value dx =
      (dn - along_rows(dn, op::add) * (1 / n) - normal * (along_rows(dn * normal, op::add) * (1 / n))) * scale;
  return {y, dx, sum(w * normal, {0}), sum(w, {0})};
}

}  // namespace graphs
