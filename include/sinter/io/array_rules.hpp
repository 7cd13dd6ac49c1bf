// io/array_rules.hpp: the definitions for array.hpp; compiled once.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "array.hpp"

namespace sinter::io::detail {

[[noreturn]] SINTER_API void fail_file(const char* op, const std::string& path, const std::string& what, location at) {
  throw system_error("[" + std::string(at.op ? at.op : op) + "] " + sinter::detail::located(path + ": " + what, at));
}

SINTER_API std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= 80) return out + "...";
    out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  }
  return out;
}

SINTER_API std::string shape_text(std::span<const std::int64_t> extents) {
  std::string out = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) out += (i ? ", " : "") + std::to_string(extents[i]);
  return out + (extents.size() == 1 ? ",)" : ")");
}

SINTER_API std::string kind_text(dtype type, std::span<const std::int64_t> extents) {
  return std::string(dtype_name(type)) + " " + shape_text(extents);
}

SINTER_API bool count_bytes(std::span<const std::int64_t> extents, std::size_t item, std::size_t& bytes) {
  std::int64_t n = static_cast<std::int64_t>(item);
  bool empty = false;
  for (const std::int64_t e : extents) {
    if (e < 0 || (e > 0 && __builtin_mul_overflow(n, e, &n))) return false;
    empty |= e == 0;
  }
  bytes = empty ? 0 : static_cast<std::size_t>(n);
  return true;
}

SINTER_API storage part_of(storage whole, std::byte* data, std::size_t bytes) {
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

SINTER_API array make_array(dtype type, std::vector<std::int64_t> extents) {
  array out;
  out.type = type;
  out.extents = std::move(extents);
  out.memory = engine::allocate(static_cast<std::size_t>(out.numel()) * size_of(type));
  out.data = static_cast<std::byte*>(out.memory.data());
  return out;
}

SINTER_API array copied_array(dtype type, std::vector<std::int64_t> extents, const void* from) {
  array out = make_array(type, std::move(extents));
  if (const std::size_t n = out.bytes().size()) std::memcpy(out.data, from, n);
  return out;
}

SINTER_API sinter::detail::handle handle_of(const array& a) {
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
SINTER_API sinter::detail::handle handle_of(const engine::captured& c) {
  sinter::detail::handle h;
  h.type = c.type;
  for (std::size_t d = 0; d < c.extents.size(); ++d) {
    h.extents.push(c.extents[d]);
    h.strides.push(c.strides[d]);
  }
  h.memory = c.memory;
  h.data = static_cast<std::byte*>(c.data);
  return h;
}

SINTER_API std::string misfit(const array& a, dtype type, const dims& shape) {
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

SINTER_API array array_of(sinter::detail::handle h, location at) {
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
    h.memory.wait();
    out.memory = h.memory;
    out.data = h.data;
  }
  return out;
}

SINTER_API array converted(const array& a, dtype to) {
  if (a.type == to) return a;
  array out = make_array(to, a.extents);
  const auto n = static_cast<std::size_t>(a.numel());
  const bool whole = !is_float(a.type) && !is_float(to);
  visit_dtype(a.type, [&]<class From>(std::type_identity<From>) {
    const std::byte* p = a.data;
    std::vector<double> wide(whole ? 0 : n);
    std::vector<std::int64_t> integers(whole ? n : 0);
    for (std::size_t i = 0; i < n; ++i, p += sizeof(From)) {
      From x;
      std::memcpy(&x, p, sizeof x);
      if (whole) integers[i] = static_cast<std::int64_t>(x);
      else wide[i] = static_cast<double>(x);
    }
    visit_dtype(to, [&]<class To>(std::type_identity<To>) {
      std::byte* q = out.data;
      for (std::size_t i = 0; i < n; ++i, q += sizeof(To)) {
        const To y = whole ? static_cast<To>(integers[i]) : static_cast<To>(wide[i]);
        std::memcpy(q, &y, sizeof y);
      }
    });
  });
  return out;
}

}  // namespace sinter::io::detail
