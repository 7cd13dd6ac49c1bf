// io/safetensors.hpp: .safetensors files: a header of JSON, then the elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_rules.hpp"
#include "json.hpp"
#include "records.hpp"

namespace sinter::io::detail {

inline constexpr std::size_t largest_header = 100'000'000;

inline constexpr std::pair<const char*, dtype> safetensors_types[] = {
    {"BOOL", dtype::b8}, {"I8", dtype::i8},           {"I16", dtype::i16},        {"I32", dtype::i32},
    {"I64", dtype::i64}, {"U8", dtype::u8},           {"U16", dtype::u16},        {"U32", dtype::u32},
    {"U64", dtype::u64}, {"F16", dtype::f16},         {"BF16", dtype::bf16},      {"F32", dtype::f32},
    {"F64", dtype::f64}, {"F8_E4M3", dtype::f8_e4m3}, {"F8_E5M2", dtype::f8_e5m2}};

/// Texts that a file holds beside its arrays.
using metadata_map = std::map<std::string, std::string>;

/// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "text"}}
class safetensors_header : public json_events {
 public:
  safetensors_header(record_map& records, metadata_map& metadata) : records_(records), metadata_(metadata) {}

  bool number_unsigned(number_unsigned_t x) {
    if (depth_ != 3 || in_metadata_) return no("a number");
    if (x > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) return no("a number too large");
    if (field_ == fields::shape) now_.extents.push_back(static_cast<std::int64_t>(x));
    else if (offsets_ < 2) (offsets_++ == 0 ? now_.begin : now_.bytes) = static_cast<std::size_t>(x);
    else return no("more than two offsets");
    return now_.extents.size() <= 64 || no("a shape of more than 64 axes");
  }
  bool string(string_t& text) {
    if (depth_ == 2 && in_metadata_) return metadata_.emplace(key_, text).second || no("a key twice");
    if (depth_ != 2 || field_ != fields::dtype) return no("a text");
    now_.type_name = text;
    for (const auto& [name, type] : safetensors_types)
      if (text == name) {
        now_.type = type;
        now_.type_name.clear();
      }
    return true;
  }
  bool start_object(std::size_t) {
    if (depth_ > 1) return no("an object");
    seen_ = 0;
    offsets_ = 0;
    now_ = {};
    ++depth_;
    return true;
  }
  bool key(string_t& text) {
    if (depth_ == 1) {
      in_metadata_ = text == "__metadata__";
      if (in_metadata_ && std::exchange(had_metadata_, true)) return no("a name twice");
      if (!in_metadata_ && records_.contains(text)) return no("the name \"" + shown(text) + "\" twice");
      name_ = text;
      return true;
    }
    key_ = text;
    if (in_metadata_) return true;
    field_ = text == "dtype"          ? fields::dtype
             : text == "shape"        ? fields::shape
             : text == "data_offsets" ? fields::offsets
                                      : fields::none;
    if (field_ == fields::none || (seen_ & static_cast<int>(field_))) return no("the key \"" + shown(text) + "\"");
    seen_ |= static_cast<int>(field_);
    return true;
  }
  bool end_object() {
    if (--depth_ == 0 || in_metadata_) return true;
    if (seen_ != 7 || offsets_ != 2) return no("no dtype, shape or two data_offsets of \"" + shown(name_) + "\"");
    records_.emplace(std::move(name_), std::move(now_));
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ != 2 || in_metadata_ || field_ == fields::dtype) return no("an array");
    ++depth_;
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }

 private:
  enum class fields { none = 0, dtype = 1, shape = 2, offsets = 4 };

  record_map& records_;
  metadata_map& metadata_;
  record now_;  ///< `bytes` is the end offset
  std::string name_, key_;
  fields field_ = fields::none;
  int depth_ = 0, seen_ = 0, offsets_ = 0;
  bool in_metadata_ = false, had_metadata_ = false;
};

/// Checks the places of arrays: each begins at the end of its predecessor, and has the bytes of its shape. Makes them offsets
/// in the file, whose elements are the `most` bytes from `begin`. Returns "", or the error.
inline std::string place_records(record_map& records, std::size_t begin, std::size_t most) {
  std::vector<std::pair<record*, const std::string*>> order;
  for (auto& [name, r] : records) order.emplace_back(&r, &name);
  std::sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    return std::pair(x.first->begin, x.first->bytes) < std::pair(y.first->begin, y.first->bytes);
  });
  std::size_t next = 0;
  for (const auto& [r, name] : order) {
    const std::size_t end = r->bytes;
    std::size_t want = 0;
    if (r->begin != next || end < r->begin)
      return "\"" + shown(*name) + "\" begins at byte " + std::to_string(r->begin) + ", where the one before ends at " +
             std::to_string(next);
    if (end > most) return "is cut short: \"" + shown(*name) + "\" ends beyond the file";
    if (!count_bytes(r->extents, size_of(r->type), want) || (r->type_name.empty() && want != end - r->begin))
      return "\"" + shown(*name) + "\" has " + std::to_string(end - r->begin) + " bytes, which " +
             kind_text(r->type, r->extents) + " has not";
    r->begin += begin;
    r->bytes = end - next;
    next = end;
  }
  if (next != most) return "has " + std::to_string(most - next) + " bytes that no array has";
  return "";
}

/// Reads the places of a file's arrays, and its texts. Returns "", or the error.
inline std::string read_safetensors(const storage& whole, record_map& records, metadata_map& metadata) {
  const auto file = bytes_of(whole);
  if (file.size() < 10) return "is no .safetensors file: it has " + std::to_string(file.size()) + " bytes";
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8) return "is no .safetensors file, or cut short within its header";
  if (length > largest_header) return "has a header of " + std::to_string(length) + " bytes; 100 MB are the most";
  const char* const text = reinterpret_cast<const char*>(file.data()) + 8;
  if (text[0] != '{') return "is no .safetensors file: its header does not begin with {";
  safetensors_header events(records, metadata);
  if (std::string wrong = parse_json({text, static_cast<std::size_t>(length)}, events); !wrong.empty()) return wrong;
  const std::size_t begin = 8 + static_cast<std::size_t>(length);
  return place_records(records, begin, file.size() - begin);
}

/// Whether a text is UTF-8, as JSON requires.
inline bool is_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto u = static_cast<unsigned char>(s[i]);
    const std::size_t n = u < 0x80 ? 1 : u < 0xc2 ? 0 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : u < 0xf5 ? 4 : 0;
    if (n == 0 || n > s.size() - i) return false;
    const auto second = n > 1 ? static_cast<unsigned char>(s[i + 1]) : 0x80;
    for (std::size_t k = 1; k < n; ++k)
      if ((static_cast<unsigned char>(s[i + k]) & 0xc0) != 0x80) return false;
    // Overlong forms, halves of UTF-16 pairs, and codes beyond Unicode.
    if ((u == 0xe0 && second < 0xa0) || (u == 0xed && second > 0x9f) || (u == 0xf0 && second < 0x90) ||
        (u == 0xf4 && second > 0x8f))
      return false;
    i += n;
  }
  return true;
}

/// A UTF-8 text as a JSON string.
inline std::string json_text(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (u < 32) {
      constexpr const char* digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[u >> 4];
      out += digits[u & 15];
    } else out += c;
  }
  return out + "\"";
}

inline const char* safetensors_type(dtype type) {
  for (const auto& [name, t] : safetensors_types)
    if (t == type) return name;
  return "";
}

/// Leaves with wide elements come first, so that all are aligned when the file is mapped.
inline void write_safetensors(file_writer& out, std::vector<named_leaf> leaves, const metadata_map& metadata,
                              location at) {
  std::sort(leaves.begin(), leaves.end(), [](const named_leaf& x, const named_leaf& y) {
    const std::size_t a = size_of(x.value.type), b = size_of(y.value.type);
    return a != b ? a > b : x.name < y.name;
  });
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header += (header.back() == '{' ? "" : ",") + json_text(key) + ":" + json_text(value);
    header += "}";
  }
  std::size_t place = 0;
  for (const named_leaf& leaf : leaves) {
    header += (header.size() == 1 ? "" : ",") + json_text(leaf.name) + ":{\"dtype\":\"" +
              safetensors_type(leaf.value.type) + "\",\"shape\":[";
    for (const std::int64_t e : leaf.extents()) header += (header.back() == '[' ? "" : ",") + std::to_string(e);
    header += "],\"data_offsets\":[" + std::to_string(place) + "," + std::to_string(place + leaf.bytes()) + "]}";
    place += leaf.bytes();
  }
  header += "}";
  header.resize((8 + header.size() + 63) / 64 * 64 - 8, ' ');
  const std::uint64_t length = header.size();
  header.insert(0, reinterpret_cast<const char*>(&length), 8);
  out.write(header);
  for (const named_leaf& leaf : leaves) {
    const array a = array_of(leaf.value, at);
    out.write(a.data, a.bytes().size());
  }
}

}  // namespace sinter::io::detail
