// data/token_reader.hpp: reads a tokenizer.json into tables; included by the rules of tokenizers only.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "../io/file.hpp"
#include "json_tree.hpp"
#include "token_pieces.hpp"
#include "token_tables.hpp"

namespace sinter::data::detail {

/// The bytes of a base64 text; nothing for another text.
inline std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(digit)) & 0xffffff;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
  return out;
}

/// The byte of a text like <0x0A>, or -1.
inline int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

class token_reader {
 public:
  token_reader(const std::string& path, tokenizer_tables& to, location at) : path_(path), to_(to), at_(at) {}

  void read() {
    const storage whole = io::detail::map_file("data::tokenizer", path_, at_);
    const std::string wrong = tree_.read({static_cast<const char*>(whole.data()), whole.bytes()});
    if (!wrong.empty()) damaged(wrong);
    root_ = &tree_.at(0);
    if (root_->kind != json_kind::object) damaged("is no JSON object");
    const json_node* const model = part(*root_, "model");
    if (!model) damaged("has no model");
    const json_node *const vocabulary = part(*model, "vocab"), *const more = part(*root_, "added_tokens");
    const std::size_t entries = std::size_t{vocabulary ? vocabulary->count : 0} + (more ? more->count : 0);
    ids_ = std::min<std::size_t>(max_tokens, entries * 2 + (std::size_t{1} << 16));
    if (const json_node* const n = part(*root_, "normalizer")) normalizers(*n);
    if (const json_node* const n = part(*root_, "pre_tokenizer")) cuts(*n);
    read_model(*model);
    if (more) added(*more);
    to_.special.resize(to_.texts.size());
    if (to_.unigram) order_tokens();
    else plain_merges(*model);
    if (const json_node* const n = part(*root_, "post_processor")) frames(*n);
    decoder();
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    io::detail::fail_file("data::tokenizer", path_, what, at_);
  }
  /// For a part that the format has, and sinter does not know.
  [[noreturn]] void unknown(const std::string& what) const {
    fail("data::tokenizer",
         path_ + " has " + io::detail::shown(what) + "; encode with the program that made it, or give tokens", at_);
  }

  /// A member that is not null.
  const json_node* part(const json_node& of, std::string_view name) const {
    const json_node* const n = tree_.member(of, name);
    return n && n->kind != json_kind::null ? n : nullptr;
  }
  std::string text(const json_node& of, std::string_view name, std::string_view otherwise = "") const {
    const json_node* const n = part(of, name);
    if (n && n->kind != json_kind::text) damaged("its \"" + std::string(name) + "\" is no text");
    return std::string(n ? tree_.text_of(*n) : otherwise);
  }
  bool flag(const json_node& of, std::string_view name, bool otherwise) const {
    const json_node* const n = part(of, name);
    if (n && n->kind != json_kind::boolean) damaged("its \"" + std::string(name) + "\" is neither true nor false");
    return n ? n->truth : otherwise;
  }
  static constexpr std::int64_t max_tokens = 10'000'000;
  std::int64_t token_number(const json_node& n, const char* what) const {
    if (n.kind != json_kind::number || !(n.number >= 0) || n.number >= max_tokens || n.number != std::floor(n.number))
      damaged(std::string(what) + " is no whole number from 0 to " + std::to_string(max_tokens - 1));
    return static_cast<std::int64_t>(n.number);
  }
  std::int64_t whole(const json_node& of, std::string_view name, std::int64_t otherwise) const {
    const json_node* const n = part(of, name);
    return n ? token_number(*n, ("its \"" + std::string(name) + "\"").c_str()) : otherwise;
  }
  /// The elements of a list of this name.
  template <class F>
  void each(const json_node& of, std::string_view name, const F& f) const {
    const json_node* const n = part(of, name);
    if (!n || n->kind != json_kind::array) damaged("has no list \"" + std::string(name) + "\"");
    tree_.each(*n, f);
  }

  static constexpr std::size_t max_framed = 1024;
  /// Each step reads each text.
  void few(std::size_t steps) const {
    if (steps >= 256) damaged("its normalizer, pre-tokenizer or decoder has more than 256 steps");
  }

  void normalizers(const json_node& n) {
    const std::string type = text(n, "type");
    few(to_.normal.size());
    if (type == "Sequence") {
      each(n, "normalizers", [&](const json_node& x) { normalizers(x); });
    } else if (type == "Prepend") {
      to_.normal.push_back({normal_step::prepend, "", text(n, "prepend")});
    } else if (type == "Replace") {
      replacement(n);
    } else if (type == "Strip") {
      to_.normal.push_back({normal_step::strip, "", "", flag(n, "strip_left", true), flag(n, "strip_right", true)});
    } else if (type == "Precompiled") {
      charsmap(text(n, "precompiled_charsmap"));
    } else {
      unknown("the normalizer " + type);
    }
  }
  void replacement(const json_node& n) {
    const json_node* const pattern = part(n, "pattern");
    if (!pattern) damaged("has a replacement without a pattern");
    const std::string to = text(n, "content"), from = text(*pattern, "String"), regex = text(*pattern, "Regex");
    if (!from.empty()) to_.normal.push_back({normal_step::replace, from, to});
    else if (regex == " {2,}") to_.normal.push_back({normal_step::squeeze, "", to});
    else unknown("a normalizer that replaces the pattern \"" + regex + "\"");
  }
  void charsmap(const std::string& spelled) {
    const auto bytes = from_base64(spelled);
    const auto word = [&](std::size_t at) {
      std::uint32_t x = 0;
      for (std::size_t i = 4; i-- > 0;) x = x << 8 | static_cast<unsigned char>((*bytes)[at + i]);
      return x;
    };
    if (!bytes || bytes->size() < 4 || word(0) % 4 != 0 || word(0) > bytes->size() - 4)
      damaged("its precompiled_charsmap is damaged");
    normal_step s{normal_step::charsmap};
    for (std::size_t at = 4; at < 4 + std::size_t{word(0)}; at += 4) s.units.push_back(word(at));
    s.texts = bytes->substr(4 + word(0));
    to_.normal.push_back(std::move(s));
  }

  void cuts(const json_node& n) {
    const std::string type = text(n, "type");
    few(to_.cuts.size());
    if (type == "Sequence") {
      each(n, "pretokenizers", [&](const json_node& x) { cuts(x); });
    } else if (type == "ByteLevel") {
      cut_step s{cut_step::bytes};
      s.prefix = flag(n, "add_prefix_space", true);
      s.split = flag(n, "use_regex", true);
      to_.cuts.push_back(s);
      to_.byte_level = true;
    } else if (type == "Split") {
      to_.cuts.push_back(split(n));
    } else if (type == "Metaspace") {
      to_.cuts.push_back(metaspace(n));
    } else if (type == "WhitespaceSplit") {
      to_.cuts.push_back({cut_step::spaces});
    } else if (type == "Digits") {
      cut_step s{cut_step::digits};
      s.split = flag(n, "individual_digits", false);
      to_.cuts.push_back(s);
    } else {
      unknown("the pre-tokenizer " + type);
    }
  }
  cut_step metaspace(const json_node& n) const {
    cut_step s{cut_step::metaspace};
    s.text = text(n, "replacement", "\xe2\x96\x81");
    if (s.text.empty()) damaged("its Metaspace has an empty replacement");
    if (s.text.find(' ') != s.text.npos) damaged("its Metaspace replaces a space by a text with a space");
    const std::string scheme = text(n, "prepend_scheme", flag(n, "add_prefix_space", true) ? "always" : "never");
    s.scheme = scheme == "always"  ? cut_step::always
               : scheme == "first" ? cut_step::first
               : scheme == "never" ? cut_step::never
                                   : (unknown("the prepend_scheme " + scheme), cut_step::never);
    s.split = flag(n, "split", true);
    return s;
  }
  cut_step split(const json_node& n) const {
    const std::string how = text(n, "behavior");
    const bool invert = flag(n, "invert", false);
    const json_node* const pattern = part(n, "pattern");
    if (!pattern) damaged("has a split without a pattern");
    const std::string regex = text(*pattern, "Regex");
    cut_step s{cut_step::literal};
    s.text = text(*pattern, "String");
    if (!s.text.empty() && !invert) {
      s.behaviour = how == "Isolated"             ? cut_step::isolated
                    : how == "Removed"            ? cut_step::removed
                    : how == "MergedWithPrevious" ? cut_step::with_previous
                    : how == "MergedWithNext"     ? cut_step::with_next
                                                  : (unknown("a split of behavior " + how), cut_step::isolated);
      return s;
    }
    s.kind = cut_step::pattern;
    static constexpr std::string_view
        gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
        first = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})",
        rest = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const std::string one = std::string(first) + std::string(rest),
                      three = std::string(first) + "{1,3}" + std::string(rest);
    s.number_run = regex == three ? 3 : regex == one ? 1 : 0;
    // These patterns match every character, so what lies between matches is nothing.
    if ((regex != gpt2 && s.number_run == 0) || !(invert ? how == "Removed" : how == "Isolated"))
      unknown("a split by \"" + (s.text.empty() ? regex : s.text) + "\" of behavior " + how +
              (invert ? ", inverted" : ""));
    return s;
  }

  void read_model(const json_node& m) {
    const std::string type = text(m, "type", part(m, "merges") ? "BPE" : "");
    if (type == "Unigram") return read_unigram(m);
    if (type != "BPE") unknown("the model " + (type.empty() ? "without a type" : type));
    if (const json_node* const n = part(m, "dropout"); n && n->number != 0) unknown("a model with dropout");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text(m, name).empty()) unknown("a model with " + std::string(name));
    to_.byte_fallback = flag(m, "byte_fallback", false);
    to_.fuse_unknown = flag(m, "fuse_unk", false);
    to_.whole_first = flag(m, "ignore_merges", false);
    const json_node* const vocabulary = part(m, "vocab");
    if (!vocabulary || vocabulary->kind != json_kind::object) damaged("has no vocabulary of texts and numbers");
    tree_.each(*vocabulary, [&](const json_node& n) {
      const std::string spelled(tree_.key_of(n));
      place(to_.byte_level ? unspelled(spelled) : spelled, token_number(n, "a token of its vocabulary"));
    });
    index_bytes();
    to_.merges = read_merges(m, false);
    if (const std::string unk = text(m, "unk_token"); !unk.empty()) {
      const auto found = to_.ids.find(unk);
      if (found == to_.ids.end()) damaged("its vocabulary does not have its unk_token");
      to_.unknown = found->second;
    }
  }
  void place(const std::string& token, std::int64_t id, char how = 1) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= ids_) damaged("it has the token " + std::to_string(id) + ", far beyond the number of its tokens");
    if (i >= to_.texts.size()) {
      to_.texts.resize(i + 1);
      to_.known.resize(i + 1);
    }
    if (to_.known[i]) damaged("two tokens are " + std::to_string(id));
    to_.known[i] = how;
    to_.texts[i] = token;
    to_.ids.emplace(token, id);
  }
  void index_bytes() {
    to_.bytes.fill(-1);
    if (to_.byte_level) {
      for (std::size_t b = 0; b < 256; ++b)
        if (const auto n = to_.ids.find(std::string(1, static_cast<char>(b))); n != to_.ids.end())
          to_.bytes[b] = n->second;
      return;
    }
    for (std::size_t i = 0; i < to_.texts.size(); ++i)
      if (const int b = byte_of(to_.texts[i]); b >= 0) to_.bytes[static_cast<std::size_t>(b)] = std::int64_t(i);
  }
  /// `plain`: without those that make special tokens.
  pair_merges read_merges(const json_node& m, bool plain) {
    pair_merges out;
    std::size_t line = 0;
    if (const json_node* const n = part(m, "merges")) out.reserve(n->count);
    each(m, "merges", [&](const json_node& n) {
      std::string a, b;
      if (n.kind == json_kind::text) {
        const std::string_view both = tree_.text_of(n);
        const std::size_t gap = both.find(' ');
        if (gap == both.npos || both.find(' ', gap + 1) != both.npos)
          damaged("merge " + std::to_string(line) + " is no pair of tokens");
        a = both.substr(0, gap), b = both.substr(gap + 1);
      } else if (n.kind == json_kind::array && n.count == 2 && tree_.at(n.first).kind == json_kind::text &&
                 tree_.at(tree_.at(n.first).next).kind == json_kind::text) {
        a = tree_.text_of(tree_.at(n.first)), b = tree_.text_of(tree_.at(tree_.at(n.first).next));
      } else {
        damaged("merge " + std::to_string(line) + " is no pair of tokens");
      }
      if (to_.byte_level) a = unspelled(a), b = unspelled(b);
      const auto first = to_.ids.find(a), second = to_.ids.find(b), both = to_.ids.find(a + b);
      if (first == to_.ids.end() || second == to_.ids.end() || both == to_.ids.end())
        damaged("merge " + std::to_string(line) + " has tokens that the vocabulary has not");
      const bool left_out = plain && to_.special[static_cast<std::size_t>(both->second)];
      if (!left_out) out.add(first->second, second->second, both->second, true);
      to_.has_special_merges = to_.has_special_merges || left_out;
      ++line;
    });
    return out;
  }
  void plain_merges(const json_node& m) {
    if (std::none_of(to_.special.begin(), to_.special.end(), [](char x) { return x != 0; })) return;
    to_.plain_merges = read_merges(m, true);
    if (!to_.has_special_merges) to_.plain_merges = {};
  }
  void read_unigram(const json_node& m) {
    to_.unigram = to_.fuse_unknown = true;
    to_.byte_fallback = flag(m, "byte_fallback", false);
    double least = 0;
    each(m, "vocab", [&](const json_node& n) {
      const bool pair = n.kind == json_kind::array && n.count == 2 && tree_.at(n.first).kind == json_kind::text &&
                        tree_.at(tree_.at(n.first).next).kind == json_kind::number;
      if (!pair || to_.texts.size() >= max_tokens)
        damaged("token " + std::to_string(to_.texts.size()) + " is no pair of a text and a score");
      const double score = tree_.at(tree_.at(n.first).next).number;
      if (!std::isfinite(score)) damaged("token " + std::to_string(to_.texts.size()) + " has no finite score");
      place(std::string(tree_.text_of(tree_.at(n.first))), static_cast<std::int64_t>(to_.texts.size()));
      to_.scores.push_back(score);
      least = to_.scores.size() == 1 ? score : std::min(least, score);
    });
    to_.unknown_score = least - 10;
    to_.unknown = whole(m, "unk_id", -1);
    if (to_.unknown >= static_cast<std::int64_t>(to_.texts.size())) damaged("its vocabulary does not have its unk_id");
    index_bytes();
  }
  void order_tokens() {
    for (std::uint32_t i = 0; i < to_.scores.size(); ++i)
      if (!to_.texts[i].empty() && !to_.special[i]) to_.order.push_back(i);
    std::stable_sort(to_.order.begin(), to_.order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return to_.texts[a] < to_.texts[b]; });
  }

  void added(const json_node& list) {
    if (list.kind != json_kind::array) damaged("its added_tokens are no list");
    tree_.each(list, [&](const json_node& n) {
      const json_node* const number = part(n, "id");
      if (!number) damaged("an added token has no id");
      added_token t;
      t.text = text(n, "content");
      t.id = token_number(*number, "the id of an added token");
      t.special = flag(n, "special", false);
      t.normalized = flag(n, "normalized", !t.special);
      t.word = flag(n, "single_word", false);
      t.left = flag(n, "lstrip", false);
      t.right = flag(n, "rstrip", false);
      if (t.text.empty()) return;
      name(t);
      if (t.normalized) t.text = normalized_text(to_.normal, t.text, more_);
      if (!t.text.empty())
        (t.normalized ? to_.normalized : to_.raw)[static_cast<unsigned char>(t.text[0])].push_back(t);
    });
    for (added_tokens* const all : {&to_.raw, &to_.normalized})
      for (auto& some : *all)
        std::stable_sort(some.begin(), some.end(),
                         [](const added_token& a, const added_token& b) { return a.text.size() > b.text.size(); });
  }
  /// An added token is one of the model's, or a new one.
  void name(const added_token& t) {
    const auto i = static_cast<std::size_t>(t.id);
    if (i >= to_.texts.size() || !to_.known[i]) place(t.text, t.id, 2);
    else if (to_.texts[i] != t.text && unspelled(to_.texts[i]) != unspelled(t.text))
      damaged("token " + std::to_string(t.id) + " is \"" + io::detail::shown(to_.texts[i]) + "\" and \"" +
              io::detail::shown(t.text) + "\"");
    if (to_.special.size() <= i) to_.special.resize(i + 1);
    to_.special[i] = t.special;
  }
  void frames(const json_node& n) {
    const std::string type = text(n, "type");
    if (type == "ByteLevel") return;
    if (type == "Sequence") return each(n, "processors", [&](const json_node& x) { frames(x); });
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      for (const char* which : {"cls", "sep"}) {
        const json_node* const pair = part(n, which);
        if (!pair || pair->kind != json_kind::array || pair->count != 2)
          damaged("its post_processor has no " + std::string(which));
        const auto id = token_number(tree_.at(tree_.at(pair->first).next), "a token of its post_processor");
        frame(id, which[0] == 'c' ? to_.before : to_.behind);
      }
      return;
    }
    if (type != "TemplateProcessing") unknown("the post-processor " + type);
    bool seen = false;
    each(n, "single", [&](const json_node& item) {
      if (++items_ > max_framed) too_long();
      if (const json_node* const s = part(item, "SpecialToken"))
        frame(n, text(*s, "id"), seen ? to_.behind : to_.before);
      else if (part(item, "Sequence") && !seen) seen = true;
      else damaged("its template is not one text among special tokens");
    });
    if (!seen) damaged("its template has no place for the text");
  }
  std::int64_t checked(std::int64_t id) const {
    const auto i = static_cast<std::size_t>(id);
    if (i >= to_.texts.size() || !to_.known[i])
      damaged("its post_processor has the token " + std::to_string(id) + ", which does not exist");
    return id;
  }
  void frame(const json_node& n, const std::string& name, std::vector<std::int64_t>& to) const {
    const json_node* const all = part(n, "special_tokens");
    const json_node* const one = all ? part(*all, name) : nullptr;
    if (!one)
      damaged("its template has the special token \"" + io::detail::shown(name) + "\", which it does not define");
    each(*one, "ids", [&](const json_node& id) { frame(token_number(id, "a token of its template"), to); });
  }
  void frame(std::int64_t id, std::vector<std::int64_t>& to) const {
    if (to_.before.size() + to_.behind.size() >= max_framed) too_long();
    to.push_back(checked(id));
  }
  [[noreturn]] void too_long() const {
    damaged("its template has more than " + std::to_string(max_framed) + " tokens");
  }

  void decoder() {
    if (const json_node* const n = part(*root_, "decoder")) decoders(*n);
    else if (!to_.byte_level) unknown("no decoder");
    to_.decoded.resize(to_.texts.size());
    for (std::size_t i = 0; i < to_.texts.size(); ++i) {
      std::string& text = to_.decoded[i] = to_.texts[i];
      const int b = to_.decode_bytes ? byte_of(text) : -1;
      for (const auto& [from, to] : to_.decode_replaced)
        if (b < 0) replace_all(text, from, to, more_);
      if (b >= 0) text = std::string(1, static_cast<char>(b));
    }
  }
  void decoders(const json_node& n) {
    const std::string type = text(n, "type");
    few(to_.decode_replaced.size());
    if (type == "ByteLevel" || type == "Fuse") {
      if (type == "ByteLevel" && !to_.byte_level) unknown("the decoder ByteLevel, and no pre-tokenizer of this kind");
    } else if (type == "Sequence") {
      each(n, "decoders", [&](const json_node& x) { decoders(x); });
    } else if (type == "ByteFallback") {
      to_.decode_bytes = true;
    } else if (type == "Metaspace") {
      const cut_step s = metaspace(n);
      to_.decode_replaced.emplace_back(s.text, " ");
      to_.decode_strip += s.scheme != cut_step::never;
    } else if (type == "Replace") {
      const json_node* const pattern = part(n, "pattern");
      const std::string from = pattern ? text(*pattern, "String") : "";
      if (from.empty()) unknown("a decoder that replaces a pattern");
      to_.decode_replaced.emplace_back(from, text(n, "content"));
    } else if (type == "Strip") {
      if (text(n, "content") != " " || whole(n, "stop", 0) != 0)
        unknown("a decoder that strips another text than spaces in front");
      to_.decode_strip += static_cast<std::size_t>(whole(n, "start", 0));
    } else {
      unknown("the decoder " + type);
    }
  }

  const std::string& path_;
  tokenizer_tables& to_;
  location at_;
  json_tree tree_;
  const json_node* root_ = nullptr;
  std::size_t ids_ = 0, items_ = 0;
  growth more_{std::size_t{1} << 26, [this] { damaged("its steps lengthen its tokens by more than 64 MiB"); }};
};

}  // namespace sinter::data::detail
