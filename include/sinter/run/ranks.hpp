// run/ranks.hpp: ranks and the exchanges between them. The data plane between threads of a process: copies, and sums in the
// order of the ranks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../base/dtype.hpp"
#include "../base/error.hpp"
#include "../base/location.hpp"
#include "../base/log.hpp"

namespace sinter::engine::run {

enum class exchange_kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast };
enum class reduction : std::uint8_t { sum, most, least };

inline const char* name(exchange_kind k) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast"};
  return names[static_cast<int>(k)];
}

/// The collectives of a program, and the call that made it: what ranks compare.
struct program_guards {
  std::array<unsigned char, 32> digest{};
  std::string text;
};

/// A collective on contiguous arrays. With p ranks and `elements` = n: all_reduce, permute and broadcast turn n into n
/// elements, all_gather n into p·n, reduce_scatter p·n into n, all_to_all p·n into p·n. The p blocks are in the ranks' order.
struct exchange {
  exchange_kind what = exchange_kind::all_reduce;
  reduction how = reduction::sum;
  dtype type = dtype::f32;
  std::size_t elements = 0;
  std::int64_t root = 0;              ///< broadcast
  std::vector<std::int64_t> sources;  ///< permute: the rank that each rank receives from; -1 for zeros
  location where;
  std::string note;          ///< its text, if it only compares
  bool is_compared = false;  ///< the ranks compare their texts first, between processes, too

  /// In words; ranks whose texts differ do not meet.
  std::string text() const {
    std::string out = std::string(run::name(what)) + " of " + std::to_string(elements) + " " + dtype_name(type);
    if (what == exchange_kind::all_reduce || what == exchange_kind::reduce_scatter)
      out += how == reduction::sum ? " by sum" : how == reduction::most ? " by max" : " by min";
    if (what == exchange_kind::broadcast) out += " from rank " + std::to_string(root);
    for (std::size_t i = 0; i < sources.size(); ++i) out += (i ? "," : " from ") + std::to_string(sources[i]);
    return note.empty() ? out : note;
  }
};

/// The ranks along one axis of a mesh, as one of them sees them.
class rank_group {
 public:
  virtual ~rank_group() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t index() const = 0;
  /// Returns when this rank's result is complete and `in` is no longer read. Throws system_error if the ranks do not meet.
  virtual void run(const exchange& e, const void* in, void* out) = 0;
  /// Throws system_error on all ranks unless they give equal texts.
  virtual void compare(const std::string& text, const char* op, location where) = 0;

  /// The texts of all ranks, in their order. Empty for ranks that are threads.
  virtual std::vector<std::string> tell(const std::string&, const char*, location) { return {}; }
  /// Of an exchange that goes on while the host continues: its number, as it begins. Throws system_error once the ranks do not
  /// meet.
  virtual std::uint64_t begin(const exchange&) { return 0; }
  /// The GPU has begun that exchange.
  virtual void reach(std::uint64_t) {}
  /// It has gone on for `seconds`: tells who is missing, once, and fails the mesh after the limit. Ranks whose GPUs do earlier work
  /// are waited for as long as they are heard of.
  virtual void judge(const exchange&, std::uint64_t, double, bool&) {}
  /// Fails the mesh on all ranks.
  virtual void fail_all(const std::string&) {}
  /// Why the ranks do not meet any more; empty while they do.
  virtual std::string failure() const { return {}; }
};

/// Kernels that this rank lacks. Of the ranks that lack a kernel, one makes it, and the others receive it. When the order ends,
/// they learn which kernels do not come.
class kernel_order {
 public:
  virtual ~kernel_order() = default;
  /// What stands for kernel k in a bundle.
  virtual std::string_view name(std::size_t k) const = 0;
  /// Whether this rank makes it.
  virtual bool is_mine(std::size_t k) const = 0;
  /// Gives the other ranks a bundle of these kernels.
  virtual void give(const std::vector<std::size_t>& kernels, std::string bundle) = 0;
  /// Waits for the kernels of other ranks. Bundles that together have those that came: some do not come, and none once the mesh
  /// has failed. For a program with collectives a failure throws.
  virtual std::vector<std::shared_ptr<const std::string>> take() = 0;
  /// The greatest number of bytes of a bundle.
  static constexpr std::size_t max_bytes = std::size_t{32} << 20;
};

/// All ranks of a program, as one of them sees them.
class rank_world {
 public:
  virtual ~rank_world() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  /// The group of these ranks, ascending, of which this rank is one. Equal calls of one rank give one group.
  virtual std::shared_ptr<rank_group> group(const std::string& name, const std::vector<int>& members, location at) = 0;

  /// Whether agree() is to be called before a program with collectives is compiled: it returns once all ranks have, or want, one
  /// with the same collectives, and throws system_error if one differs.
  virtual bool compares_programs() const { return false; }
  virtual void agree(const std::shared_ptr<const program_guards>&, location) {}
  /// A program with collectives is called. All ranks count these calls alike.
  virtual void begin_call(const std::shared_ptr<const program_guards>&) {}
  /// Whether nothing is to be waited for any more, since a rank is lost.
  virtual bool has_failed() const { return false; }
  /// Whether ranks are processes, whose GPUs exchange by themselves.
  virtual bool is_of_processes() const { return false; }
  /// Other ranks are told that this one compiles. `exchanges` of a program with collectives, whose first is at `where`.
  virtual void enter_compilation(bool, bool, location) {}
  /// Asks for kernels, by texts that are equal where ranks may share them. Null where ranks share none.
  virtual std::unique_ptr<kernel_order> order_kernels(const std::vector<std::string>&) { return nullptr; }

  /// The groups by the number of their axis.
  void bind(std::int64_t axis, std::shared_ptr<rank_group> g) { axes_[axis] = std::move(g); }
  rank_group* along(std::int64_t axis) const {
    const auto at = axes_.find(axis);
    return at == axes_.end() ? nullptr : at->second.get();
  }

 private:
  std::map<std::int64_t, std::shared_ptr<rank_group>> axes_;
};

/// A program without other ranks.
class single_world final : public rank_world {
 public:
  int size() const override { return 1; }
  int rank() const override { return 0; }
  std::shared_ptr<rank_group> group(const std::string&, const std::vector<int>&, location) override { return nullptr; }
};

/// This thread's world; null for that of the process.
inline std::shared_ptr<rank_world>& world_of_thread() {
  static thread_local std::shared_ptr<rank_world> w;
  return w;
}
/// The world of the process's threads; null while it is alone. Never destroyed.
inline std::atomic<rank_world*>& world_of_process() {
  static std::atomic<rank_world*> w{nullptr};
  return w;
}
/// The world of this thread: its own, else that of the process.
inline rank_world& world() {
  if (rank_world* own = world_of_thread().get()) return *own;
  if (rank_world* joined = world_of_process().load(std::memory_order_acquire)) return *joined;
  static auto& alone = *new single_world;
  return alone;
}

namespace detail {

/// T's own sum, with 16 and 8 bits in f32.
template <class T>
using sum_type = std::conditional_t<is_narrow_float<T>, float, T>;

/// to[i] = combine over the ranks of from(rank)[i], in the ranks' order; NaN wins.
template <class T, class From>
void combine_ranks(reduction how, std::size_t n, std::size_t ranks, T* to, const From& from) {
  using S = sum_type<T>;
  for (std::size_t i = 0; i < n; ++i) {
    S all = static_cast<S>(from(0)[i]);
    for (std::size_t r = 1; r < ranks; ++r) {
      const S x = static_cast<S>(from(r)[i]);
      if constexpr (std::is_same_v<T, bool>) all = how == reduction::least ? all && x : all || x;
      else if (how == reduction::most) all = all > x || all != all ? all : x;
      else if (how == reduction::least) all = all < x || all != all ? all : x;
      else if constexpr (std::is_integral_v<T>)
        all = static_cast<S>(static_cast<std::make_unsigned_t<T>>(static_cast<std::make_unsigned_t<T>>(all) +
                                                                  static_cast<std::make_unsigned_t<T>>(x)));
      else all += x;
    }
    to[i] = static_cast<T>(all);
  }
}

inline double mesh_timeout() {
  const char* text = std::getenv("SINTER_MESH_TIMEOUT");
  const double seconds = text ? std::strtod(text, nullptr) : 0;
  return seconds > 0 ? std::min(seconds, 1e8) : 600;
}

/// The meeting of a group of threads.
struct thread_meeting {
  struct slot {
    const void* in = nullptr;
    std::string text;
    location where;
    bool here = false;
  };
  std::string name;
  std::vector<int> members;
  std::vector<slot> slots;
  std::size_t arrived = 0, left = 0;
  std::uint64_t round = 0;
  std::string broken;  ///< the reason, once its ranks came for different things or waited too long
};

/// What all threads of a world share.
struct thread_hall {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<thread_meeting>> meetings;
  std::map<int, std::string> gone;  ///< ranks that come no more, and why

  void leave(int rank, const std::string& why) {
    const std::lock_guard lock(mutex);
    gone[rank] = "rank " + std::to_string(rank) + " " + why;
    changed.notify_all();
  }
};

/// Tells ranks that fail because another one failed.
class left_alone : public system_error {
 public:
  using system_error::system_error;
};

class thread_group final : public rank_group {
 public:
  thread_group(std::shared_ptr<thread_hall> hall, std::shared_ptr<thread_meeting> meeting, std::size_t index)
      : hall_(std::move(hall)), meeting_(std::move(meeting)), index_(index) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(meeting_->slots.size()); }
  std::int64_t index() const override { return static_cast<std::int64_t>(index_); }

  void run(const exchange& e, const void* in, void* out) override {
    arrive(e, in);
    visit_dtype(e.type, [&]<class T>(std::type_identity<T>) { compute<T>(e, static_cast<T*>(out)); });
    leave(e);
  }
  void compare(const std::string& text, const char*, location where) override {
    exchange e;
    e.where = where;
    e.note = text;
    arrive(e, nullptr);
    leave(e);
  }

 private:
  using clock = std::chrono::steady_clock;

  /// Waits under the lock until ready(), and tells who is missing.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const exchange& e, const Ready& ready) {
    const auto start = clock::now();
    const double limit = mesh_timeout();
    bool told = false;
    while (!ready()) {
      if (const std::string why = hopeless(); !why.empty()) {
        if (meeting_->broken.empty()) meeting_->broken = why;
        hall_->changed.notify_all();
        fail_alone(e, why);
      }
      hall_->changed.wait_for(lock, std::chrono::milliseconds(200));
      const double waited = std::chrono::duration<double>(clock::now() - start).count();
      if (waited > std::min(30.0, limit) && !told && !ready()) {
        told = true;
        logs::warn_once(missing() + " of " + meeting_->name + " did not arrive at " +
                        sinter::detail::located(e.text(), e.where));
      }
      if (waited > limit && !ready()) {
        meeting_->broken = missing() + " did not arrive within SINTER_MESH_TIMEOUT";
        hall_->changed.notify_all();
      }
    }
  }
  /// Why the meeting never takes place; empty if it may.
  std::string hopeless() const {
    if (!meeting_->broken.empty()) return meeting_->broken;
    for (std::size_t r = 0; r < meeting_->slots.size(); ++r)
      if (const auto at = hall_->gone.find(meeting_->members[r]); !meeting_->slots[r].here && at != hall_->gone.end())
        return at->second;
    return {};
  }
  std::string missing() const {
    std::string out;
    for (std::size_t r = 0; r < meeting_->slots.size(); ++r)
      if (!meeting_->slots[r].here) out += (out.empty() ? "rank " : ", rank ") + std::to_string(meeting_->members[r]);
    return out.empty() ? "a rank" : out;
  }
  [[noreturn]] static void fail_alone(const exchange& e, const std::string& why) {
    throw left_alone(
        sinter::detail::located("[" + std::string(run::name(e.what)) + "] the ranks do not meet: " + why, e.where));
  }

  void arrive(const exchange& e, const void* in) {
    std::unique_lock lock(hall_->mutex);
    thread_meeting& m = *meeting_;
    // A rank that gave up has left its operand's address behind.
    if (!m.broken.empty()) fail_alone(e, m.broken);
    wait(lock, e, [&] { return m.left == 0; });  // the previous round
    if (!m.broken.empty()) fail_alone(e, m.broken);
    m.slots[index_] = {in, e.text(), e.where, true};
    const std::uint64_t round = m.round;
    if (++m.arrived == m.slots.size()) {
      ++m.round;
      hall_->changed.notify_all();
    }
    wait(lock, e, [&] { return m.round != round; });
    compare_all(e);
  }
  /// Throws on all ranks unless all came for the same exchange.
  void compare_all(const exchange& e) {
    for (const auto& s : meeting_->slots)
      if (s.text != meeting_->slots[0].text) {
        const auto& first = meeting_->slots[0];
        meeting_->broken = "an earlier call did different things on different ranks";
        throw system_error(sinter::detail::located(
            "[" + std::string(run::name(e.what)) + "] ranks of " + meeting_->name + " do different things: " +
                sinter::detail::located(first.text, first.where) + "; " + sinter::detail::located(s.text, s.where) +
                "; all ranks have to call the same function with arguments of the same extents",
            e.where));
      }
  }
  void leave(const exchange& e) {
    std::unique_lock lock(hall_->mutex);
    thread_meeting& m = *meeting_;
    const std::uint64_t round = m.round;
    if (++m.left == m.slots.size()) {
      m.arrived = m.left = 0;
      for (auto& s : m.slots) s.here = false;
      ++m.round;
      hall_->changed.notify_all();
      return;
    }
    wait(lock, e, [&] { return m.round != round; });
  }

  template <class T>
  const T* from(std::size_t rank) const {
    return static_cast<const T*>(meeting_->slots[rank].in);
  }
  template <class T>
  void compute(const exchange& e, T* out) {
    const std::size_t n = e.elements, ranks = meeting_->slots.size();
    const auto copy = [&](T* to, const T* x) {
      if (n > 0) std::memcpy(to, x, n * sizeof(T));
    };
    switch (e.what) {
      case exchange_kind::all_reduce:
        return combine_ranks(e.how, n, ranks, out, [&](std::size_t r) { return from<T>(r); });
      case exchange_kind::reduce_scatter:
        return combine_ranks(e.how, n, ranks, out, [&](std::size_t r) { return from<T>(r) + index_ * n; });
      case exchange_kind::all_gather:
        for (std::size_t r = 0; r < ranks; ++r) copy(out + r * n, from<T>(r));
        return;
      case exchange_kind::all_to_all:
        for (std::size_t r = 0; r < ranks; ++r) copy(out + r * n, from<T>(r) + index_ * n);
        return;
      case exchange_kind::broadcast:
        return copy(out, from<T>(static_cast<std::size_t>(e.root)));
      case exchange_kind::permute: {
        const std::int64_t source = e.sources[index_];
        if (source >= 0) copy(out, from<T>(static_cast<std::size_t>(source)));
        else if (n > 0) std::memset(static_cast<void*>(out), 0, n * sizeof(T));
      }
    }
  }

  std::shared_ptr<thread_hall> hall_;
  std::shared_ptr<thread_meeting> meeting_;
  std::size_t index_;
};

class thread_world final : public rank_world {
 public:
  thread_world(std::shared_ptr<thread_hall> hall, int size, int rank)
      : hall_(std::move(hall)), size_(size), rank_(rank) {}
  int size() const override { return size_; }
  int rank() const override { return rank_; }

  std::shared_ptr<rank_group> group(const std::string& name, const std::vector<int>& members, location) override {
    std::string key = name;
    std::size_t index = 0;
    for (std::size_t k = 0; k < members.size(); ++k) {
      key += " " + std::to_string(members[k]);
      if (members[k] == rank_) index = k;
    }
    const std::lock_guard lock(hall_->mutex);
    auto& m = hall_->meetings[key];
    if (!m) {
      m = std::make_shared<thread_meeting>();
      m->name = name;
      m->members = members;
      m->slots.resize(members.size());
    }
    return std::make_shared<thread_group>(hall_, m, index);
  }

 private:
  std::shared_ptr<thread_hall> hall_;
  int size_, rank_;
};

}  // namespace detail

/// Runs f(rank) on a thread for each rank, and waits for all. If some throw, rethrows the first cause by rank: the other ranks
/// then fail at their next exchange. system_error if there are not so many threads.
inline void run_on_threads(int ranks, const sinter::detail::callback<void(int)>& f) {
  const auto hall = std::make_shared<detail::thread_hall>();
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(ranks)), alone(static_cast<std::size_t>(ranks));
  const auto run_rank = [&](int rank) {
    world_of_thread() = std::make_shared<detail::thread_world>(hall, ranks, rank);
    const auto k = static_cast<std::size_t>(rank);
    try {
      f(rank);
      hall->leave(rank, "has ended");
    } catch (const detail::left_alone&) {
      alone[k] = std::current_exception();
      hall->leave(rank, "has failed");
    } catch (const std::exception& problem) {
      failed[k] = std::current_exception();
      hall->leave(rank, std::string("has failed: ") + problem.what());
    } catch (...) {
      failed[k] = std::current_exception();
      hall->leave(rank, "has failed");
    }
    world_of_thread() = nullptr;
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  std::string lacks;
  for (int r = 0; r < ranks; ++r) {
    try {
      threads.emplace_back(run_rank, r);
    } catch (const std::system_error& problem) {
      lacks = problem.what();
      for (int missing = r; missing < ranks; ++missing) hall->leave(missing, "cannot be started: " + lacks);
      break;
    }
  }
  for (auto& t : threads) t.join();
  if (!lacks.empty())
    throw system_error("[on_threads] " + std::to_string(threads.size()) + " of " + std::to_string(ranks) +
                       " threads could be started (" + lacks + "); give fewer ranks, or raise the limit (ulimit -u)");
  for (const auto& problem : failed)
    if (problem) std::rethrow_exception(problem);
  for (const auto& problem : alone)
    if (problem) std::rethrow_exception(problem);
}

}  // namespace sinter::engine::run
