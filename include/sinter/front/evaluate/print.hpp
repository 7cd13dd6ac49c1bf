// front/evaluate/print.hpp: tensors as text: nested brackets, long axes shortened to their ends.
#pragma once

#include <iosfwd>
#include <string>

#include "evaluate.hpp"

namespace sinter {

/// Options of printing.
struct print_options {
  int precision = -1;             ///< digits after the point, 0 to 64; below 0 enough to read the number back
  std::int64_t threshold = 1000;  ///< a tensor with more elements shows only the ends of long axes
  std::int64_t edge_items = 3;    ///< number of items at each end
};

namespace detail {

inline constinit thread_local print_options printing;

}  // namespace detail

/// Applies print options to this thread until the end of the scope: `const print_scope short_ones({.precision = 3});`.
/// Scopes nest. user_error for options out of range.
class print_scope {
 public:
  explicit print_scope(print_options how, location at = location::current()) : before_(detail::printing) {
    if (how.precision > 64 || how.threshold < 0 || how.edge_items < 0)
      fail("print_scope", "needs a precision of at most 64, a threshold and edge_items of 0 or more", at);
    detail::printing = how;
  }
  ~print_scope() { detail::printing = before_; }
  print_scope(const print_scope&) = delete;
  print_scope& operator=(const print_scope&) = delete;

 private:
  print_options before_;
};

namespace detail {

template <class T>
std::string element_text(T x, int precision = -1) {
  if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  else if constexpr (is_float(dtype_of<T>)) {
    if (x != x) return "nan";
    if (precision >= 0) {
      if constexpr (std::is_same_v<T, double>) return text::rounded(x, precision);
      else return text::rounded(static_cast<double>(static_cast<float>(x)), precision);
    }
    if constexpr (std::is_same_v<T, double>) return text::number(x);
    else return text::number(static_cast<float>(x));
  } else return std::to_string(x);
}

template <class T>
void print_axis(std::string& out, const T* p, const std::int64_t* extents, const std::int64_t* strides, int rank,
                int depth, bool shorten, const print_options& how) {
  if (rank == 0) {
    out += element_text(*p, how.precision);
    return;
  }
  out += '[';
  for (std::int64_t i = 0; i < *extents; ++i) {
    if (i > 0) out += rank == 1 ? std::string(", ") : ",\n" + std::string(static_cast<std::size_t>(depth) + 1, ' ');
    if (shorten && how.edge_items < (*extents + 1) / 2 && i == how.edge_items) {
      out += "…";
      i = *extents - how.edge_items - 1;
      continue;
    }
    print_axis(out, p + i * *strides, extents + 1, strides + 1, rank - 1, depth + 1, shorten, how);
  }
  out += ']';
}

}  // namespace detail

/// "f32(2, 3) [[1, 2, 3],\n [4, 5, 6]]". Large tensors show their ends only, or as a print_scope sets it. A traced tensor
/// breaks the graph.
template <tensor_like E>
std::string to_string(const E& e, location at = location::current()) {
  const auto x = detail::access::on_host(detail::evaluate(e, at), "printing", at);
  const auto* data = detail::access::data(x);
  std::string out = std::string(dtype_name(dtype_of<typename E::value_type>)) + detail::shape_text(x.shape()) + ' ';
  detail::print_axis(out, data, detail::as_numbers(x.shape().data()), detail::as_numbers(x.strides().data()), E::rank,
                     0, x.numel() > detail::printing.threshold || x.numel() == 0, detail::printing);
  return out;
}

/// Writes to_string(x). It is a template on the character traits, so that sinter need not include <ostream>.
template <class Traits, tensor_like E>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const E& e) {
  return out << to_string(e, location{});
}

/// Extents as "(2, 3)".
template <class Traits, std::size_t R>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const std::array<dim, R>& extents) {
  return out << detail::shape_text(extents);
}
template <class Traits, std::same_as<dim> Extent>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const Extent& extent) {
  return out << extent.text();
}

}  // namespace sinter
