// Draws from a seed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostile {

struct draws {
  std::uint64_t state;
  std::uint64_t operator()() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return n ? static_cast<std::size_t>((*this)() % n) : 0; }
};

}  // namespace hostile
