// optim/chain.hpp: changes of gradients ahead of an optimizer.
#pragma once

#include <tuple>
#include <utility>

#include "leaves.hpp"

namespace sinter::optim {

// A link has a type `link`, init(p), and change(p, g, state), which returns new gradients and the next state.

/// Scales gradients so that their norm, over all of them together, is at most `largest`, as PyTorch's clip_grad_norm_. Also
/// correct when that norm is beyond the range of the gradients' dtype. Of gradients that ranks of a mesh divide it is the norm over
/// all ranks.
class clip_by_global_norm {
 public:
  using link = void;
  explicit clip_by_global_norm(double largest, location at = location::current()) : largest_(largest) {
    detail::check_least("optim::clip_by_global_norm", "the norm", largest, at);
  }
  template <class P>
  stateless init(const P&, location = location::current()) const {
    return {};
  }
  template <class P, class G>
  std::pair<G, stateless> change(const P&, const G& g, const stateless&, location at = location::current()) const {
    const auto norm = sinter::detail::norm_of_all(at, g);
    const auto factor = detail::evaluate(minimum(largest_ / (norm + 1e-6), 1, at), at);
    return {tree_scale(factor, g, at), stateless{}};
  }

 private:
  double largest_;
};

/// Clamps each element of the gradients between -largest and largest.
class clip_by_value {
 public:
  using link = void;
  explicit clip_by_value(double largest, location at = location::current()) : largest_(largest) {
    detail::check_least("optim::clip_by_value", "the limit", largest, at);
  }
  template <class P>
  stateless init(const P&, location = location::current()) const {
    return {};
  }
  template <class P, class G>
  std::pair<G, stateless> change(const P&, const G& g, const stateless&, location at = location::current()) const {
    const auto clip = [&](const auto& x) { return minimum(maximum(x, -largest_, at), largest_, at); };
    return {detail::map_floats("optim::clip_by_value", at, clip, g), stateless{}};
  }

 private:
  double largest_;
};

namespace detail {

template <class L>
concept chain_link = requires {
  typename L::link;
};

template <class... Link>
constexpr bool is_chain() {
  constexpr int links = (0 + ... + int(chain_link<Link>));
  constexpr bool last = [] {
    bool is = true;
    ((is = chain_link<Link>), ...);
    return is;
  }();
  static_assert(!last, "sinter: [optim::chain] the last of a chain is an optimizer, such as optim::adamw()");
  static_assert(last || links + 1 == int(sizeof...(Link)),
                "sinter: [optim::chain] before the optimizer, which comes last, stand links, such as "
                "optim::clip_by_global_norm(1)");
  return !last && links + 1 == int(sizeof...(Link));
}

}  // namespace detail

/// An optimizer of links followed by an optimizer; its state is a tuple of their states.
template <class... Link>
class chain {
  static_assert(detail::is_chain<Link...>());

 public:
  explicit chain(Link... links) : links_(std::move(links)...) {}

  template <class P>
  auto init(const P& p, location at = location::current()) const {
    return std::apply([&](const auto&... link) { return std::tuple{link.init(p, at)...}; }, links_);
  }
  SINTER_UPDATE_CALLS("optim::chain")
  template <class P, detail::gradients_of<P> G, class... S>
  std::pair<P, std::tuple<S...>> update(const P& p, const G& g, const std::tuple<S...>& state,
                                        location at = location::current()) const {
    std::tuple<S...> next = state;
    P moved = from<0>(p, g, state, next, at);
    return {std::move(moved), std::move(next)};
  }

 private:
  template <std::size_t I, class P, class G, class S>
  P from(const P& p, const G& g, const S& state, S& next, location at) const {
    if constexpr (I + 1 == sizeof...(Link)) {
      auto [moved, after] = std::get<I>(links_).update(p, g, std::get<I>(state), at);
      std::get<I>(next) = std::move(after);
      return moved;
    } else {
      auto [changed, after] = std::get<I>(links_).change(p, g, std::get<I>(state), at);
      std::get<I>(next) = std::move(after);
      return from<I + 1>(p, changed, state, next, at);
    }
  }

  std::tuple<Link...> links_;
};

}  // namespace sinter::optim
