// run/mesh/ledger.hpp: what a rank knows of the others, the messages that tell it, and waiting for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/location.hpp"
#include "../../base/log.hpp"
#include "../ranks.hpp"
#include "kernels.hpp"
#include "wire.hpp"

namespace sinter::engine::run {

enum class rank_state : std::uint8_t { host_code, compiling, in_a_collective, awaiting_kernels };

/// A message: its kind, then its fields. Rank 0 passes on messages for others.
enum class message : char {
  heartbeat = 'h',  ///< collectives, calls, collectives that the GPU has begun, state and a rank, the last collective
  table = 's',      ///< from rank 0: for each rank flags, age in ms, and its heartbeat
  post = 'p',       ///< from, to, key, text
  ask = 'c',        ///< from, to, number of the call, digest, text: this rank has no program yet
  answer = 'a',     ///< the same: this rank's program
  failure = 'f',    ///< text
  bye = 'b',        ///< this rank ends
  want = 'w',       ///< to rank 0: a number, names of kernels that this rank lacks
  makers = 'm',     ///< from rank 0: that number, the rank that makes each kernel; -1 for the receiver
  bundle = 'k',     ///< names and size of a bundle, whose pieces follow; through rank 0
  piece = 'd',      ///< bytes
  none = 'n',       ///< names of kernels that do not come
};

class rank_ledger {
 public:
  using clock = std::chrono::steady_clock;
  struct outgoing {
    int to;  ///< -1 for all
    std::string body;
  };

  rank_ledger(int rank, int size)
      : rank_(rank),
        ranks_(static_cast<std::size_t>(size)),
        kernels_(size),
        incoming_(static_cast<std::size_t>(size)),
        bundles_(static_cast<std::size_t>(size)) {
    for (auto& r : ranks_) r.heard = clock::now();
    ranks_[static_cast<std::size_t>(rank)].here = true;
  }

  static double silence() {
    const double s = seconds_of("SINTER_MESH_SILENCE", 30);
    return std::min(s, 86400.0);
  }
  /// A heartbeat's interval.
  static std::chrono::milliseconds interval() {
    return std::chrono::milliseconds(static_cast<long>(std::clamp(silence() * 100, 10.0, 1000.0)));
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// Called after each message for the other ranks, without the lock.
  void on_send(std::function<void()> wake) { wake_ = std::move(wake); }

  /// What this rank does. Cheap: other ranks see it at the next heartbeat.
  void enter(rank_state s) { state_.store(s, std::memory_order_relaxed); }
  /// Counts a collective that begins; returns its number.
  std::uint64_t begin(const exchange& e) {
    last_kind_.store(e.what, std::memory_order_relaxed);
    last_file_.store(e.where.file, std::memory_order_relaxed);
    last_line_.store(e.where.line, std::memory_order_relaxed);
    enter(rank_state::in_a_collective);
    return count_.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// The GPU of this rank has begun the exchange of that number. Numbers may come in any order.
  void reach(std::uint64_t number) {
    std::uint64_t known = reached_.load(std::memory_order_relaxed);
    while (known <= number && !reached_.compare_exchange_weak(known, number + 1, std::memory_order_relaxed)) {}
  }

  /// Fails the mesh on all ranks; the first reason counts.
  void fail(const std::string& why, bool tell = true) {
    {
      const std::lock_guard lock(mutex_);
      fail_locked(why);
      if (tell) send(-1, std::string(1, static_cast<char>(message::failure)) + why);
    }
    changed_.notify_all();
    if (wake_) wake_();
  }
  std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  std::string told_failure(const char* op, location where) const {
    return sinter::detail::located("[" + std::string(op) + "] the ranks do not meet: " + failure() +
                                       "; this mesh is unusable from now on, start the program again",
                                   where);
  }
  [[noreturn]] void throw_failure(const char* op, location where) const { throw system_error(told_failure(op, where)); }

  template <class F>
  void update(const F& f) {
    {
      const std::lock_guard lock(mutex_);
      f();
    }
    changed_.notify_all();
  }

  /// Waits until done(), which runs under the lock. missing() lists the ranks that are waited for. They are named on stderr, and
  /// throw once the mesh fails.
  template <class Done, class Missing>
  void wait(const char* op, location where, const std::string& what, const Done& done, const Missing& missing) {
    std::unique_lock lock(mutex_);
    const auto start = clock::now();
    bool told = false;
    for (;;) {
      if (!failure_.empty()) {
        lock.unlock();
        throw_failure(op, where);
      }
      if (done()) return;
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (done()) continue;
      judge_locked(sinter::detail::located(what, where), seconds_since(start), told, missing);
    }
  }
  /// The same of an exchange of GPUs that has gone on for `waited` seconds while this thread did something else. While all ranks
  /// have asked for it and one is_busy with earlier work, that may take as long as it likes.
  template <class Missing, class Busy>
  void judge(const std::string& what, double waited, bool& told, const Missing& missing, const Busy& is_busy) {
    const std::lock_guard lock(mutex_);
    if (missing().empty() && (waited <= detail::mesh_timeout() || is_busy())) return;
    judge_locked(what, waited, told, missing);
  }

  /// The texts of these ranks for a key, in their order. All of them call it with the same key, once.
  std::vector<std::string> exchange_texts(const std::string& key, const std::vector<int>& members,
                                          const std::string& text, const char* op, location where) {
    update([&] {
      posts_[key][rank_] = text;
      for (const int to : members)
        if (to != rank_)
          send(to, addressed(message::post, to, [&](std::string& m) {
                 put_text(m, key);
                 put_text(m, text);
               }));
    });
    if (wake_) wake_();
    const auto missing = [&] {
      std::vector<int> out;
      for (const int r : members)
        if (!posts_[key].contains(r)) out.push_back(r);
      return out;
    };
    wait(
        op, where, op, [&] { return missing().empty(); }, missing);
    std::vector<std::string> out;
    const std::lock_guard lock(mutex_);
    for (const int r : members) out.push_back(posts_[key][r]);
    posts_.erase(key);
    return out;
  }

  /// This rank calls a program with collectives; answers ranks that asked for this call. All ranks count calls alike. They may
  /// differ in collectives, since loops may end at different steps.
  void call(const std::shared_ptr<const program_guards>& guards) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = calls_++;
    turn_ = 0;
    wanted_ = nullptr;
    if (called_.empty() || called_.back().guards != guards) {
      forget_old_calls();
      called_.push_back({number, guards});
    }
    if (asked_.empty()) return;
    const auto last = asked_.upper_bound({number, any_turn});
    if (last == asked_.begin()) return;  // a rank that is ahead waits for this one
    for (auto at = asked_.lower_bound({number, 0}); at != last; ++at)
      for (const auto& [who, theirs] : at->second) answer(who, at->first, *guards, theirs);
    asked_.erase(asked_.begin(), last);
    if (wake_) wake_();
  }
  /// Before a program is compiled: returns once all ranks have, or want, one with the same collectives for the next call.
  /// system_error on all ranks with both guards if one differs.
  void agree(const std::shared_ptr<const program_guards>& mine, location where) {
    turn now;
    update([&] {
      now = {calls_, turn_++};
      asking_ = now;
      answers_.clear();
      if (const auto at = asked_.find(now); at != asked_.end())
        for (const auto& [who, theirs] : at->second) {
          answers_.insert(who);
          answer(who, now, *mine, theirs);
        }
      asked_.erase(asked_.begin(), asked_.upper_bound(now));
      wanted_ = mine;
      for (int to = 0; to < size(); ++to)
        if (to != rank_ && !answers_.contains(to)) send(to, guards_message(message::ask, to, now, *mine));
    });
    if (wake_) wake_();
    const auto missing = [&] {
      std::vector<int> out;
      for (int r = 0; r < size(); ++r)
        if (r != rank_ && !answers_.contains(r)) out.push_back(r);
      return out;
    };
    wait(
        "compile", where, "the compilation of " + mine->text, [&] { return missing().empty(); }, missing);
  }

  /// Asks for kernels, by their names. Returns once it is known which of them this rank makes: its order's number. Throws
  /// nothing; after a failure, or once this rank has ended, it makes all.
  std::uint64_t order(const kernel_names& names) {
    std::uint64_t number = 0;
    update([&] {
      number = next_order_++;
      ordered_kernels& o = orders_[number];
      o.names = names;
      o.open.insert(names.begin(), names.end());
      if (rank_ == 0) return take_want(0, number, names);
      std::string m(1, static_cast<char>(message::want));
      put_number(m, number, 8);
      put_names(m, names);
      send(0, std::move(m));
    });
    if (wake_) wake_();
    const auto limit = std::chrono::duration<double>(detail::mesh_timeout());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return !orders_[number].makers.empty() || is_over_locked(); });
    ordered_kernels& o = orders_[number];
    if (o.makers.empty()) o.makers.assign(names.size(), -1);
    return number;
  }
  bool is_mine(std::uint64_t number, std::size_t k) const {
    const std::lock_guard lock(mutex_);
    return orders_.at(number).makers[k] < 0;
  }
  /// Gives the other ranks a bundle of these kernels.
  void give(kernel_names names, std::string bytes) {
    update([&] {
      const auto b = std::make_shared<const named_bundle>(named_bundle{std::move(names), std::move(bytes)});
      if (rank_ == 0) deliver(0, b);
      else bundles_[0].add(b);
    });
    if (wake_) wake_();
  }
  /// Tells the other ranks that these do not come.
  void withdraw(const kernel_names& names) {
    if (names.empty()) return;
    update([&] {
      if (rank_ == 0) tell_none(kernels_.withdraw(0, names));
      else send(0, none_message(names));
    });
    if (wake_) wake_();
  }
  /// Waits for the kernels of other ranks; at most for the mesh's limit, and not after a failure. The bundles that came.
  std::vector<shared_bundle> await(std::uint64_t number, bool shows) {
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(
                                        std::chrono::duration<double>(std::min(detail::mesh_timeout(), 1e6)));
    std::unique_lock lock(mutex_);
    ordered_kernels& o = orders_.at(number);
    while (!o.is_complete() && !is_over_locked() && clock::now() < end) {
      maker_.store(o.awaited(), std::memory_order_relaxed);
      if (shows) enter(rank_state::awaiting_kernels);
      changed_.wait_until(lock, end);
    }
    return o.bundles;
  }
  /// Whether kernels of other ranks are not waited for any more.
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return is_over_locked();
  }
  void end_order(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    orders_.erase(number);
  }

  /// Tells the others that this rank ends, and waits until all do. False after a failure.
  bool leave() {
    update([&] {
      says_bye_ = failure_.empty();
      auto& me = ranks_[static_cast<std::size_t>(rank_)];
      me.ended = true;
      me.ended_at = clock::now();
      table_due_ = true;
      if (rank_ == 0) tell_none(kernels_.withdraw(0, {}));
    });
    if (wake_) wake_();
    std::unique_lock lock(mutex_);
    const auto all = [&] { return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.ended; }); };
    while (!all() && failure_.empty() && !relay_lost_) changed_.wait_for(lock, std::chrono::milliseconds(100));
    return failure_.empty();
  }

  // The control thread's part.

  /// Rank `from` is connected.
  void join(int from) {
    update([&] {
      auto& r = ranks_[static_cast<std::size_t>(from)];
      r.here = true;
      r.heard = clock::now();
    });
  }
  bool is_here(int r) const {
    const std::lock_guard lock(mutex_);
    return ranks_[static_cast<std::size_t>(r)].here;
  }
  /// Returns once all ranks are connected to rank 0.
  void wait_for_all(location where) {
    const auto missing = [&] {
      std::vector<int> out;
      for (int r = 0; r < size(); ++r)
        if (!ranks_[static_cast<std::size_t>(r)].here) out.push_back(r);
      return out;
    };
    wait(
        "make_mesh", where, "make_mesh", [&] { return missing().empty(); }, missing);
  }

  /// A message from a connected rank. False if it is not one that this rank may send.
  bool take(int from, std::string_view body) {
    bool right = false;
    update([&] {
      heard(from);
      right = take_locked(from, body);
    });
    if (wake_ && !outbox_is_empty()) wake_();
    return right;
  }
  /// The connection to a rank is closed.
  void lose(int r, const std::string& why) {
    bool quiet = false;
    update([&] { quiet = !failure_.empty() || (ranks_[static_cast<std::size_t>(r)].ended && is_excused(r)); });
    if (!quiet) fail("rank " + std::to_string(r) + " " + why);
  }

  /// The messages to send. A rank says bye after its last bundle, or rank 0 would believe that its kernels do not come.
  std::vector<outgoing> take_outbox() {
    const std::lock_guard lock(mutex_);
    const bool is_last = std::all_of(bundles_.begin(), bundles_.end(), [](const auto& b) { return b.empty(); });
    if (is_last && std::exchange(says_bye_, false)) send(-1, std::string(1, static_cast<char>(message::bye)));
    return std::exchange(outbox_, {});
  }
  bool outbox_is_empty() const {
    const std::lock_guard lock(mutex_);
    return outbox_.empty() && !says_bye_;
  }
  /// The next message of the bundles for a rank that has a connection; empty if there is none.
  std::string next_piece(int to) {
    const std::lock_guard lock(mutex_);
    outgoing_bundles& all = bundles_[static_cast<std::size_t>(to)];
    return all.empty() ? std::string()
                       : all.next(static_cast<char>(message::bundle), static_cast<char>(message::piece));
  }
  bool has_pieces(int to) const {
    const std::lock_guard lock(mutex_);
    return !bundles_[static_cast<std::size_t>(to)].empty();
  }
  /// Once in an interval: a heartbeat or rank 0's table, and a look for silent ranks. `own` are those with a connection.
  void tick(bool due) {
    const auto now = clock::now();
    std::string silent;
    {
      const std::lock_guard lock(mutex_);
      if (!due && !table_due_) return;
      table_due_ = false;
      // This process itself was stopped: what it did not read is no silence of others.
      const bool slept = due && std::chrono::duration<double>(now - ticked_).count() > silence() / 2;
      if (due) ticked_ = now;
      note_self();
      for (int r = 0; r < size(); ++r) {
        auto& it = ranks_[static_cast<std::size_t>(r)];
        if (r == rank_ || (rank_ != 0 && r != 0) || !it.here || (it.ended && (r != 0 || relay_lost_))) continue;
        if (slept) it.heard = now;
        if (std::chrono::duration<double>(now - it.heard).count() > silence() && silent.empty() &&
            !(it.ended && is_excused(r)))
          silent = described_one(r) + ": it is stopped, or its host is out of reach";
      }
      if (rank_ == 0) send(-1, table());
      else send(0, heartbeat());
    }
    if (!silent.empty() && !has_failed()) fail(silent);
  }

  static std::string described_state(rank_state s, int maker) {
    constexpr const char* names[] = {"in host code", "compiling", "in a collective", "waiting for kernels of rank "};
    return names[static_cast<int>(s)] + (s == rank_state::awaiting_kernels ? std::to_string(maker) : std::string());
  }
  /// The ranks of `all` that have begun fewer collectives than `number` + 1. If there are none, with `others` all but this one.
  std::vector<int> behind(const std::vector<int>& all, std::uint64_t number, bool others = true) const {
    std::vector<int> out;
    for (const int r : all)
      if (r != rank_ && ranks_[static_cast<std::size_t>(r)].count <= number) out.push_back(r);
    if (out.empty() && others)
      for (const int r : all)
        if (r != rank_) out.push_back(r);
    return out;
  }

  /// Whether one of the other ranks of `all` has asked for that exchange, and its GPU has not begun it.
  bool is_any_busy(const std::vector<int>& all, std::uint64_t number) const {
    return std::any_of(all.begin(), all.end(), [&](int r) {
      const known_rank& it = ranks_[static_cast<std::size_t>(r)];
      return r != rank_ && it.count > number && it.reached <= number;
    });
  }

 private:
  struct known_rank {
    bool here = false, ended = false;
    clock::time_point heard, ended_at;
    std::uint64_t count = 0, calls = 0, reached = 0;  ///< `reached` of the collectives the GPU has begun
    rank_state state = rank_state::host_code;
    int maker = 0;     ///< whose kernels it waits for
    std::string last;  ///< collective, with its line
  };
  /// A call's number, and how many programs were compiled since the call before it.
  using turn = std::pair<std::uint64_t, unsigned>;
  static constexpr unsigned any_turn = ~0u;
  static constexpr std::uint64_t no_maker = 0xffffffffu;
  /// Calls of one program in a row, from the first one's number.
  struct called_program {
    std::uint64_t first = 0;
    std::shared_ptr<const program_guards> guards;
  };

  static double seconds_of(const char* name, double otherwise) {
    const char* const text = std::getenv(name);
    const double s = text ? std::strtod(text, nullptr) : 0;
    return s > 0 ? s : otherwise;
  }
  static double seconds_since(clock::time_point t) { return std::chrono::duration<double>(clock::now() - t).count(); }

  /// Whether a rank that has ended may be gone. All messages pass through rank 0, so the others need it until all have ended. A
  /// rank that has ended itself stops waiting.
  bool is_excused(int r) {
    if (r != 0 || rank_ == 0) return true;
    if (!ranks_[static_cast<std::size_t>(rank_)].ended) return false;
    return relay_lost_ = true;
  }

  template <class Missing>
  void judge_locked(const std::string& what, double waited, bool& told, const Missing& missing) {
    const double limit = detail::mesh_timeout(), warn = std::min(limit, silence() * 2 / 3);
    std::string why = ended_among(missing());
    if (why.empty() && waited > limit) why = described(missing()) + " did not arrive within SINTER_MESH_TIMEOUT";
    if (why.empty() && waited > warn && !std::exchange(told, true))
      logs::write("warning", described(missing()) + " did not arrive at " + what);
    if (why.empty() || !failure_.empty()) return;
    fail_locked(why);
    send(-1, std::string(1, static_cast<char>(message::failure)) + why);
    changed_.notify_all();
    if (wake_) wake_();
  }
  void fail_locked(const std::string& why) {
    if (!failure_.empty()) return;
    failure_ = why.empty() ? "a rank has failed" : why.substr(0, 4000);
    failed_.store(true, std::memory_order_release);
  }
  void send(int to, std::string body) { outbox_.push_back({to, std::move(body)}); }

  template <class Fields>
  std::string addressed(message kind, int to, const Fields& fields) const {
    std::string m(1, static_cast<char>(kind));
    put_number(m, static_cast<std::uint32_t>(rank_), 4);
    put_number(m, static_cast<std::uint32_t>(to), 4);
    fields(m);
    return m;
  }
  std::string guards_message(message kind, int to, turn at, const program_guards& g) const {
    return addressed(kind, to, [&](std::string& m) {
      put_number(m, at.first, 8);
      put_number(m, at.second, 4);
      m += bytes_of(g.digest);
      put_text(m, std::string_view(g.text).substr(0, 4000));
    });
  }
  void answer(int who, turn at, const program_guards& mine, const program_guards& theirs) {
    send(who, guards_message(message::answer, who, at, mine));
    compare(who, mine, theirs);
  }
  void compare(int who, const program_guards& mine, const program_guards& theirs) {
    if (mine.digest == theirs.digest) return;
    const std::string own = "rank " + std::to_string(rank_) + " runs " + mine.text,
                      other = "rank " + std::to_string(who) + " runs " + theirs.text;
    fail_locked("the ranks run different programs: " + (rank_ < who ? own + "; " + other : other + "; " + own) +
                "; all ranks have to call the same functions with arguments of the same extents");
    send(-1, std::string(1, static_cast<char>(message::failure)) + failure_);
  }

  void note_self() {
    auto& me = ranks_[static_cast<std::size_t>(rank_)];
    me.heard = clock::now();
    me.count = count_.load(std::memory_order_relaxed);
    me.calls = calls_;
    me.reached = reached_.load(std::memory_order_relaxed);
    me.state = state_.load(std::memory_order_relaxed);
    me.maker = std::max(0, maker_.load(std::memory_order_relaxed));
    if (me.count > 0)
      me.last = sinter::detail::located(
          run::name(last_kind_.load(std::memory_order_relaxed)),
          {last_file_.load(std::memory_order_relaxed), last_line_.load(std::memory_order_relaxed)});
  }
  static void put_state(std::string& m, const known_rank& r) {
    put_number(m, r.count, 8);
    put_number(m, r.calls, 8);
    put_number(m, r.reached, 8);
    put_number(m, static_cast<std::uint8_t>(r.state), 1);
    put_number(m, static_cast<std::uint32_t>(r.maker), 4);
    put_text(m, std::string_view(r.last).substr(0, 500));
  }
  static bool take_state(std::string_view& m, known_rank& r) {
    std::uint64_t count = 0, calls = 0, reached = 0, state = 0, maker = 0;
    std::string_view last;
    if (!take_number(m, count, 8) || !take_number(m, calls, 8) || !take_number(m, reached, 8) ||
        !take_number(m, state, 1) || state > 3 || !take_number(m, maker, 4) || maker > 1u << 20 || !take_text(m, last))
      return false;
    r.count = std::max(r.count, count);
    r.calls = std::max(r.calls, calls);
    r.reached = std::max(r.reached, reached);
    r.state = static_cast<rank_state>(state);
    r.maker = static_cast<int>(maker);
    r.last = last;
    return true;
  }
  std::string heartbeat() const {
    std::string m(1, static_cast<char>(message::heartbeat));
    put_state(m, ranks_[static_cast<std::size_t>(rank_)]);
    return m;
  }
  std::string table() const {
    std::string m(1, static_cast<char>(message::table));
    for (const auto& r : ranks_) {
      put_number(m, static_cast<unsigned>(r.here) | static_cast<unsigned>(r.ended) << 1, 1);
      put_number(m, static_cast<std::uint64_t>(seconds_since(r.heard) * 1000), 4);
      put_state(m, r);
    }
    return m;
  }

  void heard(int from) { ranks_[static_cast<std::size_t>(from)].heard = clock::now(); }
  void set_ended(known_rank& r) {
    if (!std::exchange(r.ended, true)) r.ended_at = clock::now();
  }

  bool take_locked(int from, std::string_view body) {
    if (body.empty()) return false;
    const auto kind = static_cast<message>(body[0]);
    const std::string_view whole = body;
    body.remove_prefix(1);
    switch (kind) {
      case message::heartbeat:
        return rank_ == 0 && take_state(body, ranks_[static_cast<std::size_t>(from)]) && body.empty();
      case message::table:
        return rank_ != 0 && take_table(body);
      case message::failure:
        fail_locked(std::string(body));
        if (rank_ == 0) send(-1, std::string(whole));
        return true;
      case message::bye:
        set_ended(ranks_[static_cast<std::size_t>(from)]);
        table_due_ = true;
        if (rank_ == 0) tell_none(kernels_.withdraw(from, {}));
        return body.empty();
      case message::post:
      case message::ask:
      case message::answer:
        return take_addressed(from, kind, whole);
      case message::want:
      case message::makers:
      case message::bundle:
      case message::piece:
      case message::none:
        return take_kernels(from, kind, body);
    }
    return false;
  }

  /// A message about kernels. Rank 0 gets them of all, the others of rank 0.
  bool take_kernels(int from, message kind, std::string_view m) {
    std::uint64_t number = 0;
    kernel_names names;
    incoming_bundle& in = incoming_[static_cast<std::size_t>(from)];
    if (rank_ != 0 && from != 0) return false;
    if (kind == message::want) {
      if (rank_ != 0 || !take_number(m, number, 8) || !take_names(m, names) || !m.empty()) return false;
      take_want(from, number, names);
      return true;
    }
    if (kind == message::makers) return rank_ != 0 && take_makers(m);
    if (kind == message::bundle)
      return take_names(m, names) && take_number(m, number, 8) && m.empty() && in.begin(std::move(names), number);
    if (kind == message::none) {
      if (!take_names(m, names) || !m.empty()) return false;
      if (rank_ == 0) tell_none(kernels_.withdraw(from, names));
      else resolve(names, nullptr);
      return true;
    }
    if (!in.add(m)) return false;
    if (const auto whole = in.take()) {
      if (rank_ == 0) deliver(from, whole);
      else resolve(whole->names, whole);
    }
    return true;
  }
  bool take_makers(std::string_view m) {
    std::uint64_t number = 0, count = 0, maker = 0;
    std::vector<int> makers;
    if (!take_number(m, number, 8) || !take_number(m, count, 4) || count * 4 != m.size()) return false;
    for (; count > 0 && take_number(m, maker, 4); --count) {
      if (maker != no_maker && maker >= ranks_.size()) return false;
      makers.push_back(maker == no_maker ? -1 : static_cast<int>(maker));
    }
    const auto at = orders_.find(number);
    if (at == orders_.end()) return number < next_order_;
    if (makers.size() != at->second.names.size() || !at->second.makers.empty()) return false;
    at->second.makers = std::move(makers);
    return true;
  }
  /// At rank 0: a rank, maybe itself, asks for kernels.
  void take_want(int who, std::uint64_t number, const kernel_names& names) {
    auto answer = kernels_.ask(who, names);
    if (who == 0) {
      orders_.at(number).makers = std::move(answer.makers);
    } else {
      std::string m(1, static_cast<char>(message::makers));
      put_number(m, number, 8);
      put_number(m, answer.makers.size(), 4);
      for (const int r : answer.makers) put_number(m, r < 0 ? no_maker : static_cast<std::uint32_t>(r), 4);
      send(who, std::move(m));
    }
    for (const auto& b : answer.ready) send_bundle(who, b);
  }
  /// At rank 0: a rank, maybe itself, gives a bundle.
  void deliver(int from, const shared_bundle& b) {
    for (const int to : kernels_.deliver(from, b)) send_bundle(to, b);
  }
  void send_bundle(int to, const shared_bundle& b) {
    if (to == 0) resolve(b->names, b);
    else bundles_[static_cast<std::size_t>(to)].add(b);
  }
  void tell_none(const kernel_table::told& all) {
    for (const auto& [to, names] : all) {
      if (to == 0) resolve(names, nullptr);
      else send(to, none_message(names));
    }
  }
  void resolve(const kernel_names& names, const shared_bundle& with) {
    for (auto& [number, o] : orders_) o.resolve(names, with);
  }
  static std::string none_message(const kernel_names& names) {
    std::string m(1, static_cast<char>(message::none));
    put_names(m, names);
    return m;
  }
  bool is_over_locked() const { return !failure_.empty() || ranks_[static_cast<std::size_t>(rank_)].ended; }

  bool take_table(std::string_view m) {
    for (int r = 0; r < size(); ++r) {
      std::uint64_t flags = 0, age = 0;
      known_rank read;
      if (!take_number(m, flags, 1) || !take_number(m, age, 4) || !take_state(m, read)) return false;
      if (r == rank_) continue;
      auto& it = ranks_[static_cast<std::size_t>(r)];
      it.here = it.here || (flags & 1);
      if (flags & 2) set_ended(it);
      if (r != 0) it.heard = clock::now() - std::chrono::milliseconds(age);
      it.count = std::max(it.count, read.count);
      it.calls = std::max(it.calls, read.calls);
      it.reached = std::max(it.reached, read.reached);
      it.state = read.state;
      it.maker = read.maker;
      it.last = read.last;
    }
    return m.empty();
  }
  bool take_addressed(int connection, message kind, std::string_view whole) {
    std::string_view m = whole.substr(1);
    std::uint64_t from = 0, to = 0;
    if (!take_number(m, from, 4) || !take_number(m, to, 4) || from >= ranks_.size() || to >= ranks_.size())
      return false;
    if (rank_ == 0 ? from != static_cast<std::uint64_t>(connection) : to != static_cast<std::uint64_t>(rank_))
      return false;
    if (static_cast<int>(to) != rank_) return send(static_cast<int>(to), std::string(whole)), true;
    const int who = static_cast<int>(from);
    if (kind == message::post) {
      std::string_view key, text;
      if (!take_text(m, key) || !take_text(m, text) || !m.empty()) return false;
      posts_[std::string(key)][who] = text;
      return true;
    }
    std::uint64_t number = 0, nth = 0;
    program_guards theirs;
    std::string_view text;
    if (!take_number(m, number, 8) || !take_number(m, nth, 4) || m.size() < theirs.digest.size()) return false;
    std::memcpy(theirs.digest.data(), m.data(), theirs.digest.size());
    m.remove_prefix(theirs.digest.size());
    if (!take_text(m, text) || !m.empty()) return false;
    theirs.text = text;
    take_guards(who, kind, {number, static_cast<unsigned>(nth)}, std::move(theirs));
    return true;
  }
  void take_guards(int who, message kind, turn at, program_guards theirs) {
    const auto mine = program_of(at);
    if (kind == message::ask && !mine) {
      asked_[at].emplace_back(who, std::move(theirs));
      return;
    }
    if (at == asking_) answers_.insert(who);
    if (kind == message::ask) answer(who, at, *mine, theirs);
    else if (mine) compare(who, *mine, theirs);
  }
  /// This rank's program of a call, if it is known.
  std::shared_ptr<const program_guards> program_of(turn at) const {
    if (at.first >= calls_) return wanted_ && at == asking_ ? wanted_ : nullptr;
    const auto after = std::upper_bound(called_.begin(), called_.end(), at.first,
                                        [](std::uint64_t n, const called_program& p) { return n < p.first; });
    return after == called_.begin() ? nullptr : std::prev(after)->guards;
  }
  /// No rank asks for a call that all ranks have begun.
  void forget_old_calls() {
    std::uint64_t begun = calls_;
    for (int r = 0; r < size(); ++r)
      if (const auto& it = ranks_[static_cast<std::size_t>(r)]; r != rank_ && !it.ended)
        begun = std::min(begun, it.calls);
    while (called_.size() > 1 && called_[1].first < begun) called_.pop_front();
  }

  /// The first of the ranks that ended a while ago, if any: its last messages have arrived by now.
  std::string ended_among(const std::vector<int>& ranks) const {
    for (const int r : ranks) {
      const auto& it = ranks_[static_cast<std::size_t>(r)];
      if (it.ended && seconds_since(it.ended_at) > std::min(3.0, silence()))
        return "rank " + std::to_string(r) + " has ended";
    }
    return "";
  }
  std::string described_one(int r) const {
    const auto& it = ranks_[static_cast<std::size_t>(r)];
    std::string out = "rank " + std::to_string(r) + " (";
    if (!it.here) return out + "not started)";
    const double quiet = seconds_since(it.heard);
    out += it.ended                ? "has ended"
           : quiet > silence() / 3 ? "silent for " + std::to_string(static_cast<long>(quiet)) + " s"
                                   : described_state(it.state, it.maker);
    return out + (it.last.empty() ? ", before its first collective)" : ", last collective " + it.last + ")");
  }
  std::string described(const std::vector<int>& ranks) const {
    std::string out;
    constexpr std::size_t most = 8;
    for (std::size_t k = 0; k < std::min(ranks.size(), most); ++k) out += (k ? ", " : "") + described_one(ranks[k]);
    if (ranks.size() > most) out += " and " + std::to_string(ranks.size() - most) + " more";
    return out.empty() ? "a rank" : out;
  }

  const int rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> wake_;
  std::vector<known_rank> ranks_;
  std::vector<outgoing> outbox_;
  std::map<std::string, std::map<int, std::string>> posts_;
  std::uint64_t calls_ = 0;                       ///< of programs with collectives
  std::deque<called_program> called_;             ///< those that other ranks may ask for, in their order
  std::shared_ptr<const program_guards> wanted_;  ///< of the next call, for which this rank asks
  std::map<turn, std::vector<std::pair<int, program_guards>>> asked_;
  std::set<int> answers_;  ///< of the ranks, for what this rank asks
  std::map<std::uint64_t, ordered_kernels> orders_;
  std::uint64_t next_order_ = 0;
  kernel_table kernels_;                   ///< at rank 0
  std::vector<incoming_bundle> incoming_;  ///< by connection
  std::vector<outgoing_bundles> bundles_;  ///< the same
  turn asking_{~std::uint64_t{0}, 0};
  unsigned turn_ = 0;
  bool relay_lost_ = false, says_bye_ = false;
  std::string failure_;
  std::atomic<bool> failed_{false};
  bool table_due_ = false;
  clock::time_point ticked_ = clock::now();
  std::atomic<rank_state> state_{rank_state::host_code};
  std::atomic<int> maker_{0};  ///< whose kernels this rank waits for
  std::atomic<std::uint64_t> count_{0}, reached_{0};
  std::atomic<exchange_kind> last_kind_{exchange_kind::all_reduce};
  std::atomic<const char*> last_file_{""};
  std::atomic<int> last_line_{0};
};

}  // namespace sinter::engine::run
