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

/// A factor of a polynomial's terms: a size symbol, or a quotient rounded down.
struct atom {
  std::string text;  ///< its identity, and its C spelling
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

inline constexpr std::int64_t no_bound = std::int64_t{1} << 61;  ///< two of these can be added without overflow

// Sizes beyond any memory stay beyond it in comparisons of plans; allocating them fails.
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

/// The unique dim that equals `p`.
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

/// The largest term of p, by degree, then by factors. Products keep this order.
inline term leading(const polynomial& p) {
  const term* most = nullptr;
  const auto less = [](const auto& x, const auto& y) { return x->text < y->text; };
  for (const auto& [key, t] : p.terms) {
    const auto &x = t.factors, &y = most ? most->factors : t.factors;
    if (!most || x.size() > y.size() ||
        (x.size() == y.size() && std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), less)))
      most = &t;
  }
  return most ? *most : term{p.constant, {}};
}

inline polynomial of_term(term t) {
  polynomial p;
  if (t.factors.empty()) p.constant = t.coefficient;
  else add_term(p, std::move(t));
  return p;
}

/// p / by, if the remainder is 0.
inline std::optional<polynomial> exact_quotient(polynomial p, const polynomial& by) {
  constexpr int max_steps = 64;
  const term divisor = leading(by);
  polynomial out;
  for (int step = 0; !p.terms.empty() || p.constant != 0; ++step) {
    term t = leading(p);
    if (step == max_steps || !divide_term(t, divisor)) return std::nullopt;
    term away = t;
    away.coefficient *= -1;
    out = sum_of(std::move(out), of_term(std::move(t)));
    p = sum_of(std::move(p), product_of(of_term(std::move(away)), by));
  }
  return out;
}

inline std::int64_t floor_of(std::int64_t a, std::int64_t k) { return a / k - (a % k < 0); }

/// a as (dividend + rest·k) / k rounded down, if exactly one term is a quotient by a number k.
struct whole_quotient {
  dim dividend;
  std::int64_t divisor = 1;
};
inline std::optional<whole_quotient> as_one_quotient(const polynomial& a) {
  const atom* one = nullptr;
  std::int64_t sign = 1;
  for (const auto& [key, t] : a.terms)
    for (const auto& f : t.factors) {
      if (f->symbol >= 0) continue;
      if (one || t.factors.size() != 1 || std::abs(t.coefficient) != 1 || !f->divisor.is_number()) return std::nullopt;
      one = f.get();
      sign = t.coefficient;
    }
  if (!one) return std::nullopt;
  const dim k = one->divisor, rest = interned(a) - of_atom(*one) * dim(sign);
  // -floor(e / k) is floor((k - 1 - e) / k).
  const dim own = sign > 0 ? one->dividend : k - dim(1) - one->dividend;
  return whole_quotient{own + rest * k, *k.number()};
}

/// The atom, if p is a single quotient.
inline const atom* lone_quotient(const polynomial& p) {
  if (p.constant != 0 || p.terms.size() != 1) return nullptr;
  const term& t = p.terms.begin()->second;
  return t.coefficient == 1 && t.factors.size() == 1 && t.factors[0]->symbol < 0 ? t.factors[0].get() : nullptr;
}

/// floor(a / k) for a number k, in canonical form: coefficients below k, and merged equal quotients. The remaining dividend
/// is not negative.
inline dim quotient_by_number(const dim& a, std::int64_t k) {
  constexpr std::int64_t max_divisor = std::int64_t{1} << 31;
  if (const auto n = a.number()) return dim(floor_of(*n, k));
  if (const auto in = as_one_quotient(*a.symbolic()); in && k < max_divisor && in->divisor < max_divisor)
    return quotient_by_number(in->dividend, in->divisor * k);
  if (const atom* const q = lone_quotient(*a.symbolic())) return floor_div(q->dividend, q->divisor * dim(k));
  polynomial whole, left;
  const polynomial& p = *a.symbolic();
  whole.constant = floor_of(p.constant, k);
  left.constant = p.constant - whole.constant * k;
  std::int64_t common = k;
  for (const auto& [key, t] : p.terms) {
    const std::int64_t q = floor_of(t.coefficient, k), r = t.coefficient - q * k;
    add_term(whole, {q, t.factors});
    add_term(left, {r, t.factors});
    common = std::gcd(common, r);
  }
  if (left.terms.empty()) return interned(std::move(whole));
  if (common > 1) {
    for (auto& [key, t] : left.terms) t.coefficient /= common;
    left.constant /= common;
    k /= common;
  }
  // floor(x / k) is -floor((k - 1 - x) / k); chooses the form with the smaller first coefficient.
  const std::int64_t first = left.terms.begin()->second.coefficient;
  const bool turned = 2 * first > k || (2 * first == k && 2 * left.constant > k - 1);
  if (turned) {
    left.constant = k - 1 - left.constant;
    for (auto& [key, t] : left.terms) {
      add_term(whole, {1, t.factors});
      t.coefficient = k - t.coefficient;
    }
  }
  atom q;
  const dim dividend = interned(std::move(left));
  q.text = "((" + dividend.text() + ")/(" + std::to_string(k) + "))";
  q.dividend = dividend;
  q.divisor = dim(k);
  return interned(std::move(whole)) + of_atom(std::move(q)) * dim(turned ? -1 : 1);
}

/// Divides a and b by their common numbers and symbols; b is one term.
inline void cancel(polynomial& a, term& b) {
  std::int64_t common = std::gcd(b.coefficient, a.constant);
  for (const auto& [key, t] : a.terms) common = std::gcd(common, t.coefficient);
  term by{common, {}};
  for (std::size_t i = 0; a.constant == 0 && i < b.factors.size(); ++i) {
    term more = by;
    more.factors.push_back(b.factors[i]);
    const auto divides = [&](const auto& x) {
      term t = x.second;
      return divide_term(t, more);
    };
    if (b.factors[i]->symbol >= 0 && std::all_of(a.terms.begin(), a.terms.end(), divides)) by = std::move(more);
  }
  if (const auto less = exact_quotient(a, of_term(by)); less && divide_term(b, by)) a = *less;
}

/// floor(a / b) for a b that is not a number: multiples of a single term b become separate terms, if the rest is not negative.
inline dim quotient_by_sizes(const dim& a, const dim& b) {
  polynomial dividend = expanded(a);
  polynomial divisor = expanded(b);
  if (divisor.terms.size() == 1 && divisor.constant == 0) {
    term by = divisor.terms.begin()->second;
    cancel(dividend, by);
    divisor = of_term(by);
    polynomial whole, left;
    left.constant = dividend.constant;
    for (const auto& [key, t] : dividend.terms) {
      term q = t;
      if (!divide_term(q, by)) add_term(left, t);
      else whole = sum_of(std::move(whole), of_term(std::move(q)));
    }
    const bool some = whole.constant != 0 || !whole.terms.empty();
    if (const dim rest = interned(left); some && rest.lower_bound() >= 0)
      return interned(std::move(whole)) + floor_div(rest, interned(std::move(divisor)));
  }
  atom q;
  q.dividend = interned(std::move(dividend));
  q.divisor = interned(std::move(divisor));
  if (q.divisor.is_number()) return floor_div(q.dividend, q.divisor);
  if (const atom* const of = q.dividend.symbolic() ? lone_quotient(*q.dividend.symbolic()) : nullptr)
    return floor_div(of->dividend, of->divisor * q.divisor);
  q.text = "((" + q.dividend.text() + ")/(" + q.divisor.text() + "))";
  return of_atom(std::move(q));
}

/// The number of which a symbol of d must be a multiple, so that quotients by numbers are exact in it; 0 if too large.
inline std::int64_t period_of(const dim& d, int symbol, std::int64_t most) {
  std::int64_t all = 1;
  if (!depends_on(d, symbol)) return all;
  for (const auto& [key, t] : d.symbolic()->terms)
    for (const auto& f : t.factors) {
      if (f->symbol >= 0) continue;
      std::int64_t own = std::lcm(period_of(f->dividend, symbol, most), period_of(f->divisor, symbol, most));
      if (const auto k = f->divisor.number(); k && depends_on(f->dividend, symbol)) own *= *k > most ? 0 : *k;
      all = std::lcm(all, own);
      if (all > most || all == 0) return 0;
    }
  return all;
}

inline void add_symbols(sorted_map<int, std::int64_t>& to, const dim& d) {
  if (!d.symbolic()) return;
  for (const auto& [key, t] : d.symbolic()->terms)
    for (const auto& f : t.factors) {
      if (f->symbol >= 0) to.emplace(f->symbol, 1);
      add_symbols(to, f->dividend);
      add_symbols(to, f->divisor);
    }
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
  const auto exact = detail::exact_quotient(detail::expanded(*this), detail::expanded(d));
  return exact ? std::optional(detail::interned(*exact)) : std::nullopt;
}

SINTER_API dim floor_div(const dim& a, const dim& b) {
  if (const auto exact = a.divided_by(b)) return *exact;
  if (!b.is_number()) return detail::quotient_by_sizes(a, b);
  ensure(*b.number() > 0, "floor_div by a positive number");
  return detail::quotient_by_number(a, *b.number());
}

SINTER_API bool is_always_zero(const dim& d) {
  constexpr std::int64_t max_cases = 1024;
  if (d.is_number()) return d.is(0);
  sorted_map<int, std::int64_t> periods;
  detail::add_symbols(periods, d);
  std::int64_t cases = 1;
  for (auto& [symbol, period] : periods) {
    period = detail::period_of(d, symbol, max_cases);
    cases = detail::clamped_product(cases, period);
  }
  if (cases <= 1 || cases > max_cases) return false;
  for (std::int64_t i = 0; i < cases; ++i) {
    dim at = d;
    std::int64_t rest = i;
    for (const auto& [symbol, period] : periods) {
      if (period > 1) at = substituted(at, symbol, dim::symbol(symbol) * dim(period) + dim(rest % period));
      rest /= period;
    }
    if (!at.is(0)) return false;
  }
  return true;
}

namespace detail {

/// Whether a term moves away from the bound at this side as its factors grow.
inline bool pulls(const term& t, int side) { return (t.coefficient > 0) != (side > 0); }

/// `by` times a polynomial, or a bound of that at a side. In each term, or in each that pulls, a quotient by a number k is
/// replaced: floor(e / k) is between (e - k + 1) / k and e / k. by is 1 without such quotients.
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

/// With each symbol written as 2 + t, t ≥ 0, the constant is the bound unless another term pulls away from it.
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
        else splits = true;  // a quotient is not a sum
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
    // The value is an integer: b / by, rounded inwards.
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
    // Symbols are positive, and quotients are not negative.
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
