// io/array.hpp: arrays whose dtype and rank are known at run time, as files hold them, and tensors made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../sinter.hpp"

namespace sinter::io {

/// Row-major elements in host memory, which `memory` keeps alive: a file's mapping, or a block of its own.
struct array {
  dtype type = dtype::f32;
  std::vector<std::int64_t> extents;
  storage memory;
  std::byte* data = nullptr;

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (const std::int64_t e : extents) n *= e;
    return n;
  }
  /// The elements as they lie in memory.
  std::span<const std::byte> bytes() const { return {data, static_cast<std::size_t>(numel()) * size_of(type)}; }
};

namespace detail {

[[noreturn]] SINTER_API void fail_file(const char* op, const std::string& path, const std::string& what, location at);

/// Text of a file for a message: short, and without control characters.
SINTER_API std::string shown(const std::string& text);

SINTER_API std::string shape_text(std::span<const std::int64_t> extents);
SINTER_API std::string kind_text(dtype type, std::span<const std::int64_t> extents);

/// The bytes of elements of these extents. False for an overflow or a negative extent. An axis of extent 0 counts as 1
/// towards an overflow, because strides are products of the extents.
SINTER_API bool count_bytes(std::span<const std::int64_t> extents, std::size_t item, std::size_t& bytes);

/// A part of a block, which keeps the block alive. It has its own handle, so that no other tensor refers to it.
SINTER_API storage part_of(storage whole, std::byte* data, std::size_t bytes);

/// Fresh elements, uninitialised.
SINTER_API array make_array(dtype type, std::vector<std::int64_t> extents);

/// A copy of bytes that lie in row-major order.
SINTER_API array copied_array(dtype type, std::vector<std::int64_t> extents, const void* from);

SINTER_API sinter::detail::handle handle_of(const array& a);
/// The elements of a trace's capture, or of a value that is read; its extents are numbers.
SINTER_API sinter::detail::handle handle_of(const engine::captured& c);

/// The reason why an array does not fit a tensor of this dtype and shape; "" if it fits.
SINTER_API std::string misfit(const array& a, dtype type, const dims& shape);

/// The elements of a handle on the host; no copy if they are there in row-major order.
SINTER_API array array_of(sinter::detail::handle h, location at);

/// Elements converted to another dtype: integers through 64 bits, other dtypes through double.
SINTER_API array converted(const array& a, dtype to);

}  // namespace detail

/// The elements of a tensor or an expression on the host, row-major; no copy if they are so already. user_error while traced.
template <tensor_like X>
array to_array(const X& x, location at = location::current()) {
  if (engine::current())
    fail("io::to_array", "a function is being traced; return the tensor from it and save the result", at);
  return detail::array_of(sinter::detail::untyped(x, at), at);
}

/// A tensor over the elements of an array, on the host: `to_tensor<float, 2>(a)`. user_error for another dtype or shape.
template <element T, dims Shape>
tensor<T, Shape> to_tensor(const array& a, location at = location::current()) {
  if (const std::string wrong = detail::misfit(a, dtype_of<T>, Shape); !wrong.empty())
    fail("io::to_tensor", wrong + "; ask for what it holds, and cast<T>(x) that", at);
  return sinter::detail::typed<T, Shape>(detail::handle_of(a), at);
}

}  // namespace sinter::io

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "array_rules.hpp"
#endif
