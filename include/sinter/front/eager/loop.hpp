// front/eager/loop.hpp: the iteration space of an eager loop: the leaves that an expression reads, and their places.
#pragma once

#include <cstring>
#include <span>

#include "../../engine/engine.hpp"
#include "../../loops/space.hpp"
#include "../tensor/terms.hpp"

namespace sinter::detail {

/// The number of tensors and index leaves that an expression reads, with repetitions.
template <class E>
inline constexpr int leaf_count = is_literal<E> ? 0 : 1;
template <ir::op Op, class T, dims Shape, class... Operands>
inline constexpr int leaf_count<expr<Op, T, Shape, Operands...>> = (leaf_count<Operands> + ... + 0);

/// The number of an expression's operands: leaves and numbers.
template <class E>
inline constexpr int operand_count = 1;
template <ir::op Op, class T, dims Shape, class... Operands>
inline constexpr int operand_count<expr<Op, T, Shape, Operands...>> = (operand_count<Operands> + ... + 0);

/// user_error unless the operands from `first` on are on one device; rank-0 tensors of the host fit any device.
/// (loop_moves.hpp)
SINTER_API void check_devices(const operand_list& list, int first, const char* op, location at);

/// The device on which operands agree; `otherwise` without tensors, or for only numbers of the host.
SINTER_API device device_of(const operand_list& list, device otherwise);

/// Runs the nodes that `trace` pushes on a device. Tensors of the host among a GPU's operands have rank 0, and are passed by
/// value.
SINTER_API engine::output run_stage_as(const char* name, const void* signature, const operand_list& list,
                                       std::span<const std::int64_t> facts, device where, location at,
                                       engine::pushing trace);

template <std::size_t Bytes>
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::int64_t count) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * Bytes);
    return;
  }
  constexpr auto bytes = static_cast<std::int64_t>(Bytes);
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step * bytes, from + i * from_step * bytes, Bytes);
}

/// to = from, element by element; an element has `bytes` bytes, strides are in elements. They must not overlap.
SINTER_API void copy_elements(void* to, const dims& to_strides, const void* from, const dims& from_strides,
                              const dims& extents, std::int64_t bytes);

/// Memory of the host for a tensor. user_error for extents that are negative or too large.
SINTER_API storage new_memory(const char* op, const dims& extents, std::size_t element, location at);

/// New memory on a device with a copy of row-major bytes.
SINTER_API storage copied(const void* from, device from_where, device to, std::size_t bytes);

/// New memory on a device with the elements of x in row-major order. user_error if a trace would have to move them.
SINTER_API storage moved(const engine::operand& x, device to, location at, bool waits = true);

/// The device of a factory's result. A traced function has a fixed device; another one is a user_error.
SINTER_API device resolve(const char* op, const target& where, location at);

/// Appends the operands of `e` to an empty list. `extents`, if given, receives its extents. user_error for an undefined
/// tensor, for operands that do not broadcast, and for mixed devices. (loop_moves.hpp)
SINTER_API void collect(expression_view e, operand_list& list, location at, dim* extents = nullptr);

template <tensor_like E>
void collect(const E& e, operand_list& list, location at) {
  collect(terms(e), list, at);
}

/// The leaves of an expression along the innermost axis.
template <int N>
struct row {
  explicit row(const cursor* from) { std::copy(from, from + N, at); }
  cursor at[bound(N)];
};

/// The value of `e` at position i of a row; its leaves are numbered from First.
template <int First, class E, int N>
SINTER_INLINE auto value_at(const E& e, const row<N>& r, std::int64_t i) {
  using T = typename E::value_type;
  if constexpr (is_literal<E>) {
    return static_cast<compute_type<T>>(e.value);
  } else if constexpr (is_index_leaf<E>) {
    return static_cast<T>(r.at[First].base + i * r.at[First].step);
  } else if constexpr (!is_expr<E>) {
    return static_cast<compute_type<T>>(*reinterpret_cast<const T*>(r.at[First].data + i * r.at[First].step));
  } else {
    // A cast rounds to T, other ops compute in T's compute type.
    using R = std::conditional_t<E::code == ir::op::cast, T, compute_type<T>>;
    constexpr int arity = ir::row(E::code).arity;
    const auto& first = e.operands.first;
    const auto a = value_at<First>(first, r, i);
    if constexpr (arity == 1) {
      return static_cast<compute_type<T>>(vocabulary::apply_row<E::code, R>(a));
    } else {
      constexpr int second_leaf = First + leaf_count<std::remove_cvref_t<decltype(first)>>;
      const auto& second = e.operands.second;
      const auto b = value_at<second_leaf>(second, r, i);
      if constexpr (arity == 2) {
        return static_cast<compute_type<T>>(vocabulary::apply_row<E::code, R>(a, b));
      } else {
        constexpr int third_leaf = second_leaf + leaf_count<std::remove_cvref_t<decltype(second)>>;
        const auto c = value_at<third_leaf>(e.operands.third, r, i);
        return static_cast<compute_type<T>>(vocabulary::apply_row<E::code, R>(a, b, c));
      }
    }
  }
}

/// user_error if one of the axes has no elements. (loop_moves.hpp)
SINTER_API void check_some(const char* op, const dims& extents, const int* axes, int count, location at);

/// A type of expression at a stage point: its terms, the computation of its elements in host memory, and the key of a GPU's program.
struct row_stage {
  const term* terms;
  int count;
  row_function fill;
  const char* name;
  const void* signature;
};

/// Computes an eager expression into `out`, on the device of its operands, or on `otherwise` without tensors. Returns the address of
/// the elements. (loop_moves.hpp)
SINTER_API void* run_rows(const row_stage& s, const void* expression, device otherwise, location at,
                          const tensor_parts& out);

/// The same; while tracing, `out` becomes a node. (loop_moves.hpp)
SINTER_API void* stage_point(const row_stage& s, const void* expression, device otherwise, location at,
                             const tensor_parts& out);

}  // namespace sinter::detail

// Header-only builds include the definitions with the declarations.
#if !defined(SINTER_COMPILED)
#include "loop_moves.hpp"
#endif
