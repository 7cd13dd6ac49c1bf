// nn/values.hpp: non-tensor members of layers: configuration, and the mode of a network.
#pragma once

#include <bit>
#include <cstdint>

#include "../sinter.hpp"

namespace sinter {

namespace detail {

/// Whether the first arguments of a call convert to the types Wanted.
template <class Wanted, class Given>
inline constexpr bool begin_with = std::is_same_v<Wanted, type_list<>>;
template <class W, class... Wanted, class G, class... Given>
inline constexpr bool begin_with<type_list<W, Wanted...>, type_list<G, Given...>> =
    std::is_convertible_v<const G&, W>&& begin_with<type_list<Wanted...>, type_list<Given...>>;

}  // namespace detail

namespace nn {

/// A floating number of a layer that is not a parameter, such as an epsilon. Compiled functions guard it by value; gradients
/// and optimizers leave it alone. Converts from and to `double`.
class constant {
 public:
  constexpr constant(double x = 0) : bits_(std::bit_cast<std::uint64_t>(x)) {}
  constexpr operator double() const { return std::bit_cast<double>(bits_); }

 private:
  std::uint64_t bits_;
};

// How a layer is called, as a member: the error of any other call.
#define SINTER_LAYER_CALLS(NAME, CALLS)                        \
  template <class... A>                                        \
  SINTER_WRONG_CALL("[" NAME "] is called as " CALLS)          \
  sinter::detail::wrong_call<> operator()(const A&...) const { \
    return {};                                                 \
  }

// A call with a tensor of another dtype than the layer's T, as a member.
#define SINTER_LAYER_DTYPE(NAME)                                                                               \
  template <tensor_like X>                                                                                     \
  requires(!std::is_same_v<typename X::value_type, T>)                                                         \
      SINTER_WRONG_CALL("[" NAME                                                                               \
                        "] x and the layer's weights have different dtypes; cast one with cast<T>(x), or all " \
                        "weights with cast_tree<T>(layer)")                                                    \
  sinter::detail::wrong_call<> operator()(const X&, location = {}) const { return {}; }

// How a layer is made, as a member: the error of other calls of `init`, whose arguments do not begin with the types that follow.
#define SINTER_LAYER_INIT(NAME, CALLS, ...)                                                                      \
  template <class... A>                                                                                          \
  requires(!sinter::detail::begin_with<sinter::detail::type_list<__VA_ARGS__>, sinter::detail::type_list<A...>>) \
      SINTER_WRONG_CALL("[" NAME "] is made by init(" CALLS ")")                                                 \
  static sinter::detail::wrong_call<> init(const A&...) { return {}; }

/// The mode of layers that behave differently in training, such as batch_norm.
enum class mode { training, inference };
inline constexpr mode training = mode::training, inference = mode::inference;

template <class T>
class pass;  // state.hpp

}  // namespace nn

template <>
inline constexpr bool is_value<nn::constant> = true;

namespace nn::detail {

using namespace sinter::detail;

/// The first extents of a shape, then the extents `more`. One extent of `more` may be -1.
template <std::size_t R, std::size_t N, std::size_t M>
std::array<dim, R> extents_with(const std::array<dim, N>& first, const std::array<dim, M>& more) {
  static_assert(R >= M && R - M <= N);
  std::array<dim, R> to;
  for (std::size_t i = 0; i < R - M; ++i) to[i] = first[i];
  for (std::size_t i = 0; i < M; ++i) to[R - M + i] = more[i];
  return to;
}

[[noreturn]] inline void fail_size(const char* op, const char* what, std::int64_t n, location at) {
  fail(op, std::string(what) + " must be 1 or more; it is " + std::to_string(n), at);
}
inline void check_size(const char* op, const char* what, std::int64_t n, location at) {
  if (n < 1) fail_size(op, what, n, at);
}

/// One number for each channel, shaped (c, 1, …) to broadcast against tensors of Rank axes with channels on axis 1.
template <int Rank, class T>
auto per_channel(const tensor<T, 1>& x, location at) {
  std::array<dim, Rank - 1> extents;
  extents.fill(1);
  extents[0] = x.size(0, at);
  return reshape(x, extents, at);
}
/// user_error, of at.op, unless the bias has one number for each place of an axis of x.
template <class X, class Bias>
void check_bias(const X& x, int axis, const Bias& bias, location at) {
  if (bias.size(0, at) != x.size(axis, at))
    fail(at.op,
         "the bias is " + text::shape(to_dims(bias.shape())) + ", axis " + std::to_string(axis) + " of the result " +
             text::shape(to_dims(x.shape())) + " has another extent",
         at);
}

/// x + bias of channels.
template <class X, class Bias>
X shifted_channels(const X& x, const Bias& bias, location at) {
  check_bias(x, 1, bias, at);
  return sinter::detail::evaluate(add(x, per_channel<X::rank>(bias, at), at), at);
}

/// x + bias along the last axis, or x without a bias.
template <class X, class Bias>
auto with_bias(const X& x, const Bias& bias, location at) {
  const auto y = sinter::detail::evaluate(x, at);
  using result = std::remove_cvref_t<decltype(y)>;
  if (!bias) return y;
  check_bias(y, result::rank - 1, *bias, at);
  return result(sinter::detail::evaluate(add(y, *bias, at), at));
}

}  // namespace nn::detail
}  // namespace sinter
