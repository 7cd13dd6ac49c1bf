// assumptions.hpp: what a trace leaves open, and what it took as given of the call that it was made for.
#pragma once

#include <cstdint>

#include "base/config.hpp"
#include "base/location.hpp"
#include "base/series.hpp"

namespace sinter::engine {

struct call;

/// One extent of a call's tensors, or with axis -1 the value of a number.
struct fact_of {
  int tensor = 0;
  int axis = 0;
  bool operator==(const fact_of&) const = default;
};

/// What a trace shall leave open.
struct trace_request {
  series<fact_of> open;  ///< extents that become symbols
};

/// A number that the traced function turned into a C++ value: it holds for that value alone.
struct specialised {
  fact_of what;
  std::uint64_t bits = 0;  ///< of the value
  location where;
};

/// What a trace took as given.
struct assumptions {
  series<fact_of> open;  ///< extents that it did not fix
  series<specialised> values;

  bool is_open(fact_of x) const {
    for (const auto& o : open)
      if (o == x) return true;
    return false;
  }
};

/// Whether a call satisfies what goes beyond equal layouts.
SINTER_API bool holds(const assumptions& given, const call& c);

}  // namespace sinter::engine
