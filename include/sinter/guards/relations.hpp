// guards/relations.hpp: the conditions of a specialisation on open extents, in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../engine/engine.hpp"

namespace sinter::engine::detail {

inline std::string text_of(const size_guard& g) {
  return g.value.text() + (g.positive ? (g.holds ? " > 0" : " <= 0") : (g.holds ? " = 0" : " != 0"));
}

/// An open extent, in symbols.
inline std::string extent_in_words(const size_layout& l, fact_of f) {
  const int axis = l.tensors[static_cast<std::size_t>(f.tensor)].first + f.axis;
  const int k = l.size_of_axis[static_cast<std::size_t>(axis)];
  return l.sizes[static_cast<std::size_t>(k)].in_symbols(k).text();
}

/// The bounds of the extents of symbol k.
inline series<std::string> bounds_of(const size_layout& l, std::size_t k) {
  const open_size& s = l.sizes[k];
  const std::string extent = s.in_symbols(static_cast<int>(k)).text();
  series<std::string> out{extent + " >= " + std::to_string(2 * s.factor + s.offset)};
  if (s.most < std::int64_t{1} << 62) out.push_back(extent + " <= " + std::to_string(s.most));
  return out;
}

/// All conditions that the extents' own expressions do not show, one line for each.
inline series<std::string> relations_in_words(const size_layout& l) {
  series<std::string> out;
  for (std::size_t k = 0; k < l.sizes.size(); ++k)
    if (!l.sizes[k].derived)
      for (auto& line : bounds_of(l, k)) out.push_back(std::move(line));
  for (const size_guard& g : l.guards) out.push_back(text_of(g));
  return out;
}

/// The first condition of bind_sizes that a call does not meet.
inline std::string unmet_relation(const size_layout& l, std::span<const argument> tensors) {
  const auto name = [](fact_of f) {
    return "size(" + std::to_string(f.axis) + ") of tensor " + std::to_string(f.tensor);
  };
  const auto extent = [&](fact_of f) { return tensors[static_cast<std::size_t>(f.tensor)].extents[f.axis]; };
  series<std::int64_t> symbols(l.sizes.size());
  for (std::size_t k = 0; k < l.sizes.size(); ++k) {
    const open_size& s = l.sizes[k];
    const std::int64_t e = extent(s.extents[0]), above = e - s.offset;
    for (const fact_of& f : s.extents)
      if (extent(f) != e) return name(s.extents[0]) + " = " + name(f);
    if (s.derived) continue;
    if (above < 2 * s.factor) return bounds_of(l, k)[0];
    if (e > s.most) return bounds_of(l, k)[1];
    symbols[k] = above / s.factor;
    if (symbols[k] * s.factor != above) return name(s.extents[0]) + " = " + s.in_symbols(static_cast<int>(k)).text();
  }
  const std::span<const std::int64_t> bound(symbols.data(), symbols.size());
  for (const size_guard& g : l.guards) {
    const std::int64_t v = g.value.evaluate(bound);
    if ((g.positive ? v > 0 : v == 0) != g.holds) return text_of(g);
  }
  for (const open_size& s : l.sizes)
    if (s.derived && s.value.evaluate(bound) != extent(s.extents[0]))
      return name(s.extents[0]) + " = " + s.value.text();
  return "the layout in memory";
}

}  // namespace sinter::engine::detail
