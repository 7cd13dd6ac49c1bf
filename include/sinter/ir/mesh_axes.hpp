// ir/mesh_axes.hpp: the axes of meshes, by name and number, and the placements of values along them.
#pragma once

#include <cstdint>
#include <string>

#include "../base/config.hpp"

namespace sinter::ir {

/// How the ranks of a mesh axis hold a value.
enum class placement : std::uint8_t {
  invariant,   ///< one computation, repeated by each rank
  replicated,  ///< equal on all ranks, each of which uses it in its own way
  varying,     ///< each rank has its own
  partial,     ///< the value is the sum of the ranks' values
};

constexpr const char* name(placement p) {
  constexpr const char* names[] = {"invariant", "replicated", "varying", "partial"};
  return names[static_cast<int>(p)];
}

/// The placement of cotangents: replicated and partial are each other's.
constexpr placement dual(placement p) {
  return p == placement::replicated ? placement::partial : p == placement::partial ? placement::replicated : p;
}

/// Whether ranks convert a value without communication. Its derivative may communicate.
constexpr bool converts(placement from, placement to) {
  return from == to || (from == placement::invariant && to == placement::replicated) ||
         (from == placement::replicated && to == placement::varying) ||
         (from == placement::varying && to == placement::partial);
}

/// The number of an axis in attributes: equal names have equal numbers in a process. Texts of graphs have the name.
SINTER_API std::int64_t mesh_axis_number(const std::string& name);
SINTER_API const std::string& mesh_axis_name(std::int64_t number);

}  // namespace sinter::ir
