// io/array.hpp: elements whose dtype and rank are known when they are read: what files hold, and tensors of them.
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

/// Row-major elements in the host's memory, which `memory` keeps: of a file's mapping, or their own.
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

/// Text of a file in a message: short, and without control characters.
SINTER_API std::string shown(const std::string& text);

SINTER_API std::string shape_text(std::span<const std::int64_t> extents);
SINTER_API std::string kind_text(dtype type, std::span<const std::int64_t> extents);

/// Bytes of elements of these extents; false where there are too many to be counted, or an extent is negative. Those of an
/// axis of extent 0 count as others do: strides are products of them.
SINTER_API bool count_bytes(std::span<const std::int64_t> extents, std::size_t item, std::size_t& bytes);

/// A part of a block, with which it lives. A part in memory of its own, so that no other tensor refers to the handle.
SINTER_API storage part_of(storage whole, std::byte* data, std::size_t bytes);

/// Fresh elements, uninitialised.
SINTER_API array make_array(dtype type, std::vector<std::int64_t> extents);

/// A copy of bytes that lie in row-major order.
SINTER_API array copied_array(dtype type, std::vector<std::int64_t> extents, const void* from);

SINTER_API sinter::detail::handle handle_of(const array& a);

/// What is wrong with an array for a tensor of this kind; "" when nothing is.
SINTER_API std::string misfit(const array& a, dtype type, const dims& shape);

/// The elements of a handle on the host, without a copy where they lie there in row-major order.
SINTER_API array array_of(sinter::detail::handle h, location at);

/// Elements of another dtype: integers by way of 64 bits, others by way of double.
SINTER_API array converted(const array& a, dtype to);

}  // namespace detail

/// The elements of a tensor or an expression on the host, row-major: without a copy where they lie so. user_error while traced.
template <tensor_like X>
array to_array(const X& x, location at = location::current()) {
  if (engine::current())
    fail("io::to_array", "a function is being traced; return the tensor from it and save the result", at);
  return detail::array_of(sinter::detail::untyped(x, at), at);
}

/// A tensor over the elements of an array, on the host: `to_tensor<float, 2>(a)`. user_error when its dtype or shape is another one.
template <element T, dims Shape>
tensor<T, Shape> to_tensor(const array& a, location at = location::current()) {
  if (const std::string wrong = detail::misfit(a, dtype_of<T>, Shape); !wrong.empty())
    fail("io::to_tensor", wrong + "; ask for what it holds, and cast<T>(x) that", at);
  return sinter::detail::typed<T, Shape>(detail::handle_of(a), at);
}

}  // namespace sinter::io

// Header-only: whoever sees the declarations has the definitions as well.
#if !defined(SINTER_COMPILED)
#include "array_rules.hpp"
#endif
