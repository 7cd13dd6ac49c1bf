// front/functions/nn_rows.hpp: functions of rows behind the seam: operands and results without static types.
#pragma once

#include <span>

#include "reductions.hpp"

namespace sinter::detail {

/// An expression as an operand of a function behind the seam. It outlives the call.
struct lazy_operand {
  const row_stage* stage;  ///< of a tensor without `fill`
  const void* expression;
};
template <class E>
inline constexpr row_stage source_stage = stage_of<E>;
template <class T, dims Shape>
inline constexpr row_stage source_stage<tensor<T, Shape>> = {terms_of<tensor<T, Shape>>.data(), 1, nullptr,
                                                             "contiguous", nullptr};
template <tensor_like E>
lazy_operand lazy_operand_of(const E& e) {
  return {&source_stage<E>, &e};
}

/// An operand of a function that computes narrow floats in f32: an expression of narrow floats is not rounded before.
template <tensor_like X>
constexpr decltype(auto) wide_operand(const X& x, location at) {
  if constexpr (any_tensor<X>) return (x);
  else return wide(x, at);
}

/// A call of a function of rows.
struct row_call {
  const char* op;
  dtype type;  ///< of the result
  int axis;
  double eps;
  location at;
};

/// layer_norm or rms_norm of x's last axis, times the first of `scales`, plus the second. (nn_rules.hpp)
SINTER_API handle normalised_rows(const row_call& c, engine::row_map f, const lazy_operand& x,
                                  std::span<const handle> scales);
/// softmax or log_softmax along an axis. (nn_rules.hpp)
SINTER_API handle softmax_rows(const row_call& c, engine::row_map f, const lazy_operand& x);

/// exp(s - max) / sum along the last axis where the mask holds; 0 elsewhere, and in rows whose query sees no key. Without a mask all
/// of s counts. (nn_rules.hpp)
SINTER_API handle softmax_of_seen(const handle& s, const handle* mask, location at);

/// One attention under a trace: q (…, heads, queries, features), k and v (…, key heads, keys, features), all of rank 2 or more.
struct attention_call {
  const handle *q, *k, *v;
  const handle* products;  ///< of queries and keys, (…, heads, queries, keys), in f32 or f64
  const handle* score;     ///< of the same extents
  const handle* allowed;   ///< bools that broadcast to them; null: all
  bool guarded;            ///< a row that sees no key gives 0
  location at;
};
/// The attention as one op of the trace, with the extents of q but v's last. A handle without a tracer where a score depends on more
/// than its own place. (nn_rules.hpp)
SINTER_API handle traced_attention(const attention_call& c);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++: of enumerators that have a scope
/// The reduction of the losses of rows.
enum class row_losses : std::uint8_t { each, mean, sum };
#pragma GCC diagnostic pop

/// How a loss reads its classes.
struct class_loss {
  const char* op;
  dtype type;   ///< of the result
  bool logits;  ///< false: log-probabilities
  row_losses how;
  double smoothing;
  std::int64_t ignore;
};
/// Losses of logits, or of log-probabilities, smoothed and weighted. Ignored rows add nothing, whatever their values. A mean
/// divides by the sum of the rows' weights. In kernels, rows with a label out of range do not count either. `weights`: null, or a
/// number for each class. (nn_rules.hpp)
SINTER_API handle losses_of_classes(const class_loss& c, const lazy_operand& x, const handle& labels,
                                    const handle* weights, location at);
/// The mean over the rows of -log(softmax(x))[label]. (nn_rules.hpp)
SINTER_API handle cross_entropy_of_rows(dtype type, const lazy_operand& x, const handle& labels, location at);

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "nn_rules.hpp"
#endif
