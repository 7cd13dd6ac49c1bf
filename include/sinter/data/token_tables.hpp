// data/token_tables.hpp: what a tokenizer.json says, as tables; included by the rules of tokenizers only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pairs.hpp"

namespace sinter::data::detail {

/// A step of the normalizer. The last step maps the longest keys of a double array, as SentencePiece stores them.
struct normal_step {
  enum kind_t { prepend, replace, squeeze, strip, charsmap } kind;
  std::string from = {}, to = {};
  bool left = false, right = false;
  std::vector<std::uint32_t> units = {};
  std::string texts = {};
};

/// A step that cuts texts into pieces, which no token crosses.
struct cut_step {
  enum kind_t { bytes, pattern, literal, metaspace, spaces, digits } kind;
  enum behaviour_t { isolated, removed, with_previous, with_next } behaviour = isolated;
  enum scheme_t { always, first, never } scheme = never;
  std::string text = {};
  int number_run = 0;  ///< of a pattern: digits of a piece of numbers; 0: GPT-2's pattern
  bool prefix = false, split = true;
};

/// A text that is a token wherever it stands.
struct added_token {
  std::string text;
  std::int64_t id = 0;
  bool special = false, normalized = false, word = false, left = false, right = false;
};

/// Added tokens by their first byte, the longest first.
using added_tokens = std::array<std::vector<added_token>, 256>;

struct tokenizer_tables {
  std::vector<normal_step> normal;
  std::vector<cut_step> cuts;
  added_tokens raw, normalized;
  std::vector<std::int64_t> before, behind;  ///< the template

  bool unigram = false, byte_level = false, byte_fallback = false, fuse_unknown = false, whole_first = false;
  std::int64_t unknown = -1;
  std::vector<std::string> texts;    ///< of the model's tokens
  std::vector<std::string> decoded;  ///< what each token adds to a text
  std::vector<char> known;           ///< 1: of the model, 2: added to it
  std::vector<char> special;
  std::unordered_map<std::string, std::int64_t> ids;
  std::array<std::int64_t, 256> bytes{};  ///< tokens of single bytes, or -1
  pair_merges merges, plain_merges;  ///< the second without those that make special tokens; empty if there are none
  bool has_special_merges = false;
  std::vector<double> scores;
  std::vector<std::uint32_t> order;  ///< a unigram model's tokens by their texts, without special tokens
  double unknown_score = 0;

  std::vector<std::pair<std::string, std::string>> decode_replaced;
  bool decode_bytes = false;
  std::size_t decode_strip = 0;  ///< spaces at the beginning of a decoded text
};

}  // namespace sinter::data::detail
