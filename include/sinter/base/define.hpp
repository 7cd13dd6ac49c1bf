// base/define.hpp: the definitions that the other headers of this room only declare; the compiled engine includes it once.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>

#include "callback.hpp"
#include "device.hpp"
#include "dims.hpp"
#include "error.hpp"
#include "extent.hpp"
#include "kept.hpp"
#include "local_list.hpp"
#include "shape_errors.hpp"
#include "text.hpp"

namespace sinter {

namespace detail {
SINTER_API std::shared_ptr<void> shared(void* x, void (*destroy)(void*)) { return {x, destroy}; }

SINTER_API const char* kept(const char* text) {
  static constinit thread_local const char* last = "";  // most nodes of a trace are from one file
  if (!text || text == last) return text;
  if (std::strcmp(text, last) == 0) return last;
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;  // references to the names may outlive statics
  const std::lock_guard lock(mutex);
  return last = all.emplace(text).first->c_str();
}

SINTER_API std::string located(const std::string& message, location at) {
  // Compilers spell the path of a header as an including header did.
  if (std::string_view(at.file).ends_with("/base/callback.hpp")) at = last_call;
  if (at.line == 0) return message;
  return message + " (at " + at.file + ":" + std::to_string(at.line) + ")";
}
}  // namespace detail

[[noreturn]] SINTER_API void fail(const std::string& op, const std::string& message, location at) {
  throw user_error(detail::located("[" + (at.op ? at.op : op) + "] " + message, at));
}
[[noreturn]] SINTER_API void fail(const char* op, const char* message, location at) {
  fail(std::string(op), std::string(message), at);
}

SINTER_API std::string device::text() const { return is_cuda() ? "cuda(" + std::to_string(index) + ")" : "cpu"; }

namespace detail {

/// Memory for long lists. It is trivial, so that it stays readable while the thread's objects are destroyed.
struct local_memory {
  char* begin;
  std::size_t size, used;
  std::size_t live, most;  ///< bytes of all lists, on the heap too: now, and at the peak
  bool ended;
};
inline constinit thread_local local_memory local_lists{};

struct local_memory_end {
  ~local_memory_end() {
    ::operator delete(local_lists.begin);
    local_lists = {};
    local_lists.ended = true;
  }
};

SINTER_API void* take_local(std::size_t bytes) {
  local_memory& m = local_lists;
  const bool fits = bytes <= m.size - m.used;
  void* const at = fits ? m.begin + m.used : ::operator new(bytes);
  if (fits) m.used += bytes;
  m.live += bytes;
  m.most = std::max(m.most, m.live);
  return at;
}
SINTER_API void give_local(void* at, std::size_t bytes) noexcept {
  local_memory& m = local_lists;
  const auto first = reinterpret_cast<std::uintptr_t>(m.begin), its = reinterpret_cast<std::uintptr_t>(at);
  if (its - first >= m.size) ::operator delete(at);
  else if (its - first + bytes == m.used) m.used -= bytes;  // else it is below the list of a waiting fiber
  m.live -= bytes;
  if (m.live > 0) return;
  m.used = 0;
  if (m.most <= m.size || m.ended) return;
  static thread_local local_memory_end end;
  ::operator delete(m.begin);
  m.begin = static_cast<char*>(::operator new(m.most, std::nothrow));
  m.size = m.begin ? m.most : 0;
}

SINTER_API size_arithmetic*& current_sizes() {
  static thread_local size_arithmetic* current = nullptr;
  return current;
}

/// The size arithmetic of the current trace, to which symbolic extents belong.
inline size_arithmetic& sizes_here() {
  if (size_arithmetic* const here = current_sizes()) return *here;
  fail("size",
       "an extent of a traced tensor is used after its trace ended, or by another thread; return what depends on it "
       "from the traced "
       "function instead");
}
SINTER_API dim combine_sizes(size_op what, dim a, dim b) { return sizes_here().combine(what, a, b); }
SINTER_API bool compare_sizes(size_relation what, dim a, dim b) { return sizes_here().compare(what, a, b); }
SINTER_API std::int64_t fixed_size(dim a) { return sizes_here().fix(a); }
SINTER_API std::int64_t present_size(dim a) { return sizes_here().present(a); }
SINTER_API dim size_read_at(dim a, location where) { return sizes_here().read_at(a, where); }

[[noreturn]] SINTER_API void fail_zero_divisor(std::int64_t a) {
  fail("size", std::to_string(a) + " is divided by an extent of 0; test the extent first");
}
[[noreturn]] SINTER_API void fail_size_overflow(std::int64_t a, const char* by, std::int64_t b) {
  fail("size", std::to_string(a) + " " + by + " " + std::to_string(b) +
                   " is beyond what an extent may be; use smaller extents");
}

}  // namespace detail

SINTER_API std::string dim::text() const {
  return is_symbolic() ? detail::sizes_here().text(*this) : std::to_string(bits);
}

namespace text {

SINTER_API std::string number(double x) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
}
SINTER_API std::string number(float x) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
}

SINTER_API std::string rounded(double x, int digits) {
  const double size = x < 0 ? -x : x;
  if (!(size <= std::numeric_limits<double>::max())) return number(x);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e8);
  char buffer[400];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific, digits);
  std::string out(buffer, end.ptr);
  const std::size_t e = out.find('e');
  std::string exponent = e == std::string::npos ? "" : out.substr(e);
  out.resize(out.size() - exponent.size());
  if (out.find('.') != std::string::npos) {
    out.resize(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return (out == "-0" && size != 0 ? "0" : out) + exponent;
}

SINTER_API std::string shape(const dims& d) {
  std::string out = "(";
  for (int i = 0; i < d.rank; ++i) out += (i ? ", " : "") + d[i].text();
  return out + (d.rank == 1 ? ",)" : ")");
}
SINTER_API std::string static_shape(const dims& d) {
  std::string out = "(";
  for (int i = 0; i < d.rank; ++i) out += (i ? ", " : "") + (d[i].bits == dyn ? std::string("dyn") : d[i].text());
  return out + (d.rank == 1 ? ",)" : ")");
}

}  // namespace text

namespace detail {

[[noreturn]] SINTER_API void fail_ensure(const char* what, location at) {
  throw internal_error(located(std::string("internal error: ") + what, at));
}
[[noreturn]] SINTER_API void fail_ragged(std::int64_t length, std::int64_t expected, location at) {
  fail("tensor",
       "nested braces are ragged: a list of " + std::to_string(length) + " among lists of " + std::to_string(expected) +
           "; give lists of one length",
       at);
}
[[noreturn]] SINTER_API void fail_static_shape(const char* op, const dims& shape, const dims& extents, location at) {
  fail(op,
       "a tensor of static shape " + text::static_shape(shape) + " cannot hold extents " + text::shape(extents) +
           "; give extents that fit, or declare them dyn",
       at);
}
[[noreturn]] SINTER_API void fail_donation(const std::string& name, int index, std::size_t count, location at) {
  fail(name,
       "options.donate names argument " + std::to_string(index) + " of " + std::to_string(count) +
           "; they are numbered from 0",
       at);
}
SINTER_API std::string text_of_donation(location call) {
  return "donated to the call at " + std::string(call.file) + ":" + std::to_string(call.line) +
         " and holds nothing; read the call's result, or pass an lvalue or a copy to keep it";
}
[[noreturn]] SINTER_API void fail_memory(const char* op, const dims& extents, std::size_t bytes, location at) {
  throw system_error("[" + std::string(op) + "] " +
                     located(text::shape(extents) + ": out of memory: " + std::to_string(bytes) + " bytes (" +
                                 std::to_string(bytes >> 20) + " MiB) cannot be allocated",
                             at));
}
[[noreturn]] SINTER_API void fail_axis(const char* op, int axis, int rank, location at) {
  fail(op,
       "axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank) +
           "; axes are 0 to rank - 1, or negative from the end",
       at);
}
[[noreturn]] SINTER_API void fail_one_element(const char* op, const dims& extents, location at) {
  fail(op, "needs one element; the shape is " + text::shape(extents) + "; read all with to_vector(), or index one", at);
}
[[noreturn]] SINTER_API void fail_index(const dims& index, const dims& extents, location at) {
  std::string place;
  for (int i = 0; i < index.rank; ++i) place += (i ? ", " : "") + index[i].text();
  fail("element access",
       "index (" + place + (index.rank == 1 ? ",)" : ")") + " is out of range for shape " + text::shape(extents) +
           "; indices are 0 to extent - 1",
       at);
}
SINTER_API std::string hint_unassigned(const dims* shapes, int count) {
  for (const dims& d : std::span(shapes, static_cast<std::size_t>(count)))
    if (d.rank > 0 && std::all_of(d.begin(), d.end(), [](dim e) { return !e.is_symbolic() && e.bits == 0; }))
      return ". A default-constructed tensor has extents of 0: assign to it first";
  return "";
}
[[noreturn]] SINTER_API void fail_broadcast(const char* op, const dims* shapes, int count, location at) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i ? " and " : "") + text::shape(shapes[i]);
  fail(op,
       "shapes do not broadcast: " + list + "; extents must be equal or 1, counted from the last axis" +
           hint_unassigned(shapes, count),
       at);
}
[[noreturn]] SINTER_API void fail_traced(const char* op, location at) {
  fail(op,
       "the tensor is being traced and has no values here; return it from the traced function and read the result, "
       "or select with where(condition, a, b), cond and while_loop",
       at);
}
[[noreturn]] SINTER_API void fail_out_of_trace(out_of_trace why, location at) {
  constexpr const char* said[] = {
      "a tensor traced by another trace is used in this one; pass it as an argument",
      "a traced tensor is used after its trace ended; return it from the traced function instead",
      ("a traced tensor is used by another thread than the one that traces the function; compute in that thread, or "
       "start "
       "threads in what disable(f) or host_call runs"),
      ("a traced tensor is used where its trace does not see it; pass it as an argument to what disable(f) or "
       "host_call "
       "runs")};
  fail("tensor", said[static_cast<int>(why)], at);
}
[[noreturn]] SINTER_API void fail_undefined(const char* op, location at, location donated) {
  if (donated.line) fail(op, "the tensor was " + text_of_donation(donated), at);
  fail(op, "the tensor is default-constructed and holds nothing; assign to it first", at);
}
[[noreturn]] SINTER_API void fail_devices(const char* op, const dims& a, device a_where, const dims& b, device b_where,
                                          location at) {
  fail(op,
       "the operands are on different devices: " + text::shape(a) + " on " + a_where.text() + " and " + text::shape(b) +
           " on " + b_where.text() + "; move one of them with .to(device::" +
           (b_where.is_cuda() ? "cuda(" + std::to_string(b_where.index) + ")" : "cpu()") + ")",
       at);
}
[[noreturn]] SINTER_API void fail_on_gpu(const char* op, const dims& extents, device where, location at) {
  fail(op,
       "the tensor, " + text::shape(extents) + ", is on " + where.text() +
           "; copy it to the host first: x.to(device::cpu())",
       at);
}
[[noreturn]] SINTER_API void fail_moved_while_traced(location at) {
  fail("to",
       "a traced function runs on the device of its arguments and cannot move tensors; move them before the call, "
       "f(x.to(device)), or its results after it",
       at);
}

SINTER_API dim checked_numel(const char* op, const dims& extents, std::size_t element, location at) {
  bool empty = false, open = false;
  for (auto e : extents) {
    if (e < 0) fail(op, "extents must not be negative; one is " + e.text() + "; give extents of 0 or more", at);
    empty |= e == 0;
    open |= e.is_symbolic();
  }
  if (open) return extents.numel();
  std::int64_t n = static_cast<std::int64_t>(element);
  for (auto e : extents)
    if (e > 0 && __builtin_mul_overflow(n, e.bits, &n))
      fail(op, "too many elements: " + text::shape(extents) + "; give smaller extents", at);
  return empty ? 0 : n / static_cast<std::int64_t>(element);
}

}  // namespace detail
}  // namespace sinter
