// dispatch/specialisation.hpp: a set of assumptions with its program, and a function's table of these.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../engine/backends.hpp"
#include "../engine/engine.hpp"
#include "../guards/guard.hpp"
#include "captures.hpp"
#include "hot_extents.hpp"
#include "varying_numbers.hpp"

namespace sinter::engine::detail {

/// The reason for a specialisation.
enum class specialisation_state : std::uint8_t {
  regular,
  interpreted,  ///< made beyond the limit: the interpreter answers
  native,       ///< the function reads values: calls run it again, in segments
  refused,      ///< a native one beyond the limit: no segment is compiled for it
  hot,          ///< replaces one with open extents, for frequent extents
  supplied,     ///< differs from another only in C++ numbers: their shared kernels take them at each call
};

struct specialisation : served {
  specialisation(guard g, std::shared_ptr<const void> tree, std::string reason, specialisation_state k)
      : when(std::move(g)), skeleton(std::move(tree)), why(std::move(reason)), kind(k) {}

  /// Whether a tensor that it captured by reference was reassigned.
  bool is_stale() const { return watch && watch->is_stale(); }
  bool reads_values() const { return kind == specialisation_state::native || kind == specialisation_state::refused; }

  report describe(bool reasons = false) const {
    report out;
    if (const program* const p = now.load(std::memory_order_acquire)) {
      out = reasons ? p->explain() : p->describe();
    } else {
      const std::lock_guard lock(reading_);
      segments_run all = did_;
      for (const noted& n : segments_)
        if (auto q = n.alive.lock()) all.programs.push_back(std::move(q));
      out = all.describe(reasons);
    }
    if (out.problem.empty() && out.backend == interpreter) out.problem = beyond;
    return out;
  }

  /// The bytes of its texts; a native one's segments are counted separately.
  std::size_t bytes() const {
    const program* const p = now.load(std::memory_order_acquire);
    return p ? p->text_bytes() : 0;
  }

  /// For a native one: records a call. Programs are shown as long as the function holds them.
  void note(const segments_run& did) {
    const std::lock_guard lock(reading_);
    erase_if(segments_, [](const noted& n) { return n.alive.expired(); });
    for (const auto& p : did.programs)
      if (segments_.size() < max_noted &&
          std::none_of(segments_.begin(), segments_.end(), [&](const noted& n) { return n.code == p.get(); }))
        segments_.push_back({p.get(), p});
    did_.add(did);
  }

  /// For a native one: replaces a program.
  void replace(const program* old, const std::shared_ptr<const program>& code) {
    const std::lock_guard lock(reading_);
    for (noted& n : segments_)
      if (n.code == old) n = {code.get(), code};
  }

  /// For a native one: the sizes that a call keeps open; none if the function has needed numbers.
  size_layout opened(size_layout wanted) {
    const std::lock_guard lock(reading_);
    if (did_.closes.why.empty()) return wanted;
    segments_run fixed;
    for (const open_size& s : wanted.sizes)
      for (const fact_of& f : s.extents)
        fixed.narrowed.push_back({f, "fixed at " + std::to_string(s.number), did_.closes.why, did_.closes.where});
    did_.add(fixed);
    return {};
  }

  /// Sizes that are less open than requested.
  series<narrowed_size> narrowed() const {
    series<narrowed_size> all = when.given().narrowed;
    const std::lock_guard lock(reading_);
    all.insert(all.end(), did_.narrowed.begin(), did_.narrowed.end());
    return all;
  }

  const guard when;
  const std::shared_ptr<const void> skeleton;
  const std::string why;
  const specialisation_state kind;
  std::string beyond;                       ///< why kernels are missing, or not ready yet
  std::atomic<std::uint64_t> used{0};       ///< when the specialisation last became the most recently used
  std::shared_ptr<hot_extents> warmth;      ///< for open extents: the frequent extents, which get their own kernels
  std::shared_ptr<constant_family> family;  ///< if the specialisation compares floating C++ numbers
  std::shared_ptr<const shared_kernels> shared;  ///< for supplied kernels
  std::shared_ptr<const capture_watch> watch;    ///< if the specialisation captures tensors which other handles hold

 private:
  struct noted {
    const program* code = nullptr;
    std::weak_ptr<const program> alive;
  };
  static constexpr std::size_t max_noted = 256;
  mutable std::mutex reading_;
  segments_run did_;  ///< without programs
  series<noted> segments_;
};

/// The table that callers read: replaced as a whole when specialisations change.
class specialisation_table {
 public:
  explicit specialisation_table(series<std::shared_ptr<specialisation>> entries) : all_(std::move(entries)) {
    std::size_t room = 4;
    while (room < 2 * all_.size()) room *= 2;
    slots_.resize(room, nullptr);
    for (const auto& e : all_) {
      hot_ = hot_ || e->kind == specialisation_state::hot;
      if (!e->when.exact()) {
        open_.push_back(e.get());
        continue;
      }
      std::size_t at = e->when.hash() & (room - 1);
      while (slots_[at]) at = (at + 1) & (room - 1);
      slots_[at] = e.get();
    }
  }

  struct count_nothing {
    void operator()() const {}
  };

  /// The specialisation that accepts a call, or null: the most recently used one, else one with the call's hash, else one
  /// with open extents. `checked` is called for every guard that is checked.
  template <class Checked = count_nothing>
  specialisation* look_up(const call& c, std::atomic<std::uint64_t>& clock, Checked checked = {}) const {
    const auto accepts = [&](const specialisation* e) {
      checked();
      return e->when.accepts(c);
    };
    specialisation* const last = recent_.load(std::memory_order_acquire);
    specialisation* found = last && accepts(last) ? last : nullptr;
    if (found && (!hot_ || found->when.exact())) return found;
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t hash = hash_of(c);
    for (std::size_t at = hash & mask; slots_[at]; at = (at + 1) & mask)
      if (slots_[at] != last && slots_[at]->when.hash() == hash && accepts(slots_[at])) {
        found = slots_[at];
        break;
      }
    for (std::size_t i = 0; !found && i < open_.size(); ++i)
      if (open_[i] != last && accepts(open_[i])) found = open_[i];
    if (found && found != last) touch(found, clock);
    return found;
  }

  /// Makes it the most recently used one.
  void touch(specialisation* e, std::atomic<std::uint64_t>& clock) const {
    e->used.store(clock.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    recent_.store(e, std::memory_order_release);
  }

  const series<std::shared_ptr<specialisation>>& all() const { return all_; }
  specialisation* recent() const { return recent_.load(std::memory_order_acquire); }

 private:
  series<std::shared_ptr<specialisation>> all_;
  series<specialisation*> slots_;  ///< exact ones by hash; a power of two, at least half empty
  series<specialisation*> open_;   ///< those with open extents
  bool hot_ = false;               ///< some replace an open one
  mutable std::atomic<specialisation*> recent_{nullptr};
};

}  // namespace sinter::engine::detail
