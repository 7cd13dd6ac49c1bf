// loops/sort.hpp: sorts rows on the host: keys in the order of values, with their places.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "../base/dtype.hpp"
#include "space.hpp"

namespace sinter::detail {

template <class K>
struct ranked {
  K key, place;
};

template <class T>
using sort_word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Keys are in the order of values; NaN is last in either direction, and -0 equals 0.
template <class T>
sort_word<T> sort_key(T x, bool descending) {
  using K = sort_word<T>;
  constexpr K top = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return static_cast<K>(-1);
    const K bits = std::bit_cast<K>(x);
    const K key = bits == top ? top : bits & top ? ~bits : bits | top;
    return descending ? ~key : key;
  } else {
    const K key = std::is_signed_v<T> ? static_cast<K>(static_cast<std::int64_t>(x)) ^ top : static_cast<K>(x);
    return descending ? ~key : key;
  }
}

/// sort_many on all threads: each part of the row is counted, then moved after the earlier parts, so that the sort is stable.
template <class K>
const ranked<K>* sort_shared(ranked<K>* a, ranked<K>* b, std::int64_t n) {
  constexpr std::int64_t parts = 32;
  std::vector<std::array<std::int64_t, 256>> counts(parts);
  for (std::size_t shift = 0; shift < 8 * sizeof(K); shift += 8) {
    const auto each = [&](auto f) {
      parallel(parts, n, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t t = first; t < last; ++t)
          for (std::int64_t i = n * t / parts; i < n * (t + 1) / parts; ++i)
            f(a[i], counts[static_cast<std::size_t>(t)][a[i].key >> shift & 255]);
      });
    };
    for (auto& c : counts) c = {};
    each([](const ranked<K>&, std::int64_t& count) { ++count; });
    std::int64_t sum = 0, most = 0;
    for (std::size_t digit = 0; digit < 256; ++digit) {
      const std::int64_t before = sum;
      for (auto& c : counts) sum += std::exchange(c[digit], sum);
      most = std::max(most, sum - before);
    }
    if (most == n) continue;
    each([&](const ranked<K>& x, std::int64_t& place) { b[place++] = x; });
    std::swap(a, b);
  }
  return a;
}

/// A radix sort by eight bits a pass, from the lowest; the result is in a or b.
template <class K>
const ranked<K>* sort_many(ranked<K>* a, ranked<K>* b, std::int64_t n) {
  if (n >= 1 << 16) return sort_shared(a, b, n);
  std::int64_t counts[sizeof(K)][256] = {};
  const auto digit = [](const ranked<K>& x, std::size_t d) { return x.key >> 8 * d & 255; };
  for (std::int64_t i = 0; i < n; ++i)
    for (std::size_t d = 0; d < sizeof(K); ++d) ++counts[d][digit(a[i], d)];
  for (std::size_t d = 0; d < sizeof(K); ++d) {
    if (counts[d][digit(a[0], d)] == n) continue;
    std::int64_t sum = 0;
    for (std::int64_t& c : counts[d]) sum += std::exchange(c, sum);
    for (std::int64_t i = 0; i < n; ++i) b[counts[d][digit(a[i], d)]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

/// Sorts the n keys and places in a, of which the first `count` are needed; the result is in a or b.
template <class K>
const ranked<K>* sort_row(ranked<K>* a, ranked<K>* b, std::int64_t n, std::int64_t count) {
  constexpr std::int64_t few = 96;
  const auto before = [](const ranked<K>& x, const ranked<K>& y) {
    return x.key < y.key || (x.key == y.key && x.place < y.place);
  };
  if (n > few && count < n / 8) {
    std::nth_element(a, a + count, a + n, before);
    std::sort(a, a + count, before);
    return a;
  }
  if (n > few) return sort_many(a, b, n);
  for (std::int64_t i = 1; i < n; ++i) {
    const ranked<K> x = a[i];
    std::int64_t j = i;
    for (; j > 0 && x.key < a[j - 1].key; --j) a[j] = a[j - 1];
    a[j] = x;
  }
  return a;
}

/// The number of searches that step together: each waits for an element, so several run at once.
inline constexpr int searches = 16;

/// For each of `searches` x, compared as V, the number of n sorted elements, `step` apart, that precede it; with Right, equal
/// ones count, too. NaN is last. The number of steps does not depend on the elements.
template <bool Right, class V, class T>
void search_some(const T* sorted, std::int64_t step, std::int64_t n, const V* x, std::int64_t* low) {
  const auto precedes = [](V a, V b) { return static_cast<bool>((a < b) | ((b != b) & (a == a))); };
  for (int k = 0; k < searches; ++k) low[k] = 0;
  while (n > 0) {
    const std::int64_t half = n > 1 ? n / 2 : 1;
    for (int k = 0; k < searches; ++k) {
      const V at = static_cast<V>(sorted[(low[k] + half - 1) * step]);
      const bool earlier = Right ? !precedes(x[k], at) : precedes(at, x[k]);
      low[k] += half & -static_cast<std::int64_t>(earlier);
    }
    n = n > 1 ? n - half : 0;
  }
}

}  // namespace sinter::detail
