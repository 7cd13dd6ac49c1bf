// run/mesh/processes.hpp: the ranks of a program that are processes: how they meet, exchange and end.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../background.hpp"
#include "../kept_memory.hpp"
#include "../ranks.hpp"
#include "channel.hpp"
#include "launch.hpp"
#include "ledger.hpp"
#include "plane.hpp"

namespace sinter::engine::run {

class process_world;

/// Ranks along an axis, in processes.
class process_group final : public rank_group {
 public:
  process_group(process_world& all, std::string name, std::vector<int> members, int index, int group)
      : world_(all), name_(std::move(name)), members_(std::move(members)), index_(index), group_(group) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  std::int64_t index() const override { return index_; }
  void run(const exchange& e, const void* in, void* out) override;
  void compare(const std::string& text, const char* op, location where) override;
  std::vector<std::string> tell(const std::string& text, const char* op, location where) override;
  std::uint64_t begin(const exchange& e) override;
  void reach(std::uint64_t number) override;
  void judge(const exchange& e, std::uint64_t number, double seconds, bool& told) override;
  void fail_all(const std::string& why) override;
  std::string failure() const override;

 private:
  std::string next_key(const char* what);
  void run_on_plane(const exchange& e, const void* in, void* out, std::uint64_t number);

  process_world& world_;
  std::string name_;
  std::vector<int> members_;
  int index_, group_;
  std::uint64_t keys_ = 0;
};

/// Kernels that this process lacks.
class process_order final : public kernel_order {
 public:
  process_order(process_world& all, const std::vector<std::string>& texts);
  ~process_order() override;
  std::string_view name(std::size_t k) const override { return names_[k]; }
  bool is_mine(std::size_t k) const override { return mine_[k] != 0; }
  void give(const std::vector<std::size_t>& kernels, std::string bundle) override;
  std::vector<std::shared_ptr<const std::string>> take() override;

 private:
  process_world& world_;
  kernel_names names_;
  std::vector<char> mine_, given_;
  std::uint64_t number_;
};

class process_world final : public rank_world {
 public:
  /// Waits for the other ranks.
  process_world(const launch& l, location where) : launch_(l), ledger_(l.rank, l.size) {
    // The plane's jobs own it: one that is late goes on when this has thrown.
    const auto m = std::make_shared<meeting>();
    m->of = l;
    if (!l.libraries.empty()) {
      plane_ = std::make_unique<plane_thread>(open_mpi_plane(l.libraries));
      plane_->call(
          detail::mesh_timeout(), [m](data_plane& p) { start_plane(p, m->of); }, "the start of MPI");
      plane_->call(
          detail::mesh_timeout(), [m](data_plane& p) { meet_by_plane(p, *m); }, "the first exchange of MPI");
    } else {
      meet_by_address(*m);
    }
    channel_ = std::make_unique<control_channel>(ledger_, m->at, m->secret, std::move(m->listener));
    if (l.rank == 0) ledger_.wait_for_all(where);
  }

  int size() const override { return launch_.size; }
  int rank() const override { return launch_.rank; }
  rank_ledger& ledger() { return ledger_; }
  plane_thread* plane() { return plane_.get(); }
  const std::string& launcher_name() const { return launch_.by; }

  std::shared_ptr<rank_group> group(const std::string& name, const std::vector<int>& members, location at) override {
    const std::lock_guard lock(mutex_);
    auto& made = groups_[{name, members}];
    if (!made) {
      agree_on_group(name, members, at);
      int number = -1;
      if (plane_) {
        const auto done = std::make_shared<plane_result>();
        plane_->add(
            [this, done, members](data_plane& p) { finish(*done, [&] { done->group = p.make_group(members); }); });
        wait_for(*done, "make_mesh", at, [&] { return members; });
        number = done->group;
      }
      int index = 0;
      while (members[static_cast<std::size_t>(index)] != rank()) ++index;
      made = std::make_shared<process_group>(*this, name, members, index, number);
    }
    return made;
  }

  bool has_failed() const override { return ledger_.has_failed(); }
  bool compares_programs() const override { return true; }
  bool is_of_processes() const override { return true; }
  void agree(const std::shared_ptr<const program_guards>& g, location where) override {
    const doing now(*this, rank_state::compiling);
    ledger_.agree(g, where);
  }
  void begin_call(const std::shared_ptr<const program_guards>& g) override { ledger_.call(g); }
  void enter_compilation(bool begins, bool exchanges, location where) override {
    ledger_.enter(begins ? rank_state::compiling : rank_state::host_code);
    compiled() = {begins && exchanges, where};
  }
  /// A child of this process has none of its threads.
  std::unique_ptr<kernel_order> order_kernels(const std::vector<std::string>& texts) override {
    if (::getpid() != process_ || ledger_.is_over() || texts.size() > max_names) return nullptr;
    return std::make_unique<process_order>(*this, texts);
  }
  /// The program that this thread compiles: whether it has collectives, and its first one.
  static std::pair<bool, location>& compiled() {
    static thread_local std::pair<bool, location> now;
    return now;
  }

  /// At the end of the process: waits for the other ranks unless the mesh has failed, and ends MPI then.
  void leave() {
    const bool all = ledger_.leave();
    if (all && plane_) {
      try {
        plane_->call(
            10, [](data_plane& p) { p.end(); }, "the end of MPI");
      } catch (const std::exception& problem) {
        logs::write("warning", problem.what());
      }
    }
    if (!all && plane_) plane_->stop();
    channel_.reset();
  }

  /// What a job of the plane leaves; read under the ledger's lock.
  struct plane_result {
    bool done = false;
    int group = -1;
    std::string problem;
    std::atomic<bool> given_up{false};
  };
  /// Runs f on the plane's thread for someone who waits in wait_for().
  template <class F>
  void finish(plane_result& r, const F& f) {
    std::string problem;
    try {
      f();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    ledger_.update([&] {
      r.done = true;
      r.problem = problem;
    });
  }
  template <class Missing>
  void wait_for(plane_result& r, const char* op, location where, const Missing& missing) {
    ledger_.wait(
        op, where, op, [&] { return r.done; }, missing);
    if (r.problem.empty()) return;
    ledger_.fail("rank " + std::to_string(rank()) + ": " + r.problem);
    ledger_.throw_failure(op, where);
  }

 private:
  struct doing {
    doing(process_world& w, rank_state s) : world(w) { world.ledger_.enter(s); }
    ~doing() { world.ledger_.enter(rank_state::host_code); }
    process_world& world;
  };

  /// Where the ranks meet.
  struct meeting {
    launch of;
    meeting_point at;
    std::string secret;
    detail::file_handle listener;
  };

  static void start_plane(data_plane& p, const launch& of) {
    const auto [rank, size] = p.start();
    if (rank != of.rank || size != of.size)
      throw system_error(
          "[make_mesh] the launcher (" + of.by + ") says rank " + std::to_string(of.rank) + " of " +
          std::to_string(of.size) + ", MPI says rank " + std::to_string(rank) + " of " + std::to_string(size) +
          "; start the program with the mpirun of the library, or set SINTER_LIBMPI to the library of the "
          "mpirun");
  }

  /// Rank 0 listens, and MPI tells the others where, and a secret.
  static void meet_by_plane(data_plane& p, meeting& m) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::vector<char> hosts(host.size() * static_cast<std::size_t>(m.of.size));
    p.gather(host.data(), static_cast<int>(host.size()), hosts.data());
    bool one_host = true;
    for (std::size_t k = 0; k < hosts.size(); k += host.size())
      one_host = one_host && std::memcmp(host.data(), hosts.data() + k, host.size()) == 0;
    std::array<char, 4096> told{};
    if (m.of.rank == 0) {
      std::string text;
      try {
        m.at.hosts = {one_host ? "127.0.0.1" : "::"};
        m.listener = detail::listen_at(m.at);
        if (!one_host) m.at.hosts = detail::own_addresses();
        text = detail::random_bytes();
        put_number(text, static_cast<std::uint64_t>(m.at.port), 4);
        std::string list;
        for (const auto& h : m.at.hosts) {
          std::string more;
          put_text(more, h);
          if (text.size() + list.size() + more.size() + 4 < told.size()) list += more;
        }
        put_text(text, list);
      } catch (const system_error&) {
        p.broadcast(told.data(), static_cast<int>(told.size()));  // no port
        throw;
      }
      std::memcpy(told.data(), text.data(), text.size());
    }
    p.broadcast(told.data(), static_cast<int>(told.size()));
    std::string_view rest(told.data(), told.size()), list, host_name;
    m.secret = rest.substr(0, 32);
    rest.remove_prefix(32);
    std::uint64_t port = 0;
    take_number(rest, port, 4);
    if (port == 0) throw system_error("[make_mesh] rank 0 cannot listen for the other ranks");
    m.at = {};
    m.at.port = static_cast<int>(port);
    take_text(rest, list);
    while (take_text(list, host_name)) m.at.hosts.push_back(std::string(host_name));
  }

  /// Rank 0 listens at the address that all have been given.
  static void meet_by_address(meeting& m) {
    m.secret = detail::secret_of_environment();
    m.at.port = m.of.port;
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    if (!m.secret.empty()) m.at.hosts = {m.of.host};
    else if (m.of.host != name.data() && !detail::is_loopback_host(m.of.host))
      fail("make_mesh",
           "rank 0 is on " + m.of.host +
               ", and without a secret ranks meet on one host only; set SINTER_MESH_SECRET on all ranks to the same 64 "
               "hexadecimal digits, as `openssl rand -hex 32` prints, or start the program with mpirun",
           location{});
    if (m.of.rank == 0) m.listener = detail::listen_at(m.at);
  }

  void agree_on_group(const std::string& name, const std::vector<int>& members, location at) {
    std::string list;
    for (const int r : members) list += " " + std::to_string(r);
    const std::string key = "group " + std::to_string(groups_.size()) + list;
    const auto names = ledger_.exchange_texts(key, members, name, "make_mesh", at);
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (names[k] == name) continue;
      ledger_.fail("rank " + std::to_string(members[k]) + " makes a mesh with " + names[k] + ", rank " +
                   std::to_string(rank()) + " with " + name + "; all ranks make the same meshes in the same order");
      ledger_.throw_failure("make_mesh", at);
    }
  }

  launch launch_;
  const ::pid_t process_ = ::getpid();
  rank_ledger ledger_;
  std::unique_ptr<plane_thread> plane_;
  std::unique_ptr<control_channel> channel_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<process_group>> groups_;
};

inline void process_group::run(const exchange& e, const void* in, void* out) {
  rank_ledger& ledger = world_.ledger();
  if (ledger.has_failed()) ledger.throw_failure(run::name(e.what), e.where);
  if (!world_.plane())
    fail(run::name(e.what),
         "processes that " + world_.launcher_name() +
             " starts have no data plane on CPUs; use GPUs (SINTER_DEVICE=cuda), or start the program with mpirun, "
             "which "
             "makes MPI's ranks of them",
         e.where);
  const std::uint64_t number = ledger.begin(e);
  if (e.is_compared) compare(e.text(), run::name(e.what), e.where);
  run_on_plane(e, in, out, number);
  ledger.enter(rank_state::host_code);
}

inline void process_group::run_on_plane(const exchange& e, const void* in, void* out, std::uint64_t number) {
  rank_ledger& ledger = world_.ledger();
  const auto done = std::make_shared<process_world::plane_result>();
  process_world* const all = &world_;
  world_.plane()->add([all, done, e, in, out, group = group_, index = index_](data_plane& p) {
    if (done->given_up) return;
    all->finish(*done,
                [&] { p.run(group, index, e, in, out, [&] { return done->given_up || all->ledger().has_failed(); }); });
  });
  try {
    world_.wait_for(*done, run::name(e.what), e.where, [&] { return ledger.behind(members_, number); });
    if (ledger.has_failed()) ledger.throw_failure(run::name(e.what), e.where);
  } catch (...) {
    // MPI cannot take a pending exchange back.
    done->given_up = true;
    const bool takes_parts = e.what == exchange_kind::reduce_scatter || e.what == exchange_kind::all_to_all;
    const bool gives_parts = e.what == exchange_kind::all_gather || e.what == exchange_kind::all_to_all;
    const std::size_t bytes = e.elements * size_of(e.type), p = members_.size();
    kept_memory::get().keep(in, takes_parts ? bytes * p : bytes);
    kept_memory::get().keep(out, gives_parts ? bytes * p : bytes);
    throw;
  }
}

inline void process_group::compare(const std::string& text, const char* op, location where) {
  rank_ledger& ledger = world_.ledger();
  // The place is shown, not compared.
  const std::string own = text + '\n' + sinter::detail::located(text, where);
  const auto texts = ledger.exchange_texts(next_key("compare "), members_, own, op, where);
  const auto compared = [](const std::string& t) { return t.substr(0, t.find('\n')); };
  const auto shown = [](const std::string& t) { return t.substr(t.find('\n') + 1); };
  for (std::size_t k = 1; k < texts.size(); ++k) {
    if (compared(texts[k]) == compared(texts[0])) continue;
    ledger.fail("ranks of " + name_ + " do different things: rank " + std::to_string(members_[0]) + " does " +
                shown(texts[0]) + ", rank " + std::to_string(members_[k]) + " does " + shown(texts[k]) +
                "; all ranks have to call the same function with arguments of the same extents");
    ledger.throw_failure(op, where);
  }
}

/// Equal on all ranks of the group, and new.
inline std::string process_group::next_key(const char* what) {
  std::string key = what + std::to_string(keys_++) + " " + name_;
  for (const int r : members_) key += " " + std::to_string(r);
  return key;
}
inline std::vector<std::string> process_group::tell(const std::string& text, const char* op, location where) {
  return world_.ledger().exchange_texts(next_key("tell "), members_, text, op, where);
}
inline std::uint64_t process_group::begin(const exchange& e) {
  rank_ledger& ledger = world_.ledger();
  if (ledger.has_failed()) ledger.throw_failure(run::name(e.what), e.where);
  const std::uint64_t number = ledger.begin(e);
  ledger.enter(rank_state::host_code);
  if (e.is_compared) compare(e.text(), run::name(e.what), e.where);
  return number;
}
inline void process_group::reach(std::uint64_t number) { world_.ledger().reach(number); }
inline void process_group::judge(const exchange& e, std::uint64_t number, double seconds, bool& told) {
  const rank_ledger& ledger = world_.ledger();
  world_.ledger().judge(
      sinter::detail::located(run::name(e.what), e.where), seconds, told,
      [&] { return ledger.behind(members_, number, false); }, [&] { return ledger.is_any_busy(members_, number); });
}
inline void process_group::fail_all(const std::string& why) {
  world_.ledger().fail("rank " + std::to_string(world_.rank()) + ": " + why);
}
inline std::string process_group::failure() const {
  return world_.ledger().has_failed() ? world_.ledger().failure() : std::string();
}

inline process_order::process_order(process_world& all, const std::vector<std::string>& texts)
    : world_(all), given_(texts.size(), 0) {
  for (const auto& t : texts) names_.emplace_back(bytes_of(sha256_of(t)));
  number_ = world_.ledger().order(names_);
  for (std::size_t k = 0; k < names_.size(); ++k) mine_.push_back(world_.ledger().is_mine(number_, k) ? 1 : 0);
}
inline process_order::~process_order() {
  kernel_names lacking;
  for (std::size_t k = 0; k < names_.size(); ++k)
    if (mine_[k] && !given_[k]) lacking.push_back(names_[k]);
  world_.ledger().withdraw(lacking);
  world_.ledger().end_order(number_);
}
inline void process_order::give(const std::vector<std::size_t>& kernels, std::string bundle) {
  kernel_names names;
  for (const std::size_t k : kernels) {
    given_[k] = 1;
    names.push_back(names_[k]);
  }
  world_.ledger().give(std::move(names), std::move(bundle));
}
inline std::vector<std::shared_ptr<const std::string>> process_order::take() {
  rank_ledger& ledger = world_.ledger();
  const auto [exchanges, where] = process_world::compiled();
  const bool shows = !background::is_here();
  const auto came = ledger.await(number_, shows);
  if (shows) ledger.enter(rank_state::compiling);
  // Not a problem of the compiler, so that nothing is interpreted instead.
  if (exchanges && ledger.has_failed()) throw sinter::detail::momentary_error(ledger.told_failure("compile", where));
  std::vector<std::shared_ptr<const std::string>> out;
  for (const auto& b : came) out.emplace_back(b, &b->bytes);
  return out;
}

/// Makes the processes that a launcher started this program's ranks, once; waits for them. A process alone stays alone.
SINTER_API void join_processes(location where) {
  if (world_of_thread()) return;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (world_of_process().load()) return;
  const launch l = find_launch();
  if (l.size == 1) return;
  static process_world* made = nullptr;
  made = new process_world(l, where);
  world_of_process().store(made);
  // A child process has the object, and not its threads.
  static const ::pid_t of = ::getpid();
  std::atexit([] {
    if (::getpid() == of) made->leave();
  });
}

/// This process's rank and their number, before the ranks meet as well.
SINTER_API std::pair<int, int> rank_of_process() {
  if (world_of_thread() || world_of_process().load()) return {world().rank(), world().size()};
  const launch l = find_launch();
  return {l.rank, l.size};
}

}  // namespace sinter::engine::run
