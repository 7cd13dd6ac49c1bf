// base/series.hpp: the engine's std::vector. The code that moves elements is compiled once and out of line, so that a program
// that includes the whole engine compiles quickly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "config.hpp"

namespace sinter {

/// The number of elements that a series holds in place; operands, axes and extents are few.
template <class T>
inline constexpr std::size_t held_within = 0;
template <class T>
requires(std::is_arithmetic_v<T> || std::is_pointer_v<T>) inline constexpr std::size_t held_within<T> = 32 / sizeof(T);

/// Its members mean the same as std::vector's, but moving a short series moves its elements. T moves without throwing.
template <class T>
class series {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;
  using reference = T&;
  using const_reference = const T&;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;

  series() {}  // constant ones may be constructed
  SINTER_COLD explicit series(std::size_t n) { resize(n); }
  SINTER_COLD series(std::size_t n, const T& x) { resize(n, x); }
  SINTER_COLD series(std::initializer_list<T> xs) { append(xs.begin(), xs.size()); }
  SINTER_COLD series(const series& x) { append(x.data_, x.size_); }
  series(series&& x) noexcept { take(x); }
  template <std::input_iterator I>
  SINTER_COLD series(I first, I last) {
    for (; first != last; ++first) push_back(T(*first));
  }
  SINTER_COLD series(const std::vector<T>& x) { append(x.data(), x.size()); }
  ~series() { release(); }

  SINTER_COLD series& operator=(const series& x) {
    if (this == &x) return *this;
    clear();
    append(x.data_, x.size_);
    return *this;
  }
  SINTER_COLD series& operator=(series&& x) noexcept {
    series moved = std::move(x);
    release();
    take(moved);
    return *this;
  }

  SINTER_COLD operator std::vector<T>() const { return std::vector<T>(begin(), end()); }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  auto rbegin() { return std::reverse_iterator(end()); }
  auto rend() { return std::reverse_iterator(begin()); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) & { return data_[i]; }
  const T& operator[](std::size_t i) const& { return data_[i]; }
  // By value: in `for (auto& k : f.explain().specialisations[0].kernels)` the value outlives the series.
  T operator[](std::size_t i) && { return std::move(data_[i]); }
  SINTER_COLD const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("sinter::series::at");
    return data_[i];
  }
  T& front() & { return data_[0]; }
  const T& front() const& { return data_[0]; }
  T front() && { return std::move(data_[0]); }
  T& back() & { return data_[size_ - 1]; }
  const T& back() const& { return data_[size_ - 1]; }
  T back() && { return std::move(data_[size_ - 1]); }

  SINTER_COLD void push_back(T x) {
    reserve(size_ + 1);
    ::new (static_cast<void*>(data_ + size_++)) T(std::move(x));
  }
  template <class... X>
  T& emplace_back(X&&... x) {
    push_back(T(std::forward<X>(x)...));
    return back();
  }
  void pop_back() { data_[--size_].~T(); }

  SINTER_COLD T* insert(const T* at, T x) {
    const std::size_t i = static_cast<std::size_t>(at - data_);
    if (i == size_) {
      push_back(std::move(x));
      return data_ + i;
    }
    reserve(size_ + 1);
    ::new (static_cast<void*>(data_ + size_)) T(std::move(data_[size_ - 1]));
    std::move_backward(data_ + i, data_ + size_ - 1, data_ + size_);
    ++size_;
    data_[i] = std::move(x);
    return data_ + i;
  }
  template <class I>
  SINTER_COLD void insert(const T* at, I first, I last) {
    for (std::size_t i = static_cast<std::size_t>(at - data_); first != last; ++first) insert(data_ + i++, T(*first));
  }
  void insert(const T* at, std::initializer_list<T> xs) { insert(at, xs.begin(), xs.end()); }
  T* erase(const T* at) { return erase(at, at + 1); }
  SINTER_COLD T* erase(const T* first, const T* last) {
    T* const at = data_ + (first - data_);
    T* to = at;
    for (T* from = data_ + (last - data_); from != to && from != end();) *to++ = std::move(*from++);
    for (std::size_t drop = static_cast<std::size_t>(last - first); drop > 0; --drop) pop_back();
    return at;
  }
  SINTER_COLD void clear() {
    if constexpr (std::is_trivially_destructible_v<T>) size_ = 0;
    else
      while (size_) pop_back();
  }
  SINTER_COLD void resize(std::size_t n) {
    while (size_ > n) pop_back();
    for (reserve(n); size_ < n; ++size_) ::new (static_cast<void*>(data_ + size_)) T();
  }
  SINTER_COLD void resize(std::size_t n, const T& x) {
    while (size_ > n) pop_back();
    for (reserve(n); size_ < n; ++size_) ::new (static_cast<void*>(data_ + size_)) T(x);
  }
  void assign(std::size_t n, const T& x) { *this = series(n, x); }
  template <std::input_iterator I>
  void assign(I first, I last) {
    *this = series(first, last);
  }
  void assign(std::initializer_list<T> xs) { *this = series(xs); }
  SINTER_COLD void reserve(std::size_t n) {
    if (n <= room_) return;
    if (n < 2 * room_) n = 2 * room_;
    constexpr std::size_t each = sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    if (n > PTRDIFF_MAX / each) throw std::length_error("sinter::series");
    T* const moved = static_cast<T*>(::operator new(n* each));
    for (std::size_t i = 0; i < size_; ++i) {
      ::new (static_cast<void*>(moved + i)) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (!within()) ::operator delete(data_);
    data_ = moved;
    room_ = n;
  }
  void swap(series& x) noexcept {
    series moved;
    moved.take(x);
    x.take(*this);
    take(moved);
  }

  SINTER_COLD friend bool operator==(const series& a, const series& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

  /// Removes the elements that `drop` accepts, and returns their number.
  template <class F>
  SINTER_COLD friend std::size_t erase_if(series& x, F&& drop) {
    T* to = x.begin();
    for (T& item : x)
      if (!drop(item)) {
        if (to != &item) *to = std::move(item);
        ++to;
      }
    const std::size_t dropped = static_cast<std::size_t>(x.end() - to);
    x.erase(to, x.end());
    return dropped;
  }

 private:
  static constexpr std::size_t few = held_within<T>;

  bool within() const {
    if constexpr (few > 0) return data_ == few_.elements;
    else return data_ == nullptr;
  }
  /// Destroys all elements; take() then sets the members anew.
  void release() {
    if constexpr (!std::is_trivially_destructible_v<T>) clear();
    if (!within()) ::operator delete(data_);
  }
  /// Takes the elements of x, which becomes empty; *this must hold none.
  void take(series& x) noexcept {
    size_ = std::exchange(x.size_, 0);
    if constexpr (few > 0) {
      if (x.within()) {
        std::memcpy(static_cast<void*>(few_.elements), x.few_.elements, sizeof few_.elements);
        data_ = few_.elements;
        room_ = few;
        return;
      }
    }
    data_ = std::exchange(x.data_, x.nothing());
    room_ = std::exchange(x.room_, few);
  }
  T* nothing() {
    if constexpr (few > 0) return few_.elements;
    else return nullptr;
  }
  SINTER_COLD void append(const T* from, std::size_t n) {
    for (reserve(size_ + n); n > 0; --n) ::new (static_cast<void*>(data_ + size_++)) T(*from++);
  }

  struct no_room {};
  union some_room {
    some_room() {}  // no element is constructed
    T elements[few > 0 ? few : 1];
  };
  [[no_unique_address]] std::conditional_t<(few > 0), some_room, no_room> few_;
  T* data_ = nothing();
  std::size_t size_ = 0, room_ = few;
};

/// Merge sort, stable.
template <class T, class Less>
SINTER_COLD void sort_stably(series<T>& x, Less less) {
  for (std::size_t width = 1; width < x.size(); width *= 2) {
    series<T> merged;
    merged.reserve(x.size());
    for (std::size_t i = 0; i < x.size();) {
      const std::size_t middle = std::min(i + width, x.size()), end = std::min(middle + width, x.size());
      std::size_t k = middle;
      while (i < middle || k < end) {
        const bool later = k < end && (i == middle || less(x[k], x[i]));
        merged.push_back(std::move(x[later ? k++ : i++]));
      }
      i = end;
    }
    x = std::move(merged);
  }
}

}  // namespace sinter
