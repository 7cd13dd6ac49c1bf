// run/host/forked.hpp: makes a forked child compute on one thread if its parent has several.
#pragma once

#if defined(_OPENMP) && !defined(__clang__)
#include <omp.h>
#include <pthread.h>
#include <sys/stat.h>

namespace sinter::engine::run {

/// GCC's OpenMP would wait in the child for threads that only the parent has; LLVM's starts its own threads.
class fork_watch {
 public:
  fork_watch() { ::pthread_atfork(before, nullptr, in_child); }

 private:
  inline static thread_local bool has_threads_ = false;

  static void before() {
    struct stat tasks {};  // a folder has two links, and one for each subfolder
    has_threads_ = ::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink > 3;
  }
  static void in_child() {
    if (has_threads_) ::omp_set_num_threads(1);
  }
};

inline const fork_watch watches_forks;

}  // namespace sinter::engine::run
#endif
