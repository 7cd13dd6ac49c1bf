// jit/library/numbers.hpp: numbers of an exported program: known, or C expressions over the sizes of a call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "../../base/series.hpp"
#include "../../ir/dim.hpp"
#include "../../ir/polynomial.hpp"

namespace sinter::engine::detail {

/// A number, or a C expression; `n` is then its value for the largest sizes.
struct c_number {
  std::int64_t n = 0;
  std::string text = {};  ///< empty for a number

  bool is_known() const { return text.empty(); }
  bool is(std::int64_t x) const { return is_known() && n == x; }
  std::string str() const { return is_known() ? std::to_string(n) : text; }
};

/// The C statements that compute a program's numbers: constants of its function `places`, and those that its steps read, in `at`.
/// Numbers for the largest sizes stay within a bound that refuses the export.
class c_numbers {
 public:
  /// `symbols` are the sizes for which memory is counted: the largest.
  explicit c_numbers(series<std::int64_t> symbols) {
    for (std::size_t k = 0; k < symbols.size(); ++k) symbols_.push_back({symbols[k], "z[" + std::to_string(k) + "]"});
  }

  const series<c_number>& symbols() const { return symbols_; }

  c_number value(const ir::dim& d) { return value(d, symbols_); }
  /// d, with these values of its symbols.
  c_number value(const ir::dim& d, std::span<const c_number> symbols) {
    if (const auto n = d.number()) return {*n};
    series<std::int64_t> numbers;
    std::string scope;
    bool known = true;
    for (std::size_t k = 0; k < symbols.size(); ++k) {
      numbers.push_back(symbols[k].n);
      if (!depends_on(d, static_cast<int>(k))) continue;
      known = known && symbols[k].is_known();
      scope += std::string(scope.empty() ? "const long " : ", ") + "s" + std::to_string(k) + " = " + symbols[k].str();
    }
    const std::int64_t most = d.evaluate({numbers.data(), numbers.size()});
    if (known) return {most};
    return named(most, "{ " + scope + "; $ = " + d.text() + "; }", true);
  }

  c_number sum(const c_number& a, const c_number& b) {
    if (a.is_known() && b.is_known()) return {ir::detail::clamped_sum(a.n, b.n)};
    return a.is(0) ? b : b.is(0) ? a : named(ir::detail::clamped_sum(a.n, b.n), a.str() + " + " + b.str());
  }
  c_number product(const c_number& a, const c_number& b) {
    if (a.is_known() && b.is_known()) return {ir::detail::clamped_product(a.n, b.n)};
    return a.is(1)              ? b
           : b.is(1)            ? a
           : a.is(0) || b.is(0) ? c_number{0}
                                : named(ir::detail::clamped_product(a.n, b.n), a.str() + " * " + b.str());
  }
  c_number larger(const c_number& a, const c_number& b) {
    if (a.is_known() && b.is_known()) return {std::max(a.n, b.n)};
    if (a.is(0) || a.text == b.text) return b.is_known() ? a : b;
    return b.is(0) ? a : named(std::max(a.n, b.n), "LARGER(" + a.str() + ", " + b.str() + ")");
  }
  c_number smaller(const c_number& a, const c_number& b) {
    if (a.is_known() && b.is_known()) return {std::min(a.n, b.n)};
    return named(std::min(a.n, b.n), "(" + a.str() + " < " + b.str() + " ? " + a.str() + " : " + b.str() + ")");
  }
  /// a, or 0 if it is larger than a number.
  c_number at_most(const c_number& a, std::int64_t most) {
    if (a.is_known()) return {a.n <= most ? a.n : 0};
    return named(std::min(a.n, most), "(" + a.str() + " <= " + std::to_string(most) + " ? " + a.str() + " : 0)");
  }
  /// a, rounded up to a multiple of 64.
  c_number whole(const c_number& a) {
    const std::int64_t n = ir::detail::clamped_sum(a.n, 63) / 64 * 64;
    return a.is_known() ? c_number{n} : named(n, "UP64(" + a.str() + ")");
  }
  /// The number of threads that the machine has for a call.
  c_number threads(bool several) const { return several ? c_number{1024, "threads"} : c_number{1}; }

  /// The number as the program's steps write it.
  std::string in_step(const c_number& a) {
    if (a.is_known()) return std::to_string(a.n);
    if (a.text.starts_with("z[")) return "c->" + a.text;
    const auto [at, fresh] = kept_.emplace(a.text, kept_.size());
    return "c->at[" + std::to_string(at->second) + "]";
  }

  /// The statements of `places`, which end with those that fill `at`.
  std::string text() const {
    std::string out = body_;
    if (kept_.empty()) return out;
    out += "  if (at) {\n";
    for (const auto& [name, at] : kept_) out += "    at[" + std::to_string(at) + "] = " + name + ";\n";
    return out + "  }\n";
  }
  std::size_t kept() const { return kept_.size(); }

 private:
  c_number named(std::int64_t most, const std::string& made, bool scoped = false) {
    const auto [at, fresh] = names_.emplace(made, "t" + std::to_string(names_.size()));
    if (fresh && !scoped) body_ += "  const long " + at->second + " = " + made + ";\n";
    if (fresh && scoped) {
      std::string text = made;
      text.replace(text.find('$'), 1, at->second);
      body_ += "  long " + at->second + ";\n  " + text + "\n";
    }
    return {most, at->second};
  }

  series<c_number> symbols_;
  std::string body_;
  std::map<std::string, std::string> names_;
  std::map<std::string, std::size_t> kept_;
};

}  // namespace sinter::engine::detail
