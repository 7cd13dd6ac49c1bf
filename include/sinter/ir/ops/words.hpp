// ir/ops/words.hpp: one line of a saved graph, read word by word; errors name the source and the line.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "../../base/text.hpp"
#include "../graph.hpp"

namespace sinter::ir::ops {

/// The rest of a line, and the facts that give its words a meaning.
class words {
 public:
  words(std::string_view line, const std::string& source, std::size_t number, int sizes)
      : rest_(line), source_(source), number_(number), sizes_(sizes) {}

  [[noreturn]] void refuse(const std::string& what) const { refuse_line(source_, number_, what); }
  [[noreturn]] static void refuse_line(const std::string& source, std::size_t number, const std::string& what) {
    throw user_error("[load_graph] " + source + ", line " + std::to_string(number) + ": " + what);
  }

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  /// Whether these characters follow; then they are taken.
  bool takes(std::string_view text) {
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!takes(text)) refuse("expected '" + std::string(text) + "' before '" + shown(rest_) + "'");
  }
  /// " word", if it follows as a whole word.
  bool takes_word(std::string_view word) {
    if (!is_word(word)) return false;
    rest_.remove_prefix(word.size() + 1);
    return true;
  }
  /// Whether " word" follows as a whole word.
  bool is_word(std::string_view word) const {
    return rest_.size() > word.size() && rest_[0] == ' ' && rest_.substr(1, word.size()) == word &&
           (rest_.size() == word.size() + 1 || rest_[word.size() + 1] == ' ');
  }
  /// Letters, digits and underscores.
  std::string_view name() {
    std::size_t n = 0;
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (n < rest_.size() && is_letter(rest_[n])) ++n;
    if (n == 0) refuse("expected a name before '" + shown(rest_) + "'");
    return cut(n);
  }
  /// A text in quotes, in which a backslash stands before quotes and backslashes.
  std::string quoted() {
    expect("\"");
    std::string out;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return out;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      out += rest_[i];
    }
    refuse("a text in quotes does not end");
  }

  std::int64_t integer() {
    std::int64_t x = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), x);
    constexpr std::int64_t most = std::int64_t{1} << 60;
    if (error != std::errc() || x > most || x < -most) refuse("expected an integer before '" + shown(rest_) + "'");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return x;
  }
  /// From 0 to `most`.
  std::size_t count(std::size_t most) {
    const std::int64_t x = integer();
    if (x < 0 || static_cast<std::uint64_t>(x) > most)
      refuse(std::to_string(x) + " is not from 0 to " + std::to_string(most));
    return static_cast<std::size_t>(x);
  }
  /// " key=7"
  std::int64_t integer(std::string_view key) {
    expect(" " + std::string(key) + "=");
    return integer();
  }
  /// "[0, 1]"
  series<std::int64_t> integers() {
    expect("[");
    series<std::int64_t> out;
    if (takes("]")) return out;
    do out.push_back(integer());
    while (takes(", "));
    expect("]");
    return out;
  }
  /// " key=[0, 1]"
  series<std::int64_t> integers(std::string_view key) {
    expect(" " + std::string(key) + "=");
    return integers();
  }
  /// " add"
  op combiner() {
    expect(" ");
    const std::string_view word = name();
    for (int k = 0; k < pointwise_count; ++k)
      if (word == pointwise_rows[k].name) return static_cast<op>(k);
    refuse("'" + shown(word) + "' is no combiner");
  }
  dtype type() {
    const std::string_view word = name();
    for (int k = 0;; ++k) {
      const char* const known = dtype_name(static_cast<dtype>(k));
      if (*known == '?') refuse("'" + shown(word) + "' is no dtype");
      if (word == known) return static_cast<dtype>(k);
    }
  }

  /// An extent as dim::text() prints it.
  dim size(int depth = 0) {
    if (depth > 8) refuse("a size is nested too deeply");
    dim sum = takes("-") ? dim(-1) * term(depth) : term(depth);
    for (int terms = 0;; ++terms) {
      if (terms > 64) refuse("a size has too many terms");
      if (takes(" + ")) sum += term(depth);
      else if (takes(" - ")) sum += dim(-1) * term(depth);
      else return sum;
    }
  }
  /// "(2, s0*4)", "(2,)", "()"
  shape sizes() {
    expect("(");
    shape out;
    if (takes(")")) return out;
    for (;;) {
      out.push_back(size());
      if (takes(",)")) break;
      if (takes(")")) break;
      expect(", ");
    }
    return out;
  }
  shape sizes(std::string_view key) {
    expect(" " + std::string(key) + "=");
    return sizes();
  }
  /// " 1.5": a literal of a dtype.
  scalar literal(dtype t) {
    expect(" ");
    return literal_word(t);
  }
  scalar literal(dtype t, std::string_view key) {
    expect(" " + std::string(key) + "=");
    return literal_word(t);
  }

  static std::string shown(std::string_view text) {
    std::string out(text.substr(0, 40));
    for (char& c : out)
      if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
    return out;
  }

  opaque step;  ///< what an opaque node's head says

 private:
  std::string_view cut(std::size_t n) {
    const auto out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  dim term(int depth) {
    dim product = factor(depth);
    for (int factors = 0; takes("*"); ++factors) {
      if (factors > 16) refuse("a size has too many factors");
      product *= factor(depth);
    }
    return product;
  }
  dim factor(int depth) {
    if (takes("s")) {
      const std::int64_t k = integer();
      if (k < 0 || k >= sizes_) refuse("size s" + std::to_string(k) + " is not declared");
      return dim::symbol(static_cast<int>(k));
    }
    if (!takes("((")) return integer();
    const dim a = size(depth + 1);
    expect(")/(");
    const dim b = size(depth + 1);
    expect("))");
    if (b.lower_bound() < 1) refuse("a size is divided by " + b.text() + ", which may not be positive");
    if (!b.is_number() && a.lower_bound() < 0) refuse("a size that may be negative is divided by " + b.text());
    return floor_div(a, b);
  }
  scalar literal_word(dtype t) {
    std::size_t n = 0;
    while (n < rest_.size() && rest_[n] != ' ' && rest_[n] != '{') ++n;
    const std::string_view word = cut(n);
    const char* const end = word.data() + word.size();
    const auto all = [&](auto& x, auto... base) {
      const auto [at, error] = std::from_chars(word.data(), end, x, base...);
      return error == std::errc() && at == end && !word.empty();
    };
    scalar out;
    if (is_bool(t)) {
      if (word != "true" && word != "false") refuse("'" + shown(word) + "' is neither true nor false");
      out.i = word == "true";
    } else if (is_float(t)) {
      if (word.substr(0, 4) == "nan:") {
        std::uint64_t bits = 0;
        const auto [at, error] = std::from_chars(word.data() + 4, end, bits, 16);
        if (error != std::errc() || at != end) refuse("'" + shown(word) + "' is no number");
        out.f = std::bit_cast<double>(bits);
        if (out.f == out.f) refuse("'" + shown(word) + "' is no NaN");
      } else if (word == "nan") {
        out.f = std::numeric_limits<double>::quiet_NaN();
      } else if (!all(out.f)) {
        refuse("'" + shown(word) + "' is no number");
      }
    } else {
      out.i = whole(t, word, all);
    }
    return out;
  }
  template <class All>
  std::int64_t whole(dtype t, std::string_view word, All& all) const {
    const int bits = static_cast<int>(size_of(t)) * 8;
    std::uint64_t u = 0;
    std::int64_t i = 0;
    const bool fits = is_unsigned(t) ? all(u) && (bits == 64 || u >> bits == 0)
                                     : all(i) && (bits == 64 || (i >> (bits - 1) == 0 || i >> (bits - 1) == -1));
    if (!fits) refuse("'" + shown(word) + "' is no " + dtype_name(t));
    return is_unsigned(t) ? static_cast<std::int64_t>(u) : i;
  }

  std::string_view rest_;
  const std::string& source_;
  std::size_t number_;
  int sizes_;
};

}  // namespace sinter::ir::ops
