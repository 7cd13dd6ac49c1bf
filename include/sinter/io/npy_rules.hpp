// io/npy_rules.hpp: the definitions for npy.hpp: headers of .npy files.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_rules.hpp"
#include "npy.hpp"

namespace sinter::io {

namespace detail {

/// Reads the Python dictionary of a header, token by token.
class npy_dictionary {
 public:
  explicit npy_dictionary(std::string_view text) : rest_(text) {}

  /// Reads a dictionary with the three keys. Returns "", or the error.
  std::string read(std::string& descr, bool& by_columns, std::vector<std::int64_t>& extents) {
    int seen = 0;
    if (!take('{')) return "its header is no dictionary";
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return "its header is no dictionary";
      const int which = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (which == 0 || (seen & which)) return "its header has the key '" + shown(key) + "', or has it twice";
      seen |= which;
      if (which == 1 && !quoted(descr)) return "its elements have fields; save each field as an array of its own";
      if (which == 2 && !flag(by_columns)) return "its header has no True or False behind 'fortran_order'";
      if (which == 4 && !tuple(extents)) return "its header has no shape of integers from 0 on, at most 64";
      if (!take(',') && next() != '}') return "its header is no dictionary";
    }
    return seen == 7 ? "" : "its header lacks 'descr', 'fortran_order' or 'shape'";
  }

 private:
  char next() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool take(char c) {
    if (next() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    next();
    if (rest_.substr(0, w.size()) != w) return false;
    rest_.remove_prefix(w.size());
    return true;
  }
  bool quoted(std::string& out) {
    const char mark = next();
    if (mark != '\'' && mark != '"') return false;
    const std::size_t end = rest_.find(mark, 1);
    if (end == std::string_view::npos) return false;
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool flag(bool& out) {
    out = word("True");
    return out || word("False");
  }
  bool tuple(std::vector<std::int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      std::int64_t n = 0;
      bool any = false;
      for (char c = next(); !rest_.empty() && c >= '0' && c <= '9'; c = rest_.empty() ? '\0' : rest_[0]) {
        if (__builtin_mul_overflow(n, std::int64_t{10}, &n) || __builtin_add_overflow(n, c - '0', &n)) return false;
        rest_.remove_prefix(1);
        any = true;
      }
      if (!any || out.size() == 64) return false;
      if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // suffix of Python 2's integers
      out.push_back(n);
      if (!take(',') && next() != ')') return false;
    }
    return true;
  }

  std::string_view rest_;
};

/// Reads '<f4' as a dtype. Returns "", or the error.
inline std::string read_descr(const std::string& descr, npy_header& h) {
  if (descr.size() < 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos || descr.size() > 4)
    return "it has elements of dtype '" + shown(descr) + "', which no tensor has";
  h.swapped = descr[0] == '>';
  const std::string kind = descr.substr(1);
  for (const auto& [name, type] : {std::pair{"b1", dtype::b8},
                                   {"i1", dtype::i8},
                                   {"i2", dtype::i16},
                                   {"i4", dtype::i32},
                                   {"i8", dtype::i64},
                                   {"u1", dtype::u8},
                                   {"u2", dtype::u16},
                                   {"u4", dtype::u32},
                                   {"u8", dtype::u64},
                                   {"f2", dtype::f16},
                                   {"f4", dtype::f32},
                                   {"f8", dtype::f64},
                                   {"V2", dtype::bf16},
                                   {"V1", dtype::f8_e4m3}})
    if (kind == name) {
      h.type = type;
      h.opaque = kind[0] == 'V';
      return "";
    }
  if (kind[0] == 'O') return "it holds pickled Python objects, which are not read";
  return "it has elements of dtype '" + shown(descr) + "', which no tensor has";
}

/// Reads the header of a file, and checks that all its parts are within the file. Returns "", or the error.
inline std::string read_header(std::span<const std::byte> file, npy_header& h) {
  const auto* const text = reinterpret_cast<const char*>(file.data());
  if (file.size() < 10 || std::memcmp(text, "\x93NUMPY", 6) != 0) return "is no .npy file";
  const int version = text[6];
  if (version < 1 || version > 3) return "is of version " + std::to_string(version) + " of .npy; 1 to 3 are read";
  const std::size_t wide = version == 1 ? 2 : 4;
  if (file.size() < 8 + wide) return "is cut short within its header";
  std::size_t length = 0;
  for (std::size_t i = wide; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[8 + i]);
  h.begin = 8 + wide + length;
  if (h.begin > file.size()) return "is cut short within its header";
  std::string descr;
  std::string wrong = npy_dictionary({text + 8 + wide, length}).read(descr, h.by_columns, h.extents);
  if (wrong.empty()) wrong = read_descr(descr, h);
  if (!wrong.empty()) return wrong;
  if (!count_bytes(h.extents, size_of(h.type), h.bytes) || h.bytes > file.size() - h.begin)
    return "is cut short: it has " + std::to_string(file.size() - h.begin) + " bytes of elements, and " +
           kind_text(h.type, h.extents) + " has more";
  return "";
}

/// Reverses the bytes of each element in place.
inline void swap_bytes(std::byte* data, std::size_t bytes, std::size_t item) {
  for (std::size_t i = 0; item > 1 && i < bytes; i += item) std::reverse(data + i, data + i + item);
}

/// Copies column-major elements into row-major order.
inline void turn_order(const std::byte* from, const array& to) {
  const std::size_t item = size_of(to.type), rank = to.extents.size();
  std::vector<std::int64_t> index(rank), steps(rank);
  std::int64_t step = 1, at = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    steps[i] = step;
    step *= to.extents[i];
  }
  for (std::int64_t k = 0; k < step; ++k) {
    std::memcpy(to.data + static_cast<std::size_t>(k) * item, from + static_cast<std::size_t>(at) * item, item);
    for (std::size_t i = rank; i-- > 0;) {
      at += steps[i];
      if (++index[i] < to.extents[i]) break;
      at -= steps[i] * to.extents[i];
      index[i] = 0;
    }
  }
}

/// The elements after a header: in `whole`, whose bytes are `file`, if they can stay there, else copied.
SINTER_API array elements_of(const npy_header& h, std::span<const std::byte> file, const storage& whole) {
  const std::byte* const from = file.data() + h.begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % size_of(h.type) == 0;
  if (whole && aligned && !h.swapped && !h.by_columns && h.bytes > 0) {
    array out;
    out.type = h.type;
    out.extents = h.extents;
    out.data = static_cast<std::byte*>(whole.data()) + (from - static_cast<const std::byte*>(whole.data()));
    out.memory = part_of(whole, out.data, h.bytes);
    return out;
  }
  array out = make_array(h.type, h.extents);
  if (h.bytes == 0) return out;
  if (h.by_columns && h.extents.size() > 1) turn_order(from, out);
  else std::memcpy(out.data, from, h.bytes);
  if (h.swapped) swap_bytes(out.data, h.bytes, size_of(h.type));
  return out;
}

/// Normalises flags whose bytes are neither 0 nor 1 to 1, because a compiled kernel may read such a byte.
SINTER_API void settle_flags(array& a) {
  if (a.type != dtype::b8) return;
  const std::size_t n = a.bytes().size();
  bool odd = false;
  for (std::size_t i = 0; i < n; ++i) odd |= static_cast<unsigned char>(a.data[i]) > 1;
  for (std::size_t i = 0; odd && i < n; ++i) a.data[i] = a.data[i] != std::byte{0} ? std::byte{1} : std::byte{0};
}

/// The array of a whole file. `opaque` is the dtype of bytes that have none, if known.
SINTER_API array parse_npy(const char* op, const std::string& path, std::span<const std::byte> file,
                           const storage& whole, const dtype* opaque, location at) {
  npy_header h;
  if (const std::string wrong = read_header(file, h); !wrong.empty()) fail_file(op, path, wrong, at);
  if (h.opaque && opaque && size_of(*opaque) == size_of(h.type) && is_narrow(*opaque)) h.type = *opaque;
  else if (h.opaque && h.type != dtype::bf16)
    fail_file(op, path, "it has bytes without a dtype; read it as a tensor of f8_e4m3 or f8_e5m2", at);
  array out = elements_of(h, file, whole);
  settle_flags(out);
  return out;
}

inline std::string npy_descr(dtype type) {
  switch (kind_of(type)) {
    case dtype_kind::boolean:
      return "|b1";
    case dtype_kind::signed_integer:
      return (size_of(type) == 1 ? "|i" : "<i") + std::to_string(size_of(type));
    case dtype_kind::unsigned_integer:
      return (size_of(type) == 1 ? "|u" : "<u") + std::to_string(size_of(type));
    case dtype_kind::floating:
      break;
  }
  if (type == dtype::bf16) return "<V2";
  return (size_of(type) == 1 ? "|V" : "<f") + std::to_string(size_of(type));
}

/// The part of a file before the elements; a multiple of 64 bytes.
inline std::string npy_prefix(dtype type, std::span<const std::int64_t> extents) {
  std::string text =
      "{'descr': '" + npy_descr(type) + "', 'fortran_order': False, 'shape': " + shape_text(extents) + ", }";
  const std::size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  text.resize(total - 11, ' ');
  const std::size_t length = total - 10;
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(length & 0xff);
  out += static_cast<char>(length >> 8);
  return out + text + '\n';
}

}  // namespace detail

SINTER_API array read_npy(const std::string& path, location at) {
  const storage whole = detail::map_file("io::read_npy", path, at);
  return detail::parse_npy("io::read_npy", path, detail::bytes_of(whole), whole, nullptr, at);
}

SINTER_API array read_npy(std::span<const std::byte> file, location at) {
  return detail::parse_npy("io::read_npy", "bytes", file, {}, nullptr, at);
}

SINTER_API void write_npy(const std::string& path, const array& a, location at) {
  detail::file_writer out("io::write_npy", path, false, at);
  out.write(detail::npy_prefix(a.type, a.extents));
  const auto bytes = a.bytes();
  out.write(bytes.data(), bytes.size());
  out.finish();
}

}  // namespace sinter::io
