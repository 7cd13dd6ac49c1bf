// optim/schedule.hpp: rates as functions of the step.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "../sinter.hpp"

namespace sinter::optim {

namespace detail {

using namespace sinter::detail;
using scalar = tensor<float, 0>;

template <class F>
concept rate_function = requires(const F& f, const scalar& step) {
  { f(step) } -> std::convertible_to<scalar>;
};

}  // namespace detail

/// A rate: a number, a tensor<float, 0> such as an argument of the compiled step, or a function. The function receives the
/// number of earlier steps, a tensor<float, 0>, and is part of the graph. So a change of the rate compiles nothing.
class schedule {
 public:
  schedule(double rate) : rate_(rate) {}
  template <std::same_as<detail::scalar> Rate>
  schedule(const Rate& rate) : of_([rate](const detail::scalar&) { return rate; }) {}
  template <detail::rate_function F>
  requires(!std::is_arithmetic_v<F> && !std::is_same_v<F, schedule>) schedule(F f) : of_(std::move(f)) {}

  /// The rate after `step` steps; `step` is on the device of the rate.
  template <std::same_as<tensor<std::int64_t, 0>> Step>
  detail::scalar operator()(const Step& step, location at = location::current()) const {
    const detail::scalar t = sinter::detail::evaluate(cast<float>(step, at), at);
    return of_ ? of_(t) : full_like(t, static_cast<float>(rate_), at);
  }
  template <std::integral Step>
  float operator()(Step step, location at = location::current()) const {
    return (*this)(tensor<std::int64_t, 0>(static_cast<std::int64_t>(step)), at).item(at);
  }

 private:
  double rate_ = 0;
  std::function<detail::scalar(const detail::scalar&)> of_;
};

namespace detail {

inline void check_steps(const char* op, double steps, location at) {
  if (!(steps >= 1)) fail(op, "the number of steps must be 1 or more; it is " + text::number(steps), at);
}

/// The fraction of `steps` that is done, at most 1.
template <class Step>
auto progress(const Step& step, double steps) {
  return minimum(maximum(step * static_cast<float>(1 / steps), 0.f), 1.f);
}
/// From 1 to 0 along half a cosine.
template <class Part>
auto half_cosine(const Part& part) {
  return 0.5f + 0.5f * cos(part * 3.14159265358979f);
}
template <class Part>
auto between(double from, double to, const Part& part) {
  return static_cast<float>(from) + static_cast<float>(to - from) * part;
}

}  // namespace detail

// Templates, so that a program compiles only the schedules it uses.

/// The same rate at every step.
inline schedule constant(double rate) { return rate; }

/// From `from` to `to` in equal steps, then `to`.
template <class = void>
schedule linear(double from, double to, std::int64_t steps, location at = location::current()) {
  const double n = static_cast<double>(steps);
  detail::check_steps("optim::linear", n, at);
  return [=](const detail::scalar& t) { return detail::scalar(detail::between(from, to, detail::progress(t, n))); };
}

/// rate · factor^(step / steps). user_error for a factor that is not positive, and for steps below 1.
template <class = void>
schedule exponential(double rate, double factor, std::int64_t steps = 1, location at = location::current()) {
  detail::check_steps("optim::exponential", static_cast<double>(steps), at);
  if (!(factor > 0))
    sinter::fail("optim::exponential", "the factor must be above 0; it is " + text::number(factor), at);
  const float slope = static_cast<float>(std::log(factor) / static_cast<double>(steps));
  return [=](const detail::scalar& t) { return detail::scalar(static_cast<float>(rate) * exp(t * slope)); };
}

/// rate · factor^⌊step / every⌋. user_error as in exponential.
template <class = void>
schedule staircase(double rate, double factor, std::int64_t every, location at = location::current()) {
  detail::check_steps("optim::staircase", static_cast<double>(every), at);
  if (!(factor > 0)) sinter::fail("optim::staircase", "the factor must be above 0; it is " + text::number(factor), at);
  const float slope = static_cast<float>(std::log(factor)), length = static_cast<float>(every);
  return [=](const detail::scalar& t) {
    return detail::scalar(static_cast<float>(rate) * exp(floor(t / length) * slope));
  };
}

/// From the rate to `last` along half a cosine (Loshchilov and Hutter, 2017), then `last`.
template <class = void>
schedule cosine(double rate, std::int64_t steps, double last = 0, location at = location::current()) {
  const double n = static_cast<double>(steps);
  detail::check_steps("optim::cosine", n, at);
  return
      [=](const detail::scalar& t) { return detail::between(last, rate, detail::half_cosine(detail::progress(t, n))); };
}

/// rate · (step + 1) / (warmup + 1) before `warmup` steps, then a cosine to `last` at `steps`. user_error unless
/// 0 <= warmup < steps.
template <class = void>
schedule warmup_cosine(double rate, std::int64_t warmup, std::int64_t steps, double last = 0,
                       location at = location::current()) {
  const double w = static_cast<double>(warmup), n = static_cast<double>(steps - warmup);
  if (warmup < 0 || steps <= warmup)
    sinter::fail("optim::warmup_cosine",
                 "needs 0 <= warmup < steps; they are " + std::to_string(warmup) + " and " + std::to_string(steps), at);
  return [=](const detail::scalar& t) {
    const auto up = (t + 1.f) * static_cast<float>(rate / (w + 1));
    const auto down = detail::between(last, rate, detail::half_cosine(detail::progress(t - static_cast<float>(w), n)));
    return detail::scalar(where(t < static_cast<float>(w), up, down));
  };
}

struct one_cycle_options {
  double rising = 0.3;            ///< the fraction of the steps in which the rate rises
  double first = 25, last = 1e4;  ///< it starts at rate / first, and ends at rate / (first · last)
};

/// Rises to the rate along half a cosine, then falls along another (Smith and Topin, 2018), as PyTorch's OneCycleLR.
template <class = void>
schedule one_cycle(double rate, std::int64_t steps, const one_cycle_options& how = {},
                   location at = location::current()) {
  const double all = static_cast<double>(steps), top = how.rising * all - 1;
  if (!(top > 0 && top < all - 1))
    sinter::fail("optim::one_cycle",
                 "the share in which the rate rises must leave steps on both sides; it is " + text::number(how.rising) +
                     " of " + std::to_string(steps),
                 at);
  const double low = rate / how.first, end = low / how.last;
  return [=](const detail::scalar& t) {
    const auto up = detail::between(rate, low, detail::half_cosine(detail::progress(t, top)));
    const auto down =
        detail::between(end, rate, detail::half_cosine(detail::progress(t - static_cast<float>(top), all - 1 - top)));
    return detail::scalar(where(t <= static_cast<float>(top), up, down));
  };
}

// What the compiled optimizers instantiate. BEFORE is `extern` or nothing.
#define SINTER_SCHEDULES(BEFORE)                                                                      \
  BEFORE template schedule linear<void>(double, double, std::int64_t, location);                      \
  BEFORE template schedule exponential<void>(double, double, std::int64_t, location);                 \
  BEFORE template schedule staircase<void>(double, double, std::int64_t, location);                   \
  BEFORE template schedule cosine<void>(double, std::int64_t, double, location);                      \
  BEFORE template schedule warmup_cosine<void>(double, std::int64_t, std::int64_t, double, location); \
  BEFORE template schedule one_cycle<void>(double, std::int64_t, const one_cycle_options&, location);
#if defined(SINTER_COMPILED)
SINTER_SCHEDULES(extern)
#endif

}  // namespace sinter::optim
