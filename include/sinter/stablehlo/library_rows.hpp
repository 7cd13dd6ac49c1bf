// stablehlo/library_rows.hpp: steps of sinter's libraries as StableHLO operations: transforms, factors of matrices.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "structural.hpp"

namespace sinter::stablehlo::out {

/// Whether a function's words (ir::foreign::known) have this one.
inline bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0, end; at < words.size(); at = end + 1) {
    end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
  }
  return false;
}

/// Rows of complex numbers, whose parts are interleaved along the last axis of x (rows, n, 2). StableHLO's inverse divides by n.
inline value transformed_rows(builder& b, const values_t& in, std::string_view words) {
  const value& x = in[0];
  const std::int64_t rows = x.extents[0], n = x.extents[1];
  const extents_t flat{rows, n}, column{rows, n, 1}, steps{1, 1, 1};
  const value re = b.reshape(b.slice(x, {0, 0, 0}, column, steps), flat),
              im = b.reshape(b.slice(x, {0, 0, 1}, column, steps), flat);
  const value complex_rows{"", x.type, flat, true};
  const value z = b.operation("stablehlo.complex", {re, im}, {complex_rows})[0];
  const bool inverse = has_word(words, "inverse");
  const value y = b.operation("stablehlo.fft", {z}, {complex_rows},
                              "fft_length = " + array_text(extents_t{n}) + ", fft_type = #stablehlo<fft_type " +
                                  (inverse ? "IFFT>" : "FFT>"))[0];
  const value parts = b.concatenate(
      {b.reshape(b.op("real", {y}, x.type, flat), column), b.reshape(b.op("imag", {y}, x.type, flat), column)}, 2);
  const auto count = static_cast<double>(n);
  double scale = inverse ? count : 1;
  if (has_word(words, "root")) scale /= std::sqrt(count);
  if (has_word(words, "whole")) scale = inverse ? 1 : 1 / count;
  return scale == 1 ? parts : b.same("multiply", {parts, b.number(scale, parts)});
}
/// StableHLO does not define the elements above the diagonal.
inline value cholesky_factor(builder& b, const values_t& in, std::string_view) {
  const value l = b.op("cholesky", {in[0]}, in[0].type, in[0].extents, "lower = true");
  const value row = b.iota(dtype::i64, l.extents, 1), column = b.iota(dtype::i64, l.extents, 2);
  return b.select(b.compare(row, "GE", column), l, b.number(0, l));
}
inline value solved_triangle(builder& b, const values_t& in, std::string_view words) {
  const auto flag = [&](const char* word) { return has_word(words, word) ? "true" : "false"; };
  return b.op("triangular_solve", {in[0], in[1]}, in[1].type, in[1].extents,
              std::string("left_side = true, lower = ") + flag("lower") +
                  ", transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = " + flag("unit"));
}

/// What writes the first result of a step. `words` say how it computes.
struct library_row {
  const char* first;  ///< of the words
  const char* how;
  value (*write)(builder& b, const values_t& in, std::string_view words);
};
inline constexpr library_row library_rows[] = {
    {"fft", "complex, fft, real, imag", transformed_rows},
    {"cholesky", "cholesky, select", cholesky_factor},
    {"triangular_solve", "triangular_solve", solved_triangle},
};
inline const library_row* library_row_of(const ir::opaque& s) {
  if (s.kind != ir::opaque_kind::custom || !s.function) return nullptr;
  const std::string_view words = s.function->known;
  for (const library_row& r : library_rows)
    if (words.substr(0, words.find(' ')) == r.first) return &r;
  return nullptr;
}

}  // namespace sinter::stablehlo::out
