// run/mesh/wire.hpp: what goes over a connection of the control channel: the proof of the secret, then signed frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../../base/config.hpp"
#include "sha256.hpp"

namespace sinter::engine::run {

/// Adds a number to a text as 4 or 8 bytes, the highest first.
inline void put_number(std::string& to, std::uint64_t x, int bytes) {
  for (int k = bytes; k-- > 0;) to += static_cast<char>(x >> (8 * k) & 255);
}
/// Takes it from the front; false if the text is too short.
inline bool take_number(std::string_view& from, std::uint64_t& x, int bytes) {
  if (from.size() < static_cast<std::size_t>(bytes)) return false;
  x = 0;
  for (int k = 0; k < bytes; ++k) x = x << 8 | static_cast<unsigned char>(from[static_cast<std::size_t>(k)]);
  from.remove_prefix(static_cast<std::size_t>(bytes));
  return true;
}
inline void put_text(std::string& to, std::string_view text) {
  put_number(to, text.size(), 4);
  to += text;
}
inline bool take_text(std::string_view& from, std::string_view& text) {
  std::uint64_t n = 0;
  if (!take_number(from, n, 4) || n > from.size()) return false;
  text = from.substr(0, static_cast<std::size_t>(n));
  from.remove_prefix(static_cast<std::size_t>(n));
  return true;
}

/// How a connection begins. A rank says hello, rank 0 sends a challenge with its own proof, and the rank answers with its
/// proof. All three have fixed sizes, so that nothing long is read of a stranger.
struct hello {
  static constexpr std::string_view greeting = "sinter mesh 2\n";
  static constexpr std::size_t nonce_bytes = 32, bytes = greeting.size() + 8 + nonce_bytes;

  static std::string text(int rank, int size, std::string_view nonce) {
    std::string out(greeting);
    put_number(out, static_cast<std::uint32_t>(rank), 4);
    put_number(out, static_cast<std::uint32_t>(size), 4);
    return out += nonce;
  }
  /// False for anything else.
  static bool read(std::string_view text, int& rank, int& size) {
    std::uint64_t r = 0, n = 0;
    if (text.size() != bytes || !text.starts_with(greeting)) return false;
    text.remove_prefix(greeting.size());
    if (!take_number(text, r, 4) || !take_number(text, n, 4) || r >= n || n > 1u << 20) return false;
    rank = static_cast<int>(r);
    size = static_cast<int>(n);
    return true;
  }
};
inline constexpr std::size_t proof_bytes = 32, challenge_bytes = hello::nonce_bytes + proof_bytes;

/// A proof of the secret in this connection. `role` tells the two sides and the session's key apart.
inline std::string proof(std::string_view secret, std::string_view role, std::string_view hello_text,
                         std::string_view nonce) {
  std::string all(role);
  all += '\n';
  all += hello_text;
  all += nonce;
  return std::string(bytes_of(hmac_sha256(secret, all)));
}
inline constexpr std::string_view of_root = "root", of_rank = "rank", of_session = "session";

/// One way of a connection after both proofs: each frame is signed with the session's key, the direction and its number, so that
/// none is forged, turned back, repeated, dropped or moved.
class frame_signer {
 public:
  frame_signer(std::string key, bool to_root) : key_(std::move(key)), to_root_(to_root) {}
  sha256_digest sign(std::string_view body) {
    std::string head(1, to_root_ ? '\1' : '\0');
    put_number(head, count_++, 8);
    return hmac_sha256(key_, head.append(body));
  }

 private:
  std::string key_;
  bool to_root_;
  std::uint64_t count_ = 0;
};

/// A frame: the body's length in 4 bytes, the body and its signature.
inline std::string frame_of(frame_signer& signer, std::string_view body) {
  std::string out;
  put_text(out, body);
  return out += bytes_of(signer.sign(body));
}

/// Frames from bytes that come in pieces.
class frame_reader {
 public:
  static constexpr std::size_t max_bytes = std::size_t{64} << 20;

  explicit frame_reader(frame_signer signer) : signer_(std::move(signer)) {}
  void add(std::string_view bytes) { held_ += bytes; }
  /// The next whole frame's body. False where none is; then `is_bad` tells whether the other side is to be left.
  bool next(std::string& body) {
    std::string_view from = std::string_view(held_).substr(read_);
    std::uint64_t n = 0;
    if (bad_ || !take_number(from, n, 4)) return false;
    if (n == 0 || n > max_bytes) return bad_ = true, false;
    if (from.size() < n + proof_bytes) return false;
    body = from.substr(0, static_cast<std::size_t>(n));
    if (!equal_in_constant_time(bytes_of(signer_.sign(body)), from.substr(static_cast<std::size_t>(n), proof_bytes)))
      return bad_ = true, false;
    read_ += 4 + static_cast<std::size_t>(n) + proof_bytes;
    if (read_ == held_.size() || read_ > max_bytes) {
      held_.erase(0, read_);
      read_ = 0;
    }
    return true;
  }
  bool is_bad() const { return bad_; }

 private:
  frame_signer signer_;
  std::string held_;
  std::size_t read_ = 0;
  bool bad_ = false;
};

}  // namespace sinter::engine::run
