// run/digest.hpp: digests of bytes, by which contents are found and compared.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sinter::engine::run {

/// 128 bits from two unrelated hashes.
struct digest {
  std::uint64_t first = 0, second = 0;
  bool operator==(const digest&) const = default;
};

/// The first half mixes as MurmurHash3 (Appleby, public domain) does.
inline digest digest_of(std::string_view bytes, digest seed = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull}) {
  std::uint64_t h = seed.second ^ bytes.size(), other = seed.first;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    h = (std::rotl(h, 29) ^ word) * 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    other = std::rotl(other ^ std::rotl(word * 0x87c37b91114253d5ull, 31) * 0x4cf5ad432745937full, 27) * 5 + 0x52dce729;
  }
  other ^= bytes.size();
  other = (other ^ other >> 33) * 0xff51afd7ed558ccdull;
  other = (other ^ other >> 33) * 0xc4ceb9fe1a85ec53ull;
  return {other ^ other >> 33, h};
}

}  // namespace sinter::engine::run
