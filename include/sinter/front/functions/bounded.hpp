// front/functions/bounded.hpp: how many elements a result has where values say so, and what fills it.
#pragma once

#include <optional>
#include <type_traits>

#include "../tensor/expr.hpp"

namespace sinter {

/// What fills a result's places that are too many, if anything was given; user_error for a number that T cannot hold.
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

/// Of functions whose results have as many elements as the values say: `{.size = n}` takes the first n of them, or adds some that
/// are `fill`. Without a size the count is read, which while compiling ends the graph so far, as item() does.
template <class T>
struct bounded {
  std::optional<dim> size = {};
  fill_value<T> fill = {};
};

}  // namespace sinter
