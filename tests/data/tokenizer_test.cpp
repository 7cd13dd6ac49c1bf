// Tokenizers of tokenizer.json: pair encodings and unigram models against slow ones written here, patterns against a small matcher of regular
// expressions, streams of text, and files that are refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <sinter/data.hpp>
#include <sinter/data/unicode.hpp>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"

using namespace sinter;
using data::encode_options;
using data::tokenizer;
using token_list = std::vector<std::int64_t>;

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 32) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}
tokenizer read(const std::string& json) {
  const scratch_folder folder;
  const std::string path = folder.path + "/tokenizer.json";
  std::FILE* f = std::fopen(path.c_str(), "wb");
  std::fwrite(json.data(), 1, json.size(), f);
  std::fclose(f);
  return tokenizer(path);
}
std::string said(const std::string& json) {
  try {
    read(json);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}
void check_said(const std::string& json, const std::string& part) {
  const std::string text = said(json);
  if (text.find(part) == text.npos) FAIL_CHECK("\"", text, "\" does not say \"", part, "\"");
}
std::string utf8(char32_t c) {
  const auto byte = [](char32_t x) { return static_cast<char>(static_cast<unsigned char>(x)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}
/// A byte as GPT-2 spells it: printable characters of Latin 1 as they are, the others from 256 on in order.
std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char raw : bytes) {
    const unsigned b = static_cast<unsigned char>(raw);
    const auto plain = [](unsigned x) {
      return (x >= 33 && x <= 126) || (x >= 161 && x <= 172) || (x >= 174 && x <= 255);
    };
    unsigned others = 0;
    for (unsigned x = 0; x < b; ++x) others += !plain(x);
    out += utf8(plain(b) ? b : 256 + others);
  }
  return out;
}

/// Pieces of a few kinds of characters, some of them no UTF-8.
std::string random_text(std::mt19937& r, std::size_t n, bool valid = false) {
  static const char* const some[] = {"a",
                                     "b",
                                     "s",
                                     "T",
                                     "'",
                                     "'s",
                                     "'LL",
                                     "'re",
                                     " ",
                                     "  ",
                                     "\n",
                                     "\r\n",
                                     "\t",
                                     "1",
                                     "23",
                                     "4567",
                                     "!",
                                     "?!",
                                     "\xc3\xa9",
                                     "\xe6\x97\xa5",
                                     "\xf0\x9f\x98\x80",
                                     "\xc2\xa0",
                                     "\xe2\x82\x82",
                                     "_",
                                     "ab",
                                     "ba",
                                     "aab"};
  static const char* const wrong[] = {"\xff", "\xc3", "\xe6\x97", "\x80", "\xf0\x9f\x98"};
  std::string out;
  for (std::size_t i = 0; i < n; ++i)
    out += !valid && r() % 8 == 0 ? wrong[r() % std::size(wrong)] : some[r() % std::size(some)];
  return out;
}

// ---- A pair encoding, slowly: the lowest rank anywhere, the first of it, again and again.

using pair_ranks = std::map<std::pair<std::string, std::string>, std::size_t>;
std::vector<std::string> joined(std::vector<std::string> parts, const pair_ranks& ranks) {
  for (;;) {
    std::size_t best = ranks.size(), at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      if (const auto m = ranks.find({parts[i], parts[i + 1]}); m != ranks.end() && m->second < best)
        best = m->second, at = i;
    if (best == ranks.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

struct pair_file {
  std::vector<std::string> tokens;  ///< bytes
  std::vector<std::pair<std::string, std::string>> merges;
  pair_ranks ranks;

  void merge(const std::string& a, const std::string& b) {
    if (!ranks.emplace(std::pair(a, b), ranks.size()).second) return;
    merges.emplace_back(a, b);
    if (std::find(tokens.begin(), tokens.end(), a + b) == tokens.end()) tokens.push_back(a + b);
  }
  std::int64_t id(const std::string& token) const {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  }
  /// All bytes, and random merges.
  static pair_file random(std::mt19937& r, int count) {
    pair_file f;
    for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
    for (int i = 0; i < count; ++i) {
      const auto pick = [&] {
        return r() % 2 ? f.tokens[r() % f.tokens.size()] : std::string(1, "ab s\xc3\xa9\xe6\x97\xa5"[r() % 9]);
      };
      const std::string a = pick(), b = pick();
      if (a.size() + b.size() < 6) f.merge(a, b);
    }
    return f;
  }
  std::string model(const std::string& more = "", bool pairs = false) const {
    std::string out = R"({"type": "BPE", )" + more + R"("vocab": {)";
    for (std::size_t i = 0; i < tokens.size(); ++i)
      out += (i ? ", " : "") + quoted(spelled(tokens[i])) + ": " + std::to_string(i);
    out += R"(}, "merges": [)";
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const std::string a = spelled(merges[i].first), b = spelled(merges[i].second);
      out += (i ? ", " : "") + (pairs ? "[" + quoted(a) + ", " + quoted(b) + "]" : quoted(a + " " + b));
    }
    return out + "]}";
  }
  token_list encoded(const std::string& piece) const {
    std::vector<std::string> bytes;
    for (const char c : piece) bytes.emplace_back(1, c);
    token_list out;
    for (const std::string& part : joined(bytes, ranks)) out.push_back(id(part));
    return out;
  }
};

// ---- Regular expressions, slowly: parts of a pattern are tried in order, with everything behind them.

struct code {
  std::string bytes;
  char32_t value;
};
std::vector<code> codes_of(const std::string& text) {
  std::vector<code> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = data::detail::code_at(text, at);
    out.push_back({text.substr(begin, at - begin), c});
  }
  return out;
}
using then = std::function<long(std::size_t)>;  ///< the end of the whole match, or -1
struct matcher {
  const std::vector<code>& text;

  static bool of_class(const std::string& spell, char32_t c) {
    const auto kind = data::detail::kind_of_code(c);
    bool in = false;
    const bool inverted = spell[0] == '^';
    for (std::size_t i = inverted; i < spell.size(); ++i) {
      if (spell[i] != '\\') in = in || c == static_cast<unsigned char>(spell[i]);
      else if (spell[++i] == 'p')
        in = in || kind == (spell[i + 2] == 'L' ? data::detail::code_kind::letter : data::detail::code_kind::number),
        i += 3;
      else if (spell[i] == 's') in = in || kind == data::detail::code_kind::space;
      else if (spell[i] == 'S') in = in || kind != data::detail::code_kind::space;
      else in = in || c == (spell[i] == 'r' ? U'\r' : U'\n');
    }
    return in != inverted;
  }
  long times(const std::string& spell, std::size_t at, std::size_t least, std::size_t most, const then& next) const {
    if (most > 0 && at < text.size() && of_class(spell, text[at].value))
      if (const long end = times(spell, at + 1, least ? least - 1 : 0, most - 1, next); end >= 0) return end;
    return least == 0 ? next(at) : -1;
  }
  /// A sequence of classes with quantifiers, and (?!\S) at the end.
  long sequence(const std::string& p, std::size_t i, std::size_t at, const then& next) const {
    if (i == p.size()) return next(at);
    if (p.compare(i, 6, "(?!\\S)") == 0)
      return at < text.size() && of_class("\\S", text[at].value) ? -1 : sequence(p, i + 6, at, next);
    std::size_t end = i + 1;
    std::string spell(1, p[i]);
    if (p[i] == '[') end = p.find(']', i) + 1, spell = p.substr(i + 1, end - i - 2);
    else if (p[i] == '\\') end = p[i + 1] == 'p' ? i + 5 : i + 2, spell = p.substr(i, end - i);
    std::size_t least = 1, most = 1;
    if (end < p.size() && p[end] == '?') least = 0, ++end;
    else if (end < p.size() && p[end] == '+') most = 1000, ++end;
    else if (end < p.size() && p[end] == '*') least = 0, most = 1000, ++end;
    else if (p.compare(end, 5, "{1,3}") == 0) most = 3, end += 5;
    return times(spell, at, least, most, [&](std::size_t to) { return sequence(p, end, to, next); });
  }
};
/// The pieces of a text by alternatives; `endings` come first, in any case if `folded`.
std::vector<std::string> pieces_of(const std::string& text, const std::vector<std::string>& alternatives, bool folded) {
  const auto all = codes_of(text);
  const matcher m{all};
  std::vector<std::string> out;
  for (std::size_t at = 0; at < all.size();) {
    long end = -1;
    for (const std::string ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      bool same = end < 0 && at + ending.size() <= all.size();
      for (std::size_t i = 0; same && i < ending.size(); ++i) {
        const char32_t c = all[at + i].value, e = static_cast<unsigned char>(ending[i]);
        same = c == e || (folded && (c | 32) == e && c < 128 && e > 64);
      }
      if (same) end = static_cast<long>(at + ending.size());
    }
    for (const std::string& a : alternatives)
      if (end < 0) end = m.sequence(a, 0, at, [](std::size_t to) { return static_cast<long>(to); });
    REQUIRE(end > static_cast<long>(at));
    std::string piece;
    for (; at < static_cast<std::size_t>(end); ++at) piece += all[at].bytes;
    out.push_back(piece);
  }
  return out;
}

const std::string late =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string byte_level(const std::string& model, const std::string& cuts, const std::string& more = "") {
  return R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": )" + cuts +
         R"(, "decoder": {"type": "ByteLevel"}, )" + more + R"("model": )" + model + "}";
}
const std::string gpt2_cuts =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
std::string late_cuts(const std::string& pattern) {
  return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": )" + quoted(pattern) +
         R"(}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
}

/// Llama 2's kind: characters, bytes as a last resort, a space in front.
std::string character_file(const std::vector<std::string>& tokens, const std::vector<std::string>& merges,
                           const std::string& added = "[]") {
  std::string out = R"({"added_tokens": )" + added +
                    R"(, "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}, "pre_tokenizer": null, "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2)";
  std::size_t next = 3;
  char text[16];
  for (unsigned b = 0; b < 256; ++b) {
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    out += ", " + quoted(text) + ": " + std::to_string(next++);
  }
  for (const std::string& t : tokens) out += ", " + quoted(t) + ": " + std::to_string(next++);
  out += R"(}, "merges": [)";
  for (std::size_t i = 0; i < merges.size(); ++i) out += (i ? ", " : "") + quoted(merges[i]);
  return out + "]}}";
}
const std::string llama2_added = R"([{"id": 0, "content": "<unk>", "special": true, "normalized": false},
    {"id": 1, "content": "<s>", "special": true, "normalized": false}, {"id": 2, "content": "</s>", "special": true, "normalized": false}])";

std::string unigram_file(
    const std::vector<std::pair<std::string, double>>& tokens, const std::string& more = R"("unk_id": 0)",
    const std::string& normalizer = "null",
    const std::string& cuts = R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})") {
  std::string out =
      R"({"normalizer": )" + normalizer + R"(, "pre_tokenizer": )" + cuts +
      R"(, "decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}, "model": {"type": "Unigram", )" +
      more + R"(, "vocab": [)";
  for (std::size_t i = 0; i < tokens.size(); ++i)
    out += (i ? ", [" : "[") + quoted(tokens[i].first) + ", " + std::to_string(tokens[i].second) + "]";
  return out + "]}}";
}

}  // namespace

TEST_CASE("byte-level pairs: ranks, equal ranks from the left, and both spellings of merges, against a slow encoder") {
  pair_file f;
  for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
  f.merge("b", "c");  // before ab, though ab is further to the left
  f.merge("a", "b");
  f.merge("a", "a");
  f.merge("aa", "aa");
  const tokenizer t = read(byte_level(f.model(), gpt2_cuts));
  CHECK(t.encode("abc") == token_list{97, 256});
  CHECK(t.encode("abd") == token_list{257, 100});
  CHECK(t.encode("aaa") == token_list{258, 97});
  CHECK(t.encode("aaaaa") == token_list{259, 97});
  CHECK(t.encode("") == token_list{});
  CHECK(t.decode({259, 32, 256}) == "aaaa bc");
  CHECK(t.size() == 260);
  CHECK(t.id("bc") == 256);
  CHECK(!t.find("zz"));
  CHECK_THROWS_WITH_AS(t.decode({260}), doctest::Contains("there is no token 260; they are below 260"), user_error);
  CHECK_THROWS_AS(t.decode({-1}), user_error);
  CHECK_THROWS_WITH_AS(t.id("zz"), doctest::Contains("there is no token \"zz\""), user_error);

  std::mt19937 r(1);
  for (int round = 0; round < 6; ++round) {
    const pair_file file = pair_file::random(r, 60);
    const tokenizer one = read(byte_level(file.model("", round % 2 == 1), gpt2_cuts));
    for (int i = 0; i < 60; ++i) {
      const std::string text = random_text(r, r() % 20);
      token_list want;
      for (const std::string& piece :
           pieces_of(text, {" ?\\p{L}+", " ?\\p{N}+", " ?[^\\s\\p{L}\\p{N}]+", "\\s+(?!\\S)", "\\s+"}, false))
        for (const std::int64_t id : file.encoded(piece)) want.push_back(id);
      CHECK(one.encode(text) == want);
      CHECK(one.decode(one.encode(text)) == text);
    }
  }
}

TEST_CASE("Llama 3's pattern, with three digits and with one; whole pieces before merges") {
  std::mt19937 r(2);
  const pair_file file = pair_file::random(r, 40);
  for (const bool three : {true, false}) {
    std::string pattern = late;
    if (!three) pattern.erase(pattern.find("{1,3}"), 5);
    const tokenizer t = read(byte_level(file.model(), late_cuts(pattern)));
    const std::vector<std::string> alternatives{"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+",
                                                three ? "\\p{N}{1,3}" : "\\p{N}",
                                                " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*",
                                                "\\s*[\\r\\n]+",
                                                "\\s+(?!\\S)",
                                                "\\s+"};
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_text(r, r() % 16);
      token_list want;
      for (const std::string& piece : pieces_of(text, alternatives, true))
        for (const std::int64_t id : file.encoded(piece)) want.push_back(id);
      CHECK(t.encode(text) == want);
      CHECK(t.decode(t.encode(text)) == text);
    }
  }
  // U+017F is an s in any case.
  pair_file f;
  for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
  f.tokens.push_back("'\xc5\xbf");
  f.tokens.push_back("hello");
  const std::string whole = byte_level(f.model("\"ignore_merges\": true, "), late_cuts(late));
  CHECK(read(whole).encode("hello'\xc5\xbfx") == token_list{257, 256, 120});
  CHECK(read(byte_level(f.model(), late_cuts(late))).encode("he") == token_list{104, 101});
  CHECK(read(whole).encode(" hello").size() == 6);
}

TEST_CASE("pairs of characters: bytes as a last resort, unknown runs, a space in front, special tokens, a template") {
  // 259: ▁ 260: a 261: b 262: ▁a 263: ab 264: ▁ab 265: é
  const std::vector<std::string> tokens{"▁", "a", "b", "▁a", "ab", "▁ab", "é"}, merges{"a b", "▁ a", "▁ ab"};
  const tokenizer t = read(character_file(tokens, merges, llama2_added));
  CHECK(t.encode("ab") == token_list{1, 264});
  CHECK(t.encode("ab", {.frame = false}) == token_list{264});
  CHECK(t.encode("a a") == token_list{1, 262, 262});
  CHECK(t.encode("") == token_list{1});
  CHECK(t.encode("\xe6\x97\xa5") == token_list{1, 259, 3 + 0xe6, 3 + 0x97, 3 + 0xa5});
  CHECK(t.encode("é\xff") == token_list{1, 259, 265, 3 + 0xff});
  CHECK(t.decode({1, 264, 262, 2}) == "ab a");
  CHECK(t.decode({1, 264, 2}, {.special = true}) == "<s> ab</s>");
  CHECK(t.decode(token_list{3 + 0xe6, 3 + 0x97, 3 + 0xa5}) == "\xe6\x97\xa5");
  // A special token ends a text; the texts on both of its sides get a space. It may also be plain text.
  CHECK(t.encode("a</s>a", {.frame = false}) == token_list{262, 2, 262});
  CHECK(t.encode("a</s>a", {.frame = false, .special = false}).size() == 6);
  CHECK(t.is_special(2));
  CHECK(!t.is_special(264));

  std::mt19937 r(3);
  const pair_ranks ranks{{{"a", "b"}, 0}, {{"▁", "a"}, 1}, {{"▁", "ab"}, 2}};
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(r, r() % 12);
    CHECK(t.decode(t.encode(text)) == text);
    std::vector<std::string> parts;
    if (!text.empty()) parts.push_back("▁");
    for (const code& c : codes_of(text)) parts.push_back(c.bytes == " " ? "▁" : c.bytes);
    token_list want{1};
    for (const std::string& part : joined(parts, ranks)) {
      const auto at = std::find(tokens.begin(), tokens.end(), part);
      if (at != tokens.end()) want.push_back(259 + (at - tokens.begin()));
      else
        for (const char c : part) want.push_back(3 + static_cast<unsigned char>(c));
    }
    CHECK(t.encode(text) == want);
  }

  std::string no_bytes = character_file(tokens, merges, llama2_added);
  no_bytes.replace(no_bytes.find("\"byte_fallback\": true"), 21, "\"byte_fallback\": false");
  CHECK(read(no_bytes).encode("axyza", {.frame = false}) == token_list{262, 0, 260});
  std::string apart = no_bytes;
  apart.replace(apart.find("\"fuse_unk\": true"), 16, "\"fuse_unk\": false");
  CHECK(read(apart).encode("axyza", {.frame = false}) == token_list{262, 0, 0, 0, 260});
  apart.replace(apart.find("\"<unk>\", \"fuse"), 7, "null");
  CHECK_THROWS_WITH_AS(read(apart).encode("x"),
                       doctest::Contains("there is no token for \"x\", nor one for unknown characters"), user_error);
}

TEST_CASE("unigram: the best sum of scores, ties, unknown runs, against all segmentations") {
  const std::vector<std::pair<std::string, double>> tokens{{"<unk>", 0}, {"▁", -2},  {"a", -3},     {"b", -3},
                                                           {"ab", -6},   {"▁a", -4}, {"▁ab", -7.5}, {"ba", -5.5}};
  const tokenizer t = read(unigram_file(tokens));
  CHECK(t.encode("ab") == token_list{5, 3});   // -7 beats -7.5, and ▁ + ab of -8
  CHECK(t.encode("aab") == token_list{5, 4});  // a + b of -6 ties with ab, which begins first
  CHECK(t.encode("xya") == token_list{1, 0, 2});
  CHECK(t.encode("a a") == token_list{5, 5});
  CHECK(t.encode("") == token_list{});
  CHECK(t.decode({5, 3, 5, 1}) == "ab a ");

  std::mt19937 r(4);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<std::string, double>> some{{"<unk>", 0}, {"▁", -2.5}};
    for (int i = 0; i < 12; ++i) {
      std::string token;
      for (std::size_t n = 1 + r() % 3; n > 0; --n) token += std::vector<std::string>{"a", "b", "é"}[r() % 3];
      bool known = false;
      for (const auto& s : some) known = known || s.first == token;
      if (!known) some.emplace_back(token, -1 - static_cast<double>(r() % 997) / 100.1);
    }
    double least = 0;
    for (const auto& s : some) least = std::min(least, s.second);
    const tokenizer one = read(unigram_file(some));
    std::map<std::string, double> scores(some.begin(), some.end());
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (std::size_t n = 1 + r() % 8; n > 0; --n) text += std::vector<std::string>{"a", "b", "é", "c"}[r() % 4];
      const auto codes = codes_of("▁" + text);
      double best = -1e300;
      std::function<void(std::size_t, double)> all = [&](std::size_t at, double sum) {
        if (at == codes.size()) return void(best = std::max(best, sum));
        std::string part;
        for (std::size_t end = at; end < codes.size() && end < at + 4; ++end) {
          part += codes[end].bytes;
          const auto s = scores.find(part);
          if (s != scores.end()) all(end + 1, sum + s->second);
          else if (end == at) all(end + 1, sum + least - 10);
        }
      };
      all(0, 0);
      // The sum of what it chose; a run of unknown characters is one token.
      double sum = 0;
      std::string back;
      const token_list ids = one.encode(text);
      for (const std::int64_t id : ids) sum += id == 0 ? 0 : some[static_cast<std::size_t>(id)].second;
      std::size_t unknown = 0;
      for (const auto& c : codes) unknown += !scores.contains(c.bytes);
      bool covered = true;
      for (const std::int64_t id : ids) back += id == 0 ? "*" : some[static_cast<std::size_t>(id)].first;
      std::size_t runs = 0;
      for (const std::int64_t id : ids) runs += id == 0;
      if (runs == 0) CHECK(back == "▁" + text);
      else covered = false;
      if (covered) CHECK(sum == doctest::Approx(best).epsilon(1e-5));
      else CHECK(sum + static_cast<double>(unknown) * (least - 10) <= best + 1e-3);
    }
  }
  std::string bytes;
  std::vector<std::pair<std::string, double>> with{{"<unk>", 0}, {"▁", -1}, {"a", -1}};
  char name[8];
  for (unsigned b = 0; b < 256; ++b) std::snprintf(name, sizeof name, "<0x%02X>", b), with.emplace_back(name, -20);
  std::string file = unigram_file(with, R"("unk_id": 0, "byte_fallback": true)");
  const std::string plain = R"("decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})";
  file.replace(file.find(plain), plain.size(),
               R"("decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, )" + plain.substr(11) + "]}");
  const tokenizer fallback = read(file);
  CHECK(fallback.encode("é") == token_list{1, 3 + 0xc3, 3 + 0xa9});
  for (int i = 0; i < 100; ++i) {
    const std::string text = random_text(r, r() % 10);
    // A space in front is the one that every text gets.
    CHECK(fallback.decode(fallback.encode(text)) == text.substr(text.starts_with(' ')));
  }
}

TEST_CASE(
    "normalizers and cuts: runs of spaces, strips, SentencePiece's map of characters, metaspace, digits, literals") {
  const std::vector<std::pair<std::string, double>> tokens{{"<unk>", 0}, {"▁", -1}, {"a", -1}, {"b", -1}, {"fi", -1}};
  const auto with = [&](const std::string& normalizer, const std::string& cuts) {
    return read(unigram_file(tokens, R"("unk_id": 0)", normalizer, cuts));
  };
  const std::string meta = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})";
  const tokenizer squeezed =
      with(R"({"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": false, "strip_right": true},
      {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]})",
           meta);
  CHECK(squeezed.encode("a   b \n ") == token_list{2, 1, 3});
  CHECK(squeezed.encode(" a b") == token_list{1, 2, 1, 3});
  const tokenizer left = with(R"({"type": "Strip", "strip_left": true, "strip_right": false})", meta);
  CHECK(left.encode("\xe3\x80\x80 a ") == token_list{2, 1});
  const tokenizer first =
      with("null", R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
  CHECK(first.encode("a b") == token_list{1, 2, 1, 3});
  CHECK(with("null", R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}]})")
            .encode(" a \n b ") == token_list{1, 2, 1, 3});

  // A double array of the key U+FB01 (ef ac 81), whose text is "fi". Offsets are even steps; a unit's place is its parent's offset, xored.
  std::vector<std::uint32_t> units(1024);
  const auto unit = [](std::uint32_t offset, std::uint32_t label, bool leaf) {
    return offset << 10 | (leaf ? 256u : 0u) | label;
  };
  units[0] = unit(256, 0, false);
  units[256 ^ 0xef] = unit((256 ^ 0xef) ^ 512, 0xef, false);
  units[512 ^ 0xac] = unit((512 ^ 0xac) ^ 768, 0xac, false);
  units[768 ^ 0x81] = unit((768 ^ 0x81) ^ 100, 0x81, true);
  units[100] = 1u << 31;
  std::string bytes;
  const auto word = [&](std::uint32_t x) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(x >> (8 * i) & 255);
  };
  word(4 * 1024);
  for (const auto u : units) word(u);
  bytes += std::string("fi\0", 3);
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string spell;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t x = 0;
    for (std::size_t k = 0; k < 3; ++k)
      x = x << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) spell += i + k > bytes.size() ? '=' : digits[x >> (18 - 6 * k) & 63];
  }
  const tokenizer mapped = with(R"({"type": "Precompiled", "precompiled_charsmap": ")" + spell + "\"}", meta);
  CHECK(mapped.encode("a\xef\xac\x81 b\xef\xac") == token_list{2, 4, 1, 3, 0});

  pair_file f;
  for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
  f.merge("1", "2");
  f.merge("a", "1");
  f.merge("-", "-");
  f.merge(" ", "a");
  const auto cut = [&](const std::string& step) {
    return read(
        byte_level(f.model(), R"({"type": "Sequence", "pretokenizers": [)" + step +
                                  R"(, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"));
  };
  CHECK(cut(R"({"type": "Digits", "individual_digits": true})").encode("a12") == token_list{97, 49, 50});
  CHECK(cut(R"({"type": "Digits", "individual_digits": false})").encode("a12") == token_list{97, 256});
  const auto split = [&](const std::string& how) {
    return cut(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + how + R"(", "invert": false})")
        .encode("a--1");
  };
  CHECK(split("Isolated") == token_list{97, 45, 45, 49});
  CHECK(split("Removed") == token_list{97, 49});
  CHECK(split("MergedWithPrevious") == token_list{97, 45, 45, 49});
  CHECK(split("MergedWithNext") == token_list{97, 45, 45, 49});
  std::string prefix = gpt2_cuts;
  prefix.replace(prefix.find("false"), 5, "true");
  CHECK(read(byte_level(f.model(), prefix)).encode("a") == token_list{259});
}

TEST_CASE(
    "added tokens: the longest, spaces beside them, whole words, the normalized text, tokens beyond the vocabulary") {
  pair_file f;
  for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
  const std::string added =
      R"("added_tokens": [{"id": 256, "content": "<x>", "special": true}, {"id": 257, "content": "<x>y", "special": false, "normalized": false},
    {"id": 300, "content": "<l>", "lstrip": true, "special": true}, {"id": 301, "content": "<r>", "rstrip": true, "special": true},
    {"id": 302, "content": "cat", "single_word": true, "special": false}], )";
  const tokenizer t = read(byte_level(f.model(), gpt2_cuts, added));
  CHECK(t.size() == 303);
  CHECK(t.encode("a<x>yb") == token_list{97, 257, 98});
  CHECK(t.encode("<x><x>") == token_list{256, 256});
  CHECK(t.encode("<x>", {.special = false}) == token_list{60, 120, 62});
  CHECK(t.encode("a  <l> b") == token_list{97, 300, 32, 98});
  CHECK(t.encode("a <r> \n b") == token_list{97, 32, 301, 98});
  CHECK(t.encode("cat") == token_list{302});
  CHECK(t.encode("cats") == token_list{99, 97, 116, 115});
  CHECK(t.encode("\xc3\xa9"
                 "cat")
            .size() == 5);
  CHECK(t.encode("-cat.") == token_list{45, 302, 46});
  CHECK(t.decode({256, 302, 98}) == "catb");
  CHECK_THROWS_AS(t.decode({299}), user_error);
}

TEST_CASE("a stream gives whole characters, and nothing from a stop text on") {
  std::mt19937 r(5);
  const pair_file file = pair_file::random(r, 50);
  const tokenizer t = read(byte_level(file.model(), gpt2_cuts));
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(r, 1 + r() % 12, true);
    const std::vector<std::string> stops =
        i % 2 ? std::vector<std::string>{"ab!", "\n", "b\xc3\xa9"} : std::vector<std::string>{};
    data::token_stream s(t, stops);
    std::size_t stop = text.npos;
    for (const auto& x : stops) stop = std::min(stop, text.find(x));
    std::string got;
    for (const std::int64_t id : t.encode(text)) {
      const std::string part = s.push(id);
      for (const code& c : codes_of(part)) CHECK(c.value < 0x110000);
      got += part;
    }
    CHECK(s.stopped() == (stop != text.npos));
    if (!s.stopped()) got += s.end();
    CHECK(got == text.substr(0, stop));
  }
  CHECK_THROWS_WITH_AS(data::token_stream(t, {"a", ""}), doctest::Contains("a stop text is empty"), user_error);
  data::token_stream open(t);
  CHECK(open.push(0xc3) == "");
  CHECK(open.end() == "\xc3");
  const tokenizer spaced = read(character_file({"▁", "a", "▁a"}, {"▁ a"}, llama2_added));
  data::token_stream s(spaced);
  std::string got;
  for (const std::int64_t id : {1, 261, 261, 2}) got += s.push(id);
  CHECK(got + s.end() == "a a");
}

TEST_CASE("texts of special tokens are text like any other, for each kind of model") {
  const encode_options plain{.frame = false, .special = false};
  const std::string at_three =
      R"("added_tokens": [{"id": 3, "content": "</s>", "special": true, "normalized": false}], )";
  std::string file =
      unigram_file({{"<unk>", 0}, {"▁", -2}, {"a", -3}, {"</s>", -1}, {"<", -4}, {"/s>", -4}, {"▁a", -3}});
  file.insert(1, at_three);
  const tokenizer unigram = read(file);
  CHECK(unigram.encode("a</s>") == token_list{6, 3});
  CHECK(unigram.encode("a</s>", plain) == token_list{6, 4, 5});
  CHECK(unigram.id("</s>") == 3);
  CHECK(unigram.decode({6, 3}, {.special = true}) == "a</s>");

  // Whole pieces, results of pairs, and single characters. Further pairs of a special token stay.
  pair_file f;
  for (int b = 0; b < 256; ++b) f.tokens.push_back(std::string(1, static_cast<char>(b)));
  f.merge("a", "b");   // 256
  f.merge("ab", "c");  // 257
  f.merge("c", "d");   // 258
  const std::string added = R"("added_tokens": [{"id": 256, "content": "ab", "special": true, "single_word": true},
    {"id": 120, "content": "x", "special": true}, {"id": 300, "content": "é", "single_word": true}], )";
  for (const std::string first : {"", "\"ignore_merges\": true, "}) {
    const tokenizer t = read(byte_level(f.model(first), gpt2_cuts, added));
    CHECK(t.encode("ab") == token_list{256});
    CHECK(t.encode("ab", plain) == token_list{97, 98});
    CHECK(t.encode("abc", plain) == token_list{257});
    CHECK(t.encode("abcd", plain) == token_list{257, 100});
    CHECK(t.encode("abcdab", plain) == token_list{97, 98, 258, 97, 98});
    CHECK(t.encode("dab") == token_list{100, 97, 98});
    CHECK(t.encode("é") == token_list{300});
    CHECK(t.encode("éa") == token_list{195, 169, 97});
    CHECK_THROWS_WITH_AS(t.encode("x", plain), doctest::Contains("there is no token for \"x\""), user_error);
  }
}

TEST_CASE("files that make much of little are refused") {
  const auto sequence = [](const char* list, const std::string& step, int count) {
    std::string out = R"({"type": "Sequence", ")" + std::string(list) + "\": [";
    for (int i = 0; i < count; ++i) out += (i ? ", " : "") + step;
    return out + "]}";
  };
  const std::string more =
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})";
  const std::vector<std::pair<std::string, double>> tokens{{"<unk>", 0}, {"a", -1}};
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = unigram_file(tokens);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string decoder = R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}, "model")";
  check_said(with(decoder, sequence("decoders", more, 12) + ", \"model\""), "lengthen its tokens by more than 64 MiB");
  check_said(with(decoder, sequence("decoders", more, 300) + ", \"model\""), "has more than 256 steps");
  const auto lengthens = [](const tokenizer& t, const std::string& text) {
    CHECK_THROWS_WITH_AS(t.encode(text), doctest::Contains("bytes by more than 256 MiB; give a shorter text"),
                         user_error);
  };
  const std::string many = sequence("normalizers", more, 12);
  lengthens(read(unigram_file(tokens, "\"unk_id\": 0", many)), "a");
  std::string added = unigram_file(tokens, "\"unk_id\": 0", many);
  added.insert(1, R"("added_tokens": [{"id": 2, "content": "ba", "normalized": true}], )");
  check_said(added, "lengthen its tokens by more than 64 MiB");
  const auto spaced = [&](const std::string& to) {
    return unigram_file(tokens, "\"unk_id\": 0", "null", R"({"type": "Metaspace", "replacement": ")" + to + "\"}");
  };
  lengthens(read(spaced(std::string(10000, 'b'))), std::string(30000, ' '));
  check_said(spaced("b b"), "its Metaspace replaces a space by a text with a space");

  const auto framed = [&](const std::string& ids, int items) {
    std::string single;
    for (int i = 0; i < items; ++i) single += R"({"SpecialToken": {"id": "<s>"}}, )";
    std::string text = unigram_file(tokens);
    text.insert(1, R"("post_processor": {"type": "TemplateProcessing", "single": [)" + single +
                       R"({"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [)" + ids + "]}}}, ");
    return text;
  };
  std::string ids = "0";
  for (int i = 1; i < 600; ++i) ids += ", 0";
  CHECK(read(framed(ids, 1)).encode("").size() == 600);
  check_said(framed(ids, 2), "its template has more than 1024 tokens");
  check_said(framed("", 2000), "its template has more than 1024 tokens");

  std::string far = unigram_file(tokens);
  far.insert(1, R"("added_tokens": [{"id": 9999999, "content": "b"}], )");
  check_said(far, "it has the token 9999999, far beyond the number of its tokens");
  check_said(byte_level(R"({"type": "BPE", "vocab": {"a": 9999999}, "merges": []})", gpt2_cuts),
             "the token 9999999, far");
}

TEST_CASE("what is refused: damaged files, contradictions, parts without code") {
  const std::string good = byte_level(pair_file{{"a", "b"}, {}, {}}.model(), gpt2_cuts);
  CHECK(read(good).encode("ab") == token_list{0, 1});
  CHECK_THROWS_WITH_AS(tokenizer("/nowhere/tokenizer.json"), doctest::Contains("cannot be opened"), system_error);
  for (std::size_t n = 0; n < good.size(); n += 7) CHECK_THROWS_AS(read(good.substr(0, n)), system_error);
  check_said("", "is empty");
  check_said("[1]", "is no JSON object");
  check_said("{}", "has no model");
  check_said(std::string(100000, '['), "more than 64 levels");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  check_said(with("\"a\": 0", "\"a\": 1"), "two tokens are 1");
  check_said(with("\"a\": 0", "\"a\": -1"), "a token of its vocabulary is no whole number from 0 to");
  check_said(with("\"a\": 0", "\"a\": 1e300"), "is no whole number");
  check_said(with("\"a\": 0", "\"a\": 4000000000"), "is no whole number");
  check_said(with("\"a\": 0", "\"a\": \"0\""), "is no whole number");
  check_said(with("\"merges\": []", "\"merges\": [\"a b c\"]"), "merge 0 is no pair of tokens");
  check_said(with("\"merges\": []", "\"merges\": [[\"a\"]]"), "merge 0 is no pair of tokens");
  check_said(with("\"merges\": []", "\"merges\": [\"a b\"]"), "merge 0 has tokens that the vocabulary has not");
  check_said(with("\"merges\": []", "\"merges\": 5"), "has no list \"merges\"");
  check_said(with("\"BPE\"", "\"WordPiece\""), "has the model WordPiece; encode with the program that made it");
  check_said(with("\"BPE\",", "\"BPE\", \"dropout\": 0.1,"), "a model with dropout");
  check_said(with("\"BPE\",", "\"BPE\", \"end_of_word_suffix\": \"</w>\","), "a model with end_of_word_suffix");
  check_said(with("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"), "the normalizer NFC");
  check_said(with("\"normalizer\": null",
                  "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x+\"}, \"content\": \"\"}"),
             "replaces the pattern \"x+\"");
  check_said(
      with("\"normalizer\": null", "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"////\"}"),
      "precompiled_charsmap is damaged");
  check_said(with("\"ByteLevel\", \"add", "\"BertPreTokenizer\", \"add"), "the pre-tokenizer BertPreTokenizer");
  check_said(byte_level(pair_file{{"a"}, {}, {}}.model(), late_cuts("[a-z]+")),
             "a split by \"[a-z]+\" of behavior Isolated");
  check_said(with("{\"type\": \"ByteLevel\"}", "{\"type\": \"CTC\"}"), "the decoder CTC");
  check_said(with("\"decoder\"", "\"post_processor\": {\"type\": \"Odd\"}, \"decoder\""), "the post-processor Odd");
  check_said(
      with(
          "\"decoder\"",
          R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {}}, "decoder")"),
      "has the special token \"<s>\", which it does not define");
  check_said(with("\"decoder\"", "\"added_tokens\": [{\"id\": 0, \"content\": \"z\"}], \"decoder\""),
             "token 0 is \"a\" and \"z\"");
  check_said(unigram_file({{"a", -1}}, "\"unk_id\": 1"), "does not have its unk_id");
  check_said(R"({"decoder": {"type": "Fuse"}, "model": {"type": "Unigram", "vocab": [["a"]]}})",
             "token 0 is no pair of a text and a score");
  // An empty token joins with itself, and a merge with its own result: encoding ends all the same.
  const tokenizer odd = read(with("{\"a\": 0, \"b\": 1}, \"merges\": []",
                                  R"({"": 5, "a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": ["a b", "ab a", "ab a"])"));
  CHECK(odd.encode("ababab") == token_list{2, 2, 2});
  CHECK(odd.encode("aba") == token_list{3});
  CHECK_THROWS_AS(odd.encode("c"), user_error);
}
