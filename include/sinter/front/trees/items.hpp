// front/trees/items.hpp: a list that is on the stack if its type fixes its length.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "../../base/dims.hpp"
#include "../../base/local_list.hpp"

namespace sinter::detail {

/// n items for a tree whose size is known at run time.
template <class T, int Known>
class items : public local_list<T, 32> {
 public:
  using local_list<T, 32>::local_list;
};
/// Items whose number the type fixes. Types without a destructor are not initialised: each item is written before it is read.
template <class T, int Known>
requires(Known > 0 && std::is_trivially_destructible_v<T>) class items<T, Known> {
 public:
  explicit items(std::size_t) {}
  items(const items&) = delete;
  items& operator=(const items&) = delete;
  T* data() { return reinterpret_cast<T*>(all_); }
  std::span<const T> all() { return {data(), static_cast<std::size_t>(Known)}; }

 private:
  alignas(T) unsigned char all_[static_cast<std::size_t>(Known) * sizeof(T)];
};
template <class T, int Known>
requires(Known == 0 || (Known > 0 && !std::is_trivially_destructible_v<T>)) class items<T, Known> {
 public:
  explicit items(std::size_t) {}
  T* data() { return all_; }
  std::span<const T> all() { return {all_, static_cast<std::size_t>(Known)}; }

 private:
  T all_[bound(Known)];
};

}  // namespace sinter::detail
