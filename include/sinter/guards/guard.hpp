// guards/guard.hpp: the assumptions of a specialisation about a call, checked without branches that a hit does not need.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../base/text.hpp"
#include "../engine/engine.hpp"
#include "relations.hpp"

namespace sinter::engine::detail {

/// The kinds of comparisons.
enum class guard_kind : std::uint8_t {
  signature,
  device,
  setting,
  value,
  dtype,
  alignment,
  extent,
  stride,
  number,
  relation
};

inline const char* name(guard_kind k) {
  constexpr const char* names[] = {"types",     "device", "setting", "value",  "dtype",
                                   "alignment", "extent", "stride",  "number", "relation"};
  return names[static_cast<int>(k)];
}

/// A comparison that failed: for a tensor's leaf, its axis, or the leaf-th word of the other arguments.
struct mismatch {
  guard_kind kind = guard_kind::signature;
  int leaf = -1;
  int axis = -1;
  std::int64_t want = 0, got = 0;
};

/// The bits of a number in host memory.
inline std::uint64_t bits_at(const argument& x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, x.data, size_of(x.type));
  return bits;
}

/// A number's value from its bits.
inline std::string number_text(dtype type, std::int64_t bits) {
  std::string out;
  visit_dtype(type, [&]<class T>(std::type_identity<T>) {
    T x;
    std::memcpy(static_cast<void*>(&x), &bits, sizeof x);
    if constexpr (std::is_same_v<T, double>) out = text::number(x);
    else if constexpr (is_float(dtype_of<T>)) out = text::number(static_cast<float>(x));
    else out = std::to_string(x);
  });
  return out;
}

/// The leaves of the first words of a call's statics, with values.
inline series<leaf_text> words_of(const call& c, const tracing& trace) {
  constexpr std::size_t max_words = 64;
  series<leaf_text> out;
  for (std::size_t i = 0; trace.describe && i < std::min(c.statics.size(), max_words); ++i)
    out.push_back(trace.describe(trace.what, static_cast<int>(i), false));
  return out;
}

/// Words are mixed independently, not in a chain.
class word_hash {
 public:
  void mix(std::uint64_t word) {
    step_ += 0x9e3779b97f4a7c15u;
    const std::uint64_t m = (word ^ step_) * 0xff51afd7ed558ccdu;
    sum_ += m ^ m >> 32;
  }
  void mix(std::span<const argument> tensors) {
    for (const auto& t : tensors) {
      mix(static_cast<std::uint64_t>(kernel_facts(t)));
      for (int d = 0; d < t.rank; ++d) mix(static_cast<std::uint64_t>(t.extents[d]));
      for (int d = 0; d < t.rank; ++d) mix(static_cast<std::uint64_t>(t.strides[d]));
    }
  }
  std::uint64_t value() const { return sum_ ^ sum_ >> 29; }

 private:
  std::uint64_t sum_ = 0, step_ = 0x9e3779b97f4a7c15u;
};

/// The hash of the tensors' extents and layouts.
inline std::uint64_t hash_of_extents(const call& c) {
  word_hash h;
  h.mix(c.tensors);
  return h.value();
}

/// The hash of all values that a guard without open extents compares, except specialised numbers and relations.
inline std::uint64_t hash_of(const call& c) {
  word_hash h;
  h.mix(reinterpret_cast<std::uintptr_t>(c.signature));
  h.mix(c.setting);
  h.mix(static_cast<std::uint64_t>(c.where.index) << 1 | c.where.is_cuda());
  for (const auto word : c.statics) h.mix(word);
  h.mix(c.tensors);
  return h.value();
}

/// Guards that tests disable, as bits 1 << guard_kind, to prove that they are needed. A hit does not read it.
inline std::atomic<unsigned>& ignored_guards() {
  static std::atomic<unsigned> ignored{0};
  return ignored;
}

/// All assumptions of the trace and the plan about a call.
class guard {
 public:
  guard(const call& c, assumptions given, series<leaf_text> words = {})
      : signature_(c.signature),
        where_(c.where),
        setting_(c.setting),
        statics_(c.statics.begin(), c.statics.end()),
        tensors_(c.tensors.size()),
        given_(std::move(given)),
        hash_(hash_of(c)),
        exact_(given_.open.empty()),
        plain_(exact_ && given_.values.empty()),
        words_(std::move(words)) {
    for (std::size_t i = 0; i < tensors_; ++i) {
      const argument& t = c.tensors[i];
      ranks_.push_back(t.rank);
      std::int64_t open = 0;
      for (int d = 0; d < t.rank; ++d) open |= std::int64_t{given_.is_open({static_cast<int>(i), d})} << d;
      layout_.push_back(kernel_facts(t));
      layout_.push_back(open && is_row_major(t) ? open | follows : open);
      layout_.insert(layout_.end(), t.extents, t.extents + t.rank);
      layout_.insert(layout_.end(), t.strides, t.strides + t.rank);
    }
  }

  /// For a function that runs again at each call: types, device, setting and leaves that are not tensors; floating numbers
  /// may have any value.
  guard(series<leaf_text> words, const call& c)
      : signature_(c.signature),
        where_(c.where),
        setting_(c.setting),
        statics_(c.statics.begin(), c.statics.end()),
        tensors_(c.tensors.size()),
        hash_(0),
        exact_(false),
        plain_(true),
        layouts_(false),
        words_(std::move(words)) {}

  /// The check of every call.
  bool accepts(const call& c) const {
    return check(c, [](const mismatch&) { return false; });
  }

  /// All differences of a call, as far as they can be compared.
  series<mismatch> differences(const call& c) const {
    series<mismatch> all;
    check(c, [&](const mismatch& m) {
      all.push_back(m);
      return true;
    });
    return all;
  }

  /// Whether a layout with open sizes accepts the extents and strides of the call that this guard was made for.
  bool is_within(const size_layout& open) const {
    series<argument> tensors(tensors_);
    const std::int64_t* of = layout_.data();
    for (std::size_t i = 0; i < tensors_; ++i) {
      argument& t = tensors[i];
      t.rank = ranks_[i];
      t.extents = of + 2;
      t.strides = t.extents + t.rank;
      of = t.strides + t.rank;
    }
    series<std::int64_t> sizes(open.sizes.size());
    return bind_sizes(open, {tensors.data(), tensors.size()}, sizes.data());
  }

  /// One line for each condition.
  series<std::string> in_words() const {
    series<std::string> lines;
    if (!layouts_) lines.push_back("tensors of any extents");
    const std::int64_t* want = layout_.data();
    series<dtype> types;
    for (std::size_t i = 0; i < tensors_ && layouts_; ++i) {
      const std::int64_t facts = want[0], open = want[1];
      types.push_back(static_cast<dtype>(facts >> fact_dtype & 0xff));
      const int rank = ranks_[i];
      std::string line = "tensor " + std::to_string(i) + ": " + sinter::dtype_name(types.back()) + " (";
      for (int d = 0; d < rank; ++d)
        line += (d ? ", " : "") + (open >> d & 1 ? extent_in_words(given_.layout, {static_cast<int>(i), d})
                                                 : std::to_string(want[2 + d]));
      line += ")";
      if (open & follows) line += ", row-major";
      for (int d = 0; d < rank && !(open & follows); ++d)
        line += (d ? ", " : ", strides ") + std::to_string(want[2 + rank + d]);
      if (static_cast<device::kind>(facts & 0xff) == device::kind::cuda)
        line += ", on a GPU" + std::string(facts >> fact_aligned & 1 ? ", 16-byte aligned" : ", not 16-byte aligned");
      lines.push_back(line);
      want += 2 + 2 * rank;
    }
    for (auto& line : relations_in_words(given_.layout)) lines.push_back(std::move(line));
    series<std::string> words;
    for (std::size_t i = 0; i < statics_.size(); ++i) {
      std::string word = std::to_string(as_signed(statics_[i]));
      if (!words_.empty()) word = i < words_.size() ? words_[i].name + " is " + words_[i].value : "...";
      if (is_any(i)) continue;
      if (words.empty() || words.back() != word) words.push_back(std::move(word));
    }
    if (!words.empty())
      lines.push_back("numbers, flags, lengths and text by value: " +
                      text::join(words, ", ", [](const auto& w) { return w; }));
    for (const auto& v : given_.values) {
      if (v.what.axis >= 0) continue;
      const dtype type = types[static_cast<std::size_t>(v.what.tensor)];
      lines.push_back(sinter::detail::located(
          "tensor " + std::to_string(v.what.tensor) + " is " + number_text(type, as_signed(v.bits)) + ", by value",
          v.where));
    }
    return lines;
  }

  /// The leaf of a word of the statics, if known.
  leaf_text word(int i) const {
    const auto at = static_cast<std::size_t>(i);
    return at < words_.size() ? words_[at] : leaf_text{};
  }

  /// True if it accepts calls of only one hash.
  bool exact() const { return exact_; }
  std::uint64_t hash() const { return hash_; }
  const assumptions& given() const { return given_; }
  const void* signature() const { return signature_; }

 private:
  static constexpr std::int64_t follows = 1 << 8;  ///< strides are row-major for any extents

  /// Whether all comparisons agree. `go_on(mismatch)` is called at each difference.
  template <class GoOn>
  bool check(const call& c, GoOn&& go_on) const {
    bool same = true;
    const auto differs = [&](guard_kind kind, std::size_t leaf, int axis, auto want, auto got) {
      same = false;
      return !go_on(
          {kind, static_cast<int>(leaf), axis, static_cast<std::int64_t>(want), static_cast<std::int64_t>(got)});
    };
    if (c.signature != signature_) return differs(guard_kind::signature, 0, -1, 0, 0) && false;
    if (c.setting != setting_ && differs(guard_kind::setting, 0, -1, setting_, c.setting)) return false;
    if (!(c.where == where_) && differs(guard_kind::device, 0, -1, code_of(where_), code_of(c.where))) return false;
    // Lengths of vectors and strings precede their elements, so the first difference is at an equal place.
    for (std::size_t i = 0; i < statics_.size() && i < c.statics.size(); ++i)
      if (statics_[i] != c.statics[i] && !is_any(i) && differs(guard_kind::value, i, -1, statics_[i], c.statics[i]))
        return false;
    if (statics_.size() != c.statics.size() || tensors_ != c.tensors.size()) return false;
    if (!layouts_) return same;
    const std::int64_t* want = layout_.data();
    for (std::size_t i = 0; i < tensors_; ++i) {
      const argument& t = c.tensors[i];
      const std::int64_t got = kernel_facts(t);
      if (want[0] != got && differs(kind_of(want[0] ^ got), i, -1, want[0], got)) return false;
      const std::int64_t open = want[1];
      const std::int64_t *extents = want + 2, *strides = extents + t.rank;
      want = strides + t.rank;
      std::int64_t off = open;
      for (int d = 0; d < t.rank; ++d) off |= (extents[d] ^ t.extents[d]) | (strides[d] ^ t.strides[d]);
      if (!off) continue;
      for (int d = 0; d < t.rank; ++d)
        if (extents[d] != t.extents[d] && !(open >> d & 1) &&
            differs(guard_kind::extent, i, d, extents[d], t.extents[d]))
          return false;
      if (open & follows) {
        if (!is_row_major(t) && differs(guard_kind::stride, i, 0, strides[0], t.strides[0])) return false;
        continue;
      }
      if (open) continue;  // strides depend on extents: holds() checks them
      for (int d = 0; d < t.rank; ++d)
        if (strides[d] != t.strides[d] && differs(guard_kind::stride, i, d, strides[d], t.strides[d])) return false;
    }
    if (plain_) return same;
    for (const specialised& v : given_.values) {
      if (v.what.axis >= 0) continue;
      const auto leaf = static_cast<std::size_t>(v.what.tensor);
      const std::uint64_t bits = bits_at(c.tensors[leaf]);
      if (bits != v.bits && differs(guard_kind::number, leaf, -1, v.bits, bits)) return false;
    }
    if (same && !holds(given_, c)) differs(guard_kind::relation, 0, -1, 0, 0);
    return same;
  }

  /// Whether a word of the statics may have any value.
  bool is_any(std::size_t word) const { return !layouts_ && word < words_.size() && words_[word].floating; }

  static guard_kind kind_of(std::int64_t difference) {
    if (difference >> fact_dtype & 0xff) return guard_kind::dtype;
    return difference == 1 << fact_aligned ? guard_kind::alignment : guard_kind::device;
  }
  static std::int64_t as_signed(std::uint64_t x) { return static_cast<std::int64_t>(x); }
  static std::int64_t code_of(device where) { return std::int64_t{where.index} << 1 | where.is_cuda(); }

  const void* signature_;
  device where_;
  std::uint64_t setting_;
  series<std::uint64_t> statics_;
  std::size_t tensors_;
  series<int> ranks_;
  series<std::int64_t> layout_;  ///< per tensor: kernel_facts, the open axes, extents, strides
  assumptions given_;
  std::uint64_t hash_;
  bool exact_, plain_;
  bool layouts_ = true;      ///< extents and strides are compared
  series<leaf_text> words_;  ///< the leaves of the first words of statics_, for messages
};

}  // namespace sinter::engine::detail
