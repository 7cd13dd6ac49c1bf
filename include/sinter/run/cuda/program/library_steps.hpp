// run/cuda/program/library_steps.hpp: the libraries whose calls are steps: their needs, and their requests to streams.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "step.hpp"
#include "tune.hpp"

namespace sinter::engine::run::cuda::detail {

/// A library whose calls are steps.
struct library_row {
  action what;
  bool (*is_empty)(const step& s);  ///< the step does nothing
  /// The greatest scratch memory for operands of any alignment that its calls have.
  std::size_t (*workspace)(const step& s, bool tuned, int device);
  /// Requests the step from the queue; with `tuned`, by the algorithm of recorded calls. If `workspace` is null, the step has its
  /// own scratch memory.
  void (*request)(const step& s, const operand_table& table, void* workspace, bool tuned, queue& q);
};

inline product_plan& plan_of(const matmul& what, int alignment, bool tuned, int device, const char* label) {
  return tuned && alignment == 16 ? tuned_product(what, device, label) : plan_product(what, alignment, device);
}
inline convolution_plan& plan_of(const convolution& what, int alignment, bool tuned, int device, const char* label) {
  return tuned && alignment == 16 ? tuned_convolution(what, device, label) : plan_convolution(what, alignment, device);
}

/// The greatest need of the plans for alignments from `least` on.
template <class What>
std::size_t workspace_of(const What& what, int least, bool tuned, int device, const char* label) {
  std::size_t most = 0;
  for (int alignment = least; alignment <= 16; alignment *= 2)
    most = std::max(most, plan_of(what, alignment, tuned, device, label).choice.workspace);
  return most;
}

inline void request_product(const step& s, const operand_table& table, void* workspace, bool tuned, queue& q) {
  const product_addresses at = offset(s.product, {table[s.operands[0]], table[s.operands[1]], table[s.operands[2]],
                                                  s.operands.size() > 3 ? table[s.operands[3]] : nullptr});
  product_plan& p = plan_of(s.product, common_alignment(s.product, at), tuned, q.where->index, s.label);
  if (workspace == nullptr) multiply(p, s.product, at, q, s.label);
  else multiply(p, s.product, at, workspace, q, s.label);
}

inline void request_convolution(const step& s, const operand_table& table, void* workspace, bool tuned, queue& q) {
  const convolution& w = s.windows;
  const auto at = [&](std::size_t n, convolution_kind k) -> const void* {
    const dtype type = k == w.kind ? w.written : w.type;
    return n < s.operands.size() ? advanced(static_cast<const char*>(table[s.operands[n]]), s.first[n], type) : nullptr;
  };
  const convolution_addresses all{at(0, convolution_kind::image), at(1, convolution_kind::weights),
                                  at(2, convolution_kind::result), at(3, w.kind)};
  const convolution_plan& p = plan_of(w, common_alignment(all), tuned, q.where->index, s.label);
  if (workspace == nullptr) convolve(p, all, q, s.label);
  else convolve(p, all, workspace, q, s.label);
}

inline constexpr std::array<library_row, 2> library_rows{
    {{action::product, [](const step& s) { return is_empty(s.product); },
      [](const step& s, bool tuned, int device) { return workspace_of(s.product, 1, tuned, device, s.label); },
      request_product},
     {action::convolution, [](const step& s) { return is_empty(s.windows); },
      [](const step& s, bool tuned, int device) { return workspace_of(s.windows, 16, tuned, device, s.label); },
      request_convolution}}};

/// The row of a step that calls a library.
inline const library_row& library_of(const step& s) {
  const auto* const row =
      std::find_if(library_rows.begin(), library_rows.end(), [&](const library_row& r) { return r.what == s.what; });
  ensure(row != library_rows.end(), "a library computes the step");
  return *row;
}

}  // namespace sinter::engine::run::cuda::detail
