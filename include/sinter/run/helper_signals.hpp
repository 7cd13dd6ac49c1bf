// run/helper_signals.hpp: the signals of threads that the library starts.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace sinter::engine::run {

/// While it lives, threads that this thread starts leave signals to the program's own threads. A thread's own faults stay open: the
/// system ends a process without its handler's word where such a signal is blocked.
class helper_signals {
 public:
  helper_signals() {
    sigset_t others;
    sigfillset(&others);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&others, fault);
    ::pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  helper_signals(const helper_signals&) = delete;
  helper_signals& operator=(const helper_signals&) = delete;
  ~helper_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace sinter::engine::run
