// engine/assumptions.hpp: the parts of a call that a trace leaves open, and the assumptions that it makes about the call.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"
#include "../ir/dim.hpp"
#include "options.hpp"

namespace sinter::engine {

struct call;
struct argument;
struct tracing;
struct traced;

/// An extent of a call's tensors; with axis -1, the value of a number.
struct fact_of {
  int tensor = 0;
  int axis = 0;
  bool operator==(const fact_of&) const = default;
};

/// Extents that are equal in the traced call: factor·s + offset for the symbol s<index in size_layout::sizes>, which is at
/// least 2 and at most `most`. Or a value of other symbols, or a number after all.
struct open_size {
  series<fact_of> extents;
  std::int64_t number = 0;  ///< the extent in the traced call
  std::int64_t factor = 1, offset = 0;
  std::int64_t most = std::int64_t{1} << 62;
  bool derived = false;  ///< the extent is `value`: a function of other symbols, or a number
  ir::dim value;
  int narrowings = 0;  ///< number of changes of factor and offset
  std::string why;     ///< why it is less open than requested; empty if it is not
  location where;

  /// The symbol's value in the traced call.
  std::int64_t hint() const { return derived ? 0 : (number - offset) / factor; }
  bool is_fixed() const { return derived && value.is_number(); }
  /// The extent, for the symbol s<k>.
  SINTER_API ir::dim in_symbols(int k) const;
};

/// A relation between sizes that the traced function asked for: whether value = 0, or whether value > 0.
struct size_guard {
  ir::dim value;
  bool positive = false;
  bool holds = true;
  location where;
};

/// The layout of one tensor: its axes from the slowest to the fastest without gaps, or fixed strides.
struct tensor_layout {
  int rank = 0, first = 0;  ///< the index of its first axis among all tensors' axes
  bool open = false;        ///< has an extent that is not a number
  bool dense = false;
  series<int> order;  ///< of a dense tensor
};

/// The extents and strides of a call's tensors that a specialisation fixes; without sizes, all are numbers.
struct size_layout {
  series<open_size> sizes;
  series<tensor_layout> tensors;
  series<std::int64_t> extents, strides;  ///< of the traced call, all tensors' axes one after another
  series<int> size_of_axis;               ///< for each axis an index into `sizes`, or -1 for a number
  series<size_guard> guards;

  bool any_open() const {
    for (const auto& s : sizes)
      if (!s.is_fixed()) return true;
    return false;
  }
};

/// The parts of a call that a trace shall leave open.
struct trace_request {
  series<fact_of> open;  ///< extents and numbers that become inputs of the specialisation
  size_layout layout;
  /// Called when the function reads its first value. The function must not run again for this call, and may wait for its
  /// other calls.
  const sinter::detail::callback<void()>* on_read = nullptr;
  std::string beyond = {};  ///< why no more segments are compiled for such a function; empty if they are
  bool may_read = true;     ///< otherwise reading a value is an error
};

/// A number that the traced function converted to a C++ value: the trace holds only for that value.
struct specialised {
  fact_of what;
  std::uint64_t bits = 0;  ///< of the value
  location where;
};

/// An extent that is less open than requested.
struct narrowed_size {
  fact_of what;
  std::string how;  ///< "fixed at 64", "at least 5"
  std::string why;
  location where;
};

/// The assumptions of a trace.
struct assumptions {
  series<fact_of> open;  ///< extents that the trace did not fix
  series<specialised> values;
  size_layout layout;  ///< with open sizes, it has all facts about extents and strides
  series<narrowed_size> narrowed;

  bool is_open(fact_of x) const {
    for (const auto& o : open)
      if (o == x) return true;
    return false;
  }
};

/// Whether a call satisfies the assumptions beyond equal layouts. If the layout has open sizes, this is the whole check of
/// extents and strides.
SINTER_API bool holds(const assumptions& given, const call& c);

/// The values of the symbols in a call, one for each size of the layout. False if the call does not fit.
SINTER_API bool bind_sizes(const size_layout& layout, std::span<const argument> tensors, std::int64_t* sizes);

/// The layout of a specialisation that a call fits, as a request for a trace of this call. Its sizes are as open, and
/// comparisons of sizes are answered for this call.
SINTER_API size_layout laid_out_for(const call& c, size_layout of);

/// Traces a call with the extents of `layout` open. A question about sizes that symbols cannot answer fixes them, and the
/// trace runs again. assumed.layout of the result has the outcome. `beyond`, `may_read` and `on_read` are members of the
/// requests.
SINTER_API traced trace_sizes(const call& c, const tracing& t, size_layout layout, const std::string& beyond = {},
                              bool may_read = true, const sinter::detail::callback<void()>& on_read = {});

}  // namespace sinter::engine
