// ir/polynomial.hpp: the symbolic half of dim: canonical polynomials over size symbols and rounded quotients.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>

#include "../base/sorted.hpp"
#include "dim.hpp"

namespace sinter::ir {

namespace detail {

/// What a polynomial multiplies: a size symbol, or a quotient rounded down.
struct atom {
  std::string text;  ///< identifies it, and is its C spelling
  int symbol = -1;   ///< index of a size symbol; -1 for a quotient
  dim dividend, divisor;
};

struct term {
  std::int64_t coefficient = 0;
  series<std::shared_ptr<const atom>> factors;  ///< sorted by text
};

struct polynomial {
  std::int64_t constant = 0;
  sorted_map<std::string, term> terms;  ///< by the text of their factors; no zero coefficients
};

inline constexpr std::int64_t no_bound = std::int64_t{1} << 61;  ///< two of them can be added

// More than any memory holds stays more, where plans for it are compared; allocating it fails.
SINTER_API std::int64_t clamped(std::int64_t n) { return std::min(std::max(n, -no_bound), no_bound); }
SINTER_API std::int64_t clamped_product(std::int64_t a, std::int64_t b) {
  std::int64_t p = 0;
  if (__builtin_mul_overflow(a, b, &p)) return (a < 0) == (b < 0) ? no_bound : -no_bound;
  return clamped(p);
}
SINTER_API std::int64_t clamped_sum(std::int64_t a, std::int64_t b) { return clamped(clamped(a) + clamped(b)); }

SINTER_API std::string key_of(const term& t) {
  std::string k;
  for (const auto& f : t.factors) {
    if (!k.empty()) k += '*';
    k += f->text;
  }
  return k;
}

SINTER_API void add_term(polynomial& p, term t) {
  if (t.coefficient == 0) return;
  std::string key = key_of(t);
  const auto at = p.terms.find(key);
  if (at == p.terms.end()) p.terms.emplace(std::move(key), std::move(t));
  else if ((at->second.coefficient = clamped_sum(at->second.coefficient, t.coefficient)) == 0) p.terms.erase(at);
}

SINTER_API std::string text_of(const polynomial& p) {
  std::string out;
  for (const auto& [key, t] : p.terms) {
    if (!out.empty()) out += t.coefficient < 0 ? " - " : " + ";
    else if (t.coefficient < 0) out += '-';
    out += key;
    const std::int64_t c = t.coefficient < 0 ? -t.coefficient : t.coefficient;
    if (c != 1) out.append("*").append(std::to_string(c));
  }
  if (p.constant != 0)
    out.append(p.constant < 0 ? " - " : " + ").append(std::to_string(p.constant < 0 ? -p.constant : p.constant));
  return out;
}

/// The one dim that is equal to `p`.
SINTER_API dim interned(polynomial p) {
  if (p.terms.empty()) return dim(p.constant);
  static std::mutex mutex;
  static auto& table = *new sorted_map<std::string, std::unique_ptr<const polynomial>>;
  const std::string key = text_of(p);
  const std::lock_guard lock(mutex);
  auto& slot = table[key];
  if (!slot) slot = std::make_unique<const polynomial>(std::move(p));
  return dim::of(slot.get());
}

SINTER_API polynomial expanded(const dim& d) {
  if (d.symbolic()) return *d.symbolic();
  polynomial p;
  p.constant = *d.number();
  return p;
}

SINTER_API dim of_atom(atom a) {
  polynomial p;
  add_term(p, {1, {std::make_shared<const atom>(std::move(a))}});
  return interned(std::move(p));
}

SINTER_API polynomial sum_of(polynomial a, const polynomial& b) {
  a.constant = clamped_sum(a.constant, b.constant);
  for (const auto& [key, t] : b.terms) add_term(a, t);
  return a;
}

SINTER_API polynomial product_of(const polynomial& x, const polynomial& y) {
  polynomial product;
  product.constant = clamped_product(x.constant, y.constant);
  for (const auto& [key, t] : x.terms) add_term(product, {clamped_product(t.coefficient, y.constant), t.factors});
  for (const auto& [key, t] : y.terms) add_term(product, {clamped_product(t.coefficient, x.constant), t.factors});
  for (const auto& [kx, s] : x.terms)
    for (const auto& [ky, t] : y.terms) {
      term both{clamped_product(s.coefficient, t.coefficient), s.factors};
      for (const auto& f : t.factors) {
        auto at = both.factors.begin();
        while (at != both.factors.end() && (*at)->text < f->text) ++at;
        both.factors.insert(at, f);
      }
      add_term(product, std::move(both));
    }
  return product;
}

/// t / by, for a monomial `by`.
SINTER_API bool divide_term(term& t, const term& by) {
  if (t.coefficient % by.coefficient != 0) return false;
  t.coefficient /= by.coefficient;
  for (const auto& f : by.factors) {
    const auto at = std::find_if(t.factors.begin(), t.factors.end(), [&](const auto& x) { return x->text == f->text; });
    if (at == t.factors.end()) return false;
    t.factors.erase(at);
  }
  return true;
}

/// a as k·first + second for a number k: no term of second is a multiple of k, and it is not negative. Nothing if first is 0.
inline std::optional<std::pair<dim, dim>> split_multiples(const dim& a, const dim& divisor) {
  if (!divisor.is_number() || a.is_number()) return std::nullopt;
  const std::int64_t k = *divisor.number();
  polynomial multiples, rest;
  const polynomial& p = *a.symbolic();
  rest.constant = (p.constant % k + k) % k;
  multiples.constant = (p.constant - rest.constant) / k;
  for (const auto& [key, t] : p.terms) {
    if (t.coefficient % k == 0) add_term(multiples, {t.coefficient / k, t.factors});
    else add_term(rest, t);
  }
  if (multiples.constant == 0 && multiples.terms.empty()) return std::nullopt;
  const dim left = interned(std::move(rest));
  if (left.lower_bound() < 0) return std::nullopt;
  return std::pair(interned(std::move(multiples)), left);
}

}  // namespace detail

SINTER_API dim dim::symbol(int index) {
  detail::atom a;
  a.text = "s" + std::to_string(index);
  a.symbol = index;
  return detail::of_atom(std::move(a));
}

SINTER_API dim dim::add(const dim& a, const dim& b) {
  return detail::interned(detail::sum_of(detail::expanded(a), detail::expanded(b)));
}

SINTER_API dim dim::multiply(const dim& a, const dim& b) {
  if (a.is_number() && b.is_number()) return detail::clamped_product(a.number_, b.number_);
  return detail::interned(detail::product_of(detail::expanded(a), detail::expanded(b)));
}

SINTER_API std::optional<dim> dim::divided_by(const dim& d) const {
  if (*this == d) return dim(1);
  if (d.is(1)) return *this;
  if (d.is(0)) return std::nullopt;
  if (is_number() && d.is_number())
    return number_ % d.number_ == 0 ? std::optional(dim(number_ / d.number_)) : std::nullopt;
  const detail::polynomial from = detail::expanded(*this), by = detail::expanded(d);
  detail::term divisor{by.constant, {}};
  if (!by.terms.empty()) {
    if (by.constant != 0 || by.terms.size() != 1) return std::nullopt;
    divisor = by.terms.begin()->second;
  }
  detail::polynomial divided;
  detail::term constant{from.constant, {}};
  if (from.constant != 0 && !detail::divide_term(constant, divisor)) return std::nullopt;
  divided.constant = constant.coefficient;
  for (const auto& [key, t] : from.terms) {
    detail::term q = t;
    if (!detail::divide_term(q, divisor)) return std::nullopt;
    if (q.factors.empty()) divided.constant += q.coefficient;
    else detail::add_term(divided, std::move(q));
  }
  return detail::interned(std::move(divided));
}

SINTER_API dim floor_div(const dim& a, const dim& b) {
  if (const auto exact = a.divided_by(b)) return *exact;
  if (a.is_number() && b.is_number()) {
    ensure(*b.number() > 0, "floor_div by a positive number");
    return dim(*a.number() / *b.number());
  }
  if (const auto parts = detail::split_multiples(a, b)) return parts->first + floor_div(parts->second, b);
  detail::atom q;
  q.text = "((" + a.text() + ")/(" + b.text() + "))";
  q.dividend = a;
  q.divisor = b;
  return detail::of_atom(std::move(q));
}

namespace detail {

/// Whether a term pulls away from a bound at this side as what it multiplies grows.
inline bool pulls(const term& t, int side) { return (t.coefficient > 0) != (side > 0); }

/// `by` times a polynomial, or what is beyond that at a side: of each term, or of each that pulls, one quotient by a number k
/// is gone, floor(e / k) being between (e - k + 1) / k and e / k. by is 1 where there is none.
struct multiplied {
  std::int64_t by = 1;
  polynomial value;
};
inline multiplied without_quotients(const polynomial& p, int side, bool all) {
  constexpr std::int64_t most = std::int64_t{1} << 20, large = std::int64_t{1} << 40;
  const auto quotient_of = [&](const term& t) -> const atom* {
    if (!all && !pulls(t, side)) return nullptr;
    for (const auto& f : t.factors)
      if (f->symbol < 0 && f->divisor.is_number()) return f.get();
    return nullptr;
  };
  multiplied m;
  for (const auto& [key, t] : p.terms) {
    if (std::abs(t.coefficient) > large) return {};
    if (const atom* q = quotient_of(t)) m.by = std::lcm(m.by, std::min(*q->divisor.number(), most + 1));
    if (m.by > most) return {};
  }
  m.value.constant = clamped_product(p.constant, m.by);
  for (const auto& [key, t] : p.terms) {
    const atom* const gone = quotient_of(t);
    term rest{t.coefficient * m.by, t.factors};
    if (!gone) add_term(m.value, rest);
    if (!gone) continue;
    rest.coefficient /= *gone->divisor.number();
    rest.factors.erase(
        std::find_if(rest.factors.begin(), rest.factors.end(), [&](const auto& f) { return f.get() == gone; }));
    polynomial in_place = expanded(gone->dividend), by;
    if (!pulls(t, side)) in_place.constant -= *gone->divisor.number() - 1;
    if (rest.factors.empty()) by.constant = rest.coefficient;
    else add_term(by, std::move(rest));
    m.value = sum_of(std::move(m.value), product_of(in_place, by));
  }
  return m;
}

/// With 2 + t for each symbol, t at least 0, the constant is the bound unless another term pulls away from it.
inline std::int64_t bound_by_signs(const polynomial& p, int side) {
  const std::int64_t none = -side * (std::int64_t{1} << 62);
  std::int64_t total = p.constant;
  sorted_map<std::string, std::int64_t> shifted;
  for (const auto& [key, t] : p.terms) {
    const std::size_t n = t.factors.size();
    if (n > 10) return none;
    for (unsigned kept = 0; kept < 1u << n; ++kept) {
      std::int64_t c = t.coefficient;
      std::string name;
      bool overflows = false, splits = false;
      for (std::size_t i = 0; i < n; ++i)
        if (kept >> i & 1) name += t.factors[i]->text + '*';
        else if (t.factors[i]->symbol >= 0) overflows |= __builtin_mul_overflow(c, std::int64_t{2}, &c);
        else splits = true;  // a quotient is no sum
      if (overflows) return none;
      if (splits) continue;
      std::int64_t& sum = name.empty() ? total : shifted.emplace(std::move(name), 0).first->second;
      if (__builtin_add_overflow(sum, c, &sum)) return none;
    }
  }
  for (const auto& [name, c] : shifted)
    if (c != 0 && (c > 0) != (side > 0)) return none;
  return total;
}

inline std::int64_t bound_of(const polynomial& p, int side) {
  std::int64_t best = bound_by_signs(p, side);
  for (const bool all : {false, true}) {
    const multiplied m = without_quotients(p, side, all);
    if (m.by == 1) continue;
    const std::int64_t b = bound_of(m.value, side);
    if (b < -no_bound || b > no_bound) continue;
    // The value is whole: of b / by the next number inwards.
    const std::int64_t inwards = b / m.by + (b % m.by != 0 && (b > 0) == (side > 0) ? side : 0);
    best = side > 0 ? std::max(best, inwards) : std::min(best, inwards);
  }
  return best;
}

}  // namespace detail

SINTER_API std::int64_t dim::bound(int side) const { return detail::bound_of(*symbolic_, side); }

SINTER_API std::int64_t dim::value(std::span<const std::int64_t> sizes) const {
  std::int64_t total = symbolic_->constant;
  for (const auto& [key, t] : symbolic_->terms) {
    std::int64_t product = t.coefficient;
    for (const auto& f : t.factors) {
      if (f->symbol >= 0) {
        ensure(static_cast<std::size_t>(f->symbol) < sizes.size(), "dim::evaluate: every symbol is bound");
        product = detail::clamped_product(product, sizes[static_cast<std::size_t>(f->symbol)]);
      } else {
        const std::int64_t by = f->divisor.evaluate(sizes);
        ensure(by > 0, "dim::evaluate: positive divisor");
        product = detail::clamped_product(product, f->dividend.evaluate(sizes) / by);
      }
    }
    total = detail::clamped_sum(total, product);
  }
  return total;
}

SINTER_API bool depends_on(const dim& d, int symbol) {
  if (!d.symbolic()) return false;
  for (const auto& [key, t] : d.symbolic()->terms)
    for (const auto& f : t.factors)
      if (f->symbol >= 0 ? f->symbol == symbol : depends_on(f->dividend, symbol) || depends_on(f->divisor, symbol))
        return true;
  return false;
}

SINTER_API dim substituted(const dim& d, int symbol, const dim& value) {
  if (!depends_on(d, symbol)) return d;
  dim sum = d.symbolic()->constant;
  for (const auto& [key, t] : d.symbolic()->terms) {
    dim product = t.coefficient;
    for (const auto& f : t.factors) {
      if (f->symbol >= 0) product *= f->symbol == symbol ? value : dim::symbol(f->symbol);
      else product *= floor_div(substituted(f->dividend, symbol, value), substituted(f->divisor, symbol, value));
    }
    sum += product;
  }
  return sum;
}

SINTER_API std::optional<linear_form> linear_in(const dim& d, int symbol) {
  if (!d.symbolic()) return std::nullopt;
  for (const auto& [key, t] : d.symbolic()->terms)
    if (t.factors.size() == 1 && t.factors[0]->symbol == symbol) {
      linear_form form{t.coefficient, d - dim::symbol(symbol) * dim(t.coefficient)};
      if (depends_on(form.rest, symbol)) return std::nullopt;
      return form;
    }
  return std::nullopt;
}

SINTER_API size_range range_of(const dim& d, std::span<const std::int64_t> most) {
  if (const auto n = d.number()) return {*n, *n};
  size_range sum{d.symbolic()->constant, d.symbolic()->constant};
  for (const auto& [key, t] : d.symbolic()->terms) {
    // Symbols are positive and quotients are not negative.
    size_range product{1, 1};
    for (const auto& f : t.factors) {
      size_range r{2, detail::no_bound};
      if (f->symbol >= 0) {
        if (static_cast<std::size_t>(f->symbol) < most.size())
          r.most = std::min(detail::no_bound, most[static_cast<std::size_t>(f->symbol)]);
      } else {
        const size_range a = range_of(f->dividend, most), b = range_of(f->divisor, most);
        r = {b.most < detail::no_bound && b.most > 0 ? std::max<std::int64_t>(a.least, 0) / b.most : 0,
             a.most < detail::no_bound && b.least > 0 ? a.most / b.least : detail::no_bound};
      }
      product = {detail::clamped_product(product.least, r.least), detail::clamped_product(product.most, r.most)};
    }
    const std::int64_t low = detail::clamped_product(t.coefficient, t.coefficient > 0 ? product.least : product.most);
    const std::int64_t high = detail::clamped_product(t.coefficient, t.coefficient > 0 ? product.most : product.least);
    sum = {detail::clamped_sum(sum.least, low), detail::clamped_sum(sum.most, high)};
  }
  return sum;
}

SINTER_API dim product(std::span<const dim> extents) {
  dim n = 1;
  for (const auto& e : extents) n *= e;
  return n;
}

SINTER_API std::string dim::text() const { return symbolic_ ? detail::text_of(*symbolic_) : std::to_string(number_); }

SINTER_API std::string text_of(std::span<const dim> extents) {
  std::string out = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i) out += ", ";
    out += extents[i].text();
  }
  return out += extents.size() == 1 ? ",)" : ")";
}

}  // namespace sinter::ir
