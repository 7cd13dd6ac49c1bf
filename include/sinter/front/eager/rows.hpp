// front/eager/rows.hpp: functions of whole rows of a pointwise expression (softmax, norms, cross_entropy) as fused loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "logsumexp.hpp"
#include "moments.hpp"

namespace sinter::detail {

/// The first `lanes` of a vector.
template <class T>
SINTER_INLINE simd::vec<T> load_some(const T* from, std::int64_t lanes) {
  constexpr int width = simd::vec<T>::width;
  if (lanes >= width) return simd::vec<T>::load(from);
  T part[bound(width)] = {};
  std::copy_n(from, lanes, part);
  return simd::vec<T>::load(part);
}
template <class T>
SINTER_INLINE void store_some(simd::vec<T> x, T* to, std::int64_t lanes) {
  constexpr int width = simd::vec<T>::width;
  if (lanes >= width) return x.store(to);
  T part[bound(width)];
  x.store(part);
  std::copy_n(part, lanes, to);
}

/// y = f(y, position) over n elements, in vectors.
template <class T, class F>
SINTER_INLINE void map_elements(T* y, std::int64_t n, F&& f) {
  for (std::int64_t i = 0; i < n; i += simd::vec<T>::width) store_some(f(load_some(y + i, n - i), i), y + i, n - i);
}

/// f(part of a row, its length) in f64, added up.
template <class T, class F>
SINTER_INLINE double sum_parts(const T* y, std::int64_t n, F&& f) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += block_elements) sum += f(y + i, std::min(block_elements, n - i));
  return sum;
}

/// exp(x - max) · (1 / sum).
template <class T>
struct softmax_of {
  static T by(double sum) { return static_cast<T>(1 / sum); }
  static SINTER_INLINE simd::vec<T> at(simd::vec<T> x, simd::vec<T> max, simd::vec<T> by) {
    return simd::exp(x - max) * by;
  }
};

/// x - max - log(sum).
template <class T>
struct log_softmax_of {
  static T by(double sum) { return static_cast<T>(std::log(sum)); }
  static SINTER_INLINE simd::vec<T> at(simd::vec<T> x, simd::vec<T> max, simd::vec<T> by) { return x - max - by; }
};

/// Of's function of a row or of columns in place. Where the maximum is infinite or NaN all is NaN.
template <class T, class Of>
struct softmax_rows {
  using vector = simd::vec<T>;
  using Total = exp_total<T>;

  static T by(const Total& t) {
    return vocabulary::isfinite(t.max) ? Of::by(t.sum) : std::numeric_limits<T>::quiet_NaN();
  }
  void operator()(T* y, std::int64_t n, const cursor*) const {
    const T max = reduce_elements<ir::op::maximum>(y, n);
    const vector shift(max),
        scale(by({max, sum_parts(y, n, [&](const T*x, std::int64_t m) { return sum_exp(x, m, max); })}));
    map_elements(y, n, [&](vector x, std::int64_t) { return Of::at(x, shift, scale); });
  }

  /// Some rows of n columns, `stride` apart.
  void add(const T* y, std::int64_t rows, std::int64_t stride, std::int64_t n, Total* totals) const {
    add_exp_rows(y, rows, stride, n, totals);
  }
  void finish(T* y, std::int64_t rows, std::int64_t stride, std::int64_t n, const Total* totals) const {
    T max[reduce_columns], scale[reduce_columns];
    for (std::int64_t j = 0; j < n; ++j) max[j] = totals[j].max, scale[j] = by(totals[j]);
    for (std::int64_t r = 0; r < rows; ++r)
      map_elements(y + r * stride, n, [&](vector x, std::int64_t j) {
        return Of::at(x, load_some(max + j, n - j), load_some(scale + j, n - j));
      });
  }
};

/// y · first + second over a row in place, of expressions whose leaves come next; either may be absent.
template <class... By>
struct row_scaling {
  std::tuple<const By*...> by;

  /// y is f(y) before.
  template <class T, class F>
  SINTER_INLINE void apply(T* y, std::int64_t n, const cursor* at, F&& f) const {
    using vector = simd::vec<T>;
    constexpr std::int64_t some = 512;
    alignas(64) T values[sizeof...(By) + 1][some];
    for (std::int64_t i = 0; i < n; i += some) {
      const std::int64_t end = std::min(n, i + some), lanes = end - i;
      int which = 0;
      const cursor* from = at;
      std::apply(
          [&](const auto*... e) {
            ((fill_row<std::remove_cvref_t<decltype(*e)>>(e, from, i, end, values[which++]),
              from += leaf_count<std::remove_cvref_t<decltype(*e)>>),
             ...);
          },
          by);
      map_elements(y + i, lanes, [&](vector x, std::int64_t j) {
        x = f(x);
        if constexpr (sizeof...(By) > 0) x = x * load_some(values[0] + j, lanes - j);
        if constexpr (sizeof...(By) > 1) x = x + load_some(values[1] + j, lanes - j);
        return x;
      });
    }
  }
};

/// (y - mean) / sqrt(variance + eps), scaled.
template <class T, class... By>
struct layer_norm_rows : row_scaling<By...> {
  double eps;

  void operator()(T* y, std::int64_t n, const cursor* at) const {
    using vector = simd::vec<T>;
    const auto count = static_cast<double>(n);
    const T mean = static_cast<T>(
        sum_parts(y, n, [](const T* x, std::int64_t m) { return reduce_elements<ir::op::add>(x, m); }) / count);
    double sum = 0, square = 0;
    for (std::int64_t i = 0; i < n; i += block_elements)
      add_shifted(y + i, std::min(block_elements, n - i), mean, sum, square);
    const moments m(count, 0, sum, square);  // the mean's rounding is left in the sum
    const vector shift(mean), rest(static_cast<T>(m.mean)), r(static_cast<T>(1 / std::sqrt(m.squares / count + eps)));
    this->apply(y, n, at, [&](vector x) { return (x - shift - rest) * r; });
  }
};

/// y / sqrt(mean(y²) + eps), scaled.
template <class T, class... By>
struct rms_norm_rows : row_scaling<By...> {
  double eps;

  void operator()(T* y, std::int64_t n, const cursor* at) const {
    using vector = simd::vec<T>;
    double sum = 0, square = 0;
    for (std::int64_t i = 0; i < n; i += block_elements)
      add_shifted(y + i, std::min(block_elements, n - i), T(0), sum, square);
    const vector r(static_cast<T>(1 / std::sqrt(square / static_cast<double>(n) + eps)));
    this->apply(y, n, at, [&](vector x) { return x * r; });
  }
};

/// What a loop over whole rows of E does: each is computed where it goes, the first leaf, and then changed by f.
template <class E, class F>
struct row_work {
  using T = typename E::value_type;
  const E* e;
  const F* f;

  static T* to(const cursor& c) { return const_cast<T*>(reinterpret_cast<const T*>(c.data)); }

  static void row(const void* self, const cursor* at, std::int64_t n) {
    const auto& w = *static_cast<const row_work*>(self);
    T* const y = to(at[0]);
    fill_row<E>(w.e, at + 1, 0, n, y);
    (*w.f)(y, n, at + 1 + leaf_count<E>);
  }
  static void columns(const void* self, const panel& p) {
    constexpr std::int64_t some = block_elements / reduce_columns;
    const auto& w = *static_cast<const row_work*>(self);
    const std::int64_t n = p.high - p.low, stride = p.step / static_cast<std::int64_t>(sizeof(T));
    T* const y = to(p.row(0)[0]) + p.low;
    typename F::Total totals[reduce_columns];
    for (std::int64_t r = 0; r < p.rows;) {
      const std::int64_t first = r, stop = std::min(p.rows, r + some);
      for (; r < stop; ++r) fill_row<E>(w.e, p.row(r) + 1, p.low, p.high, y + r * stride);
      w.f->add(y + first * stride, stop - first, stride, n, totals);
    }
    w.f->finish(y, p.rows, stride, n, totals);
  }
  /// Short rows as columns, whose elements lie a row apart: computed beside one another, then moved where they go.
  static void short_rows(const void* self, const panel& p) {
    const auto& w = *static_cast<const row_work*>(self);
    const std::int64_t n = p.high - p.low;
    alignas(64) T y[short_row * reduce_columns];
    typename F::Total totals[reduce_columns];
    for (std::int64_t r = 0; r < p.rows; ++r) fill_row<E>(w.e, p.row(r) + 1, p.low, p.high, y + r * n);
    w.f->add(y, p.rows, n, n, totals);
    w.f->finish(y, p.rows, n, n, totals);
    T* const out = to(p.row(0)[0]) + p.low * p.rows;
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t r = 0; r < p.rows; ++r) out[j * p.rows + r] = y[r * n + j];
  }
};

/// Makes a space of rows along its last axis one of columns along the axis before, with others merged into that; false where
/// rows are long or few.
inline bool columns_of_short_rows(space& s, leaf* leaves, int count) {
  const int last = s.rank - 1;
  if (s.extent[last] > short_row) return false;
  const int kept = collapse(s.extent, 0, last, leaves, count);
  if (kept == 0 || s.extent[kept - 1] < 8) {
    s.extent[kept] = s.extent[last];
    for (int k = 0; k < count; ++k) leaves[k].stride[kept] = leaves[k].stride[last];
    s.rank = kept + 1;
    return false;
  }
  s.extent[kept] = std::exchange(s.extent[kept - 1], s.extent[last]);
  for (int k = 0; k < count; ++k)
    leaves[k].stride[kept] = std::exchange(leaves[k].stride[kept - 1], leaves[k].stride[last]);
  s.rank = kept + 1;
  return true;
}

/// f of e along `axis`, with what else f reads, as a tensor of Shape; null where a tensor is on a GPU, where the others do not
/// broadcast to e's shape, and where there is nothing.
template <dims Shape, class E, class F, class... More>
std::optional<tensor<typename E::value_type, Shape>> eager_rows(const char* op, const E& e, int axis, const F& f,
                                                                location at, const More&... more) {
  using T = typename E::value_type;
  if constexpr (((More::rank > E::rank) || ...)) {
    return {};
  } else {
    const auto extents = extents_of(e, at);
    const std::int64_t* const numbers = as_numbers(extents.data());
    const auto fits_in = [&](const auto& x) {
      constexpr int rank = std::remove_cvref_t<decltype(x)>::rank;
      const auto own = extents_of(x, at);
      for (int i = 0; i < rank; ++i)
        if (const std::int64_t n = as_numbers(own.data())[i]; n != 1 && n != numbers[E::rank - rank + i]) return false;
      return true;
    };
    if (!(fits_in(more) && ...)) return {};
    engine::operand operands[(operand_count<E> + ... + operand_count<More>)];
    operand_list list{operands};
    collect(e, list, at);
    (collect(more, list, at), ...);
    space s;
    s.rank = E::rank;
    std::copy_n(numbers, E::rank, s.extent);
    if (list.on_gpu || s.size() == 0) return {};
    index_array<Shape.rank> shape{};
    std::copy_n(numbers, Shape.rank, shape.begin());
    auto result = empty<T, Shape>(op, shape, at);
    constexpr int count = 1 + (leaf_count<E> + ... + leaf_count<More>);
    leaf leaves[bound(count)];
    leaves[0].data = reinterpret_cast<const char*>(access::data(result));
    for (int i = E::rank, step = static_cast<int>(sizeof(T)); i-- > 0;)
      leaves[0].stride[i] = i + 1 < E::rank ? leaves[0].stride[i + 1] * s.extent[i + 1] : step;
    bind_leaves(list, E::rank, leaves + 1);
    const row_work<E, F> w{&e, &f};
    if constexpr (requires { &F::finish; }) {
      if (axis != E::rank - 1) return for_each_panel(s, leaves, count, axis, &w, &row_work<E, F>::columns), result;
      if (columns_of_short_rows(s, leaves, count))
        return for_each_panel(s, leaves, count, s.rank - 2, &w, &row_work<E, F>::short_rows), result;
    }
    for_each_whole_row(s, leaves, count, &w, &row_work<E, F>::row);
    return result;
  }
}

/// f(row, value) of the element that `chosen` names in each row along e's last axis; e is on the host.
template <class E, class F>
void for_each_chosen(const E& e, const std::vector<std::int64_t>& chosen, location at, F&& f) {
  if (chosen.empty()) return;
  const auto extents = extents_of(e, at);
  engine::operand operands[operand_count<E>];
  operand_list list{operands};
  collect(e, list, at);
  constexpr int count = leaf_count<E>;
  leaf leaves[bound(count)];
  bind_leaves(list, E::rank, leaves);
  walker w(as_numbers(extents.data()), 0, E::rank - 1, leaves, count, 0);
  cursor from[bound(count)];
  for (std::size_t i = 0; i < chosen.size(); ++i, w.next()) {
    place(from, leaves, count, E::rank - 1, w);
    f(static_cast<std::int64_t>(i), static_cast<typename E::value_type>(value_at<0>(e, row<count>(from), chosen[i])));
  }
}

}  // namespace sinter::detail
