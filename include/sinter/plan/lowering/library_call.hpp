// plan/lowering/library_call.hpp: the libraries that may do a kernel's work, in order of preference.
#pragma once

#include <array>
#include <optional>
#include <variant>

#include "library_convolution.hpp"
#include "library_product.hpp"

namespace sinter::engine::plan {

/// The call of a library, with a kernel's buffers.
using library_call = std::variant<blas_call, convolution_call>;

/// A library: its name, and its call for a kernel with known sizes, if the target has the library. With `may_repeat`, the call
/// may be several calls.
struct library_row {
  const char* name;
  std::optional<library_call> (*call_of)(const kernel& k, const target& t, bool may_repeat);
};

namespace detail {

inline std::optional<library_call> product_call(const kernel& k, const target& t, bool may_repeat) {
  if (!t.blas || !k.is_product() || !k.products[0].within.empty()) return std::nullopt;
  if (auto call = as_blas(k, may_repeat)) return *call;
  return std::nullopt;
}

/// The alignment of addresses for which the library is asked, in bytes.
inline constexpr std::int64_t convolution_alignment = 16;

/// Whether the first elements of all arrays of a call have addresses of that alignment.
inline bool is_aligned(const kernel& k, const convolution_call& call) {
  const auto at = [&](int buffer, std::int64_t offset) {
    if (buffer < 0) return true;
    const buffer_use& b = k.buffers[static_cast<std::size_t>(buffer)];
    const std::int64_t bytes = offset * static_cast<std::int64_t>(size_of(b.type));
    return b.alignment % convolution_alignment == 0 && bytes % convolution_alignment == 0;
  };
  return at(call.image, call.image_offset) && at(call.weights, call.weights_offset) &&
         at(call.result, call.result_offset) && at(call.bias, call.bias_offset);
}

/// As as_convolution() has it, if the target's library computes it.
inline std::optional<convolution_call> computed_convolution(const kernel& k, const target& t, bool reordered) {
  if (t.convolves == nullptr) return std::nullopt;
  auto call = as_convolution(k, reordered);
  if (!call || !is_aligned(k, *call)) return std::nullopt;
  call->what.tf32 = t.tf32 && call->what.type == dtype::f32;
  call->what.deterministic = t.deterministic;
  return t.convolves(call->what, t.device) ? call : std::nullopt;
}

inline std::optional<library_call> window_call(const kernel& k, const target& t, bool) {
  if (auto call = computed_convolution(k, t, false)) return *call;
  return std::nullopt;
}

}  // namespace detail

/// In the order of library_call's alternatives.
inline constexpr std::array<library_row, 2> libraries{
    {{"cuBLASLt", detail::product_call}, {"cuDNN", detail::window_call}}};

/// The first library's call that does the kernel's work. Extents must be numbers.
SINTER_API std::optional<library_call> as_library_call(const kernel& k, const target& t, bool may_repeat = false) {
  if (!k.is_product()) return std::nullopt;
  for (const library_row& row : libraries)
    if (auto call = row.call_of(k, t, may_repeat)) return call;
  return std::nullopt;
}

}  // namespace sinter::engine::plan
