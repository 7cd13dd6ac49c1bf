// front/evaluate/print.hpp: tensors as text: nested brackets, long axes shortened to their ends.
#pragma once

#include <iosfwd>
#include <string>

#include "evaluate.hpp"

namespace sinter {

namespace detail {

/// Axes show their first and last three elements in a tensor of more than 1000, or of none, which may have any extents.
inline constexpr std::int64_t print_all = 1000, print_edge = 3;

template <class T>
std::string element_text(T x) {
  if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  else if constexpr (is_float(dtype_of<T>)) {
    if (x != x) return "nan";
    if constexpr (std::is_same_v<T, double>) return text::number(x);
    else return text::number(static_cast<float>(x));
  } else return std::to_string(x);
}

template <class T>
void print_axis(std::string& out, const T* p, const std::int64_t* extents, const std::int64_t* strides, int rank,
                int depth, bool shorten) {
  if (rank == 0) {
    out += element_text(*p);
    return;
  }
  out += '[';
  for (std::int64_t i = 0; i < *extents; ++i) {
    if (i > 0) out += rank == 1 ? std::string(", ") : ",\n" + std::string(static_cast<std::size_t>(depth) + 1, ' ');
    if (shorten && *extents > 2 * print_edge && i == print_edge) {
      out += "…";
      i = *extents - print_edge - 1;
      continue;
    }
    print_axis(out, p + i * *strides, extents + 1, strides + 1, rank - 1, depth + 1, shorten);
  }
  out += ']';
}

}  // namespace detail

/// "f32(2, 3) [[1, 2, 3],\n [4, 5, 6]]". Of a traced tensor it ends the graph so far.
template <tensor_like E>
std::string to_string(const E& e, location at = location::current()) {
  const auto x = detail::access::on_host(detail::evaluate(e, at), "printing", at);
  const auto* data = detail::access::data(x);
  std::string out = std::string(dtype_name(dtype_of<typename E::value_type>)) + detail::shape_text(x.shape()) + ' ';
  detail::print_axis(out, data, detail::as_numbers(x.shape().data()), detail::as_numbers(x.strides().data()), E::rank,
                     0, x.numel() > detail::print_all || x.numel() == 0);
  return out;
}

/// Writes to_string(x). A template on the character traits, so that <ostream> is the caller's affair.
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
