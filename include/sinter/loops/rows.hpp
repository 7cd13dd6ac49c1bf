// loops/rows.hpp: what engine/rows.hpp declares: row functions of tensors and expressions of the host; compiled once.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../engine/engine.hpp"
#include "row_maps.hpp"

namespace sinter::detail {

/// How many leaves a source reads.
inline int leaf_number(const engine::row_source& x) {
  return static_cast<int>(
      std::count_if(x.operands.begin(), x.operands.end(), [](const engine::operand& o) { return !o.is_number(); }));
}

inline void bind_leaves(const engine::row_source& x, int rank, leaf* out) {
  bind_leaves({const_cast<engine::operand*>(x.operands.data()), static_cast<int>(x.operands.size())}, rank, out);
}

template <class T>
block_source<T> blocks_of(const engine::row_source& x) {
  if (x.expression) return {x.expression, x.fill, false};
  return {nullptr, &copy_elements_of_row<T>, true};
}

/// Whether leaves move along the last axis alone.
inline bool moves_along_rows(const leaf* leaves, int count, int rank) {
  for (int k = 0; k < count; ++k)
    if (std::any_of(leaves[k].stride, leaves[k].stride + rank - 1, [](std::int64_t s) { return s != 0; })) return false;
  return true;
}

/// map_rows over rows of T. Leaves are those of the result, of x, and of what scales it.
template <class T>
class row_mapping {
 public:
  row_mapping(engine::row_map f, const engine::row_source& x, double eps, std::span<const engine::row_source> by,
              T* out)
      : f_(f), eps_(static_cast<T>(eps)), out_(out), x_(blocks_of<T>(x)), by_count_(static_cast<int>(by.size())) {
    s_.rank = x.rank;
    std::copy_n(x.extents, x.rank, s_.extent);
    first_[0] = 1 + leaf_number(x);
    for (int b = 0; b < by_count_; ++b) first_[b + 1] = first_[b] + leaf_number(by[bound_index(b)]);
    leaves_.resize(static_cast<std::size_t>(first_[by_count_]) + 1);
    leaves_[0].data = reinterpret_cast<const char*>(out);
    for (int i = x.rank, step = 0; i-- > 0; step = 1)
      leaves_[0].stride[i] = step ? leaves_[0].stride[i + 1] * s_.extent[i + 1] : static_cast<std::int64_t>(sizeof(T));
    bind_leaves(x, x.rank, &leaves_[1]);
    for (int b = 0; b < by_count_; ++b) {
      bind_leaves(by[bound_index(b)], x.rank, &leaves_[static_cast<std::size_t>(first_[b])]);
      by_[b] = blocks_of<T>(by[bound_index(b)]);
      fix_row(b);
    }
  }

  void run(int axis) {
    const int count = first_[by_count_];
    if (axis != s_.rank - 1) return for_each_panel(s_, leaves_.data(), count, axis, this, &row_mapping::columns);
    const bool all_fixed = std::all_of(fixed_, fixed_ + by_count_, [](const T* row) { return row != nullptr; });
    if (s_.extent[axis] <= short_row && all_fixed) return short_rows();
    for_each_whole_row(s_, leaves_.data(), count, this, &row_mapping::row);
  }

 private:
  static std::size_t bound_index(int i) { return static_cast<std::size_t>(i); }
  static T* to(const cursor& c) { return const_cast<T*>(reinterpret_cast<const T*>(c.data)); }

  /// The row that every row is scaled by, if it is one: where it lies, or computed.
  void fix_row(int b) {
    const leaf* const own = &leaves_[static_cast<std::size_t>(first_[b])];
    const int count = first_[b + 1] - first_[b], last = s_.rank - 1;
    if (!moves_along_rows(own, count, s_.rank)) return;
    std::vector<cursor> at(bound(count));
    for (int k = 0; k < count; ++k) at[bound_index(k)] = {own[k].data, own[k].base, own[k].stride[last]};
    if (by_[b].is_tensor && at[0].step == sizeof(T)) {
      fixed_[b] = reinterpret_cast<const T*>(at[0].data);
      return;
    }
    computed_[b].resize(static_cast<std::size_t>(s_.extent[last]));
    by_[b].fill(by_[b].expression, at.data(), 0, s_.extent[last], computed_[b].data());
    fixed_[b] = computed_[b].data();
  }

  bool is_softmax() const { return f_ == engine::row_map::softmax || f_ == engine::row_map::log_softmax; }
  bool logarithm() const { return f_ == engine::row_map::log_softmax; }
  bool centred() const { return f_ == engine::row_map::layer_norm; }

  static void row(const void* self, const cursor* at, std::int64_t n) {
    const auto& w = *static_cast<const row_mapping*>(self);
    T* const y = to(at[0]);
    const T* x = y;
    if (w.x_.is_tensor && at[1].step == sizeof(T)) x = reinterpret_cast<const T*>(at[1].data);
    else w.x_.fill(w.x_.expression, at + 1, 0, n, y);
    if (w.is_softmax()) return softmax_row(x, y, n, w.logarithm());
    const T* by[2] = {w.fixed_[0], w.fixed_[1]};
    std::vector<T> rows[2];
    for (int b = 0; b < w.by_count_; ++b) {
      const cursor* const from = at + w.first_[b];
      if (!by[b] && w.by_[b].is_tensor && from->step == sizeof(T)) by[b] = reinterpret_cast<const T*>(from->data);
      if (by[b]) continue;
      rows[b].resize(static_cast<std::size_t>(n));
      w.by_[b].fill(w.by_[b].expression, from, 0, n, rows[b].data());
      by[b] = rows[b].data();
    }
    norm_row(x, y, n, w.centred(), w.eps_, by);
  }

  static void columns(const void* self, const panel& p) {
    constexpr std::int64_t some = block_elements / reduce_columns;
    const auto& w = *static_cast<const row_mapping*>(self);
    const std::int64_t n = p.high - p.low, stride = p.step / static_cast<std::int64_t>(sizeof(T));
    T* const y = to(p.row(0)[0]) + p.low;
    exp_total<T> totals[reduce_columns];
    for (std::int64_t r = 0; r < p.rows;) {
      const std::int64_t first = r, stop = std::min(p.rows, r + some);
      for (; r < stop; ++r) w.x_.fill(w.x_.expression, p.row(r) + 1, p.low, p.high, y + r * stride);
      add_exp_rows(y + first * stride, stop - first, stride, n, totals);
    }
    softmax_columns(y, p.rows, stride, n, totals, w.logarithm());
  }

  /// Rows [low, low + rows), beside one another, of elements that are neighbours.
  void lanes(const T* from, std::int64_t low, std::int64_t n, std::int64_t rows) const {
    alignas(64) T y[short_row * lane_rows];
    if (rows < lane_rows) std::fill_n(y, n * lane_rows, T(0));
    transpose_lanes(from, y, n, rows, false);
    if (is_softmax()) softmax_lanes(y, n, rows, logarithm());
    else norm_lanes(y, n, rows, centred(), eps_, fixed_);
    transpose_lanes(static_cast<const T*>(y), out_ + low * n, n, rows, true);
  }

  void short_rows() {
    const std::int64_t n = s_.extent[s_.rank - 1], total = s_.size(), all = total / n;
    leaf* const own = &leaves_[1];
    const int count = first_[0] - 1;
    std::vector<leaf> one(own, own + count);
    space flat = s_;
    flat.rank = collapse(flat.extent, 0, flat.rank, one.data(), count);
    const bool is_flat = flat.rank <= 1;
    parallel((all + lane_rows - 1) / lane_rows, total, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) T block[short_row * lane_rows];
      std::vector<cursor> at(bound(count));
      walker w(s_.extent, 0, s_.rank - 1, own, count, is_flat ? 0 : begin * lane_rows);
      for (int k = 0; k < count; ++k)
        at[bound_index(k)] = {one[bound_index(k)].data, one[bound_index(k)].base,
                              flat.rank > 0 ? one[bound_index(k)].stride[0] : 0};
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t low = i * lane_rows, rows = std::min(lane_rows, all - low);
        if (is_flat && x_.is_tensor && at[0].step == sizeof(T)) {
          lanes(reinterpret_cast<const T*>(at[0].data) + low * n, low, n, rows);
          continue;
        }
        if (is_flat) x_.fill(x_.expression, at.data(), low * n, (low + rows) * n, block);
        for (std::int64_t j = 0; !is_flat && j < rows; ++j, w.next()) {
          place(at.data(), own, count, s_.rank - 1, w);
          x_.fill(x_.expression, at.data(), 0, n, block + j * n);
        }
        lanes(block, low, n, rows);
      }
    });
  }

  engine::row_map f_;
  double eps_;
  T* out_;
  block_source<T> x_, by_[2] = {};
  int by_count_;
  int first_[3] = {};  ///< the first leaf of what scales, and the end
  space s_;
  std::vector<leaf> leaves_;
  const T* fixed_[2] = {};
  std::vector<T> computed_[2];
};

/// The parts of logsumexp, apart: where the logits are large and alike, their sum has lost the logarithm.
template <class T>
struct exp_totals : logsumexp_reduction<T> {
  using Total = exp_total<T>;
  static Total result(const Total& t) { return t; }
};

template <class T>
bool total_rows_of(engine::row_total f, const engine::row_source& x, std::span<const int> axes, int ddof, T* out) {
  std::vector<leaf> leaves(bound(leaf_number(x)));
  bind_leaves(x, x.rank, leaves.data());
  const reduction_space s(leaves.data(), leaf_number(x), x.extents, x.rank, axes.data(), static_cast<int>(axes.size()));
  if (s.reduced == 0) return false;
  if (s.results == 0) return true;
  const block_source<T> source = blocks_of<T>(x);
  switch (f) {
    case engine::row_total::variance:
    case engine::row_total::deviation:
      run_reduction(variance_reduction<T>{source, ddof, f == engine::row_total::deviation}, s, out);
      break;
    case engine::row_total::norm:
      run_reduction(norm_reduction<T>{source}, s, out);
      break;
    case engine::row_total::logsumexp:
      run_reduction(logsumexp_reduction<T>{source}, s, out);
  }
  return true;
}

template <class T>
void row_losses_of(const engine::row_source& x, std::span<const std::int64_t> labels, double* out) {
  if (labels.empty()) return;
  const int count = leaf_number(x), last = x.rank - 1;
  std::vector<leaf> leaves(bound(count));
  bind_leaves(x, x.rank, leaves.data());
  const block_source<T> source = blocks_of<T>(x);
  std::vector<exp_total<T>> totals(labels.size());
  {
    std::vector<leaf> own = leaves;
    const reduction_space s(own.data(), count, x.extents, x.rank, &last, 1);
    run_reduction(exp_totals<T>{{source}}, s, totals.data());
  }
  walker w(x.extents, 0, last, leaves.data(), count, 0);
  std::vector<cursor> from(bound(count));
  for (std::size_t i = 0; i < labels.size(); ++i, w.next()) {
    place(from.data(), leaves.data(), count, last, w);
    T chosen;
    if (source.is_tensor) chosen = *reinterpret_cast<const T*>(from[0].data + labels[i] * from[0].step);
    else source.fill(source.expression, from.data(), labels[i], labels[i] + 1, &chosen);
    const exp_total<T>& t = totals[i];
    const double below = static_cast<double>(t.max) - static_cast<double>(chosen);
    out[i] = vocabulary::isfinite(t.max) ? below + std::log(t.sum) : std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace sinter::detail

namespace sinter::engine {

SINTER_API void map_rows(row_map f, const row_source& x, int axis, double eps, std::span<const row_source> by,
                         void* out) {
  using namespace sinter::detail;
  if (x.type == dtype::f32) row_mapping<float>(f, x, eps, by, static_cast<float*>(out)).run(axis);
  else row_mapping<double>(f, x, eps, by, static_cast<double*>(out)).run(axis);
}

SINTER_API bool total_rows(row_total f, const row_source& x, std::span<const int> axes, int ddof, void* out) {
  using namespace sinter::detail;
  if (x.type == dtype::f32) return total_rows_of(f, x, axes, ddof, static_cast<float*>(out));
  return total_rows_of(f, x, axes, ddof, static_cast<double*>(out));
}

SINTER_API void row_losses(const row_source& x, std::span<const std::int64_t> labels, double* out) {
  using namespace sinter::detail;
  if (x.type == dtype::f32) row_losses_of<float>(x, labels, out);
  else row_losses_of<double>(x, labels, out);
}

}  // namespace sinter::engine

#include "reduce_rules.hpp"
#include "space_rules.hpp"
