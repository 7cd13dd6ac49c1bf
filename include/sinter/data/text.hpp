// data/text.hpp: text as numbers: all bytes, the bytes of a text, or GPT-2's byte-pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../io/array.hpp"
#include "pairs.hpp"

namespace sinter::data {

/// The bytes of a file as text. system_error if it cannot be read.
SINTER_API std::string read_text(const std::string& path, location at = location::current());

namespace detail {

/// The end of the piece that begins at `at`, by GPT-2's pattern:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
SINTER_API std::size_t piece_end(std::string_view text, std::size_t at);

}  // namespace detail

/// A token for each byte: 256 of them.
struct byte_tokenizer {
  std::int64_t size() const { return 256; }
  SINTER_API std::vector<std::int64_t> encode(std::string_view text) const;
  /// user_error for an unknown token.
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }
};

/// A token for each distinct byte of a text, in the order of the bytes: a small vocabulary for models of characters.
class char_tokenizer {
 public:
  SINTER_API explicit char_tokenizer(std::string_view text);
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// user_error for a byte that is not in the vocabulary's text.
  SINTER_API std::vector<std::int64_t> encode(std::string_view text, location at = location::current()) const;
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }

 private:
  std::string bytes_;
  std::array<std::int64_t, 256> ids_;
};

/// Byte-pair encoding with GPT-2's vocab.json and merges.txt. decode(encode(text)) is text, for any bytes.
class bpe_tokenizer {
 public:
  /// system_error for damaged files, and files that do not belong together.
  SINTER_API bpe_tokenizer(const std::string& vocabulary, const std::string& merges, location at = location::current());

  /// The number of tokens.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// The token of these bytes: `t.id("<|endoftext|>")`. user_error for unknown bytes.
  SINTER_API std::int64_t id(const std::string& token, location at = location::current()) const;

  SINTER_API std::vector<std::int64_t> encode(std::string_view text) const;
  /// user_error for an unknown token.
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }

 private:
  SINTER_API void read_merges(const std::string& path, location at);

  /// Joins pairs of the piece's bytes.
  SINTER_API void encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const;

  std::vector<std::string> bytes_;  ///< of each token
  std::unordered_map<std::string, std::int64_t> ids_;
  std::array<std::int64_t, 256> single_{};
  detail::pair_merges merges_;
};

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "text_rules.hpp"
#endif
