// optim/master.hpp: parameters and moments in bf16 beside f32 master weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

/// The state of master<bf16>: 8 bytes an element with two moments, beside 2 of the parameter.
template <class P, class S>
struct master_state {
  P weights;                     ///< f32
  S inner;                       ///< the optimizer's state in bf16; integers as they are
  tensor<std::uint64_t, 0> key;  ///< of the next step's roundings
};

namespace detail {

/// The number of floating tensors of a tree.
template <class P>
std::size_t count_floats(const P& p) {
  std::size_t n = 0;
  for_each_leaf(p, [&]<class X>(const X&) { n += is_float_leaf<X>; });
  return n;
}

/// An f32 x as one of the two neighbours in bf16 (Gupta et al., 2015). The nearer neighbour is likelier, so the expectation is x,
/// unless x is beyond the largest bf16. `random` has uniform numbers below 2^16, as u32. Infinities and NaN stay, as do numbers that
/// bf16 represents.
template <class X, class Random>
auto randomly_rounded(const X& x, const Random& random, location at) {
  const auto bits = sinter::detail::evaluate(bit_cast<std::uint32_t>(x, at), at);
  const auto kept = sinter::detail::evaluate(bit_and(add(bits, random, at), std::uint32_t{0xffff0000u}, at), at);
  return sinter::detail::evaluate(cast<bf16>(where(isfinite(x, at), bit_cast<float>(kept, at), x, at), at), at);
}

/// Rounds the trees of a state to bf16. Element i of tensor t of n parameters draws a word of counter i · n + t. The first four trees
/// of the state have 16 bits of it each.
class random_rounding {
 public:
  random_rounding(tensor<std::uint64_t, 0> key, std::size_t parameters, location at)
      : key_(std::move(key)), parameters_(std::max<std::size_t>(parameters, 1)), at_(at) {}

  template <class X>
  auto operator()(const X& x) const {
    if constexpr (is_float_leaf<X>) {
      const std::size_t tree = next_ / parameters_, tensor = next_++ % parameters_;
      const auto y = sinter::detail::evaluate(x, at_);
      const auto index = sinter::detail::counters<dims(X::rank)>("optim::master", y.shape(), sizeof(float), at_);
      const auto place = add(mul(index, static_cast<std::uint64_t>(parameters_), at_),
                             static_cast<std::uint64_t>(tensor) + tree / 4 * sinter::detail::second_word, at_);
      const auto word = sinter::detail::evaluate(philox(key_, place, at_), at_);
      const auto random = cast<std::uint32_t>(
          bit_and(shr(word, static_cast<int>(16 * (tree % 4)), at_), std::uint64_t{0xffff}, at_), at_);
      return randomly_rounded(y, random, at_);
    } else {
      return x;
    }
  }

 private:
  tensor<std::uint64_t, 0> key_;
  std::size_t parameters_;
  location at_;
  mutable std::size_t next_ = 0;  ///< floating tensors so far
};

}  // namespace detail

/// The optimizer that master<bf16>(optimizer, key) returns.
template <element Low, class Optimizer>
class master_of {
  static_assert(std::is_same_v<Low, bf16>, "sinter: [optim::master] parameters are bf16; f16 needs optim::scale_loss");

 public:
  master_of(Optimizer of, key k) : of_(std::move(of)), key_(std::move(k)) {}

  /// The state of parameters of any floating dtype, from which weights begin.
  template <class P>
  auto init(const P& p, location at = location::current()) const {
    auto weights = cast_tree<float>(p, at);
    auto inner = cast_tree<Low>(of_.init(weights, at), at);
    auto k = key_.state;
    if (!engine::current()) k = k.to(detail::first_step(p, at).device(at), at);
    return master_state<decltype(weights), decltype(inner)>{std::move(weights), std::move(inner), std::move(k)};
  }
  /// The parameters before the first step: the weights, rounded.
  template <class P, class S>
  auto parameters(const master_state<P, S>& s, location at = location::current()) const {
    return cast_tree<Low>(s.weights, at);
  }
  /// A step of the weights, in f32, by gradients of the parameters.
  SINTER_UPDATE_CALLS("optim::master")
  template <class P, detail::gradients_of<P> G, class W, class S>
  std::pair<P, master_state<W, S>> update(const P&, const G& g, const master_state<W, S>& s,
                                          location at = location::current()) const {
    auto [weights, inner] = of_.update(s.weights, cast_tree<float>(g, at), cast_tree<float>(s.inner, at), at);
    P p = cast_tree<Low>(weights, at);
    S next =
        detail::map_tree("optim::master", at, detail::random_rounding(s.key, detail::count_floats(weights), at), inner);
    return {std::move(p), {std::move(weights), std::move(next), sinter::detail::child(key{s.key}, 0, at).state}};
  }

 private:
  Optimizer of_;
  key key_;
};

/// An optimizer of parameters in bf16, which it rounds from f32 weights of its own; its moments are bf16, too. It computes in f32.
/// Moments are rounded at random, with `key`: rounded to the nearest, a moment that changes by less than half of its last place
/// would stay. `update(p, g, state)` reads the weights in the state, not p. The optimizer may be a chain. A struct template holds
/// parameters: `model<float>` becomes `model<bf16>`.
template <element Low, class Optimizer>
master_of<Low, Optimizer> master(Optimizer of, key k) {
  return {std::move(of), std::move(k)};
}

}  // namespace sinter::optim
