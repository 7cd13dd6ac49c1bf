// engine/rows.hpp: functions of whole rows on the host: softmax, norms, variances and losses, for the front end.
#pragma once

#include <cstdint>
#include <span>

#include "../base/config.hpp"
#include "../base/dtype.hpp"
#include "tracer.hpp"

namespace sinter::detail {

/// One leaf along the innermost axis.
struct cursor {
  const char* data = nullptr;
  std::int64_t base = 0;
  std::int64_t step = 0;
};

/// Computes elements [begin, end) of one row into `out`; `e` is the expression.
using row_function = void (*)(const void* e, const cursor* at, std::int64_t begin, std::int64_t end, void* out);

}  // namespace sinter::detail

namespace sinter::engine {

/// An operand of an eager computation: a tensor; a C++ number, by value and without an owner; or, with neither, the positions
/// along `axis`.
struct operand : argument {
  int axis = 0;

  bool is_tensor() const { return owner != nullptr; }
  bool is_number() const { return !owner && by_value; }
};

/// A source of rows: f32 or f64, a tensor on the host or an expression over such tensors, which is not stored.
struct row_source {
  std::span<const operand> operands;       ///< in the order of the expression's leaves, without the numbers
  const void* expression = nullptr;        ///< null: the single operand itself
  sinter::detail::row_function fill = {};  ///< computes elements of `type` of the expression
  dtype type = dtype::f32;
  int rank = 0;
  const std::int64_t* extents = nullptr;
};

/// y = f(row) for each row. softmax and log_softmax are relative to the maximum, and all NaN if it is not finite. layer_norm
/// is (x - mean) / sqrt(variance + eps); rms_norm is x / sqrt(mean(x²) + eps).
enum class row_map { softmax, log_softmax, layer_norm, rms_norm };

/// f of each row of x along `axis`, for norms the last, into row-major elements of x's type and extents; x must not be empty.
/// Norms are multiplied by the first of `by`, then the second is added: at most two, of x's type, that broadcast to x.
/// (loops/rows.hpp)
SINTER_API void map_rows(row_map f, const row_source& x, int axis, double eps, std::span<const row_source> by,
                         void* out);

/// One number for each row: its variance, standard deviation, 2-norm, or log(sum(exp(x))).
enum class row_total { variance, deviation, norm, logsumexp };

/// f of x over some axes, into row-major elements of x's type. Variances divide by the count minus `ddof`, or by 0 if that is
/// negative. False for rows without elements, and nothing is written. (loops/rows.hpp)
SINTER_API bool total_rows(row_total f, const row_source& x, std::span<const int> axes, int ddof, void* out);

/// -log(softmax(row)[label]) for each row of x along its last axis, which must not be empty. Labels, one for each row, must
/// be in range. NaN if the row's maximum is not finite. (loops/rows.hpp)
SINTER_API void row_losses(const row_source& x, std::span<const std::int64_t> labels, double* out);

}  // namespace sinter::engine
