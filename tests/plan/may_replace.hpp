// tests/plan/may_replace.hpp: what plan::replacements says of one operand and one result.
#pragma once

#include <algorithm>

#include <sinter/plan/memory.hpp>

/// True when result `output` may be written over operand `input`, of equal dtype and extents and row-major.
inline bool may_replace(const sinter::engine::plan::replacements& known, int input, int output) {
  const auto at = known.written_at(output);
  if (!at) return false;
  const auto in_place = known.read_in_place(output);
  return known.free_from(input) <= *at || std::find(in_place.begin(), in_place.end(), input) != in_place.end();
}
