// loops/rows.hpp: the definitions for engine/rows.hpp: row functions of tensors and expressions on the host; compiled once.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "../engine/engine.hpp"
#include "row_maps.hpp"

namespace sinter::detail {

/// The number of leaves that a source reads.
inline int leaf_number(const engine::row_source& x) {
  return static_cast<int>(
      std::count_if(x.operands.begin(), x.operands.end(), [](const engine::operand& o) { return !o.is_number(); }));
}

inline void bind_leaves(const engine::row_source& x, int rank, leaf* out) {
  bind_leaves({const_cast<engine::operand*>(x.operands.data()), static_cast<int>(x.operands.size())}, rank, out);
}

/// Whether leaves vary only along the last axis.
inline bool moves_along_rows(const leaf* leaves, int count, int rank) {
  for (int k = 0; k < count; ++k)
    if (std::any_of(leaves[k].stride, leaves[k].stride + rank - 1, [](std::int64_t s) { return s != 0; })) return false;
  return true;
}

/// Reads short rows of one source, several at a time.
template <class T>
class short_row_reader {
 public:
  /// For the leaves from `own` on, which walk s; reads from row `first` on.
  short_row_reader(const block_source<T>& source, const space& s, const leaf* own, int count, std::int64_t first)
      : source_(source),
        s_(s),
        own_(own),
        count_(count),
        n_(s.extent[s.rank - 1]),
        at_(static_cast<std::size_t>(count)),
        walker_(s.extent, 0, s.rank - 1, own, count, first) {
    leaf_list one(own, count);
    space flat = s;
    flat.rank = collapse(flat.extent, 0, flat.rank, one.data(), count);
    is_flat_ = flat.rank <= 1;
    for (std::size_t k = 0; k < one.size(); ++k)
      at_[k] = {one[k].data, one[k].base, flat.rank > 0 ? one[k].stride[0] : 0};
  }

  /// The elements of the next rows, [low, low + rows), contiguous: in place, or in `block`.
  const T* next(std::int64_t low, std::int64_t rows, T* block) {
    if (is_flat_ && source_.is_tensor && at_[0].step == sizeof(T))
      return reinterpret_cast<const T*>(at_[0].data) + low * n_;
    if (is_flat_) source_.fill(source_.expression, at_.data(), low * n_, (low + rows) * n_, block);
    for (std::int64_t j = 0; !is_flat_ && j < rows; ++j, walker_.next()) {
      place(at_.data(), own_, count_, s_.rank - 1, walker_);
      source_.fill(source_.expression, at_.data(), 0, n_, block + j * n_);
    }
    return block;
  }

 private:
  const block_source<T>& source_;
  const space& s_;
  const leaf* own_;
  int count_;
  std::int64_t n_;
  cursor_list at_;
  walker walker_;
  bool is_flat_;  ///< all elements are one row
};

/// map_rows over rows of T. Leaves belong to the result, to x, and to the scales.
template <class T, class Set = simd::instruction_set>
class row_mapping {
 public:
  row_mapping(engine::row_map f, const engine::row_source& x, double eps, std::span<const engine::row_source> by,
              T* out)
      : f_(f),
        eps_(static_cast<T>(eps)),
        out_(out),
        x_(blocks_of<T>(x)),
        by_count_(static_cast<int>(by.size())),
        leaves_(1 + leaf_number(x) + leaf_numbers(by)) {
    s_.rank = x.rank;
    std::copy_n(x.extents, x.rank, s_.extent);
    first_[0] = 1 + leaf_number(x);
    for (int b = 0; b < by_count_; ++b) first_[b + 1] = first_[b] + leaf_number(by[bound_index(b)]);
    leaf* const all = leaves_.data();
    all[0].data = reinterpret_cast<const char*>(out);
    for (int i = x.rank, step = 0; i-- > 0; step = 1)
      all[0].stride[i] = step ? all[0].stride[i + 1] * s_.extent[i + 1] : static_cast<std::int64_t>(sizeof(T));
    bind_leaves(x, x.rank, all + 1);
    for (int b = 0; b < by_count_; ++b) {
      bind_leaves(by[bound_index(b)], x.rank, all + first_[b]);
      by_[b] = blocks_of<T>(by[bound_index(b)]);
      fix_row(b);
    }
  }

  void run(int axis) {
    const int count = first_[by_count_];
    if (axis != s_.rank - 1) return for_each_panel(s_, leaves_.data(), count, axis, this, &row_mapping::columns);
    const std::int64_t n = s_.extent[axis];
    if (n <= short_row && s_.size() > few_rows * n) return short_rows();
    for_each_whole_row(s_, leaves_.data(), count, this, is_softmax() ? &row_mapping::row : &row_mapping::scaled_row);
  }

 private:
  /// Fewer short rows are not worth placing side by side.
  static constexpr std::int64_t few_rows = (simd::vec<T>::width + 3) / 4;

  static std::size_t bound_index(int i) { return static_cast<std::size_t>(i); }
  static int leaf_numbers(std::span<const engine::row_source> by) {
    int n = 0;
    for (const engine::row_source& x : by) n += leaf_number(x);
    return n;
  }
  static T* to(const cursor& c) { return const_cast<T*>(reinterpret_cast<const T*>(c.data)); }

  /// Sets the scale of all rows, if it is the same: in place, or computed.
  void fix_row(int b) {
    const leaf* const own = leaves_.data() + first_[b];
    const int count = first_[b + 1] - first_[b], last = s_.rank - 1;
    if (!moves_along_rows(own, count, s_.rank)) return;
    cursor_list at(bound_index(count));
    for (int k = 0; k < count; ++k) at[bound_index(k)] = {own[k].data, own[k].base, own[k].stride[last]};
    if (by_[b].is_tensor && at[0].step == sizeof(T)) {
      fixed_[b] = reinterpret_cast<const T*>(at[0].data);
      return;
    }
    if (s_.size() == s_.extent[last]) return;  // read once
    computed_[b].resize(static_cast<std::size_t>(s_.extent[last]));
    by_[b].fill(by_[b].expression, at.data(), 0, s_.extent[last], computed_[b].data());
    fixed_[b] = computed_[b].data();
  }

  bool is_softmax() const { return f_ == engine::row_map::softmax || f_ == engine::row_map::log_softmax; }
  bool logarithm() const { return f_ == engine::row_map::log_softmax; }
  bool centred() const { return f_ == engine::row_map::layer_norm; }

  /// A row of x in place, or computed into the result's.
  const T* read_row(const cursor* at, std::int64_t n) const {
    if (x_.is_tensor && at[1].step == sizeof(T)) return reinterpret_cast<const T*>(at[1].data);
    x_.fill(x_.expression, at + 1, 0, n, to(at[0]));
    return to(at[0]);
  }

  static void row(const void* self, const cursor* at, std::int64_t n) {
    const auto& w = *static_cast<const row_mapping*>(self);
    softmax_row(w.read_row(at, n), to(at[0]), n, w.logarithm());
  }

  static void scaled_row(const void* self, const cursor* at, std::int64_t n) {
    const auto& w = *static_cast<const row_mapping*>(self);
    alignas(64) T block[2][block_elements];
    const auto by = [&](std::int64_t begin, std::int64_t end, const T** scales) {
      for (int b = 0; b < w.by_count_; ++b) {
        const cursor* const from = at + w.first_[b];
        if (w.fixed_[b]) {
          scales[b] = w.fixed_[b] + begin;
        } else if (w.by_[b].is_tensor && from->step == sizeof(T)) {
          scales[b] = reinterpret_cast<const T*>(from->data) + begin;
        } else {
          w.by_[b].fill(w.by_[b].expression, from, begin, end, block[b]);
          scales[b] = block[b];
        }
      }
    };
    norm_row(w.read_row(at, n), to(at[0]), n, w.centred(), w.eps_, by);
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

  /// Transposes adjacent rows to columns of length lane_rows; the last vector's other lanes are 0.
  static void to_lanes(const T* from, T* y, std::int64_t n, std::int64_t rows) {
    constexpr std::int64_t width = simd::vec<T>::width;
    const std::int64_t end = (rows + width - 1) / width * width;
    for (std::int64_t i = 0; rows < end && i < n; ++i) std::fill_n(y + i * lane_rows + rows, end - rows, T(0));
    transpose_lanes(from, y, n, rows, false);
  }

  void short_rows() {
    const std::int64_t n = s_.extent[s_.rank - 1], total = s_.size(), all = total / n;
    parallel((all + lane_rows - 1) / lane_rows, total, [&](std::int64_t begin, std::int64_t end) {
      using reader = short_row_reader<T>;
      alignas(64) T block[short_row * lane_rows], y[short_row * lane_rows], of_each[2][short_row * lane_rows];
      reader x(x_, s_, leaves_.data() + 1, first_[0] - 1, begin * lane_rows);
      std::optional<reader> scales[2];
      lane_scale<T> by[2];
      for (int b = 0; b < by_count_; ++b) {
        by[b] = {fixed_[b] ? fixed_[b] : of_each[b], !fixed_[b]};
        if (!fixed_[b])
          scales[b].emplace(by_[b], s_, leaves_.data() + first_[b], first_[b + 1] - first_[b], begin * lane_rows);
      }
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t low = i * lane_rows, rows = std::min(lane_rows, all - low);
        to_lanes(x.next(low, rows, block), y, n, rows);
        for (int b = 0; b < by_count_; ++b)
          if (by[b].of_each) to_lanes(scales[b]->next(low, rows, block), of_each[b], n, rows);
        if (is_softmax()) softmax_lanes(y, n, rows, logarithm());
        else norm_lanes(y, n, rows, centred(), eps_, by);
        transpose_lanes(static_cast<const T*>(y), out_ + low * n, n, rows, true);
      }
    });
  }

  engine::row_map f_;
  double eps_;
  T* out_;
  block_source<T> x_, by_[2] = {};
  int by_count_;
  int first_[3] = {};  ///< the first leaf of each scale, and the end
  space s_;
  leaf_list leaves_;
  const T* fixed_[2] = {};
  std::vector<T> computed_[2];
};

/// logsumexp in two parts: for large and similar logits, their sum would lose the logarithm.
template <class T, class Set = simd::instruction_set>
struct exp_totals : logsumexp_reduction<T> {
  using Total = exp_total<T>;
  static Total result(const Total& t) { return t; }
};

template <class T, class Set = simd::instruction_set>
bool total_rows_of(engine::row_total f, const engine::row_source& x, std::span<const int> axes, int ddof, T* out) {
  leaf_list leaves(leaf_number(x));
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

template <class T, class Set = simd::instruction_set>
void row_losses_of(const engine::row_source& x, std::span<const std::int64_t> labels, double* out) {
  if (labels.empty()) return;
  const int count = leaf_number(x), last = x.rank - 1;
  leaf_list leaves(count);
  bind_leaves(x, x.rank, leaves.data());
  const block_source<T> source = blocks_of<T>(x);
  std::vector<exp_total<T>> totals(labels.size());
  {
    leaf_list own(leaves.data(), count);
    const reduction_space s(own.data(), count, x.extents, x.rank, &last, 1);
    run_reduction(exp_totals<T>{{source}}, s, totals.data());
  }
  walker w(x.extents, 0, last, leaves.data(), count, 0);
  cursor_list from(static_cast<std::size_t>(count));
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
