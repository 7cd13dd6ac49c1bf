// nn/state.hpp: the running statistics of a model's norms as one tree, and a forward pass that moves them.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "norms.hpp"

namespace sinter::nn {

/// The running statistics of a model by the paths of its norms, "blocks.0.n1": a tree to pass, return and save. `state` makes it, and
/// io::load(path, s) fills it.
template <class T>
using running_statistics = std::map<std::string, batch_statistics<T>>;

namespace detail {

template <class T>
inline constexpr bool is_batch_norm = false;
template <class T>
inline constexpr bool is_batch_norm<batch_norm<T>> = true;
template <class T>
inline constexpr bool is_stacked_norm = false;
template <class T>
inline constexpr bool is_stacked_norm<sinter::stacked<batch_norm<T>>> = true;

/// Visits each norm as a whole. It visits neither the parts of norms nor other members.
template <class F>
struct norm_visitor {
  F f;

  template <class T>
  static constexpr bool is_whole = is_batch_norm<T>;
  template <class T>
  void operator()(const sinter::detail::tree_place& at, const T& x) const {
    if constexpr (is_batch_norm<T>) f(sinter::detail::path_of(at), x);
  }
};

template <class T>
constexpr auto statistics_types();
template <class... T>
constexpr auto statistics_types(sinter::detail::type_list<T...>) {
  return sinter::detail::joined_all(statistics_types<T>()...);
}
/// The dtypes of the statistics of the norms in a tree, each as often as there are fields of it.
template <class T>
constexpr auto statistics_types() {
  constexpr auto b = sinter::detail::branch_of<T>();
  using sinter::detail::branch, sinter::detail::type_list;
  static_assert(!is_stacked_norm<T>,
                "sinter: [nn::state, nn::pass] each item of a stack has its own statistics: stack_tree a vector of "
                "nn::state(item), pass it to the scan beside the stack, and make the nn::pass of the item in the body");
  if constexpr (is_batch_norm<T>) return type_list<typename T::statistics_type>{};
  else if constexpr (sinter::detail::has_elements(b)) return statistics_types<sinter::detail::element_in<T>>();
  else if constexpr (b == branch::variant || b == branch::tuple || b == branch::structure)
    return statistics_types(sinter::detail::children_of<T>{});
  else return type_list<>{};
}

/// f(path, norm) for each batch_norm of a tree. A compile-time error for a stack of norms.
template <class Model, class F>
void for_each_norm(const Model& model, const F& f) {
  static_cast<void>(statistics_types<Model>());
  sinter::detail::visit_places<false>(model, sinter::detail::tree_place{}, norm_visitor<const F&>{f});
}

/// f32 where a model has no norms.
constexpr auto one_type(sinter::detail::type_list<>) { return std::type_identity<float>{}; }
template <class T, class... More>
constexpr auto one_type(sinter::detail::type_list<T, More...>) {
  constexpr bool one = (... && std::is_same_v<T, More>);
  static_assert(one, "sinter: [nn::state] statistics are of one dtype; make a state of each part of the model");
  return std::type_identity<T>{};
}
template <class Model>
using statistics_in = typename decltype(one_type(statistics_types<Model>()))::type;

[[noreturn]] inline void fail_missing(const std::string& path, location at) {
  fail("nn::pass",
       "the state has no statistics of the model's norm \"" + path + "\"; make it of this model: nn::state(model)", at);
}
[[noreturn]] inline void fail_strangers(std::size_t has, std::size_t norms, location at) {
  fail("nn::pass",
       "the state is of " + std::to_string(has) + " norms, the model has " + std::to_string(norms) +
           "; make it of this model: nn::state(model)",
       at);
}
[[noreturn]] inline void fail_stranger(location at) {
  fail(at.op,
       "this norm is no part of the model that the nn::pass was made of. Norms are found by their addresses: make the "
       "pass of the model that is called, and refer to its parts, as in for (const auto& block : model.blocks). In the "
       "body of a scan make a pass of the item and its statistics: nn::pass pass(item, s, mode)",
       at);
}

}  // namespace detail

/// The running statistics of a model's norms before the first batch: mean 0, variance 1, as one tree. Empty for a model without
/// batch_norm.
template <class Model>
auto state(const Model& model, location at = location::current()) {
  running_statistics<detail::statistics_in<Model>> all;
  detail::for_each_norm(model, [&](const std::string& path, const auto& norm) {
    all.emplace(path, norm.statistics(at.in("nn::state")));
  });
  return all;
}

/// One forward pass of a model: hands each batch_norm its running statistics, and keeps the new ones.
///   nn::pass pass(model, s, nn::training);
///   y = model.norm(x, pass);  // and the next norm, …
///   next = pass.state();
/// The model outlives the pass, and its norms are called in place: copies of them are refused with a user_error.
template <class T>
class pass {
 public:
  /// user_error for a state of another model.
  template <class Model>
  pass(const Model& model, running_statistics<T> s, mode how, location at = location::current())
      : state_(std::move(s)), how_(how) {
    detail::for_each_norm(model, [&](const std::string& path, const auto& norm) {
      const auto found = state_.find(path);
      if (found == state_.end()) detail::fail_missing(path, at);
      norms_.push_back({&norm, &found->second});
    });
    if (norms_.size() != state_.size()) detail::fail_strangers(state_.size(), norms_.size(), at);
  }
  pass(const pass&) = delete;
  pass& operator=(const pass&) = delete;

  mode how() const { return how_; }
  /// The statistics so far.
  const running_statistics<T>& state() const { return state_; }

  /// The statistics of a norm of the model; the norm calls it. Throws user_error for a norm of another model.
  batch_statistics<T>& of(const void* norm, location at) const {
    for (const auto& [here, statistics] : norms_)
      if (here == norm) return *statistics;
    detail::fail_stranger(at);
  }

 private:
  running_statistics<T> state_;
  mode how_;
  std::vector<std::pair<const void*, batch_statistics<T>*>> norms_;
};

template <class Model, class T>
pass(const Model&, running_statistics<T>, mode) -> pass<T>;
template <class Model, class T>
pass(const Model&, running_statistics<T>, mode, location) -> pass<T>;

}  // namespace sinter::nn
