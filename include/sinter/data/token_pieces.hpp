// data/token_pieces.hpp: normalizes texts and cuts them into pieces, as a tokenizer.json says; included by the rules of tokenizers only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text_rules.hpp"
#include "token_tables.hpp"
#include "unicode.hpp"

namespace sinter::data::detail {

/// The bytes that steps may still add to texts. `refuse` throws.
struct growth {
  std::size_t left;
  std::function<void()> refuse;
  /// A part of `from` bytes becomes one of `to` bytes.
  void take(std::size_t from, std::size_t to) {
    if (to <= from) return;
    if (to - from > left) refuse();
    left -= to - from;
  }
};

inline void replace_all(std::string& text, std::string_view from, std::string_view to, growth& more) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(from, at)) != std::string::npos; at = next + from.size()) {
    more.take(from.size(), to.size());
    out.append(text, at, next - at);
    out += to;
  }
  if (at == 0) return;
  out.append(text, at, std::string::npos);
  text = std::move(out);
}

/// The length of the longest key of the double array at the beginning of `text`, and its value. A unit's
/// label is in bits 0 to 7 and 31. Bit 8 is set where a key ends. Bits from 10 on are an offset, in steps of 256 if bit 9 is set.
inline std::pair<std::size_t, std::uint32_t> longest_key(const std::vector<std::uint32_t>& units,
                                                         std::string_view text) {
  std::pair<std::size_t, std::uint32_t> best{0, 0};
  if (units.empty()) return best;
  const auto offset = [](std::uint32_t u) { return std::size_t{u >> 10} << ((u & (1u << 9)) >> 6); };
  std::size_t node = offset(units[0]);
  for (std::size_t i = 0; i < text.size() && text[i] != 0; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    node ^= c;
    if (node >= units.size() || (units[node] & ((1u << 31) | 0xff)) != c) break;
    const std::uint32_t unit = units[node];
    node ^= offset(unit);
    if ((unit >> 8 & 1) && node < units.size()) best = {i + 1, units[node] & ((1u << 31) - 1)};
  }
  return best;
}
inline std::string mapped_by(const normal_step& s, std::string_view text, growth& more) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [length, value] = longest_key(s.units, text.substr(at));
    if (length > 0 && value < s.texts.size()) {
      const std::string_view to = s.texts.c_str() + value;
      more.take(length, to.size());
      out += to;
      at += length;
    } else {
      const std::size_t begin = at;
      code_at(text, at);
      out += text.substr(begin, at - begin);
    }
  }
  return out;
}

/// Each run of two or more spaces becomes `to`.
inline std::string squeezed(std::string_view text, const std::string& to, growth& more) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && text[end] == ' ') ++end;
    if (end - at >= 2) more.take(end - at, to.size()), out += to;
    else end = at + 1, out += text[at];
    at = end;
  }
  return out;
}

inline std::size_t skip_spaces(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next < text.size(); at = next)
    if (kind_of_code(code_at(text, next)) != code_kind::space) break;
  return at;
}
/// The place where the spaces at the end of text[0, end) begin.
inline std::size_t trailing_spaces(std::string_view text, std::size_t end) {
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    std::size_t next = begin;
    if (kind_of_code(code_at(text.substr(0, end), next)) != code_kind::space || next != end) break;
    end = begin;
  }
  return end;
}

inline std::string normalized_text(const std::vector<normal_step>& steps, std::string_view given, growth& more) {
  std::string text(given);
  for (const normal_step& s : steps) {
    if (s.kind == normal_step::prepend && !text.empty()) {
      more.take(0, s.to.size());
      text = s.to + text;
    }
    if (s.kind == normal_step::replace) replace_all(text, s.from, s.to, more);
    if (s.kind == normal_step::squeeze) text = squeezed(text, s.to, more);
    if (s.kind == normal_step::charsmap) text = mapped_by(s, text, more);
    if (s.kind != normal_step::strip) continue;
    if (s.right) text.resize(trailing_spaces(text, text.size()));
    if (s.left) text.erase(0, skip_spaces(text, 0));
  }
  return text;
}

/// The end of a contraction's match at `at`, in any case; `at` without one. U+017F is another s.
inline std::size_t contraction_end(std::string_view text, std::size_t at) {
  if (text[at] != '\'') return at;
  if (text.substr(at).starts_with("'\xc5\xbf")) return at + 3;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.size() - at < ending.size()) continue;
    std::size_t i = 1;
    while (i < ending.size() &&
           (static_cast<unsigned char>(text[at + i]) | 32) == static_cast<unsigned char>(ending[i]))
      ++i;
    if (i == ending.size()) return at + i;
  }
  return at;
}
/// The end of a run of one kind from `at` on, of at most `most` code points.
inline std::size_t kind_end(std::string_view text, std::size_t at, code_kind kind, std::size_t most) {
  for (std::size_t next = at; most > 0 && next < text.size(); at = next, --most)
    if (kind_of_code(code_at(text, next)) != kind) break;
  return at;
}
/// The end of the piece at `at` by the pattern of Llama 3 (`split` of token_reader.hpp), whose numbers have up to `digits` digits.
inline std::size_t late_piece_end(std::string_view text, std::size_t at, std::size_t digits) {
  if (const std::size_t end = contraction_end(text, at); end > at) return end;
  std::size_t next = at;
  const code_kind kind = kind_of_code(code_at(text, next));
  const std::size_t all = text.size();
  const bool line = text[at] == '\r' || text[at] == '\n';
  if (kind == code_kind::letter) return kind_end(text, at, kind, all);
  if (kind != code_kind::number && !line)
    if (const std::size_t end = kind_end(text, next, code_kind::letter, all); end > next) return end;
  if (kind == code_kind::number) return kind_end(text, at, kind, digits);
  const std::size_t begin = at + (text[at] == ' ');
  if (std::size_t end = kind_end(text, begin, code_kind::other, all); end > begin) {
    while (end < all && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  std::size_t last = at;
  const std::size_t end = spaces_end(text, at, last);
  for (std::size_t i = end; i > at; --i)
    if (text[i - 1] == '\r' || text[i - 1] == '\n') return i;
  return end < all && last > at ? last : end;
}

using pieces = std::vector<std::string>;

/// The pieces of a text around matches, each [begin, end).
inline void cut_at(std::string_view text, const std::vector<std::pair<std::size_t, std::size_t>>& matches,
                   cut_step::behaviour_t how, pieces& out) {
  std::size_t begin = 0;
  const auto cut = [&](std::size_t end) {
    if (end > begin) out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (const auto& match : matches) {
    if (how != cut_step::with_previous) cut(match.first);
    if (how == cut_step::removed) begin = match.second;
    else if (how != cut_step::with_next) cut(match.second);
  }
  cut(text.size());
}
inline void cut_literal(std::string_view text, std::string_view by, cut_step::behaviour_t how, pieces& out) {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  for (std::size_t at = 0; (at = text.find(by, at)) != std::string_view::npos; at += by.size())
    matches.emplace_back(at, at + by.size());
  cut_at(text, matches, how, out);
}
inline void cut_kind(std::string_view text, code_kind kind, bool each, cut_step::behaviour_t how, pieces& out) {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = kind_end(text, at, kind, each ? 1 : text.size());
    if (end > at) matches.emplace_back(at, end), at = end;
    else code_at(text, at);
  }
  cut_at(text, matches, how, out);
}
/// The pieces of one text. `begins`: it begins the whole text.
inline void cut(const cut_step& s, std::string text, bool begins, pieces& out, growth& more) {
  const auto put_in_front = [&](const std::string& what) {
    more.take(0, what.size());
    text = what + text;
  };
  if (s.kind == cut_step::bytes && s.prefix && !text.starts_with(' ')) put_in_front(" ");
  if (s.kind == cut_step::metaspace) {
    replace_all(text, " ", s.text, more);
    if ((s.scheme == cut_step::always || (s.scheme == cut_step::first && begins)) && !text.starts_with(s.text))
      put_in_front(s.text);
  }
  if (s.kind == cut_step::spaces) return cut_kind(text, code_kind::space, false, cut_step::removed, out);
  if (s.kind == cut_step::digits) return cut_kind(text, code_kind::number, s.split, cut_step::isolated, out);
  if (!s.split) return out.push_back(std::move(text));
  if (s.kind == cut_step::literal) return cut_literal(text, s.text, s.behaviour, out);
  if (s.kind == cut_step::metaspace) return cut_literal(text, s.text, cut_step::with_next, out);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        s.number_run == 0 ? piece_end(text, at) : late_piece_end(text, at, static_cast<std::size_t>(s.number_run));
    out.push_back(text.substr(at, end - at));
    at = end;
  }
}
inline pieces cut_by(const std::vector<cut_step>& steps, std::string text, bool begins, growth& more) {
  pieces all{std::move(text)};
  for (const cut_step& s : steps) {
    pieces next;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!all[i].empty()) cut(s, std::move(all[i]), begins && i == 0, next, more);
    all = std::move(next);
  }
  return all;
}

}  // namespace sinter::data::detail
