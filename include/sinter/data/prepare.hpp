// data/prepare.hpp: splits a dataset in two, and scales columns to mean 0 and variance 1.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "batches.hpp"

namespace sinter::data {

struct split_options {
  double test = 0.25;               ///< fraction of the rows, rounded up, as in scikit-learn
  std::optional<key> shuffle = {};  ///< without a key, rows keep their order, and the last ones are the test's
};

/// Splits a dataset, see batches(), into two of its kind: `auto [train, test] = data::train_test_split(d, {.test = 0.2,
/// .shuffle = k})`. The same key gives the same rows on every machine. user_error for a fraction that leaves either part
/// without a row.
template <class Dataset>
auto train_test_split(const Dataset& d, const split_options& how = {}, location here = location::current()) {
  const location at = here.in("data::train_test_split");
  const std::int64_t rows = detail::row_count(d, at);
  const double share = how.test > 0 && how.test < 1 ? how.test : 0;
  const auto test = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(rows)));
  if (test < 1 || test >= rows)
    fail(at.op,
         ".test = " + std::to_string(how.test) + " of " + std::to_string(rows) +
             " rows leaves one part empty; give a share between 0 and 1, and two rows or more",
         at);
  std::optional<std::uint64_t> state;
  if (how.shuffle) state = static_cast<std::uint64_t>(how.shuffle->state.to(device::cpu(), at).item(at));
  const std::vector<std::int64_t> order = detail::order_of(rows, state);
  const auto kept = std::span(order).first(static_cast<std::size_t>(rows - test));
  const auto left = std::span(order).subspan(kept.size());
  return std::pair{detail::batch_of(d, kept, at), detail::batch_of(d, left, at)};
}

/// (x - mean) / deviation of each column: a tree that a model can contain. fit_standard_scaler makes it.
template <class T, int Rank = 2>
struct standard_scaler {
  tensor<T, Rank - 1> mean, deviation;

  /// Scales x, with rows like the fitted ones, to mean 0 and variance 1. x has the scaler's dtype.
  tensor<T, Rank> operator()(const tensor<T, Rank>& x, location at = location::current()) const {
    return sinter::detail::evaluate(div(sub(x, mean, at), deviation, at), at);
  }
  /// The inverse of scaling.
  tensor<T, Rank> inverse(const tensor<T, Rank>& y, location at = location::current()) const {
    return sinter::detail::evaluate(add(mul(y, deviation, at), mean, at), at);
  }
};

/// The means and deviations of the columns of x (rows, …), as scikit-learn's StandardScaler computes them. NaN is ignored.
/// The deviation is the rows' own, and 1 for a constant column. Floating dtypes, computed in f64. user_error without rows.
template <tensor_like X>
auto fit_standard_scaler(const X& x, location here = location::current()) {
  const location at = here.in("data::fit_standard_scaler");
  using T = typename X::value_type;
  constexpr bool right = X::rank >= 1 && is_float(dtype_of<T>);
  static_assert(right, "sinter: [data::fit_standard_scaler] takes rows of a floating dtype: cast<float>(x)");
  if constexpr (right) {
    constexpr int rank = X::rank - 1;
    const tensor<double, X::rank> y = sinter::detail::evaluate(sinter::cast<double>(x, at), at);
    if (y.shape()[0] == 0) fail(at.op, "x has no rows", at);
    const tensor<double, rank> mean = nanmean(y, axis<0>, at);
    // Tested by the extremes, because rounding can give equal values a variance above 0.
    const tensor<double, rank> deviation =
        where(eq(nanmax(y, axis<0>, at), nanmin(y, axis<0>, at), at), 1.0, nanstd(y, axis<0>, 0, at), at);
    return standard_scaler<T, X::rank>{sinter::detail::evaluate(sinter::cast<T>(mean, at), at),
                                       sinter::detail::evaluate(sinter::cast<T>(deviation, at), at)};
  } else {
    return standard_scaler<float, 2>{};
  }
}

}  // namespace sinter::data
