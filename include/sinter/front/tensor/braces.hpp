// front/tensor/braces.hpp: nested braces as lists of elements: their types, their extents, and the elements in row-major order.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "../../base/shape_errors.hpp"

namespace sinter::detail {

/// initializer_list nested R deep.
template <class T, int R>
struct nested {
  using type = T;
};
template <class T, int R>
requires(R > 0) struct nested<T, R> {
  using type = std::initializer_list<typename nested<T, R - 1>::type>;
};

/// The extents of nested lists; user_error when they are ragged.
template <class T, int R, class List>
void nested_extents(const List& list, dim* extents, bool first, location at) {
  const auto n = static_cast<std::int64_t>(list.size());
  if (first) *extents = n;
  else if (*extents != n) fail_ragged(n, *extents, at);
  if constexpr (R > 1)
    for (const auto& inner : list) {
      nested_extents<T, R - 1>(inner, extents + 1, first, at);
      first = false;
    }
}

template <class T, int R, class List>
T* nested_copy(const List& list, T* out) {
  for (const auto& inner : list) {
    if constexpr (R > 1) out = nested_copy<T, R - 1>(inner, out);
    else *out++ = inner;
  }
  return out;
}

}  // namespace sinter::detail
