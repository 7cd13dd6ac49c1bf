// base/local_list.hpp: a list that lives in a scope: on the stack, or, if long, in memory that its thread reserves for such
// lists.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

#include "config.hpp"

namespace sinter::detail {

/// Memory of the calling thread, which must give it back. Giving back the last block first lets it serve again at once. When
/// all is given back, the thread keeps as much as its peak, so that the next lists allocate nothing. `bytes` is a multiple of
/// 16, the alignment.
SINTER_API void* take_local(std::size_t bytes);
SINTER_API void give_local(void* at, std::size_t bytes) noexcept;

/// n elements, of which up to Few are on the stack. Types without a destructor are not initialised: elements are written
/// before they are read.
template <class T, std::size_t Few>
class local_list {
  static_assert(alignof(T) <= 16 && std::is_nothrow_default_constructible_v<T>);

 public:
  explicit local_list(std::size_t n)
      : size_(n), data_(static_cast<T*>(n > Few ? take_local(bytes()) : static_cast<void*>(few_))) {
    if constexpr (!std::is_trivially_destructible_v<T>)
      for (std::size_t i = 0; i < n; ++i) ::new (static_cast<void*>(data_ + i)) T();
  }
  local_list(const local_list&) = delete;
  local_list& operator=(const local_list&) = delete;
  ~local_list() {
    if constexpr (!std::is_trivially_destructible_v<T>)
      for (std::size_t i = size_; i > 0; --i) data_[i - 1].~T();
    if (size_ > Few) give_local(data_, bytes());
  }

  std::size_t size() const { return size_; }
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<const T> all() const { return {data_, size_}; }
  operator std::span<const T>() const { return all(); }

 private:
  std::size_t bytes() const { return (size_ * sizeof(T) + 15) / 16 * 16; }

  const std::size_t size_;
  T* const data_;
  alignas(16) unsigned char few_[Few * sizeof(T)];
};

}  // namespace sinter::detail

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
