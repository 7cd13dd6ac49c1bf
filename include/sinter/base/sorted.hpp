// base/sorted.hpp: the engine's std::map and std::set, as sorted series. References to elements are invalid after growth.
#pragma once

#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "series.hpp"

namespace sinter {

/// Sorted distinct keys.
template <class K>
class sorted_set {
 public:
  using value_type = K;
  using iterator = const K*;

  sorted_set() = default;
  SINTER_COLD sorted_set(std::initializer_list<K> keys) {
    for (const auto& k : keys) insert(k);
  }
  template <std::input_iterator I>
  SINTER_COLD sorted_set(I first, I last) {
    for (; first != last; ++first) insert(*first);
  }

  const K* begin() const { return keys_.begin(); }
  const K* end() const { return keys_.end(); }
  std::size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  void clear() { keys_.clear(); }
  bool contains(const K& key) const { return has(place(key), key); }
  std::size_t count(const K& key) const { return contains(key); }

  /// The place of the key, and whether it is new.
  SINTER_COLD std::pair<const K*, bool> insert(K key) {
    const K* const at = place(key);
    if (has(at, key)) return {at, false};
    return {keys_.insert(at, std::move(key)), true};
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) insert(*first);
  }
  template <class... X>
  auto emplace(X&&... x) {
    return insert(K(std::forward<X>(x)...));
  }
  const K* erase(const K* at) { return keys_.erase(at); }
  std::size_t erase(const K& key) {
    const K* const at = place(key);
    if (!has(at, key)) return 0;
    keys_.erase(at);
    return 1;
  }
  template <class F>
  friend std::size_t erase_if(sorted_set& x, F&& drop) {
    return erase_if(x.keys_, drop);
  }
  bool operator==(const sorted_set&) const = default;

 private:
  SINTER_COLD const K* place(const K& key) const {
    const K* first = begin();
    for (std::size_t n = size(); n > 0;) {
      const std::size_t half = n / 2;
      if (first[half] < key) {
        first += half + 1;
        n -= half + 1;
      } else {
        n = half;
      }
    }
    return first;
  }
  bool has(const K* at, const K& key) const { return at != end() && !(key < *at); }

  series<K> keys_;
};

/// Values by sorted distinct keys.
template <class K, class V>
class sorted_map {
 public:
  struct entry {
    K first;
    V second;
    bool operator==(const entry&) const = default;
  };
  using value_type = entry;

  entry* begin() { return entries_.begin(); }
  entry* end() { return entries_.end(); }
  const entry* begin() const { return entries_.begin(); }
  const entry* end() const { return entries_.end(); }
  auto rbegin() const { return entries_.rbegin(); }
  auto rend() const { return entries_.rend(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }

  entry* find(const K& key) { return const_cast<entry*>(std::as_const(*this).find(key)); }
  SINTER_COLD const entry* find(const K& key) const {
    const entry* const at = place(key);
    return has(at, key) ? at : end();
  }
  bool contains(const K& key) const { return find(key) != end(); }
  std::size_t count(const K& key) const { return contains(key); }
  V& at(const K& key) { return const_cast<V&>(std::as_const(*this).at(key)); }
  SINTER_COLD const V& at(const K& key) const {
    const entry* const found = find(key);
    if (found == end()) throw std::out_of_range("sinter::sorted_map::at");
    return found->second;
  }
  /// The key's value; a new value if there is none.
  SINTER_COLD V& operator[](const K& key) { return emplace(key, V()).first->second; }
  /// The place of the key, and whether it is new; an existing value stays.
  SINTER_COLD std::pair<entry*, bool> emplace(K key, V value) {
    const entry* const at = place(key);
    if (has(at, key)) return {const_cast<entry*>(at), false};
    return {entries_.insert(at, {std::move(key), std::move(value)}), true};
  }
  entry* erase(const entry* at) { return entries_.erase(at); }
  bool operator==(const sorted_map&) const = default;

 private:
  SINTER_COLD const entry* place(const K& key) const {
    const entry* first = begin();
    for (std::size_t n = size(); n > 0;) {
      const std::size_t half = n / 2;
      if (first[half].first < key) {
        first += half + 1;
        n -= half + 1;
      } else {
        n = half;
      }
    }
    return first;
  }
  bool has(const entry* at, const K& key) const { return at != end() && !(key < at->first); }

  series<entry> entries_;
};

}  // namespace sinter
