// run/mesh/plane.hpp: the data plane of MPI: exchanges of ranks that are processes. One thread calls MPI.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../helper_signals.hpp"
#include "../ranks.hpp"
#include "mpi.hpp"

namespace sinter::engine::run {

/// All of its functions run on one thread.
class data_plane {
 public:
  virtual ~data_plane() = default;
  /// Returns this rank and their number. system_error if MPI does not start, or may not be called from this thread.
  virtual std::pair<int, int> start() = 0;
  virtual void broadcast(void* data, int bytes) = 0;  ///< from rank 0
  virtual void gather(const void* data, int bytes, void* all) = 0;
  /// The number of a new communicator of these ranks, in their order. They all call it.
  virtual int make_group(const std::vector<int>& members) = 0;
  /// False if it was given up because of `stop`; then the arrays stay in use.
  virtual bool run(int group, int index, const exchange& e, const void* in, void* out,
                   const std::function<bool()>& stop) = 0;
  /// Lets messages of earlier exchanges go on.
  virtual void progress() = 0;
  virtual void end() = 0;  ///< nothing else is called after it
};

template <class Handle>
class mpi_plane final : public data_plane {
 public:
  explicit mpi_plane(mpi_library l) : library_(std::move(l)) {
    if (const char* const lacks = mpi_.load(library_.handle))
      throw system_error("[make_mesh] " + library_.name + " lacks " + lacks + "; it is no MPI 3 library");
  }

  std::pair<int, int> start() override {
    constexpr int serialized = 2, multiple = 3;
    int before = 0, level = 0;
    mpi_.initialized(&before);
    if (before) {
      mpi_.query_thread(&level);
      if (level < multiple)
        throw system_error("[make_mesh] the program has initialised MPI for its own threads alone (level " +
                           std::to_string(level) +
                           "); call MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it to make_mesh");
    } else if (mpi_.init_thread(nullptr, nullptr, serialized, &level) != 0) {
      throw system_error("[make_mesh] MPI_Init_thread of " + library_.name + " fails");
    }
    owns_ = !before;
    Handle all = detail::mpi_handle<Handle>(library_.handle, detail::mpi_world);
    mpi_.comm_set_errhandler(all, handle(detail::mpi_errors_return));
    check(mpi_.comm_dup(all, &world_), "MPI_Comm_dup");
    check(mpi_.comm_set_errhandler(world_, handle(detail::mpi_errors_return)), "MPI_Comm_set_errhandler");
    std::pair<int, int> out;
    check(mpi_.comm_rank(world_, &out.first), "MPI_Comm_rank");
    check(mpi_.comm_size(world_, &out.second), "MPI_Comm_size");
    runs_ = true;
    return out;
  }
  void broadcast(void* data, int bytes) override {
    check(mpi_.bcast(data, bytes, handle(detail::mpi_type<std::uint8_t>()), 0, world_), "MPI_Bcast");
  }
  void gather(const void* data, int bytes, void* all) override {
    const Handle byte = handle(detail::mpi_type<std::uint8_t>());
    check(mpi_.allgather(data, bytes, byte, all, bytes, byte, world_), "MPI_Allgather");
  }
  int make_group(const std::vector<int>& members) override {
    Handle all{}, some{}, comm{};
    check(mpi_.comm_group(world_, &all), "MPI_Comm_group");
    check(mpi_.group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
    check(mpi_.comm_create_group(world_, some, 1, &comm), "MPI_Comm_create_group");
    check(mpi_.comm_set_errhandler(comm, handle(detail::mpi_errors_return)), "MPI_Comm_set_errhandler");
    comms_.push_back(comm);
    return static_cast<int>(comms_.size()) - 1;
  }
  bool run(int group, int index, const exchange& e, const void* in, void* out,
           const std::function<bool()>& stop) override {
    constexpr std::size_t most = std::numeric_limits<int>::max();
    if (e.elements > most)
      throw system_error("MPI exchanges at most " + std::to_string(most) + " elements of each rank; cut the tensor");
    pending_.clear();
    const Handle comm = comms_[static_cast<std::size_t>(group)];
    visit_dtype(e.type, [&]<class T>(std::type_identity<T>) { begin<T>(comm, index, e, in, out); });
    return wait(stop);
  }
  void progress() override {
    int flag = 0;
    // A program that has initialised MPI itself ends it as well.
    if (runs_) mpi_.finalized(&flag);
    if (flag) runs_ = false;
    if (!runs_) return;
    mpi_.iprobe(0, tag, world_, &flag, status_.data());
  }
  void end() override {
    runs_ = false;
    if (owns_) mpi_.finalize();
  }

 private:
  static constexpr int tag = 7;

  Handle handle(const detail::mpi_constant& c) const { return detail::mpi_handle<Handle>(library_.handle, c); }
  void check(int code, const char* what) {
    if (code == 0) return;
    std::array<char, 2048> text{};  // MPICH writes at most 512, Open MPI 256
    int length = 0;
    mpi_.error_string(code, text.data(), &length);
    throw system_error(std::string(what) + ": " + text.data());
  }

  template <class T>
  void begin(Handle comm, int index, const exchange& e, const void* in, void* out) {
    const Handle type = handle(detail::mpi_type<T>());
    const int n = static_cast<int>(e.elements);
    switch (e.what) {
      case exchange_kind::all_reduce:
        return check(mpi_.iallreduce(in, out, n, type, op<T>(e.how), comm, added()), "MPI_Iallreduce");
      case exchange_kind::reduce_scatter:
        return check(mpi_.ireduce_scatter_block(in, out, n, type, op<T>(e.how), comm, added()),
                     "MPI_Ireduce_scatter_block");
      case exchange_kind::all_gather:
        return check(mpi_.iallgather(in, n, type, out, n, type, comm, added()), "MPI_Iallgather");
      case exchange_kind::all_to_all:
        return check(mpi_.ialltoall(in, n, type, out, n, type, comm, added()), "MPI_Ialltoall");
      case exchange_kind::broadcast:
        if (e.root == index && n > 0) std::memcpy(out, in, e.elements * sizeof(T));
        return check(mpi_.ibcast(out, n, type, static_cast<int>(e.root), comm, added()), "MPI_Ibcast");
      case exchange_kind::permute:
        return begin_permute<T>(comm, type, index, e, in, out);
    }
  }
  template <class T>
  void begin_permute(Handle comm, Handle type, int index, const exchange& e, const void* in, void* out) {
    const int n = static_cast<int>(e.elements);
    const auto source = static_cast<int>(e.sources[static_cast<std::size_t>(index)]);
    if (source == index && n > 0) std::memcpy(out, in, e.elements * sizeof(T));
    else if (source < 0 && n > 0) std::memset(out, 0, e.elements * sizeof(T));
    else if (source >= 0 && source != index) check(mpi_.irecv(out, n, type, source, tag, comm, added()), "MPI_Irecv");
    for (std::size_t to = 0; to < e.sources.size(); ++to)
      if (e.sources[to] == index && static_cast<int>(to) != index)
        check(mpi_.isend(in, n, type, static_cast<int>(to), tag, comm, added()), "MPI_Isend");
  }
  Handle* added() { return &pending_.emplace_back(); }

  /// MPI's own sum where it is that of combine_ranks.
  template <class T>
  Handle op(reduction how) {
    if (detail::has_mpi_sum<T> && how == reduction::sum) return handle(detail::mpi_sum);
    auto& made = ops_[{dtype_of<T>, how}];
    if (made.second) return made.first;
    const auto f = how == reduction::sum    ? &detail::combine_for_mpi<T, reduction::sum, Handle>
                   : how == reduction::most ? &detail::combine_for_mpi<T, reduction::most, Handle>
                                            : &detail::combine_for_mpi<T, reduction::least, Handle>;
    check(mpi_.op_create(f, 1, &made.first), "MPI_Op_create");
    made.second = true;
    return made.first;
  }

  /// Tests the pending requests until they are complete. The thread rests the longer it waits, since the core may be another
  /// rank's.
  bool wait(const std::function<bool()>& stop) {
    for (std::uint64_t turn = 0; !pending_.empty(); ++turn) {
      int done = 0;
      check(mpi_.test(&pending_.back(), &done, status_.data()), "MPI_Test");
      if (done) {
        pending_.pop_back();
        turn = 0;
        continue;
      }
      // A request that is not the last may be what the others wait for: any test drives all.
      if (turn % 64 == 63 && stop()) return false;
      if (turn > 4000) std::this_thread::sleep_for(std::chrono::microseconds(50));
      else if (turn > 200) std::this_thread::yield();
    }
    return true;
  }

  mpi_library library_;
  detail::mpi_functions<Handle> mpi_{};
  bool owns_ = false, runs_ = false;
  Handle world_{};
  std::vector<Handle> comms_;
  std::deque<Handle> pending_;  ///< whose elements do not move
  std::map<std::pair<dtype, reduction>, std::pair<Handle, bool>> ops_;
  alignas(16) std::array<char, 256> status_{};
};

inline std::unique_ptr<data_plane> open_mpi_plane(const std::string& names) {
  mpi_library l = mpi_library::open(names);
  if (l.is_open_mpi) return std::make_unique<mpi_plane<void*>>(std::move(l));
  return std::make_unique<mpi_plane<int>>(std::move(l));
}

/// The thread that calls MPI. It is never joined: a call that waits for a dead rank does not return.
class plane_thread {
 public:
  explicit plane_thread(std::unique_ptr<data_plane> plane) : state_(std::make_shared<shared>()) {
    state_->plane = std::move(plane);
    const helper_signals left_alone;
    std::thread([s = state_] { work(*s); }).detach();
  }

  void add(std::function<void(data_plane&)> job) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->jobs.push_back(std::move(job));
    }
    state_->changed.notify_one();
  }
  /// From now on MPI is called by jobs alone.
  void stop() { state_->stopped = true; }
  /// Runs f(plane), and returns once it has. Rethrows. system_error after `seconds`.
  void call(double seconds, const std::function<void(data_plane&)>& f, const char* what) {
    struct result {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      std::exception_ptr problem;
    };
    const auto r = std::make_shared<result>();
    add([r, f](data_plane& p) {
      std::exception_ptr problem;
      try {
        f(p);
      } catch (...) {
        problem = std::current_exception();
      }
      const std::lock_guard lock(r->mutex);
      r->done = true;
      r->problem = problem;
      r->changed.notify_all();
    });
    std::unique_lock lock(r->mutex);
    if (!r->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return r->done; }))
      throw system_error(std::string("[make_mesh] ") + what + " does not end; have all ranks started?");
    if (r->problem) std::rethrow_exception(r->problem);
  }

 private:
  struct shared {
    std::unique_ptr<data_plane> plane;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void(data_plane&)>> jobs;
    std::atomic<bool> stopped{false};
  };

  /// Between jobs MPI is called as well, the less often the longer nothing happens: its messages go on only meanwhile, also those
  /// of a call that has returned here and not elsewhere.
  static void work(shared& s) {
    constexpr auto first = std::chrono::microseconds(100), last = std::chrono::microseconds(20000);
    auto pause = first;
    for (bool started = false;;) {
      std::function<void(data_plane&)> job;
      {
        std::unique_lock lock(s.mutex);
        const auto some = [&] { return !s.jobs.empty(); };
        if (started) s.changed.wait_for(lock, pause, some);
        else s.changed.wait(lock, some);
        if (some()) {
          job = std::move(s.jobs.front());
          s.jobs.pop_front();
        }
      }
      started = true;
      pause = job ? first : std::min(2 * pause, last);
      if (job) job(*s.plane);
      else if (!s.stopped) s.plane->progress();
    }
  }

  std::shared_ptr<shared> state_;
};

}  // namespace sinter::engine::run
