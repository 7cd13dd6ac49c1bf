// data/tokenizer_rules.hpp: the definitions for tokenizer.hpp; compiled once.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "token_pieces.hpp"
#include "token_reader.hpp"
#include "tokenizer.hpp"

namespace sinter::data {

namespace detail {

/// Encodes one text with the tables of a tokenizer.
class encoder {
 public:
  encoder(const tokenizer_tables& t, bool special, location at) : t_(t), special_(special), at_(at) {}

  std::vector<std::int64_t> out;

  /// user_error for a text that the file's steps lengthen by more than 256 MiB and four times its own length.
  void text(std::string_view given) {
    growth more{std::max(given.size() * 4, std::size_t{1} << 28), [&] {
                  fail("data::tokenizer",
                       "the normalizer or the pre-tokenizer of the file lengthens a text of " +
                           std::to_string(given.size()) + " bytes by more than 256 MiB; give a shorter text",
                       at_);
                }};
    split(t_.raw, given, true, [&](std::string_view part, bool begins) {
      const std::string normal = normalized_text(t_.normal, part, more);
      split(t_.normalized, normal, begins, [&](std::string_view plain, bool first) {
        for (const std::string& piece : cut_by(t_.cuts, std::string(plain), first, more)) encode_piece(piece);
      });
    });
  }

 private:
  static bool is_word(std::string_view text, std::size_t at) {
    if (text[at] == '_') return true;
    const code_kind kind = kind_of_code(code_at(text, at));
    return kind == code_kind::letter || kind == code_kind::number;
  }
  /// Whether a token of one word may stand at text[begin, end).
  static bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
    std::size_t before = begin;
    while (before > 0 && begin - before < 4 &&
           (before == begin || (static_cast<unsigned char>(text[before]) & 0xc0) == 0x80))
      --before;
    return (begin == 0 || !is_word(text, before)) && (end == text.size() || !is_word(text, end));
  }
  const added_token* token_at(const added_tokens& all, std::string_view text, std::size_t at) const {
    for (const added_token& t : all[static_cast<unsigned char>(text[at])]) {
      if ((t.special && !special_) || !text.substr(at).starts_with(t.text)) continue;
      if (!t.word || stands_alone(text, at, at + t.text.size())) return &t;
    }
    return nullptr;
  }
  /// Appends the added tokens in a text, and calls plain(part, whether it begins the whole text) between them.
  template <class F>
  void split(const added_tokens& all, std::string_view text, bool begins, const F& plain) {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const added_token* const t = token_at(all, text, at);
      if (!t) {
        ++at;
        continue;
      }
      const std::size_t end = t->left ? std::max(begin, trailing_spaces(text, at)) : at;
      if (end > begin) plain(text.substr(begin, end - begin), begins && begin == 0);
      out.push_back(t->id);
      at += t->text.size();
      if (t->right) at = skip_spaces(text, at);
      begin = at;
    }
    if (begin < text.size()) plain(text.substr(begin), begins && begin == 0);
  }

  /// Tokens of a text that the model does not know.
  void unknown(std::string_view text, std::vector<std::int64_t>& to) const {
    const auto has = [&](char c) { return t_.bytes[static_cast<unsigned char>(c)] >= 0; };
    if (t_.byte_fallback && std::all_of(text.begin(), text.end(), has)) {
      for (const char c : text) to.push_back(t_.bytes[static_cast<unsigned char>(c)]);
      return;
    }
    if (t_.unknown < 0)
      fail("data::tokenizer",
           "there is no token for \"" + io::detail::shown(std::string(text)) + "\", nor one for unknown characters",
           at_);
    to.push_back(t_.unknown);
  }
  /// The model's token of this text that is not special, or -1. Special and added tokens stand where `split` finds them.
  std::int64_t plain_token(std::string_view text) const {
    const auto n = t_.ids.find(std::string(text));
    if (n == t_.ids.end()) return -1;
    const auto i = static_cast<std::size_t>(n->second);
    return t_.known[i] == 1 && !t_.special[i] ? n->second : -1;
  }
  void encode_piece(std::string_view piece) {
    if (piece.empty()) return;
    if (t_.unigram) return best_path(piece);
    if (t_.whole_first)
      if (const std::int64_t id = plain_token(piece); id >= 0) return out.push_back(id);
    std::vector<std::int64_t> symbols;
    bool unknown_before = false;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      if (t_.byte_level) ++at;
      else code_at(piece, at);
      const std::string_view one = piece.substr(begin, at - begin);
      const std::int64_t id = plain_token(one);
      const std::size_t size = symbols.size();
      if (id >= 0) symbols.push_back(id);
      else unknown(one, symbols);
      const bool now = id < 0 && symbols.size() == size + 1 && symbols.back() == t_.unknown;
      if (now && unknown_before && t_.fuse_unknown) symbols.pop_back();
      unknown_before = now;
    }
    join(symbols);
  }
  /// Where pairs join to a special token, they join without the pairs that make special tokens.
  void join(const std::vector<std::int64_t>& symbols) {
    const std::size_t begin = out.size();
    t_.merges.join(symbols, out);
    if (!t_.has_special_merges) return;
    const auto is_special = [&](std::int64_t id) {
      return id != t_.unknown && t_.special[static_cast<std::size_t>(id)];
    };
    if (std::none_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), is_special)) return;
    out.resize(begin);
    t_.plain_merges.join(symbols, out);
  }

  /// The tokens of a piece with the largest sum of scores. Among equal sums the longer last token wins.
  void best_path(std::string_view piece) {
    struct node {
      double score = 0;
      std::size_t from = none;
      std::int64_t id = -1;
    };
    std::vector<node> best(piece.size() + 1);
    best[0].from = 0;
    const auto offer = [&](std::size_t from, std::size_t to, double by, std::int64_t id) {
      const double score = best[from].score + by;
      if (best[to].from == none || score > best[to].score) best[to] = {score, from, id};
    };
    for (std::size_t at = 0; at < piece.size();) {
      std::size_t next = at;
      code_at(piece, next);
      bool single = false;
      each_prefix(piece.substr(at), [&](std::size_t length, std::uint32_t id) {
        if (best[at].from == none) return;
        offer(at, at + length, t_.scores[id], id);
        single = single || length == next - at;
      });
      if (!single) offer(at, next, t_.unknown_score, -1);
      at = next;
    }
    std::vector<std::pair<std::size_t, std::size_t>> path;
    for (std::size_t at = piece.size(); at > 0; at = best[at].from) path.emplace_back(best[at].from, at);
    std::reverse(path.begin(), path.end());
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::size_t from = path[i].first;
      if (best[path[i].second].id >= 0) {
        out.push_back(best[path[i].second].id);
        continue;
      }
      while (i + 1 < path.size() && best[path[i + 1].second].id < 0) ++i;
      unknown(piece.substr(from, path[i].second - from), out);
    }
  }
  /// The tokens that begin a text, by their lengths.
  template <class F>
  void each_prefix(std::string_view text, const F& f) const {
    auto low = t_.order.begin(), high = t_.order.end();
    for (std::size_t i = 0; i < text.size() && low != high; ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      const auto byte = [&](std::uint32_t id) {
        return t_.texts[id].size() <= i ? -1 : int{static_cast<unsigned char>(t_.texts[id][i])};
      };
      low = std::partition_point(low, high, [&](std::uint32_t id) { return byte(id) < int{c}; });
      high = std::partition_point(low, high, [&](std::uint32_t id) { return byte(id) <= int{c}; });
      if (low != high && t_.texts[*low].size() == i + 1) f(i + 1, *low);
    }
  }

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  const tokenizer_tables& t_;
  bool special_;
  location at_;
};

/// The bytes of a token. `first`: nothing was decoded yet.
inline std::string token_bytes(const tokenizer_tables& t, std::int64_t id, bool& first, location at) {
  const auto i = static_cast<std::size_t>(id);
  if (id < 0 || i >= t.texts.size() || !t.known[i])
    fail("data::tokenizer",
         "there is no token " + std::to_string(id) + "; they are below " + std::to_string(t.texts.size()), at);
  std::string text = t.decoded[i];
  if (!first || text.empty()) return text;
  first = false;
  std::size_t spaces = 0;
  while (spaces < t.decode_strip && spaces < text.size() && text[spaces] == ' ') ++spaces;
  return text.substr(spaces);
}

/// The bytes at the end of a text that may begin a character.
inline std::size_t open_bytes(std::string_view text) {
  for (std::size_t n = 1; n < 4 && n <= text.size(); ++n) {
    const auto c = static_cast<unsigned char>(text[text.size() - n]);
    if ((c & 0xc0) == 0x80) continue;
    const std::size_t wanted = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
    return wanted > n ? n : 0;
  }
  return 0;
}

}  // namespace detail

SINTER_API tokenizer::tokenizer(const std::string& path, location at) {
  auto made = std::make_shared<detail::tokenizer_tables>();
  detail::token_reader(path, *made, at.in("data::tokenizer")).read();
  tables_ = std::move(made);
}

SINTER_API std::int64_t tokenizer::size() const { return static_cast<std::int64_t>(tables_->texts.size()); }

SINTER_API std::optional<std::int64_t> tokenizer::find(std::string_view token) const {
  const auto found = tables_->ids.find(std::string(token));
  return found == tables_->ids.end() ? std::nullopt : std::optional(found->second);
}

SINTER_API std::int64_t tokenizer::id(const std::string& token, location at) const {
  const auto found = find(token);
  if (!found) fail("data::tokenizer", "there is no token \"" + io::detail::shown(token) + "\"", at);
  return *found;
}

SINTER_API bool tokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < size() && tables_->special[static_cast<std::size_t>(id)] != 0;
}

SINTER_API std::vector<std::int64_t> tokenizer::encode(std::string_view text, const encode_options& how,
                                                       location at) const {
  detail::encoder e(*tables_, how.special, at);
  if (how.frame) e.out = tables_->before;
  e.text(text);
  if (how.frame) e.out.insert(e.out.end(), tables_->behind.begin(), tables_->behind.end());
  return std::move(e.out);
}

SINTER_API std::string tokenizer::decode(std::span<const std::int64_t> ids, const decode_options& how,
                                         location at) const {
  std::string out;
  bool first = true;
  for (const std::int64_t id : ids)
    if (how.special || !is_special(id)) out += detail::token_bytes(*tables_, id, first, at);
  return out;
}

SINTER_API token_stream::token_stream(tokenizer t, std::vector<std::string> stops, location at)
    : tokens_(std::move(t)), stops_(std::move(stops)) {
  for (const std::string& s : stops_)
    if (s.empty()) fail("data::token_stream", "a stop text is empty; leave it out", at);
}

SINTER_API std::string token_stream::push(std::int64_t id, location at) {
  if (stopped_) return "";
  if (!tokens_.is_special(id)) held_ += detail::token_bytes(*tokens_.tables_, id, first_, at);
  std::size_t stop = std::string::npos;
  for (const std::string& s : stops_) stop = std::min(stop, held_.find(s));
  stopped_ = stop != std::string::npos;
  std::size_t sure = stopped_ ? stop : held_.size() - detail::open_bytes(held_);
  for (const std::string& s : stops_)
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > 0 && !stopped_; --n)
      if (std::string_view(held_).ends_with(std::string_view(s).substr(0, n))) sure = std::min(sure, held_.size() - n);
  std::string out = held_.substr(0, sure);
  held_.erase(0, stopped_ ? std::string::npos : sure);
  return out;
}

SINTER_API std::string token_stream::end() {
  first_ = true;
  stopped_ = false;
  return std::exchange(held_, "");
}

}  // namespace sinter::data
