// nn/dropout.hpp: dropout: sets elements to 0 at random.
#pragma once

#include <array>
#include <string>

#include "values.hpp"

namespace sinter::nn {

/// Sets each element to 0 with probability `rate`, and divides the others by 1 - rate, so that means stay (Srivastava et al.,
/// 2014). Each call splits the key and draws another mask. A call therefore changes the object: pass it by value or by
/// reference. `dropout{}`, for inference, returns its input. In the body of a loop, make a dropout from a carried key or
/// from `fold_in(key, i)`: a captured dropout draws the same mask at each step.
class dropout {
 public:
  dropout() = default;
  SINTER_WRONG_CALL("[nn::dropout] is made of a rate and a key: nn::dropout(0.1, key); nn::dropout{} changes nothing")
  explicit dropout(double);
  /// user_error unless the rate is in [0, 1).
  dropout(double rate, const key& k, location at = location::current()) : rate_(rate), key_(k) {
    if (!(rate >= 0 && rate < 1))
      sinter::fail("nn::dropout", "the rate must be in [0, 1); it is " + text::number(rate), at);
  }

  SINTER_LAYER_CALLS(
      "nn::dropout",
      "drop(x), drop not const: each call splits its key. Take it by value, or by a reference that is not const")
  /// For floating dtypes. The mask is drawn on the device of x.
  template <tensor_like X>
  auto operator()(const X& x, location here = location::current()) {
    constexpr bool floats = is_float(dtype_of<typename X::value_type>);
    static_assert(floats, "sinter: [nn::dropout] takes floating dtypes; cast with cast<float>(x)");
    const location at = here.in("nn::dropout");
    const auto y = sinter::detail::evaluate(x, at);
    using result = std::remove_cvref_t<decltype(y)>;
    if (rate_ == 0) return result(y);
    if constexpr (floats) {
      const auto [now, later] = split(key_, at);
      key_ = later;
      const auto keep = bernoulli(now, 1 - rate_, y.shape(), sinter::detail::same_device(y, at), at);
      const auto scaled = mul(sinter::detail::wide(y, at), 1 / (1 - rate_), at);
      return result(sinter::detail::narrow<typename X::value_type>(where(keep, scaled, 0, at), at));
    } else {
      return result(y);
    }
  }

  /// Of values with a rule of their own, such as placed tensors: the mask is drawn by the elements' indices in the whole tensor.
  template <class X>
  requires(!tensor_like<X> && requires(const X& x, const key& k, location at) { drop_elements(x, 0.1, k, at); }) auto
  operator()(const X& x, location here = location::current()) {
    const location at = here.in("nn::dropout");
    if (rate_ == 0) return x;
    const auto [now, later] = split(key_, at);
    key_ = later;
    return drop_elements(x, rate_, now, at);
  }

  double rate() const { return rate_; }

 private:
  double rate_ = 0;
  key key_;
};

}  // namespace sinter::nn
