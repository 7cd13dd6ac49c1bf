// data/csv.hpp: tables of text, separated by commas.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../io/file.hpp"

namespace sinter::data {

struct csv_options {
  bool header = true;  ///< the first line has the names of columns; otherwise these are "0", "1", …
  char separator = ',';
  char quote = '"';
};

/// The kind of a column: the first of these that fits all its cells.
enum class column_kind { integer, number, text };

/// A column, by its name, or by its number from 0 on; negative numbers count from the end.
class column_at {
 public:
  template <std::convertible_to<std::string_view> Name>
  column_at(const Name& name) : name_(std::string_view(name)) {}
  template <std::integral Number>
  requires(!std::is_same_v<Number, bool>) column_at(Number n)
      : number_(n > 0 && static_cast<std::uint64_t>(n) > static_cast<std::uint64_t>(most)
                    ? most
                    : static_cast<std::int64_t>(n)),
        named_(false) {}

  bool is_named() const { return named_; }
  const std::string& name() const { return name_; }
  std::int64_t number() const { return number_; }

 private:
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string name_;
  std::int64_t number_ = 0;
  bool named_ = true;
};

/// The cells of a table, whose lines end in LF, CR LF or CR. Quoted cells may contain separators, line ends and doubled
/// quotes. Empty cells are NaN as numbers.
class table {
 public:
  /// Parses a text, which the table keeps. system_error, with the line, for ragged lines and open quotes.
  SINTER_API table(std::string name, storage text, const csv_options& how, location at);

  std::int64_t rows() const { return names_.empty() ? 0 : static_cast<std::int64_t>(cells_.size() / names_.size()); }
  std::int64_t columns() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

  /// The index of a column. user_error for a missing column.
  SINTER_API std::size_t find(const column_at& column, location at = location::current()) const;

  /// The text of a cell, without quotes.
  SINTER_API std::string text(std::int64_t row, std::size_t column) const;

  SINTER_API column_kind kind(const column_at& column, location at = location::current()) const;

  /// A column as a tensor: `t.column<float>("price")`, `t.column<float>(-1)`. user_error, with the line, for a cell that is
  /// not a number. For an integer dtype, empty cells and cells out of range are errors, too.
  template <element T>
  tensor<T, 1> column(const column_at& name, location at = location::current()) const {
    return sinter::detail::typed<T, dims(1)>(io::detail::handle_of(numbers({find(name, at)}, dtype_of<T>, false, at)),
                                             at);
  }
  /// Some or all columns as a matrix with a row for each line: `t.matrix<float>({"x", "y"})`, `t.matrix<float>({0, 1})`.
  template <element T, class Column>
  requires std::convertible_to<const Column&, column_at> tensor<T, 2> matrix(const std::vector<Column>& columns,
                                                                             location at = location::current())
  const {
    std::vector<std::size_t> places;
    for (const Column& c : columns) places.push_back(find(c, at));
    return sinter::detail::typed<T, dims(2)>(io::detail::handle_of(numbers(places, dtype_of<T>, true, at)), at);
  }
  template <element T>
  tensor<T, 2> matrix(std::initializer_list<column_at> columns, location at = location::current()) const {
    return matrix<T>(std::vector<column_at>(columns), at);
  }
  template <element T>
  tensor<T, 2> matrix(location at = location::current()) const {
    return matrix<T>(names_, at);
  }
  /// The texts of a column.
  SINTER_API std::vector<std::string> texts(const column_at& column, location at = location::current()) const;
  /// A column of few distinct texts as numbers from 0 on, and these texts, in order.
  std::pair<tensor<std::int64_t, 1>, std::vector<std::string>> categories(const column_at& column,
                                                                          location at = location::current()) const {
    auto [places, names] = numbered(column, at);
    return {sinter::detail::typed<std::int64_t, dims(1)>(io::detail::handle_of(places), at), std::move(names)};
  }

 private:
  struct cell {
    std::uint64_t begin = 0;
    std::uint64_t size : 63 = 0;
    std::uint64_t quoted : 1 = 0;
  };

  std::string_view raw_of(const cell& c) const { return text_.substr(c.begin, c.size); }
  SINTER_API std::string_view trimmed(std::int64_t row, std::size_t column) const;
  SINTER_API static bool read_integer(std::string_view s, std::int64_t& n);
  SINTER_API static bool read_number(std::string_view s, double& x);

  SINTER_API std::size_t line_of(std::uint64_t place) const;
  [[noreturn]] SINTER_API void damaged(std::uint64_t place, const std::string& what, location at) const;

  bool ends_line(std::size_t at) const {
    const auto c = static_cast<unsigned char>(text_[at]);
    return c <= '\r' && (c == '\n' || c == '\r');
  }
  /// The begin of the line after a line's end.
  std::size_t behind_line(std::size_t at) const { return at + (text_.substr(at).starts_with("\r\n") ? 2 : 1); }

  /// Reads the cell at `at`, and moves `at` to the separator, the line's end or the end of the text.
  SINTER_API cell read_cell(std::size_t& at, location where) const;

  SINTER_API void parse(location where);
  SINTER_API std::string name_at(const cell& c) const;

  /// One column, or several side by side.
  SINTER_API io::array numbers(const std::vector<std::size_t>& columns, dtype type, bool beside, location at) const;
  SINTER_API std::pair<io::array, std::vector<std::string>> numbered(const column_at& column, location at) const;
  SINTER_API static bool in_range(std::int64_t n, dtype type);

  std::string name_;
  storage memory_;
  csv_options how_;
  std::string_view text_;
  std::vector<std::string> names_;
  std::vector<cell> cells_;
};

/// The table of a file, which is mapped. system_error, with the line, for ragged lines and open quotes.
SINTER_API table read_csv(const std::string& path, const csv_options& how = {}, location at = location::current());
/// The table of a text.
SINTER_API table parse_csv(std::string_view text, const csv_options& how = {}, location at = location::current());

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "csv_rules.hpp"
#endif
