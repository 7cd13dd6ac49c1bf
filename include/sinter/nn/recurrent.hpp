// nn/recurrent.hpp: LSTM and GRU, a scan over the places of a sequence.
#pragma once

#include <utility>

#include "layers.hpp"

namespace sinter::nn {

/// The state that an LSTM carries from place to place: (batch, width) each.
template <class T>
struct lstm_state {
  tensor<T, 2> h, c;
};

namespace detail {

/// Part i of `count` equal parts of a matrix's columns.
template <class X>
tensor<typename X::value_type, 2> column_part(const X& x, int i, int count, location at) {
  const dim n = x.size(1, at) / dim(count);
  return sinter::slice(x, axis<-1>, n * dim(i), n * dim(i + 1), 1, at);
}

/// Converts between (batch, places, …) and (places, batch, …).
template <class X>
tensor<typename X::value_type, 3> places_first(const X& x, location at) {
  return sinter::detail::evaluate(swapaxes<0, 1>(x, at), at);
}

/// A layer that maps input and state to `gates` parts, uniform within ±1 / √width.
template <class Layer>
Layer drawn_gates(const char* op, std::int64_t gates, const key& k, std::int64_t features, std::int64_t width,
                  location at) {
  check_size(op, "the number of features", features, at);
  check_size(op, "the width", width, at);
  const double reach = 1 / std::sqrt(static_cast<double>(width));
  const auto drawn = uniform_of(-reach, reach);
  const auto keys = split<4>(k, at);
  const auto map = [&](std::int64_t from, std::size_t first) {
    using T = typename Layer::value_type;
    return linear<T>{drawn.template draw<T>(keys[first], std::array{from, gates * width}, 1, 1, at),
                     drawn.template draw<T>(keys[first + 1], std::array{gates * width}, 1, 1, at)};
  };
  return {map(features, 0), map(width, 2)};
}

template <class T, class X>
constexpr bool is_batch_of_sequences() {
  constexpr bool right = X::rank == 3 && std::is_same_v<typename X::value_type, T>;
  static_assert(right, "sinter: [nn::lstm, nn::gru] take (batch, places, features) of their own dtype");
  return right;
}

}  // namespace detail

/// PyTorch's long short-term memory (Hochreiter and Schmidhuber, 1997): gates in the order input, forget, cell, output.
template <class T>
struct lstm {
  using value_type = T;
  linear<T> input;   ///< (features, 4 · width)
  linear<T> hidden;  ///< (width, 4 · width)

  SINTER_LAYER_INIT("nn::lstm", "key, features, width", key, std::int64_t, std::int64_t)
  static lstm init(const key& k, std::int64_t features, std::int64_t width, location at = location::current()) {
    return detail::drawn_gates<lstm>("nn::lstm", 4, k, features, width, at);
  }

  /// Zeros for a batch.
  lstm_state<T> start(const dim& batch, location at = location::current()) const {
    const std::array<dim, 2> extents{batch, hidden.weight.size(0, at)};
    const auto zero = zeros<T>(extents, sinter::detail::same_device(hidden.weight, at), at);
    return {zero, zero};
  }

  /// One place: `mapped` is the input after its linear map, `before` the earlier state.
  lstm_state<T> step(const tensor<T, 2>& mapped, const lstm_state<T>& s, location at = location::current()) const {
    const tensor<T, 2> all = sinter::detail::evaluate(add(mapped, hidden(s.h, at), at), at);
    const auto gate = [&](int i) { return sinter::sigmoid(detail::column_part(all, i, 4, at), at); };
    const auto c = sinter::detail::evaluate(
        add(mul(gate(1), s.c, at), mul(gate(0), sinter::tanh(detail::column_part(all, 2, 4, at), at), at), at), at);
    return {sinter::detail::evaluate(mul(gate(3), sinter::tanh(c, at), at), at), c};
  }

  SINTER_LAYER_CALLS("nn::lstm", "layer(x) or layer(x, state), x a tensor (batch, steps, features)")
  /// Maps x (batch, places, features) to (batch, places, width) and the state after the last place.
  template <tensor_like X>
  std::pair<tensor<T, 3>, lstm_state<T>> operator()(const X& x, const lstm_state<T>& s,
                                                    location here = location::current()) const {
    if constexpr (detail::is_batch_of_sequences<T, X>()) {
      const location at = here.in("nn::lstm");
      const tensor<T, 3> mapped = detail::places_first(input(x, at), at);
      auto [last, y] = scan(
          [&](const lstm_state<T>& before, const tensor<T, 2>& now) {
            const lstm_state<T> after = step(now, before, at);
            return std::pair{after, after.h};
          },
          s, mapped, at);
      return {detail::places_first(y, at), last};
    } else {
      return {};
    }
  }
  template <tensor_like X>
  std::pair<tensor<T, 3>, lstm_state<T>> operator()(const X& x, location at = location::current()) const {
    return (*this)(x, start(x.shape()[0], at), at);
  }
};

/// PyTorch's gated recurrent units (Cho et al., 2014): gates in the order reset, update, new.
template <class T>
struct gru {
  using value_type = T;
  linear<T> input;   ///< (features, 3 · width)
  linear<T> hidden;  ///< (width, 3 · width)

  SINTER_LAYER_INIT("nn::gru", "key, features, width", key, std::int64_t, std::int64_t)
  static gru init(const key& k, std::int64_t features, std::int64_t width, location at = location::current()) {
    return detail::drawn_gates<gru>("nn::gru", 3, k, features, width, at);
  }

  tensor<T, 2> start(const dim& batch, location at = location::current()) const {
    const std::array<dim, 2> extents{batch, hidden.weight.size(0, at)};
    return zeros<T>(extents, sinter::detail::same_device(hidden.weight, at), at);
  }

  tensor<T, 2> step(const tensor<T, 2>& mapped, const tensor<T, 2>& h, location at = location::current()) const {
    const tensor<T, 2> own = hidden(h, at);
    const auto gate = [&](int i) {
      return sinter::sigmoid(add(detail::column_part(mapped, i, 3, at), detail::column_part(own, i, 3, at), at), at);
    };
    const auto fresh = sinter::tanh(
        add(detail::column_part(mapped, 2, 3, at), mul(gate(0), detail::column_part(own, 2, 3, at), at), at), at);
    const tensor<T, 2> n = sinter::detail::evaluate(fresh, at);
    return sinter::detail::evaluate(add(n, mul(gate(1), sub(h, n, at), at), at), at);
  }

  SINTER_LAYER_CALLS("nn::gru", "layer(x) or layer(x, h), x a tensor (batch, steps, features)")
  /// Maps x (batch, places, features) to (batch, places, width) and the state after the last place.
  template <tensor_like X>
  std::pair<tensor<T, 3>, tensor<T, 2>> operator()(const X& x, const tensor<T, 2>& h,
                                                   location here = location::current()) const {
    if constexpr (detail::is_batch_of_sequences<T, X>()) {
      const location at = here.in("nn::gru");
      const tensor<T, 3> mapped = detail::places_first(input(x, at), at);
      auto [last, y] = scan(
          [&](const tensor<T, 2>& before, const tensor<T, 2>& now) {
            const tensor<T, 2> after = step(now, before, at);
            return std::pair{after, after};
          },
          h, mapped, at);
      return {detail::places_first(y, at), last};
    } else {
      return {};
    }
  }
  template <tensor_like X>
  std::pair<tensor<T, 3>, tensor<T, 2>> operator()(const X& x, location at = location::current()) const {
    return (*this)(x, start(x.shape()[0], at), at);
  }
};

}  // namespace sinter::nn
