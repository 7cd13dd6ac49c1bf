// run/cuda/program/nccl.hpp: exchanges between the GPUs of ranks that are processes, by NCCL, opened on first use.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../helper_signals.hpp"
#include "../../ranks.hpp"
#include "../device/copy.hpp"
#include "../device/stream.hpp"

namespace sinter::engine::run::cuda {

/// Types and constants of nccl.h, by NCCL's user guide ("Types", "Communicator Creation and Management Functions", 2.23).
namespace nccl_api {

using result = int;                     // ncclResult_t
using comm = struct communicator_tag*;  // ncclComm_t
inline constexpr result success = 0, in_progress = 7;
inline constexpr int sum = 0;  // ncclRedOp_t
inline constexpr int most = 2, least = 3;

struct unique_id {
  char bytes[128];
};
/// The first members of ncclConfig_t. NCCL reads as many bytes as `size` tells, and of the members only those that `version` had.
struct config {
  std::size_t size = sizeof(config);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
};

/// ncclDataType_t of elements that NCCL adds, or -1.
constexpr int type_of(dtype t) {
  switch (t) {
    case dtype::i8:
      return 0;
    case dtype::u8:
      return 1;
    case dtype::i32:
      return 2;
    case dtype::u32:
      return 3;
    case dtype::i64:
      return 4;
    case dtype::u64:
      return 5;
    case dtype::f16:
      return 6;
    case dtype::f32:
      return 7;
    case dtype::f64:
      return 8;
    case dtype::bf16:
      return 9;
    default:
      return -1;
  }
}

}  // namespace nccl_api

/// Whether NCCL combines such elements as sinter does. It knows no sum of others, and of floats its extremes pass over NaN.
constexpr bool nccl_combines(dtype t, reduction how) {
  return nccl_api::type_of(t) >= 0 && (how == reduction::sum || !is_float(t));
}

/// The entry points. `problem` is empty if all are there.
struct nccl_table {
  using result = nccl_api::result;
  using comm = nccl_api::comm;
  result (*version)(int*) = nullptr;
  result (*unique_id)(nccl_api::unique_id*) = nullptr;
  result (*init)(comm*, int ranks, nccl_api::unique_id, int rank, nccl_api::config*) = nullptr;
  result (*state)(comm, result*) = nullptr;
  result (*abort)(comm) = nullptr;
  const char* (*text)(result) = nullptr;
  result (*all_reduce)(const void*, void*, std::size_t, int type, int op, comm, api::stream) = nullptr;
  result (*all_gather)(const void*, void*, std::size_t, int type, comm, api::stream) = nullptr;
  result (*reduce_scatter)(const void*, void*, std::size_t, int type, int op, comm, api::stream) = nullptr;
  result (*broadcast)(const void*, void*, std::size_t, int type, int root, comm, api::stream) = nullptr;
  result (*send)(const void*, std::size_t, int type, int peer, comm, api::stream) = nullptr;
  result (*receive)(void*, std::size_t, int type, int peer, comm, api::stream) = nullptr;
  result (*group_start)() = nullptr;
  result (*group_end)() = nullptr;
  int number = 0;  ///< 22703 for 2.27.3
  std::string problem;
};

namespace detail {

SINTER_API nccl_table open_nccl() {
  nccl_table out;
  const library found = open_library({"SINTER_LIBNCCL", {"libnccl.so.2", "libnccl.so"}, {"nccl"}});
  if (found.handle == nullptr) {
    out.problem = found.problem;
    return out;
  }
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(found.handle, name));
    if (pointer == nullptr && out.problem.empty()) out.problem = found.path + " lacks " + name + "; NCCL 2.14 has it";
  };
  take(out.version, "ncclGetVersion");
  take(out.unique_id, "ncclGetUniqueId");
  take(out.init, "ncclCommInitRankConfig");
  take(out.state, "ncclCommGetAsyncError");
  take(out.abort, "ncclCommAbort");
  take(out.text, "ncclGetErrorString");
  take(out.all_reduce, "ncclAllReduce");
  take(out.all_gather, "ncclAllGather");
  take(out.reduce_scatter, "ncclReduceScatter");
  take(out.broadcast, "ncclBroadcast");
  take(out.send, "ncclSend");
  take(out.receive, "ncclRecv");
  take(out.group_start, "ncclGroupStart");
  take(out.group_end, "ncclGroupEnd");
  if (out.problem.empty() && out.version(&out.number) != nccl_api::success)
    out.problem = found.path + " tells no version";
  return out;
}

}  // namespace detail

SINTER_API const nccl_table& nccl() {
  static auto* const table = new nccl_table(detail::open_nccl());
  return *table;
}
/// SINTER_LIBNCCL=none, on all ranks: exchanges pass through host memory.
inline bool nccl_is_wanted() { return detail::environment("SINTER_LIBNCCL") != "none"; }

namespace detail {

/// The communicators of this process, and exchanges that their GPUs have not finished. A thread watches both: it aborts all
/// communicators once the mesh has failed, since an exchange with a lost rank never ends by itself.
class exchange_watch {
 public:
  struct communicator {
    std::timed_mutex mutex;  ///< of each call with the handle, which an abort frees; NCCL may block within one
    nccl_api::comm handle = nullptr;
    std::atomic<bool> opened{false};  ///< the handle is set
    std::atomic<bool> aborted{false};
  };

  /// The communicator of a group on a GPU, whose context is current; all ranks of the group make it together.
  communicator& of(rank_group& g, api::context where, const exchange& e) {
    std::unique_lock lock(mutex_);
    if (const auto at = communicators_.find({&g, where}); at != communicators_.end()) return *at->second;
    lock.unlock();
    communicator& made = make(g, where, e);
    lock.lock();
    communicators_[{&g, where}] = &made;
    if (!std::exchange(drains_, true)) drain_at_exit();
    return made;
  }

  /// Returns once few exchanges are pending: a request beyond the room of the GPU's queue blocks within NCCL. Throws
  /// system_error once the mesh has failed.
  void wait_for_room(rank_group& g, const exchange& e) {
    std::unique_lock lock(mutex_);
    while (pending_.size() >= max_pending) {
      look(lock);
      if (const std::string why = g.failure(); !why.empty()) fail(e, why);
      if (pending_.size() >= max_pending) changed_.wait_for(lock, std::chrono::microseconds(200));
    }
  }

  /// Asks NCCL, and returns once NCCL has taken the request. Throws system_error for its errors, and once the ranks do not meet.
  template <class Ask>
  void settle(communicator& c, rank_group& g, api::context where, const exchange& e, const Ask& ask) {
    const nccl_table& call = nccl();
    const request_scope watched(*this, g, where);
    const auto locked = [&](const auto& f) {
      const std::lock_guard lock(c.mutex);
      if (c.aborted) fail(e, g.failure());
      return f();
    };
    nccl_api::result r = locked(ask);
    for (int turn = 0; r == nccl_api::in_progress; ++turn) {
      if (const std::string why = g.failure(); !why.empty()) fail(e, why);
      if (turn > 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (watched.seconds() > run::detail::mesh_timeout()) r = nccl_timeout(g, e);
      else if (const auto asked = locked([&] { return call.state(c.handle, &r); }); asked != nccl_api::success)
        r = asked;
    }
    if (r == nccl_api::success) return;
    g.fail_all(std::string("NCCL: ") + call.text(r));
    fail(e, g.failure());
  }

  /// A point in a stream's present work, whose context is `where`.
  api::event mark(api::context where, api::stream q) {
    const api::event e = take_event(where);
    check(driver().event_record(e, q), "recording an event");
    return e;
  }
  /// Notes an exchange that a stream's present work contains, since the mark `begins`.
  void note(rank_group& g, communicator& c, std::uint64_t number, const exchange& e, api::context where, api::stream q,
            api::event begins) {
    pending one{&g, &c, number, e, where, begins, mark(where, q), std::nullopt, false};
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(one));
    work_.notify_one();
  }
  /// Fails the mesh on all ranks, and has all communicators aborted: this rank does not know what NCCL has taken.
  void abandon(rank_group& g, const std::string& why) {
    if (g.failure().empty()) g.fail_all("a request of an exchange failed: " + why);
    const std::lock_guard lock(mutex_);
    given_up_ = g.failure();
    work_.notify_one();
  }
  /// Waits until no exchange is pending, or the mesh has failed.
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pending_.empty(); });
  }

  [[noreturn]] static void fail(const exchange& e, const std::string& why) {
    throw system_error(sinter::detail::located("[" + std::string(run::name(e.what)) + "] the ranks do not meet: " +
                                                   why + "; this mesh is unusable from now on, start the program again",
                                               e.where));
  }

 private:
  static constexpr std::size_t max_pending = 32;

  struct pending {
    rank_group* group;
    communicator* by;
    std::uint64_t number;
    exchange what;
    api::context where;
    api::event begins, done;
    std::optional<std::chrono::steady_clock::time_point> begun;
    bool told;
  };

  /// While it lives, the thread looks whether the mesh fails, although no exchange may be pending yet. A request that takes too
  /// long fails it: to the other ranks this one has asked for the exchange, and its GPU is busy.
  struct request_scope {
    request_scope(exchange_watch& w, rank_group& g, api::context where) : all(w), group(&g) {
      const std::lock_guard lock(all.mutex_);
      all.start_watching(where);
      all.asking_.push_back(this);
      all.work_.notify_one();
    }
    ~request_scope() {
      const std::lock_guard lock(all.mutex_);
      all.asking_.erase(std::find(all.asking_.begin(), all.asking_.end(), this));
    }
    request_scope(const request_scope&) = delete;
    request_scope& operator=(const request_scope&) = delete;
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
    exchange_watch& all;
    rank_group* group;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  };
  static constexpr const char* nccl_is_late = "NCCL does not begin within SINTER_MESH_TIMEOUT";

  /// The caller holds the mutex.
  void start_watching(api::context where) {
    if (watches_) return;
    const helper_signals left_alone;
    std::thread([this, where] { watch(where); }).detach();
    watches_ = true;
  }

  /// CUDA's own handlers, which end it, are older than the first communicator, so they run later. A child process has no
  /// watching thread.
  void drain_at_exit() {
    static exchange_watch* const all = this;
    static const ::pid_t of = ::getpid();
    std::atexit([] {
      if (::getpid() == of) all->drain();
    });
  }

  static nccl_api::result nccl_timeout(rank_group& g, const exchange& e) {
    g.fail_all(nccl_is_late);
    fail(e, g.failure());
  }
  /// What make() tells: '+', the GPU, a zero byte, and from rank 0 of the group the id; or '-' and a problem.
  static std::string introduction(const rank_group& g) {
    const nccl_table& call = nccl();
    if (!call.problem.empty()) return "-" + call.problem;
    std::string own;
    try {
      own = "+" + current_gpu() + std::string(1, '\0');
    } catch (const std::exception& problem) {  // the others are to learn of it
      return std::string("-") + problem.what();
    }
    if (g.index() != 0) return own;
    nccl_api::unique_id id{};
    if (const auto r = call.unique_id(&id); r != nccl_api::success) return std::string("-") + call.text(r);
    return own.append(id.bytes, sizeof id.bytes);
  }
  /// The UUID of the current context's GPU. It is unique on all hosts, unlike names of containers.
  static std::string current_gpu() {
    api::device here = 0;
    std::array<unsigned char, 16> uuid{};
    check(driver().context_device(&here), "asking for the current GPU");
    check(driver().device_uuid(uuid.data(), here), "reading a GPU's UUID");
    std::string out;
    for (const unsigned char byte : uuid) out += "0123456789abcdef"[byte >> 4], out += "0123456789abcdef"[byte & 15];
    return out;
  }
  /// Throws user_error on all ranks if two of them have the same GPU, of which NCCL takes one rank.
  static void refuse_equal_gpus(const std::vector<std::string>& all, const exchange& e) {
    std::map<std::string, std::size_t> ranks;
    for (std::size_t r = 0; r < all.size(); ++r) {
      const auto [at, is_new] = ranks.emplace(all[r].substr(0, all[r].find('\0')), r);
      if (is_new) continue;
      sinter::fail(
          run::name(e.what),
          "ranks " + std::to_string(at->second) + " and " + std::to_string(r) +
              " of the axis share a GPU, and NCCL takes one rank of each; set SINTER_LOCAL to the rank's number on "
              "its host and start at most one rank for each GPU, or set SINTER_LIBNCCL=none on all ranks",
          e.where);
    }
  }
  /// Rank 0 of the group draws the id, and the control channel hands it out. All ranks learn whether one lacks NCCL.
  communicator& make(rank_group& g, api::context where, const exchange& e) {
    const auto all = g.tell(introduction(g), run::name(e.what), e.where);
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].empty() || all[r][0] != '+')
        throw system_error(sinter::detail::located(
            "[" + std::string(run::name(e.what)) + "] GPUs of processes exchange by NCCL, and rank " +
                std::to_string(r) + " of the axis has none: " + all[r].substr(std::min<std::size_t>(1, all[r].size())) +
                "; install it, set SINTER_LIBNCCL to the path of libnccl.so.2, or start the program with mpirun and "
                "SINTER_LIBNCCL=none",
            e.where));
    refuse_equal_gpus(all, e);
    nccl_api::unique_id id{};
    const std::size_t at = all.empty() ? std::string::npos : all[0].find('\0');
    if (at == std::string::npos || all[0].size() != at + 1 + sizeof id.bytes) fail(e, "rank 0 tells no id for NCCL");
    std::memcpy(id.bytes, all[0].data() + at + 1, sizeof id.bytes);
    // Kept after a failure, too: the handle has to be aborted.
    communicator* const c = new communicator;
    {
      const std::lock_guard lock(mutex_);
      made_.emplace_back(c);
    }
    try {
      nccl_api::config how;
      settle(*c, g, where, e, [&] {
        const auto r = nccl().init(&c->handle, static_cast<int>(g.size()), id, static_cast<int>(g.index()), &how);
        c->opened = c->handle != nullptr;
        return r;
      });
    } catch (const std::exception& problem) {
      abandon(g, problem.what());
      throw;
    }
    return *c;
  }

  api::event take_event(api::context where) {
    {
      const std::lock_guard lock(mutex_);
      if (auto& free = events_[where]; !free.empty()) {
        const api::event e = free.back();
        free.pop_back();
        return e;
      }
    }
    api::event e = nullptr;
    check(driver().event_create(&e, api::event_disable_timing), "making an event");
    return e;
  }

  void watch(api::context where) {
    driver().context_set(where);
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto is_due = [&] { return !pending_.empty() || !asking_.empty() || !given_up_.empty(); };
      if (!is_due()) work_.wait(lock, is_due);
      else if (given_up_.empty()) work_.wait_for(lock, std::chrono::milliseconds(5));
      look(lock);
    }
  }
  /// Forgets exchanges that have ended, judges the others, and aborts all once the mesh has failed.
  void look(std::unique_lock<std::mutex>& lock) {
    std::string why = std::exchange(given_up_, {});
    for (const request_scope* const r : asking_) {
      if (r->seconds() > run::detail::mesh_timeout()) r->group->fail_all(nccl_is_late);
      if (why.empty()) why = r->group->failure();
    }
    const std::size_t count = pending_.size();
    for (auto at = pending_.begin(); at != pending_.end() && why.empty();) {
      why = at->group->failure();
      if (!why.empty()) break;
      if (driver().event_query(at->done) != api::not_ready) {  // after an error of the GPU each wait for it throws
        at->group->reach(at->number);
        auto& free = events_[at->where];
        free.push_back(at->begins);
        free.push_back(at->done);
        at = pending_.erase(at);
        continue;
      }
      judge(*at);
      ++at;
    }
    if (!why.empty()) {
      give_up_work(why);
      pending_.clear();
      abort_all(lock);
    }
    if (pending_.size() != count || pending_.empty()) changed_.notify_all();
  }
  /// The time counts from when the GPU begins the exchange: its earlier work may take as long as it likes.
  static void judge(pending& one) {
    const auto now = std::chrono::steady_clock::now();
    if (!one.begun && driver().event_query(one.begins) != api::not_ready) {
      one.begun = now;
      one.group->reach(one.number);
    }
    if (const auto state = state_of(*one.by); state != nccl_api::success && state != nccl_api::in_progress)
      one.group->fail_all(std::string("NCCL: ") + nccl().text(state));
    one.group->judge(one.what, one.number, one.begun ? std::chrono::duration<double>(now - *one.begun).count() : 0.0,
                     one.told);
  }
  void abort_all(std::unique_lock<std::mutex>& lock) {
    for (std::size_t k = 0; k < made_.size(); ++k) {
      communicator& c = *made_[k];
      lock.unlock();
      {
        // A call of another thread that blocks within NCCL ends by the abort.
        const std::unique_lock own(c.mutex, std::chrono::seconds(1));
        if (c.opened && !c.aborted.exchange(true)) nccl().abort(c.handle);
      }
      lock.lock();
    }
  }

  /// The error of a communicator, unless another thread is calling NCCL with it.
  static nccl_api::result state_of(communicator& c) {
    const std::unique_lock lock(c.mutex, std::try_to_lock);
    nccl_api::result r = nccl_api::success;
    if (!lock.owns_lock() || c.aborted) return r;
    const auto asked = nccl().state(c.handle, &r);
    return asked == nccl_api::success ? r : asked;
  }

  std::mutex mutex_;
  std::condition_variable work_;     ///< for the watching thread
  std::condition_variable changed_;  ///< for those who wait for it
  std::vector<std::unique_ptr<communicator>> made_;
  std::map<std::pair<rank_group*, api::context>, communicator*> communicators_;  ///< those that are ready
  std::vector<const request_scope*> asking_;                                     ///< of threads that are within NCCL
  std::vector<pending> pending_;
  std::map<api::context, std::vector<api::event>> events_;  ///< unused ones
  std::string given_up_;                                    ///< why all is to be aborted, until it is
  bool watches_ = false, drains_ = false;
};

// Never destroyed: its thread goes on until the process ends.
SINTER_API exchange_watch& watch_of_exchanges() {
  static auto* const instance = new exchange_watch;
  return *instance;
}

/// Asks NCCL for an exchange of bytes, or of numbers if it adds.
inline nccl_api::result ask_nccl(nccl_api::comm c, const rank_group& g, const exchange& e, const char* in, char* out,
                                 api::stream stream) {
  const nccl_table& call = nccl();
  constexpr int byte = 1;
  const std::size_t bytes = e.elements * size_of(e.type);
  const int type = nccl_api::type_of(e.type);
  const int op = e.how == reduction::sum ? nccl_api::sum : e.how == reduction::most ? nccl_api::most : nccl_api::least;
  const auto p = static_cast<std::size_t>(g.size()), own = static_cast<std::size_t>(g.index());
  nccl_api::result first = nccl_api::success;
  const auto note = [&](nccl_api::result r) {
    if (first == nccl_api::success && r != nccl_api::in_progress) first = r;
  };
  switch (e.what) {
    case exchange_kind::all_reduce:
      return call.all_reduce(in, out, e.elements, type, op, c, stream);
    case exchange_kind::reduce_scatter:
      return call.reduce_scatter(in, out, e.elements, type, op, c, stream);
    case exchange_kind::all_gather:
      return call.all_gather(in, out, bytes, byte, c, stream);
    case exchange_kind::broadcast:
      return call.broadcast(in, out, bytes, byte, static_cast<int>(e.root), c, stream);
    case exchange_kind::all_to_all:
      note(call.group_start());
      for (std::size_t r = 0; r < p; ++r) {
        if (r == own) continue;
        note(call.send(in + r * bytes, bytes, byte, static_cast<int>(r), c, stream));
        note(call.receive(out + r * bytes, bytes, byte, static_cast<int>(r), c, stream));
      }
      break;
    case exchange_kind::permute:
      note(call.group_start());
      for (std::size_t to = 0; to < p; ++to)
        if (to != own && e.sources[to] == static_cast<std::int64_t>(own))
          note(call.send(in, bytes, byte, static_cast<int>(to), c, stream));
      if (const std::int64_t from = e.sources[own]; from >= 0 && from != static_cast<std::int64_t>(own))
        note(call.receive(out, bytes, byte, static_cast<int>(from), c, stream));
  }
  const nccl_api::result end = call.group_end();
  return first != nccl_api::success ? first : end;
}

/// A rank's own part of an exchange by sends: copied, or zeros.
inline void copy_own_part(const rank_group& g, const exchange& e, const char* in, char* out, api::stream q) {
  const driver_table& call = driver();
  const std::size_t bytes = e.elements * size_of(e.type);
  const auto own = static_cast<std::size_t>(g.index());
  const bool to_all = e.what == exchange_kind::all_to_all;
  if (!to_all && e.what != exchange_kind::permute) return;
  const std::size_t at = to_all ? own * bytes : 0;
  if (to_all || e.sources[own] == g.index())
    check(call.copy_within(address_of(out + at), address_of(in + at), bytes, q), "copying on the GPU");
  else if (e.sources[own] < 0) check(call.fill(address_of(out), 0, bytes, q), "filling memory of the GPU");
}

}  // namespace detail

/// Requests the writing of a number to a GPU, whose context is current, from a stream.
inline void write_number(void* to, std::int64_t number, void* stream) {
  // The driver has read pageable memory when the call returns.
  check(driver().copy_to_device(detail::address_of(to), &number, sizeof number, static_cast<api::stream>(stream)),
        "copying to the GPU");
}

/// Requests an exchange between GPUs, of which this rank's context is current, from a stream. Returns before it has ended. Throws
/// system_error once the ranks do not meet.
inline void exchange_on_gpus(rank_group& g, const exchange& e, const void* in, void* out, void* stream) {
  auto& all = detail::watch_of_exchanges();
  all.wait_for_room(g, e);
  const std::uint64_t number = g.begin(e);
  if (e.elements == 0) return;
  api::context here = nullptr;
  check(driver().context_get(&here), "asking for the current context");
  const auto q = static_cast<api::stream>(stream);
  auto& c = all.of(g, here, e);
  const auto* const from = static_cast<const char*>(in);
  auto* const to = static_cast<char*>(out);
  try {
    detail::copy_own_part(g, e, from, to, q);
    const api::event begins = all.mark(here, q);
    all.settle(c, g, here, e, [&] { return detail::ask_nccl(c.handle, g, e, from, to, q); });
    all.note(g, c, number, e, here, q, begins);
  } catch (const std::exception& problem) {
    all.abandon(g, problem.what());
    throw;
  }
}

}  // namespace sinter::engine::run::cuda
