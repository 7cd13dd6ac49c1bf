// jit/library/weights.hpp: the weights of an exported library as a safetensors file, in which each lies at a multiple of 64 bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "../../base/dtype.hpp"
#include "../../base/series.hpp"

namespace sinter::engine::detail {

/// A weight: its name in the file, and its elements.
struct library_weight {
  std::string name;
  dtype type = dtype::f32;
  series<std::int64_t> extents, strides;
  const char* data = nullptr;
  std::size_t place = 0;  ///< among the inputs of the graph
  std::int64_t at = 0;    ///< behind the file's header

  std::int64_t bytes() const {
    auto n = static_cast<std::int64_t>(size_of(type));
    for (const std::int64_t e : extents) n *= e;
    return n;
  }
};

/// The name of a dtype in a safetensors file.
inline const char* name_in_weights(dtype t) {
  switch (t) {
    case dtype::b8:
      return "BOOL";
    case dtype::i8:
      return "I8";
    case dtype::i16:
      return "I16";
    case dtype::i32:
      return "I32";
    case dtype::i64:
      return "I64";
    case dtype::u8:
      return "U8";
    case dtype::u16:
      return "U16";
    case dtype::u32:
      return "U32";
    case dtype::u64:
      return "U64";
    case dtype::f16:
      return "F16";
    case dtype::bf16:
      return "BF16";
    case dtype::f64:
      return "F64";
    case dtype::f8_e4m3:
      return "F8_E4M3";
    case dtype::f8_e5m2:
      return "F8_E5M2";
    default:
      return "F32";
  }
}

/// A text as a JSON string, and as a C string: both take these escapes.
inline std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

/// Sets the places of weights, and returns the file's header with its length. Bytes between weights are tensors of the file, too: its
/// readers want it without holes.
inline std::string place_weights(series<library_weight>& all, std::int64_t& bytes) {
  std::string json = "{\"__metadata__\":{\"format\":\"sinter\"}";
  std::int64_t end = 0;
  std::size_t gaps = 0;
  const auto add = [&](const std::string& name, const char* type, const std::string& shape, std::int64_t size) {
    json += "," + in_quotes(name) + ":{\"dtype\":\"" + type + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
            std::to_string(end) + "," + std::to_string(end + size) + "]}";
    end += size;
  };
  for (library_weight& w : all) {
    if (const std::int64_t gap = (64 - end % 64) % 64; gap != 0)
      add("__gap" + std::to_string(gaps++), "U8", std::to_string(gap), gap);
    w.at = end;
    std::string shape;
    for (const std::int64_t e : w.extents) shape += (shape.empty() ? "" : ",") + std::to_string(e);
    add(w.name, name_in_weights(w.type), shape, w.bytes());
  }
  json += "}";
  json.append((64 - (json.size() + 8) % 64) % 64, ' ');
  const std::uint64_t length = json.size();
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  bytes = end;
  return header + json;
}

/// The elements of a weight in row-major order.
inline void append_elements(const library_weight& w, std::string& out) {
  const std::size_t size = size_of(w.type), rank = w.extents.size();
  std::int64_t step = 1;
  bool dense = true;
  for (std::size_t d = rank; d-- > 0; step *= w.extents[d])
    dense = dense && (w.extents[d] == 1 || w.strides[d] == step);
  if (w.bytes() == 0) return;
  if (dense) return static_cast<void>(out.append(w.data, static_cast<std::size_t>(w.bytes())));
  series<std::int64_t> index(rank, 0);
  for (std::int64_t left = w.bytes() / static_cast<std::int64_t>(size); left > 0; --left) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < rank; ++d) at += index[d] * w.strides[d];
    out.append(w.data + at * static_cast<std::int64_t>(size), size);
    for (std::size_t d = rank; d-- > 0;) {
      if (++index[d] < w.extents[d]) break;
      index[d] = 0;
    }
  }
}

/// The bytes of the file.
inline std::string pack_weights(const std::string& header, const series<library_weight>& all) {
  std::string out = header;
  for (const library_weight& w : all) {
    out.resize(header.size() + static_cast<std::size_t>(w.at), '\0');
    append_elements(w, out);
  }
  return out;
}

/// The digest that a library's driver forms of the header (emit/prelude/library.hpp).
inline std::uint64_t digest_of_header(std::string_view header) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : header) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace sinter::engine::detail
