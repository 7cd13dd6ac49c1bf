// dispatch/limits.hpp: the limit of a function's specialisations, and the guard that failed most often.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "../base/callback.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../base/text.hpp"
#include "../engine/engine.hpp"
#include "../guards/guard.hpp"

namespace sinter::engine::detail {

/// A failed comparison, in words.
struct failed_guard {
  mismatch what;
  std::string place;      ///< "argument 0 axis 1"
  std::string want, got;  ///< values
  bool floating = false;  ///< of a C++ number within a tree
  std::string advice;     ///< the remedy, if any

  /// A new number costs only a trace, if nothing else differs.
  bool is_number() const { return floating || what.kind == guard_kind::number; }
};

/// "argument 0 axis 1 is 37, was 36".
inline std::string text_of(const failed_guard& f) {
  if (f.got.empty()) return f.place + " differs";
  if (f.what.kind == guard_kind::relation) return f.place + ": " + f.got;
  return f.place + " is " + f.got + (f.want.empty() ? "" : ", was " + f.want);
}

/// The remedy for a C++ integer.
inline std::string advice_for(const leaf_text& l) {
  if (!l.integer) return {};
  return l.in_tree ? "make it a tensor<std::int64_t, 0>, whose value is read at each call"
                   : "write tensor<std::int64_t, 0> for the parameter, which reads the integer's value at each call";
}

inline failed_guard in_words(const mismatch& m, const guard& of, const call& c, const tracing& trace) {
  failed_guard f{m, {}, std::to_string(m.want), std::to_string(m.got), false, {}};
  const auto leaf = [&](bool of_tensors) {
    return trace.describe ? trace.describe(trace.what, m.leaf, of_tensors)
                          : leaf_text{"leaf " + std::to_string(m.leaf), {}};
  };
  switch (m.kind) {
    case guard_kind::signature:
      break;
    case guard_kind::setting:
      f.place = "autocast's dtype";
      break;
    case guard_kind::relation:
      f.place = "a relation between extents", f.want.clear();
      f.got = unmet_relation(of.given().layout, c.tensors) + " does not hold for";
      for (const argument& x : c.tensors)
        f.got += " (" +
                 text::join(std::span(x.extents, static_cast<std::size_t>(x.rank)), ", ",
                            [](auto e) { return std::to_string(e); }) +
                 ")";
      break;
    case guard_kind::value: {
      const leaf_text l = leaf(false);
      f.place = l.name, f.got = l.value, f.floating = l.floating, f.advice = advice_for(l);
      if (const leaf_text before = of.word(m.leaf); before.name == l.name && before.value != l.value)
        f.want = before.value;
      else if (f.got != f.want && f.got != std::to_string(m.got)) f.want.clear();
      break;
    }
    case guard_kind::extent:
      f.place = leaf(true).name + " axis " + std::to_string(m.axis);
      break;
    case guard_kind::stride:
      f.place = "the stride of " + leaf(true).name + " axis " + std::to_string(m.axis);
      break;
    case guard_kind::number: {
      const dtype type = c.tensors[static_cast<std::size_t>(m.leaf)].type;
      f.place = leaf(true).name, f.want = number_text(type, m.want), f.got = number_text(type, m.got);
      break;
    }
    case guard_kind::dtype:
      f.place = "the dtype of " + leaf(true).name;
      break;
    case guard_kind::alignment:
      f.place = "the address of " + leaf(true).name;
      f.want = "another remainder modulo 16 bytes", f.got = "misaligned or aligned otherwise";
      break;
    case guard_kind::device:
      f.place = "the device" + (c.tensors.empty() ? std::string() : " of " + leaf(true).name);
      f.want.clear(), f.got.clear();
      break;
  }
  return f;
}

/// The number of specialisations of all functions made at one line, beyond the first of each. A function's share changes
/// under its lock.
class place_count {
 public:
  place_count(const std::string& name, location where) {
    static std::mutex mutex;
    static auto& all = *new std::unordered_map<std::string, std::shared_ptr<std::atomic<int>>>;
    const std::lock_guard lock(mutex);
    auto& at = all[located_name(name, where)];
    if (!at) at = make_on_heap<std::atomic<int>>(0);
    total_ = at;
  }
  ~place_count() { total_->fetch_sub(mine_); }
  place_count(const place_count&) = delete;
  place_count& operator=(const place_count&) = delete;

  void set(std::size_t specialisations) {
    const int beyond = specialisations > 1 ? static_cast<int>(specialisations) - 1 : 0;
    total_->fetch_add(beyond - mine_);
    mine_ = beyond;
  }
  int total() const { return total_->load(); }

 private:
  static std::string located_name(const std::string& name, location where) {
    return name + "@" + where.file + ":" + std::to_string(where.line);
  }

  std::shared_ptr<std::atomic<int>> total_;
  int mine_ = 0;
};

/// The history of a function's misses. Used under the lock of the building thread.
class limits {
 public:
  static constexpr int max_of_one_place = 64;

  explicit limits(const options& how) : how_(how) {}

  /// Notes a guard that refused a call.
  void note(const failed_guard& f) {
    for (auto& t : tallies_)
      if (t.guard.what.kind == f.what.kind && t.guard.place == f.place) {
        ++t.times;
        if (t.values.size() < max_values && std::find(t.values.begin(), t.values.end(), f.got) == t.values.end())
          t.values.push_back(f.got);
        return;
      }
    tallies_.push_back({f, 1, {}});
    for (const std::string& value : {f.want, f.got})
      if (!value.empty()) tallies_.back().values.push_back(value);
  }

  /// "argument 0 axis 1: 37, 38, 39, ...": the guard that failed most often.
  std::string culprit() const {
    const tally* const most = most_frequent();
    if (!most) return "none; its first calls differ in types";
    std::string out = most->guard.place;
    if (most->values.empty()) return out;
    out += ": " + text::join(most->values, ", ", [](const auto& value) { return value; });
    return out + (most->values.size() == max_values ? ", ..." : "");
  }

  /// The text of the only warning, or of the error; `then` says how further calls are answered.
  std::string complaint(std::size_t specialisations, const std::string& then = "") const {
    const bool mine = static_cast<int>(specialisations) >= std::max(how_.recompile_limit, 1);
    return (mine ? "there are " + std::to_string(specialisations) +
                       " specialisations, as many as .recompile_limit allows"
                 : "this line of the program has made " + std::to_string(max_of_one_place) +
                       " specialisations beyond the first of each of its functions") +
           "; the guard that kept failing: " + culprit() + ". " + then + instead() +
           "all it with fewer distinct values" + (mine ? ", or raise .recompile_limit" : "") +
           (how_.on_limit == on_limit::evict ? "" : ", or say .on_limit = on_limit::evict");
  }

 private:
  static constexpr std::size_t max_values = 8;
  struct tally {
    failed_guard guard;
    int times = 0;
    series<std::string> values;
  };

  const tally* most_frequent() const {
    const tally* most = nullptr;
    for (const auto& t : tallies_)
      if (!most || t.times > most->times) most = &t;
    return most;
  }

  /// "Make it a tensor, …, or c", or "C".
  std::string instead() const {
    const tally* const most = most_frequent();
    std::string what = most ? most->guard.advice : "";
    if (what.empty()) return "C";
    what[0] = static_cast<char>(what[0] - 'a' + 'A');
    return what + "; or c";
  }

  const options& how_;
  series<tally> tallies_;
};

}  // namespace sinter::engine::detail
