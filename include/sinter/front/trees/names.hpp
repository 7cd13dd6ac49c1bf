// front/trees/names.hpp: the names of a struct's fields, from the compiler.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>

#include <boost/hana/accessors.hpp>
#include <boost/hana/core/to.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/unpack.hpp>

#include "../../base/config.hpp"
#include "fields.hpp"

namespace sinter::detail {

/// A text that ends with "…::name)}]" or "….name}]".
template <class T, std::size_t I, auto Field>
constexpr const char* field_text() {
#if defined(__GNUC__)
  return __PRETTY_FUNCTION__;
#else
  return nullptr;
#endif
}

/// The names of an adapted struct's fields; empty for other types.
template <class T>
constexpr auto field_names() {
  using named = typename struct_behind<T>::type;
  if constexpr (adapted_struct<named>) {
    return boost::hana::unpack(boost::hana::accessors<named>(), [](const auto&... field) {
      return std::array<const char*, sizeof...(field)>{boost::hana::to<const char*>(boost::hana::first(field))...};
    });
  } else {
    return std::array<const char*, 0>{};
  }
}

/// The text from which field_of extracts the name of field I; null if the compiler does not provide it.
template <class T, std::size_t I>
constexpr const char* name_text() {
  using named = typename struct_behind<T>::type;
  if constexpr (adapted_struct<named>) return field_names<named>()[I];
  else if constexpr (has_field_address<T, I>) return field_text<T, I, address_of_field<T, I>()>();
  else return nullptr;
}

/// The name at the end of such a text. (tree_rules.hpp)
SINTER_API std::string field_of(const char* text);

/// "[3]", or with a field's text ".epoch". (tree_rules.hpp)
SINTER_API std::string step_text(const char* name, std::size_t index);

}  // namespace sinter::detail
