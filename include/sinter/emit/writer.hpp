// emit/writer.hpp: indented text, C literals and index expressions, for all emitters.
#pragma once

#include <cctype>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "../plan/kernel/kernel.hpp"

namespace sinter::engine::emit {

class writer {
 public:
  writer& line(const std::string& text) {
    body_.append(2 * depth_, ' ').append(text).push_back('\n');
    return *this;
  }
  /// "head {" … end
  template <class F>
  void block(const std::string& head, F&& inside, const std::string& end = "}") {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
    inside();
    --depth_;
    line(end);
  }
  /// Prints a #line directive if the place is known and new. Escapes the file's name.
  void at(location where) {
    if (where.line <= 0 || (where.line == last_.line && std::string_view(where.file) == last_.file)) return;
    last_ = where;
    std::string file;
    for (const char* c = where.file; *c; ++c) {
      if (static_cast<unsigned char>(*c) < ' ') continue;
      if (*c == '"' || *c == '\\') file += '\\';
      file += *c;
    }
    body_ += "#line " + std::to_string(where.line) + " \"" + file + "\"\n";
  }
  const std::string& text() const { return body_; }
  /// Returns the text so far, and starts another one.
  std::string take() {
    last_ = {};
    return std::exchange(body_, {});
  }

 private:
  std::string body_;
  std::size_t depth_ = 0;
  location last_;
};

/// A literal of a dtype as a C expression; f16 and bf16 as float.
inline std::string literal(dtype type, ir::scalar x) {
  if (is_bool(type)) return x.i ? "true" : "false";
  if (!is_float(type)) {
    if (type == dtype::u64) return std::to_string(static_cast<std::uint64_t>(x.i)) + "ul";
    if (x.i == INT64_MIN) return "(-9223372036854775807l - 1)";
    return std::to_string(x.i) + (type == dtype::i64 || type == dtype::u32 ? "l" : "");
  }
  const double v = type == dtype::f64 ? x.f : static_cast<double>(static_cast<float>(x.f));
  const bool wide = type == dtype::f64;
  if (v != v) return wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  if (v - v != 0) return std::string(v < 0 ? "-" : "") + (wide ? "__builtin_inf()" : "__builtin_inff()");
  std::string s = wide ? text::number(v) : text::number(static_cast<float>(v));
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return wide ? s : s + "f";
}

/// The `value` column of ops.def with its identifiers replaced: a, b, c by operands, R by the result's type.
inline std::string substitute(std::string_view value, const series<std::string>& args, std::string_view result_type) {
  std::string out;
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t i = 0; i < value.size();) {
    if (!is_word(value[i])) {
      out += value[i++];
      continue;
    }
    std::size_t end = i;
    while (end < value.size() && is_word(value[end])) ++end;
    const std::string_view word = value.substr(i, end - i);
    if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'c') out += args.at(static_cast<std::size_t>(word[0] - 'a'));
    else if (word == "R") out += result_type;
    else out += word;
    i = end;
  }
  return out;
}

/// factor·variable, without a factor of 1.
inline std::string scaled(const ir::dim& factor, const std::string& variable) {
  if (factor.is(1)) return variable;
  const std::string f = factor.text();
  return variable + "*" + (factor.is_number() && *factor.number() >= 0 ? f : "(" + f + ")");
}

/// The sum of terms, "0" when there are none.
inline std::string sum(const series<std::string>& terms) {
  std::string out;
  for (const auto& t : terms) out += (out.empty() ? "" : " + ") + t;
  return out.empty() ? "0" : out;
}

/// offset + Σ stride·i<axis> over the axes that `included` accepts, without the indirect part.
inline std::string index_text(const plan::affine& at, const std::function<bool(std::size_t)>& included) {
  series<std::string> terms;
  for (std::size_t a = 0; a < at.stride.size(); ++a)
    if (!at.stride[a].is(0) && included(a)) terms.push_back(scaled(at.stride[a], "i" + std::to_string(a)));
  if (!at.offset.is(0)) terms.push_back(at.offset.is_number() ? at.offset.text() : "(" + at.offset.text() + ")");
  return sum(terms);
}

}  // namespace sinter::engine::emit
