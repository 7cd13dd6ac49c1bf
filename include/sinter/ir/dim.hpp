// ir/dim.hpp: an extent or index coefficient: a number, or a polynomial over size symbols.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../base/error.hpp"

namespace sinter::ir {

class dim;

namespace detail {
/// What a polynomial multiplies: a size symbol, or a rounded quotient of two polynomials.
struct atom {
  std::string text;  ///< identifies it, and is its C spelling
  int symbol = -1;   ///< index of a size symbol; -1 for a quotient
  std::shared_ptr<const std::pair<dim, dim>> quotient;
};

struct term {
  std::int64_t coefficient = 0;
  std::vector<std::shared_ptr<const atom>> factors;  ///< sorted by text

  std::string key() const {
    std::string k;
    for (const auto& f : factors) k += (k.empty() ? "" : "*") + f->text;
    return k;
  }
};
}  // namespace detail

/// Exact integer arithmetic on extents. Equality is equality of canonical forms: equal dims are equal for every
/// binding of the symbols; unequal ones may still agree for some.
class dim {
 public:
  dim() = default;
  dim(std::int64_t n) : constant_(n) {}

  /// The size symbol s<index>, assumed to be at least 2.
  static dim symbol(int index) {
    auto a = std::make_shared<detail::atom>();
    a->text = "s" + std::to_string(index);
    a->symbol = index;
    dim d;
    d.terms_.push_back({1, {std::move(a)}});
    return d;
  }

  bool is_number() const { return terms_.empty(); }
  bool is(std::int64_t n) const { return is_number() && constant_ == n; }
  std::optional<std::int64_t> number() const { return is_number() ? std::optional(constant_) : std::nullopt; }

  friend dim operator+(dim a, const dim& b) {
    a.constant_ += b.constant_;
    for (const auto& t : b.terms_) a.add(t);
    return a;
  }
  friend dim operator*(const dim& a, const dim& b) {
    dim r(a.constant_ * b.constant_);
    for (const auto& t : a.terms_) r.add({t.coefficient * b.constant_, t.factors});
    for (const auto& t : b.terms_) r.add({t.coefficient * a.constant_, t.factors});
    for (const auto& x : a.terms_)
      for (const auto& y : b.terms_) {
        detail::term t{x.coefficient * y.coefficient, x.factors};
        t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
        std::sort(t.factors.begin(), t.factors.end(), [](const auto& p, const auto& q) { return p->text < q->text; });
        r.add(std::move(t));
      }
    return r;
  }
  friend dim operator-(const dim& a, const dim& b) { return a + b * dim(-1); }
  dim& operator+=(const dim& b) { return *this = *this + b; }
  dim& operator*=(const dim& b) { return *this = *this * b; }

  /// The exact quotient, where every term divides by one monomial; nothing otherwise.
  std::optional<dim> divided_by(const dim& d) const {
    if (*this == d) return dim(1);
    if (d.is(1)) return *this;
    if (d.is_number()) {
      if (d.constant_ == 0) return std::nullopt;
      dim r = *this;
      if (r.constant_ % d.constant_ != 0) return std::nullopt;
      r.constant_ /= d.constant_;
      for (auto& t : r.terms_) {
        if (t.coefficient % d.constant_ != 0) return std::nullopt;
        t.coefficient /= d.constant_;
      }
      return r;
    }
    if (d.constant_ != 0 || d.terms_.size() != 1 || constant_ != 0) return std::nullopt;
    const auto& by = d.terms_[0];
    dim r;
    for (auto t : terms_) {
      if (t.coefficient % by.coefficient != 0) return std::nullopt;
      t.coefficient /= by.coefficient;
      for (const auto& f : by.factors) {
        auto at = std::find_if(t.factors.begin(), t.factors.end(), [&](const auto& x) { return x->text == f->text; });
        if (at == t.factors.end()) return std::nullopt;
        t.factors.erase(at);
      }
      r.add(std::move(t));
    }
    return r;
  }

  /// floor(a / b), for a ≥ 0 and b > 0.
  friend dim floor_div(const dim& a, const dim& b) {
    if (const auto exact = a.divided_by(b)) return *exact;
    if (a.is_number() && b.is_number()) {
      ensure(b.constant_ > 0, "floor_div by a positive number");
      return dim(a.constant_ / b.constant_);
    }
    auto q = std::make_shared<detail::atom>();
    q->text = "((" + a.text() + ")/(" + b.text() + "))";
    q->quotient = std::make_shared<const std::pair<dim, dim>>(a, b);
    dim r;
    r.terms_.push_back({1, {std::move(q)}});
    return r;
  }

  /// A number that no binding goes below (symbols are at least 2), as far as the signs of the terms tell.
  std::int64_t lower_bound() const { return bound(1); }
  std::int64_t upper_bound() const { return bound(-1); }

  /// The value under `sizes`, indexed by symbol.
  std::int64_t evaluate(std::span<const std::int64_t> sizes) const {
    std::int64_t total = constant_;
    for (const auto& t : terms_) {
      std::int64_t product = t.coefficient;
      for (const auto& f : t.factors) {
        if (f->symbol >= 0) {
          ensure(static_cast<std::size_t>(f->symbol) < sizes.size(), "dim::evaluate: every symbol is bound");
          product *= sizes[static_cast<std::size_t>(f->symbol)];
        } else {
          const std::int64_t by = f->quotient->second.evaluate(sizes);
          ensure(by > 0, "dim::evaluate: positive divisor");
          product *= f->quotient->first.evaluate(sizes) / by;
        }
      }
      total += product;
    }
    return total;
  }

  /// The C spelling; also what is printed: "64", "s0*64 + 1".
  std::string text() const {
    std::string out;
    for (const auto& t : terms_) {
      if (!out.empty()) out += t.coefficient < 0 ? " - " : " + ";
      else if (t.coefficient < 0) out += "-";
      const std::int64_t c = t.coefficient < 0 ? -t.coefficient : t.coefficient;
      out += t.key();
      if (c != 1) out += "*" + std::to_string(c);
    }
    if (out.empty()) return std::to_string(constant_);
    if (constant_ > 0) out += " + " + std::to_string(constant_);
    if (constant_ < 0) out += " - " + std::to_string(-constant_);
    return out;
  }

  bool operator==(const dim& other) const {
    if (constant_ != other.constant_ || terms_.size() != other.terms_.size()) return false;
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (terms_[i].coefficient != other.terms_[i].coefficient || terms_[i].key() != other.terms_[i].key()) return false;
    return true;
  }

 private:
  /// The least value (side 1) or the greatest (side -1); a huge number of that sign where there is none.
  std::int64_t bound(int side) const {
    std::int64_t total = constant_;
    for (const auto& t : terms_) {
      std::int64_t least = t.coefficient;
      for (const auto& f : t.factors) least *= f->symbol >= 0 ? 2 : 0;
      if ((t.coefficient > 0) != (side > 0)) return -side * (std::int64_t{1} << 62);
      total += least;
    }
    return total;
  }

  void add(detail::term t) {
    if (t.coefficient == 0) return;
    const std::string key = t.key();
    auto at = std::lower_bound(terms_.begin(), terms_.end(), key,
                               [](const detail::term& x, const std::string& k) { return x.key() < k; });
    if (at == terms_.end() || at->key() != key) {
      terms_.insert(at, std::move(t));
    } else if ((at->coefficient += t.coefficient) == 0) {
      terms_.erase(at);
    }
  }

  std::int64_t constant_ = 0;
  std::vector<detail::term> terms_;  ///< sorted by key; no zero coefficients
};

inline std::string text_of(std::span<const dim> extents) {
  std::string out = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) out += (i ? ", " : "") + extents[i].text();
  return out + (extents.size() == 1 ? ",)" : ")");
}

inline dim product(std::span<const dim> extents) {
  dim n = 1;
  for (const auto& e : extents) n *= e;
  return n;
}

}  // namespace sinter::ir
