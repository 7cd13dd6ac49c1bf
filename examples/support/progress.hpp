// examples/support/progress.hpp: a progress bar on a terminal; a line for each tenth of the way elsewhere.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

class progress {
 public:
  explicit progress(int total) : total_(total) {}

  /// Shows that `done` of the total are done, with a few words.
  void show(int done, const std::string& words) {
    if (terminal_) {
      constexpr int width = 30;
      const int filled = width * done / total_;
      std::string bar;
      for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
      const char* end = done == total_ ? "\n" : "";
      std::printf("\r  %s %3d %%  %s\x1b[K%s", bar.c_str(), 100 * done / total_, words.c_str(), end);
    } else if (10 * done / total_ != tenth_) {
      tenth_ = 10 * done / total_;
      std::printf("  %3d %%  %s\n", 100 * done / total_, words.c_str());
    }
    std::fflush(stdout);
  }

 private:
  int total_;
  int tenth_ = 0;
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
};
