// linalg/functions.hpp: functions of (b, m, n), made of factorisations.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "shapes.hpp"
#include "steps.hpp"

namespace sinter::linalg {

namespace steps {

using shapes::largest;

/// The inverse permutation: rows[back[i]] = i.
inline tensor<std::int64_t, 2> inverse_order(const tensor<std::int64_t, 2>& rows) {
  const dim b = rows.size(0), m = rows.size(1);
  const sinter::detail::index_leaf<std::int64_t, dims(3)> wanted({b, m, m}, 1), place({b, m, m}, 2);
  return sum(where(eq(expand_dims<1>(rows), wanted), place, std::int64_t{0}), axis<-1>);
}

/// a⁻¹·y; with `transposed`, a⁻ᵀ·y.
template <class T>
stack_of<T> apply_lu(const stack_of<T>& a, const stack_of<T>& y, bool transposed, location at) {
  if (small::is_small(a, y.size(2))) return small::solve(transposed ? turned(a) : a, y);
  const lu_factors<T> f = lu(a, form::square, at);
  if (!transposed)
    return solve_triangle(f.both, solve_triangle(f.both, take_rows(y, f.rows), true, true, at), false, false, at);
  const stack_of<T> flipped = turned(f.both);
  return take_rows(solve_triangle(flipped, solve_triangle(flipped, y, true, false, at), false, true, at),
                   inverse_order(f.rows));
}

/// solve, whose derivatives solve with the same factors again.
template <class T>
stack_of<T> solve(const stack_of<T>& matrix, const stack_of<T>& right, bool transposed, location at) {
  return custom_vjp(
      [transposed, at](const stack_of<T>& a, const stack_of<T>& y) { return apply_lu(a, y, transposed, at); },
      [transposed, at](const stack_of<T>& a, const stack_of<T>& y) {
        const stack_of<T> x = apply_lu(a, y, transposed, at);
        return std::pair{x, std::tuple{a, x}};
      },
      [transposed, at](const std::tuple<stack_of<T>, stack_of<T>>& kept, const stack_of<T>& ct) {
        const auto& [a, x] = kept;
        const stack_of<T> dy = solve(a, ct, !transposed, at);
        return std::tuple{stack_of<T>(transposed ? -product(x, turned(dy)) : -product(dy, turned(x))), dy};
      },
      at)(matrix, right);
}

template <class T>
stack_of<T> inverse(const stack_of<T>& a, location at) {
  return solve(a, stack_of<T>(broadcast_to(ones_on_diagonal(a, a.size(2)), {a.size(0), a.size(1), a.size(2)})), false,
               at);
}

/// The sign of the permutation times the signs of u's diagonal, and the sum of the logarithms of its magnitudes.
template <class T>
std::pair<tensor<T, 1>, tensor<T, 1>> sign_and_log(const stack_of<T>& matrix, location at) {
  using both_t = std::pair<tensor<T, 1>, tensor<T, 1>>;
  const auto value = [at](const stack_of<T>& a) {
    if (small::is_small(a)) {
      auto [all, sign_of_all] = small::pivots(a);
      tensor<T, 1> sum = zeros_like(sign_of_all);
      for (const auto& p : all) {
        sum = sum + log(abs(p));
        sign_of_all = sign_of_all * sign(p);
      }
      return both_t{sign_of_all, sum};
    }
    const lu_factors<T> f = lu(a, form::square, at);
    const rows_of<T> d = diagonals(f.both);
    return both_t{tensor<T, 1>(prod(cast<T>(f.swaps), axis<-1>) * prod(sign(d), axis<-1>)),
                  tensor<T, 1>(sum(log(abs(d)), axis<-1>))};
  };
  return custom_vjp(
      value,
      [value](const stack_of<T>& a) {
        return std::pair{value(a), a};
      },
      [at](const stack_of<T>& a, const both_t& ct) {
        return stack_of<T>(expand_dims<2>(expand_dims<1>(ct.second)) * turned(inverse(a, at)));
      },
      at)(matrix);
}

/// The exponents of powers of two near the magnitudes, without derivatives; 0 for zeros and numbers that are not finite.
template <class T>
rows_of<T> powers_near(const rows_of<T>& x) {
  const rows_of<T> size = stop_gradient(rows_of<T>(abs(x)));
  return where(size > T(0) && isfinite(size), round(log2(size)), T(0));
}
/// x · 2^power. No intermediate leaves the range of T if the result does not.
template <class T>
stack_of<T> times_power(const stack_of<T>& x, const stack_of<T>& power) {
  constexpr T most = sizeof(T) == 4 ? T(120) : T(1000);
  stack_of<T> out = x;
  stack_of<T> left = power;
  for (int i = 0; i < 3; ++i) {
    const stack_of<T> now = clamp(left, -most, most);
    out = out * exp2(now);
    left = left - now;
  }
  return out;
}

/// u's diagonal, and the sign of the permutation.
template <class T>
std::pair<rows_of<T>, tensor<T, 1>> signed_pivots(const stack_of<T>& a, location at) {
  if (small::is_small(a)) {
    const auto [all, sign] = small::pivots(a);
    return {rows_of<T>(stack(all, axis<1>)), sign};
  }
  const lu_factors<T> f = lu(a, form::square, at);
  return {diagonals(f.both), tensor<T, 1>(prod(cast<T>(f.swaps), axis<-1>))};
}
/// The determinant, scaled by 2^power of each pivot to about 1, also where the determinant itself over- or underflows.
template <class T>
tensor<T, 1> scaled_determinant(const stack_of<T>& matrix, const rows_of<T>& powers, location at) {
  return custom_vjp(
      [at](const stack_of<T>& a, const rows_of<T>& power) {
        const auto [pivots, sign] = signed_pivots(a, at);
        const stack_of<T> near = times_power(stack_of<T>(expand_dims<2>(pivots)), stack_of<T>(expand_dims<2>(-power)));
        return tensor<T, 1>(sign * prod(rows_of<T>(squeeze<2>(near)), axis<-1>));
      },
      [at](const stack_of<T>& a, const rows_of<T>& power) {
        return std::pair{scaled_determinant(a, power, at), std::tuple{a, power}};
      },
      [at](const std::tuple<stack_of<T>, rows_of<T>>& kept, const tensor<T, 1>& ct) {
        const auto& [a, power] = kept;
        return std::tuple{
            stack_of<T>(expand_dims<2>(expand_dims<1>(ct * scaled_determinant(a, power, at))) * turned(inverse(a, at))),
            zeros_like(power)};
      },
      at)(matrix, powers);
}

template <class T>
tensor<T, 1> determinant(const stack_of<T>& matrix, location at) {
  const auto value = [at](const stack_of<T>& a) {
    if (small::is_small(a)) {
      auto [all, product_of_all] = small::pivots(a);
      for (const auto& p : all) product_of_all = product_of_all * p;
      return product_of_all;
    }
    const lu_factors<T> f = lu(a, form::square, at);
    return tensor<T, 1>(prod(cast<T>(f.swaps), axis<-1>) * prod(diagonals(f.both), axis<-1>));
  };
  return custom_vjp(
      value,
      [value](const stack_of<T>& a) {
        return std::pair{value(a), a};
      },
      [at](const stack_of<T>& a, const tensor<T, 1>& ct) {
        // Cofactors can be in the range of T even if the determinant is not.
        const rows_of<T> powers = powers_near(signed_pivots(a, at).first);
        const stack_of<T> near =
            expand_dims<2>(expand_dims<1>(ct * scaled_determinant(a, powers, at))) * turned(inverse(a, at));
        return times_power(near, stack_of<T>(expand_dims<2>(sum(powers, axis<-1>, keepdims))));
      },
      at)(matrix);
}

template <class T>
std::tuple<stack_of<T>, stack_of<T>, stack_of<T>> whole_lu(const stack_of<T>& a, form f, location at) {
  const lu_factors<T> all = lu(a, f, at);
  const dim b = a.size(0), m = a.size(1), n = a.size(2);
  const sinter::detail::index_leaf<std::int64_t, dims(3)> row({b, m, m}, 1);
  const stack_of<T> p = cast<T>(eq(row, expand_dims<1>(all.rows)));
  const stack_of<T> lower = f == form::wide ? stack_of<T>(slice<2>(all.both, 0, m)) : all.both;
  const stack_of<T> upper = f == form::tall ? stack_of<T>(slice<1>(all.both, 0, n)) : all.both;
  const dim k = f == form::wide ? m : n;
  const tensor<T, 2> ones = eye<T>(m, k, a.device());
  return {p, stack_of<T>(tril(lower, -1) + ones), stack_of<T>(triu(upper))};
}

/// QR. A wide matrix has q and r of its first columns; the other columns of r are qᵀ times the others of a.
template <class T>
std::tuple<stack_of<T>, stack_of<T>> whole_qr(const stack_of<T>& a, form f, location at) {
  if (f != form::wide) return qr(a, at);
  const dim m = a.size(1);
  const auto [q, r] = qr(stack_of<T>(slice<2>(a, 0, m)), at);
  return {q, stack_of<T>(concat<2>(r, product(turned(q), stack_of<T>(slice<2>(a, m)))))};
}

/// Eigenvalues. Their derivative does not require distinct eigenvalues.
template <class T>
rows_of<T> eigenvalues(const stack_of<T>& matrix, location at) {
  return custom_vjp([at](const stack_of<T>& a) { return rows_of<T>(std::get<1>(eigh(a, at))); },
                    [at](const stack_of<T>& a) {
                      const auto all = eigh(a, at);
                      return std::pair{rows_of<T>(std::get<1>(all)), stack_of<T>(std::get<0>(all))};
                    },
                    [](const stack_of<T>& v, const rows_of<T>& ct) { return product(times_columns(v, ct), turned(v)); },
                    at)(matrix);
}

template <class T>
std::tuple<stack_of<T>, rows_of<T>, stack_of<T>> raw_svd(const stack_of<T>& a, form f, location at) {
  if (f != form::wide) {
    const auto all = svd(a, f == form::tall, at);
    return {std::get<0>(all), std::get<1>(all), std::get<2>(all)};
  }
  const auto all = svd(turned(a), true, at);
  return {turned(std::get<2>(all)), std::get<1>(all), turned(std::get<0>(all))};
}

/// Singular values. Their derivative does not require distinct singular values.
template <class T>
rows_of<T> singular_values(const stack_of<T>& matrix, form f, location at) {
  return custom_vjp([f, at](const stack_of<T>& a) { return rows_of<T>(std::get<1>(raw_svd(a, f, at))); },
                    [f, at](const stack_of<T>& a) {
                      const auto [u, s, vt] = raw_svd(a, f, at);
                      return std::pair{s, std::tuple{u, vt}};
                    },
                    [](const std::tuple<stack_of<T>, stack_of<T>>& kept, const rows_of<T>& ct) {
                      return product(times_columns(std::get<0>(kept), ct), std::get<1>(kept));
                    },
                    at)(matrix);
}

template <class T>
std::tuple<stack_of<T>, rows_of<T>, stack_of<T>> whole_svd(const stack_of<T>& a, form f, location at) {
  const auto [u, s, vt] = raw_svd(a, f, at);
  return {u, sinter::detail::tracing() ? singular_values(a, f, at) : s, vt};
}

/// The pseudo-inverse of matrices with elements of about 1; its derivative is Golub and Pereyra's, and assumes a constant rank.
template <class T>
stack_of<T> scaled_pseudo_inverse(const stack_of<T>& matrix, location at) {
  const auto value = [at](const stack_of<T>& a) {
    const form f = form_of(a);
    const auto [u, s, vt] = raw_svd(a, f, at);
    const T wide = static_cast<T>(f == form::wide ? a.size(2) : a.size(1)) * std::numeric_limits<T>::epsilon();
    const rows_of<T> limit = expand_dims<1>(largest(s, at)) * wide;
    const rows_of<T> by = where(s <= limit, T(0), T(1) / where(s <= limit, T(1), s));
    return product(times_columns(turned(vt), by), turned(u));
  };
  return custom_jvp(
      value,
      [at, value](const stack_of<T>& a, const stack_of<T>& da) {
        const stack_of<T> p = scaled_pseudo_inverse(a, at), pt = turned(p), dat = turned(da);
        const stack_of<T> first = product(product(p, pt), dat), second = product(dat, product(pt, p));
        return std::pair{value(a), stack_of<T>(first - product(product(first, a), p) + second -
                                               product(p, product(a, second)) - product(p, product(da, p)))};
      },
      at)(matrix);
}

/// The pseudo-inverse of a matrix scaled to about 1 by a power of two, because its derivative multiplies two pseudo-inverses.
template <class T>
stack_of<T> pseudo_inverse(const stack_of<T>& a, location at) {
  const rows_of<T> size = expand_dims<1>(largest(largest(abs(a, at), at), at));
  const stack_of<T> by = expand_dims<2>(-powers_near(size));
  return times_power(scaled_pseudo_inverse(times_power(a, by), at), by);
}

template <class T>
stack_of<T> power(const stack_of<T>& a, std::int64_t n, location at) {
  stack_of<T> square = n < 0 ? inverse(a, at) : a;
  std::uint64_t left = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  stack_of<T> out = broadcast_to(ones_on_diagonal(a, a.size(2)), {a.size(0), a.size(1), a.size(2)});
  for (bool first = true; left != 0;) {
    if (left % 2 != 0) {
      out = first ? square : product(out, square);
      first = false;
    }
    left /= 2;
    if (left != 0) square = product(square, square);
  }
  // The result must share memory neither with a nor between matrices.
  if (n == 0 || n == 1)
    return sinter::detail::typed<T, dims(3)>(
        sinter::detail::unshared(sinter::detail::untyped(out, at), sinter::detail::untyped(a, at), at), at);
  return out;
}

/// Padé's quotient is (even + odd) / (even - odd) powers of a. Returns the odd part first.
template <class T>
std::pair<stack_of<T>, stack_of<T>> pade(const stack_of<T>& a) {
  const tensor<T, 2> one = ones_on_diagonal(a, a.size(2));
  const stack_of<T> a2 = product(a, a), a4 = product(a2, a2), a6 = product(a4, a2);
  if constexpr (sizeof(T) == 4) {
    const stack_of<T> inner = a6 + T(1512) * a4 + T(277200) * a2 + T(8648640) * one;
    return {product(a, inner), stack_of<T>(T(56) * a6 + T(25200) * a4 + T(1995840) * a2 + T(17297280) * one)};
  } else {
    const stack_of<T> high = a6 + T(16380) * a4 + T(40840800) * a2;
    const stack_of<T> inner = product(a6, high) + T(33522128640.) * a6 + T(10559470521600.) * a4 +
                              T(1187353796428800.) * a2 + T(32382376266240000.) * one;
    const stack_of<T> low = T(182) * a6 + T(960960) * a4 + T(1323241920) * a2;
    return {product(a, inner), stack_of<T>(product(a6, low) + T(670442572800.) * a6 + T(129060195264000.) * a4 +
                                           T(7771770303897600.) * a2 + T(64764752532480000.) * one)};
  }
}

template <class T>
stack_of<T> exponential(const stack_of<T>& a, location at) {
  constexpr T limit = sizeof(T) == 4 ? T(3.92572478313866) : T(5.37192035114815);
  constexpr std::int64_t most = 32;
  const tensor<T, 1> norm = stop_gradient(largest(sum(abs(a), axis<-2>, at), at));
  const tensor<T, 1> squares = clamp(ceil(log2(norm / limit)), T(0), T(most));
  const tensor<std::int64_t, 1> count = cast<std::int64_t>(squares);
  const stack_of<T> scaled = a * expand_dims<2>(expand_dims<1>(exp2(-squares)));
  const auto [odd, even] = pade(scaled);
  const stack_of<T> start = solve(stack_of<T>(even - odd), stack_of<T>(even + odd), false, at);
  const tensor<std::int64_t, 0> longest = largest(count, at);
  return scan(
             [&](const stack_of<T>& x, const tensor<std::int64_t, 0>& i) {
               const stack_of<T> next = cond(
                   i < longest,
                   [&](const stack_of<T>& each) {
                     return stack_of<T>(where(i < expand_dims<2>(expand_dims<1>(count)), product(each, each), each));
                   },
                   [](const stack_of<T>& each) { return each; }, x);
               return std::pair{next, std::tuple{}};
             },
             start, arange<std::int64_t>(most, a.device()))
      .first;
}

}  // namespace steps

}  // namespace sinter::linalg
