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

/// The text of a unit of several printed kernels, each in a namespace with its own macros.
SINTER_API std::string unit_text(std::span<const std::string* const> sources) {
  std::string out;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    out.append("namespace unit_").append(std::to_string(i)).append(" {\n").append(named_text(*sources[i]));
    out += "\n}\n";
    for (const auto name : macros_of(*sources[i])) out.append("#undef ").append(name).append("\n");
  }
  return out;
}

/// The greatest number of kernels in a unit: all wait for the last, and loading one loads all.
inline constexpr std::size_t most_in_unit = 8;

/// The indexes of texts, by unit: as many units as are compiled at the same time, or more if those would be too large.
/// Starting a compiler takes longer than compiling a small kernel. Units have about equal lengths; users' texts are alone.
SINTER_API series<series<std::size_t>> units_of(std::span<const std::string* const> sources, std::size_t side_by_side) {
  series<std::size_t> printed, length;
  series<series<std::size_t>> units, alone;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (entry_suffix(*sources[i]).empty()) alone.push_back({i});
    else printed.push_back(i);
  std::stable_sort(printed.begin(), printed.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a]->size() > sources[b]->size(); });
  units.resize(std::min(printed.size(), std::max(side_by_side, (printed.size() + most_in_unit - 1) / most_in_unit)));
  length.resize(units.size());
  for (const std::size_t i : printed) {
    std::size_t best = units.size();
    for (std::size_t u = 0; u < units.size(); ++u)
      if (units[u].size() < most_in_unit && (best == units.size() || length[u] < length[best])) best = u;
    units[best].push_back(i);
    length[best] += sources[i]->size();
  }
  units.insert(units.end(), alone.begin(), alone.end());
  return units;
}

}  // namespace detail
}  // namespace sinter::engine::run
