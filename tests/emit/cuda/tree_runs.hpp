// tests/emit/cuda/tree_runs.hpp: the CUDA of a tree, run on the emulated GPU or on a GPU, against plain recursion.
#pragma once

#include <cstring>
#include <sinter/emit/cuda/spelling.hpp>
#include <sinter/plan/loops/print.hpp>

#include "../../plan/loops/programs.hpp"
#include "../../run/cuda/support.hpp"

namespace tree_runs {

using namespace kernels;
namespace schedules = sinter::engine::plan::schedules;
namespace emit = sinter::engine::emit;
namespace cuda = sinter::engine::run::cuda;

/// Calls f(T{}) with the type of a dtype's elements.
template <class F>
void as_elements(dtype t, F&& f) {
  sinter::visit_dtype(t, [&](auto element) {
    using T = typename decltype(element)::type;
    f(std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>{});
  });
}
inline sinter::storage on_gpu(const series<scalar>& values, dtype t) {
  sinter::storage out;
  as_elements(t, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> all;
    for (const auto& x : values)
      all.push_back(is_float(t) ? static_cast<T>(static_cast<float>(x.f)) : static_cast<T>(x.i));
    all.resize(std::max<std::size_t>(all.size(), 1));
    out = support::on_gpu(all);
  });
  return out;
}
inline series<scalar> on_host(const sinter::storage& from, std::size_t count, dtype t) {
  series<scalar> out;
  as_elements(t, [&](auto zero) {
    using T = decltype(zero);
    for (const T x : support::on_host<T>(from, count))
      out.push_back(is_float(t) ? scalar{static_cast<double>(x), 0} : scalar{0, static_cast<std::int64_t>(x)});
  });
  return out;
}

/// The launches of a source, whose parameters are `buffers` addresses in order.
inline cuda::sequence sequence_of(const program& p, const emit::cuda_source& s, std::size_t buffers) {
  cuda::sequence all;
  all.sizes = static_cast<int>(p.sizes.size());
  all.given = static_cast<int>(buffers);
  all.scratch_bytes = s.scratch.evaluate(p.sizes);
  for (const auto& l : s.launches) {
    const std::int64_t blocks = l.blocks.evaluate(p.sizes);
    if (blocks == 0) continue;
    const auto built = cuda::build(std::vector<std::string>{s.texts[l.text]}, 0);
    all.steps.push_back(cuda::make_launch(built[0].code, l.entry + built[0].suffix, blocks, l.threads, l.shared,
                                          cuda::label(l.entry + " (at model.cpp:12)")));
    for (std::size_t b = 0; b < buffers; ++b)
      all.steps.back().operands.push_back({static_cast<int>(b), 0, p.k.buffers[b].written});
    all.steps.back().scratch_bytes = all.scratch_bytes;
  }
  return all;
}
/// Runs a source on a memory, whose buffers are its parameters.
inline void run(const program& p, const emit::cuda_source& s, loops::memory& m) {
  std::vector<sinter::storage> buffers;
  for (std::size_t b = 0; b < m.size(); ++b) buffers.push_back(on_gpu(m[b], p.k.buffers[b].type));
  std::vector<void*> given;
  for (auto& b : buffers) given.push_back(b.data());
  cuda::execute(sequence_of(p, s, buffers.size()), given, p.sizes.empty() ? nullptr : p.sizes.data());
  for (std::size_t b = 0; b < m.size(); ++b) m[b] = on_host(buffers[b], m[b].size(), p.k.buffers[b].type);
}

/// What is wrong with the CUDA of a tree of p; 0 < bound: relative to 1 + |want|.
inline std::string wrong_on_gpu(const program& p, const emit::cuda_source& s, std::uint64_t seed, double bound = 0) {
  loops::memory got = filled(p, seed);
  run(p, s, got);
  return difference(p, got, {p, seed, bound});
}

}  // namespace tree_runs
