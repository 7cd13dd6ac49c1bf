// dispatch/mismatch.hpp: the differences of a call from specialisations, and the specialisations that differ only in C++
// numbers.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "../engine/engine.hpp"
#include "limits.hpp"
#include "specialisation.hpp"

namespace sinter::engine::detail {

/// The differences from the most recently used specialisation for the call's types; empty if there is none.
inline series<failed_guard> failed_guards(const series<std::shared_ptr<specialisation>>& held, const call& c,
                                          const tracing& trace) {
  const specialisation* last = nullptr;
  for (const auto& e : held)
    if (e->when.signature() == c.signature && (!last || e->used.load() > last->used.load())) last = e.get();
  series<failed_guard> out;
  if (!last) return out;
  constexpr std::size_t max_told = 16;
  for (const auto& m : last->when.differences(c)) {
    failed_guard f = in_words(m, last->when, c, trace);
    if (out.empty() || text_of(out.back()) != text_of(f)) out.push_back(std::move(f));  // else another word of one text
    if (out.size() == max_told) break;
  }
  return out;
}

/// The reason why no specialisation accepts the call.
inline std::string reason(const series<failed_guard>& failed) {
  if (failed.empty()) return "the first call with arguments of these types";
  return text::join(failed, "; ", [](const auto& f) { return text_of(f); });
}

/// "; make it a tensor<std::int64_t, 0>, …" for the first that has a remedy.
inline std::string advice(const series<failed_guard>& failed) {
  for (const auto& f : failed)
    if (!f.advice.empty()) return "; " + f.advice;
  return {};
}

/// Specialisations from which the call differs only in floating C++ numbers, the most recently used first.
inline series<specialisation*> differing_in_numbers(const series<std::shared_ptr<specialisation>>& held, const call& c,
                                                    const tracing& trace) {
  series<specialisation*> out;
  const auto is_number = [&](const mismatch& m) {
    if (m.kind == guard_kind::number) return true;
    return m.kind == guard_kind::value && trace.describe && trace.describe(trace.what, m.leaf, false).floating;
  };
  for (const auto& e : held) {
    if (!e->family || !holds(e->when.given(), c)) continue;
    const auto all = e->when.differences(c);
    if (std::all_of(all.begin(), all.end(), is_number)) out.push_back(e.get());
  }
  sort_stably(out, [](const auto* a, const auto* b) { return a->used.load() > b->used.load(); });
  return out;
}

/// The extents for which their kernels may already exist: the call's own if these are frequent, then extents as open as in
/// the specialisation used last. Coincidences of the call's extents (a batch as wide as the layer) are ignored.
inline series<size_layout> layouts_of(const series<specialisation*>& differing, const call& c) {
  series<size_layout> out;
  if (std::any_of(differing.begin(), differing.end(), [](const auto* e) { return e->family->frequent; }))
    out.emplace_back();
  const auto open = std::find_if(differing.begin(), differing.end(), [](const auto* e) { return !e->when.exact(); });
  if (open != differing.end()) out.push_back(laid_out_for(c, (*open)->when.given().layout));
  return out;
}

/// The warning when C++ numbers alone have made a third graph with `open` open extents, besides those of `differing`; or "".
inline std::string several_graphs(const series<failed_guard>& failed, const series<specialisation*>& differing,
                                  std::size_t open) {
  const constant_family* one = nullptr;
  bool several = false;
  for (const specialisation* e : differing) {
    if (e->family->open != open) continue;
    several = several || (one && one != e->family.get());
    one = e->family.get();
  }
  const auto* const f = std::find_if(failed.begin(), failed.end(), [](const auto& x) { return x.is_number(); });
  if (!several || f == failed.end()) return {};
  const std::string graphs = ", and its values have made several graphs, each with kernels of its own; ";
  return f->place +
         (f->what.kind == guard_kind::number
              ? " becomes a C++ number in the function" + graphs +
                    "take it as auto or as tensor<float, 0> and compute with it as with a tensor"
              : " is a C++ number within a tree" + graphs + "make it a tensor<float, 0>, or an argument of its own");
}

}  // namespace sinter::engine::detail
