// ir/axis_names.hpp: the numbers of mesh axes' names: the definitions for mesh_axes.hpp.
#pragma once

#include <deque>
#include <mutex>

#include "mesh_axes.hpp"

namespace sinter::ir {

namespace detail {
struct axis_names {
  std::mutex mutex;
  std::deque<std::string> all;  ///< references to elements stay valid
};
inline axis_names& names_of_axes() {
  static auto& names = *new axis_names;  // threads may outlive statics
  return names;
}
}  // namespace detail

SINTER_API std::int64_t mesh_axis_number(const std::string& name) {
  auto& names = detail::names_of_axes();
  const std::lock_guard lock(names.mutex);
  for (std::size_t i = 0; i < names.all.size(); ++i)
    if (names.all[i] == name) return static_cast<std::int64_t>(i);
  names.all.push_back(name);
  return static_cast<std::int64_t>(names.all.size()) - 1;
}

SINTER_API const std::string& mesh_axis_name(std::int64_t number) {
  auto& names = detail::names_of_axes();
  const std::lock_guard lock(names.mutex);
  return names.all.at(static_cast<std::size_t>(number));
}

}  // namespace sinter::ir
