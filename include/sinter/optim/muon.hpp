// optim/muon.hpp: Muon: matrices step along the orthogonal factor of their momentum, and AdamW updates the other parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizers.hpp"

namespace sinter::optim {

/// For matrices under Muon `first` is the momentum, and `second` is empty.
template <class P>
struct muon_state {
  tensor<std::int64_t, 0> step;
  P first, second;
};

struct muon_options {
  schedule rate = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;
  mask which = {};           ///< selects the matrices; leave out embeddings and the last layer
  adam_options others = {};  ///< AdamW's options for all other parameters
};

namespace detail {

template <class X>
inline constexpr bool is_open_matrix = false;
template <tensor_like X>
requires(X::rank == 2) inline constexpr bool is_open_matrix<X> = X::static_shape[0] == dyn && X::static_shape[1] == dyn;

/// Five steps of a quintic iteration that takes singular values to about 1 (Jordan et al., 2024).
template <class Matrix>
Matrix orthogonalised(const Matrix& m, location at) {
  const bool tall = m.size(0, at) > m.size(1, at);
  const auto turned = [&](const Matrix& x) {
    return tall ? Matrix(sinter::detail::evaluate(sinter::transpose(x, at), at)) : x;
  };
  const auto size = sqrt(squares_over<op_shapes::all_axes(2), false>(m, at), at);
  const auto by =
      sinter::detail::evaluate(cast<typename Matrix::value_type>(div(1, maximum(size, 1e-7, at), at), at), at);
  Matrix x = turned(sinter::detail::evaluate(mul(m, by, at), at));
  for (int i = 0; i < 5; ++i) {
    const Matrix a = matmul(x, sinter::transpose(x, at), at);
    const Matrix b = sinter::detail::evaluate(mul(a, -4.775, at) + mul(matmul(a, a, at), 2.0315, at), at);
    x = sinter::detail::evaluate(mul(x, 3.4445, at) + matmul(b, x, at), at);
  }
  return turned(x);
}

}  // namespace detail

/// Muon for matrices of open extents, weights (in, out), with momentum m = momentum · m + (1 - momentum) · g. A step is
/// rate · √max(1, out / in) times the orthogonal factor of m; under Nesterov's rule, of momentum · m + (1 - momentum) · g.
/// Weights decay as in AdamW.
class muon {
 public:
  explicit muon(muon_options how = {}, location at = location::current())
      : how_(std::move(how)), others_(how_.others, at) {
    detail::check_share("optim::muon", "the momentum", how_.momentum, at);
    detail::check_least("optim::muon", "the weight decay", how_.weight_decay, at);
  }

  template <class P>
  muon_state<P> init(const P& p, location at = location::current()) const {
    const detail::leaf_counter mine(detail::chosen_leaves(how_.which, p));
    auto second = detail::map_tree(
        "optim::muon", at,
        [&]<class X>(const X& x) {
          const bool here = mine.next(1) != 0;
          if constexpr (detail::is_open_matrix<X> && detail::is_float_leaf<X>)
            if (here) return zeros<typename X::value_type>(0, 0, x.device(at));
          if constexpr (tensor_like<X>) return zeros_like(x, at);
          else return x;
        },
        p);
    return {detail::first_step(p, at), tree_zeros_like(p, at), std::move(second)};
  }

  SINTER_UPDATE_CALLS("optim::muon")
  template <class P, detail::gradients_of<P> G>
  std::pair<P, muon_state<P>> update(const P& p, const G& g, const muon_state<P>& s,
                                     location at = location::current()) const {
    const double b1 = how_.others.beta1, b2 = how_.others.beta2, mu = how_.momentum;
    const auto flags = detail::chosen_leaves(how_.which, p), decays = detail::chosen_leaves(how_.others.decay, p);
    muon_state<P> next{detail::after(s.step, at), {}, {}};
    const detail::scalar rate = how_.rate(s.step, at), rate_of_others = how_.others.rate(s.step, at),
                         size = detail::correction(b1, next.step, at), power = detail::correction(b2, next.step, at);
    const detail::leaf_counter of_first(flags), of_second(flags), of_step(flags), decay(decays);
    next.first = mapped(
        of_first, at,
        [&](bool here, const auto& m, const auto& by) {
          detail::check_pair_of_leaves("optim::muon", m, by, at);
          const double b = here ? mu : b1;
          return settled(b * m + (1 - b) * by, at);
        },
        s.first, g);
    next.second = mapped(
        of_second, at,
        [&](bool here, const auto& v, const auto& by) {
          if (!here) detail::check_pair_of_leaves("optim::muon", v, by, at);
          const auto same = sinter::detail::evaluate(v, at);
          return here ? same : std::remove_cvref_t<decltype(same)>(settled(b2 * v + (1 - b2) * by * by, at));
        },
        s.second, g);
    P moved = mapped(
        of_step, at,
        [&](bool here, const auto& x, const auto& m, const auto& v, const auto& by) {
          detail::check_pair_of_leaves("optim::muon", x, m, at);
          const double w = decay.next(how_.others.weight_decay);
          return here ? along_matrix(x, m, by, rate, at)
                      : settled(x - detail::beside(rate_of_others, x, at) *
                                        detail::decayed(m * detail::beside(size, x, at) /
                                                            (sqrt(v * detail::beside(power, x, at)) + how_.others.eps),
                                                        x, w, at),
                                at);
        },
        p, next.first, next.second, g);
    return {std::move(moved), std::move(next)};
  }

 private:
  template <class E>
  static auto settled(const E& e, location at) {
    return sinter::detail::settle(e, at);
  }
  /// The tree of f(whether Muon updates it, wide leaf…), rounded.
  template <class F, class P, class... Trees>
  static P mapped(const detail::leaf_counter& mine, location at, const F& f, const P& p, const Trees&... trees) {
    return detail::map_tree(
        "optim::muon", at,
        [&]<class X, class... Y>(const X& x, const Y&... y) {
          const bool here = mine.next(1) != 0 && detail::is_open_matrix<X>;
          if constexpr (detail::is_float_leaf<X>) {
            using W = detail::wider_type<typename X::value_type>;
            return detail::fitted<X>(
                detail::as_type<typename X::value_type>(
                    f(here, settled(detail::as_type<W>(x, at), at), detail::as_type<W>(y, at)...), at),
                at);
          } else {
            return x;
          }
        },
        p, trees...);
  }
  /// A step of a matrix; not called for other ranks.
  template <class X, class M, class By>
  X along_matrix(const X& x, const M& m, const By& by, const detail::scalar& rate, location at) const {
    if constexpr (!detail::is_open_matrix<X>) {
      return x;
    } else {
      const double mu = how_.momentum;
      const X to = how_.nesterov ? X(settled(mu * m + (1 - mu) * by, at)) : X(settled(m, at));
      const double in = static_cast<double>(std::int64_t(x.size(0, at))),
                   out = static_cast<double>(std::int64_t(x.size(1, at)));
      const double reach = std::sqrt(std::max(1.0, in > 0 ? out / in : 1.0));
      const auto along = detail::decayed(mul(detail::orthogonalised(to, at), reach, at), x, how_.weight_decay, at);
      return X(settled(x - detail::beside(rate, x, at) * along, at));
    }
  }

  muon_options how_;
  adamw others_;
};

}  // namespace sinter::optim
