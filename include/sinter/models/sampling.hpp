// models/sampling.hpp: draws the next token from its scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "../nn.hpp"

namespace sinter::models {

/// How a token is drawn. The numbers are parts of a compiled function: other numbers are other specialisations.
struct sampling {
  /// Divides the scores. 0, and any number below the least normal float: the token of the largest score, the first among equals.
  nn::constant temperature = 0;
  std::int64_t top_k = 0;  ///< draws from so many tokens of the largest scores, the first among equals; 0: from all
  nn::constant top_p = 1;  ///< of these, from the fewest that have at least this probability, the most probable first
};

namespace detail {
/// user_error for numbers out of their ranges.
SINTER_API void check_sampling(double temperature, std::int64_t top_k, double top_p, location at);

inline bool is_cold(double temperature) { return temperature < std::numeric_limits<float>::min(); }

/// The scores less the largest of their row, divided by the temperature. No quotient of finite scores overflows to +inf.
template <class T>
tensor<float, 2> warmed(const tensor<T, 2>& scores, double temperature, location at) {
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr double max_warmth = std::numeric_limits<float>::max();
  const tensor<W, 2> x = cast<W>(scores, at), most = max(x, axis<-1>, keepdims, at);
  // The largest itself is 0 also where it is infinite.
  const tensor<float, 2> less = cast<float>(where(eq(x, most, at), W(0), sub(x, most, at), at), at);
  return div(less, static_cast<float>(is_cold(temperature) ? 1 : std::min(temperature, max_warmth)), at);
}
}  // namespace detail

/// The scores that may be drawn, in descending order, less the largest, divided by the temperature; -inf for the others. And their
/// tokens. The temperature 0 counts as 1.
template <class T>
std::pair<tensor<float, 2>, tensor<std::int64_t, 2>> candidates(const tensor<T, 2>& scores, const sampling& how,
                                                                location here = location::current()) {
  const location at = here.in("models::candidates");
  detail::check_sampling(how.temperature, how.top_k, how.top_p, at);
  const tensor<float, 2> x = detail::warmed(scores, how.temperature, at);
  const dim all = x.size(1, at), kept = how.top_k == 0 ? all : min(all, dim(how.top_k));
  auto [values, tokens] = topk(x, kept, axis<-1>, {}, at);
  if (how.top_p == 1) return {values, tokens};
  const tensor<float, 2> p = softmax(values), before = cumsum(p, axis<1>) - p;
  // The first is kept whatever rounding does to its sum.
  const tensor<bool, 2> in =
      bit_or(before < static_cast<float>(how.top_p),
             arange<std::int64_t>(kept, sinter::detail::same_device(values, at), at) == std::int64_t{0});
  return {where(in, values, -std::numeric_limits<float>::infinity()), tokens};
}

/// A token for each row of scores (batch, tokens): (batch). Rows draw numbers of their own from one key. user_error for a negative
/// temperature or top_k, and for top_p outside of (0, 1].
template <class T>
tensor<std::int64_t, 1> sampled(const tensor<T, 2>& scores, const key& k, const sampling& how,
                                location here = location::current()) {
  const location at = here.in("models::sampled");
  detail::check_sampling(how.temperature, how.top_k, how.top_p, at);
  if (detail::is_cold(how.temperature)) return argmax(scores, axis<-1>);
  if (how.top_k == 0 && how.top_p == 1) return categorical(k, detail::warmed(scores, how.temperature, at), at);
  const auto [values, tokens] = candidates(scores, how, at);
  const tensor<std::int64_t, 1> place = categorical(k, values, at);
  return reshape(take_along_axis(tokens, tensor<std::int64_t, 2>(expand_dims<1>(place)), axis<1>),
                 std::array<dim, 1>{place.size(0)}, at);
}

}  // namespace sinter::models

#if !defined(SINTER_COMPILED)
#include "sampling_rules.hpp"
#endif
