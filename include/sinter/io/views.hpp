// io/views.hpp: tensors over, and copies of, arrays of other libraries: std::mdspan and similar classes, Eigen, vectors and
// spans.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "array.hpp"

namespace sinter::io {

/// std::mdspan, Kokkos::mdspan, … with strides.
template <class M>
concept mdspan_like = requires(const M& m) {
  { *m.data_handle() } -> std::convertible_to<typename M::value_type>;
  std::int64_t(m.extent(0));
  std::int64_t(m.stride(0));
  int(M::rank());
};

/// Eigen's matrices, arrays and vectors, and maps of them, in either order.
template <class M>
concept eigen_like = requires(const M& m) {
  { *m.data() } -> std::convertible_to<typename M::Scalar>;
  std::int64_t(m.rows());
  std::int64_t(m.cols());
  std::int64_t(m.innerStride());
  std::int64_t(m.outerStride());
  bool(M::IsRowMajor);
  bool(M::IsVectorAtCompileTime);
};

/// A vector, an array or a span: contiguous, with data and size.
template <class M>
concept range_like = !mdspan_like<M> && !eigen_like<M> && !tensor_like<M> && requires(M & m) {
  std::data(m);
  std::size(m);
};

namespace detail {

template <class M>
constexpr int rank_of_foreign() {
  if constexpr (mdspan_like<M>) return static_cast<int>(M::rank());
  else if constexpr (eigen_like<M>) return M::IsVectorAtCompileTime ? 1 : 2;
  else return 1;
}

template <class M>
constexpr auto foreign_data(M& m) {
  if constexpr (mdspan_like<std::remove_const_t<M>>) return m.data_handle();
  else return std::data(m);
}
template <eigen_like M>
constexpr auto foreign_data(M& m) {
  return m.data();
}

/// The type of elements; const if they are read-only.
template <class M>
using foreign_element = std::remove_pointer_t<decltype(foreign_data(std::declval<M&>()))>;

/// Extents and strides, the first axis first.
template <class M>
void foreign_layout(const M& m, dims& extents, dims& strides) {
  if constexpr (mdspan_like<M>) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(M::rank()); ++i) {
      extents.push(static_cast<std::int64_t>(m.extent(i)));
      strides.push(static_cast<std::int64_t>(m.stride(i)));
    }
  } else if constexpr (eigen_like<M>) {
    const std::int64_t inner = m.innerStride(), outer = m.outerStride();
    if constexpr (M::IsVectorAtCompileTime) {
      extents.push(static_cast<std::int64_t>(m.size()));
      strides.push(inner);
    } else {
      extents.push(static_cast<std::int64_t>(m.rows()));
      extents.push(static_cast<std::int64_t>(m.cols()));
      strides.push(M::IsRowMajor ? outer : inner);
      strides.push(M::IsRowMajor ? inner : outer);
    }
  } else {
    extents.push(static_cast<std::int64_t>(std::size(m)));
    strides.push(1);
  }
}

/// A handle to elements of another owner.
inline sinter::detail::handle borrowed(dtype type, const void* data, const dims& extents, const dims& strides) {
  sinter::detail::handle h;
  h.type = type;
  h.extents = extents;
  h.strides = strides;
  h.data = static_cast<std::byte*>(const_cast<void*>(data));
  std::int64_t last = 1;
  for (int i = 0; i < extents.rank; ++i)
    if (strides[i].bits > 0) last += (extents[i].bits - 1) * strides[i].bits;
  auto* const b = new sinter::detail::block;
  b->data = h.data;
  b->bytes = extents.numel() == 0 ? 0 : static_cast<std::size_t>(last) * size_of(type);
  b->release = [](sinter::detail::block* x) noexcept { delete x; };
  h.memory = storage(b);
  return h;
}

template <class M>
sinter::detail::handle borrowed(M& m) {
  dims extents, strides;
  foreign_layout<std::remove_const_t<M>>(m, extents, strides);
  return borrowed(dtype_of<std::remove_const_t<foreign_element<M>>>, foreign_data(m), extents, strides);
}

/// Whether a value owns its elements.
template <class M>
constexpr bool owns_elements() {
  if constexpr (eigen_like<M>) return std::is_same_v<typename M::PlainObject, M>;
  else if constexpr (mdspan_like<M>) return false;
  else return !std::is_same_v<decltype(std::data(std::declval<const M&>())), decltype(std::data(std::declval<M&>()))>;
}

inline void copy_elements_into(const sinter::detail::handle& to, const sinter::detail::handle& from, location at) {
  std::vector<std::int64_t> a, b;
  for (const dim& e : to.extents) a.push_back(e.bits);
  for (const dim& e : from.extents) b.push_back(e.bits);
  if (to.type != from.type || a != b)
    fail("io::copy_into",
         "a tensor " + kind_text(from.type, b) + " does not fit " + kind_text(to.type, a) +
             "; give it a place of its dtype and extents",
         at);
  sinter::detail::copy_elements(to, handle_of(array_of(from, at)));
}

}  // namespace detail

template <class M>
concept foreign_array = (mdspan_like<M> || eigen_like<M> || range_like<M>)&&requires {
  requires element<std::remove_const_t<detail::foreign_element<M>>>;
};

/// A tensor that shares the elements of a std::mdspan, an Eigen matrix or map, a vector or a span: `io::view(m)`. Vectors
/// have rank 1. The elements must stay in place as long as a tensor refers to them. For read-only elements use io::copy.
template <class M>
requires foreign_array<std::remove_cvref_t<M>>
auto view(M&& m, location at = location::current()) {
  using foreign = std::remove_reference_t<M>;
  using item = detail::foreign_element<foreign>;
  constexpr bool writable = !std::is_const_v<item>;
  constexpr bool stays = std::is_lvalue_reference_v<M> || !detail::owns_elements<foreign>();
  static_assert(writable, "sinter: [io::view] a tensor's elements can be written; copy these with io::copy");
  static_assert(stays, "sinter: [io::view] the elements go with this temporary; name it, or copy it with io::copy");
  return sinter::detail::typed<std::remove_const_t<item>,
                               dims(detail::rank_of_foreign<std::remove_const_t<foreign>>())>(detail::borrowed(m), at);
}

/// A row-major copy of such an array: `io::copy(m)`.
template <foreign_array M>
auto copy(const M& m, location at = location::current()) {
  using item = std::remove_const_t<detail::foreign_element<const M>>;
  const sinter::detail::handle from = detail::borrowed(m);
  const sinter::detail::handle to = sinter::detail::allocate("io::copy", from.type, from.extents, at);
  sinter::detail::copy_elements(to, from);
  return sinter::detail::typed<item, dims(detail::rank_of_foreign<M>())>(to, at);
}

/// Copies a tensor's elements, from any device, into the elements of `m`. user_error when dtypes or extents differ.
template <class M, tensor_like X>
requires foreign_array<std::remove_cvref_t<M>>
void copy_into(M&& m, const X& x, location at = location::current()) {
  using item = detail::foreign_element<std::remove_reference_t<M>>;
  static_assert(!std::is_const_v<item>, "sinter: [io::copy_into] these elements cannot be written");
  detail::copy_elements_into(detail::borrowed(m), sinter::detail::untyped(x, at.in("io::copy_into")), at);
}

}  // namespace sinter::io
