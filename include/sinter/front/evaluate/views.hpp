// front/evaluate/views.hpp: movement on handles: new strides where the elements can stay, and a node while tracing.
#pragma once

#include <bit>
#include <optional>
#include <span>

#include "handle.hpp"

namespace sinter::detail::views {

/// A handle to x's elements under another layout.
SINTER_API handle with_layout(const handle& x, const dims& extents, const dims& strides, std::int64_t offset = 0);

/// Strides that give x's elements the extents `to` in row-major order without moving them, if such strides exist.
SINTER_API std::optional<dims> reshaped_strides(const handle& x, const dims& to);

SINTER_API handle reshape(const handle& x, const dims& to, location at);

SINTER_API handle permute(const handle& x, const op_shapes::axis_list& perm, location at);

/// The last two axes exchanged.
SINTER_API handle transpose(const handle& x, location at);

/// Broadcasts x to `to`, which has x's rank or more, aligned at the last axis; x's extents are to's or 1.
SINTER_API handle broadcast(const handle& x, const dims& to, location at);

SINTER_API handle slice(const handle& x, std::span<const op_shapes::range> ranges, location at);

SINTER_API handle slice_axis(const handle& x, int axis, const op_shapes::range& r, location at);

SINTER_API handle flip(const handle& x, const op_shapes::axis_list& axes, location at);

/// Stacks the parts along a new axis; user_error where extents differ.
SINTER_API handle stack(std::span<const handle> parts, int axis, location at);

SINTER_API handle concat(std::span<const handle> parts, int axis, location at);

/// x surrounded by low and high copies of `value`; widths are 0 or more.
SINTER_API handle pad(const handle& x, const dims& low, const dims& high, ir::scalar literal, const void* value,
                      bool fixed, location at);

/// The elements of x at starts + Σ factors·i, all within x. `factors` has a row for each axis of x, with a factor for each of
/// `extents`.
SINTER_API handle window(const handle& x, const dims& extents, const dims& starts,
                         std::span<const std::int64_t> factors, location at);

/// The transpose of window(x of `extents`, …): sums y into the elements that a window reads several times.
SINTER_API handle unwindow(const handle& y, const dims& extents, const dims& starts,
                           std::span<const std::int64_t> factors, location at);

/// to += from on the host, where `from` has the axes of a window of `to`. Both have one dtype; `to` is contiguous.
SINTER_API void add_windows(const handle& to, const handle& from, const dims& starts,
                            std::span<const std::int64_t> factors);

/// The elements with equal indices along axes i < j, which have one extent. The result lacks axis j.
SINTER_API handle diagonal(const handle& x, int i, int j, location at);

/// Joins axes [from, to) of x into one axis, and copies only if their strides require it.
SINTER_API handle joined_axes(const handle& x, int from, int to, location at);

/// The offset of the i-th index of the first `axes` axes.
SINTER_API std::int64_t batch_offset(const handle& x, int axes, std::int64_t i);

}  // namespace sinter::detail::views

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "view_rules.hpp"
#endif
