// data/text_rules.hpp: the definitions for text.hpp; compiled once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../io/file.hpp"
#include "../io/json.hpp"
#include "text.hpp"
#include "unicode.hpp"

namespace sinter::data {

SINTER_API std::string read_text(const std::string& path, location at) {
  const storage whole = io::detail::map_file("data::read_text", path, at);
  return {static_cast<const char*>(whole.data()), whole.bytes()};
}

namespace detail {

/// The bytes of tokens, each what(token). user_error for a token of `size` or above.
template <class What>
std::string decoded(std::span<const std::int64_t> ids, std::int64_t size, location at, const What& what) {
  std::string out;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= size)
      fail("data::tokenizer", "there is no token " + std::to_string(id) + "; they are 0 to " + std::to_string(size - 1),
           at);
    out += what(static_cast<std::size_t>(id));
  }
  return out;
}

/// The end of a match of ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` at `at`; `at` without a match.
inline std::size_t run_end(std::string_view text, std::size_t at) {
  std::size_t next = at + (text[at] == ' ');
  if (next == text.size()) return at;
  std::size_t end = next;
  const code_kind kind = kind_of_code(code_at(text, end));
  if (kind == code_kind::space) return at;
  for (next = end; next < text.size(); end = next)
    if (kind_of_code(code_at(text, next)) != kind) break;
  return end;
}

/// The end of a run of spaces; `last` becomes the begin of its last space.
inline std::size_t spaces_end(std::string_view text, std::size_t at, std::size_t& last) {
  std::size_t end = last = at;
  for (std::size_t next = at; next < text.size(); end = next) {
    const std::size_t begin = next;
    if (kind_of_code(code_at(text, next)) != code_kind::space) break;
    last = begin;
  }
  return end;
}

SINTER_API std::size_t piece_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (text.substr(at).starts_with(ending)) return at + ending.size();
  if (const std::size_t end = run_end(text, at); end > at) return end;
  std::size_t last = at;
  const std::size_t end = spaces_end(text, at, last);
  // The last space before another character belongs to that character's piece, unless it is the only space.
  return end < text.size() && last > at ? last : end;
}

/// {"token": 0, …}
class vocabulary_events : public io::detail::json_events {
 public:
  explicit vocabulary_events(std::unordered_map<std::string, std::int64_t>& to) : to_(to) {}
  bool number_unsigned(number_unsigned_t x) {
    if (depth_ != 1 || x > 0x7fffffff) return no("a number");
    return to_.emplace(key_, static_cast<std::int64_t>(x)).second || no("a token twice");
  }
  bool string(string_t&) { return no("a text"); }
  bool start_object(std::size_t) { return depth_++ == 0 || no("an object"); }
  bool key(string_t& text) {
    key_ = text;
    return true;
  }
  bool end_object() { return true; }
  bool start_array(std::size_t) { return no("an array"); }
  bool end_array() { return true; }

 private:
  std::unordered_map<std::string, std::int64_t>& to_;
  std::string key_;
  int depth_ = 0;
};

/// GPT-2's files spell bytes as code points: visible bytes as themselves, the others from 256 on. Converts a spelling to
/// bytes; code points without a byte stay.
inline std::string unspelled(std::string_view token) {
  static const std::array<unsigned char, 68> others = [] {
    std::array<unsigned char, 68> o{};
    std::size_t n = 0;
    for (unsigned b = 0; b < 256; ++b)
      if (b < 33 || (b > 126 && b < 161) || b == 173) o[n++] = static_cast<unsigned char>(b);
    return o;
  }();
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t begin = at;
    const char32_t c = code_at(token, at);
    if (c >= 256 && c < 256 + others.size()) out += static_cast<char>(others[c - 256]);
    else if (c < 256 && c >= 0x80) out += static_cast<char>(c);
    else out += token.substr(begin, at - begin);
  }
  return out;
}

}  // namespace detail

SINTER_API std::vector<std::int64_t> byte_tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  out.reserve(text.size());
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

SINTER_API std::string byte_tokenizer::decode(std::span<const std::int64_t> ids, location at) const {
  return detail::decoded(ids, size(), at, [](std::size_t id) { return static_cast<char>(id); });
}

SINTER_API char_tokenizer::char_tokenizer(std::string_view text) {
  std::array<bool, 256> seen{};
  for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
  ids_.fill(-1);
  for (std::size_t b = 0; b < 256; ++b)
    if (seen[b]) {
      ids_[b] = static_cast<std::int64_t>(bytes_.size());
      bytes_ += static_cast<char>(b);
    }
}

SINTER_API std::vector<std::int64_t> char_tokenizer::encode(std::string_view text, location at) const {
  std::vector<std::int64_t> out;
  out.reserve(text.size());
  for (const char c : text) {
    const std::int64_t id = ids_[static_cast<unsigned char>(c)];
    if (id < 0)
      fail("data::char_tokenizer",
           "the text that made the tokens has no byte " + std::to_string(static_cast<unsigned char>(c)) +
               "; make them of all texts",
           at);
    out.push_back(id);
  }
  return out;
}

SINTER_API std::string char_tokenizer::decode(std::span<const std::int64_t> ids, location at) const {
  return detail::decoded(ids, size(), at, [&](std::size_t id) { return bytes_[id]; });
}

SINTER_API bpe_tokenizer::bpe_tokenizer(const std::string& vocabulary, const std::string& merges, location at) {
  const std::string words = read_text(vocabulary, at.in("data::bpe_tokenizer"));
  std::unordered_map<std::string, std::int64_t> spelled;
  detail::vocabulary_events events(spelled);
  const auto fail_words = [&](const std::string& what) {
    io::detail::fail_file("data::bpe_tokenizer", vocabulary, what, at);
  };
  if (const std::string wrong = io::detail::parse_json(words, events); !wrong.empty()) fail_words(wrong);
  std::vector<char> taken(spelled.size());
  bytes_.resize(spelled.size());
  for (const auto& [token, id] : spelled) {
    if (static_cast<std::size_t>(id) >= spelled.size()) fail_words("its tokens are not numbered from 0 on");
    if (std::exchange(taken[static_cast<std::size_t>(id)], 1)) fail_words("two tokens are " + std::to_string(id));
    bytes_[static_cast<std::size_t>(id)] = detail::unspelled(token);
    ids_.emplace(bytes_[static_cast<std::size_t>(id)], id);
  }
  for (unsigned b = 0; b < 256; ++b) {
    const auto found = ids_.find(std::string(1, static_cast<char>(b)));
    if (found == ids_.end()) fail_words("it has no token for byte " + std::to_string(b));
    single_[b] = found->second;
  }
  read_merges(merges, at);
}

SINTER_API std::int64_t bpe_tokenizer::id(const std::string& token, location at) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) fail("data::bpe_tokenizer", "there is no token \"" + io::detail::shown(token) + "\"", at);
  return found->second;
}

SINTER_API std::vector<std::int64_t> bpe_tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known;  // the place of a piece in `out`
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = detail::piece_end(text, at);
    const std::string_view piece = text.substr(at, end - at);
    at = end;
    if (const auto before = known.find(piece); before != known.end()) {
      for (std::size_t i = before->second.first; i < before->second.second; ++i) out.push_back(std::int64_t{out[i]});
      continue;
    }
    const std::size_t begin = out.size();
    encode_piece(piece, out);
    known.emplace(piece, std::pair(begin, out.size()));
  }
  return out;
}

SINTER_API std::string bpe_tokenizer::decode(std::span<const std::int64_t> ids, location at) const {
  return detail::decoded(ids, size(), at, [&](std::size_t id) -> const std::string& { return bytes_[id]; });
}

SINTER_API void bpe_tokenizer::read_merges(const std::string& path, location at) {
  const std::string all = read_text(path, at.in("data::bpe_tokenizer"));
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < all.size(); ++line) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    std::string_view text = std::string_view(all).substr(begin, end - begin);
    begin = end + 1;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || (line == 0 && text.starts_with("#version"))) continue;
    const std::size_t gap = text.find(' ');
    const auto wrong = [&](const char* what) {
      io::detail::fail_file("data::bpe_tokenizer", path + ":" + std::to_string(line + 1), what, at);
    };
    if (gap == std::string_view::npos || text.find(' ', gap + 1) != std::string_view::npos)
      wrong("is no pair of tokens");
    const std::string a = detail::unspelled(text.substr(0, gap)), b = detail::unspelled(text.substr(gap + 1));
    const auto first = ids_.find(a), second = ids_.find(b), both = ids_.find(a + b);
    if (first == ids_.end() || second == ids_.end() || both == ids_.end())
      wrong("has tokens that the vocabulary has not");
    merges_.add(first->second, second->second, both->second);
  }
}

SINTER_API void bpe_tokenizer::encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const {
  std::vector<std::int64_t> bytes;
  bytes.reserve(piece.size());
  for (const char c : piece) bytes.push_back(single_[static_cast<unsigned char>(c)]);
  merges_.join(bytes, out);
}

}  // namespace sinter::data
