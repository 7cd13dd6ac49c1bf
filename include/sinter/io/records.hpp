// io/records.hpp: the places of arrays in a file, and the arrays to be written into one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npy.hpp"

namespace sinter::io::detail {

/// The place of an array in a file. In .npz files, dtype and extents are known once its header is read.
struct record {
  dtype type = dtype::f32;
  std::string type_name;  ///< set for a dtype that no tensor has
  std::vector<std::int64_t> extents;
  std::size_t begin = 0, bytes = 0;  ///< in the file
  bool zipped = false, deflated = false;
  std::uint64_t full_bytes = 0;  ///< size after inflating
  std::uint32_t sum = 0;         ///< CRC-32 of a zip entry
};

using record_map = std::map<std::string, record, std::less<>>;

/// An array to be written under a name; elements on a GPU are fetched when they are written.
struct named_leaf {
  std::string name;
  sinter::detail::handle value;

  std::vector<std::int64_t> extents() const {
    std::vector<std::int64_t> out;
    for (const dim& e : value.extents) out.push_back(e.bits);
    return out;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(value.extents.numel().bits) * size_of(value.type); }
};

}  // namespace sinter::io::detail
