// complex/print.hpp: complex tensors as text.
#pragma once

#include <iosfwd>
#include <string>

#include "functions.hpp"

namespace sinter {

namespace detail {

template <class T>
std::string complex_text(std::complex<T> z, int precision) {
  const std::string im = element_text(z.imag(), precision);
  return element_text(z.real(), precision) + (im[0] == '-' ? "" : "+") + im + "i";
}

/// Prints row-major elements from `p` on, as print_axis prints real ones.
template <class T>
void print_complex(std::string& out, const std::complex<T>* p, const dims& extents, int axis, bool shorten,
                   const print_options& how) {
  if (axis == extents.rank) {
    out += complex_text(*p, how.precision);
    return;
  }
  std::int64_t step = 1;
  for (int i = axis + 1; i < extents.rank; ++i) step *= std::int64_t(extents[i]);
  const std::int64_t n = extents[axis];
  out += '[';
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0)
      out +=
          axis + 1 == extents.rank ? std::string(", ") : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    if (shorten && how.edge_items < (n + 1) / 2 && i == how.edge_items) {
      out += "…";
      i = n - how.edge_items - 1;
      continue;
    }
    print_complex(out, p + i * step, extents, axis + 1, shorten, how);
  }
  out += ']';
}

}  // namespace detail

/// "complex64(2) [1+2i, 0-1i]". Large tensors show their ends only, or as a print_scope sets it.
template <complex_tensor X>
std::string to_string(const X& z, location at = location::current()) {
  const auto all = z.to_vector(at);
  std::string out = sizeof(typename X::real_type) == 4 ? "complex64" : "complex128";
  out += detail::shape_text(z.shape()) + ' ';
  detail::print_complex(out, all.data(), detail::to_dims(z.shape()), 0,
                        static_cast<std::int64_t>(all.size()) > detail::printing.threshold || all.empty(),
                        detail::printing);
  return out;
}
template <class Traits, complex_tensor X>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const X& z) {
  return out << to_string(z, location{});
}

}  // namespace sinter
