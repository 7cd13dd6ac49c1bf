// data/csv_rules.hpp: the definitions for csv.hpp; compiled once.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csv.hpp"

namespace sinter::data {

SINTER_API table::table(std::string name, storage text, const csv_options& how, location at)
    : name_(std::move(name)), memory_(std::move(text)), how_(how) {
  const auto bytes = io::detail::bytes_of(memory_);
  text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  parse(at);
}

SINTER_API std::size_t table::find(const column_at& column, location at) const {
  const auto n = static_cast<std::int64_t>(names_.size());
  if (!column.is_named()) {
    const std::int64_t j = column.number() < 0 ? column.number() + n : column.number();
    if (j >= 0 && j < n) return static_cast<std::size_t>(j);
    fail("data::read_csv",
         name_ + " has no column " + std::to_string(column.number()) + "; it has " + std::to_string(n) +
             ", from 0 on, or from -1 on backwards",
         at);
  }
  for (std::size_t j = 0; j < names_.size(); ++j)
    if (names_[j] == column.name()) return j;
  std::string all;
  for (std::size_t j = 0; j < names_.size() && j < 20; ++j) all += (j ? ", " : "") + names_[j];
  fail("data::read_csv",
       name_ + " has no column \"" + io::detail::shown(column.name()) + "\"; it has " + io::detail::shown(all), at);
}

SINTER_API std::string table::text(std::int64_t row, std::size_t column) const {
  const cell& c = cells_[static_cast<std::size_t>(row) * names_.size() + column];
  const std::string_view raw = raw_of(c);
  if (!c.quoted) return std::string(raw);
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    out += raw[i];
    if (raw[i] == how_.quote) ++i;  // a doubled quote
  }
  return out;
}

SINTER_API column_kind table::kind(const column_at& column, location at) const {
  const std::size_t j = find(column, at);
  column_kind k = column_kind::integer;
  for (std::int64_t i = 0; i < rows(); ++i) {
    std::int64_t n = 0;
    double x = 0;
    const std::string_view s = trimmed(i, j);
    if (k == column_kind::integer && !read_integer(s, n)) k = column_kind::number;
    if (k == column_kind::number && !read_number(s, x)) return column_kind::text;
  }
  return k;
}

SINTER_API std::vector<std::string> table::texts(const column_at& column, location at) const {
  const std::size_t j = find(column, at);
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < rows(); ++i) out.push_back(text(i, j));
  return out;
}

SINTER_API std::string_view table::trimmed(std::int64_t row, std::size_t column) const {
  std::string_view s = raw_of(cells_[static_cast<std::size_t>(row) * names_.size() + column]);
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-' && s[1] != '+') s.remove_prefix(1);
  return s;
}

SINTER_API bool table::read_integer(std::string_view s, std::int64_t& n) {
  const auto [end, wrong] = std::from_chars(s.data(), s.data() + s.size(), n);
  return wrong == std::errc() && end == s.data() + s.size() && !s.empty();
}

SINTER_API bool table::read_number(std::string_view s, double& x) {
  x = std::numeric_limits<double>::quiet_NaN();
  if (s.empty()) return true;
  const auto [end, wrong] = std::from_chars(s.data(), s.data() + s.size(), x);
  if (wrong == std::errc::result_out_of_range) {
    // The exponent shows whether the number is too large or too small.
    const std::size_t e = s.find_first_of("eE");
    const bool small =
        e != std::string_view::npos ? s.substr(e).find('-') != std::string_view::npos : s.find("0.") <= 1;
    x = small ? 0 : std::numeric_limits<double>::infinity();
    if (s[0] == '-') x = -x;
    return end == s.data() + s.size();
  }
  return wrong == std::errc() && end == s.data() + s.size();
}

SINTER_API std::size_t table::line_of(std::uint64_t place) const {
  std::size_t line = 1;
  for (std::size_t at = 0; at < place; ++at)
    if (ends_line(at)) at = behind_line(at) - 1, ++line;
  return line;
}

[[noreturn]] SINTER_API void table::damaged(std::uint64_t place, const std::string& what, location at) const {
  io::detail::fail_file("data::read_csv", name_ + ":" + std::to_string(line_of(place)), what, at);
}

SINTER_API table::cell table::read_cell(std::size_t& at, location where) const {
  cell c;
  if (at < text_.size() && text_[at] == how_.quote) {
    const std::size_t begin = at + 1;
    ++at;
    for (;;) {
      at = text_.find(how_.quote, at);
      if (at == std::string_view::npos) damaged(begin - 1, "a quote is not closed", where);
      if (at + 1 == text_.size() || text_[at + 1] != how_.quote) break;
      at += 2;  // a doubled quote
    }
    c.begin = begin;
    c.size = (at - begin) & ~(std::uint64_t{1} << 63);
    c.quoted = 1;
    ++at;
    if (at < text_.size() && text_[at] != how_.separator && !ends_line(at))
      damaged(at, "a quoted cell goes on behind its quote", where);
    return c;
  }
  c.begin = at;
  while (at < text_.size() && text_[at] != how_.separator && !ends_line(at)) ++at;
  c.size = (at - c.begin) & ~(std::uint64_t{1} << 63);
  return c;
}

SINTER_API void table::parse(location where) {
  std::size_t at = text_.starts_with("\xef\xbb\xbf") ? 3 : 0;
  std::size_t width = 0;
  bool named = !how_.header;
  std::vector<cell> head;
  while (at < text_.size()) {
    if (ends_line(at)) {
      at = behind_line(at);
      continue;  // an empty line
    }
    const std::size_t line = at, before = cells_.size();
    std::vector<cell>& to = named ? cells_ : head;
    for (;; ++at) {
      to.push_back(read_cell(at, where));
      if (at >= text_.size() || text_[at] != how_.separator) break;
    }
    at = behind_line(at);
    const std::size_t n = named ? cells_.size() - before : head.size();
    if (width == 0) width = n;
    if (n != width)
      damaged(line, std::to_string(n) + " cells, where the first line has " + std::to_string(width), where);
    named = true;
  }
  if (width == 0) io::detail::fail_file("data::read_csv", name_, "has no line", where);
  for (std::size_t j = 0; j < width; ++j) names_.push_back(how_.header ? name_at(head[j]) : std::to_string(j));
}

SINTER_API std::string table::name_at(const cell& c) const {
  std::string out;
  const std::string_view raw = raw_of(c);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    out += raw[i];
    if (c.quoted && raw[i] == how_.quote) ++i;
  }
  return out;
}

SINTER_API io::array table::numbers(const std::vector<std::size_t>& columns, dtype type, bool beside,
                                    location at) const {
  std::vector<std::int64_t> extents{rows()};
  if (beside) extents.push_back(static_cast<std::int64_t>(columns.size()));
  io::array wide = io::detail::make_array(is_float(type) ? dtype::f64 : dtype::i64, extents);
  std::byte* to = wide.data;
  for (std::int64_t i = 0; i < rows(); ++i)
    for (const std::size_t j : columns) {
      const std::string_view s = trimmed(i, j);
      std::int64_t n = 0;
      double x = 0;
      const bool good = is_float(type) ? read_number(s, x) : read_integer(s, n) && in_range(n, type);
      if (!good)
        fail("data::read_csv",
             name_ + ":" + std::to_string(line_of(cells_[static_cast<std::size_t>(i) * names_.size() + j].begin)) +
                 ", column " + io::detail::shown(names_[j]) + ": \"" + io::detail::shown(std::string(s)) + "\" is no " +
                 dtype_name(type) + "; read the column as another dtype, or as texts",
             at);
      if (is_float(type)) std::memcpy(to, &x, 8);
      else std::memcpy(to, &n, 8);
      to += 8;
    }
  return io::detail::converted(wide, type);
}

SINTER_API bool table::in_range(std::int64_t n, dtype type) {
  if (is_bool(type)) return n == 0 || n == 1;
  const int bits = digits_of(type);
  const std::int64_t most = bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  return n <= most && n >= (is_unsigned(type) ? 0 : -most - 1);
}

SINTER_API std::pair<io::array, std::vector<std::string>> table::numbered(const column_at& column, location at) const {
  const std::vector<std::string> all = texts(column, at);
  std::map<std::string, std::int64_t> places;
  for (const std::string& s : all) places.emplace(s, 0);
  std::vector<std::string> names;
  for (auto& [s, place] : places) {
    place = static_cast<std::int64_t>(names.size());
    names.push_back(s);
  }
  io::array out = io::detail::make_array(dtype::i64, {rows()});
  for (std::size_t i = 0; i < all.size(); ++i) std::memcpy(out.data + 8 * i, &places.at(all[i]), 8);
  return {std::move(out), std::move(names)};
}

SINTER_API table read_csv(const std::string& path, const csv_options& how, location at) {
  return table(path, io::detail::map_file("data::read_csv", path, at), how, at);
}

SINTER_API table parse_csv(std::string_view text, const csv_options& how, location at) {
  const auto bytes = std::as_bytes(std::span(text));
  return table("text", io::detail::kept_bytes({bytes.begin(), bytes.end()}), how, at);
}

}  // namespace sinter::data
