// data/csv.hpp: tables of text, separated by commas.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../io/trees.hpp"

namespace sinter::data {

struct csv_options {
  bool header = true;  ///< the first line has the columns' names; else they are "0", "1", …
  char separator = ',';
  char quote = '"';
};

/// What a column of a table holds: the first of these that all its cells are.
enum class column_kind { integer, number, text };

/// The cells of a table: quoted ones may have separators, lines and doubled quotes in them. Empty cells are NaN as numbers.
class table {
 public:
  /// Parses a text that is kept with the table. system_error for ragged lines and open quotes, naming the line.
  table(std::string name, storage text, const csv_options& how, location at)
      : name_(std::move(name)), memory_(std::move(text)), how_(how) {
    const auto bytes = io::detail::bytes_of(memory_);
    text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    parse(at);
  }

  std::int64_t rows() const { return names_.empty() ? 0 : static_cast<std::int64_t>(cells_.size() / names_.size()); }
  std::int64_t columns() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

  /// The place of a column. user_error when there is none.
  std::size_t find(const std::string& column, location at = location::current()) const {
    for (std::size_t j = 0; j < names_.size(); ++j)
      if (names_[j] == column) return j;
    std::string all;
    for (std::size_t j = 0; j < names_.size() && j < 20; ++j) all += (j ? ", " : "") + names_[j];
    fail("data::read_csv",
         name_ + " has no column \"" + io::detail::shown(column) + "\"; it has " + io::detail::shown(all), at);
  }

  /// What a cell says, without quotes.
  std::string text(std::int64_t row, std::size_t column) const {
    const cell& c = cells_[static_cast<std::size_t>(row) * names_.size() + column];
    const std::string_view raw = raw_of(c);
    if (!c.quoted) return std::string(raw);
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      out += raw[i];
      if (raw[i] == how_.quote) ++i;  // two stand for one
    }
    return out;
  }

  column_kind kind(const std::string& column, location at = location::current()) const {
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

  /// A column as a tensor: `t.column<float>("price")`. user_error, naming the line, for a cell that is no number, and of an integer
  /// dtype for one that is empty or out of its range.
  template <element T>
  tensor<T, 1> column(const std::string& name, location at = location::current()) const {
    return sinter::detail::typed<T, dims(1)>(io::detail::handle_of(numbers({find(name, at)}, dtype_of<T>, false, at)),
                                             at);
  }
  /// Some columns, or all, as a matrix with a row for each line: `t.matrix<float>({"x", "y"})`.
  template <element T>
  tensor<T, 2> matrix(const std::vector<std::string>& columns, location at = location::current()) const {
    std::vector<std::size_t> places;
    for (const std::string& c : columns) places.push_back(find(c, at));
    return sinter::detail::typed<T, dims(2)>(io::detail::handle_of(numbers(places, dtype_of<T>, true, at)), at);
  }
  template <element T>
  tensor<T, 2> matrix(location at = location::current()) const {
    return matrix<T>(names_, at);
  }
  /// A column's text.
  std::vector<std::string> texts(const std::string& column, location at = location::current()) const {
    const std::size_t j = find(column, at);
    std::vector<std::string> out;
    for (std::int64_t i = 0; i < rows(); ++i) out.push_back(text(i, j));
    return out;
  }
  /// A column of few different texts as numbers from 0 on, and the texts, in order.
  std::pair<tensor<std::int64_t, 1>, std::vector<std::string>> categories(const std::string& column,
                                                                          location at = location::current()) const {
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
    return {sinter::detail::typed<std::int64_t, dims(1)>(io::detail::handle_of(out), at), std::move(names)};
  }

 private:
  struct cell {
    std::uint64_t begin = 0;
    std::uint64_t size : 63 = 0;
    std::uint64_t quoted : 1 = 0;
  };

  std::string_view raw_of(const cell& c) const { return text_.substr(c.begin, c.size); }
  std::string_view trimmed(std::int64_t row, std::size_t column) const {
    std::string_view s = raw_of(cells_[static_cast<std::size_t>(row) * names_.size() + column]);
    while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
    while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
    if (s.size() > 1 && s[0] == '+' && s[1] != '-' && s[1] != '+') s.remove_prefix(1);
    return s;
  }
  static bool read_integer(std::string_view s, std::int64_t& n) {
    const auto [end, wrong] = std::from_chars(s.data(), s.data() + s.size(), n);
    return wrong == std::errc() && end == s.data() + s.size() && !s.empty();
  }
  static bool read_number(std::string_view s, double& x) {
    x = std::numeric_limits<double>::quiet_NaN();
    if (s.empty()) return true;
    const auto [end, wrong] = std::from_chars(s.data(), s.data() + s.size(), x);
    if (wrong == std::errc::result_out_of_range) {
      // Whether it is too large or too small is in its exponent.
      const std::size_t e = s.find_first_of("eE");
      const bool small =
          e != std::string_view::npos ? s.substr(e).find('-') != std::string_view::npos : s.find("0.") <= 1;
      x = small ? 0 : std::numeric_limits<double>::infinity();
      if (s[0] == '-') x = -x;
      return end == s.data() + s.size();
    }
    return wrong == std::errc() && end == s.data() + s.size();
  }

  std::size_t line_of(std::uint64_t place) const {
    return 1 + static_cast<std::size_t>(
                   std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
  }
  [[noreturn]] void damaged(std::uint64_t place, const std::string& what, location at) const {
    io::detail::fail_file("data::read_csv", name_ + ":" + std::to_string(line_of(place)), what, at);
  }

  /// Reads the cell at a place, which is then at the separator, the end of the line or the text behind it.
  cell read_cell(std::size_t& at, location where) const {
    cell c;
    if (at < text_.size() && text_[at] == how_.quote) {
      const std::size_t begin = at + 1;
      ++at;
      for (;;) {
        at = text_.find(how_.quote, at);
        if (at == std::string_view::npos) damaged(begin - 1, "a quote is not closed", where);
        if (at + 1 == text_.size() || text_[at + 1] != how_.quote) break;
        at += 2;  // two stand for one
      }
      c.begin = begin;
      c.size = (at - begin) & ~(std::uint64_t{1} << 63);
      c.quoted = 1;
      ++at;
      if (at < text_.size() && text_[at] == '\r') ++at;
      if (at < text_.size() && text_[at] != how_.separator && text_[at] != '\n')
        damaged(at, "a quoted cell goes on behind its quote", where);
      return c;
    }
    c.begin = at;
    while (at < text_.size() && text_[at] != how_.separator && text_[at] != '\n') ++at;
    std::size_t end = at;
    if (end > c.begin && (at == text_.size() || text_[at] == '\n') && text_[end - 1] == '\r') --end;
    c.size = (end - c.begin) & ~(std::uint64_t{1} << 63);
    return c;
  }

  void parse(location where) {
    std::size_t at = text_.starts_with("\xef\xbb\xbf") ? 3 : 0;
    std::size_t width = 0;
    bool named = !how_.header;
    std::vector<cell> head;
    while (at < text_.size()) {
      if (text_[at] == '\n' || (text_[at] == '\r' && at + 1 < text_.size() && text_[at + 1] == '\n')) {
        at = text_.find('\n', at) + 1;
        continue;  // an empty line
      }
      const std::size_t line = at, before = cells_.size();
      std::vector<cell>& to = named ? cells_ : head;
      for (;; ++at) {
        to.push_back(read_cell(at, where));
        if (at >= text_.size() || text_[at] != how_.separator) break;
      }
      ++at;
      const std::size_t n = named ? cells_.size() - before : head.size();
      if (width == 0) width = n;
      if (n != width)
        damaged(line, std::to_string(n) + " cells, where the first line has " + std::to_string(width), where);
      named = true;
    }
    if (width == 0) io::detail::fail_file("data::read_csv", name_, "has no line", where);
    for (std::size_t j = 0; j < width; ++j) names_.push_back(how_.header ? name_at(head[j]) : std::to_string(j));
  }
  std::string name_at(const cell& c) const {
    std::string out;
    const std::string_view raw = raw_of(c);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      out += raw[i];
      if (c.quoted && raw[i] == how_.quote) ++i;
    }
    return out;
  }

  /// Columns side by side, or one alone.
  io::array numbers(const std::vector<std::size_t>& columns, dtype type, bool beside, location at) const {
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
                   ", column " + io::detail::shown(names_[j]) + ": \"" + io::detail::shown(std::string(s)) +
                   "\" is no " + dtype_name(type) + "; read the column as another dtype, or as texts",
               at);
        if (is_float(type)) std::memcpy(to, &x, 8);
        else std::memcpy(to, &n, 8);
        to += 8;
      }
    return io::detail::converted(wide, type);
  }
  static bool in_range(std::int64_t n, dtype type) {
    if (is_bool(type)) return n == 0 || n == 1;
    const int bits = digits_of(type);
    const std::int64_t most = bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
    return n <= most && n >= (is_unsigned(type) ? 0 : -most - 1);
  }

  std::string name_;
  storage memory_;
  csv_options how_;
  std::string_view text_;
  std::vector<std::string> names_;
  std::vector<cell> cells_;
};

/// The table of a file, which is mapped. system_error for ragged lines and open quotes, naming the line.
inline table read_csv(const std::string& path, const csv_options& how = {}, location at = location::current()) {
  return table(path, io::detail::map_file("data::read_csv", path, at), how, at);
}
/// The table of a text.
inline table parse_csv(std::string_view text, const csv_options& how = {}, location at = location::current()) {
  const auto bytes = std::as_bytes(std::span(text));
  return table("text", io::detail::kept_bytes({bytes.begin(), bytes.end()}), how, at);
}

}  // namespace sinter::data
