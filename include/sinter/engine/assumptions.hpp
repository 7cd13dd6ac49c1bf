// engine/assumptions.hpp: what a trace leaves open, and what it took as given of the call that it was made for.
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

/// One extent of a call's tensors, or with axis -1 the value of a number.
struct fact_of {
  int tensor = 0;
  int axis = 0;
  bool operator==(const fact_of&) const = default;
};

/// Extents that are equal in the traced call: factor·s + offset for the symbol s<index in size_layout::sizes>, which is at
/// least 2 and at most `most`; or what other symbols give; or a number after all.
struct open_size {
  series<fact_of> extents;
  std::int64_t number = 0;  ///< the extent in the traced call
  std::int64_t factor = 1, offset = 0;
  std::int64_t most = std::int64_t{1} << 62;
  bool derived = false;  ///< the extent is `value`: of other symbols, or a number
  ir::dim value;
  int narrowings = 0;  ///< how often factor and offset changed
  std::string why;     ///< why it is less open than asked for; empty: it is as open
  location where;

  /// The symbol's value in the traced call.
  std::int64_t hint() const { return derived ? 0 : (number - offset) / factor; }
  bool is_fixed() const { return derived && value.is_number(); }
  /// The extent, where the symbol is s<k>.
  SINTER_API ir::dim in_symbols(int k) const;
};

/// A relation between sizes that the traced function asked for: value = 0, or value > 0, or not.
struct size_guard {
  ir::dim value;
  bool positive = false;
  bool holds = true;
  location where;
};

/// How one tensor lies: its axes from the slowest to the fastest without gaps between them, or at fixed strides.
struct tensor_layout {
  int rank = 0, first = 0;  ///< its axes are numbers first… of all tensors' axes
  bool open = false;        ///< has an extent that is not a number
  bool dense = false;
  series<int> order;  ///< of a dense one
};

/// The extents and strides of a call's tensors as far as a specialisation fixes them; no sizes: they are all numbers.
struct size_layout {
  series<open_size> sizes;
  series<tensor_layout> tensors;
  series<std::int64_t> extents, strides;  ///< of the traced call, all tensors' axes one after another
  series<int> size_of_axis;               ///< per axis an index into `sizes`, or -1: a number
  series<size_guard> guards;

  bool any_open() const {
    for (const auto& s : sizes)
      if (!s.is_fixed()) return true;
    return false;
  }
};

/// What a trace shall leave open.
struct trace_request {
  series<fact_of> open;  ///< extents and numbers that become inputs of the specialisation
  size_layout layout;
  /// Called when the function reads its first value: it must not run again for this call, and may wait for other calls of it.
  const sinter::detail::callback<void()>* on_read = nullptr;
  std::string beyond = {};  ///< why no more segments are compiled for such a function; empty: they are
  bool may_read = true;     ///< otherwise reading a value is an error
};

/// A number that the traced function turned into a C++ value: it holds for that value alone.
struct specialised {
  fact_of what;
  std::uint64_t bits = 0;  ///< of the value
  location where;
};

/// An extent that is less open than a trace was asked to leave it.
struct narrowed_size {
  fact_of what;
  std::string how;  ///< "fixed at 64", "at least 5"
  std::string why;
  location where;
};

/// What a trace took as given.
struct assumptions {
  series<fact_of> open;  ///< extents that it did not fix
  series<specialised> values;
  size_layout layout;  ///< with open sizes it tells all that is to be known of extents and strides
  series<narrowed_size> narrowed;

  bool is_open(fact_of x) const {
    for (const auto& o : open)
      if (o == x) return true;
    return false;
  }
};

/// Whether a call satisfies what goes beyond equal layouts. Where the layout has open sizes, this is the whole check of
/// extents and strides.
SINTER_API bool holds(const assumptions& given, const call& c);

/// The values that a call gives to the symbols: one per size of the layout. False when it does not fit.
SINTER_API bool bind_sizes(const size_layout& layout, std::span<const argument> tensors, std::int64_t* sizes);

/// The layout of a specialisation that a call fits, to ask a trace of this call for: its sizes are as open, and what the function asks of
/// them is answered for this call.
SINTER_API size_layout laid_out_for(const call& c, size_layout of);

/// Traces a call with the extents of `layout` open. What the function asks of them that no symbol can give fixes them: then
/// it runs again. assumed.layout of the result says what came of it. `beyond`, `may_read` and `on_read` are those of the requests.
SINTER_API traced trace_sizes(const call& c, const tracing& t, size_layout layout, const std::string& beyond = {},
                              bool may_read = true, const sinter::detail::callback<void()>& on_read = {});

}  // namespace sinter::engine
