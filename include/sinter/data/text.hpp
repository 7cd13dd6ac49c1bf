// data/text.hpp: text as numbers: bytes, the bytes that a text has, byte-pair encoding as GPT-2's.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../io/array.hpp"

namespace sinter::data {

/// A file's bytes as text. system_error when it cannot be read.
SINTER_API std::string read_text(const std::string& path, location at = location::current());

namespace detail {

/// The end of the piece that begins at a place, as GPT-2's pattern has it:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
SINTER_API std::size_t piece_end(std::string_view text, std::size_t at);

}  // namespace detail

/// A token for each byte: 256 of them.
struct byte_tokenizer {
  std::int64_t size() const { return 256; }
  SINTER_API std::vector<std::int64_t> encode(std::string_view text) const;
  /// user_error for a token that there is not.
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }
};

/// A token for each byte that a text has, in their order: few for a model of characters.
class char_tokenizer {
 public:
  SINTER_API explicit char_tokenizer(std::string_view text);
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// user_error for a byte that the text did not have.
  SINTER_API std::vector<std::int64_t> encode(std::string_view text, location at = location::current()) const;
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }

 private:
  std::string bytes_;
  std::array<std::int64_t, 256> ids_;
};

/// Byte-pair encoding of bytes, with GPT-2's vocab.json and merges.txt. decode(encode(text)) is text, whatever its bytes.
class bpe_tokenizer {
 public:
  /// system_error for files that are damaged or do not belong together.
  SINTER_API bpe_tokenizer(const std::string& vocabulary, const std::string& merges, location at = location::current());

  /// The number of tokens.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// The token of these bytes: `t.id("<|endoftext|>")`. user_error when there is none.
  SINTER_API std::int64_t id(const std::string& token, location at = location::current()) const;

  SINTER_API std::vector<std::int64_t> encode(std::string_view text) const;
  /// user_error for a token that there is not.
  SINTER_API std::string decode(std::span<const std::int64_t> ids, location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), at);
  }

 private:
  struct merge {
    std::uint32_t rank = 0;
    std::int64_t to = 0;
  };
  static std::uint64_t pair_of(std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b);
  }

  SINTER_API void read_merges(const std::string& path, location at);

  /// Joins the pair of the least rank, the first one of equals, until no pair is one of merges.txt.
  SINTER_API void encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const;

  std::vector<std::string> bytes_;  ///< of each token
  std::unordered_map<std::string, std::int64_t> ids_;
  std::array<std::int64_t, 256> single_{};
  std::unordered_map<std::uint64_t, merge> merges_;
};

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "text_rules.hpp"
#endif
