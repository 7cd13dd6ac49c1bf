// dispatch/dispatch.hpp: selects the specialisation that answers a call, or makes one.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "../base/callback.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../base/text.hpp"
#include "../engine/engine.hpp"
#include "../guards/guard.hpp"
#include "../guards/sizes.hpp"
#include "../guards/values.hpp"
#include "captures.hpp"
#include "function_state.hpp"
#include "limits.hpp"
#include "mismatch.hpp"
#include "shared_kernels.hpp"
#include "specialisation.hpp"

namespace sinter::engine {

namespace detail {

/// Calls read a table without a lock; misses make specialisations one at a time.
class dispatcher final : public function, public std::enable_shared_from_this<dispatcher> {
 public:
  dispatcher(const options& how, location where) : how_(how), where_(where), limits_(how_), held_(how_, where) {}

  found find(const call& c, const tracing& trace) override {
    readers::count& in = held_.enter();
    if (specialisation* const e = held_.look_up(c); e && !e->is_stale()) {
      found hit = answer(e, in);
      if (e->warmth) watch(*e, c, trace);
      return hit;
    }
    in.fetch_sub(1);
    return miss(c, trace, held_.tier_here());
  }

  void answered(const call& c, const segments_run& did) override {
    const function_state::reading now(held_);
    for (const auto& e : now->all())
      if (e->reads_values() && e->when.accepts(c)) return e->note(did);
  }

  trace_request segment_request(const call& c) override {
    trace_request wanted;
    wanted.layout = sizes_.layout_for(c, how_.dynamic, current_stance != stance::normal);
    if (!wanted.layout.any_open()) wanted.layout = {};
    const function_state::reading now(held_);
    for (const auto& e : now->all()) {
      if (!e->reads_values() || !e->when.accepts(c)) continue;
      wanted.beyond = e->beyond;
      if (wanted.layout.any_open()) wanted.layout = e->opened(std::move(wanted.layout));
      break;
    }
    return wanted;
  }

  function_state& held() override { return held_; }

  void prepare(const call& c, const tracing& trace) override {
    miss(c, trace, tier::immediate);
    wait_ready();
  }

  size_layout open_sizes(const call& c, const tracing& trace) override {
    const std::lock_guard one_build(building_);
    const function_state::reading now(held_);
    const specialisation* const e = answering(now, c, trace).first;
    return e && !e->when.exact() ? laid_out_for(c, e->when.given().layout) : size_layout{};
  }

  std::shared_ptr<void> take_numbers(const call& c, const tracing& trace, traced& t,
                                     series<argument>& inputs) override {
    const std::lock_guard one_build(building_);
    const function_state::reading now(held_);
    const auto [e, accepts] = answering(now, c, trace);
    if (!t.graph->has_scalars || (accepts && !e->shared)) return nullptr;
    const numbered n(t, c, how_);
    const bool known = e && e->family->structure == n.structure;
    varying numbers(n.graph, n.constants);
    if (known) numbers = accepts ? e->shared->constants : e->family->constants;
    if (known && !accepts) numbers.note(n.graph, n.constants);
    auto open = make_on_heap<opened_numbers>(n.graph, numbers.of(n.constants), t.graph->captures.size(), c.tensors);
    t.graph->graph = open->graph;
    inputs = open->inputs;
    return open;
  }

  void wait_ready() override { held_.builds.wait(); }
  const options& how() const override { return how_; }

  report last() const override {
    const function_state::reading now(held_);
    const specialisation* const e = now->recent();
    return e ? e->describe() : report{};
  }

  explanation explain() const override {
    const function_state::reading now(held_);
    explanation out;
    out.name = how_.name;
    series<const specialisation*> order;
    for (const auto& e : now->all()) order.push_back(e.get());
    sort_stably(order, [](const auto* a, const auto* b) { return a->used.load() > b->used.load(); });
    for (const auto* e : order) {
      out.specialisations.push_back({e->why, e->when.in_words(), sizes_of(*e), e->describe(true)});
      for (const break_report& b : out.specialisations.back().what.breaks)
        if (std::count(out.breaks.begin(), out.breaks.end(), b) == 0) out.breaks.push_back(b);
    }
    return out;
  }

  std::size_t size() const override {
    const function_state::reading now(held_);
    return now->all().size() - function_state::count(now->all(), specialisation_state::hot);
  }

 private:
  /// The specialisation that accepts the call, and true. Otherwise a specialisation that differs only in C++ numbers, or
  /// null, and false.
  std::pair<const specialisation*, bool> answering(const function_state::reading& now, const call& c,
                                                   const tracing& trace) {
    if (const specialisation* const e = held_.accepted(now, c)) return {e, true};
    const auto differing = differing_in_numbers(now->all(), c, trace);
    return {differing.empty() ? nullptr : differing.front(), false};
  }

  static series<size_report> sizes_of(const specialisation& e) {
    series<size_report> out;
    for (const auto& n : e.narrowed()) out.push_back({n.what.tensor, n.what.axis, n.how, n.why, n.where});
    return out;
  }

  static found answer(const specialisation* e, readers::count& in) {
    return {e->now.load(std::memory_order_acquire), e->skeleton.get(), &in, e->reads_values()};
  }

  found miss(const call& c, const tracing& trace, tier when) {
    std::unique_lock one_build(building_);
    readers::count& in = held_.enter();
    found held(nullptr, nullptr, &in);  // leaves on every exit
    std::string stale;
    specialisation* e = fresh(c, stale);
    if (!e) e = accepted_by_ignoring(c);
    if (!e) {
      e = make(c, trace, when, one_build, stale);
      if (e && e->kind == specialisation_state::supplied && e->warmth) watch(*e, c, trace);
    }
    if (!e) return held;
    held.code = e->now.load(std::memory_order_acquire);
    held.skeleton = e->skeleton.get();
    held.reads_values = e->reads_values();
    return held;
  }

  /// The specialisation that accepts a call. If its captured tensors were reassigned, all such specialisations are dropped,
  /// and `stale` has the line.
  specialisation* fresh(const call& c, std::string& stale) {
    specialisation* const e = held_.look_up(c);
    if (!e || !e->is_stale()) return e;
    const location at = e->watch->stale_line();
    stale = sinter::detail::located("a tensor that the function captures by reference was assigned anew", at);
    if (++reassigned_ == max_silent)
      logs::write(
          "warning",
          sinter::detail::located(
              how_.name +
                  ": a tensor that it captures by reference is assigned anew between calls, and each time it is "
                  "traced again, which is slow; pass the tensor as an argument, and return what it becomes",
              at));
    held_.remove_stale();
    return held_.look_up(c);
  }

  /// Warns once about a captured key.
  void check_keys(const tracer& t) {
    if (told_of_key_) return;
    const auto at = captured_key(t);
    if (!at) return;
    told_of_key_ = true;
    logs::write(
        "warning",
        sinter::detail::located(
            how_.name + ": it captures a random key: calls draw the same numbers as long as anything else holds that "
                        "key, and one assigned in its place is traced anew, which is slow; pass the key as an "
                        "argument, a new one to each call",
            *at));
  }

  /// A specialisation that would accept the call without the guards that tests ignore.
  specialisation* accepted_by_ignoring(const call& c) const {
    const unsigned ignored = ignored_guards().load(std::memory_order_relaxed);
    if (!ignored) return nullptr;
    for (const auto& e : held_.all()) {
      const auto all = e->when.differences(c);
      if (std::all_of(all.begin(), all.end(),
                      [&](const mismatch& m) { return ignored >> static_cast<int>(m.kind) & 1; }))
        return e.get();
    }
    return nullptr;
  }

  /// A call that no specialisation accepts, and its facts before it is traced.
  struct missed {
    const call& c;
    const tracing& trace;
    tier when;
    series<failed_guard> failed{};
    std::string why{};
    series<specialisation*> differing{};         ///< would accept it except for C++ numbers
    bool strict = false;                         ///< a stance forbids compiling
    std::size_t regular = 0, native = 0;         ///< specialisations for its types, and those that run in segments
    bool beyond = false, beyond_native = false;  ///< the limits of these are reached
    std::string refusal{};                       ///< why it is not specialised on values that it reads; "" if it is
  };

  missed examined(const call& c, const tracing& trace, tier when, const std::string& stale) {
    missed m{c, trace, when};
    if (stale.empty()) m.failed = failed_guards(held_.all(), c, trace);
    m.why = stale.empty() ? reason(m.failed) : stale;
    logs::to("recompiles", [&] { return logs::printable(how_.name) + ": " + m.why + advice(m.failed); });
    m.differing = differing_in_numbers(held_.all(), c, trace);
    m.strict = current_stance == stance::fail_on_recompile;
    return m;
  }

  void count_against_limits(missed& m) {
    if (m.differing.empty()) note(m.failed);
    const std::pair limited = held_.limited(m.c.signature);
    m.regular = limited.first;
    m.beyond = limited.second;
    m.native = function_state::count(held_.all(), specialisation_state::native, m.c.signature);
    m.beyond_native = m.beyond || m.native >= held_.most();
    if (m.beyond_native && how_.on_limit != on_limit::evict)
      m.refusal = limits_.complaint(std::max(m.regular, m.native));
  }

  /// Makes a specialisation for a call that none accepts; null if the function is to run natively. Once the function has read
  /// a value, its run belongs to this call. Other threads then need not wait for it, and it may wait for them.
  specialisation* make(const call& c, const tracing& trace, tier when,
                       std::unique_lock<std::recursive_mutex>& one_build, const std::string& stale) {
    check_device(c.where, how_.name.c_str(), where_);
    if (!in_one_library(c.signature, where_.file)) keep_loaded(c.signature);  // the address identifies specialisations
    missed m = examined(c, trace, when, stale);
    const bool shares = std::any_of(m.differing.begin(), m.differing.end(),
                                    [](const auto* e) { return e->family->kernels != nullptr; });
    if (!(m.strict && shares) && !may_compile(m.why)) return nullptr;
    count_against_limits(m);
    traced t;
    numbered n;
    if (specialisation* const e = traced_to_known(m, one_build, t, n)) return e;
    if (!m.differing.empty()) {
      may_compile(m.why);
      note(m.failed);
      const std::string said = several_graphs(m.failed, m.differing, t.graph->assumed.open.size());
      if (!said.empty()) logs::warn_once(logs::printable(how_.name) + ": " + said);
    }
    const specialisation* const replaced = m.beyond ? opened_by(c, t.graph->assumed) : nullptr;
    const bool refused = m.beyond && !replaced;
    if (refused && how_.on_limit == on_limit::error) fail(how_.name, limits_.complaint(m.regular), where_);
    const bool interpreted = refused && how_.on_limit == on_limit::reference;
    if (m.beyond) complain(m.regular, replaced != nullptr);
    return built(m, t, n, interpreted, replaced);
  }

  /// Traces the call until its graph, in `t` and `n`, is that of a known family or a new one; then returns null. Otherwise returns the
  /// specialisation that answers it, by kernels of that family or, if the function reads a value, in segments.
  specialisation* traced_to_known(const missed& m, std::unique_lock<std::recursive_mutex>& one_build, traced& t,
                                  numbered& n) {
    function_state::entry in_segments;
    const sinter::detail::callback<void()> on_read = [&] {
      if (!m.differing.empty()) note(m.failed);
      if (m.beyond_native) complain(std::max(m.regular, m.native));
      in_segments = make_on_heap<specialisation>(
          guard(words_of(m.c, m.trace), m.c), nullptr, m.why,
          m.refusal.empty() ? specialisation_state::native : specialisation_state::refused);
      in_segments->beyond = m.refusal;
      held_.add(in_segments);
      one_build.unlock();
    };
    series<size_layout> layouts = layouts_of(m.differing, m.c);
    layouts.push_back(sizes_.layout_for(m.c, how_.dynamic, m.strict));
    for (size_layout& layout : layouts) {
      try {
        t = trace_sizes(m.c, m.trace, std::move(layout), m.refusal, !m.strict, on_read);
      } catch (const std::exception& problem) {
        held_.remove(in_segments.get());
        // Under a stance the user_error is the stance's, whatever else the function cannot do.
        if (dynamic_cast<const user_error*>(&problem)) may_compile(m.why);
        throw;
      }
      if (t.answer) {
        in_segments->note(t.did);
        return in_segments.get();
      }
      check_keys(*t.graph);
      if (!t.graph->has_scalars) continue;
      n = numbered(t, m.c, how_);
      for (const specialisation* e : m.differing)
        if (e->family->structure == n.structure)
          return supplied(e->family, t, n, m.c, words_of(m.c, m.trace), m.why, m.when);
    }
    return nullptr;
  }

  /// A specialisation of a new graph, with its program, or with the interpreter until it is ready; replaces `replaced`, if
  /// given.
  specialisation* built(const missed& m, traced& t, const numbered& n, bool interpreted,
                        const specialisation* replaced) {
    const function_state::entry made = guarded(m, t, interpreted);
    const bool in_background = m.when == tier::background && !interpreted,
               by_family = !interpreted && t.graph->has_scalars;
    if (by_family) {
      made->family = new_family(n, t);
      maker().share(*made->family, n, t, m.c, m.when);
      serve_family(*made, n);
    } else {
      options how = how_;
      if (interpreted || in_background) how.backend = interpreter;
      made->serve(build(make_on_heap<tracer>(*t.graph), m.c.tensors, how, m.c.where, &shared_));
    }
    if (held_.wants_hot_kernels() && !made->when.exact() && !interpreted)
      made->warmth = make_on_heap<hot_extents>(how_.hot_calls);
    if (by_family) made->family->warmth = made->warmth;
    held_.add(made, replaced);
    if (in_background && !by_family)
      held_.builds.start(*t.graph, m.c.tensors, m.c.where, how_,
                         [made, self = weak_from_this()](std::shared_ptr<const program> p) {
                           made->serve(std::move(p));
                           if (const auto d = self.lock()) d->held_.has_grown(made.get());
                         });
    return made.get();
  }

  /// The guards of a new graph, its captured tensors, and the texts of its report; without a program.
  function_state::entry guarded(const missed& m, const traced& t, bool interpreted) {
    auto made =
        make_on_heap<specialisation>(guard(m.c, t.graph->assumed, words_of(m.c, m.trace)), t.skeleton, m.why,
                                     interpreted ? specialisation_state::interpreted : specialisation_state::regular);
    made->watch = watch_captures(*t.graph);
    if (how_.backend != interpreter)
      made->beyond = interpreted                  ? limits_.complaint(m.regular)
                     : m.when == tier::background ? "they are being made"
                                                  : "";
    logs::to("guards", [&] {
      return logs::printable(how_.name) + ":\n" +
             text::join(made->when.in_words(), "\n", [](const auto& line) { return "  " + line; }) +
             text::join(sizes_of(*made), "", [](const size_report& s) { return "\n  " + s.text(); });
    });
    return made;
  }

  /// The specialisation that a call with open extents replaces, so that it is made even past the limit. It is the least
  /// recently used specialisation that differs from the call only in extents that are now open; or null.
  const specialisation* opened_by(const call& c, const assumptions& made) const {
    const specialisation* found = nullptr;
    const auto is_of_sizes = [](const mismatch& m) {
      return m.kind == guard_kind::extent || m.kind == guard_kind::stride || m.kind == guard_kind::relation;
    };
    for (const auto& e : held_.all()) {
      if (made.open.empty() || e->kind != specialisation_state::regular) continue;
      if (found && e->used.load() > found->used.load()) continue;
      const auto all = e->when.differences(c);
      if (std::all_of(all.begin(), all.end(), is_of_sizes) && e->when.is_within(made.layout)) found = e.get();
    }
    return found;
  }

  /// Whether this thread's stance lets a call compile; false if the function is to run natively.
  bool may_compile(const std::string& why) const {
    if (current_stance == stance::fail_on_recompile)
      fail(how_.name, "a stance forbids to compile, and no specialisation accepts this call: " + why, where_);
    return current_stance != stance::eager_on_recompile;
  }

  /// A specialisation of a family. Its members share kernels, which take the differing constants as arguments.
  specialisation* supplied(const std::shared_ptr<constant_family>& family, const traced& t, const numbered& n,
                           const call& c, series<leaf_text> words, const std::string& why, tier when) {
    varying numbers = family->constants;
    const bool more = numbers.note(n.graph, n.constants);
    if (more || !family->kernels->reads(t.graph->captures)) {
      if (more) may_compile(why);  // else the kernels exist, for other captured tensors
      std::swap(family->constants, numbers);
      try {
        maker().share(*family, n, t, c, when);
      } catch (...) {
        family->constants = std::move(numbers);
        throw;
      }
    }
    auto made = make_on_heap<specialisation>(guard(c, t.graph->assumed, std::move(words)), t.skeleton, why,
                                             specialisation_state::supplied);
    made->family = family;
    made->warmth = family->warmth;
    made->watch = watch_captures(*t.graph);
    serve_family(*made, n);
    held_.add(made);
    return made.get();
  }

  kernel_maker maker() { return {how_, held_, shared_}; }

  /// Among several failed guards, numbers are ignored, because kernels are not made for them.
  void note(const series<failed_guard>& failed) {
    const bool numbers = std::all_of(failed.begin(), failed.end(), [](const auto& f) { return f.is_number(); });
    for (const auto& f : failed)
      if (numbers || !f.is_number()) limits_.note(f);
  }

  void complain(std::size_t regular, bool replaced = false) {
    if (!held_.warn_now()) return;
    std::string then = replaced ? "One with open extents takes the place of the least recently used one. " : "";
    then += how_.on_limit == on_limit::evict   ? "The least recently used one is dropped. "
            : how_.on_limit == on_limit::error ? "Calls that would need more are errors. "
                                               : "Calls that would need more are interpreted, which is slow. ";
    logs::write("warning",
                sinter::detail::located(logs::printable(how_.name) + ": " + limits_.complaint(regular, then), where_));
  }

  /// Counts a call of a specialisation with open extents.
  void watch(const specialisation& e, const call& c, const tracing& trace) {
    if (!e.warmth->counts() || current_stance != stance::normal || !function_state::swaps()) return;
    const std::uint64_t extents = hash_of_extents(c);
    if (e.warmth->just_hot(extents) && !warm(c, trace)) e.warmth->ask_again(extents);
  }

  /// Makes kernels, in the background, for frequent extents of a specialisation with open ones. False if that must wait for
  /// another build.
  bool warm(const call& c, const tracing& trace) {
    const std::unique_lock one_build(building_, std::try_to_lock);
    if (!one_build) return false;
    if (function_state::count(held_.all(), specialisation_state::hot, c.signature) >= held_.most()) return true;
    traced t;
    try {
      t = trace.run(trace.what, trace_request{});
    } catch (...) {
      logs::warn_once(logs::printable(how_.name) + ": frequent extents get no kernels of their own: " + thrown());
      return true;
    }
    if (t.answer) return true;
    auto made = make_on_heap<specialisation>(guard(c, t.graph->assumed, words_of(c, trace)), t.skeleton,
                                             "these extents are frequent", specialisation_state::hot);
    made->watch = watch_captures(*t.graph);
    if (t.graph->has_scalars) {
      const numbered n(t, c, how_);
      made->family = new_family(n, t);
      made->family->frequent = true;
      maker().share(*made->family, n, t, c, how_.tier, [made, n](function_state& h) {
        serve_family(*made, n);
        h.add(made);
      });
      return true;
    }
    held_.builds.start(*t.graph, c.tensors, c.where, how_,
                       [made, self = weak_from_this()](std::shared_ptr<const program> p) {
                         made->serve(std::move(p));
                         if (const auto d = self.lock()) d->held_.add(made);
                       });
    return true;
  }

  const options how_;
  const location where_;
  limits limits_;  ///< under building_
  size_policy sizes_;
  static constexpr int max_silent = 3;
  int reassigned_ = 0;             ///< number of reassigned captured tensors; under building_
  bool told_of_key_ = false;       ///< under building_
  std::recursive_mutex building_;  ///< held while a specialisation is made; a traced function may call it again
  function_state held_;
  std::shared_ptr<void> shared_;
};

}  // namespace detail

/// The guard itself compares specialised numbers.
SINTER_API bool holds(const assumptions& given, const call& c) {
  return given.layout.sizes.empty() || detail::sizes_hold(given.layout, c.tensors);
}

SINTER_API std::shared_ptr<function> make_function(const options& how, location where) {
  if (!(how.memory_budget >= 0 && how.memory_budget <= 1))
    fail(how.name,
         "options.memory_budget is " + text::number(how.memory_budget) +
             "; it is the fraction, from 0 to 1, of what a backward pass may keep",
         where);
  auto made = std::make_shared<detail::dispatcher>(how, where);
  made->held().lives(std::shared_ptr<detail::function_state>(made, &made->held()));
  // The function's library may be unloaded next, so running jobs must not keep objects that its code destroys.
  return {made.get(), [made](function*) mutable { made->held().builds.end(), made.reset(); }};
}

}  // namespace sinter::engine
