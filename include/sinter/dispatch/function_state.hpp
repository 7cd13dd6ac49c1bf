// dispatch/function_state.hpp: the specialisations and segments of one function: their counts, and their removal beyond the
// limits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "../base/log.hpp"
#include "../base/readers.hpp"
#include "../base/series.hpp"
#include "../engine/engine.hpp"
#include "../run/ranks.hpp"
#include "limits.hpp"
#include "segment_program.hpp"
#include "specialisation.hpp"
#include "tiers.hpp"

namespace sinter::engine::detail {

/// Calls read the table of specialisations without a lock. A set of numeric extents, with the segments that its first call
/// needs, counts like one specialisation. So does each segment that a later call adds to a set.
class function_state {
 public:
  using entry = std::shared_ptr<specialisation>;

  function_state(const options& how, location where) : how_(how), place_(how.name, where) {
    table_.store(new specialisation_table({}));
  }
  ~function_state() { delete table_.load(); }
  function_state(const function_state&) = delete;
  function_state& operator=(const function_state&) = delete;

  /// The count to decrement when the table is no longer read.
  readers::count& enter() { return readers_.enter(); }
  /// The lookup in the present table, for threads that have entered.
  specialisation* look_up(const call& c) { return table_.load()->look_up(c, clock_); }
  const series<entry>& all() const { return table_.load()->all(); }

  /// Keeps the table alive as long as this lives.
  class reading {
   public:
    explicit reading(const function_state& h) : in_(h.readers_.enter()), table_(h.table_.load()) {}
    ~reading() { in_.fetch_sub(1); }
    reading(const reading&) = delete;
    reading& operator=(const reading&) = delete;
    const specialisation_table* operator->() const { return table_; }

   private:
    readers::count& in_;
    const specialisation_table* table_;
  };

  /// look_up for a reading thread.
  specialisation* accepted(const reading& now, const call& c) { return now->look_up(c, clock_); }

  /// The number of specialisations of a kind, for arguments of some types, or for all.
  static std::size_t count(const series<entry>& all, specialisation_state kind, const void* signature = nullptr) {
    std::size_t n = 0;
    for (const auto& e : all) n += e->kind == kind && (!signature || e->when.signature() == signature);
    return n;
  }
  std::size_t most() const { return static_cast<std::size_t>(std::max(how_.recompile_limit, 1)); }

  /// The count for .recompile_limit for arguments of these types, and whether it has reached the limit.
  std::pair<std::size_t, bool> limited(const void* signature) {
    const std::lock_guard lock(mutex_);
    const std::size_t n = counted(all(), signature);
    return {n, reached(n)};
  }

  /// Adds a specialisation to the table, or replaces one if it is held, and removes the excess.
  void add(const entry& made, const specialisation* replaced = nullptr) {
    const std::lock_guard lock(mutex_);
    series<entry> next = all();
    const void* const types = made->when.signature();
    drop(next, [&](const specialisation& e) { return &e == replaced; });
    place_.set(units(next));
    if (made->kind == specialisation_state::regular)
      while (reached(counted(next, types)) && drop_counted(next, types)) {}
    else if (count(next, made->kind, types) >= most())
      drop(next, [&](const specialisation& e) { return e.kind == made->kind && e.when.signature() == types; });
    next.push_back(made);
    if (made->kind == specialisation_state::hot && bytes_of(next) > how_.recompile_bytes) return;  // they replace none
    fit(next, made.get());
    publish(std::move(next), made->kind == specialisation_state::hot ? nullptr : made.get());
  }

  /// Removes a specialisation, if given.
  void remove(const specialisation* gone) {
    if (!gone) return;
    const std::lock_guard lock(mutex_);
    series<entry> next = all();
    drop(next, [&](const specialisation& e) { return &e == gone; });
    publish(std::move(next));
  }

  /// Removes all whose captured tensors were reassigned.
  void remove_stale() {
    const std::lock_guard lock(mutex_);
    series<entry> next = all();
    erase_if(next, [](const entry& e) { return e->is_stale(); });
    publish(std::move(next));
  }

  /// Removes the excess after a specialisation has got its kernels.
  void has_grown(const specialisation* made) {
    const std::lock_guard lock(mutex_);
    fit(made);
  }

  /// Whether frequent extents get their own kernels.
  bool wants_hot_kernels() const {
    const bool may = how_.tier == tier::background || how_.dynamic == dynamic::automatic;
    return may && how_.hot_calls > 0 && !how_.deterministic && wants_kernels() && swaps();
  }
  /// Whether kernels are swapped in once they are ready. On ranks that are processes the time would decide, and the bits of values
  /// that are meant to be equal would differ.
  static bool swaps() { return !run::world().is_of_processes(); }
  tier tier_here() const { return swaps() ? how_.tier : tier::immediate; }
  bool wants_kernels() const { return engine::wants_kernels(how_.backend); }

  /// The constants that are arguments of segments of one structure; by this graph if it is the first.
  varying varying_of(std::uint64_t structure, const ir::graph& g, const series<ir::node_id>& constants) {
    const std::lock_guard lock(mutex_);
    if (constants_.size() >= max_segments) constants_.clear();
    return constants_.try_emplace(structure, g, constants).first->second;
  }
  /// Sets the varying constants of a structure.
  void varies(std::uint64_t structure, varying constants) {
    const std::lock_guard lock(mutex_);
    constants_[structure] = std::move(constants);
  }

  /// The program for the segment of a key, or null. Its frequent extents get their own kernels, made in the background.
  std::shared_ptr<const program> find(const std::string& key, std::span<const argument> inputs, device where) {
    std::shared_ptr<const program> code;
    std::shared_ptr<tracer> fixed;
    series<std::int64_t> sizes;
    {
      const std::lock_guard lock(mutex_);
      const auto at = segments_.find(key);
      if (at == segments_.end()) return nullptr;
      segment& s = at->second;
      s.used = tick();
      sizes = s.sizes_of(inputs);
      code = s.code_for(sizes);
      if (code == s.code() && current_stance == stance::normal && s.just_hot(sizes, most())) fixed = s.fixed_at(sizes);
    }
    if (fixed)
      builds.start(*fixed, inputs, where, how_, [self = self_, key, sizes](std::shared_ptr<const program> p) {
        if (const auto held = self.lock()) held->add(key, sizes, std::move(p));
      });
    return code;
  }

  /// Makes the kernels of a segment that the interpreter answers meanwhile.
  void build_later(const std::string& key, const tracer& graph, std::span<const argument> inputs, device where) {
    builds.start(graph, inputs, where, how_, [self = self_, key](std::shared_ptr<const program> p) {
      const auto held = self.lock();
      if (!held) return;
      const std::lock_guard lock(held->mutex_);
      const auto at = held->segments_.find(key);
      if (at == held->segments_.end()) return;
      for (const auto& e : held->all()) e->replace(at->second.code().get(), p);
      at->second.replace(std::move(p));
      held->fit(&at->second);
    });
  }

  /// Requests a further segment in a call with these extents; `open` is true if all sizes are as open as requested. Removes
  /// other segments as needed.
  admission admit(const std::shared_ptr<live_call>& c, const std::string& extents, bool open) {
    const std::lock_guard lock(mutex_);
    const bool evicts = how_.on_limit == on_limit::evict;
    for (const extents_set& s : sets_) {
      if (s.signature != c->signature || s.extents != extents) continue;
      const bool later = s.first.lock() != c;
      const std::uint64_t number = s.number;
      if (later && is_full()) {
        if (!evicts) return {false, true};
        drop_segment([](const segment& x) { return x.how.later; });
        place_.set(units(all()));
      }
      return {true, false, number, later};
    }
    const std::size_t n = counted(all(), c->signature);
    if (reached(n)) {
      if (!open && !evicts) return {false, n < most()};
      series<entry> next = all();
      while (reached(counted(next, c->signature)) && drop_counted(next, c->signature)) {}
      publish(std::move(next));
    }
    sets_.push_back({c->signature, extents, ++sets_made_, c});
    place_.set(units(all()));
    return {true, false, sets_made_, false};
  }

  /// Keeps a segment, unless its key has one, and removes the excess. Returns the program to run.
  std::shared_ptr<const program> keep(std::string key, segment made) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = segments_.try_emplace(std::move(key), std::move(made));
    segment& s = at->second;
    s.used = tick();
    const auto code = s.code();
    if (!is_new) return code;
    if (s.how.compiled)  // its set may have left meanwhile
      s.how.later |=
          std::none_of(sets_.begin(), sets_.end(), [&](const extents_set& x) { return x.number == s.how.set; });
    if (s.how.compiled && wants_hot_kernels()) s.watch(how_.hot_calls);
    const auto interpreted = [](const segment& x) { return !x.how.compiled; };
    if (interpreted(s) && std::count_if(segments_.begin(), segments_.end(), [&](const auto& x) {
                            return interpreted(x.second);
                          }) > limits::max_of_one_place)
      drop_segment(interpreted);
    if (segments_.size() > max_segments) drop_segment([](const segment&) { return true; });
    fit(&s);
    return code;
  }

  /// Calls use(segment) for each segment.
  template <class Use>
  void for_each_segment(Use use) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, s] : segments_) use(s);
  }

  /// True the first time: there is one warning for all limits.
  bool warn_now() { return !warned_.exchange(true); }
  /// True in the call that makes more segments than a set of extents could explain.
  bool just_many(const admission& a) {
    const std::lock_guard lock(mutex_);
    return !a.later && std::count_if(segments_.begin(), segments_.end(), [&](const auto& x) {
                         return x.second.how.compiled && x.second.how.set == a.set;
                       }) == limits::max_of_one_place;
  }

  /// Builds may outlast the function: they use `self` to check.
  void lives(std::weak_ptr<function_state> self) { self_ = std::move(self); }
  const std::weak_ptr<function_state>& self() const { return self_; }

  background_builds builds;

 private:
  /// The numeric extents of a call's tensors.
  struct extents_set {
    const void* signature = nullptr;
    std::string extents;
    std::uint64_t number = 0;
    std::weak_ptr<const live_call> first;
  };
  using segments = std::unordered_map<std::string, segment>;
  static constexpr std::size_t max_segments = 4096;

  /// Keeps a program for frequent extents, if texts leave room for it.
  void add(const std::string& key, series<std::int64_t> sizes, std::shared_ptr<const program> code) {
    const std::lock_guard lock(mutex_);
    const auto at = segments_.find(key);
    if (at == segments_.end() || at->second.code_for(sizes) != at->second.code()) return;
    if (bytes_of(all()) + code->text_bytes() > how_.recompile_bytes) return;
    at->second.add(std::move(sizes), std::move(code));
  }

  std::uint64_t tick() { return clock_.fetch_add(1, std::memory_order_relaxed) + 1; }
  bool is_full() const { return place_.total() >= limits::max_of_one_place; }
  bool reached(std::size_t n) const { return n >= most() || (n > 0 && is_full()); }

  std::size_t counted(const series<entry>& of, const void* signature) const {
    std::size_t n = count(of, specialisation_state::regular, signature);
    for (const extents_set& s : sets_) n += s.signature == signature;
    return n;
  }
  /// The function's count, without its first specialisation, in the limit of its line.
  std::size_t units(const series<entry>& of) const {
    std::size_t n = count(of, specialisation_state::regular) + sets_.size();
    for (const auto& [key, s] : segments_) n += s.how.later;
    return n;
  }

  std::size_t bytes_of(const series<entry>& of) const {
    std::size_t n = 0;
    series<const program*> counted;
    for (const auto& e : of) {
      if (e->shared) {
        const program* const p = e->shared->now.load(std::memory_order_acquire);
        if (std::find(counted.begin(), counted.end(), p) != counted.end()) continue;
        counted.push_back(p);
      }
      n += e->bytes();
    }
    for (const auto& [key, s] : segments_) n += s.bytes();
    return n;
  }

  /// Removes the least recently used until the texts fit; `made` stays.
  void fit(series<entry>& next, const void* made) {
    while (bytes_of(next) > how_.recompile_bytes) {
      const auto old = [&](const specialisation& e) { return &e != made && !e.reads_values(); };
      const auto old_one = [&](const segment& s) { return &s != made; };
      entry* const e = oldest(next, old);
      const auto s = oldest_segment(old_one);
      if (s == segments_.end() && !e) return;
      if (warn_now())
        logs::warn_once(logs::printable(how_.name) + ": specialisations take more than the " +
                        std::to_string(how_.recompile_bytes) +
                        " bytes of .recompile_bytes, the least recently used are dropped; raise it");
      if (s != segments_.end() && (!e || s->second.used < (*e)->used.load())) drop_segment(old_one);
      else drop(next, old);
    }
  }

  void fit(const void* made) {
    series<entry> next = all();
    fit(next, made);
    if (next.size() < all().size()) publish(std::move(next));
    else place_.set(units(next));
  }

  template <class Droppable>
  static entry* oldest(series<entry>& of, Droppable droppable) {
    entry* found = nullptr;
    for (auto& e : of)
      if (droppable(*e) && (!found || e->used.load() < (*found)->used.load())) found = &e;
    return found;
  }
  template <class Droppable>
  segments::iterator oldest_segment(Droppable droppable) {
    auto found = segments_.end();
    for (auto at = segments_.begin(); at != segments_.end(); ++at)
      if (droppable(at->second) && (found == segments_.end() || at->second.used < found->second.used)) found = at;
    return found;
  }

  template <class Droppable>
  void drop(series<entry>& from, Droppable droppable) {
    entry* const e = oldest(from, droppable);
    if (!e) return;
    logs::to("recompiles",
             [&] { return logs::printable(how_.name) + ": dropped the specialisation made because " + (*e)->why; });
    from.erase(e);
  }
  template <class Droppable>
  void drop_segment(Droppable droppable) {
    const auto at = oldest_segment(droppable);
    if (at == segments_.end()) return;
    const std::uint64_t set = at->second.how.set;
    logs::to("recompiles", [&] { return logs::printable(how_.name) + ": dropped a segment between graph breaks"; });
    segments_.erase(at);
    if (std::none_of(segments_.begin(), segments_.end(), [&](const auto& x) { return x.second.how.set == set; }))
      erase_if(sets_, [&](const extents_set& s) { return s.number == set; });
  }

  /// The last use of the set's segments.
  std::uint64_t used(const extents_set& of) const {
    std::uint64_t last = 0;
    for (const auto& [key, s] : segments_)
      if (s.how.set == of.number) last = std::max(last, s.used);
    return last;
  }

  /// Removes the least recently used that counts for these types: a specialisation, or a set with its segments.
  bool drop_counted(series<entry>& next, const void* signature) {
    const auto counts = [&](const specialisation& e) {
      return e.kind == specialisation_state::regular && e.when.signature() == signature;
    };
    entry* const e = oldest(next, counts);
    const extents_set* set = nullptr;
    for (const extents_set& s : sets_)
      if (s.signature == signature && (!set || used(s) < used(*set))) set = &s;
    if (!e && !set) return false;
    if (set && (!e || used(*set) < (*e)->used.load())) {
      const std::uint64_t number = set->number;
      logs::to("recompiles",
               [&] { return logs::printable(how_.name) + ": dropped the segments for extents " + set->extents; });
      for (auto at = segments_.begin(); at != segments_.end();)
        at = at->second.how.set == number ? segments_.erase(at) : std::next(at);
      erase_if(sets_, [&](const extents_set& s) { return s.number == number; });
    } else {
      drop(next, counts);
    }
    place_.set(units(next));
    return true;
  }

  /// Publishes a table; `recent`, or the present one, is the most recently used.
  void publish(series<entry> next, specialisation* recent = nullptr) {
    place_.set(units(next));
    const specialisation_table* const before = table_.load();
    if (!recent) recent = before->recent();
    const bool held = std::any_of(next.begin(), next.end(), [&](const entry& e) { return e.get() == recent; });
    auto* const table = new specialisation_table(std::move(next));
    if (held) table->touch(recent, clock_);
    table_.store(table);
    readers_.retire([before] { delete before; });
  }

  const options& how_;
  place_count place_;
  std::mutex mutex_;  ///< held during changes
  mutable readers readers_;
  std::atomic<const specialisation_table*> table_{nullptr};
  std::atomic<std::uint64_t> clock_{0};  ///< counts uses, except those of the specialisation used last
  segments segments_;
  std::unordered_map<std::uint64_t, varying> constants_;  ///< of segments, by a hash of their graphs' structure
  series<extents_set> sets_;
  std::uint64_t sets_made_ = 0;
  std::atomic<bool> warned_{false};
  std::weak_ptr<function_state> self_;
};

}  // namespace sinter::engine::detail
