// data/idx_rules.hpp: the definitions for idx.hpp; compiled once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "../io/zip.hpp"
#include "idx.hpp"

namespace sinter::data {

namespace detail {

/// Reads the header of a file. Returns "", or the error.
inline std::string read_idx_header(std::span<const std::byte> file, io::detail::npy_header& h) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(file[i]); };
  if (file.size() < 4 || byte(0) != 0 || byte(1) != 0) return "is no .idx file";
  switch (byte(2)) {
    case 0x08:
      h.type = dtype::u8;
      break;
    case 0x09:
      h.type = dtype::i8;
      break;
    case 0x0b:
      h.type = dtype::i16;
      break;
    case 0x0c:
      h.type = dtype::i32;
      break;
    case 0x0d:
      h.type = dtype::f32;
      break;
    case 0x0e:
      h.type = dtype::f64;
      break;
    default:
      return "is no .idx file: elements of type " + std::to_string(byte(2));
  }
  const std::size_t rank = byte(3);
  h.begin = 4 + 4 * rank;
  if (rank > 64 || h.begin > file.size()) return "is cut short within its header";
  for (std::size_t i = 4; i < h.begin; i += 4)
    h.extents.push_back(byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3));
  if (!io::detail::count_bytes(h.extents, size_of(h.type), h.bytes) || h.bytes != file.size() - h.begin)
    return "has " + std::to_string(file.size() - h.begin) + " bytes of elements, and " +
           io::detail::kind_text(h.type, h.extents) + " has not";
  h.swapped = size_of(h.type) > 1;
  return "";
}

inline io::array parse_idx(const std::string& path, storage whole, location at) {
  const auto file = io::detail::bytes_of(whole);
  if (file.size() > 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b}) {
    std::string wrong;
    auto full = io::detail::inflated(file, 31, 1032 * static_cast<std::uint64_t>(file.size()), wrong);
    if (!wrong.empty()) io::detail::fail_file("data::read_idx", path, wrong, at);
    whole = io::detail::kept_bytes(std::move(full));
  }
  io::detail::npy_header h;
  if (const std::string wrong = read_idx_header(io::detail::bytes_of(whole), h); !wrong.empty())
    io::detail::fail_file("data::read_idx", path, wrong, at);
  return io::detail::elements_of(h, io::detail::bytes_of(whole), whole);
}

}  // namespace detail

SINTER_API io::array read_idx(const std::string& path, location at) {
  return detail::parse_idx(path, io::detail::map_file("data::read_idx", path, at), at);
}
SINTER_API io::array read_idx(std::span<const std::byte> file, location at) {
  return detail::parse_idx("bytes", io::detail::kept_bytes({file.begin(), file.end()}), at);
}

}  // namespace sinter::data
