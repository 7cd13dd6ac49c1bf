// front/functions/arrange.hpp: NumPy's functions that rearrange elements and build matrices: roll, repeat, diagonals, grids, kron.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "factories.hpp"
#include "join.hpp"
#include "matmul.hpp"
#include "reductions.hpp"

namespace sinter {

namespace detail {

/// y, which may be a view of x. Outside a trace the result has elements of its own.
SINTER_API handle unshared(const handle& y, const handle& x, location at);
/// x moved by `shift` along an axis: elements that leave at one end come in at the other.
SINTER_API handle rolled(const handle& x, int axis, std::int64_t shift, location at);
/// Each element repeated `times` times along an axis.
SINTER_API handle repeated(const handle& x, int axis, std::int64_t times, location at);
/// Diagonal k of axes i and j, as the last axis.
SINTER_API handle diagonal_of(const handle& x, int i, int j, std::int64_t k, location at);
/// A vector along axis `place` of the extents. A view.
SINTER_API handle grid_axis(const handle& x, int place, const dims& extents, location at);
/// x as the i-th operand of kron: an axis of extent 1 follows (i = 0) or precedes each of its axes.
SINTER_API handle spread_axes(const handle& x, int rank, bool before, location at);
/// The matrices, one after another on the diagonal.
SINTER_API handle diagonal_blocks(std::span<const handle> parts, location at);

/// Row-major pairs (row, column) with column - row <= k, or >= k.
struct index_pairs {
  std::vector<std::int64_t> rows, columns;
};
SINTER_API index_pairs triangle(const char* op, bool lower, std::int64_t n, std::int64_t k, std::int64_t m,
                                location at);

constexpr dims without_axes(dims d, int i, int j) {
  dims out;
  for (int a = 0; a < d.rank; ++a)
    if (a != i && a != j) out.push(d[a]);
  return out;
}

template <op_shapes::axis_list From, op_shapes::axis_list To, int Rank>
consteval op_shapes::axis_list moved_axes() {
  static_assert(From.count == To.count, "sinter: [moveaxis] name as many places as axes");
  if (From.count != To.count) return op_shapes::all_axes(Rank);
  op_shapes::axis_list perm;
  perm.count = Rank;
  for (int place = 0, next = 0; place < Rank; ++place) {
    int from = -1;
    for (int k = 0; k < To.count; ++k)
      if (To[k] == place) from = From[k];
    if (from < 0) {
      while (From.has(next)) ++next;
      from = next++;
    }
    perm.at[place] = from;
  }
  return perm;
}

}  // namespace detail

/// x with its elements rotated by `shift` along the axes; without an axis, along x in row-major order. Copies.
template <tensor_like X, int A, int... More>
auto roll(const X& x, std::int64_t shift, axis_t<A, More...>, location here = location::current()) {
  const location at = here.in("roll");
  auto h = detail::untyped(x, at);
  for (const int a : detail::checked_axes<detail::named::roll, X::rank, A, More...>())
    h = detail::rolled(h, a, shift, at);
  return detail::typed<typename X::value_type, X::static_shape>(h, at);
}
template <tensor_like X>
auto roll(const X& x, std::int64_t shift, location here = location::current()) {
  const location at = here.in("roll");
  const auto h = detail::untyped(x, at);
  const auto flat = detail::rolled(detail::views::reshape(h, dims{h.extents.numel()}, at), 0, shift, at);
  return detail::typed<typename X::value_type, X::static_shape>(detail::views::reshape(flat, h.extents, at), at);
}

/// Each element of x repeated `times` times along an axis, or along x as one axis. user_error for a negative number. Copies.
template <tensor_like X, int A>
auto repeat(const X& x, std::int64_t times, axis_t<A>, location here = location::current()) {
  const location at = here.in("repeat");
  constexpr int place = detail::checked_axes<detail::named::repeat, X::rank, A>()[0];
  return detail::typed<typename X::value_type, detail::with_extent(X::static_shape, place, dyn)>(
      detail::repeated(detail::untyped(x, at), place, times, at), at);
}
template <tensor_like X>
auto repeat(const X& x, std::int64_t times, location here = location::current()) {
  const location at = here.in("repeat");
  const auto h = detail::untyped(x, at);
  return detail::typed<typename X::value_type, detail::any_shape(1)>(
      detail::repeated(detail::views::reshape(h, dims{h.extents.numel()}, at), 0, times, at), at);
}

/// The elements (i, i + k) of axes I and J, the first two by default, as the last axis: diagonal<-2, -1>(x, 1).
template <int I = 0, int J = 1, tensor_like X>
auto diagonal(const X& x, std::int64_t k = 0, location here = location::current()) {
  constexpr bool enough = X::rank >= 2;
  static_assert(enough, "sinter: [diagonal] needs two axes");
  if constexpr (enough) {
    const location at = here.in("diagonal");
    constexpr auto axes = detail::checked_axes<detail::named::diagonal, X::rank, I, J>();
    constexpr dims shape = op_shapes::joined(detail::without_axes(X::static_shape, axes[0], axes[1]), dims{dyn});
    return detail::typed<typename X::value_type, shape>(
        detail::diagonal_of(detail::untyped(x, at), axes[0], axes[1], k, at), at);
  } else {
    return x;
  }
}

/// The sum of the elements (i, i + k) of axes I and J, the first two by default. Numbers.
template <int I = 0, int J = 1, tensor_like X>
auto trace_of(const X& x, std::int64_t k = 0, location at = location::current()) {
  if constexpr (X::rank >= 2) return sum(diagonal<I, J>(x, k, at), axis<-1>, at);
  else return diagonal<I, J>(x, k, at);
}

/// For a vector, the matrix with x on its diagonal k and 0 elsewhere; for a matrix, its diagonal k.
template <tensor_like X>
auto diag(const X& x, std::int64_t k = 0, location here = location::current()) {
  static_assert(X::rank == 1 || X::rank == 2,
                "sinter: [diag] takes a vector or a matrix; diagonal<-2, -1>(x) takes more axes");
  if constexpr (X::rank == 1) {
    using T = typename X::value_type;
    const location at = here.in("diag");
    k = k < -std::numeric_limits<std::int64_t>::max() ? -std::numeric_limits<std::int64_t>::max() : k;
    const auto line = pad(x, {{0, k < 0 ? -k : k}}, {}, at);
    const dim n = line.shape()[0];
    const detail::index_leaf<detail::index_for<T>, dims(2)> row({n, n}, 0), column({n, n}, 1);
    const dims one_line = k < 0 ? dims{1, n} : dims{n, 1};
    const auto spread = detail::typed<T, dims(2)>(detail::views::reshape(detail::untyped(line, at), one_line, at), at);
    return detail::evaluate(where(eq(sub(column, row, at), k, at), spread, T{}, at), at);
  } else if constexpr (X::rank == 2) {
    return diagonal(x, k, here);
  } else {
    return x;
  }
}

/// x[i]·y[j] for all pairs; x and y count as one axis each. Numbers; lazy.
template <tensor_like X, tensor_like Y>
auto outer(const X& x, const Y& y, location at = location::current()) {
  return mul(expand_dims<1>(flatten(x, at), at), expand_dims<0>(flatten(y, at), at), at);
}

/// Kronecker product: each element of x times y, as blocks of one tensor. Missing leading axes count as extent 1. Numbers.
template <tensor_like X, tensor_like Y>
auto kron(const X& x, const Y& y, location here = location::current()) {
  constexpr int rank = X::rank > Y::rank ? X::rank : Y::rank;
  static_assert(rank <= max_rank / 2, "sinter: [kron] takes up to 6 axes");
  if constexpr (rank <= max_rank / 2) {
    const location at = here.in("kron");
    constexpr dims spread = detail::any_shape(2 * rank);
    const auto a =
        detail::typed<typename X::value_type, spread>(detail::spread_axes(detail::untyped(x, at), rank, false, at), at);
    const auto b =
        detail::typed<typename Y::value_type, spread>(detail::spread_axes(detail::untyped(y, at), rank, true, at), at);
    const auto all = mul(a, b, at);
    const auto e = detail::extents_of(all, at);
    dims to;
    for (std::size_t i = 0; i < e.size(); i += 2) to.push(e[i] * e[i + 1]);
    return detail::reshape_to<std::remove_const_t<decltype(all)>, detail::any_shape(rank)>(all, to, at);
  } else {
    return x;
  }
}

/// The order of meshgrid's axes. `xy` puts the first vector along the second axis, `ij` puts each vector along its own axis.
enum class indexing : std::uint8_t { xy, ij };

namespace detail {

template <indexing How, class... X>
auto meshgrid_of(location at, const X&... xs) {
  constexpr int rank = static_cast<int>(sizeof...(X));
  constexpr bool vectors = ((X::rank == 1) && ...);
  static_assert(vectors, "sinter: [meshgrid] takes vectors; flatten the others");
  if constexpr (vectors) {
    const handle parts[] = {untyped(xs, at)...};
    constexpr auto place = [](int i) { return How == indexing::xy && rank > 1 && i < 2 ? 1 - i : i; };
    dims extents(rank);
    for (int i = 0; i < rank; ++i) extents[place(i)] = parts[i].extents[0];
    int next = 0;
    const auto grid = [&]<class T>(std::type_identity<T>) {
      const int i = next++;
      return typed<T, any_shape(rank)>(grid_axis(parts[i], place(i), extents, at), at);
    };
    return std::tuple{grid(std::type_identity<typename X::value_type>())...};  // braces: in argument order
  } else {
    return std::tuple{xs...};
  }
}

template <class X, class... More>
auto block_diag_of(location at, const X& x, const More&... more) {
  using T = typename X::value_type;
  constexpr bool matrices = X::rank == 2 && ((More::rank == 2) && ...);
  constexpr bool alike = (std::is_same_v<T, typename More::value_type> && ...);
  static_assert(matrices, "sinter: [block_diag] takes matrices; reshape the others");
  static_assert(alike, "sinter: [block_diag] the dtypes differ; cast one with cast<T>(x)");
  if constexpr (matrices && alike) {
    const handle parts[] = {untyped(x, at), untyped(more, at)...};
    return typed<T, any_shape(2)>(diagonal_blocks(parts, at), at);
  } else {
    return x;
  }
}

template <class X>
concept given_or_not = tensor_like<X> || is_absent<X>;

/// f(operands...), without the operands that were not given.
template <class F, class X, class... More>
auto of_given(const F& f, const X& x, const More&... more) {
  constexpr std::size_t count = 1 + (std::size_t(tensor_like<More>) + ... + 0);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto all = std::tie(x, more...);
    return f(std::get<I>(all)...);
  }
  (std::make_index_sequence<count>{});
}

}  // namespace detail

/// A tuple of tensors: each vector along an axis of its own, repeated along the other axes: meshgrid(x, y),
/// meshgrid<indexing::ij>(x, y, z). Two to four vectors of any dtypes. Views.
template <indexing How = indexing::xy, tensor_like A, tensor_like B, detail::given_or_not C = detail::absent,
          detail::given_or_not D = detail::absent>
auto meshgrid(const A& a, const B& b, const C& c = {}, const D& d = {}, location at = location::current()) {
  return detail::of_given([at = at.in("meshgrid")](const auto&... xs) { return detail::meshgrid_of<How>(at, xs...); },
                          a, b, c, d);
}

/// The matrices, one after another on the diagonal, and 0 elsewhere. One to six of one dtype. Copies.
template <tensor_like A, detail::given_or_not B = detail::absent, detail::given_or_not C = detail::absent,
          detail::given_or_not D = detail::absent, detail::given_or_not E = detail::absent,
          detail::given_or_not F = detail::absent>
auto block_diag(const A& a, const B& b = {}, const C& c = {}, const D& d = {}, const E& e = {}, const F& f = {},
                location at = location::current()) {
  return detail::of_given([at = at.in("block_diag")](const auto&... xs) { return detail::block_diag_of(at, xs...); }, a,
                          b, c, d, e, f);
}

/// Moves the axes From to the places To of the result, and keeps the order of the others: moveaxis(x, axis<0, 1>, axis<-1, -2>). A view.
template <tensor_like X, int... From, int... To>
auto moveaxis(const X& x, axis_t<From...>, axis_t<To...>, location here = location::current()) {
  using name = detail::named::moveaxis;
  static_assert(sizeof...(From) > 0 && sizeof...(To) > 0,
                "sinter: [moveaxis] name axes: moveaxis(x, axis<0>, axis<-1>)");
  constexpr auto perm = detail::moved_axes<detail::checked_axes<name, X::rank, From...>(),
                                           detail::checked_axes<name, X::rank, To...>(), X::rank>();
  const location at = here.in("moveaxis");
  constexpr dims shape = detail::permute_shape<X::static_shape, perm>();
  return detail::typed<typename X::value_type, shape>(detail::views::permute(detail::untyped(x, at), perm, at), at);
}

/// x with axes I and J exchanged. A view.
template <int I, int J, tensor_like X>
auto swapaxes(const X& x, location at = location::current()) {
  return transpose<I, J>(x, at);
}

/// Differences x[i + 1] - x[i] along an axis, the last by default, `times` times. Numbers. user_error for a negative number.
template <int Axis = -1, tensor_like X>
auto diff(const X& x, std::int64_t times = 1, location here = location::current()) {
  const location at = here.in("diff");
  constexpr int place = detail::checked_axes<detail::named::diff, X::rank, Axis>()[0];
  if (times < 0) fail("diff", "the number of times is negative: " + std::to_string(times), at);
  tensor<typename X::value_type, detail::with_extent(X::static_shape, place, dyn)> y = detail::evaluate(x, at);
  for (; times > 0; --times)
    y = detail::evaluate(sub(slice<place>(y, 1, to_end, 1, at), slice<place>(y, 0, -1, 1, at), at), at);
  return y;
}
template <tensor_like X, int A>
auto diff(const X& x, std::int64_t times, axis_t<A>, location at = location::current()) {
  return diff<A>(x, times, at);
}

/// The rows and the columns of the elements on and below diagonal k of an n × m matrix (default n × n), in row-major order.
/// user_error for negative extents.
template <std::integral N>
std::array<tensor<std::int64_t, 1>, 2> tril_indices(N n, std::int64_t k = 0, std::int64_t m = -1,
                                                    location at = location::current()) {
  const auto p = detail::triangle("tril_indices", true, n, k, m == -1 ? std::int64_t(n) : m, at);
  return {from_span(p.rows, detail::target(), at), from_span(p.columns, detail::target(), at)};
}
/// As tril_indices, but on and above the diagonal.
template <std::integral N>
std::array<tensor<std::int64_t, 1>, 2> triu_indices(N n, std::int64_t k = 0, std::int64_t m = -1,
                                                    location at = location::current()) {
  const auto p = detail::triangle("triu_indices", false, n, k, m == -1 ? std::int64_t(n) : m, at);
  return {from_span(p.rows, detail::target(), at), from_span(p.columns, detail::target(), at)};
}

/// x rotated by Quarters · 90° from axis I towards axis J, by default the first two: rot90<-1>(x). A view.
template <int Quarters = 1, int I = 0, int J = 1, tensor_like X>
auto rot90(const X& x, location here = location::current()) {
  constexpr bool enough = X::rank >= 2;
  static_assert(enough, "sinter: [rot90] needs two axes");
  constexpr int turns = (Quarters % 4 + 4) % 4;
  if constexpr (!enough) {
    return x;
  } else {
    const location at = here.in("rot90");
    static_cast<void>(detail::checked_axes<detail::named::rot90, X::rank, I, J>());
    if constexpr (turns == 0) return detail::evaluate(x, at);
    else if constexpr (turns == 1) return transpose<I, J>(flip<J>(x, at), at);
    else if constexpr (turns == 2) return flip<I, J>(x, at);
    else return flip<J>(transpose<I, J>(x, at), at);
  }
}

namespace detail {

/// The sums of products of the rows' deviations from their means, divided by n - ddof, or by 0 if that is negative.
template <class X>
auto covariance(const X& x, int ddof, location at) {
  constexpr auto last = op_shapes::normalize({-1}, X::rank);
  const auto y = detail::evaluate(wide(x, at), at);
  const auto off = detail::evaluate(sub(y, mean_over<last, true>(y, at), at), at);
  const dim n = combined<last>(y, at) - ddof;
  if constexpr (X::rank == 1) return divided(matmul(off, off, at), n < 0 ? dim(0) : n, at);
  else return divided(matmul(off, transpose(off, at), at), n < 0 ? dim(0) : n, at);
}
template <class Name, class X>
constexpr bool takes_variables() {
  constexpr bool rank = X::rank == 1 || X::rank == 2;
  static_assert(rank, "sinter: [cov, corrcoef] take a matrix whose rows are variables, or a vector");
  if constexpr (rank) return takes_floats<Name, X>();
  else return false;
}

}  // namespace detail

/// The covariances of a matrix's rows, each of which is a variable, divided by n - ddof; for a vector, its variance. Floating dtypes.
template <tensor_like X>
auto cov(const X& x, int ddof = 1, location here = location::current()) {
  if constexpr (detail::takes_variables<detail::named::cov, X>())
    return detail::narrow<typename X::value_type>(detail::covariance(x, ddof, here.in("cov")), here.in("cov"));
  else return x;
}

/// The correlations of a matrix's rows, each of which is a variable, limited to [-1, 1]; for a vector, 1. A constant variable has
/// NaN. Floating dtypes.
template <tensor_like X>
auto corrcoef(const X& x, location here = location::current()) {
  if constexpr (!detail::takes_variables<detail::named::corrcoef, X>()) {
    return x;
  } else {
    const location at = here.in("corrcoef");
    const auto c = detail::covariance(x, 0, at);
    if constexpr (X::rank == 1) {
      return detail::narrow<typename X::value_type>(div(c, c, at), at);
    } else {
      const auto deviation = detail::evaluate(sqrt(diagonal(c, 0, at), at), at);
      const auto rows = expand_dims<1>(deviation, at);
      const auto columns = expand_dims<0>(deviation, at);
      const auto r = detail::evaluate(div(div(c, rows, at), columns, at), at);
      // Only rounding errors exceed the limits. Derivatives ignore their removal.
      const auto over = stop_gradient(sub(clamp(r, -1, 1, at), r, at), at);
      return detail::narrow<typename X::value_type>(add(r, over, at), at);
    }
  }
}

/// The first half of x along an axis, by default the last, times σ of the second half (Dauphin et al., 2017). Floating dtypes.
/// user_error for an odd extent.
template <int Axis = -1, tensor_like X>
auto glu(const X& x, location here = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::glu, X>()) {
    return x;
  } else {
    const location at = here.in("glu");
    constexpr int place = detail::checked_axes<detail::named::glu, X::rank, Axis>()[0];
    const auto y = detail::evaluate(x, at);
    const dim n = y.shape()[static_cast<std::size_t>(place)];
    if (n % 2 != 0)
      fail("glu",
           "axis " + std::to_string(place) + " of " + text::shape(detail::to_dims(y.shape())) + " has no two halves",
           at);
    return mul(slice<place>(y, 0, n / 2, 1, at), sigmoid(slice<place>(y, n / 2, n, 1, at), at), at);
  }
}
template <tensor_like X, int A>
auto glu(const X& x, axis_t<A>, location at = location::current()) {
  return glu<A>(x, at);
}

/// log of the running sums of exp(x) along an axis, by default the last. Each sum is relative to its own largest element, so it does
/// not overflow. Floating dtypes. The number of steps grows with the logarithm of the extent, and a trace is for one number of steps.
template <int Axis = -1, tensor_like X>
auto logcumsumexp(const X& x, location here = location::current()) {
  if constexpr (!detail::takes_floats<detail::named::logcumsumexp, X>()) {
    return x;
  } else {
    using T = typename X::value_type;
    const location at = here.in("logcumsumexp");
    constexpr int place = detail::checked_axes<detail::named::logcumsumexp, X::rank, Axis>()[0];
    const auto& wider = detail::wide(x, at);
    tensor<detail::compute_type<T>, X::static_shape> y = detail::evaluate(wider, at);
    const dim n = y.shape()[static_cast<std::size_t>(place)];
    for (std::int64_t step = 1; n > step; step *= 2) {
      pad_width widths[static_cast<std::size_t>(X::rank)] = {};
      widths[place].low = step;
      const auto before = pad(y, widths, -std::numeric_limits<float>::infinity(), at);
      y = tensor<detail::compute_type<T>, X::static_shape>(logaddexp(y, slice<place>(before, 0, n, 1, at), at), at);
    }
    return detail::narrow<T>(y, at);
  }
}
template <tensor_like X, int A>
auto logcumsumexp(const X& x, axis_t<A>, location at = location::current()) {
  return logcumsumexp<A>(x, at);
}

}  // namespace sinter

// Header-only: the declarations come with their definitions.
#if !defined(SINTER_COMPILED)
#include "arrange_rules.hpp"
#endif
