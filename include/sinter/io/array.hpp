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

[[noreturn]] inline void fail_file(const char* op, const std::string& path, const std::string& what, location at) {
  throw system_error("[" + std::string(at.op ? at.op : op) + "] " + sinter::detail::located(path + ": " + what, at));
}

/// Text of a file in a message: short, and without control characters.
inline std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= 80) return out + "...";
    out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  }
  return out;
}

inline std::string shape_text(std::span<const std::int64_t> extents) {
  std::string out = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) out += (i ? ", " : "") + std::to_string(extents[i]);
  return out + (extents.size() == 1 ? ",)" : ")");
}
inline std::string kind_text(dtype type, std::span<const std::int64_t> extents) {
  return std::string(dtype_name(type)) + " " + shape_text(extents);
}

/// Bytes of elements of these extents; false where there are too many to be counted, or an extent is negative. Those of an
/// axis of extent 0 count as others do: strides are products of them.
inline bool count_bytes(std::span<const std::int64_t> extents, std::size_t item, std::size_t& bytes) {
  std::int64_t n = static_cast<std::int64_t>(item);
  bool empty = false;
  for (const std::int64_t e : extents) {
    if (e < 0 || (e > 0 && __builtin_mul_overflow(n, e, &n))) return false;
    empty |= e == 0;
  }
  bytes = empty ? 0 : static_cast<std::size_t>(n);
  return true;
}

/// A part of a block, with which it lives. A part in memory of its own, so that no other tensor refers to the handle.
inline storage part_of(storage whole, std::byte* data, std::size_t bytes) {
  struct part : sinter::detail::block {
    storage whole;
  };
  auto* const b = new part;
  b->whole = std::move(whole);
  b->data = data;
  b->bytes = bytes;
  b->release = [](sinter::detail::block* x) noexcept { delete static_cast<part*>(x); };
  return storage(b);
}

/// Fresh elements, uninitialised.
inline array make_array(dtype type, std::vector<std::int64_t> extents) {
  array out;
  out.type = type;
  out.extents = std::move(extents);
  out.memory = engine::allocate(static_cast<std::size_t>(out.numel()) * size_of(type));
  out.data = static_cast<std::byte*>(out.memory.data());
  return out;
}

/// A copy of bytes that lie in row-major order.
inline array copied_array(dtype type, std::vector<std::int64_t> extents, const void* from) {
  array out = make_array(type, std::move(extents));
  if (const std::size_t n = out.bytes().size()) std::memcpy(out.data, from, n);
  return out;
}

inline sinter::detail::handle handle_of(const array& a) {
  sinter::detail::handle h;
  h.type = a.type;
  h.extents.rank = h.strides.rank = static_cast<int>(a.extents.size());
  std::int64_t step = 1;
  for (int i = h.extents.rank; i-- > 0;) {
    h.extents[i] = a.extents[static_cast<std::size_t>(i)];
    h.strides[i] = step;
    step *= a.extents[static_cast<std::size_t>(i)];
  }
  h.memory = a.memory;
  h.data = a.data;
  return h;
}

/// What is wrong with an array for a tensor of this kind; "" when nothing is.
inline std::string misfit(const array& a, dtype type, const dims& shape) {
  const bool same_rank = static_cast<int>(a.extents.size()) == shape.rank;
  bool fit = same_rank;
  for (int i = 0; fit && i < shape.rank; ++i)
    fit = shape[i].bits == dyn || shape[i] == a.extents[static_cast<std::size_t>(i)];
  if (fit && a.type == type) return "";
  std::string want = dtype_name(type);
  bool open = true;
  for (const dim& e : shape) open &= e.bits == dyn;
  want += open ? " of rank " + std::to_string(shape.rank) : " " + text::static_shape(shape);
  return "it holds " + kind_text(a.type, a.extents) + ", asked for is " + want;
}

/// The elements of a handle on the host, without a copy where they lie there in row-major order.
inline array array_of(sinter::detail::handle h, location at) {
  array out;
  out.type = h.type;
  for (const dim& e : h.extents) out.extents.push_back(e.bits);
  const std::size_t bytes = out.bytes().size();
  h = sinter::detail::contiguous(h, at);
  if (h.memory.where().is_cuda()) {
    out.memory = engine::allocate(bytes);
    engine::copy(out.memory, out.memory.data(), h.memory, h.data, bytes);
    out.data = static_cast<std::byte*>(out.memory.data());
  } else {
    h.memory.settle();
    out.memory = h.memory;
    out.data = h.data;
  }
  return out;
}

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
