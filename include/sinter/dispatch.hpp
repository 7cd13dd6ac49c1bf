// dispatch.hpp: guards: which specialisation of a compiled function accepts a call.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/log.hpp"
#include "base/series.hpp"
#include "engine.hpp"

namespace sinter::engine {

namespace detail {

/// What a specialisation assumes: everything that the trace and the plan took as given.
class guard {
 public:
  guard(const call& c, assumptions given)
      : signature_(c.signature),
        where_(c.where),
        setting_(c.setting),
        statics_(c.statics.begin(), c.statics.end()),
        given_(std::move(given)) {
    for (const auto& t : c.tensors) {
      layout_.push_back(kernel_facts(t));
      layout_.insert(layout_.end(), t.extents, t.extents + t.rank);
      layout_.insert(layout_.end(), t.strides, t.strides + t.rank);
    }
  }

  bool accepts(const call& c) const {
    if (c.signature != signature_ || !(c.where == where_) || c.setting != setting_) return false;
    if (c.statics.size() != statics_.size()) return false;
    if (!std::equal(statics_.begin(), statics_.end(), c.statics.begin())) return false;
    const std::int64_t* want = layout_.data();
    const std::int64_t* const end = want + layout_.size();
    for (const auto& t : c.tensors) {
      if (end - want < 1 + 2 * t.rank || *want++ != kernel_facts(t)) return false;
      for (int d = 0; d < t.rank; ++d)
        if (want[d] != t.extents[d] || want[t.rank + d] != t.strides[d]) return false;
      want += 2 * t.rank;
    }
    return want == end && holds(given_, c);
  }

 private:
  const void* signature_;
  device where_;
  std::uint64_t setting_;
  series<std::uint64_t> statics_;
  series<std::int64_t> layout_;  ///< per tensor: kernel_facts, extents, strides
  assumptions given_;
};

class specialisations final : public function {
 public:
  explicit specialisations(options how) : how_(std::move(how)) {}

  specialisation find(const call& c, tracing trace) override {
    if (auto hit = look_up(c); hit.code) return hit;
    const std::lock_guard one_build(building_);
    if (auto hit = look_up(c); hit.code) return hit;
    logs::to("recompiles", [&] { return how_.name + ": no guard accepts " + describe(c); });
    traced t = trace.run(trace.what, {});
    guard when(c, t.graph->assumed);
    entry made{std::move(when), {build(std::move(t.graph), c.tensors, how_, c.where, &shared_), std::move(t.skeleton)}};
    const specialisation result = made.what;
    const std::lock_guard lock(mutex_);
    entries_.insert(entries_.begin(), std::move(made));
    if (static_cast<int>(entries_.size()) > std::max(how_.recompile_limit, 1)) {
      logs::warn_once(how_.name + " has more than " + std::to_string(how_.recompile_limit) +
                      " specialisations; the least recently used is dropped. Raise .recompile_limit, or call it with "
                      "fewer distinct shapes.");
      entries_.pop_back();
    }
    return result;
  }

  const options& how() const override { return how_; }

  report last() const override {
    const std::lock_guard lock(mutex_);
    return entries_.empty() ? report{} : entries_.front().what.code->describe();
  }

  explanation explain() const override {
    const std::lock_guard lock(mutex_);
    explanation out;
    out.name = how_.name;
    for (const auto& e : entries_) out.specialisations.push_back({"", {}, e.what.code->describe()});
    return out;
  }

  std::size_t size() const override {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct entry {
    guard when;
    specialisation what;
  };

  specialisation look_up(const call& c) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].when.accepts(c)) continue;
      if (i > 0)
        std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(i),
                    entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return entries_.front().what;
    }
    return {};
  }

  static std::string describe(const call& c) {
    std::string out;
    for (const auto& t : c.tensors) {
      out += std::string(out.empty() ? "" : ", ") + sinter::name(t.type) + "(";
      for (int d = 0; d < t.rank; ++d) out += (d ? ", " : "") + std::to_string(t.extents[d]);
      out += ")";
    }
    return out;
  }

  options how_;
  mutable std::mutex mutex_;  ///< guards entries_
  std::mutex building_;       ///< held while a specialisation is made
  series<entry> entries_;     ///< most recently used first
  std::shared_ptr<void> shared_;
};

}  // namespace detail

SINTER_API bool holds(const assumptions& given, const call& c) {
  for (const specialised& v : given.values) {
    if (v.what.axis >= 0) continue;
    const argument& x = c.tensors[static_cast<std::size_t>(v.what.tensor)];
    std::uint64_t bits = 0;
    std::memcpy(&bits, x.data, size_of(x.type));
    if (bits != v.bits) return false;
  }
  return true;
}

SINTER_API std::shared_ptr<function> make_function(const options& how) {
  return std::make_shared<detail::specialisations>(how);
}

}  // namespace sinter::engine
