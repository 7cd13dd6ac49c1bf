// data/tokenizer.hpp: tokenizer.json, as Hugging Face's tokenizers write it: pair encodings and unigram models; text of tokens that
// arrive one by one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../io/array.hpp"

namespace sinter::data {

struct encode_options {
  bool frame = true;    ///< puts the tokens of the file's template around the text, such as <s>
  bool special = true;  ///< the text of a special token is that token; otherwise it is text like any other
};

struct decode_options {
  bool special = false;  ///< keeps the texts of special tokens
};

namespace detail {
struct tokenizer_tables;
}

/// The tokens of a tokenizer.json. It holds a byte-level pair encoding (GPT-2, Llama 3), a unigram model (T5), or pairs of
/// characters. The last kind has bytes as a last resort (Llama 2, Gemma). Copies share their tables, which do not change.
class tokenizer {
 public:
  /// Reads a file. system_error for a file that cannot be read, is damaged or contradicts itself. user_error that names a part of it
  /// that sinter does not know.
  SINTER_API explicit tokenizer(const std::string& path, location at = location::current());

  /// One more than the largest token.
  SINTER_API std::int64_t size() const;
  /// The token of a text: `t.id("</s>")`. user_error for a text that is none.
  SINTER_API std::int64_t id(const std::string& token, location at = location::current()) const;
  SINTER_API std::optional<std::int64_t> find(std::string_view token) const;
  /// Whether a token is one of the file's special tokens.
  SINTER_API bool is_special(std::int64_t id) const;

  /// The tokens of a text, which may be any bytes. user_error for a character without a token where the file has no token for
  /// unknown ones.
  SINTER_API std::vector<std::int64_t> encode(std::string_view text, const encode_options& how = {},
                                              location at = location::current()) const;
  /// The text of tokens. user_error for a token that does not exist. Bytes outside of UTF-8 stay.
  SINTER_API std::string decode(std::span<const std::int64_t> ids, const decode_options& how = {},
                                location at = location::current()) const;
  std::string decode(std::initializer_list<std::int64_t> ids, const decode_options& how = {},
                     location at = location::current()) const {
    return decode(std::span(ids.begin(), ids.size()), how, at);
  }

 private:
  friend class token_stream;
  std::shared_ptr<const detail::tokenizer_tables> tables_;
};

/// The text of tokens that arrive one by one: whole characters only, and nothing from a stop text on. All texts that it gives, one
/// behind another, are the decoded tokens up to the first stop text.
class token_stream {
 public:
  /// user_error for an empty stop text.
  SINTER_API explicit token_stream(tokenizer t, std::vector<std::string> stops = {}, location at = location::current());

  /// The text that has become certain. Without effect once a stop text was met. user_error for a token that does not exist.
  SINTER_API std::string push(std::int64_t id, location at = location::current());
  /// The text that was held back, as it is. The next token begins a new text.
  SINTER_API std::string end();
  /// Whether a stop text was met.
  bool stopped() const { return stopped_; }

 private:
  tokenizer tokens_;
  std::vector<std::string> stops_;
  std::string held_;
  bool first_ = true, stopped_ = false;
};

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "tokenizer_rules.hpp"
#endif
