// run/build/unit.hpp: joins kernel texts into the text for one run of a compiler, in which every entry has its own name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "../../base/config.hpp"
#include "../../base/entry.hpp"
#include "../../base/series.hpp"
#include "../../base/text.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// The position of `entry`'s definition in a printed text; npos in users' texts.
inline std::size_t definition_of(std::string_view entry, std::string_view source) {
  const std::size_t at = source.find(std::string(entry).append("("));
  return at != std::string_view::npos && at > 0 && source[at - 1] == ' ' ? at : std::string_view::npos;
}

/// The suffix of entry names in the image of a printed text, because images may have several texts. Empty for other texts.
SINTER_API std::string entry_suffix(std::string_view source) {
  for (const char* entry : {kernel_entry, finish_entry})
    if (definition_of(entry, source) != std::string_view::npos)
      return "_" + text::hex(digest_of(without_places(source)).first);
  return "";
}

/// The name in an image of `entry` in a text with this suffix.
inline std::string name_in_image(const std::string& entry, const std::string& suffix) {
  return entry == kernel_entry || entry == finish_entry ? entry + suffix : entry;
}

namespace detail {

/// The text with its entries named as in its image.
SINTER_API std::string named_text(std::string_view source) {
  std::string out(source);
  const std::string suffix = entry_suffix(source);
  for (const std::string entry : {kernel_entry, finish_entry})
    if (const std::size_t at = definition_of(entry, out); at != std::string::npos)
      out.insert(at + entry.size(), suffix);
  return out;
}

/// False if an image lacks an entry that the text defines: a compiler may report success without output.
SINTER_API bool has_entries(std::string_view image, std::string_view source) {
  const std::string suffix = entry_suffix(source);
  for (const std::string entry : {kernel_entry, finish_entry})
    if (definition_of(entry, source) != std::string_view::npos && image.find(entry + suffix) == std::string_view::npos)
      return false;
  return true;
}

/// The macros that a text defines, in lines that begin with #define.
SINTER_API series<std::string_view> macros_of(std::string_view source) {
  constexpr std::string_view directive = "\n#define ";
  series<std::string_view> out;
  for (std::size_t at = 0; (at = source.find(directive, at)) != std::string_view::npos;) {
    at += directive.size();
    const std::string_view name = source.substr(at, source.find_first_of(" (\n", at) - at);
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

/// A printed text: the parts of the prelude, in order, and its own functions. Texts whose functions are not behind
/// `using namespace sx` have no parts.
struct text_parts {
  series<std::string_view> prelude;
  std::string_view own;
};

SINTER_API text_parts split_prelude(std::string_view text) {
  constexpr std::string_view closes = "}  // namespace sx\n", uses = "}  // namespace sx\nusing namespace sx;\n";
  text_parts out{{}, text};
  if (text.find(uses) == std::string_view::npos) return out;
  out.own.remove_prefix(std::min(text.find('\n') + 1, text.size()));  // the label differs from text to text
  for (std::size_t end; (end = out.own.find(closes)) != std::string_view::npos;) {
    out.prelude.push_back(out.own.substr(0, end + closes.size()));
    out.own.remove_prefix(end + closes.size());
  }
  return out;
}

/// The distinct parts of several preludes, in an order that agrees with each prelude; empty if no order does.
SINTER_API series<std::string_view> merged_preludes(series<series<std::string_view>> rest) {
  series<std::string_view> out;
  const auto is_later = [&](std::string_view part) {
    return std::any_of(rest.begin(), rest.end(),
                       [&](const auto& r) { return !r.empty() && std::find(r.begin() + 1, r.end(), part) != r.end(); });
  };
  for (bool found = true; found;) {
    found = false;
    for (const auto& r : rest) {
      if (r.empty() || is_later(r.front())) continue;
      found = true;
      out.push_back(r.front());
      break;
    }
    for (auto& r : rest)
      if (found && !r.empty() && r.front() == out.back()) r.erase(r.begin());
  }
  const bool all = std::all_of(rest.begin(), rest.end(), [](const auto& r) { return r.empty(); });
  return all ? out : series<std::string_view>{};
}

inline void undefine_macros(std::string_view source, std::string& out) {
  for (const auto name : macros_of(source)) out.append("#undef ").append(name).append("\n");
}

/// The text of a unit of several printed kernels. Kernels whose vectors have the same lanes are in one namespace that has
/// their prelude once: the compiler reads it once, and instantiates each of its templates once. Each kernel has a namespace
/// of its own in it, and its own macros.
SINTER_API std::string unit_text(std::span<const std::string* const> sources) {
  series<std::string> named;
  for (const auto* s : sources) named.push_back(named_text(*s));
  series<text_parts> parts;
  series<series<std::size_t>> groups;
  for (std::size_t i = 0; i < named.size(); ++i) {
    parts.push_back(split_prelude(named[i]));
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      const auto& first = parts[g[0]].prelude;
      return !first.empty() && !parts[i].prelude.empty() && first[0] == parts[i].prelude[0];
    });
    if (same == groups.end()) groups.push_back({i});
    else same->push_back(i);
  }
  std::string out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    series<series<std::string_view>> preludes;
    for (const std::size_t i : groups[g]) preludes.push_back(parts[i].prelude);
    std::string prelude;
    for (const auto part : merged_preludes(preludes)) prelude.append(part);
    out.append("namespace group_").append(std::to_string(g)).append(" {\n").append(prelude);
    for (const std::size_t i : groups[g]) {
      out.append("namespace unit_").append(std::to_string(i)).append(" {\n").append(parts[i].own).append("\n}\n");
      undefine_macros(parts[i].own, out);
    }
    out += "}\n";
    undefine_macros(prelude, out);
  }
  return out;
}

/// The greatest number of kernels in a unit: all wait for the last, and loading one loads all.
inline constexpr std::size_t max_in_unit = 32;

/// The texts of a unit, and an estimate of the time to compile them.
struct unit_plan {
  series<std::size_t> texts;
  series<std::string_view> prelude;  ///< distinct parts
  std::size_t length = 0;

  std::size_t length_with(const text_parts& t) const {
    constexpr std::size_t own = 8;  // a character of a kernel costs about as much as eight of the prelude
    std::size_t out = length + own * t.own.size();
    for (const auto part : t.prelude)
      if (std::find(prelude.begin(), prelude.end(), part) == prelude.end()) out += part.size();
    return out;
  }
  void add(std::size_t i, const text_parts& t) {
    length = length_with(t);
    texts.push_back(i);
    for (const auto part : t.prelude)
      if (std::find(prelude.begin(), prelude.end(), part) == prelude.end()) prelude.push_back(part);
  }
};

/// The indexes of texts, by unit: as many units as are compiled at the same time, or more if those would be too large.
/// Starting a compiler takes longer than compiling a small kernel, and texts of a unit share their prelude. Units take
/// about equally long; users' texts are alone.
SINTER_API series<series<std::size_t>> units_of(std::span<const std::string* const> sources, std::size_t side_by_side) {
  series<std::size_t> printed;
  series<series<std::size_t>> out, alone;
  series<text_parts> parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    parts.push_back(split_prelude(*sources[i]));
    if (entry_suffix(*sources[i]).empty()) alone.push_back({i});
    else printed.push_back(i);
  }
  std::stable_sort(printed.begin(), printed.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a]->size() > sources[b]->size(); });
  series<unit_plan> units(
      std::min(printed.size(), std::max(side_by_side, (printed.size() + max_in_unit - 1) / max_in_unit)));
  for (const std::size_t i : printed) {
    unit_plan* best = nullptr;
    for (auto& u : units)
      if (u.texts.size() < max_in_unit && (best == nullptr || u.length_with(parts[i]) < best->length_with(parts[i])))
        best = &u;
    best->add(i, parts[i]);
  }
  for (auto& u : units)
    if (!u.texts.empty()) out.push_back(std::move(u.texts));
  out.insert(out.end(), alone.begin(), alone.end());
  return out;
}

}  // namespace detail
}  // namespace sinter::engine::run
