// base/size_signal.hpp: writes files under a limit on file sizes.
#pragma once

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace sinter::detail {

/// Blocks SIGXFSZ on this thread, so that a file size limit is an error of write() and does not end the program.
class no_size_signal {
 public:
  no_size_signal() {
    sigset_t pending;
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
    was_pending_ = ::sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  }
  no_size_signal(const no_size_signal&) = delete;
  no_size_signal& operator=(const no_size_signal&) = delete;
  ~no_size_signal() {
    const int saved = errno;
    const timespec now{};
    if (!was_pending_) ::sigtimedwait(&only_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }

 private:
  sigset_t only_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace sinter::detail
