// front/control/host_call.hpp: calls of host functions from within a graph.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../trees/leaves.hpp"
#include "parts.hpp"

namespace sinter {

namespace detail {

/// The tree with its tensors on the host.
template <class T>
T on_host(const T& tree, location at) {
  if constexpr (facts_of<T>.tensors == 0) return tree;
  else
    return map_tree(
        "host_call", at, [&]<class E, dims S>(const tensor<E, S>& x) { return x.to(device::cpu(), at); }, tree);
}

/// The tree with copies of the arrays, in order.
template <class T>
T copied_tree(const T& like, const ir::foreign_array*& next) {
  if constexpr (facts_of<T>.tensors == 0) return like;
  else
    return map_tree(
        "host_call", {},
        [&]<class E, dims S>(const tensor<E, S>&) {
          const ir::foreign_array& from = *next++;
          index_array<S.rank> extents{};
          for (std::size_t d = 0; d < extents.size(); ++d) extents[d] = from.extents[d];
          const auto bytes = static_cast<std::size_t>(product(extents)) * sizeof(E);
          storage memory = engine::allocate(bytes);
          if (bytes > 0) std::memcpy(memory.data(), from.data, bytes);
          E* const data = static_cast<E*>(memory.data());
          return access::make<E, S>(std::move(memory), data, extents, row_major_strides(extents));
        },
        like);
}

/// A number whose value may differ between calls; the graph passes it on, as it does tensors.
template <class T>
inline constexpr bool is_handed_over = std::is_same_v<T, dim> || is_floating_scalar<T>;

template <class T>
void push_numbers(engine::tracer& t, const T& tree, series<ir::node_id>& to, location at) {
  if constexpr (facts_of<T>.statics != 0)
    for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
      if constexpr (std::is_same_v<Leaf, dim>)
        to.push_back(x.is_symbolic() ? push(t, size_value<std::int64_t>(x, at), at)
                                     : push_number(t, dtype::i64, &x.bits, {0, x.bits}, nullptr, 0, at, true));
      else if constexpr (is_handed_over<Leaf>)
        to.push_back(push_number(t, dtype_of<Leaf>, &x, to_scalar(x), nullptr, 0, at));
    });
}

/// The tree with such numbers from the arrays, in order.
template <class T>
void take_numbers(T& tree, const ir::foreign_array*& next) {
  if constexpr (facts_of<T>.statics != 0)
    for_each_leaf(tree, [&]<class Leaf>([[maybe_unused]] Leaf&& x) {
      using number = std::remove_reference_t<Leaf>;
      if constexpr (std::is_same_v<number, dim>) x = *static_cast<const std::int64_t*>((next++)->data);
      else if constexpr (is_handed_over<number>) x = *static_cast<const number*>((next++)->data);
    });
}

/// The identity of a call. For an empty function type it is the type and the values of the arguments that the graph does not
/// pass on.
template <class F, class... Args>
std::uint64_t identity_of(const Args&... args) {
  if constexpr (!std::is_empty_v<F>) {
    return ir::new_identity();
  } else {
    static const char type = 0;
    std::string text;
    const auto append = [&](std::uint64_t word) { text.append(reinterpret_cast<const char*>(&word), sizeof word); };
    append(reinterpret_cast<std::uintptr_t>(&type));
    const auto leaf = [&]<class Leaf>([[maybe_unused]] const Leaf& x) {
      if constexpr (!tensor_like<Leaf> && !is_handed_over<Leaf>) {
        series<std::uint64_t> words(words_of(x));
        put_words(x, words.data());
        for (const std::uint64_t w : words) append(w);
      }
    };
    const auto key = [&](const std::string& k) {
      append(k.size());
      text += k;
    };
    (for_each_leaf(args, leaf, append, key), ...);
    constexpr std::uint64_t of_values = std::uint64_t{1} << 63;  // distinct from new identities
    return of_values | engine::value_number(value_class_of<std::string>, std::hash<std::string>()(text), &text);
  }
}

template <class F, class... Args>
void host_call_of(const F& fn, location at, const Args&... args) {
  const auto t = engine::current();
  if (!t) {
    detail::invoke(at, fn, on_host(args, at)...);
    return;
  }
  series<ir::node_id> operands;
  (push_leaves(*t, args, operands, at), ...);
  (push_numbers(*t, args, operands, at), ...);
  auto f = std::make_shared<ir::foreign>();
  f->name = "fn";
  f->identity = identity_of<F>(args...);
  f->host = [fn, at, like = std::tuple{hollow(args)...}](ir::foreign_arrays in, ir::foreign_arrays) {
    const engine::tracing_scope eagerly(nullptr);
    const ir::foreign_array* next = in.data();
    std::apply(
        [&](const auto&... trees) {
          std::tuple<std::remove_cvref_t<decltype(trees)>...> all{copied_tree(trees, next)...};
          std::apply([&](auto&... x) { (take_numbers(x, next), ...); }, all);
          std::apply([&](auto&... x) { detail::invoke(at, fn, std::move(x)...); }, all);
        },
        like);
  };
  engine::push_foreign(*t, std::move(f), true, std::move(operands), {}, at);
}

}  // namespace detail

/// Calls fn(args...) on the host, for its effects: printing, logging, counting. args are trees. fn receives copies of their
/// tensors in host memory, and each call's extents and floating numbers. Inside compile() fn runs at each call, once for each
/// time that it is reached, and is never dropped or merged. The host_calls of a graph run in the order of the function. In
/// loops and branches they run as often as the step or branch. On a GPU the host waits for the arguments. A backward pass
/// does not repeat it. Exceptions of fn pass through the call.
template <class F, class... Args>
void host_call(F&& fn, const Args&... args) {
  detail::host_call_of<std::decay_t<F>>(fn, {}, detail::settle_tree(args)...);
}

}  // namespace sinter
