// run/mesh/sha256.hpp: SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for what ranks tell each other.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "../../base/config.hpp"

namespace sinter::engine::run {

using sha256_digest = std::array<unsigned char, 32>;

/// SHA-256 of bytes that come in pieces.
class sha256 {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), block_.size() - held_);
      std::memcpy(block_.data() + held_, bytes.data(), n);
      bytes.remove_prefix(n);
      if ((held_ += n) < block_.size()) return;
      mix();
      held_ = 0;
    }
  }
  sha256_digest end() {
    const std::uint64_t bits = length_ * 8;
    std::string tail(1, '\x80');
    tail.append((119 - length_ % 64) % 64, '\0');
    for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bits >> shift & 255);
    add(tail);
    sha256_digest out;
    for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  void mix() {
    // The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    static constexpr std::uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::uint32_t w[64];
    for (std::size_t i = 0; i < 16; ++i)
      w[i] = static_cast<std::uint32_t>(block_[4 * i]) << 24 | static_cast<std::uint32_t>(block_[4 * i + 1]) << 16 |
             static_cast<std::uint32_t>(block_[4 * i + 2]) << 8 | static_cast<std::uint32_t>(block_[4 * i + 3]);
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto s = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      const std::uint32_t first =
          s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) + choice + constants[i] + w[i];
      const std::uint32_t second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + most;
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) state_[i] += s[i];
  }

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::size_t held_ = 0;
  std::uint64_t length_ = 0;
};

inline std::string_view bytes_of(const sha256_digest& d) { return {reinterpret_cast<const char*>(d.data()), d.size()}; }

inline sha256_digest sha256_of(std::string_view bytes) {
  sha256 h;
  h.add(bytes);
  return h.end();
}

inline sha256_digest hmac_sha256(std::string_view key, std::string_view message) {
  std::array<char, 64> padded{};
  const sha256_digest shorter = key.size() > padded.size() ? sha256_of(key) : sha256_digest{};
  if (key.size() > padded.size()) key = bytes_of(shorter);
  std::memcpy(padded.data(), key.data(), key.size());
  const auto with = [&](char mask) {
    std::array<char, 64> out = padded;
    for (char& c : out) c = static_cast<char>(c ^ mask);
    return out;
  };
  const auto inside = with(0x36), outside = with(0x5c);
  sha256 inner, outer;
  inner.add({inside.data(), inside.size()});
  inner.add(message);
  outer.add({outside.data(), outside.size()});
  outer.add(bytes_of(inner.end()));
  return outer.end();
}

/// Whether two texts are equal, in a time that depends on their sizes only.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differ == 0;
}

}  // namespace sinter::engine::run
