// front/functions/bounded.hpp: the bound and the fill of results whose size depends on values.
#pragma once

#include <optional>
#include <type_traits>

#include "../tensor/expr.hpp"

namespace sinter {

/// The optional fill of surplus places; user_error for a number that T cannot hold.
template <class T>
struct fill_value {
  bool given = false;
  T value{};

  constexpr fill_value() = default;
  template <class Arg>
  requires std::is_convertible_v<const Arg&, T>
  constexpr fill_value(const Arg& x, location at = location::current()) : given(true), value(static_cast<T>(x)) {
    detail::check_number<T>("fill", x, "give one that does", at);
  }
};

/// For functions whose result size depends on values: `{.size = n}` keeps the first n elements, or appends `fill` up to n.
/// Without a size the count is read; in a compiled function this ends the graph, as item() does.
template <class T>
struct bounded {
  std::optional<dim> size = {};
  fill_value<T> fill = {};
};

}  // namespace sinter
