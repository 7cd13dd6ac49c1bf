// run/host/process.hpp: runs a program with a time limit; never through a shell.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "../../base/series.hpp"
#include "../file.hpp"

extern char** environ;

namespace sinter::engine::run {

/// How a program ended.
enum class outcome : unsigned char { ok, missing, failed, killed, timed_out, produced_nothing };

struct process_result {
  outcome how = outcome::ok;
  int code = 0;     ///< exit status, signal number (0: unknown), or errno when the program could not be started
  std::string log;  ///< the first MiB of its stdout and stderr
};

namespace detail {

using clock = std::chrono::steady_clock;

/// Waits until the child ends or the deadline passes; true if it has ended.
inline bool wait_until(pid_t child, clock::time_point deadline, int& status, bool& reaped) {
#if defined(SYS_pidfd_open)
  const file_handle handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
#else
  const file_handle handle;
#endif
  for (auto pause = std::chrono::microseconds(200);; pause = std::min(pause * 2, std::chrono::microseconds(5000))) {
    const pid_t got = ::waitpid(child, &status, WNOHANG);
    reaped = got == child;
    // ECHILD: the program ignores SIGCHLD or has a handler that reaps; the status is lost.
    if (reaped || (got < 0 && errno == ECHILD)) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    if (left <= 0) return false;
    if (handle) {
      pollfd wait{handle.get(), POLLIN, 0};
      ::poll(&wait, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
}

/// The attributes and redirections of a child: its own process group, default signals, no input, output to a file.
class spawn_setup {
 public:
  explicit spawn_setup(const std::string& log_path) {
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_init(&actions_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions_, 1, 2);
  }
  spawn_setup(const spawn_setup&) = delete;
  spawn_setup& operator=(const spawn_setup&) = delete;
  ~spawn_setup() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  posix_spawnattr_t* attributes() { return &attributes_; }
  posix_spawn_file_actions_t* actions() { return &actions_; }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

/// Throws system_error if the program could not write into `folder`, which is not the program's fault.
SINTER_API process_result check_files(const std::string& folder, process_result r) {
  // LLVM's programs abort if they cannot write.
  const bool by_itself = r.how == outcome::killed && (r.code == SIGXFSZ || r.code == SIGABRT);
  const bool may = r.how == outcome::failed || r.how == outcome::missing || by_itself;
  const std::string why = may ? why_no_files(folder, r.log, r.how == outcome::killed ? r.code : 0) : "";
  if (!why.empty()) throw system_error(why);
  return r;
}

}  // namespace detail

/// Runs argv[0], a path, with these arguments; stdout and stderr go to `folder`/log, temporary files into `folder`. After
/// `limit` the program and its children are killed. Throws system_error if it fails for lack of room.
SINTER_API process_result run_process(const series<std::string>& argv, const std::string& folder,
                                      std::chrono::duration<double> limit) {
  series<char*> arguments, variables;
  for (const auto& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  std::string temporary = "TMPDIR=" + folder;
  for (char** v = environ; *v != nullptr; ++v)
    if (std::strncmp(*v, "TMPDIR=", 7) != 0) variables.push_back(*v);
  variables.push_back(temporary.data());
  variables.push_back(nullptr);
  const std::string log_path = folder + "/log";
  detail::spawn_setup setup(log_path);
  const auto deadline = detail::clock::now() + std::chrono::duration_cast<detail::clock::duration>(limit);
  pid_t child = 0;
  if (const int e =
          ::posix_spawn(&child, arguments[0], setup.actions(), setup.attributes(), arguments.data(), variables.data()))
    return detail::check_files(folder, {outcome::missing, e, std::strerror(e)});
  process_result result;
  int status = 0;
  bool reaped = false;
  if (!detail::wait_until(child, deadline, status, reaped)) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    result.how = outcome::timed_out;
  } else if (reaped && WIFSIGNALED(status)) {
    ::kill(-child, SIGKILL);
    result.how = outcome::killed;
    result.code = WTERMSIG(status);
  } else if (reaped && WEXITSTATUS(status) != 0) {
    result.how = outcome::failed;
    result.code = WEXITSTATUS(status);
  }
  result.log = detail::read_file(log_path, std::size_t{1} << 20);
  return detail::check_files(folder, std::move(result));
}

}  // namespace sinter::engine::run
