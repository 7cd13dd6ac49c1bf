// A protobuf file as a tree that can be changed and written again: what the mutations of models work on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hostile {

/// Messages of ONNX, as far as mutations tell them apart.
enum class kind : std::uint8_t {
  none,
  model,
  graph,
  node,
  attribute,
  tensor,
  value,
  type,
  array,
  shape,
  axis,
  list,
  opset,
  function,
  entry
};

inline kind child_of(kind parent, std::uint32_t field) {
  switch (parent) {
    case kind::model:
      return field == 7 ? kind::graph : field == 8 ? kind::opset : field == 25 ? kind::function : kind::none;
    case kind::graph:
      return field == 1                                  ? kind::node
             : field == 5                                ? kind::tensor
             : field == 11 || field == 12 || field == 13 ? kind::value
                                                         : kind::none;
    case kind::node:
      return field == 5 ? kind::attribute : kind::none;
    case kind::attribute:
      return field == 5 || field == 10 ? kind::tensor : field == 6 || field == 11 ? kind::graph : kind::none;
    case kind::tensor:
      return field == 13 ? kind::entry : kind::none;
    case kind::value:
      return field == 2 ? kind::type : kind::none;
    case kind::type:
      return field == 1 ? kind::array : field == 4 || field == 9 ? kind::list : kind::none;
    case kind::array:
      return field == 2 ? kind::shape : kind::none;
    case kind::shape:
      return field == 1 ? kind::axis : kind::none;
    case kind::list:
      return field == 1 ? kind::type : kind::none;
    case kind::function:
      return field == 7 ? kind::node : field == 9 ? kind::opset : field == 11 ? kind::attribute : kind::none;
    default:
      return kind::none;
  }
}

/// One field: a number, bytes, or a message of fields.
struct part {
  std::uint32_t field = 0;
  int wire = 0;
  kind is = kind::none;
  std::uint64_t number = 0;
  std::string bytes;
  std::vector<part> inner;
};
using parts = std::vector<part>;

inline bool read_varint(std::string_view s, std::size_t& at, std::uint64_t& x) {
  x = 0;
  for (int shift = 0; at < s.size() && shift < 64; shift += 7) {
    const auto b = static_cast<unsigned char>(s[at++]);
    x |= static_cast<std::uint64_t>(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

/// The fields of a message; false where the bytes are none.
inline bool read_parts(std::string_view s, kind of, parts& out, int depth = 0) {
  for (std::size_t at = 0; at < s.size();) {
    part p;
    std::uint64_t key = 0;
    if (!read_varint(s, at, key) || key >> 35 != 0) return false;
    p.field = static_cast<std::uint32_t>(key >> 3);
    p.wire = static_cast<int>(key & 7);
    std::uint64_t length = p.wire == 1 ? 8 : 4;
    if (p.wire == 0) {
      if (!read_varint(s, at, p.number)) return false;
    } else if (p.wire == 1 || p.wire == 2 || p.wire == 5) {
      if (p.wire == 2 && !read_varint(s, at, length)) return false;
      if (length > s.size() - at) return false;
      p.bytes = s.substr(at, length);
      at += length;
      const kind k = p.wire == 2 ? child_of(of, p.field) : kind::none;
      if (k != kind::none && depth < 200 && read_parts(p.bytes, k, p.inner, depth + 1)) {
        p.is = k;
        p.bytes.clear();
      } else p.inner.clear();
    } else return false;
    out.push_back(std::move(p));
  }
  return true;
}

inline void put_varint(std::string& s, std::uint64_t v) {
  for (; v > 127; v >>= 7) s += static_cast<char>((v & 127) | 128);
  s += static_cast<char>(v);
}
inline std::string written(const parts& all) {
  std::string s;
  for (const part& p : all) {
    put_varint(s, static_cast<std::uint64_t>(p.field) << 3 | static_cast<std::uint64_t>(p.wire));
    if (p.wire == 0) {
      put_varint(s, p.number);
      continue;
    }
    const std::string inside = p.is == kind::none ? p.bytes : written(p.inner);
    if (p.wire == 2) put_varint(s, inside.size());
    s += inside;
  }
  return s;
}

}  // namespace hostile
