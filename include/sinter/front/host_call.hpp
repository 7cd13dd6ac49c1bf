// front/host_call.hpp: calls of the host from within a graph.
#pragma once

#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parts.hpp"

namespace sinter {

namespace detail {

/// The tree with tensors of the host.
template <class T>
T on_host(const T& tree, location at) {
  if constexpr (facts_of<T>.tensors == 0) return tree;
  else
    return map_tree(
        "host_call", at, [&]<class E, dims S>(const tensor<E, S>& x) { return x.to(device::cpu(), at); }, tree);
}

/// The tree with copies of arrays, in order.
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
          return access::make<E, S>(std::move(memory), data, extents, row_major(extents));
        },
        like);
}

/// What stands for a function: its type when that is all there is to it.
template <class F>
std::uint64_t identity_of() {
  if constexpr (std::is_empty_v<F>) {
    static const std::uint64_t known = ir::new_identity();
    return known;
  } else {
    return ir::new_identity();
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
  auto f = std::make_shared<ir::foreign>();
  f->name = "fn";
  constexpr bool numbers = (false || ... || (facts_of<Args>.statics > 0));
  f->identity = numbers ? ir::new_identity() : identity_of<F>();
  f->host = [fn, at, like = std::tuple{hollow(args)...}](ir::foreign_arrays in, ir::foreign_arrays) {
    const engine::tracing_scope eagerly(nullptr);
    const ir::foreign_array* next = in.data();
    std::apply(
        [&](const auto&... trees) {
          std::tuple<std::remove_cvref_t<decltype(trees)>...> all{copied_tree(trees, next)...};
          std::apply([&](auto&... x) { detail::invoke(at, fn, std::move(x)...); }, all);
        },
        like);
  };
  engine::push_foreign(*t, std::move(f), true, std::move(operands), {}, at);
}

}  // namespace detail

/// Calls fn(args...) on the host, for what it does: printing, logging, counting. args are trees; fn gets copies of their tensors
/// in host memory. Inside compile() that happens at each call, once for each time it is reached: it is never dropped or merged,
/// host_calls of a graph run in the order in which the function makes them, and in loops and branches as often as their step
/// or branch runs; on a GPU the host waits for the arguments. A backward pass does not repeat it. What fn throws passes through
/// the call.
template <class F, class... Args>
void host_call(F&& fn, const Args&... args) {
  detail::host_call_of<std::decay_t<F>>(fn, {}, detail::settle_tree(args)...);
}

}  // namespace sinter
