// io/records.hpp: where arrays lie in a file of many, and what is to be written into one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npy.hpp"

namespace sinter::io::detail {

/// Where an array of a file is. Of .npz files dtype and extents are known when its header is read.
struct record {
  dtype type = dtype::f32;
  std::string type_name;  ///< of a dtype that no tensor has
  std::vector<std::int64_t> extents;
  std::size_t begin = 0, bytes = 0;  ///< in the file
  bool zipped = false, deflated = false;
  std::uint64_t full_bytes = 0;  ///< of what is deflated
  std::uint32_t sum = 0;         ///< the CRC-32 of what is zipped
};

using record_map = std::map<std::string, record, std::less<>>;

/// What is to be written under a name; elements of a GPU are fetched when their turn comes.
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
