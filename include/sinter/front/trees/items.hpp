// front/trees/items.hpp: a list whose length the type may tell; then it is on the stack.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "../../base/dims.hpp"
#include "../../base/local_list.hpp"

namespace sinter::detail {

/// n items of a tree of run-time size.
template <class T, int Known>
class items : public local_list<T, 32> {
 public:
  using local_list<T, 32>::local_list;
};
/// Of a number that the type tells. What needs no destructor is not initialised: it is written before it is read.
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
