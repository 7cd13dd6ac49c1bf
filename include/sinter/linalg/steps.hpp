// linalg/steps.hpp: factorisations as steps of a graph on (b, m, n), with closed-form derivatives.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "../engine/factors.hpp"
#include "../sinter.hpp"
#include "small.hpp"

namespace sinter::linalg::steps {

/// A batch of matrices as one axis, and a batch of rows.
template <class T>
using stack_of = tensor<T, 3>;
template <class T>
using rows_of = tensor<T, 2>;

/// A factorisation on the host, and a textbook form for the reference.
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
  std::string known() const {
    if (how.what == engine::factorisation::cholesky) return "cholesky";
    if (how.what != engine::factorisation::triangular_solve) return "";
    return std::string("triangular_solve") + (how.lower ? " lower" : "") + (how.unit ? " unit" : "");
  }

  template <class E>
  static constexpr bool is_operand = std::is_const_v<std::remove_pointer_t<decltype(E::data)>>;
  template <class E>
  static ir::foreign_array array(const E& e) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(e.data)>>;
    return {const_cast<T*>(e.data), dtype_of<T>, e.extents.data(), static_cast<int>(e.extents.size())};
  }
};

/// The factorisation on a GPU: by a kernel, or else by a library.
struct device_code {
  engine::factor_request how;
  std::optional<cuda_source> source = {};

  const cuda_source* kernel() const { return source ? &*source : nullptr; }
  template <class... E>
  void operator()(const E&... all_and_stream) const {
    call(std::tie(all_and_stream...), std::make_index_sequence<sizeof...(E) - 1>{});
  }

 private:
  template <class All, std::size_t... I>
  void call(const All& all, std::index_sequence<I...>) const {
    const ir::foreign_array arrays[] = {host_code::array(std::get<I>(all))...};
    constexpr std::size_t count = sizeof...(I);
    constexpr std::size_t operands =
        (std::size_t{0} + ... + std::size_t{host_code::is_operand<std::remove_cvref_t<decltype(std::get<I>(all))>>});
    engine::factorise_on_gpu(how, {arrays, operands}, {arrays + operands, count - operands}, std::get<count>(all));
  }
};

/// How a request becomes code for a GPU.
using code_of = device_code (*)(const engine::factor_request& how);

inline device_code library_code(const engine::factor_request& how) { return {how}; }
template <class T, bool Large>
device_code kernel_code(const engine::factor_request& how) {
  engine::factor_request own = how;
  own.large = Large;
  return {own, cuda_source{engine::factor_text(own, dtype_of<T>), "sinter_factor", 256}};
}

/// The number of rows and columns from which kernels work by panels, and calls of a library can pay.
inline constexpr std::int64_t large_rows = 64, library_most = 20000;

/// The greatest number of matrices for a library, which factorises one after another in time n each. Kernels factorise all at
/// once, by panels in time n², else n³.
inline std::int64_t library_matrices(engine::factorisation what, std::int64_t m, std::int64_t n) {
  using enum engine::factorisation;
  return what == cholesky || what == lu || what == triangular_solve ? std::min(m, n) / 32 : m * n / 1600;
}

/// The value of an extent in the traced call.
inline std::int64_t present_extent(dim d) { return d.is_symbolic() ? sinter::detail::present_size(d) : d.bits; }

/// Whether a block factorises a matrix of this size by panels.
template <class T>
bool is_large(const stack_of<T>& a) {
  return std::min(present_extent(a.size(1)), present_extent(a.size(2))) >= large_rows;
}

/// Whether a library of the GPU factorises, by the sizes in the traced call. A graph that calls a library cannot be recorded.
template <class T>
bool is_for_library(engine::factorisation what, const stack_of<T>& a, location at) {
  if (!a.device(at).is_cuda() || !is_large(a)) return false;
  const std::int64_t b = present_extent(a.size(0)), m = present_extent(a.size(1)), n = present_extent(a.size(2));
  return std::max(m, n) <= library_most && b <= library_matrices(what, m, n) && engine::has_factor_library(what);
}

/// use(ops) with the ops that make(code_of) makes once, for a library of the GPU, for large matrices, and for others.
template <class T, class Make, class Use>
auto by_code(engine::factorisation what, const stack_of<T>& a, location at, Make make, Use use) {
  if (is_for_library(what, a, at)) {
    static const auto ops = make(&library_code);
    return use(ops);
  }
  if (a.device(at).is_cuda() && is_large(a)) {
    static const auto ops = make(&kernel_code<T, true>);
    return use(ops);
  }
  static const auto ops = make(&kernel_code<T, false>);
  return use(ops);
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
/// The inverse of join_lanes.
template <class X>
auto part_lanes(const X& x, dim lanes, dim each, location at) {
  const auto h = sinter::detail::untyped(x, at);
  dims to{lanes, each};
  for (int i = 1; i < X::rank; ++i) to.push(h.extents[i]);
  return sinter::detail::typed<typename X::value_type, sinter::detail::any_shape(X::rank + 1)>(
      sinter::detail::views::reshape(h, to, at), at);
}

/// The rule for lanes of a step by `call`: lanes make a longer stack.
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
/// The diagonals of a stack, and a stack of identity matrices.
template <class T>
rows_of<T> diagonals(const stack_of<T>& a) {
  return sum(tril(triu(a)), axis<-1>);
}
template <class X>
tensor<typename X::value_type, 2> ones_on_diagonal(const X& like, dim n) {
  return eye<typename X::value_type>(n, n, like.device());
}
/// Each column, or row, multiplied by an element of s.
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

/// The part of a that such a step reads.
template <class T>
stack_of<T> triangle(const stack_of<T>& a, bool lower, bool unit) {
  if (lower) return tril(a, unit ? -1 : 0);
  return triu(a, unit ? 1 : 0);
}

template <class T>
auto make_solve_triangle(bool lower, bool unit, code_of code) {
  const engine::factor_request how{engine::factorisation::triangular_solve, lower, unit};
  return custom_op<"triangular_solve">(
      host_code{how}, code(how), [](const auto&, const auto& y) { return result_of<T, 3>{y}; },
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
  return by_code<T>(
      engine::factorisation::triangular_solve, a, at,
      [](code_of code) {
        return std::array{make_solve_triangle<T>(false, false, code), make_solve_triangle<T>(false, true, code),
                          make_solve_triangle<T>(true, false, code), make_solve_triangle<T>(true, true, code)};
      },
      [&](const auto& ops) { return ops[(lower ? 2 : 0) + (unit ? 1 : 0)].call_at(at, a, y); });
}

/// The lower triangle with half its diagonal.
template <class T>
stack_of<T> lower_half(const stack_of<T>& a) {
  return T(0.5) * (tril(a) + tril(a, -1));
}

template <class T>
stack_of<T> cholesky(const stack_of<T>& matrix, location at);

template <class T>
auto make_cholesky(code_of code) {
  constexpr engine::factor_request how{engine::factorisation::cholesky};
  return custom_op<"cholesky">(
      host_code{how}, code(how), [](const auto& a) { return result_of<T, 3>{a}; }, none,
      // Murray: l·half(l⁻¹·da·l⁻ᵀ)
      [](const stack_of<T>&, const stack_of<T>& l, const stack_of<T>& da) {
        const stack_of<T> left = solve_triangle(l, da, true, false);
        return product(l, lower_half(solve_triangle(l, turned(left), true, false)));
      },
      lanes_by([](const stack_of<T>& a) { return std::tuple{cholesky<T>(a, location::current())}; }));
}

/// l of a symmetric a.
template <class T>
stack_of<T> cholesky(const stack_of<T>& matrix, location at) {
  if (small::is_small(matrix)) return small::cholesky(matrix);
  return by_code<T>(
      engine::factorisation::cholesky, matrix, at, [](code_of code) { return make_cholesky<T>(code); },
      [&](const auto& op) { return op.call_at(at, matrix); });
}

/// The relation of a matrix's extents.
enum class form : std::uint8_t { square, tall, wide };
template <class T>
form form_of(const stack_of<T>& x) {
  const dim m = x.size(1), n = x.size(2);
  return m == n ? form::square : m > n ? form::tall : form::wide;
}

/// The unit lower factor as a square matrix with a's rows, of which the part below the diagonal counts; the upper factor with
/// its columns.
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
auto make_lu(form f, code_of code) {
  constexpr engine::factor_request how{engine::factorisation::lu};
  const auto shape = [f](const auto& a) {
    const dim steps = f == form::wide ? a[1] : a[2];
    return std::tuple{result_of<std::int64_t, 2>{{a[0], a[1]}}, result_of<std::int64_t, 2>{{a[0], steps}},
                      result_of<T, 3>{a}};
  };
  return custom_op<"lu">(
      host_code{how}, code(how), shape, none,
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
  return by_code<T>(
      engine::factorisation::lu, a, at,
      [](code_of code) {
        return std::array{make_lu<T>(form::square, code), make_lu<T>(form::tall, code), make_lu<T>(form::wide, code)};
      },
      [&](const auto& ops) {
        const auto [rows, swaps, both] = ops[static_cast<std::size_t>(f)].call_at(at, a);
        return lu_factors<T>{rows, swaps, both};
      });
}

/// q and r of an a that is not wide.
template <class T>
std::tuple<stack_of<T>, stack_of<T>> qr(const stack_of<T>& matrix, location at);

template <class T>
auto make_qr(code_of code) {
  constexpr engine::factor_request how{engine::factorisation::qr};
  return custom_op<"qr">(
      host_code{how}, code(how),
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
}

template <class T>
std::tuple<stack_of<T>, stack_of<T>> qr(const stack_of<T>& matrix, location at) {
  return by_code<T>(
      engine::factorisation::qr, matrix, at, [](code_of code) { return make_qr<T>(code); },
      [&](const auto& op) { return op.call_at(at, matrix); });
}

/// Pairwise differences of values x: row minus column off the diagonal, NaN for equal values, 1 on the diagonal.
template <class T>
stack_of<T> gaps_of(const rows_of<T>& x) {
  const stack_of<T> gaps = expand_dims<1>(x) - expand_dims<2>(x) + ones_on_diagonal(x, x.size(1));
  return where(gaps == T(0), std::numeric_limits<T>::quiet_NaN(), gaps);
}
/// 0 on the diagonal, else 1.
template <class T>
tensor<T, 2> off_diagonal(const rows_of<T>& like) {
  return T(1) - ones_on_diagonal(like, like.size(1));
}

template <class T>
using work_in = std::tuple<stack_of<T>, rows_of<T>, stack_of<std::int64_t>, stack_of<std::int64_t>>;

/// Eigenvectors in columns, eigenvalues of a symmetric a, and the work memory of kernels.
template <class T>
work_in<T> eigh(const stack_of<T>& matrix, location at);

template <class T>
auto make_eigh(code_of code) {
  constexpr engine::factor_request how{engine::factorisation::eigh};
  return custom_op<"eigh">(
      host_code{how}, code(how),
      [](const auto& a) {
        return std::tuple{result_of<T, 3>{a}, result_of<T, 2>{{a[0], a[2]}}, result_of<std::int64_t, 3>{a},
                          result_of<std::int64_t, 3>{{a[0], 2, a[2]}}};
      },
      none,
      [](const stack_of<T>&, const stack_of<T>& v, const rows_of<T>& w, const auto&, const auto&,
         const stack_of<T>& da) {
        const stack_of<T> inner = product(turned(v), product(da, v));
        // By halves, whose difference does not overflow.
        const stack_of<T> by = T(0.5) * off_diagonal(w) / gaps_of(rows_of<T>(T(0.5) * w));
        return std::tuple{product(v, stack_of<T>(by * inner)), diagonals(inner)};
      },
      lanes_by([](const stack_of<T>& a) { return eigh<T>(a, location::current()); }));
}

template <class T>
work_in<T> eigh(const stack_of<T>& matrix, location at) {
  return by_code<T>(
      engine::factorisation::eigh, matrix, at, [](code_of code) { return make_eigh<T>(code); },
      [&](const auto& op) { return op.call_at(at, matrix); });
}

template <class T>
using svd_work = std::tuple<stack_of<T>, rows_of<T>, stack_of<T>, stack_of<std::int64_t>, stack_of<std::int64_t>>;

/// u, s, transposed v of an a that is not wide, and the work memory of kernels.
template <class T>
svd_work<T> svd(const stack_of<T>& a, bool tall, location at);

template <class T>
auto make_svd(bool tall, code_of code) {
  constexpr engine::factor_request how{engine::factorisation::svd};
  return custom_op<"svd">(
      host_code{how}, code(how),
      [](const auto& a) {
        return std::tuple{result_of<T, 3>{a}, result_of<T, 2>{{a[0], a[2]}}, result_of<T, 3>{{a[0], a[2], a[2]}},
                          result_of<std::int64_t, 3>{{a[0], a[1] + a[2], a[2]}},
                          result_of<std::int64_t, 3>{{a[0], 2, a[2]}}};
      },
      none,
      [tall](const stack_of<T>&, const stack_of<T>& u, const rows_of<T>& s, const stack_of<T>& vt, const auto&,
             const auto&, const stack_of<T>& da) {
        const stack_of<T> v = turned(vt), image = product(da, v), inner = product(turned(u), image);
        // Squares of values can leave the range of T; one value's share of a sum, divided by a gap, does not.
        const rows_of<T> half = T(0.5) * s;
        const tensor<T, 2> diagonal = ones_on_diagonal(s, s.size(1));
        const stack_of<T> sums = expand_dims<1>(half) + expand_dims<2>(half) + diagonal;
        const stack_of<T> by = off_diagonal(s) / gaps_of(s);
        const stack_of<T> right = by * (expand_dims<1>(half) / sums), left = by * (expand_dims<2>(half) / sums);
        const stack_of<T> across = turned(inner);
        stack_of<T> du = product(u, stack_of<T>(right * inner + left * across));
        const stack_of<T> dv = product(v, stack_of<T>(left * inner + right * across));
        if (tall) du = du + (image - product(u, inner)) / expand_dims<1>(s);
        return std::tuple{du, diagonals(inner), turned(dv)};
      },
      lanes_by([tall](const stack_of<T>& a) { return svd(a, tall, location::current()); }));
}

template <class T>
svd_work<T> svd(const stack_of<T>& a, bool tall, location at) {
  return by_code<T>(
      engine::factorisation::svd, a, at,
      [](code_of code) {
        return std::array{make_svd<T>(false, code), make_svd<T>(true, code)};
      },
      [&](const auto& ops) -> svd_work<T> { return ops[tall ? 1 : 0].call_at(at, a); });
}

}  // namespace sinter::linalg::steps
