// guards/sizes.hpp: whether a call's extents and strides fit a specialisation, the values of its symbols, and the open
// extents of a function.
#pragma once

#include <mutex>

#include "../base/local_list.hpp"
#include "../engine/engine.hpp"

namespace sinter::engine {

/// The extents of one function's arguments that become symbols. Thread-safe. (trace/sizes.hpp)
class size_policy {
 public:
  /// The layout to request in a trace of this call. Records the call's extents unless it is `tentative`: a call that may be
  /// refused.
  SINTER_API size_layout layout_for(const call& c, dynamic how, bool tentative = false);

 private:
  struct seen {
    const void* signature = nullptr;
    series<std::int64_t> extents;  ///< of the first call
    series<char> varies;
    series<std::int64_t> divisor;  ///< common divisor of all extents so far
  };
  static constexpr std::size_t max_seen = 64;
  std::mutex mutex_;
  series<seen> seen_;
};

namespace detail {

using size_list = sinter::detail::local_list<std::int64_t, 32>;

/// The symbols' values for a call that is known to fit.
inline void read_sizes(const size_layout& layout, std::span<const argument> tensors, std::int64_t* sizes) {
  for (const open_size& s : layout.sizes) {
    const fact_of from = s.extents[0];
    const std::int64_t e = tensors[static_cast<std::size_t>(from.tensor)].extents[from.axis] - s.offset;
    *sizes++ = s.derived ? 0 : s.factor == 1 ? e : e / s.factor;
  }
}

inline bool lies_as(const tensor_layout& t, const std::int64_t* strides, const argument& x) {
  if (!t.dense) return std::equal(strides, strides + x.rank, x.strides);
  std::int64_t step = 1;
  for (std::size_t i = t.order.size(); i-- > 0;) {
    const int a = t.order[i];
    if (x.extents[a] == 1) continue;
    if (x.strides[a] != step) return false;
    step *= x.extents[a];
  }
  return true;
}

}  // namespace detail

SINTER_API bool bind_sizes(const size_layout& layout, std::span<const argument> tensors, std::int64_t* sizes) {
  if (tensors.size() != layout.tensors.size()) return false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const tensor_layout& t = layout.tensors[i];
    const argument& x = tensors[i];
    if (x.rank != t.rank) return false;
    const auto first = static_cast<std::size_t>(t.first);
    for (int a = 0; a < x.rank; ++a)
      if (const std::size_t at = first + static_cast<std::size_t>(a);
          layout.size_of_axis[at] < 0 && x.extents[a] != layout.extents[at])
        return false;
    if (!detail::lies_as(t, layout.strides.data() + first, x)) return false;
  }
  const auto extent = [&](fact_of f) { return tensors[static_cast<std::size_t>(f.tensor)].extents[f.axis]; };
  bool derived = false;
  for (std::size_t k = 0; k < layout.sizes.size(); ++k) {
    const open_size& s = layout.sizes[k];
    const std::int64_t e = extent(s.extents[0]);
    for (const fact_of& f : s.extents)
      if (extent(f) != e) return false;
    sizes[k] = 0;
    derived |= s.derived;
    if (s.derived) continue;
    const std::int64_t above = e - s.offset;
    if (above < 2 * s.factor || e > s.most) return false;
    sizes[k] = s.factor == 1 ? above : above / s.factor;
    if (sizes[k] * s.factor != above) return false;
  }
  const std::span<const std::int64_t> bound(sizes, layout.sizes.size());
  // Guards first, in their order: a divisor is shown to be positive before the quotient is used.
  for (const size_guard& g : layout.guards) {
    const std::int64_t v = g.value.evaluate(bound);
    if ((g.positive ? v > 0 : v == 0) != g.holds) return false;
  }
  for (std::size_t k = 0; derived && k < layout.sizes.size(); ++k)
    if (const open_size& s = layout.sizes[k]; s.derived && s.value.evaluate(bound) != extent(s.extents[0]))
      return false;
  return true;
}

namespace detail {

/// The result of bind_sizes, without the sizes.
inline bool sizes_hold(const size_layout& layout, std::span<const argument> tensors) {
  size_list sizes(layout.sizes.size());
  return bind_sizes(layout, tensors, sizes.data());
}

}  // namespace detail
}  // namespace sinter::engine
