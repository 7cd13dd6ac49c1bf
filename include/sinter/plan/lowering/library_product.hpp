// plan/lowering/library_product.hpp: a matrix-product kernel as one call of a GPU's matrix library, if possible.
#pragma once

#include <cmath>
#include <optional>

#include "../../ir/reference_pointwise.hpp"
#include "../kernel/contraction.hpp"
#include "../kernel/sized.hpp"
#include "../kernel/target.hpp"

namespace sinter::engine::plan {

/// The activation of a product before it is stored, after an optional bias is added.
enum class blas_activation : std::uint8_t { none, relu, gelu_tanh };

/// Elements of a kernel's buffer.
struct blas_operand {
  int buffer = -1;          ///< index into kernel::buffers
  std::int64_t offset = 0;  ///< of the first element
  std::int64_t row = 0;     ///< from one stored row to the next
  std::int64_t batch = 0;   ///< from one matrix to the next
  std::int64_t repeat = 0;  ///< from one call's first matrix to the next call's
  bool transpose = false;   ///< the matrix is stored with its rows as columns
};

/// out = activation(op(a) op(b) + bias), batch times in each of `repeat` calls. op(a) is m x k, op(b) is k x n, all row-major.
struct blas_call {
  std::int64_t m = 1, n = 1, k = 1, batch = 1, repeat = 1;
  dtype type = dtype::f32;    ///< of a and b
  dtype result = dtype::f32;  ///< of out and bias
  blas_operand a, b, out;
  int bias = -1;  ///< its buffer; n elements, the same for every row
  std::int64_t bias_offset = 0;
  blas_activation after = blas_activation::none;
};

namespace detail {

/// A group of axes of an operand: its extent, and its step when it is walked as one axis.
struct blas_axis {
  std::int64_t extent = 1, step = 0;
};

inline std::optional<blas_axis> walked(const kernel& c, const affine& at, std::span<const int> axes) {
  blas_axis out;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto e = extent_of(c, axes[a]).number();
    const auto s = at.stride[static_cast<std::size_t>(axes[a])].number();
    if (!e || !s || *e < 1) return std::nullopt;
    if (a + 1 == axes.size()) out.step = *s;
    else if (*s != out.step * out.extent) return std::nullopt;
    out.extent *= *e;
  }
  return out;
}

/// Places a matrix of `rows` by `columns` stored elements.
inline bool place(blas_operand& o, const blas_axis& rows, const blas_axis& columns) {
  const bool one_row = rows.extent == 1, one_column = columns.extent == 1;
  if ((one_column || columns.step == 1) && (one_row || rows.step >= columns.extent)) {
    o.row = one_row ? columns.extent : rows.step;
    return true;
  }
  if ((one_row || rows.step == 1) && (one_column || columns.step >= rows.extent)) {
    o.transpose = true;
    o.row = one_column ? rows.extent : columns.step;
    return true;
  }
  return false;
}

/// Places an operand whose matrices have `rows` and `columns`; of the batch axes the first `repeated` are calls.
inline bool operand(const kernel& c, const access& at, std::span<const int> batch, std::span<const int> rows,
                    std::span<const int> columns, std::size_t repeated, blas_operand& o) {
  if (at.buffer < 0) return false;
  const auto offset = at.at.offset.number();
  const auto again = walked(c, at.at, batch.first(repeated)), b = walked(c, at.at, batch.subspan(repeated)),
             r = walked(c, at.at, rows), x = walked(c, at.at, columns);
  if (!offset || !again || !b || !r || !x || at.at.index >= 0 || b->step < 0) return false;
  o.buffer = at.buffer;
  o.offset = *offset;
  o.batch = b->step;
  o.repeat = again->step;
  return place(o, *r, *x);
}

/// The value at x of the one-argument function from instruction `from` to `to`; empty if it has other inputs.
inline std::optional<double> applied(const kernel& c, int to, int from, double x) {
  if (to == from) return x;
  const auto& i = c.body[static_cast<std::size_t>(to)];
  if (i.kind == kind::literal) return is_float(i.type) ? i.literal.f : static_cast<double>(i.literal.i);
  if (i.kind != kind::compute || ir::row(i.code).rule == ir::dtype_rule::random) return std::nullopt;
  double args[3] = {0, 0, 0};
  for (std::size_t a = 0; a < i.args.size(); ++a) {
    const auto v = applied(c, i.args[a], from, x);
    if (!v) return std::nullopt;
    args[a] = *v;
  }
  if (ir::row(i.code).rule == ir::dtype_rule::conversion)
    return is_float(i.type) ? std::optional(args[0]) : std::nullopt;
  try {
    return ir::detail::pointwise_scalar<double>(i.code, args[0], args[1], args[2]);
  } catch (const internal_error&) {
    return std::nullopt;
  }
}

/// The activation from one instruction to another, recognised by its values.
inline std::optional<blas_activation> activation(const kernel& c, int to, int from) {
  bool none = true, relu = true, gelu = true;
  for (const double x : {-20.0, -7.5, -3.0, -1.5, -0.7, -0.1, -1e-3, 0.0, 1e-3, 0.2, 0.6, 1.1, 2.5, 6.0, 30.0}) {
    const auto y = applied(c, to, from, x);
    if (!y) return std::nullopt;
    auto near = [&](double want) { return std::fabs(*y - want) <= 2e-7 * (1 + std::fabs(want)); };
    none = none && near(x);
    relu = relu && near(x > 0 ? x : 0);
    gelu = gelu && near(0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
  }
  if (none) return blas_activation::none;
  if (relu) return blas_activation::relu;
  if (gelu) return blas_activation::gelu_tanh;
  return std::nullopt;
}

/// The types and extents of a kernel's call, if a library supports them.
inline std::optional<blas_call> sized_call(const kernel& c, const contraction& p) {
  if (c.stores.size() != 1 || p.a.buffer < 0 || p.b.buffer < 0) return std::nullopt;
  auto type_of = [&](int b) { return c.buffers[static_cast<std::size_t>(b)].type; };
  const store& s = c.stores[0];
  blas_call call;
  call.type = type_of(p.a.buffer);
  call.result = type_of(s.at.buffer);
  if (!is_float(call.type) || type_of(p.b.buffer) != call.type) return std::nullopt;
  if (call.result != call.type && call.result != dtype::f32) return std::nullopt;
  const auto m_axis = walked(c, p.a.at, p.m), n_axis = walked(c, p.b.at, p.n), k_axis = walked(c, p.a.at, p.k);
  if (!m_axis || !n_axis || !k_axis || s.accumulate) return std::nullopt;
  call.m = m_axis->extent;
  call.n = n_axis->extent;
  call.k = k_axis->extent;
  for (const int a : p.k)
    if (const dim& e = extent_of(c, a); !e.is_number() || e.is(0)) return std::nullopt;
  return call;
}

/// Finds the places of a call's matrices: all batches in one call, or else, if `may_repeat`, with the fewest leading axes as
/// calls.
inline bool place_matrices(const kernel& c, const contraction& p, bool may_repeat, blas_call& call) {
  const store& s = c.stores[0];
  const std::span<const int> batch = p.batch;
  for (std::size_t repeated = 0; repeated <= (may_repeat ? batch.size() : 0); ++repeated) {
    const auto again = walked(c, s.at.at, batch.first(repeated)), rest = walked(c, s.at.at, batch.subspan(repeated));
    call.a = call.b = call.out = {};
    if (!again || !rest || !operand(c, p.a, batch, p.m, p.k, repeated, call.a) ||
        !operand(c, p.b, batch, p.k, p.n, repeated, call.b) || !operand(c, s.at, batch, p.m, p.n, repeated, call.out))
      continue;
    call.batch = rest->extent;
    call.repeat = again->extent;
    // The result's matrices must not overlap.
    if (!call.out.transpose && (call.batch == 1 || call.out.batch != 0) && call.repeat <= 64) return true;
  }
  return false;
}

/// True if a call has the bias and the activation of the stored value. Instruction `sum` adds a vector of columns to the
/// contraction.
inline bool ends_with_bias(const kernel& c, int sum, const contraction& p, blas_call& call) {
  const auto& added = c.body[static_cast<std::size_t>(sum)];
  if (added.kind != kind::compute || added.code != ir::op::add) return false;
  for (int side = 0; side < 2; ++side) {
    const int other = uncast(c, added.args[static_cast<std::size_t>(1 - side)]);
    const auto& load = c.body[static_cast<std::size_t>(other)];
    if (uncast(c, added.args[static_cast<std::size_t>(side)]) != p.reduce || load.kind != kind::load ||
        is_guarded(load))
      continue;
    const auto along = walked(c, load.at.at, p.n);
    const auto offset = load.at.at.offset.number();
    bool fixed = load.at.at.index < 0 && load.type == call.result;
    for (const auto* axes : {&p.batch, &p.m})
      for (const int a : *axes) fixed = fixed && load.at.at.stride[static_cast<std::size_t>(a)].is(0);
    if (!fixed || !along || !offset || (along->step != 1 && call.n > 1)) continue;
    if (const auto after = activation(c, c.stores[0].value, sum)) {
      call.bias = load.at.buffer;
      call.bias_offset = *offset;
      call.after = *after;
      return true;
    }
  }
  return false;
}

}  // namespace detail

/// The call that does the work of a kernel whose only sum is the contraction `p`, if there is one. If its matrices are not at
/// one distance, it is several calls, if `may_repeat`. Extents must be numbers.
SINTER_API std::optional<blas_call> as_blas(const kernel& c, const contraction& p, bool may_repeat = false) {
  auto call = detail::sized_call(c, p);
  if (!call || !detail::place_matrices(c, p, may_repeat, *call)) return std::nullopt;
  for (std::size_t i = 0; i < c.body.size(); ++i)
    if (detail::ends_with_bias(c, static_cast<int>(i), p, *call)) return call;
  const auto after = detail::activation(c, c.stores[0].value, p.reduce);
  if (!after) return std::nullopt;
  call->after = *after;
  return call;
}

/// The same for a kernel with a `product`; nothing for other kernels.
SINTER_API std::optional<blas_call> as_blas(const kernel& c, bool may_repeat = false) {
  const auto p = product_of(c);
  return p ? as_blas(c, *p, may_repeat) : std::nullopt;
}

/// A product so narrow that the library sums parts of it in a separate launch.
inline bool is_narrow(const product_extents& e) { return e.n.number().value_or(17) <= 16; }

/// True for a product that a kernel does faster, with its epilogue, than the library and another launch. It runs on tensor
/// cores, in one wave of tiles of 64 by 64 (H200): few terms, and f32 that may be rounded to tf32.
inline bool is_small_product(const kernel& c, std::span<const std::int64_t> sizes, const target& t) {
  const product& p = c.products[0];
  if (!t.tf32 || p.type != dtype::f32 || !p.within.empty()) return false;
  for (const auto* operand : {&p.a, &p.b})
    if (c.buffers[static_cast<std::size_t>(operand->buffer)].type != dtype::f32) return false;
  const product_extents e = extents_of(with_sizes(c, sizes));
  const std::int64_t max_terms = is_narrow(e) ? 1024 : 512;
  const auto tiles = [](const dim& e) { return dim((e.number().value_or(1 << 20) + 63) / 64); };
  return e.m.number().value_or(0) >= 8 && e.n.number().value_or(0) >= 8 &&
         e.k.number().value_or(max_terms + 1) <= max_terms &&
         (tiles(e.m) * tiles(e.n) * e.batch).number().value_or(t.multiprocessors + 1) <= t.multiprocessors;
}

}  // namespace sinter::engine::plan
