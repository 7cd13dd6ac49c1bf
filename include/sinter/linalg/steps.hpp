// linalg/steps.hpp: factorisations as steps of a graph on (b, m, n), with their derivatives in closed form.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>

#include "../engine/factors.hpp"
#include "../sinter.hpp"
#include "small.hpp"

namespace sinter::linalg::steps {

/// Matrices one after the other, and rows.
template <class T>
using stack_of = tensor<T, 3>;
template <class T>
using rows_of = tensor<T, 2>;

/// A factorisation on the host, and by the textbook's way.
struct host_code {
  engine::factor_request how;

  template <class... E>
  void operator()(const E&... e) const {
    const ir::foreign_array all[] = {array(e)...};
    constexpr std::size_t operands = (std::size_t{0} + ... + std::size_t{is_operand<E>});
    engine::factorise(how, {all, operands}, {all + operands, sizeof...(E) - operands});
  }
  host_code plain() const {
    host_code out = *this;
    out.how.plain = true;
    return out;
  }

 private:
  template <class E>
  static constexpr bool is_operand = std::is_const_v<std::remove_pointer_t<decltype(E::data)>>;
  template <class E>
  static ir::foreign_array array(const E& e) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(e.data)>>;
    return {const_cast<T*>(e.data), dtype_of<T>, e.extents.data(), static_cast<int>(e.extents.size())};
  }
};

template <class T>
cuda_source device_code(const engine::factor_request& how) {
  return {engine::factor_text(how, dtype_of<T>), "sinter_factor", 256};
}

/// A stack of stacks as one: axes 0 and 1 become one axis.
template <class X>
auto join_lanes(const X& x, location at) {
  const auto h = sinter::detail::untyped(x, at);
  dims to{h.extents[0] * h.extents[1]};
  for (int i = 2; i < X::rank; ++i) to.push(h.extents[i]);
  return sinter::detail::typed<typename X::value_type, sinter::detail::any_shape(X::rank - 1)>(
      sinter::detail::views::reshape(h, to, at), at);
}
/// What undoes it for so many lanes.
template <class X>
auto part_lanes(const X& x, dim lanes, dim each, location at) {
  const auto h = sinter::detail::untyped(x, at);
  dims to{lanes, each};
  for (int i = 1; i < X::rank; ++i) to.push(h.extents[i]);
  return sinter::detail::typed<typename X::value_type, sinter::detail::any_shape(X::rank + 1)>(
      sinter::detail::views::reshape(h, to, at), at);
}

/// The rule for lanes of a step that `call` makes: a longer stack.
template <class Call>
auto lanes_by(Call call) {
  return [call](const auto& first, const auto&... more) {
    const location at = location::current();
    const dim lanes = first.size(0), each = first.size(1);
    return std::apply([&](const auto&... y) { return std::tuple{part_lanes(y, lanes, each, at)...}; },
                      call(join_lanes(first, at), join_lanes(more, at)...));
  };
}

template <class T>
stack_of<T> product(const stack_of<T>& a, const stack_of<T>& b) {
  return matmul(a, b);
}
template <class T>
stack_of<T> turned(const stack_of<T>& a) {
  return transpose(a);
}
/// The diagonals, and a stack of ones on the diagonal.
template <class T>
rows_of<T> diagonals(const stack_of<T>& a) {
  return sum(tril(triu(a)), axis<-1>);
}
template <class T>
tensor<T, 2> ones_on_diagonal(const stack_of<T>& like, dim n) {
  return eye<T>(n, n, like.device());
}
/// Each column, or row, times an element of s.
template <class T>
stack_of<T> times_columns(const stack_of<T>& a, const rows_of<T>& s) {
  return a * expand_dims<1>(s);
}
template <class T>
stack_of<T> times_rows(const stack_of<T>& a, const rows_of<T>& s) {
  return a * expand_dims<2>(s);
}

/// a⁻¹·y for triangles.
template <class T>
stack_of<T> solve_triangle(const stack_of<T>& a, const stack_of<T>& y, bool lower, bool unit,
                           location at = location::current());

/// What of a such a step reads.
template <class T>
stack_of<T> triangle(const stack_of<T>& a, bool lower, bool unit) {
  if (lower) return tril(a, unit ? -1 : 0);
  return triu(a, unit ? 1 : 0);
}

template <class T>
auto make_solve_triangle(bool lower, bool unit) {
  const engine::factor_request how{engine::factorisation::triangular_solve, lower, unit};
  return custom_op<"triangular_solve">(
      host_code{how}, device_code<T>(how), [](const auto&, const auto& y) { return result_of<T, 3>{y}; },
      [lower, unit](const stack_of<T>& a, const stack_of<T>&, const stack_of<T>& x, const stack_of<T>& ct) {
        const stack_of<T> y = solve_triangle(turned(a), ct, !lower, unit);
        return std::tuple{triangle(stack_of<T>(-product(y, turned(x))), lower, unit), y};
      },
      [lower, unit](const stack_of<T>& a, const stack_of<T>&, const stack_of<T>& x, const stack_of<T>& da,
                    const stack_of<T>& dy) {
        return solve_triangle(a, stack_of<T>(dy - product(triangle(da, lower, unit), x)), lower, unit);
      },
      lanes_by([lower, unit](const stack_of<T>& a, const stack_of<T>& y) {
        return std::tuple{solve_triangle(a, y, lower, unit)};
      }));
}

template <class T>
stack_of<T> solve_triangle(const stack_of<T>& a, const stack_of<T>& y, bool lower, bool unit, location at) {
  if (small::is_small(a, y.size(2))) return small::solve_triangle(a, y, lower, unit);
  using op = decltype(make_solve_triangle<T>(true, true));
  static const op ops[] = {make_solve_triangle<T>(false, false), make_solve_triangle<T>(false, true),
                           make_solve_triangle<T>(true, false), make_solve_triangle<T>(true, true)};
  return ops[(lower ? 2 : 0) + (unit ? 1 : 0)].call_at(at, a, y);
}

/// The lower triangle with half its diagonal.
template <class T>
stack_of<T> lower_half(const stack_of<T>& a) {
  return T(0.5) * (tril(a) + tril(a, -1));
}

/// l of symmetric a.
template <class T>
stack_of<T> cholesky(const stack_of<T>& matrix, location at) {
  if (small::is_small(matrix)) return small::cholesky(matrix);
  constexpr engine::factor_request how{engine::factorisation::cholesky};
  static const auto op = custom_op<"cholesky">(
      host_code{how}, device_code<T>(how), [](const auto& a) { return result_of<T, 3>{a}; }, none,
      // Murray: l·half(l⁻¹·da·l⁻ᵀ)
      [](const stack_of<T>&, const stack_of<T>& l, const stack_of<T>& da) {
        const stack_of<T> left = solve_triangle(l, da, true, false);
        return product(l, lower_half(solve_triangle(l, turned(left), true, false)));
      },
      lanes_by([](const stack_of<T>& a) { return std::tuple{cholesky<T>(a, location::current())}; }));
  return op.call_at(at, matrix);
}

/// How a matrix's extents compare.
enum class form : std::uint8_t { square, tall, wide };

/// The unit lower factor as a square matrix of a's rows, of which the part below the diagonal counts; the upper one of its columns.
template <class T>
stack_of<T> whole_lower(const stack_of<T>& both, form f) {
  const dim b = both.size(0), m = both.size(1), n = both.size(2);
  if (f == form::square) return both;
  if (f == form::wide) return slice<2>(both, 0, m);
  return concat<2>(both, full<T>(T(0), {b, m, m - n}, both.device()));
}
template <class T>
stack_of<T> whole_upper(const stack_of<T>& both, form f) {
  const dim b = both.size(0), m = both.size(1), n = both.size(2);
  if (f == form::square) return triu(both);
  if (f == form::tall) return triu(slice<1>(both, 0, n));
  const tensor<T, 2> ones = slice<0>(ones_on_diagonal(both, n), m);
  return concat<1>(stack_of<T>(triu(both)), stack_of<T>(broadcast_to(ones, {b, n - m, n})));
}

/// Row i of the result is row rows[i].
template <class T>
stack_of<T> take_rows(const stack_of<T>& a, const tensor<std::int64_t, 2>& rows) {
  return take_along_axis(a, expand_dims<2>(rows), axis<1>);
}

template <class T>
struct lu_factors {
  tensor<std::int64_t, 2> rows, swaps;
  stack_of<T> both;
};

template <class T>
lu_factors<T> lu(const stack_of<T>& a, form f, location at);

template <class T>
auto make_lu(form f) {
  constexpr engine::factor_request how{engine::factorisation::lu};
  const auto shape = [f](const auto& a) {
    const dim steps = f == form::wide ? a[1] : a[2];
    return std::tuple{result_of<std::int64_t, 2>{{a[0], a[1]}}, result_of<std::int64_t, 2>{{a[0], steps}},
                      result_of<T, 3>{a}};
  };
  return custom_op<"lu">(
      host_code{how}, device_code<T>(how), shape, none,
      [f](const auto&, const auto& rows, const auto&, const stack_of<T>& both, const stack_of<T>& da) {
        const stack_of<T> l = whole_lower(both, f), u = whole_upper(both, f);
        const stack_of<T> left = solve_triangle(l, take_rows(da, rows), true, true);
        const stack_of<T> x = turned(solve_triangle(turned(u), turned(left), true, false));
        const stack_of<T> below = tril(x, -1);
        return stack_of<T>(below + product(stack_of<T>(tril(l, -1)), below) + product(stack_of<T>(triu(x)), u));
      },
      lanes_by([f](const stack_of<T>& a) {
        const auto all = lu(a, f, location::current());
        return std::tuple{all.rows, all.swaps, all.both};
      }));
}

template <class T>
lu_factors<T> lu(const stack_of<T>& a, form f, location at) {
  using op = decltype(make_lu<T>(f));
  static const op ops[] = {make_lu<T>(form::square), make_lu<T>(form::tall), make_lu<T>(form::wide)};
  const auto [rows, swaps, both] = ops[static_cast<std::size_t>(f)].call_at(at, a);
  return {rows, swaps, both};
}

/// q and r of a with as many rows as columns, or more.
template <class T>
std::tuple<stack_of<T>, stack_of<T>> qr(const stack_of<T>& matrix, location at) {
  constexpr engine::factor_request how{engine::factorisation::qr};
  static const auto op = custom_op<"qr">(
      host_code{how}, device_code<T>(how),
      [](const auto& a) {
        return std::tuple{result_of<T, 3>{a}, result_of<T, 3>{{a[0], a[2], a[2]}}};
      },
      none,
      [](const stack_of<T>&, const stack_of<T>& q, const stack_of<T>& r, const stack_of<T>& da) {
        const stack_of<T> x = turned(solve_triangle(turned(r), turned(da), true, false));
        const stack_of<T> inner = product(turned(q), x), below = tril(inner, -1);
        const stack_of<T> upper = inner - below + turned(below);
        return std::tuple{stack_of<T>(x - product(q, upper)), product(upper, r)};
      },
      lanes_by([](const stack_of<T>& a) { return qr<T>(a, location::current()); }));
  return op.call_at(at, matrix);
}

/// 1 / gap off the diagonal, 0 on it.
template <class T>
stack_of<T> inverse_gaps(const stack_of<T>& gap) {
  const tensor<T, 2> ones = ones_on_diagonal(gap, gap.size(2));
  return T(1) / (gap + ones) - ones;
}

template <class T>
using work_in = std::tuple<stack_of<T>, rows_of<T>, stack_of<std::int64_t>, stack_of<std::int64_t>>;

/// Vectors in columns and values of symmetric a, and what kernels work in.
template <class T>
work_in<T> eigh(const stack_of<T>& matrix, location at) {
  constexpr engine::factor_request how{engine::factorisation::eigh};
  static const auto op = custom_op<"eigh">(
      host_code{how}, device_code<T>(how),
      [](const auto& a) {
        return std::tuple{result_of<T, 3>{a}, result_of<T, 2>{{a[0], a[2]}}, result_of<std::int64_t, 3>{a},
                          result_of<std::int64_t, 3>{{a[0], 2, a[2]}}};
      },
      none,
      [](const stack_of<T>&, const stack_of<T>& v, const rows_of<T>& w, const auto&, const auto&,
         const stack_of<T>& da) {
        const stack_of<T> inner = product(turned(v), product(da, v));
        const stack_of<T> gaps = expand_dims<1>(w) - expand_dims<2>(w);
        return std::tuple{product(v, stack_of<T>(inner * inverse_gaps(gaps))), diagonals(inner)};
      },
      lanes_by([](const stack_of<T>& a) { return eigh<T>(a, location::current()); }));
  return op.call_at(at, matrix);
}

template <class T>
using svd_work = std::tuple<stack_of<T>, rows_of<T>, stack_of<T>, stack_of<std::int64_t>, stack_of<std::int64_t>>;

/// u, s, transposed v of a that is not wide, and what kernels work in.
template <class T>
svd_work<T> svd(const stack_of<T>& a, bool tall, location at);

template <class T>
auto make_svd(bool tall) {
  constexpr engine::factor_request how{engine::factorisation::svd};
  return custom_op<"svd">(
      host_code{how}, device_code<T>(how),
      [](const auto& a) {
        return std::tuple{result_of<T, 3>{a}, result_of<T, 2>{{a[0], a[2]}}, result_of<T, 3>{{a[0], a[2], a[2]}},
                          result_of<std::int64_t, 3>{{a[0], a[1] + a[2], a[2]}},
                          result_of<std::int64_t, 3>{{a[0], 2, a[2]}}};
      },
      none,
      [tall](const stack_of<T>&, const stack_of<T>& u, const rows_of<T>& s, const stack_of<T>& vt, const auto&,
             const auto&, const stack_of<T>& da) {
        const stack_of<T> v = turned(vt), image = product(da, v), inner = product(turned(u), image);
        const auto row = expand_dims<1>(s);
        const auto column = expand_dims<2>(s);
        const stack_of<T> by = inverse_gaps(stack_of<T>((row + column) * (row - column)));
        const stack_of<T> right = times_columns(inner, s), left = times_rows(inner, s);
        stack_of<T> du = product(u, stack_of<T>(by * (right + turned(right))));
        const stack_of<T> dv = product(v, stack_of<T>(by * (left + turned(left))));
        if (tall) du = du + (image - product(u, inner)) / row;
        return std::tuple{du, diagonals(inner), turned(dv)};
      },
      lanes_by([tall](const stack_of<T>& a) { return svd(a, tall, location::current()); }));
}

template <class T>
svd_work<T> svd(const stack_of<T>& a, bool tall, location at) {
  using op = decltype(make_svd<T>(tall));
  static const op ops[] = {make_svd<T>(false), make_svd<T>(true)};
  return ops[tall ? 1 : 0].call_at(at, a);
}

}  // namespace sinter::linalg::steps
