// front/items.hpp: a list whose length the type may tell, on the stack.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace sinter::detail {

/// n items, on the stack unless a tree of run-time size has very many leaves.
template <class T, int Known>
class items {
  static constexpr std::size_t room = 32;

 public:
  explicit items(std::size_t n) : size_(n) {
    if (n > room) more_ = new T[n];
  }
  items(const items&) = delete;
  items& operator=(const items&) = delete;
  ~items() { delete[] more_; }
  T* data() { return more_ ? more_ : few_; }
  std::span<const T> all() { return {data(), size_}; }

 private:
  std::size_t size_;
  T* more_ = nullptr;
  T few_[room];
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
  T all_[Known > 0 ? Known : 1];
};

}  // namespace sinter::detail
